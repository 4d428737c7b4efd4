"""allauth's adapter: what it asks about sign-in, passwords, e-mails and messages."""

from __future__ import annotations

import functools
from datetime import datetime, timedelta
from typing import Any, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from accounts import (
    credentials,
    freshness,
    invitations,
    known_browsers,
    languages,
    outbox,
    returning,
    throttling,
    user_agents,
    verification,
)
from accounts.emails import Email, compose
from accounts.models import User
from accounts.retry_later import too_many_requests
from accounts.sessions import BROWSER_KEY
from config.infrastructure.network import client_address

RESET_TEMPLATES = ("password_reset_key", "unknown_account")

# Our wording; none where the next page says the same.
_MESSAGES = {
    "account/messages/logged_in.txt": "",
    "account/messages/logged_out.txt": gettext_lazy("You are signed out."),
    "account/messages/password_changed.txt": gettext_lazy("Your new password is saved."),
    "account/messages/email_confirmed.txt": gettext_lazy("Your e-mail address is confirmed."),
    "account/messages/email_confirmation_sent.txt": "",
    "mfa/messages/totp_activated.txt": gettext_lazy("The authenticator app is set up."),
    "mfa/messages/totp_deactivated.txt": gettext_lazy("The authenticator app is switched off."),
    "mfa/messages/webauthn_added.txt": gettext_lazy("The passkey is added."),
    "mfa/messages/webauthn_removed.txt": gettext_lazy("The passkey is removed."),
    "mfa/messages/recovery_codes_generated.txt": "",
}


# Session key of a sign-in that needs more steps after the password.
_SIGN_IN_STATE = "sign_in_begun"


def _sign_in_state(user: AbstractBaseUser) -> list[Any]:
    """Whose sign-in it is, and the version of their credentials when they typed the password."""
    return [str(user.pk), cast(User, user).credentials_version]


def _kind_of(template_prefix: str) -> str:
    return template_prefix.rpartition("/")[2]


