"""The advice for each cause in the activity log, for administrators and developers. D24.

Each cause that is not in FIXES is the lower-case name of a fault. The advice for such a cause is the `problem` and the
`fix` of the fault. The public answer contains both too. No public answer contains a sentence of FIXES.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _  # marks the sentences for translation

from accounts.errors import AccountFault
from config.infrastructure.errors import Fault, SiteFault
from oauth_bridge.errors import OAuthFault

NEVER_EXCHANGED = "code_never_exchanged"
UNCONFIRMED = "address_unconfirmed"
FACTOR_AWAITED = "second_factor_awaited"
# The causes of steps that wait for the person. They are recorded but not counted, because usually the person goes on.
WAITING = frozenset({UNCONFIRMED, FACTOR_AWAITED})

_ENDED_WITH_ALL = _(
    "All codes and tokens of the application were ended: it was switched off, everybody's access was ended, or a "
    "client secret had leaked. The person starts again."
)
_SEND_ONCE = _("Send the parameter once, with a value, as the guide for developers shows.")
_CALLBACK = _("Compare the application's setting with the callback addresses that are registered here.")
_LIMIT = _(
    "Something asks more often than the limit allows: a loop in the application, an attack, or too small a limit."
)
_CLOCK = _("The person types the code that the app shows now. If it stays wrong, the clock of the phone is off.")
_BUSY = _("Many passwords are checked at once. If it lasts, give the service more processors, or look for an attack.")
_PERSON_WAITS = _("The person waits until the limit ends. If many addresses are in the log, it is an attack.")
_PERSON_WAITS_OR_IS_UNLOCKED = _(
    "The person waits until the limit ends, or an administrator unlocks the account on the person's page."
    " If many addresses are in the log, it is an attack."
)

FIXES = {
    # Authorize
    "client_id_missing": _("Put the client_id of the application's page into the application's link."),
    "client_unknown": _(
        "No application has the client_id that was sent: it is mistyped, or of another installation."
        " Copy the client_id from the application's page here into the application."
    ),
    "client_deleted": _("The application was deleted. Register it again, and change its client_id there."),
    "client_disabled": _("The application is switched off. Switch it on if people should sign in with it."),
    "redirect_uri_missing": _("Set the callback address in the application, exactly as it is registered here."),
    "redirect_uri_mismatch": _CALLBACK,
    "response_type_missing": _("Set the response type to code in the application."),
    "response_type": _("Set the response type to code in the application. The implicit flow does not exist here."),
    "challenge_needed": _("Switch PKCE on in the application, or register it as confidential and give it a secret."),
    "challenge_missing": _("Send code_challenge and code_challenge_method, or neither."),
    "challenge_method_missing": _("Set the PKCE method to S256 in the application."),
    "challenge_plain": _("Set the PKCE method to S256 in the application."),
    "challenge_method_other": _("Set the PKCE method to S256 in the application."),
    "challenge_malformed": _("Send the SHA-256 digest of the verifier in base64url without padding as code_challenge."),
    "csrf": _("Nothing to change: the page was open for long or in two windows, and the person was asked again."),
    "csrf_no_cookie": _(
        "The browser sent no cookie: it blocks cookies of this site, or deletes them. The person allows them."
    ),
    "csrf_origin": _(
        "The browser named another site as the origin of the form, or hid it: an extension, a proxy that changes"
        " headers, or a page that imitates this one."
    ),
    "link_cut": _("The link was cut, perhaps by a mail program or a chat. The person starts again in the application."),
    "link_not_ours": _("The link was changed, or SECRET_KEY was replaced without a fallback. The person starts again."),
    "client_id_not_in_form": _(
        "The token request has no client_id. Send it in the form beside the code, or with the secret by HTTP Basic."
    ),
    "code_missing": _("The callback was opened without a code. Let the application read the parameter error first."),
    "grant_type": _("Use grant_type=authorization_code. No refresh token and no other grant exists here."),
    "grant_type_missing": _SEND_ONCE,
    "missing": _SEND_ONCE,
    "called_by_script": _(
        "A script called the link (fetch), and the browser stopped it (CORS). Send the browser there, as with a link."
    ),
    "framed": _(
        "The link was opened in a frame, where browsers show no page of this service. Open it in the whole window."
    ),
    # Limits
    "throttled_authorize": _(
        "A limit is reached: RATE_AUTHORIZE, by network address. Look for a loop in the application, or an attack."
    ),
    "throttled_token": _(
        "A limit is reached: RATE_TOKEN, by application. Look for a loop in the application, or raise it."
    ),
    "throttled_token_failures": _(
        "A limit is reached: RATE_TOKEN_FAILURES, by network address and application. Mend the failures before it."
    ),
    "throttled_userinfo": _("A limit is reached: RATE_USERINFO, by application. Read a profile once for each sign-in."),
    "throttled_userinfo_failures": _(
        "A limit is reached: RATE_USERINFO_FAILURES, by network address. Mend the failures before it."
    ),
    "sign_in_limited_account": _PERSON_WAITS_OR_IS_UNLOCKED,
    "sign_in_limited_address": _PERSON_WAITS,
    "sign_in_limited_everybody": _PERSON_WAITS,
    "sign_ins_begun_limited": _PERSON_WAITS,
    "sign_ins_done_limited": _PERSON_WAITS,
    "factor_limited": _PERSON_WAITS_OR_IS_UNLOCKED,
    "mails_limited": _(
        "One network address asked for very many mails. The person waits, or looks at the mails it got."
    ),
    "codes_limited": _("The mailbox got many codes in a short time. The person uses the newest mail."),
    "passkeys_limited": _("One network address asked for passkeys very often. The person waits."),
    "new_address_limited": _PERSON_WAITS,
    "new_password_limited": _PERSON_WAITS,
    "reset_limited": _PERSON_WAITS,
    "sign_up_limited": _PERSON_WAITS,
    # Signing in
    "account_unknown": _("No account has this address. The person corrects it or signs up."),
    "password_wrong": _("The person types the password again, or chooses a new one by mail."),
    "account_inactive": _("The account is switched off. Switch it on under People if the person may sign in."),
    "account_without_password": _(
        "The account has no password. The person signs in with a passkey, or sets one by mail."
    ),
    UNCONFIRMED: _(
        "The person types the code from the mail. Whoever has none signs in again, which sends another one."
    ),
    FACTOR_AWAITED: _(
        "The password was right. The person types the code of the app, or uses the passkey or a recovery code. If all"
        " are lost, remove the second factors on the person's page."
    ),
    "sign_in_ended": _("Nothing to change: the account's password, address or second factor changed meanwhile."),
    "address_taken_at_sign_up": _("The person has an account with this address already, and was told so by mail."),
    "invitation_invalid": _("The invitation has ended or was used. Send another one."),
    "sign_up_closed": _("Sign-up is closed (SIGN_UP). Make the account for the person, or open sign-up."),
    "not_invited": _("The invitation is for another address. Send one to this address."),
    "mail_code_wrong": _("The person types the code of the newest mail."),
    "mail_code_expired": _("The person starts again and uses the newest mail, in the same browser."),
    "account_deleted": _("The account was deleted meanwhile."),
    "password_busy": _BUSY,
    "factor_used": _("The same code was sent twice. The person waits for the next one."),
    "factor_wrong": _CLOCK,
    "app_code_wrong": _CLOCK,
    "recovery_code_wrong": _("The person uses another recovery code, or an administrator removes the second factors."),
    "passkey_unknown": _("The passkey was removed here, or its answer came too late. The person uses the password."),
    "passkey_of_another_origin": _(
        "The passkey was made at another host. Compare AUTH_URL with the address people open."
    ),
    "passkey_refused": _("The device refused. The person tries again, or uses the password."),
    # Consent
    "refused": _("Nothing to change: the person pressed Refuse."),
    "no_verified_email": _("The person must confirm the address. The page offers to send the mail again."),
    "attempt_finished": _("Nothing to change: the person went back to a page after signing in."),
    "consent_page_outdated": _("Nothing to change: the person was asked again. If it happens often, cookies get lost."),
    "not_admitted": _("The person is in none of the application's groups. Add them to one if they may use it."),
    # OpenID Connect
    "login_required": _(
        "The application asked with prompt=none, and nobody was signed in. It must then ask without prompt=none."
    ),
    "consent_required": _(
        "The application asked with prompt=none, and the person must agree first. It must then ask without prompt=none."
    ),
    "interaction_required": _(
        "The application asked with prompt=none, and the person must see a page. It must then ask without prompt=none."
    ),
    "hint": _("The id_token_hint is another application's or installation's. Send the one of the latest sign-in."),
    # Exchange
    "client_not_authenticated": _("Copy client_id and client_secret from the application's page anew."),
    "secret_missing": _("The application has a secret but sends none. Set it there."),
    "verifier_instead_of_secret": _(
        "It is confidential here but behaves as public. Send the secret, or change its kind."
    ),
    "public_without_verifier": _(
        "The application sent no code_verifier: the session that held it may be lost."
        " A public application sends a code_challenge in the link, and its code_verifier at the exchange."
    ),
    "public_with_secret": _("It is public here but sends a secret. Empty the field there, or change its kind here."),
    "secret_wrong": _(
        "No secret of this application matches the one that was sent. Put the newest one into the application."
        " If it is lost, a new one must be made on the application's page here."
    ),
    "secret_of_another": _("The secret is another application's: settings are mixed up. Copy this application's anew."),
    "secret_none_left": _(
        "All secrets of this application have ended. Make a new one, and copy it into the application."
    ),
    "secret_expired": _("The secret has ended. Put the newest one into the application."),
    "secret_revoked": _("The secret was ended here. Put the newest one into the application."),
    "code_misshapen": _("The code was cut or changed on the way. Send it exactly as it came to the callback address."),
    "code_unknown": _("The code is not known: purged, or of another installation."),
    "code_replaced": _(
        "The person clicked twice, so a later code replaced this one. Use the code of the last callback."
    ),
    "code_withdrawn": _("The person disconnected the application, or refused, after the code was issued."),
    "code_of_another": _("The code was issued to another application: two applications share a callback or a setting."),
    "code_expired": _("The exchange came later than 10 minutes after the issue. Look for a queue or a slow callback."),
    "code_spent": _(
        "The code was used before, so its token was revoked. The callback must run once, and not be retried."
    ),
    "code_raced": _(
        "The code was sent twice within seconds: a prefetch, a retry or two workers. Send it once; the first counts."
    ),
    "reason_unknown": _("The code became invalid at this moment. The person starts again."),
    "code_ended_person": _("Nothing to change: the person's password changed, or they signed out everywhere."),
    "code_ended_application": _ENDED_WITH_ALL,
    "code_ended_group": _("The person left the groups that may use the application."),
    "person_deactivated": _("The account is switched off. Switch it on under People if the person may sign in."),
    "code_redirect_uri": _("Send the same callback address at both steps, or leave it out at the exchange."),
    "verifier_missing": _(
        "The application sent no code_verifier: the session that held it may be lost."
        " The link had a code_challenge, so the exchange needs its code_verifier."
    ),
    "verifier_wrong": _(
        "The application sent the code_verifier of another sign-in: the session that made it may have been lost."
        " The code_challenge must be its SHA-256 digest (S256)."
    ),
    "verifier_unasked": _("Send code_challenge in the link, or no code_verifier at the exchange."),
    NEVER_EXCHANGED: _(
        "Look at the callback: it did not answer, lost its state, or cannot reach the token operation."
        " If a script in a page exchanges the code, it may send no other headers than Authorization and Content-Type:"
        " the browser stops a request with others (CORS), and this service never receives it."
    ),
    # Profile
    "token_missing": _("Send the header Authorization with Bearer and the access token."),
    "token_in_url": _("Send the token in the header Authorization, with Bearer before it. URLs are logged."),
    "token_of_another_kind": _("Send the access_token of the exchange, not the ID token, the code or the client_id."),
    "token_unknown": _("The token is not of this installation, or the code was sent in its place."),
    "token_expired": _("Read the profile right after the exchange. A token works for an hour."),
    "token_revoked": _("The person disconnected the application, or its code was used twice. See the attempt."),
    "token_ended_replay": _("The code of the token was used twice. See the attempt: its callback must run once."),
    "token_ended_consent": _("Nothing to change: the person disconnected the application."),
    "token_ended_person": _("Nothing to change: the person's password changed, or they signed out everywhere."),
    "token_ended_application": _ENDED_WITH_ALL,
    "token_ended_group": _("The person left the groups that may use the application."),
    # Logout
    "logout_hint_key_unknown": _(
        "The key was revoked or forgotten, or the token is of another installation. The person signs in again."
    ),
    "logout_hint_invalid": _("Send the ID token of the latest sign-in as id_token_hint, unchanged, or leave it out."),
    "logout_hint_of_another": _("Two applications share a setting or a session. Send the application's own ID token."),
    "logout_client_id_missing": _("Send id_token_hint or client_id beside post_logout_redirect_uri."),
    "logout_address": _("Compare the application's setting with the addresses after a sign-out that are registered."),
    "throttled_logout": _("A limit is reached: as RATE_AUTHORIZE, by network address. Look for a loop, or an attack."),
    # Any step
    "rate_limited": _LIMIT,
    "server_error": _("A fault of the service. Look for the reference in its log."),
    "busy": _BUSY,
}
# Advice that contains facts of the record.
_DELETED_BY = _(
    "The application %(deleted_name)s was deleted on %(deleted_at)s by %(deleted_by)s."
    " Register it again, and change its client_id there."
)
_DELETED = _(
    "The application %(deleted_name)s was deleted on %(deleted_at)s. Register it again, and change its client_id there."
)
_FAULTS: dict[str, Fault] = {
    fault.name.lower(): fault for kind in (SiteFault, AccountFault, OAuthFault) for fault in kind
}


def fault_of(cause: str) -> Fault | None:
    """Return the fault whose lower-case name is `cause`; None if there is none."""
    return _FAULTS.get(cause)


def fix_of(cause: str, facts: Mapping[str, object] | None = None) -> str:
    """Return the advice for the cause in the active language; empty for a success or an unknown cause.

    `facts` are the details of a record. A cause is unknown if a later release has recorded it.
    """
    if cause == "client_deleted" and facts and "deleted_name" in facts:
        return gettext(_DELETED_BY if "deleted_by" in facts else _DELETED) % facts
    if fix := FIXES.get(cause):
        return gettext(fix)
    fault = fault_of(cause)
    return _sentences(fault, facts or {}) if fault else ""


def _sentences(fault: Fault, facts: Mapping[str, object]) -> str:
    """Return the problem and the fix. A sentence with details that the record does not have is left out."""
    found = []
    for sentence in filter(None, (fault.problem, fault.fix)):
        with suppress(KeyError):
            found.append(gettext(sentence).format_map(facts))
    return " ".join(found) or gettext(fault.problem)
