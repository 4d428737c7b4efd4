"""The causes of failures in the activity log: a title and advice for each, and who can remove the cause."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import NamedTuple

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _  # marks the sentences for translation

from accounts.errors import AccountFault
from config.infrastructure.errors import Fault, SiteFault
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models.activity import Step

NEVER_EXCHANGED = "code_never_exchanged"
UNCONFIRMED = "address_unconfirmed"
FACTOR_AWAITED = "second_factor_awaited"


class Mender(Enum):
    DEVELOPER = auto()
    ADMINISTRATOR = auto()
    PERSON = auto()


class Cause(NamedTuple):
    """The English title and advice. If `fix` is empty, the advice is the text of the fault with the cause's name."""

    title: str
    fix: str
    mender: Mender


_ENDED_WITH_ALL = _(
    "All codes and tokens of the application were ended: it was switched off, everybody's access was ended, or a "
    "client secret had leaked. The person starts again."
)
_LEFT_GROUP = _("The person left the group"), _("The person left the groups that may use the application.")
_SWITCHED_OFF = (
    _("The account is switched off"),
    _("The account is switched off. Switch it on under People if the person may sign in."),
)
_NO_CHANGE = _("Nothing to change: the person's password changed, or they signed out everywhere.")
_METHOD = _("Set the PKCE method to S256 in the application.")
_SEND_ONCE = _("Send the parameter once, with a value, as the guide for developers shows.")
_CLOCK = _("The person types the code that the app shows now. If it stays wrong, the clock of the phone is off.")
_BUSY = _("Many passwords are checked at once. If it lasts, give the service more processors, or look for an attack.")
_PERSON_WAITS = _(
    "The person waits until the limit ends. If the activity shows many network addresses, it is an attack."
)
_PERSON_WAITS_OR_IS_UNLOCKED = _(
    "The person waits until the limit ends, or an administrator unlocks the account on the person's page."
    " If the activity shows many network addresses, it is an attack."
)
# To tell secret_of_another or code_of_another to a developer would confirm that another application's secret or code is
# real, so these two belong to the administrators.
# fmt: off
_TABLE: dict[Mender, dict[str, tuple[str, str]]] = {
    Mender.DEVELOPER: {
        "client_id_missing": (_("The link has no client ID"),
            _("Put the client_id of the application's page into the application's link.")),
        "redirect_uri_missing": (_("The link has no callback address"),
            _("Set the callback address in the application, exactly as it is registered here.")),
        "redirect_uri_mismatch": (_("The callback address isn’t registered"),
            _("Compare the application's setting with the callback addresses that are registered here.")),
        "response_type_missing": (_("The link has no response type"),
            _("Set the response type to code in the application.")),
        "response_type": (_("The response type isn’t code"),
            _("Set the response type to code in the application. The implicit flow does not exist here.")),
        "challenge_needed": (_("An application without a secret sent no proof (PKCE)"),
            _("Switch PKCE on in the application, or register it anew as one with a secret.")),
        "challenge_missing": (_("PKCE: the challenge is missing"),
            _("Send code_challenge and code_challenge_method, or neither.")),
        "challenge_method_missing": (_("PKCE: the method is missing"), _METHOD),
        "challenge_plain": (_("PKCE: the method is plain"), _METHOD),
        "challenge_method_other": (_("PKCE: the method is unknown"), _METHOD),
        "challenge_malformed": (_("PKCE: the challenge is malformed"),
            _("Send the SHA-256 digest of the verifier in base64url without padding as code_challenge.")),
        "request_object": (_("A request object was sent"), ""),
        "request_uri": (_("The address of a request object was sent"), ""),
        "response_mode": (_("The response mode isn’t supported"), ""),
        "openid_misspelt": (_("OpenID Connect: the scope is misspelt"), ""),
        "nonce_too_long": (_("OpenID Connect: the nonce is too long"), ""),
        "claims_malformed": (_("OpenID Connect: the parameter claims is malformed"), ""),
        "prompt_none": (_("OpenID Connect: prompt none beside another value"), ""),
        "max_age": (_("OpenID Connect: the greatest age is no number"), ""),
        "hint": (_("OpenID Connect: the hint isn’t an ID token of this application"),
            _("The id_token_hint is another application's or installation's. Send the one of the latest sign-in.")),
        "acr": (_("OpenID Connect: the person can’t reach the essential acr"), ""),
        "two_tokens": (_("Two access tokens were sent"), ""),
        "csrf_origin": (_("The browser named another site"),
            _("The browser named another site as the origin of the form, or hid it: an extension, a proxy that "
              "changes headers, or a page that imitates this one.")),
        "client_id_not_in_form": (_("The request for access has no client ID"),
            _("The token request has no client_id. Send it in the form beside the code, or with the secret by HTTP "
              "Basic.")),
        "code_missing": (_("The request for access has no code"),
            _("The callback was opened without a code. Let the application read the parameter error first.")),
        "grant_type": (_("The grant type isn’t supported"),
            _("Use grant_type=authorization_code. No refresh token and no other grant exists here.")),
        "grant_type_missing": (_("The request for access has no grant type"), _SEND_ONCE),
        "missing": (_("A parameter is missing"), _SEND_ONCE),
        "repeated": (_("A parameter was sent twice"), ""),
        "malformed": (_("A parameter is malformed"), ""),
        "called_by_script": (_("A script called the link, and the browser stopped it"),
            _("A script called the link (fetch), and the browser stopped it (CORS). Send the browser there, as with a "
              "link.")),
        "framed": (_("The link was opened in a frame"),
            _("The link was opened in a frame, where browsers show no page of this service. Open it in the whole "
              "window.")),
        "client_not_authenticated": (_("The application did not prove who it is"),
            _("Copy client_id and client_secret from the application's page anew.")),
        "secret_missing": (_("The client secret is missing"),
            _("The application has a secret but sends none. Set it there.")),
        "verifier_instead_of_secret": (_("An application with a secret sent none"),
            _("It has a secret here but behaves as if it had none. Send the secret, or register it anew without one.")),
        "public_without_verifier": (_("An application without a secret sent no verifier (PKCE)"),
            _("The application sent no code_verifier: the session that held it may be lost. An application without a "
              "secret sends a code_challenge in the link, and its code_verifier at the exchange.")),
        "public_with_secret": (_("A secret came from an application that has none"),
            _("It is registered without a secret but sends one. Empty the field there, or register it anew with a "
              "secret.")),
        "secret_wrong": (_("The client secret is wrong"),
            _("No secret of this application matches the one that was sent. Put the newest one into the application. "
              "If it is lost, a new one must be made on the application's page here.")),
        "secret_expired": (_("The client secret has ended"),
            _("The secret has ended. Put the newest one into the application.")),
        "secret_revoked": (_("The client secret was ended here"),
            _("The secret was ended here. Put the newest one into the application.")),
        "code_misshapen": (_("The code was cut or changed"),
            _("The code was cut or changed on the way. Send it exactly as it came to the callback address.")),
        "code_unknown": (_("The code is not known"),
            _("The code is not known: deleted after its time, or of another installation.")),
        "code_expired": (_("The code has expired"),
            _("The exchange came later than 10 minutes after the issue. Look for a queue or a slow callback.")),
        "code_spent": (_("The code was used before"),
            _("The code was used before, so its token was revoked. The callback must run once, and not be retried.")),
        "code_raced": (_("The code was sent twice at once"),
            _("The code was sent twice within seconds: a prefetch, a retry or two workers. Send it once; the first "
              "counts.")),
        "reason_unknown": (_("The code became invalid"),
            _("The code became invalid at this moment. The person starts again.")),
        "code_redirect_uri": (_("The request for access names another callback address"),
            _("Send the same callback address at both steps, or leave it out at the exchange.")),
        "verifier_missing": (_("PKCE: the verifier is missing"),
            _("The application sent no code_verifier: the session that held it may be lost. The link had a "
              "code_challenge, so the exchange needs its code_verifier.")),
        "verifier_wrong": (_("PKCE: the verifier doesn’t match"),
            _("The application sent the code_verifier of another sign-in: the session that made it may have been "
              "lost. The code_challenge must be its SHA-256 digest (S256).")),
        "verifier_unasked": (_("PKCE: a verifier without a challenge"),
            _("Send code_challenge in the link, or no code_verifier at the exchange.")),
        NEVER_EXCHANGED: (_("The application never asked for access"),
            _("Look at the callback: it did not answer, lost its state, or cannot reach the token operation. If a "
              "script in a page exchanges the code, it may send no other headers than Authorization and Content-Type: "
              "the browser stops a request with others (CORS), and this service never receives it.")),
        "token_missing": (_("The access token is missing"),
            _("Send the header Authorization with Bearer and the access token.")),
        "token_in_url": (_("The access token was in the URL"),
            _("Send the token in the header Authorization, with Bearer before it. URLs are logged.")),
        "token_of_another_kind": (_("Something else was sent as access token"),
            _("Send the access_token of the exchange, not the ID token, the code or the client_id.")),
        "token_unknown": (_("The access token is not known"),
            _("The token is not of this installation, or the code was sent in its place.")),
        "token_ended_replay": (_("The code of the token was used twice"),
            _("The code of the token was used twice. See the attempt: its callback must run once.")),
        "logout_hint_key_unknown": (_("Sign-out: the ID token is signed with an unknown key"),
            _("The key was revoked or forgotten, or the token is of another installation. The person signs in again.")),
        "logout_hint_invalid": (_("Sign-out: the hint isn’t an ID token of this service"),
            _("Send the ID token of the latest sign-in as id_token_hint, unchanged, or leave it out.")),
        "logout_hint_of_another": (_("Sign-out: the ID token is another application’s"),
            _("Two applications share a setting or a session. Send the application's own ID token.")),
        "logout_client_id_missing": (_("Sign-out: an address without an application"),
            _("Send id_token_hint or client_id beside post_logout_redirect_uri.")),
        "logout_address": (_("Sign-out: the address isn’t registered"),
            _("Compare the application's setting with the addresses after a sign-out that are registered.")),
        "verifier_malformed": (_("PKCE: the verifier is malformed"), ""),
        "padded": (_("A value begins or ends with a space"), ""),
        "in_url": (_("The parameters were in the URL"), ""),
        "two_authentications": (_("Two client secrets were sent"), ""),
        "client_differs": (_("Two client IDs were sent"), ""),
        "client_scheme": (_("The Authorization header isn’t Basic"), ""),
        "basic_malformed": (_("The Basic header is malformed"), ""),
        "token_scheme": (_("The Authorization header isn’t Bearer"), ""),
        "token_malformed": (_("The access token is malformed"), ""),
        "token_scope": (_("The access token doesn’t reach the profile"), ""),
        "media_type": (_("The body is no form"), ""),
        "too_large": (_("The request is too long"), ""),
        "too_many_fields": (_("The form has too many fields"), ""),
    },
    Mender.ADMINISTRATOR: {
        "client_unknown": (_("The client ID is unknown"),
            _("No application has the client_id that was sent: it is mistyped, or of another installation. Copy the "
              "client_id from the application's page here into the application.")),
        "client_deleted": (_("The application was deleted"),
            _("The application was deleted. Register it again, and change its client_id there.")),
        "client_disabled": (_("The application is switched off"),
            _("The application is switched off. Switch it on if people should sign in with it.")),
        "link_not_ours": (_("The link was changed"),
            _("The link was changed, or SECRET_KEY was replaced without a fallback. The person starts again.")),
        "throttled_authorize": (_("Too many sign-ins were started from one address"),
            _("A limit is reached: RATE_AUTHORIZE, by network address. Look for a loop in the application, or an "
              "attack.")),
        "throttled_token": (_("Too many requests for access"),
            _("A limit is reached: RATE_TOKEN, by application. Look for a loop in the application, or raise it.")),
        "throttled_token_failures": (_("Too many failed requests for access"),
            _("A limit is reached: RATE_TOKEN_FAILURES, by network address and application. Mend the failures before "
              "it.")),
        "throttled_userinfo": (_("Too many profile reads"),
            _("A limit is reached: RATE_USERINFO, by application. Read a profile once for each sign-in.")),
        "throttled_userinfo_failures": (_("Too many failed profile reads"),
            _("A limit is reached: RATE_USERINFO_FAILURES, by network address. Mend the failures before it.")),
        "sign_in_limited_account": (_("Too many wrong passwords for one account"), _PERSON_WAITS_OR_IS_UNLOCKED),
        "sign_in_limited_address": (_("Too many wrong passwords from one address"), _PERSON_WAITS),
        "sign_in_limited_everybody": (_("Too many wrong passwords in all"), _PERSON_WAITS),
        "sign_ins_begun_limited": (_("Too many sign-ins were begun"), _PERSON_WAITS),
        "sign_ins_done_limited": (_("Too many sign-ins"), _PERSON_WAITS),
        "factor_limited": (_("Too many wrong codes of a second factor"), _PERSON_WAITS_OR_IS_UNLOCKED),
        "mails_limited": (_("Too many mails were asked for"),
            _("One network address asked for very many mails. The person waits, or looks at the mails it got.")),
        "codes_limited": (_("Too many codes were sent to one mailbox"),
            _("The mailbox got many codes in a short time. The person uses the newest mail.")),
        "new_address_limited": (_("Too many changes of an address"), _PERSON_WAITS),
        "new_password_limited": (_("Too many changes of a password"), _PERSON_WAITS),
        "reset_limited": (_("Too many resets of a password"), _PERSON_WAITS),
        "sign_up_limited": (_("Too many sign-ups from one address"), _PERSON_WAITS),
        "passkeys_limited": (_("Passkeys were asked for too often"),
            _("One network address asked for passkeys very often. The person waits.")),
        "rate_limited": (_("Too many requests"),
            _("Something asks more often than the limit allows: a loop in the application, an attack, or too small a "
              "limit.")),
        "account_inactive": _SWITCHED_OFF,
        "invitation_invalid": (_("The invitation has ended"),
            _("The invitation has ended or was used. Send another one.")),
        "sign_up_closed": (_("Sign-up is closed"),
            _("Sign-up is closed (SIGN_UP). Make the account for the person, or open sign-up.")),
        "not_invited": (_("The invitation is for another address"),
            _("The invitation is for another address. Send one to this address.")),
        "password_busy": (_("Too many passwords were checked at once"), _BUSY),
        "passkey_of_another_origin": (_("The passkey is of another host"),
            _("The passkey was made at another host. Compare AUTH_URL with the address people open.")),
        "no_verified_email": (_("The person’s address is not confirmed"),
            _("The person must confirm the address. The page offers to send the mail again.")),
        "not_admitted": (_("The person is in no group that may use it"),
            _("The person is in none of the application's groups. Add them to one if they may use it.")),
        "secret_of_another": (_("The client secret is another application’s"),
            _("The secret is another application's: settings are mixed up. Copy this application's anew.")),
        "secret_none_left": (_("All client secrets have ended"),
            _("All secrets of this application have ended. Make a new one, and copy it into the application.")),
        "code_of_another": (_("The code was issued to another application"),
            _("The code was issued to another application: two applications share a callback or a setting.")),
        "code_ended_application": (_("The application’s codes were ended"), _ENDED_WITH_ALL),
        "code_ended_group": _LEFT_GROUP,
        "person_deactivated": _SWITCHED_OFF,
        "token_ended_application": (_("The application’s tokens were ended"), _ENDED_WITH_ALL),
        "token_ended_group": _LEFT_GROUP,
        "throttled_logout": (_("Too many sign-outs from one address"),
            _("A limit is reached: as RATE_AUTHORIZE, by network address. Look for a loop, or an attack.")),
        "server_error": (_("A fault of the service"),
            _("A fault of the service. Whoever runs it finds the reference in its log file.")),
        "busy": (_("The service was busy"), _BUSY),
    },
    Mender.PERSON: {
        "login_required": (_("A silent sign-in found nobody signed in"),
            _("The application asked with prompt=none, and nobody was signed in. It must then ask without "
              "prompt=none.")),
        "consent_required": (_("A silent sign-in found no consent"),
            _("The application asked with prompt=none, and the person must agree first. It must then ask without "
              "prompt=none.")),
        "interaction_required": (_("A silent sign-in needs a page"),
            _("The application asked with prompt=none, and the person must see a page. It must then ask without "
              "prompt=none.")),
        "csrf": (_("A page was out of date"),
            _("Nothing to change: the page was open for long or in two windows, and the person was asked again.")),
        "csrf_no_cookie": (_("The browser sent no cookie"),
            _("The browser sent no cookie: it blocks cookies of this site, or deletes them. The person allows them.")),
        "link_cut": (_("The link was cut"),
            _("The link was cut, perhaps by a mail program or a chat. The person starts again in the application.")),
        "account_unknown": (_("No account has this address"),
            _("No account has this address. The person corrects it or signs up.")),
        "password_wrong": (_("Wrong password"),
            _("The person types the password again, or chooses a new one by mail.")),
        "account_without_password": (_("The account has no password"),
            _("The account has no password. The person signs in with a passkey, or sets one by mail.")),
        UNCONFIRMED: (_("The address waits for the code from the mail"),
            _("The person types the code from the mail. Whoever has none signs in again, which sends another one.")),
        FACTOR_AWAITED: (_("The sign-in waits for the second factor"),
            _("The password was right. The person types the code of the app, or uses the passkey or a recovery code. "
              "If all are lost, remove the second factors on the person's page.")),
        "sign_in_ended": (_("The account changed during the sign-in"),
            _("Nothing to change: the account's password, address or second factor changed meanwhile.")),
        "address_taken_at_sign_up": (_("Sign-up with an address that has an account"),
            _("The person has an account with this address already, and was told so by mail.")),
        "mail_code_wrong": (_("Wrong code from a mail"), _("The person types the code of the newest mail.")),
        "mail_code_expired": (_("The code from a mail has expired"),
            _("The person starts again and uses the newest mail, in the same browser.")),
        "account_deleted": (_("The account was deleted"), _("The account was deleted meanwhile.")),
        "factor_used": (_("A code was used twice"),
            _("The same code was sent twice. The person waits for the next one.")),
        "factor_wrong": (_("Wrong code of a second factor"), _CLOCK),
        "app_code_wrong": (_("Wrong code of an authenticator app"), _CLOCK),
        "passkey_unknown": (_("The passkey is not known"),
            _("The passkey was removed here, or its answer came too late. The person uses the password.")),
        "passkey_refused": (_("The device refused the passkey"),
            _("The device refused. The person tries again, or uses the password.")),
        "refused": (_("The person refused"), _("Nothing to change: the person pressed Refuse.")),
        "attempt_finished": (_("The sign-in was already finished"),
            _("Nothing to change: the person went back to a page after signing in.")),
        "consent_page_outdated": (_("The consent page was too old"),
            _("Nothing to change: the person was asked again. If it happens often, cookies get lost.")),
        "code_replaced": (_("A later code replaced this one"),
            _("The person clicked twice, so a later code replaced this one. Use the code of the last callback.")),
        "code_withdrawn": (_("The code was withdrawn"),
            _("The person disconnected the application, or refused, after the code was issued.")),
        "code_ended_person": (_("The person ended the sign-in"), _NO_CHANGE),
        "token_expired": (_("The access token has expired"),
            _("Read the profile right after the exchange. A token works for an hour.")),
        "token_revoked": (_("The access token was revoked"),
            _("The person disconnected the application, or its code was used twice. See the attempt.")),
        "token_ended_consent": (_("The person disconnected the application"),
            _("Nothing to change: the person disconnected the application.")),
        "token_ended_person": (_("The person ended the access"), _NO_CHANGE),
        "new_password_weak": (_("The new password is too weak"), ""),
        "reset_link_invalid": (_("The link for a new password is invalid"), ""),
        "reset_mail_limited": (_("Too many links for a new password were sent"), ""),
        "passkey_unreadable": (_("The browser sent no passkey"), ""),
        "sign_in_too_soon": (_("The sign-in was repeated too soon"), ""),
        "address_taken": (_("The address has an account"), ""),
    },
}
# fmt: on
CAUSES = {name: Cause(*row, mender) for mender, rows in _TABLE.items() for name, row in rows.items()}
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
# The meanings of terms. Each key is a regular expression that finds the term in an English title or advice.
WORDS = {
    r"callback address|\bredirect_uri": _(
        "Callback address: where people go back to in the application after the sign-in."
    ),
    "client.id": _("Client ID: the public name by which this service knows the application."),
    r"\bsecrets?\b": _("Client secret: the application’s password here."),
    "PKCE|verifier|challenge": _(
        "PKCE: a proof that the program that begins a sign-in also ends it. It sends a challenge first, and at the end "
        "the verifier that fits."
    ),
    "exchange|token request|token operation": _(
        "Exchange: the application sends the one-time code that the person brought back, and gets access for it."
    ),
    "grant": _("Grant type: what an application offers for access. Here this is always a code."),
    "response type": _("Response type: what an application gets from a sign-in. Here this is always a code."),
    r"(?<!ID )\btokens?\b": _("Access token: what an application shows to read a profile. It works for an hour."),
    "OpenID|ID token": _("OpenID Connect: a standard for signing in. Its ID token is a signed note of who signed in."),
    "scope": _("Scope: the facts that an application asks for."),
    "prompt=none": _("prompt=none: the application wants an answer without a page for the person."),
}


