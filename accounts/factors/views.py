"""The pages of second factors and passkeys. allauth implements the flows."""

from __future__ import annotations

from typing import Any, cast

from allauth.account.stages import LoginStageController
from allauth.mfa.base import views as base
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.stages import AuthenticateStage
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from allauth.mfa.webauthn.stages import PasskeySignupStage
from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core import signing
from django.db import IntegrityError, transaction
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.generic.edit import FormView

from accounts import return_path, throttling
from accounts.errors import AccountFault, refused
from accounts.factors import authenticators
from accounts.factors.forms import PasskeySignInForm
from accounts.models import User
from accounts.pages import AccountPageMixin, RetryLaterMixin, too_many_requests
from accounts.sessions import credential_changes


class PasskeyPageMixin:
    """Leaves out allauth's template context, because allauth would parse all passkeys of the person for it."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return FormView.get_context_data(cast(Any, self), **kwargs)


# Signing in ----------------------------------------------------------------------------------------------------------


class PasskeySignInView(return_path.StepMixin, webauthn.LoginWebAuthnView):
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        # GET stores a challenge in a session, and POST takes time to check.
        if seconds := throttling.address_wait(request, "passkey_options"):
            return too_many_requests(request, seconds, cause="passkeys_limited")
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return JsonResponse({"request_options": authenticators.request_options(request)})

    def get_authenticated_redirect_url(self) -> str:
        return return_path.requested(self.request) or reverse("profile")

    def form_valid(self, form: Form) -> HttpResponse:
        return_path.keep(self.request)
        return cast(HttpResponse, super().form_valid(form))

    def form_invalid(self, form: Form) -> HttpResponse:
        has_session = self.request.session.session_key  # the browser called `get` before
        return super().form_invalid(form) if has_session else redirect("account_login")


class SecondFactorView(return_path.StepMixin, RetryLaterMixin, base.AuthenticateView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        passkey_form: Any = self.webauthn_form
        self.webauthn_form: Any = None  # otherwise allauth would parse all passkeys
        context: dict[str, Any] = super().get_context_data(**kwargs)
        form = context["form"]
        types, person = form.types, form.user
        if Authenticator.Type.WEBAUTHN in types or passkey_form.is_bound:
            options = authenticators.request_options(self.request, person)
            context |= {"webauthn_form": passkey_form, "js_data": {"request_options": options}}
        return context | {
            "form": form if types - {Authenticator.Type.WEBAUTHN} else None,
            "has_app": Authenticator.Type.TOTP in types,
            "other_hosts": authenticators.other_hosts(person) if not types else [],
            "person": person,
        }

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        # If the person's factors were removed meanwhile, this page and sign-in would redirect to each other.
        stage = LoginStageController.enter(request, AuthenticateStage.key)
        is_asked = stage and authenticators.is_asked_after_password(stage.login.user)
        if stage and not request.user.is_authenticated and not is_asked:
            return return_path.carry(request, _end(stage))
        return super().dispatch(request, *args, **kwargs)


class FirstPasskeyView(return_path.StepMixin, PasskeyPageMixin, webauthn.SignupWebAuthnView):
    """Adds the first passkey to a new account without a password, after the address is confirmed."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        options = authenticators.creation_options(self.request, context["form"].user)
        return context | {"js_data": {"creation_options": options}}

    @transaction.atomic
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        stage = LoginStageController.enter(request, PasskeySignupStage.key)
        if stage:
            # Once the owner has set a password, somebody who finds this page open must not add a passkey.
            known = [stage.login.user.pk] if stage.login.user else []
            person = User.objects.select_for_update().filter(pk__in=known).first()
            if person is None or not credential_changes.is_sign_in_current(request, person):
                return return_path.carry(request, _end(stage))
        response = super().dispatch(request, *args, **kwargs)
        is_lost = response.get("Location") == reverse("account_signup")  # the session, but the account exists already
        return return_path.carry(request, redirect("account_login")) if is_lost else response

    def form_valid(self, form: Form) -> HttpResponse:
        """Offer recovery codes before the person continues: the passkey is the account's only credential."""
        response = cast(HttpResponse, super().form_valid(form))
        if not self.request.user.is_authenticated:
            return response
        # The device has just verified the person. Without this record, the next page would ask for the passkey.
        proof = PasskeySignInForm()
        proof.cleaned_data = {"credential": authenticators.passkeys_of(self.request.user.pk).latest("pk")}
        proof.save()
        return redirect(return_path.url_of(reverse("mfa_generate_recovery_codes"), response["Location"]))


def _end(stage: Any) -> Any:
    credential_changes.report_changed(stage.request, stage.login.user)
    return stage.abort()


class SecurityPageMixin(LoginRequiredMixin, AccountPageMixin):
    """Requires a sign-in. Otherwise, allauth would store the request of an anonymous visitor in a session."""

    section = "security"


class ConfirmByCodeView(SecurityPageMixin, RetryLaterMixin, base.ReauthenticateView):
    pass


