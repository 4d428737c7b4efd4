"""The pages of second factors and passkeys. The flows are allauth's; texts and redirects are decided here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from allauth.account.adapter import get_adapter as get_account_adapter
from allauth.mfa.base import views as base
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from django.contrib import messages
from django.db import IntegrityError, transaction
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts import returning, throttling
from accounts.factors.adapter import FactorAdapter, has_any, has_passkey
from accounts.factors.forms import AddPasskeyForm
from accounts.models import User
from accounts.pages import AccountPageMixin
from accounts.retry_later import too_many_requests
from accounts.returning import StepMixin

# Signing in ----------------------------------------------------------------------------------------------------------


class PasskeySignInView(StepMixin, webauthn.LoginWebAuthnView):
    """GET: the options for the browser, as JSON. POST: its answer. The query is that of the sign-in page."""

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Each call stores a challenge in a session, so calls are counted."""
        if seconds := throttling.passkey_options_wait(request):
            return too_many_requests(request, seconds)
        return cast(HttpResponse, super().get(request, *args, **kwargs))

    def get_authenticated_redirect_url(self) -> str:
        """The URL for a person who has signed in in another tab meanwhile."""
        return returning.requested(self.request) or reverse("profile")

    def form_valid(self, form: Form) -> HttpResponse:
        returning.remember(self.request)
        return cast(HttpResponse, super().form_valid(form))

    def form_invalid(self, form: Form) -> HttpResponse:
        for error in form.errors.get("credential", []):
            messages.error(self.request, str(error))
        return HttpResponseRedirect(reverse("account_login") + returning.query(self.request))


class SecondFactorView(StepMixin, base.AuthenticateView):
    """Asks for a code after the password, or for a passkey if the person has one."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        if not self.webauthn_form.is_bound and not has_passkey(self.stage.login.user):
            context["webauthn_form"] = None
        return context

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Abort the sign-in when its factors were removed: the sign-in page would redirect back here for ever."""
        response = super().dispatch(request, *args, **kwargs)
        stage = getattr(request, "_login_stage", None)
        if stage and not request.user.is_authenticated and not has_any(stage.login.user):
            stage.abort()
        return response


class FirstPasskeyView(StepMixin, webauthn.SignupWebAuthnView):
    """Adds the passkey of an account that is made without a password, once its address is confirmed."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Redirect to the sign-in page when the session was lost: the account exists, and a reset sets its password."""
        response = super().dispatch(request, *args, **kwargs)
        is_lost = response.get("Location") == reverse("account_signup")
        return returning.carry(request, redirect("account_login")) if is_lost else response

    def get_form_class(self) -> type[AddPasskeyForm]:
        return AddPasskeyForm

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._unless_ended(super().get)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._unless_ended(super().post)

    @transaction.atomic
    def _unless_ended(self, handler: Callable[[HttpRequest], Any]) -> HttpResponse:
        """Call the handler, or abort when the person's credentials have ended since the sign-up began.

        Otherwise whoever finds the open page adds a passkey to an account whose owner has set a password.
        """
        stage = self._login_stage
        known = [stage.login.user.pk] if stage.login.user else []
        person = User.objects.select_for_update().filter(pk__in=known).first()
        is_current = person is not None and get_account_adapter().is_current_sign_in(self.request, person)
        return cast(HttpResponse, handler(self.request) if is_current else stage.abort())


class SecurityPageMixin(AccountPageMixin):
    section = "security"


class ConfirmByCodeView(SecurityPageMixin, base.ReauthenticateView):
    """Asks for a code before a sensitive change."""


class ConfirmByPasskeyView(SecurityPageMixin, webauthn.ReauthenticateWebAuthnView):
    """Asks for a passkey before a sensitive change."""

    def form_invalid(self, form: Form) -> HttpResponse:
        for error in form.errors.get("credential", []):
            messages.error(self.request, str(error))
        return HttpResponseRedirect(self.request.get_full_path())


# The page "Security" -------------------------------------------------------------------------------------------------


class AlreadyStoredMixin:
    """Redirects to the page "Security" when another tab has stored the same factor, or recovery codes, first."""

    def form_valid(self, form: Form) -> HttpResponse:
        try:
            with transaction.atomic():
                return cast(HttpResponse, super().form_valid(form))  # type: ignore[misc]
        except IntegrityError:
            return redirect("security")


class ActivateTOTPView(AlreadyStoredMixin, SecurityPageMixin, totp.ActivateTOTPView):
    pass


class DeactivateTOTPView(SecurityPageMixin, totp.DeactivateTOTPView):
    pass


class RecoveryCodesView(SecurityPageMixin, recovery_codes.ViewRecoveryCodesView):
    """Shows the codes at the first GET only."""

    def head(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show nothing, so that the next GET shows the codes."""
        return HttpResponse()


class NewRecoveryCodesView(SecurityPageMixin, recovery_codes.GenerateRecoveryCodesView):
    pass


class AddPasskeyView(AlreadyStoredMixin, SecurityPageMixin, webauthn.AddWebAuthnView):
    pass


class RenamePasskeyView(SecurityPageMixin, webauthn.EditWebAuthnView):
    pass


class RemovePasskeyView(SecurityPageMixin, webauthn.RemoveWebAuthnView):
    """Removes a passkey, unless the person could not sign in without it."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        is_needed = not FactorAdapter().can_delete_authenticator(self.object)
        return super().get_context_data(**kwargs) | {"is_needed": is_needed}

    @transaction.atomic
    def form_valid(self, form: Form) -> HttpResponse:
        person = cast(User, self.request.user)
        User.objects.select_for_update().get(pk=person.pk)  # so that two tabs can't remove the last two
        if not FactorAdapter().can_delete_authenticator(self.object):
            return cast(HttpResponse, self.render_to_response(self.get_context_data(form=form)))
        return cast(HttpResponse, super().form_valid(form))
