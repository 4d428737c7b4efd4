"""The page on which a signed-in person changes the password, and the part that all pages for a new password share.

allauth implements the flow. A person without the present password uses a mailed link: `password_reset`.
"""

from __future__ import annotations

from typing import Any, cast

from allauth.account import views as library
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from accounts.account_page import AccountPageMixin
from accounts.models import User
from accounts.passwords.hashing import HashingBusy
from accounts.retry_after import RetryLaterMixin
from accounts.sessions import known_browsers
from accounts.sign_in.forms import PasswordFormMixin


class NewPasswordMixin(RetryLaterMixin):
    """Asks for the new password again, and stores nothing, if the process is too busy to hash the password."""

    busy_field = "password1"  # the field that gets the focus

    def form_valid(self, form: PasswordFormMixin) -> HttpResponse:
        try:
            return cast(HttpResponse, super().form_valid(form))  # type: ignore[misc]
        except HashingBusy:
            form.add_busy_error(self.busy_field)
            return self.form_invalid(form)


@method_decorator([login_required, never_cache], name="dispatch")
class PasswordChangeView(AccountPageMixin, NewPasswordMixin, library.PasswordChangeView):
    """Asks for the current password, even after a recent sign-in. A person without a password gets a mailed link."""

    template_name = "accounts/password_change.html"
    section = "security"
    busy_field = "oldpassword"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not cast(User, request.user).has_usable_password():
            return redirect("account_reset_password")
        return cast(HttpResponseBase, super().dispatch(request, *args, **kwargs))

    def form_valid(self, form: PasswordFormMixin) -> HttpResponse:
        response = super().form_valid(form)
        if not form.is_busy:
            # The new password has made this browser unknown, so mark the browser as known again.
            person = cast(User, self.request.user)
            known_browsers.add(self.request, response, person)
        return response
