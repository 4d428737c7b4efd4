"""The pages on which a person confirms an e-mail address: a new address, or the current address at sign-in."""

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

from accounts import return_path, throttling
from accounts.account_page import AccountPageMixin
from accounts.errors import AccountFault, refuse
from accounts.models import User
from accounts.retry_after import too_many_requests
from accounts.return_path import StepMixin
from accounts.sessions import known_browsers
from accounts.sign_in import sign_up, verification
from accounts.sign_in.forms import CodeForm, NewAddressForm
from accounts.sign_in.reauthentication import fresh_sign_in_required


@method_decorator([fresh_sign_in_required, never_cache], name="dispatch")
class EmailView(AccountPageMixin, FormView):  # type: ignore[type-arg]
    """Mails a code to a new address.

    Until the code is typed, only the session contains the new address, and the old address stays valid.

    If another account uses the address, the page and the steps are the same.
    """

    form_class = NewAddressForm
    template_name = "accounts/email.html"
    section = "profile"
    success_url = reverse_lazy("account_email_verification_sent")

    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"user": self.request.user}

    def form_valid(self, form: NewAddressForm) -> HttpResponse:
        person = cast(User, self.request.user)
        if seconds := throttling.person_wait(person, "new_address"):
            return too_many_requests(self.request, seconds, cause="new_address_limited", person=person.pk)
        verification.align(person)
        form.save(self.request)
        return super().form_valid(form)


@method_decorator(never_cache, name="dispatch")
class CodeView(StepMixin, library.ConfirmEmailVerificationCodeView):
    """Asks for the mailed code."""

    waits_for_code = False

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Redirect to the next step if another tab has confirmed the address."""
        response = super().dispatch(request, *args, **kwargs)
        if request.method == "POST" and not self.waits_for_code:
            refuse(AccountFault.MAIL_CODE_EXPIRED, person=request.user.pk)
        is_done = request.user.is_authenticated and response.get("Location") == reverse("account_email")
        return redirect(return_path.requested(request) or "profile") if is_done else response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {"can_begin_again": sign_up.can_begin_again(self.request, context["email"])}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        self.waits_for_code = True
        if "begin_again" in request.POST and sign_up.can_begin_again(request, self.get_context_data()["email"]):
            return sign_up.begin_again(request)
        return cast(HttpResponse, super().post(request, *args, **kwargs))

    def form_valid(self, form: Any) -> HttpResponse:
        if isinstance(form, CodeForm) and form.user is None:  # the account was deleted meanwhile
            refuse(AccountFault.MAIL_CODE_EXPIRED, cause="account_deleted")
            return cast(HttpResponse, self.stage.abort() if self.stage else redirect("account_login"))
        before = getattr(self.request.user, "email", None)
        response = cast(HttpResponse, super().form_valid(form))
        person = self.request.user
        if person.is_authenticated:
            sign_up.drop_typed(self.request)
        if before and person.is_authenticated:
            person.refresh_from_db()
            if person.email != before:  # the change has made this browser unknown
                known_browsers.add(self.request, response, person)
        return response
