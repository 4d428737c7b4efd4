"""The sign-up pages, their form, and invitations."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlencode

from allauth.account import views as library
from allauth.account.adapter import get_adapter
from allauth.account.forms import SignupForm
from django.conf import settings
from django.contrib import messages
from django.core import signing
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from accounts import audit_trail, return_path, throttling
from accounts.errors import AccountFault, refuse, refused
from accounts.factors import authenticators
from accounts.form_fields import EmailField, NewPasswordField, NicknameField
from accounts.models import User
from accounts.pages import too_many_requests
from accounts.sessions.credential_changes import end_credentials
from accounts.sign_in.forms import PasswordFormMixin, check_password
from accounts.sign_in.password_pages import NewPasswordMixin

INVITATION_FIELD_NAME = "invitation"
_SALT = "accounts.invited"
_TYPED = "sign_up"  # the session's key for the typed values


def invite(person: User) -> str:
    """Store an invitation and return its URL. The URL works while `invited_at` is set, at most for INVITATION_AGE."""
    person.invited_at = timezone.now()
    if person._state.adding:
        person.set_unusable_password()
        person.save()
    else:
        User.objects.filter(pk=person.pk, email_verified_at=None).update(invited_at=person.invited_at)
    audit_trail.write("account_invited", audit_trail.of_person(person))
    query = urlencode({INVITATION_FIELD_NAME: signing.dumps(str(person.pk), salt=_SALT)})
    return f"{settings.AUTH_URL}{reverse('account_signup')}?{query}"


def invited(request: HttpRequest) -> User | None:
    sealed = request.POST.get(INVITATION_FIELD_NAME) or request.GET.get(INVITATION_FIELD_NAME) or ""
    try:
        key = signing.loads(sealed, salt=_SALT, max_age=settings.INVITATION_AGE)
    except (signing.BadSignature, ValueError):
        return None
    return User.objects.filter(pk=key, is_active=True, invited_at__isnull=False).first()


def can_begin_again(request: HttpRequest, email: str) -> bool:
    """Return whether somebody has begun to sign up with the address `email` in this session, and is not signed in."""
    return not request.user.is_authenticated and request.session.get(_TYPED, {}).get("email") == email


def begin_again(request: HttpRequest) -> HttpResponse:
    """Delete the sent code, and redirect to the form with the typed values except the password."""
    typed = request.session[_TYPED]
    get_adapter().logout(request)
    request.session[_TYPED] = typed | {"is_shown": True}
    return redirect(typed["path"] + return_path.query(request))


class SignUpForm(PasswordFormMixin, SignupForm):
    """Makes an account. A taken address leads to the same page, in the same time, as a free address."""

    account_already_exists: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.invited: User | None = kwargs.pop("invited", None)
        self.begun: str | None = kwargs.pop("begun", None)
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
        if settings.SIGN_UP != "open" and email != (self.invited and self.invited.email):
            raise refused(AccountFault.NOT_INVITED, "not_invited")
        return email

    def clean_password1(self) -> str:
        typed = {name: self.cleaned_data.get(name, "") for name in ("email", "nickname")}
        return str(get_adapter().clean_password(self.cleaned_data["password1"], user=User(**typed)))

    def clean(self) -> Any:
        return super(SignupForm, self).clean()  # allauth's password check ignores the nickname

    def try_save(self, request: HttpRequest) -> Any:
        """Return the account and None or, for a taken address, None and a response. Raises HashingBusy."""
        if person := self._begun_account():
            return person, None
        if not self.account_already_exists:
            try:
                with transaction.atomic():
                    return super().try_save(request)
            except IntegrityError:  # another request made an account with the address at the same moment
                self.account_already_exists = True
        person = None if self.by_passkey else self._unconfirmed_account(request)
        if person:
            return person, None
        saved = super().try_save(request)
        refuse(AccountFault.ADDRESS_TAKEN, cause="address_taken_at_sign_up")
        return saved

    def _begun_account(self) -> User | None:
        """If an unconfirmed account was invited or made in this browser, update and return it, else return None."""
        key, email = self.invited.pk if self.invited else self.begun, self.cleaned_data["email"]
        if key is None:
            return None
        waiting = User.objects.filter(pk=key, email=email, email_verified_at=None, is_active=True)
        person = waiting.first()
        if person is None:
            return None
        person.set_password(None if self.by_passkey else self.cleaned_data["password1"])
        with transaction.atomic():
            # While the password was hashed, the address may have been confirmed, or the invitation withdrawn.
            if waiting.select_for_update().first() is None:
                return None
            if self.invited:  # somebody else may be using the link
                end_credentials(person)
            person.change_profile(nickname=self.cleaned_data["nickname"].strip(), password=person.password)
        return person

    def _unconfirmed_account(self, request: HttpRequest) -> User | None:
        """Return the active, unconfirmed account with the typed address and password, or None."""
        # A double click posts the form twice. The password is checked for every address, with the limits of sign-in,
        # so that nobody learns which accounts are unconfirmed.
        email, password = self.cleaned_data["email"], self.cleaned_data["password1"]
        if throttling.sign_in_wait(request, email)[0]:
            User().set_password(password)
            return None
        person, cause = check_password(email, password)
        if cause:
            throttling.count_failed_sign_in(request, email)
            return None
        return person if person and person.is_active and person.email_verified_at is None else None


class SignUpView(return_path.StepMixin, NewPasswordMixin, library.SignupView):
    request: HttpRequest
    user: User | None  # the account that the form has made; None for a taken address

    @cached_property
    def invited(self) -> User | None:
        return invited(self.request)

    def get_authenticated_redirect_url(self) -> str:
        if self.invited:
            text = _("The invitation is for another account. Sign out, then open its link again.")
            messages.warning(self.request, text)
        return cast(str, super().get_authenticated_redirect_url())

    def closed(self) -> HttpResponse:
        is_invited = INVITATION_FIELD_NAME in (*self.request.GET, *self.request.POST)
        refuse(AccountFault.SIGN_UP_CLOSED, cause="invitation_invalid" if is_invited else "")
        return cast(HttpResponse, super().closed())

    def get_context_data(self, **kwargs: Any) -> Any:
        query = self.request.META.get("QUERY_STRING", "")
        return super().get_context_data(**kwargs) | {
            "passkeys_are_possible": authenticators.passkeys_are_possible(),
            "query": f"?{query}" if query else "",  # the query contains the invitation
        }

    def get_form_kwargs(self) -> Any:
        begun = self.request.session.get(_TYPED, {}).get("person")
        return super().get_form_kwargs() | {"invited": self.invited, "begun": begun}

    def get_initial(self) -> dict[str, Any]:
        if self.invited:
            return {"email": self.invited.email, "nickname": self.invited.nickname}
        before = self.request.session.get(_TYPED, {})
        return before if before.get("is_shown") else {}

    def form_valid(self, form: PasswordFormMixin) -> HttpResponse:
        if seconds := throttling.address_wait(self.request, "sign_up", "sign_up_day"):
            return too_many_requests(self.request, seconds, cause="sign_up_limited")
        return_path.keep(self.request)
        response = super().form_valid(form)
        # If SIGN_UP is not open, the invitation determines the address, so the session keeps no values to correct.
        if settings.SIGN_UP == "open" and response.status_code == HTTPStatus.FOUND:
            self.request.session[_TYPED] = {
                "email": form.cleaned_data["email"],
                "nickname": form.cleaned_data["nickname"],
                "person": self.user and str(self.user.pk),
                "path": self.request.path,
            }
        return response


class PasskeySignUpView(SignUpView):
    def get_form_kwargs(self) -> Any:
        return super().get_form_kwargs() | {"by_passkey": True}
