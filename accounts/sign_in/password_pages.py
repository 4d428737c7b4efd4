"""Change the password, or choose a new password with a mailed link. allauth implements the flows."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, cast

from allauth.account import views as library
from allauth.account.adapter import get_adapter
from allauth.account.forms import ResetPasswordKeyForm
from django import forms
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from accounts import return_path, throttling
from accounts.errors import AccountFault, refuse
from accounts.form_fields import EmailField
from accounts.models import User
from accounts.pages import AccountPageMixin, RetryLaterMixin, too_many_requests
from accounts.passwords.hashing import HashingBusy
from accounts.sessions import known_browsers
from accounts.sign_in import verification
from accounts.sign_in.forms import NewPasswordFormMixin, PasswordFormMixin
from config.infrastructure import events


class NewPasswordMixin(RetryLaterMixin):
    busy_field = "password1"  # the form asks for this password again if the process is too busy to hash it

    def form_valid(self, form: PasswordFormMixin) -> HttpResponse:
        try:
            return cast(HttpResponse, super().form_valid(form))  # type: ignore[misc]
        except HashingBusy:
            form.add_busy_error(self.busy_field)
            return self.form_invalid(form)


class ResetRequestForm(forms.Form):
    email = EmailField()

    def save(self, request: HttpRequest) -> None:
        """Send a link, or an e-mail that there is no active account. Both cases do the same work and show one page.

        Beyond the limit, send nothing. Earlier links stay valid, so that repeated requests do not lock the owner out.
        """
        email: str = self.cleaned_data["email"]
        found = User.objects.filter(email=email, is_active=True).first()
        person = found.pk if found else None
        if not throttling.may_send_reset_email(request, email):
            refuse(AccountFault.RESET_MAIL_LIMITED, person=person)
            return
        events.write(events.Event.PASSWORD_RESET_ASKED, person=person)
        get_adapter().send_reset_mail(found or User(email=email, is_active=False))


class NewPasswordForm(NewPasswordFormMixin, ResetPasswordKeyForm):
    def save(self) -> None:
        super().save()
        verification.clear_nickname_of_sign_up(self.user)
        verification.mark_verified(self.user)  # it received the link
        # In the sign-in that follows, a proof of identity from the old session must not replace the second factor.
        adapter = get_adapter()
        adapter.logout(adapter.request)


class PasswordResetView(return_path.StepMixin, library.PasswordResetView):
    def form_valid(self, form: ResetRequestForm) -> HttpResponse:
        if seconds := throttling.address_wait(self.request, "reset"):
            return too_many_requests(self.request, seconds, cause="reset_limited")
        return_path.keep(self.request)
        return cast(HttpResponse, super().form_valid(form))

    def get_success_url(self) -> str:  # allauth would redirect to the return path before the reset
        return reverse("account_reset_password_done")


class PasswordResetFromKeyView(return_path.StepMixin, NewPasswordMixin, library.PasswordResetFromKeyView):
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method == "POST" and (seconds := throttling.address_wait(request, "new_password")):
            return too_many_requests(request, seconds, cause="new_password_limited")
        return cast(HttpResponse, super().dispatch(request, *args, **kwargs))

    def get_context_data(self, **kwargs: Any) -> Any:
        if "token_fail" in kwargs:
            refuse(AccountFault.RESET_LINK_INVALID)
        return super().get_context_data(**kwargs)

    def logout(self) -> None:
        if self.request.method == "POST":  # opening somebody else's link signs nobody out
            super().logout()


@method_decorator([login_required, never_cache], name="dispatch")
class PasswordChangeView(AccountPageMixin, NewPasswordMixin, library.PasswordChangeView):
    template_name = "accounts/password_change.html"
    section = "security"
    busy_field = "oldpassword"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not cast(User, request.user).has_usable_password():
            return redirect("account_reset_password")
        return cast(HttpResponseBase, super().dispatch(request, *args, **kwargs))

    def form_valid(self, form: PasswordFormMixin) -> HttpResponse:
        response = super().form_valid(form)
        if response.status_code == HTTPStatus.FOUND:  # the new password has made this browser unknown
            known_browsers.add(self.request, response, cast(User, self.request.user))
        return response