def words_of(cause: str) -> list[str]:
    """Return explanations of the technical terms in the cause's title and advice, in the active language."""
    if not (row := CAUSES.get(cause)):
        return []
    text = f"{row.title} {row.fix or _FAULTS[cause].problem}"
    return [gettext(meaning) for term, meaning in WORDS.items() if re.search(term, text, re.IGNORECASE)]


def title_of(cause: str) -> str:
    return gettext(CAUSES[cause].title) if cause in CAUSES else cause


def fix_of(cause: str, facts: Mapping[str, object] | None = None) -> str:
    """Return the advice in the active language. Leave out sentences with placeholders that are not in `facts`."""
    facts = facts or {}
    if cause == "client_deleted" and "deleted_name" in facts:
        return gettext(_DELETED_BY if "deleted_by" in facts else _DELETED) % facts
    if cause not in CAUSES:
        return ""
    if CAUSES[cause].fix:
        return gettext(CAUSES[cause].fix)
    sentences = []
    for sentence in filter(None, (_FAULTS[cause].problem, _FAULTS[cause].fix)):
        with suppress(KeyError):
            sentences.append(gettext(sentence).format_map(facts))
    return " ".join(sentences)


def name_of(step: str) -> str:
    return str(Step(step).label)


def needs_mending(step: str, cause: str) -> bool:
    """Return whether somebody other than the person must act. False for the steps SIGN_IN and SECOND_FACTOR."""
    if step in (Step.SIGN_IN, Step.SECOND_FACTOR):
        return False
    return cause not in CAUSES or CAUSES[cause].mender is not Mender.PERSON
