"""The only place that answers django-allauth's questions."""

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

from accounts import returning, throttling, verification
from accounts.credentials import end_credentials
from accounts.models import User
from config.infrastructure.network import client_address

logger = logging.getLogger(__name__)

RESET_MAILS = ("password_reset_key", "unknown_account")

# Where the page that follows says it itself, a message only gets in the way.
_MESSAGES = {
    "account/messages/logged_in.txt": "",
    "account/messages/logged_out.txt": gettext_lazy("You are signed out."),
    "account/messages/password_changed.txt": gettext_lazy("Your new password is saved."),
    "account/messages/email_confirmed.txt": gettext_lazy("Your e-mail address is confirmed."),
    "account/messages/email_confirmation_sent.txt": "",
}


# In the session of a sign-in that goes on after the password: for whom, and under which `credentials_version`.
_BEGUN = "sign_in_begun"


def _state_of(user: AbstractBaseUser) -> list[Any]:
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
        """Nobody gets JSON here, whatever a request says it accepts."""
        return False

    def is_safe_url(self, url: str | None) -> bool:
        return bool(url) and returning.is_own_path(url or "")

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)

    # Signing in --------------------------------------------------------------------------------------------------

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """D21. Takes the place of the library's limits, with which six wrong passwords lock an owner out."""
        seconds = throttling.sign_in_wait(request, credentials["email"])
        if seconds:
            raise ValidationError(throttling.retry_message(seconds), code="throttled", params={"seconds": seconds})

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        throttling.count_failed_sign_in(request, credentials["email"])

    def pre_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse | None:
        response: HttpResponse | None = super().pre_login(request, user, **kwargs)
        if response is None:
            verification.align(cast(User, user))
            request.session[_BEGUN] = _state_of(user)
        return response

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        """Sign in whoever typed the password, perhaps some steps ago.

        Raises ImmediateHttpResponse: since then the account was deactivated or its credentials were ended.
        """
        if request.session.pop(_BEGUN, None) != _state_of(user) or not user.is_active:
            raise ImmediateHttpResponse(redirect("account_login"))
        super().login(request, user)

    def post_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **kwargs)
        throttling.know_browser(request, response, cast(User, user))
        returning.forget(request)
        return response

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        return returning.remembered(request) or reverse("profile")

    def logout(self, request: HttpRequest) -> None:
        """Sign out, and keep where this browser was going: "not you?" must not lose the way back."""
        way_back = returning.remembered(request)
        super().logout(request)
        returning.remember(request, way_back)

    # Address and password ----------------------------------------------------------------------------------------

    def confirm_email(self, request: HttpRequest, email_address: Any) -> bool:
        """The library's several statements in one transaction with `email_verified_at`."""
        with transaction.atomic():
            confirmed: bool = super().confirm_email(request, email_address)
            if confirmed:
                verification.mark_verified(email_address.user)
        return confirmed

    def set_password(self, user: AbstractBaseUser, password: str) -> None:
        """A new password ends what was given out before it, except the session of the browser that chose it.

        Not the library's own, which saves the whole row as it was before the hash was made: an account that was
        deactivated meanwhile would be active again.
        """
        user.set_password(password)
        with transaction.atomic():
            user.save(update_fields=["password"])
            end_credentials(cast(User, user), except_session=self.request.session.session_key)

    # Mail --------------------------------------------------------------------------------------------------------

    def get_reset_password_from_key_url(self, key: str) -> str:
        """At AUTH_URL, whatever host the request named. D1."""
        person, _dash, token = key.partition("-")
        path = reverse("account_reset_password_from_key", kwargs={"uidb36": person, "key": token})
        return f"{settings.AUTH_URL}{path}"

    def send_password_reset_mail(self, user: AbstractBaseUser, email: str, context: dict[str, Any]) -> None:
        """The link, to the address on file and to no other spelling; without an active account, a mail that says so.

        Both mails are written and one is sent, so that the time tells nobody which.
        """
        address = cast(User, user).email
        link, no_account = (self.render_mail(f"account/email/{name}", address, context) for name in RESET_MAILS)
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
        surroundings = {
            "email": email,
            "service_name": settings.SERVICE_NAME,
            "service_url": settings.AUTH_URL,
            "password_reset_address": f"{settings.AUTH_URL}{reverse('account_reset_password')}",
            "code_minutes": settings.ACCOUNT_EMAIL_VERIFICATION_BY_CODE_TIMEOUT // 60,
            "link_minutes": settings.PASSWORD_RESET_TIMEOUT // 60,
        }
        headers = {"Auto-Submitted": "auto-generated", **(headers or {})}
        return cast(EmailMessage, super().render_mail(template_prefix, email, context | surroundings, headers))

    def _send(self, mail: EmailMessage, name: str) -> None:
        """Sent at once, so that a failure can be told to the person who waits for it. Never a 500."""
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
