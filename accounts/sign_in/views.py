"""The pages for sign-in, sign-out, a new e-mail address and the code that confirms an address, with allauth."""

from __future__ import annotations

from typing import Any, cast

from allauth.account import views as library
from allauth.account.adapter import get_adapter
from allauth.account.decorators import verified_email_required
from allauth.account.stages import EmailVerificationStage, LoginStageController
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST
from django.views.generic.edit import FormView

from accounts import return_path, throttling
from accounts.email_addresses import EMAIL_MAX_LENGTH, looked_up_email
from accounts.errors import AccountFault, refuse
from accounts.factors import authenticators
from accounts.models import User
from accounts.pages import AccountPageMixin, RetryLaterMixin, person_context, too_many_requests
from accounts.sessions import known_browsers
from accounts.sign_in import sign_up, verification
from accounts.sign_in.forms import NewAddressForm, SignInForm
from accounts.sign_in.reauthentication import fresh_sign_in_required
from config.infrastructure import events


class SignInView(return_path.StepMixin, RetryLaterMixin, library.LoginView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        of_session = self.request.session.person
        context |= {
            "passkeys_are_possible": authenticators.passkeys_are_possible(),
            "sign_up_is_open": settings.SIGN_UP == "open",
            "is_switched_off": of_session is not None and not of_session.is_active,
        }
        person = known_browsers.offered(self.request)
        if person and looked_up_email(self._login() or person.email) == person.email:
            context["form"].offer(person.email)
            context["offered"] = person_context(person)
        return context

    def get_initial(self) -> dict[str, Any]:
        return {"login": self._login()}

    def _login(self) -> str:
        suggested = self.request.GET.get(return_path.LOGIN_FIELD_NAME, "")
        return str(self.request.POST.get("login", suggested[:EMAIL_MAX_LENGTH]))

    def form_valid(self, form: SignInForm) -> HttpResponse:
        return_path.keep(self.request)
        response = cast(HttpResponse, super().form_valid(form))
        if response.get("Location", "").startswith(reverse("mfa_authenticate")):
            events.write(events.Event.SECOND_FACTOR_ASKED, person=form.user.pk)
        return response


class SignOutView(AccountPageMixin, library.LogoutView):
    def get_redirect_url(self) -> str:
        return reverse("account_login") + return_path.query(self.request)

    def post(self, *args: Any, **kwargs: Any) -> HttpResponse:
        response = cast(HttpResponse, super().post(*args, **kwargs))
        if return_path.requested(self.request):  # the person wants another account
            known_browsers.withdraw(self.request, response)
        return response


def sign_out(request: HttpRequest) -> None:
    get_adapter().logout(request)


@require_POST
def forget_account(request: HttpRequest) -> HttpResponse:
    response = redirect(reverse("account_login") + return_path.query(request))
    known_browsers.withdraw(request, response)
    return response


def send_code(request: HttpRequest) -> HttpResponse:
    """For a POST, send a signed-in person a code if the address is unconfirmed. Always redirect."""
    if request.method != "POST":
        return _continue(request)
    if request.user.is_authenticated:
        verification.align(request.user)
    response = cast(HttpResponse, _continue_when_verified(request))
    code_page = reverse("account_email_verification_sent")
    is_to_code_page = response.get("Location", "").startswith(code_page)
    return redirect(code_page + return_path.query(request)) if is_to_code_page else response


def _continue(request: HttpRequest) -> HttpResponse:
    return redirect(return_path.requested(request) or "profile")


_continue_when_verified = verified_email_required(_continue)


@method_decorator([fresh_sign_in_required, never_cache], name="dispatch")
class EmailView(AccountPageMixin, FormView):  # type: ignore[type-arg]
    """Mails a code to a new address. The account keeps its address until the person types the code."""

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
class CodeView(return_path.StepMixin, library.ConfirmEmailVerificationCodeView):
    waits_for_code = False

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = super().dispatch(request, *args, **kwargs)
        if request.method == "POST" and not self.waits_for_code:
            refuse(AccountFault.MAIL_CODE_EXPIRED, person=request.user.pk)
        # Another tab has confirmed the address.
        is_done = request.user.is_authenticated and response.get("Location") == reverse("account_email")
        return _continue(request) if is_done else response

    def get_context_data(self, **kwargs: Any) -> Any:
        context = super().get_context_data(**kwargs)
        return context | {"can_begin_again": sign_up.can_begin_again(self.request, context["email"])}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        self.waits_for_code = True
        if "begin_again" in request.POST and sign_up.can_begin_again(request, self.get_context_data()["email"]):
            return sign_up.begin_again(request)
        return cast(HttpResponse, super().post(request, *args, **kwargs))

    def form_valid(self, form: Any) -> HttpResponse:
        stage = LoginStageController.enter(self.request, EmailVerificationStage.key)
        if stage and stage.login.user is None:  # the account was deleted meanwhile
            refuse(AccountFault.MAIL_CODE_EXPIRED, cause="account_deleted")
            return cast(HttpResponse, stage.abort())
        before = getattr(self.request.user, "email", None)
        response = cast(HttpResponse, super().form_valid(form))
        person = self.request.user
        if before and person.is_authenticated:
            person.refresh_from_db()
            if person.email != before:  # the change has made this browser unknown
                known_browsers.add(self.request, response, person)
        return response
