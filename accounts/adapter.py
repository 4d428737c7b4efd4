"""allauth's adapter: what it asks about sign-in, passwords, e-mails and messages."""

from __future__ import annotations

import logging
from smtplib import SMTPException
from typing import Any, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts import credentials, known_browsers, returning, throttling, verification
from accounts.models import User
from config.infrastructure.network import client_address

logger = logging.getLogger(__name__)

RESET_TEMPLATES = ("password_reset_key", "unknown_account")

# Our wording; none where the next page says the same.
_MESSAGES = {
    "account/messages/logged_in.txt": "",
    "account/messages/logged_out.txt": gettext_lazy("You are signed out."),
    "account/messages/password_changed.txt": gettext_lazy("Your new password is saved."),
    "account/messages/email_confirmed.txt": gettext_lazy("Your e-mail address is confirmed."),
    "account/messages/email_confirmation_sent.txt": "",
}


# Session key of a sign-in that needs more steps after the password.
_SIGN_IN_STATE = "sign_in_begun"


def _sign_in_state(user: AbstractBaseUser) -> list[Any]:
    """Whose sign-in it is, and the version of their credentials when they typed the password."""
    return [str(user.pk), cast(User, user).credentials_version]


class AccountAdapter(DefaultAccountAdapter):
    error_messages = DefaultAccountAdapter.error_messages | {
        "email_password_mismatch": gettext_lazy("The e-mail address or the password is not right."),
        "incorrect_code": gettext_lazy("This is not the code we sent. Look at the newest mail from us."),
        "too_many_login_attempts": gettext_lazy("Too many attempts. Wait a moment, then sign in again."),
        "rate_limited": gettext_lazy("That was too fast. Wait a moment, then try again."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_ajax(self, request: HttpRequest) -> bool:
        """Always answer with a page, whatever the request accepts."""
        return False

    def is_safe_url(self, url: str | None) -> bool:
        return returning.is_own_path(url or "")

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)

    # Signing in --------------------------------------------------------------------------------------------------

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """D21. Replaces allauth's limits, with which six wrong passwords from anywhere lock the owner out."""
        seconds = throttling.sign_in_wait(request, credentials["email"])
        if seconds:
            raise ValidationError(throttling.retry_message(seconds), code="throttled", params={"seconds": seconds})

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        throttling.count_failed_sign_in(request, credentials["email"])

    def pre_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse | None:
        response: HttpResponse | None = super().pre_login(request, user, **kwargs)
        if response is None:
            verification.align(cast(User, user))
            request.session[_SIGN_IN_STATE] = _sign_in_state(user)
        return response

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        """Sign the person in, after the password and any further step.

        Raises ImmediateHttpResponse: the account was deactivated, or its credentials ended, after the password.
        """
        if request.session.pop(_SIGN_IN_STATE, None) != _sign_in_state(user) or not user.is_active:
            raise ImmediateHttpResponse(redirect("account_login"))
        super().login(request, user)

    def post_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **kwargs)
        known_browsers.remember(request, response, cast(User, user))
        returning.forget(request)
        return response

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        return returning.remembered(request) or reverse("profile")

    def logout(self, request: HttpRequest) -> None:
        """Sign out and keep the return path, which "not you?" still needs."""
        return_to = returning.remembered(request)
        super().logout(request)
        returning.remember(request, return_to)

    # Address and password ----------------------------------------------------------------------------------------

    def confirm_email(self, request: HttpRequest, email_address: Any) -> bool:
        """Run allauth's statements in one transaction with `email_verified_at`."""
        with transaction.atomic():
            confirmed: bool = super().confirm_email(request, email_address)
            if confirmed:
                verification.mark_verified(email_address.user)
        return confirmed

    def set_password(self, user: AbstractBaseUser, password: str) -> None:
        """End the person's credentials too, except the session of this browser. allauth's own saves the whole row."""
        credentials.set_password(cast(User, user), password, except_session=self.request.session.session_key)

    # E-mail ------------------------------------------------------------------------------------------------------

    def get_reset_password_from_key_url(self, key: str) -> str:
        """The link of a reset e-mail, at AUTH_URL whatever the Host header says. D1."""
        user_id, _dash, token = key.partition("-")
        path = reverse("account_reset_password_from_key", kwargs={"uidb36": user_id, "key": token})
        return f"{settings.AUTH_URL}{path}"

    def send_password_reset_mail(self, user: AbstractBaseUser, email: str, context: dict[str, Any]) -> None:
        """Send the link to the stored spelling of the address, or, without an active account, an e-mail that says so.

        Both e-mails are rendered, so that the response time does not reveal which one is sent.
        """
        address = cast(User, user).email
        link, no_account = (self.render_mail(f"account/email/{name}", address, context) for name in RESET_TEMPLATES)
        self._send(link if user.is_active else no_account, "password reset")

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        self._send(self.render_mail(template_prefix, email, context), template_prefix)

    def render_mail(
        self,
        template_prefix: str,
        email: str | list[str],
        context: dict[str, Any],
        headers: dict[str, str] | None = None,
    ) -> EmailMessage:
        common = {
            "email": email,
            "service_name": settings.SERVICE_NAME,
            "service_url": settings.AUTH_URL,
            "password_reset_address": f"{settings.AUTH_URL}{reverse('account_reset_password')}",
            "code_minutes": settings.ACCOUNT_EMAIL_VERIFICATION_BY_CODE_TIMEOUT // 60,
            "link_minutes": settings.PASSWORD_RESET_TIMEOUT // 60,
        }
        headers = {"Auto-Submitted": "auto-generated", **(headers or {})}
        return cast(EmailMessage, super().render_mail(template_prefix, email, context | common, headers))

    def _send(self, mail: EmailMessage, name: str) -> None:
        """Send at once. A failure is logged, and the next page shows it to the person."""
        try:
            mail.send()
        except (OSError, SMTPException) as error:
            logger.error("mail not sent: %s", type(error).__name__, extra={"mail": name})
            messages.error(self.request, _("We could not send the mail just now. Try again in a few minutes."))

    # Pages -------------------------------------------------------------------------------------------------------

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        message_context: dict[str, Any] | None = None,
        extra_tags: str = "",
        message: str | None = None,
    ) -> None:
        if message_template in _MESSAGES:
            message, message_template = str(_MESSAGES[message_template]), None
        super().add_message(request, level, message_template, message_context, extra_tags, message)
