"""The page on which a person makes an account, and its form."""

from __future__ import annotations

from typing import Any

from allauth.account import views as library
from allauth.account.adapter import get_adapter
from allauth.account.forms import SignupForm
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _

from accounts import invitations, passkeys, returning
from accounts.forms import EmailField, NewPasswordField, NicknameField, PasswordFormMixin
from accounts.models import User
from accounts.retry_later import NewPasswordMixin
from accounts.returning import StepMixin
from accounts.views import return_field


class SignUpForm(PasswordFormMixin, SignupForm):
    """A new account, with a password or, where `by_passkey`, a passkey that is added after the address is confirmed.

    With a taken address it takes the same time, and the page that follows is the same.
    """

    account_already_exists: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.invited: str = kwargs.pop("invited", "")
        super().__init__(*args, **kwargs)
        self.fields = {
            "email": EmailField(),
            "nickname": NicknameField(
                _("The name that applications show. You can change it later."), {"autocomplete": "nickname"}
            ),
        }
        if not self.by_passkey:
            self.fields["password1"] = NewPasswordField(_("Password"))

    def clean_email(self) -> str:
        email: str = super().clean_email()
        if settings.SIGN_UP != "open" and email != self.invited:
            raise ValidationError(_("The invitation is for another address."), code="not_invited")
        return email

    def try_save(self, request: HttpRequest) -> Any:
        """Raises HashingBusy: nothing is stored."""
        if not self.account_already_exists:
            try:
                with transaction.atomic():
                    return super().try_save(request)
            except IntegrityError:  # somebody made an account with the address at the same moment
                self.account_already_exists = True
        person = None if self.by_passkey else self._unconfirmed_account(request)
        return (person, None) if person else super().try_save(request)

    def _unconfirmed_account(self, request: HttpRequest) -> User | None:
        """The account with this address and password, if it waits for its code: the form was posted before.

        Without it, the second post of a double click leads to a page that takes no code. The password of every account
        is checked, as at sign-in and with the same limits, so nobody learns which accounts wait for a code. D21.
        """
        password = self.cleaned_data["password1"]
        try:
            person = get_adapter().authenticate(request, email=self.cleaned_data["email"], password=password)
        except ValidationError:  # the limit of failed sign-ins is reached
            User().set_password(password)
            return None
        return person if person and person.is_active and person.email_verified_at is None else None


class SignUpView(StepMixin, NewPasswordMixin, library.SignupView):
    """Makes an account that is not confirmed, and asks for the code from the mail. A taken address looks the same."""

    request: HttpRequest

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        query = self.request.META.get("QUERY_STRING", "")
        return context | {
            **return_field(self.request),
            "passkeys_are_possible": passkeys.are_possible(),
            "query": f"?{query}" if query else "",  # with the invitation
        }

    def get_form_kwargs(self) -> dict[str, Any]:
        arguments: dict[str, Any] = super().get_form_kwargs()
        return arguments | {"invited": invitations.invited_address(self.request)}

    def get_initial(self) -> dict[str, Any]:
        typed = {name: self.request.POST.get(name, "") for name in ("email", "nickname")}
        return typed | {"email": invitations.invited_address(self.request) or typed["email"]}

    def form_valid(self, form: PasswordFormMixin) -> HttpResponse:
        # The steps after this page may lose `next`.
        returning.remember(self.request)
        return super().form_valid(form)


class PasskeySignUpView(SignUpView):
    """Makes an account without a password. After the code from the mail comes the page that adds a passkey."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not passkeys.are_possible():
            return redirect("account_signup")
        return super().dispatch(request, *args, **kwargs)

    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"by_passkey": True}
