"""The faults of the OAuth operations, by operation. Specification 4, 7."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _  # marks the sentences of pages for translation

from config.infrastructure.errors import Fault

# The statuses of an `error`. Every other `error` has the status 400.
STATUSES = {
    **dict.fromkeys(("invalid_client", "invalid_token"), 401),
    **dict.fromkeys(("access_denied", "insufficient_scope", "unmet_authentication_requirements"), 403),
    **dict.fromkeys(("consent_required", "interaction_required", "login_required"), 403),
    "temporarily_unavailable": 503,
}


class OAuthFault(Fault):
    """A fault of an OAuth operation. Its HTTP status depends on `error` (STATUSES)."""

    def __init__(self, error: str, problem: str, fix: str = "") -> None:
        super().__init__(STATUSES.get(error, 400), error, problem, fix)

    SPECULATIVE = (
        "temporarily_unavailable",
        _("This page is not served to prefetching, frames, images or scripts."),
        _("Open it as a page of its own."),
    )

    # Parameters
    MISSING = ("invalid_request", _("The parameter {name} is missing."), _("Send it once, with a value."))
    REPEATED = ("invalid_request", _("The parameter {name} was sent more than once."), _("Send it once."))
    MALFORMED = (
        "invalid_request",
        _("The parameter {name} holds a control character or is not UTF-8."),
        _("Check how it was encoded."),
    )
    PADDED = ("invalid_request", _("The {name} begins or ends with a space or a line end."), _("Send it without."))
    IN_URL = ("invalid_request", _("The URL holds parameters."), _("Send them in the request body, never in the URL."))

    # Authorize: the client or the callback address is not verified
    CLIENT_UNKNOWN = (
        "invalid_request",
        _("No application with this client_id is registered."),
        _("Check the client_id in the link."),
    )
    CLIENT_DISABLED = (
        "unauthorized_client",
        _("The application is switched off."),
        _("Only the operator of this service can change that."),
    )
    REDIRECT_URI_MISMATCH = (
        "invalid_request",
        _("The redirect_uri is not one that is registered for this application."),
        _("It must be equal in every character. Check {parts} of the one in the link."),
    )
    REQUEST_DAMAGED = (
        "invalid_request",
        _("This link is damaged or was not made here."),
        _("Go back to the application and sign in again."),
    )

    # Authorize: a special page shows the error
    ATTEMPT_FINISHED = (
        "invalid_request",
        "The application has received the profile that this page was for.",
        "Start the sign-in again in the application.",
    )
    CONSENT_PAGE_OUTDATED = (
        "access_denied",
        "The consent page was out of date, or shown to another account or browser session.",
        "Confirm once more.",
    )

    # Authorize: a page links to the callback address with the error
    NOT_ADMITTED = (
        "access_denied",
        "The application is for certain people only, and this person is not one of them.",
        "Only the operator of this service can change that.",
    )

    # Authorize: the callback address receives the error
    RESPONSE_TYPE = ("unsupported_response_type", "The response_type is not supported.", "Send response_type=code.")
    REQUEST_OBJECT = (
        "request_not_supported",
        _("The parameter request is not supported."),
        _("Send its content as parameters of the link."),
    )
    REQUEST_URI = (
        "request_uri_not_supported",
        _("The parameter request_uri is not supported."),
        _("Send its content as parameters of the link."),
    )
    RESPONSE_MODE = (
        "invalid_request",
        _("The response_mode is not supported."),
        _("Send query or form_post, or leave it out."),
    )
    OPENID_MISSPELT = (
        "invalid_scope",
        _("The scope openid is misspelt or joined to another scope."),
        _("Send it in lower case, and separate scopes by one space, which is %20 in the link."),
    )
    NONCE_TOO_LONG = ("invalid_request", _("The nonce is longer than 512 characters."), "Send a shorter one.")
    PROMPT_NONE = ("invalid_request", _("The prompt none stands beside another value."), _("Send it alone."))
    MAX_AGE = ("invalid_request", _("The max_age is no number of seconds."), _("Send digits only, or leave it out."))
    HINT = (
        "invalid_request",
        "The id_token_hint is no ID token that this service issued to this application.",
        "Send the one of the latest sign-in, or leave it out.",
    )
    LOGIN_REQUIRED = (
        "login_required",
        "The person must sign in, and prompt=none allows no page.",
        "Send the request again without it.",
    )
    ACR = (
        "unmet_authentication_requirements",
        _("The parameter claims makes an acr essential that the person cannot reach."),
        _("Ask for it without essential."),
    )
    CONSENT_REQUIRED = (
        "consent_required",
        "The person must agree first, and prompt=none allows no page.",
        "Send the request again without it.",
    )
    INTERACTION_REQUIRED = (
        "interaction_required",
        "The person must see a page first, and prompt=none allows none.",
        "Send the request again without it.",
    )
    CLAIMS_MALFORMED = (
        "invalid_request",
        _(
            "The parameter claims is no JSON object as OpenID Connect Core 5.5 describes, or longer than 2000 "
            "characters."
        ),
        _("Correct it, or leave it out."),
    )
    REFUSED = ("access_denied", "The person refused the authorization.")
    CHALLENGE_NEEDED = (
        "invalid_request",
        "This application has no secret, so code_challenge is required.",
        "Send one with code_challenge_method=S256.",
    )
    CHALLENGE_METHOD = ("invalid_request", "The code_challenge_method is not supported.", "Send S256.")
    CHALLENGE_MALFORMED = (
        "invalid_request",
        "The code_challenge must be the 43 characters of a base64url SHA-256 digest without padding.",
    )

    # Logout
    LOGOUT_HINT = (
        "invalid_request",
        _("The id_token_hint is no ID token that this service issued."),
        _("Send the one of the latest sign-in, or leave it out."),
    )
    LOGOUT_HINT_OF_ANOTHER = (
        "invalid_request",
        _("The id_token_hint was issued to another application than the client_id names."),
        _("Send the ID token of this application, or leave it out."),
    )
    LOGOUT_ADDRESS = (
        "invalid_request",
        _("The post_logout_redirect_uri is not one that is registered for this application."),
        _("It must be equal in every character."),
    )

    # Token
    GRANT_TYPE = ("unsupported_grant_type", "The grant_type is not supported.", "Send grant_type=authorization_code.")
    TWO_AUTHENTICATIONS = (
        "invalid_request",
        _("The client_secret in the body and the one in the Authorization header differ."),
        _("Send the right one, once."),
    )
    CLIENT_DIFFERS = (
        "invalid_request",
        _("The client_id in the body and the one in the Authorization header differ."),
        _("Send the right one, once."),
    )
    CLIENT_SCHEME = (
        "invalid_client",
        _("The Authorization header has {scheme}."),
        _("Use Basic there, or client_id and client_secret in the body."),
    )
    BASIC_MALFORMED = (
        "invalid_client",
        _("The Authorization header must be Basic, one space, and the base64 of client_id, a colon and client_secret."),
    )
    CLIENT_SECRET_MISSING = (
        "invalid_client",
        "The parameter client_secret is missing and the application could not be authenticated without it.",
        "Check client_id, and send client_secret, or code_verifier if the application has no secret.",
    )
    CLIENT_NOT_AUTHENTICATED = (
        "invalid_client",
        "The application could not be authenticated.",
        "Check client_id and client_secret.",
    )
    CLIENT_SWITCHED_OFF = (
        "invalid_client",
        "The client_secret is right, but the application is switched off.",
        "Only the operator of this service can change that.",
    )
    CLIENT_SECRET_EXPIRED = (
        "invalid_client",
        "The client_secret has expired.",
        "Use the newer one of this application.",
    )
    CODE_UNKNOWN = ("invalid_grant", "The code is not known.", "Send it exactly as it came to the callback address.")
    CODE_OF_ANOTHER = (
        "invalid_grant",
        "The code was issued to another application.",
        "Send the client_id that the sign-in was started with.",
    )
    CODE_EXPIRED = ("invalid_grant", "The code is older than 10 minutes.", _("Start the sign-in again."))
    CODE_SPENT = (
        "invalid_grant",
        "The code was already used {age} seconds ago, and its access token has been revoked.",
        _("Start the sign-in again."),
    )
    CODE_RACED = (
        "invalid_grant",
        "The code was used by another request less than 3 seconds ago.",
        "Use the access token that request received.",
    )
    CODE_REVOKED = ("invalid_grant", "The code has been revoked.", _("Start the sign-in again."))
    CODE_PERSON_AWAY = (
        "invalid_grant",
        "The account of the person who signed in is switched off.",
        "Only the operator of this service can change that.",
    )
    CODE_REDIRECT_URI = (
        "invalid_grant",
        "The redirect_uri is {sent}, but the code was issued for {issued_for}.",
        "Send that one.",
    )
    VERIFIER_MALFORMED = (
        "invalid_request",
        _("The code_verifier must be 43 to 128 characters: letters, digits, hyphens, dots, underscores and tildes."),
    )
    VERIFIER_MISSING = (
        "invalid_grant",
        "The code was requested with a code_challenge, so code_verifier is required.",
        "Send the one it was made from.",
    )
    VERIFIER_WRONG = (
        "invalid_grant",
        "The code_verifier does not match the code_challenge.",
        "Send the one it was made from.",
    )
    VERIFIER_UNASKED = (
        "invalid_grant",
        "A code_verifier was sent, but no code_challenge in the link that the code came from.",
        "Send both or neither.",
    )

    # User info
    TOKEN_MISSING = (
        "invalid_token",
        "No access token was sent.",
        "Send it in the Authorization header as Bearer followed by the token.",
    )
    TOKEN_IN_URL = (
        "invalid_token",
        "The access token was sent in the URL, where it is not read.",
        "Send it in the Authorization header as Bearer followed by the token.",
    )
    TWO_TOKENS = (
        "invalid_request",
        _("An access token was sent in the Authorization header and another one in the body."),
        _("Send it once, in the header."),
    )
    TOKEN_SCHEME = (
        "invalid_token",
        _("The Authorization header has {scheme}."),
        _("Send Bearer, one space, and the access token."),
    )
    TOKEN_MALFORMED = ("invalid_token", _("The Authorization header must be Bearer, one space, and the access token."))
    TOKEN_OF_ANOTHER_KIND = (
        "invalid_token",
        "What was sent as access token looks like an ID token or another JWT.",
        "Send the access_token that the token operation answered.",
    )
    TOKEN_UNKNOWN = (
        "invalid_token",
        "The access token is not known.",
        "Send the access_token that the token operation answered, not the code. If you do, start the sign-in again.",
    )
    TOKEN_EXPIRED = ("invalid_token", "The access token is older than 1 hour.", _("Start the sign-in again."))
    TOKEN_REVOKED = ("invalid_token", "The access token has been revoked.", _("Start the sign-in again."))
    TOKEN_SCOPE = (
        "insufficient_scope",
        _("The access token does not carry the right to read the profile."),
        _("Start the sign-in again."),
    )
    NO_VERIFIED_EMAIL = (
        "access_denied",
        "The person has no confirmed e-mail address now.",
        "Start the sign-in again, so that they can confirm one.",
    )