class ConfirmByPasskeyView(SecurityPageMixin, PasskeyPageMixin, webauthn.ReauthenticateWebAuthnView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        options = authenticators.request_options(self.request, cast(User, self.request.user))
        return super().get_context_data(**kwargs) | {
            "js_data": {"request_options": options},
            "reauthentication_alternatives": self.get_reauthentication_alternatives(),
        }

    def form_invalid(self, form: Form) -> HttpResponse:
        for error in form.errors.get("credential", []):
            messages.error(self.request, str(error))
        return HttpResponseRedirect(self.request.get_full_path())


# The page "Security" -------------------------------------------------------------------------------------------------

_CODES_SALT = "accounts.factors.recovery_codes"


class NewFactorMixin:
    """Redirects to new recovery codes if the form made any, else to the return path, else to allauth's page."""

    request: HttpRequest

    def get_success_url(self) -> str:
        url = str(super().get_success_url())  # type: ignore[misc]
        return url if url == reverse("mfa_view_recovery_codes") else return_path.take(self.request) or url

    def form_valid(self, form: Form) -> HttpResponse:
        try:
            with transaction.atomic():
                return cast(HttpResponse, super().form_valid(form))  # type: ignore[misc]
        except IntegrityError:  # another tab has stored the same
            return redirect("security")


class ActivateTOTPView(NewFactorMixin, SecurityPageMixin, totp.ActivateTOTPView):
    @transaction.atomic
    def form_valid(self, form: Form) -> HttpResponse:
        response = super().form_valid(form)
        authenticators.mark_used(self.request.user, form.cleaned_data["code"])  # RFC 6238 §5.2
        return response


class DeactivateTOTPView(SecurityPageMixin, totp.DeactivateTOTPView):
    pass


class RecoveryCodesView(SecurityPageMixin, recovery_codes.ViewRecoveryCodesView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        signed = signing.dumps(context["unused_codes"], salt=_CODES_SALT)
        return context | {"onward": return_path.take(self.request), "signed_codes": signed}

    def head(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return HttpResponse()  # the next GET still shows the codes

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Return the posted codes as a file. The page posts them, signed, because the service shows codes only once."""
        try:
            codes = signing.loads(request.POST.get("codes", ""), salt=_CODES_SALT)
        except signing.BadSignature:
            return redirect("mfa_view_recovery_codes")
        file = render(request, "mfa/recovery_codes/file.txt", {"codes": codes}, "text/plain; charset=utf-8")
        file["Content-Disposition"] = 'attachment; filename="recovery-codes.txt"'
        return file


class NewRecoveryCodesView(SecurityPageMixin, recovery_codes.GenerateRecoveryCodesView):
    """Makes new recovery codes. If the request has `next`, the page has a link to continue there without codes."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"onward": return_path.requested(self.request)}

    def form_valid(self, form: Form) -> HttpResponse:
        return_path.keep(self.request)
        return cast(HttpResponse, super().form_valid(form))


class AddPasskeyView(NewFactorMixin, SecurityPageMixin, RetryLaterMixin, PasskeyPageMixin, webauthn.AddWebAuthnView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        data = {"creation_options": authenticators.creation_options(self.request, cast(User, self.request.user))}
        return super().get_context_data(**kwargs) | {
            "most": authenticators.MOST_PASSKEYS,
            "is_full": self._is_full(),
            "js_data": data,
        }

    @transaction.atomic
    def form_valid(self, form: Form) -> HttpResponse:
        person = cast(User, self.request.user)
        # Two tabs must not exceed authenticators.MOST_PASSKEYS.
        User.objects.select_for_update(no_key=True).get(pk=person.pk)
        if self._is_full():
            return cast(HttpResponse, self.render_to_response(self.get_context_data(form=form)))
        if seconds := throttling.person_wait(person, "new_passkey"):
            fault = AccountFault.NEW_PASSKEYS_LIMITED
            form.add_error(None, refused(fault, "throttled", person=person.pk, seconds=seconds))
            return self.form_invalid(form)
        return super().form_valid(form)

    def _is_full(self) -> bool:
        return authenticators.passkeys_of(self.request.user.pk).count() >= authenticators.MOST_PASSKEYS


class RenamePasskeyView(SecurityPageMixin, webauthn.EditWebAuthnView):
    pass


class RemovePasskeyView(SecurityPageMixin, webauthn.RemoveWebAuthnView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        is_needed = not authenticators.FactorAdapter().can_delete_authenticator(self.object)
        return super().get_context_data(**kwargs) | {"is_needed": is_needed}

    @transaction.atomic
    def form_valid(self, form: Form) -> HttpResponse:
        person = cast(User, self.request.user)
        User.objects.select_for_update().get(pk=person.pk)  # two tabs must not remove the last two passkeys
        if not authenticators.FactorAdapter().can_delete_authenticator(self.object):
            return cast(HttpResponse, self.render_to_response(self.get_context_data(form=form)))
        return cast(HttpResponse, super().form_valid(form))
