"""The pages on which a person proves that an e-mail address is theirs: a new one, or the present one at sign-in."""

from __future__ import annotations

from typing import Any, cast

from allauth.account import views as library
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic.edit import FormView

from accounts import known_browsers, returning, throttling, verification
from accounts.forms import CodeForm, NewAddressForm
from accounts.freshness import fresh_sign_in_required
from accounts.models import User
from accounts.pages import AccountPageMixin
from accounts.retry_later import too_many_requests
from accounts.returning import StepMixin


@method_decorator([fresh_sign_in_required, never_cache], name="dispatch")
class EmailView(AccountPageMixin, FormView):  # type: ignore[type-arg]
    """Mails a code to a new address. Until it is typed, only the session knows that address, and the old one counts.

    The page, the mail and the steps are the same for an address that belongs to another account.
    """

    form_class = NewAddressForm
    template_name = "accounts/email.html"
    section = "profile"
    success_url = reverse_lazy("account_email_verification_sent")

    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"user": self.request.user}

    def form_valid(self, form: NewAddressForm) -> HttpResponse:
        person = cast(User, self.request.user)
        if seconds := throttling.new_address_wait(person):
            return too_many_requests(self.request, seconds)
        verification.align(person)
        form.save(self.request)
        return super().form_valid(form)


@method_decorator(never_cache, name="dispatch")
class CodeView(StepMixin, library.ConfirmEmailVerificationCodeView):
    """The page for the mailed code."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Lead on when another tab has confirmed the address."""
        response = super().dispatch(request, *args, **kwargs)
        is_done = request.user.is_authenticated and response.get("Location") == reverse("account_email")
        return redirect(returning.requested(request) or "profile") if is_done else response

    def form_valid(self, form: Any) -> HttpResponse:
        if isinstance(form, CodeForm) and form.user is None:  # the account was deleted meanwhile
            return cast(HttpResponse, self.stage.abort() if self.stage else redirect("account_login"))
        before = getattr(self.request.user, "email", None)
        response = cast(HttpResponse, super().form_valid(form))
        person = self.request.user
        if before and person.is_authenticated:
            person.refresh_from_db()
            if person.email != before:  # the change has ended the mark of this browser too
                known_browsers.remember(self.request, response, person)
        return response
