"""The page "Security", the page for a new password, and the page that asks for the password again."""

from __future__ import annotations

from typing import Any, cast

from allauth.account import views as library
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic import TemplateView

from accounts import known_browsers
from accounts.factors.adapter import overview
from accounts.forms import PasswordFormMixin
from accounts.models import User
from accounts.pages import AccountPageMixin
from accounts.retry_later import NewPasswordMixin, RetryLaterMixin


@method_decorator([login_required, never_cache], name="dispatch")
class SecurityView(AccountPageMixin, TemplateView):
    template_name = "accounts/security.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        person = cast(User, self.request.user)
        return super().get_context_data(**kwargs) | {
            "has_password": person.has_usable_password(),
            "factors": overview(person),
            "changed_at": person.password_changed_at,
        }


@method_decorator([login_required, never_cache], name="dispatch")
class PasswordChangeView(AccountPageMixin, NewPasswordMixin, library.PasswordChangeView):
    """Asks for the present password, even after a fresh sign-in. A person without a password gets a link by mail."""

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
            # The new password also ended the known-browser mark of this browser.
            known_browsers.remember(self.request, response, cast(User, self.request.user))
        return response


@method_decorator(never_cache, name="dispatch")
class ConfirmView(AccountPageMixin, RetryLaterMixin, library.ReauthenticateView):
    """Asks for the password again. allauth redirects to `next` afterwards (accounts.freshness)."""

    template_name = "accounts/confirm.html"
