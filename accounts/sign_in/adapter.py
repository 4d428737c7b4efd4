"""allauth's adapter for sign-in, sign-up, passwords and e-mails."""

from __future__ import annotations

import functools
from datetime import datetime, timedelta
from typing import Any, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import get_language, gettext_lazy

from accounts import return_path, throttling
from accounts.errors import AccountFault, refuse, refused
from accounts.factors import authenticators
from accounts.mail import composing, outbox
from accounts.mail.composing import compose
from accounts.mail.outbox import Email
from accounts.models import User
from accounts.pages import too_many_requests
from accounts.sessions import credential_changes, known_browsers, store, user_agents
from accounts.sign_in import reauthentication, sign_up, verification
from accounts.sign_in.forms import check_password
from config.infrastructure import events
from config.infrastructure.network import client_address


def _too_many_sign_ins(request: HttpRequest, seconds: int, person: User, cause: str) -> HttpResponse:
    request.session.flush()  # delete allauth's data about this sign-in
    return too_many_requests(request, seconds, AccountFault.ACCOUNT_LIMITED, cause=cause, person=person.pk)


class AccountAdapter(DefaultAccountAdapter):
    error_messages = DefaultAccountAdapter.error_messages | {
        "email_password_mismatch": gettext_lazy(AccountFault.PASSWORD_WRONG.problem),
        "email_taken": gettext_lazy(AccountFault.ADDRESS_TAKEN.problem),
        "incorrect_code": gettext_lazy(AccountFault.MAIL_CODE_WRONG.problem),
        "rate_limited": gettext_lazy("That was too fast. Wait a moment, then try again."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return settings.SIGN_UP == "open" or sign_up.invited(request) is not None

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:
        user.nickname = form.cleaned_data["nickname"].strip()
        user.language = get_language() or ""
        saved = cast(User, super().save_user(request, user, form, commit))
        events.write(events.Event.SIGNED_UP, person=saved.pk)
        return saved

    def is_ajax(self, request: HttpRequest) -> bool:
        return False  # the answer to each form is a page, whatever format the request accepts

    def is_safe_url(self, url: str | None) -> bool:
        return return_path.is_own_path(url or "")

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)

    def authenticate(self, request: HttpRequest, **credentials: Any) -> User | None:
        """Return the active or inactive account with this address and password, or None. Failures are counted.

        Raises HashingBusy, or FormError at a limit. allauth's limit is not used: it lets anybody lock the owner out.
        """
        email = credentials["email"]
        seconds, limit, owner = throttling.sign_in_wait(request, email)
        if seconds:
            fault = AccountFault.SIGN_IN_LIMITED
            raise refused(fault, "throttled", person=owner, cause=limit, login=email, seconds=seconds)
        person, cause = check_password(email, credentials["password"])
        if not cause:
            return person
        throttling.count_failed_sign_in(request, email)
        is_typed_again = request.user.is_authenticated
        fault = AccountFault.PRESENT_PASSWORD_WRONG if is_typed_again else AccountFault.PASSWORD_WRONG
        refuse(fault, person=owner, cause=cause, login=email)
        return None

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        if reauthentication.is_fresh_enough(self.request):
            return False
        if self.request.method == "POST":  # which allauth would store in the session, with its headers
            raise ImmediateHttpResponse(reauthentication.ask_for_proof(self.request))
        return True

    def pre_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse | None:
        if seconds := throttling.sign_in_begun_wait(request, user):
            return _too_many_sign_ins(request, seconds, user, "sign_ins_begun_limited")
        response: HttpResponse | None = super().pre_login(request, user, **kwargs)
        if response is None:
            verification.align(user)
            credential_changes.begin_sign_in(request, user)
        return response

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        refuse(AccountFault.ACCOUNT_INACTIVE, person=user.pk)
        return render(request, "account/account_inactive.html", status=AccountFault.ACCOUNT_INACTIVE.status)

    def login(self, request: HttpRequest, user: User) -> None:
        """Sign the person in after the last step. Raises ImmediateHttpResponse if the sign-in is refused."""
        is_current = credential_changes.is_sign_in_current(request, user)
        credential_changes.end_sign_in(request)
        if not user.is_active:
            raise ImmediateHttpResponse(self.respond_user_inactive(request, user))
        if not is_current:
            credential_changes.report_changed(request, user)
            raise ImmediateHttpResponse(redirect("account_login"))
        was_known = bool(known_browsers.find(request, user.email))
        if seconds := throttling.sign_in_done_wait(request, user):
            raise ImmediateHttpResponse(_too_many_sign_ins(request, seconds, user, "sign_ins_done_limited"))
        is_first = user.last_login is None  # the person has just signed up
        super().login(request, user)
        events.write(events.Event.SIGNED_IN, person=user.pk, in_known_browser=was_known)
        if authenticators.is_enough_by_link(request, user):
            composing.tell(request, user, "signed_in_by_link", hosts=", ".join(authenticators.other_hosts(user)))
        elif not is_first and user.pk not in known_browsers.read(request)[0]:
            composing.new_browser(request, user)
        request.session[store.BROWSER_KEY] = user_agents.describe(request.headers.get("User-Agent", ""))
        request.session[store.WAS_KNOWN_KEY] = was_known
        # Not before the last step: a password without its second factor must not end sessions.
        store.keep_newest(user, request.session.session_key)

    def post_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse:
        # allauth keeps only one `next` for all tabs of a browser.
        kwargs["redirect_url"] = return_path.requested(request) or kwargs.get("redirect_url")
        response: HttpResponse = super().post_login(request, user, **kwargs)
        known_browsers.add(request, response, user)
        if not user.language:
            user.language = get_language() or ""
            User.objects.filter(pk=user.pk, language="").update(language=user.language)
        return_path.take(request)
        return response

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        return return_path.kept_path(request) or reverse("profile")

    def logout(self, request: HttpRequest) -> None:
        if request.user.is_authenticated:
            events.write(events.Event.SIGNED_OUT, person=request.user.pk)
        return_to = return_path.kept_path(request)
        super().logout(request)
        if return_to:  # a password reset signs out, and then continues there
            return_path.keep(request, return_to)

    def confirm_email(self, request: HttpRequest, email_address: Any) -> bool:
        """Confirm the address. Return whether this worked. A new address ends all credentials except this session."""
        user: User = email_address.user
        is_new = user.email != email_address.email
        same = User.objects.filter(pk=user.pk, credentials_version=user.credentials_version)
        try:
            with transaction.atomic():
                is_current = request.user.is_authenticated or credential_changes.is_sign_in_current(request, user)
                if same.select_for_update().first() is None or not is_current:
                    credential_changes.report_changed(request, user)
                    return False
                verification.delete_unverified(user)
                confirmed: bool = super().confirm_email(request, email_address)
                if confirmed:
                    verification.mark_verified(user, is_new=is_new)
                    events.write(events.Event.ADDRESS_CONFIRMED, person=user.pk, is_new=is_new)
                    if is_new:
                        credential_changes.end_credentials(user, except_session=request.session.session_key)
        except IntegrityError:  # another account has just taken the address
            refuse(AccountFault.ADDRESS_TAKEN, person=user.pk)
            messages.error(request, self.error_messages["email_taken"])
            return False
        if confirmed and is_new:
            update_session_auth_hash(request, user)
        return confirmed

    def clean_password(self, password: str, user: User | None = None) -> str:
        try:
            return str(super().clean_password(password, user=user))
        except ValidationError as error:
            known = user.pk if user and not user._state.adding else None
            refuse(AccountFault.NEW_PASSWORD_WEAK, person=known, cause=error.error_list[0].code or "")
            raise error.error_list[0] from None

    def set_password(self, user: User, password: str) -> None:
        kept = self.request.session.session_key
        try:
            credential_changes.set_password(user, password, except_session=kept)
        except credential_changes.AccountChanged:
            credential_changes.report_changed(self.request, user)
            raise ImmediateHttpResponse(redirect("account_login")) from None

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("security")

    def send_reset_mail(self, person: User) -> None:
        """Send a link for a new password. To an inactive person, instead send an e-mail that there is no account."""
        key = credential_changes.ResetTokenGenerator().make_token(person)
        path = reverse("account_reset_password_from_key", kwargs={"uidb36": person.pk.hex, "key": key})
        context = {"password_reset_url": f"{settings.AUTH_URL}{path}"}  # whatever the Host header says
        # Both are rendered, so that the response time does not reveal which one is sent.
        kinds = ("password_reset_key", "unknown_account")
        link, no_account = (self._compose(kind, person.email, context) for kind in kinds)
        self._send_now(*(link if person.is_active else no_account))

    def send_confirmation_mail(self, request: HttpRequest, emailconfirmation: Any, signup: bool) -> None:
        address = emailconfirmation.email_address
        is_new = address.user.email != address.email
        person = address.user.pk
        if seconds := throttling.mailbox_wait(address.email, "code_mail", "new" if is_new else ""):
            raise ImmediateHttpResponse(too_many_requests(request, seconds, cause="codes_limited", person=person))
        if not is_new:
            super().send_confirmation_mail(request, emailconfirmation, signup)
            events.write(events.Event.ADDRESS_CODE_SENT, person=person)
        else:  # the recipient may not know the account
            self.send_mail("account/email/email_change", address.email, {"code": emailconfirmation.key})

    def send_account_already_exists_mail(self, email: str) -> None:
        if not throttling.mailbox_wait(email, "taken_mail"):
            super().send_account_already_exists_mail(email)

    def send_notification_mail(self, template_prefix: str, user: User, context: Any = None, email: Any = None) -> None:
        context = {"nickname": user.display_name, **(context or {})}
        kind, mail, _expires_at = self._compose(template_prefix.rpartition("/")[2], email or user.email, context)
        if template_prefix.startswith("mfa/"):
            events.write(events.Event.FACTORS_CHANGED, person=user.pk, change=kind)
        outbox.add_notice(kind, mail)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        self._send_now(*self._compose(template_prefix.rpartition("/")[2], email, context))

    def _compose(self, kind: str, address: str, context: dict[str, Any]) -> tuple[str, Email, datetime]:
        now = timezone.now()
        is_code = kind.startswith(("email_confirmation", "email_change"))
        seconds = settings.ACCOUNT_EMAIL_VERIFICATION_BY_CODE_TIMEOUT if is_code else settings.PASSWORD_RESET_TIMEOUT
        expires_at = now + timedelta(seconds=seconds)
        browser = user_agents.browser_name(self.request.headers.get("User-Agent", ""))
        facts = {"now": now, "expires_at": expires_at, "browser": browser}
        return kind, compose(kind, address, context | facts), expires_at

    def _send_now(self, kind: str, mail: Email, expires_at: datetime) -> None:
        if seconds := throttling.mail_wait(self.request, mail.to):
            raise ImmediateHttpResponse(too_many_requests(self.request, seconds, cause="mails_limited"))
        report = functools.partial(composing.report, self.request, expires_at)
        outbox.send_now(kind, mail, expires_at, client_address(self.request), report)
