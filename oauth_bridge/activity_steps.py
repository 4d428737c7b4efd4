"""Find the step of a sign-in at which an error occurred. Other errors are not recorded in the activity log."""

from __future__ import annotations

from django.http import HttpRequest

from config.infrastructure import paths
from config.infrastructure.errors import Fault, RequestError, SiteFault
from oauth_bridge.activity_models import Step
from oauth_bridge.errors import OAuthFault
from oauth_bridge.protocol.authorization_request import EMBEDDED

# Most faults in NOT_RECORDED do not belong to a step of a sign-in. If a script or frame of a known application caused
# the fault, `step_of` nevertheless returns a step. AWAY is not recorded, because the database is unavailable.
NOT_RECORDED: set[Fault] = {
    SiteFault.BAD_REQUEST,
    SiteFault.HOST,
    SiteFault.HOST_NAMED,
    SiteFault.FORBIDDEN,
    SiteFault.NOT_FOUND,
    SiteFault.METHOD,
    SiteFault.HEADER_TOO_LONG,
    SiteFault.AWAY,
    OAuthFault.SPECULATIVE,
}
STEPS_OF_PATHS = {paths.TOKEN: Step.EXCHANGE, paths.USERINFO: Step.PROFILE, paths.LOGOUT: Step.LOGOUT}
# The step of each page of `accounts`, by the name of the page's route.
STEPS_OF_ROUTES = dict.fromkeys(
    (
        "account_login",
        "mfa_login_webauthn",
        "account_signup",
        "account_signup_by_passkey",
        "mfa_signup_webauthn",
        "account_email_verification_sent",
        "send_code",
        "account_reset_password",
        "account_reset_password_from_key",
    ),
    Step.SIGN_IN,
) | {"mfa_authenticate": Step.SECOND_FACTOR}
# The faults that authorize raises after it has verified the request.
CONSENT_FAULTS = {
    OAuthFault.NOT_ADMITTED,
    OAuthFault.REFUSED,
    OAuthFault.NO_VERIFIED_EMAIL,
    OAuthFault.ATTEMPT_FINISHED,
    OAuthFault.CONSENT_PAGE_OUTDATED,
}


def step_of(request: HttpRequest, error: RequestError) -> Step | None:
    """Return the step of a sign-in in which the error occurred; None if the error does not belong to a sign-in."""
    fault = error.fault
    if fault in NOT_RECORDED and not (error.client and error.cause in EMBEDDED.values()):
        return None
    if request.path == paths.AUTHORIZE:
        return Step.CONSENT if request.method == "POST" or fault in CONSENT_FAULTS else Step.AUTHORIZE
    if step := STEPS_OF_PATHS.get(request.path):
        return step
    match = request.resolver_match
    return STEPS_OF_ROUTES.get(match.url_name or "") if match else None