class AccountAdapter(DefaultAccountAdapter):
    error_messages = DefaultAccountAdapter.error_messages | {
        "email_password_mismatch": gettext_lazy("The e-mail address or the password is not right."),
        "email_taken": gettext_lazy("Another account uses this address, so yours stays as it is."),
        "incorrect_code": gettext_lazy("This is not the code we sent. Look at the newest mail from us."),
        "too_many_login_attempts": gettext_lazy("Too many attempts. Wait a moment, then sign in again."),
        "rate_limited": gettext_lazy("That was too fast. Wait a moment, then try again."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return invitations.may_sign_up(request)

    def save_user(self, request: HttpRequest, user: AbstractBaseUser, form: Any, commit: bool = True) -> User:
        person = cast(User, user)
        person.nickname = form.cleaned_data["nickname"].strip()
        person.language = get_language() or ""
        return cast(User, super().save_user(request, person, form, commit))

    def is_ajax(self, request: HttpRequest) -> bool:
        """Only a script asks for the options of a passkey. Everything else is answered with a page."""
        return request.method == "GET" and request.path == reverse("mfa_login_webauthn")

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

    def reauthenticate(self, user: AbstractBaseUser, password: str) -> bool:
        """Check the person's password as at sign-in, with the same limits, and for the address in the person's row."""
        return self.authenticate(self.request, email=cast(User, user).email, password=password) is not None

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        """For allauth's own sensitive pages: a sign-in counts as well, so nobody types the password twice at once."""
        return not freshness.is_fresh(self.request)

    def pre_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse | None:
        response: HttpResponse | None = super().pre_login(request, user, **kwargs)
        if response is None:
            verification.align(cast(User, user))
            request.session[_SIGN_IN_STATE] = _sign_in_state(user)
        return response

    def is_current_sign_in(self, request: HttpRequest, user: AbstractBaseUser) -> bool:
        """Whether the account is active, and its credentials have not ended since this sign-in began."""
        return request.session.get(_SIGN_IN_STATE) == _sign_in_state(user) and user.is_active

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        """Sign the person in, after the password and any further step.

        Raises ImmediateHttpResponse: the account was deactivated, or its credentials ended, after the password.
        """
        is_current = self.is_current_sign_in(request, user)
        request.session.pop(_SIGN_IN_STATE, None)
        if not is_current:
            raise ImmediateHttpResponse(redirect("account_login" if user.is_active else "account_inactive"))
        super().login(request, user)
        request.session[BROWSER_KEY] = user_agents.describe(request.headers.get("User-Agent", ""))

    def post_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse:
        # Where the page of the last step says that it leads to. allauth keeps one address for all tabs of a browser.
        kwargs["redirect_url"] = returning.requested(request) or kwargs.get("redirect_url")
        response: HttpResponse = super().post_login(request, user, **kwargs)
        known_browsers.remember(request, response, cast(User, user))
        languages.learn(cast(User, user))
        returning.forget(request)
        return response

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        return returning.remembered(request) or reverse("profile")

    def logout(self, request: HttpRequest) -> None:
        """Sign out and keep the return path: a password reset that signs somebody else out leads on to it."""
        with returning.kept(request):
            super().logout(request)

    # Address and password ----------------------------------------------------------------------------------------

    def confirm_email(self, request: HttpRequest, email_address: Any) -> bool:
        """Run allauth's statements in one transaction with `email_verified_at`. A new address ends credentials. P12."""
        user: User = email_address.user
        is_new = user.email != email_address.email
        try:
            with transaction.atomic():
                if User.objects.select_for_update().filter(pk=user.pk).first() is None:  # deleted at this moment
                    return False
                verification.forget_unverified(user)
                confirmed: bool = super().confirm_email(request, email_address)
                if confirmed:
                    verification.mark_verified(user)
                    if is_new:
                        credentials.end_credentials(user, except_session=request.session.session_key)
        except IntegrityError:  # an account took the address at this moment
            messages.error(request, self.error_messages["email_taken"])
            return False
        if confirmed and is_new:
            update_session_auth_hash(request, user)
        return confirmed

    def set_password(self, user: AbstractBaseUser, password: str) -> None:
        """End the person's credentials too, except the session of this browser. allauth's own saves the whole row."""
        credentials.set_password(cast(User, user), password, except_session=self.request.session.session_key)

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("security")

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
        link, no_account = (self._compose(kind, address, context) for kind in RESET_TEMPLATES)
        self._send_now(*(link if user.is_active else no_account))

    def send_confirmation_mail(self, request: HttpRequest, emailconfirmation: Any, signup: bool) -> None:
        """The code. The owner of a new address may know nothing of the account, so that mail has a text of its own.

        Raises ImmediateHttpResponse: the mailbox has got many codes.
        """
        address = emailconfirmation.email_address
        is_new = address.user.email != address.email
        if seconds := throttling.code_wait(address.email, is_new=is_new):
            raise ImmediateHttpResponse(too_many_requests(request, seconds))
        if not is_new:
            super().send_confirmation_mail(request, emailconfirmation, signup)
        else:
            self.send_mail("account/email/email_change", address.email, {"code": emailconfirmation.key})

    def send_account_already_exists_mail(self, email: str) -> None:
        """Beyond the limit nothing is sent, and the page does not say so: the owner has some of these mails."""
        if throttling.may_send_taken_mail(email):
            super().send_account_already_exists_mail(email)

    def send_notification_mail(
        self,
        template_prefix: str,
        user: AbstractBaseUser,
        context: dict[str, Any] | None = None,
        email: str | None = None,
    ) -> None:
        """Tell the person at the given address, for example the one before a change, or else at their own."""
        person = cast(User, user)
        kind, mail, _expires_at = self._compose(
            _kind_of(template_prefix), email or person.email, {"nickname": person.display_name, **(context or {})}
        )
        outbox.add_notice(kind, mail)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send an e-mail for which the person waits."""
        self._send_now(*self._compose(_kind_of(template_prefix), email, context))

    def _compose(self, kind: str, address: str, context: dict[str, Any]) -> tuple[str, Email, datetime]:
        """The e-mail, with its kind and the time when the code or the link in it expires."""
        now = timezone.now()
        is_code = kind.startswith(("email_confirmation", "email_change"))
        seconds = settings.ACCOUNT_EMAIL_VERIFICATION_BY_CODE_TIMEOUT if is_code else settings.PASSWORD_RESET_TIMEOUT
        expires_at = now + timedelta(seconds=seconds)
        browser = user_agents.browser_name(self.request.headers.get("User-Agent", ""))
        facts = {"now": now, "expires_at": expires_at, "browser": browser}
        return kind, compose(kind, address, context | facts), expires_at

    def _send_now(self, kind: str, mail: Email, expires_at: datetime) -> None:
        outbox.send_now(kind, mail, expires_at, functools.partial(self._report, expires_at))

    def _report(self, expires_at: datetime, outcome: outbox.Outcome) -> None:
        """Say on the next page when the e-mail is not sent."""
        if outcome is outbox.Outcome.LATER:
            text = _("The mail could not be sent yet. We keep trying until %(time)s UTC.")
            messages.warning(self.request, text % {"time": date_format(expires_at, "TIME_FORMAT")})
        elif outcome is outbox.Outcome.GIVEN_UP:
            text = _("The mail could not be sent: the mail server of that address did not take it.")
            messages.error(self.request, text)

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
