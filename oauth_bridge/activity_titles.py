"""The title of each cause in the activity log. D24. `activity_causes` contains the advice.

The titles are for administrators only. No public answer contains a title.
"""

from __future__ import annotations

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _  # marks the sentences for translation

from oauth_bridge.activity_causes import FACTOR_AWAITED, NEVER_EXCHANGED, UNCONFIRMED, fault_of
from oauth_bridge.activity_models import Step

STEPS = {
    Step.AUTHORIZE: _("Authorize"),
    Step.SIGN_IN: _("Sign-in"),
    Step.SECOND_FACTOR: _("Second factor"),
    Step.CONSENT: _("Consent"),
    Step.EXCHANGE: _("Exchange"),
    Step.PROFILE: _("Profile"),
    Step.LOGOUT: _("Sign-out"),
}
TITLES = {
    # Authorize
    "client_id_missing": _("The link has no client ID"),
    "client_unknown": _("The client ID is unknown"),
    "client_deleted": _("The application was deleted"),
    "client_disabled": _("The application is switched off"),
    "redirect_uri_missing": _("The link has no callback address"),
    "redirect_uri_mismatch": _("The callback address isn’t registered"),
    "response_type_missing": _("The link has no response type"),
    "response_type": _("The response type isn’t code"),
    "challenge_needed": _("A public application used no PKCE"),
    "challenge_missing": _("PKCE: the challenge is missing"),
    "challenge_method_missing": _("PKCE: the method is missing"),
    "challenge_plain": _("PKCE: the method is plain"),
    "challenge_method_other": _("PKCE: the method is unknown"),
    "challenge_malformed": _("PKCE: the challenge is malformed"),
    "request_object": _("A request object was sent"),
    "request_uri": _("The address of a request object was sent"),
    "response_mode": _("The response mode isn’t supported"),
    "openid_misspelt": _("OpenID Connect: the scope is misspelt"),
    "nonce_too_long": _("OpenID Connect: the nonce is too long"),
    "claims_malformed": _("OpenID Connect: the parameter claims is malformed"),
    "prompt_none": _("OpenID Connect: prompt none beside another value"),
    "max_age": _("OpenID Connect: the greatest age is no number"),
    "hint": _("OpenID Connect: the hint isn’t an ID token of this application"),
    "acr": _("OpenID Connect: the person can’t reach the essential acr"),
    "login_required": _("A silent sign-in found nobody signed in"),
    "consent_required": _("A silent sign-in found no consent"),
    "interaction_required": _("A silent sign-in needs a page"),
    "two_tokens": _("Two access tokens were sent"),
    "csrf": _("A page was out of date"),
    "csrf_no_cookie": _("The browser sent no cookie"),
    "csrf_origin": _("The browser named another site"),
    "link_cut": _("The link was cut"),
    "link_not_ours": _("The link was changed"),
    "client_id_not_in_form": _("The exchange has no client ID"),
    "code_missing": _("The exchange has no code"),
    "grant_type": _("The grant type isn’t supported"),
    "grant_type_missing": _("The exchange has no grant type"),
    "missing": _("A parameter is missing"),
    "repeated": _("A parameter was sent twice"),
    "malformed": _("A parameter is malformed"),
    "called_by_script": _("A script called the link, and the browser stopped it"),
    "framed": _("The link was opened in a frame"),
    # Limits
    "throttled_authorize": _("Too many authorizations from one address"),
    "throttled_token": _("Too many exchanges"),
    "throttled_token_failures": _("Too many failed exchanges"),
    "throttled_userinfo": _("Too many profile reads"),
    "throttled_userinfo_failures": _("Too many failed profile reads"),
    "sign_in_limited_account": _("Too many wrong passwords for one account"),
    "sign_in_limited_address": _("Too many wrong passwords from one address"),
    "sign_in_limited_everybody": _("Too many wrong passwords in all"),
    "sign_ins_begun_limited": _("Too many sign-ins were begun"),
    "sign_ins_done_limited": _("Too many sign-ins"),
    "factor_limited": _("Too many wrong codes of a second factor"),
    "mails_limited": _("Too many mails were asked for"),
    "codes_limited": _("Too many codes were sent to one mailbox"),
    "new_address_limited": _("Too many changes of an address"),
    "new_password_limited": _("Too many changes of a password"),
    "reset_limited": _("Too many resets of a password"),
    "sign_up_limited": _("Too many sign-ups from one address"),
    "passkeys_limited": _("Passkeys were asked for too often"),
    "rate_limited": _("Too many requests"),
    # Signing in
    "account_unknown": _("No account has this address"),
    "password_wrong": _("Wrong password"),
    "account_inactive": _("The account is switched off"),
    "account_without_password": _("The account has no password"),
    UNCONFIRMED: _("The address waits for the code from the mail"),
    FACTOR_AWAITED: _("The sign-in waits for the second factor"),
    "sign_in_ended": _("The account changed during the sign-in"),
    "address_taken_at_sign_up": _("Sign-up with an address that has an account"),
    "invitation_invalid": _("The invitation has ended"),
    "sign_up_closed": _("Sign-up is closed"),
    "not_invited": _("The invitation is for another address"),
    "mail_code_wrong": _("Wrong code from a mail"),
    "mail_code_expired": _("The code from a mail has expired"),
    "account_deleted": _("The account was deleted"),
    "password_busy": _("Too many passwords were checked at once"),
    "factor_used": _("A code was used twice"),
    "factor_wrong": _("Wrong code of a second factor"),
    "app_code_wrong": _("Wrong code of an authenticator app"),
    "recovery_code_wrong": _("Wrong recovery code"),
    "passkey_unknown": _("The passkey is not known"),
    "passkey_of_another_origin": _("The passkey is of another host"),
    "passkey_refused": _("The device refused the passkey"),
    # Consent
    "refused": _("The person refused"),
    "no_verified_email": _("The person’s address is not confirmed"),
    "attempt_finished": _("The sign-in was already finished"),
    "consent_page_outdated": _("The consent page was too old"),
    "not_admitted": _("The person is in no group that may use it"),
    # Exchange
    "client_not_authenticated": _("The client was not authenticated"),
    "secret_missing": _("The client secret is missing"),
    "verifier_instead_of_secret": _("A confidential application sent no secret"),
    "public_without_verifier": _("A public application sent no PKCE verifier"),
    "public_with_secret": _("A public application sent a secret"),
    "secret_wrong": _("The client secret is wrong"),
    "secret_of_another": _("The client secret is another application’s"),
    "secret_none_left": _("All client secrets have ended"),
    "secret_expired": _("The client secret has ended"),
    "secret_revoked": _("The client secret was ended here"),
    "code_misshapen": _("The code was cut or changed"),
    "code_unknown": _("The code is not known"),
    "code_replaced": _("A later code replaced this one"),
    "code_withdrawn": _("The code was withdrawn"),
    "code_of_another": _("The code was issued to another application"),
    "code_expired": _("The code has expired"),
    "code_spent": _("The code was used before"),
    "code_raced": _("The code was sent twice at once"),
    "reason_unknown": _("The code became invalid"),
    "code_ended_person": _("The person ended the sign-in"),
    "code_ended_application": _("The application’s codes were ended"),
    "code_ended_group": _("The person left the group"),
    "person_deactivated": _("The account is switched off"),
    "code_redirect_uri": _("The exchange names another callback address"),
    "verifier_missing": _("PKCE: the verifier is missing"),
    "verifier_wrong": _("PKCE: the verifier doesn’t match"),
    "verifier_unasked": _("PKCE: a verifier without a challenge"),
    NEVER_EXCHANGED: _("Code issued, never exchanged"),
    # Profile
    "token_missing": _("The access token is missing"),
    "token_in_url": _("The access token was in the URL"),
    "token_of_another_kind": _("Something else was sent as access token"),
    "token_unknown": _("The access token is not known"),
    "token_expired": _("The access token has expired"),
    "token_revoked": _("The access token was revoked"),
    "token_ended_replay": _("The code of the token was used twice"),
    "token_ended_consent": _("The person disconnected the application"),
    "token_ended_person": _("The person ended the access"),
    "token_ended_application": _("The application’s tokens were ended"),
    "token_ended_group": _("The person left the group"),
    # Logout
    "logout_hint_key_unknown": _("Sign-out: the ID token is signed with an unknown key"),
    "logout_hint_invalid": _("Sign-out: the hint isn’t an ID token of this service"),
    "logout_hint_of_another": _("Sign-out: the ID token is another application’s"),
    "logout_client_id_missing": _("Sign-out: an address without an application"),
    "logout_address": _("Sign-out: the address isn’t registered"),
    "throttled_logout": _("Too many sign-outs from one address"),
    # Any step
    "server_error": _("A fault of the service"),
    "busy": _("The service was busy"),
}
# The causes for which the person is responsible, so nobody has to change a setting.
OF_THE_PERSON = frozenset(
    {
        "refused",
        "attempt_finished",
        "consent_page_outdated",
        "csrf",
        "csrf_no_cookie",
        "code_ended_person",
        "code_replaced",
        "code_withdrawn",
        "token_ended_consent",
        "token_ended_person",
        "token_revoked",
        "token_expired",
        "login_required",
        "consent_required",
        "interaction_required",
        "link_cut",
    }
)
_STEPS_OF_THE_PERSON = frozenset({Step.SIGN_IN, Step.SECOND_FACTOR})


def title_of(cause: str) -> str:
    """Return the title in the active language; without a title, the `problem` of the fault; without both, the cause."""
    if title := TITLES.get(cause):
        return gettext(title)
    fault = fault_of(cause)
    return gettext(fault.problem) if fault else cause


def name_of(step: str) -> str:
    """Return the name of the step in the active language."""
    return gettext(STEPS[Step(step)])


def needs_mending(step: str, cause: str) -> bool:
    """Return whether somebody other than the person must change something.

    A cause counts as a failure of the application only if the result is True.
    """
    return step not in _STEPS_OF_THE_PERSON and cause not in OF_THE_PERSON
