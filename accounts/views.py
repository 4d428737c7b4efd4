"""The pages of sign-in, password reset and profile. The flows are allauth's; texts and redirects are decided here."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Any, cast

from allauth.account import views as library
from allauth.account.decorators import verified_email_required
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import SimpleTemplateResponse
from django.urls import reverse
from django.utils.cache import get_conditional_response
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from django.views.generic.edit import UpdateView

from accounts import avatars, last_account, passkeys, returning, throttling, verification
from accounts.facts import facts
from accounts.forms import ResetRequestForm, SignInForm
from accounts.media import NotStored
from accounts.models import User, normalise_email
from accounts.profile import ProfileForm
from accounts.retry_later import NewPasswordMixin, RetryLaterMixin, too_many_requests
from accounts.sessions import SessionStore
from accounts.uploads import UPLOAD_MAX_BYTES

AVATAR_AGE_SECONDS = 30 * 24 * 3600
OLD_AVATAR_AGE_SECONDS = 60


# Signing in and out --------------------------------------------------------------------------------------------------


class SignInView(returning.StepMixin, RetryLaterMixin, library.LoginView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {
            **return_field(self.request),
            **self._offer(context),
            "passkeys_are_possible": passkeys.are_possible(),
            "sign_up_is_open": settings.SIGN_UP == "open",
            "is_switched_off": cast(SessionStore, self.request.session).is_of_deactivated_account,
        }

    def _offer(self, context: dict[str, Any]) -> dict[str, Any]:
        """The account that signed in last with this browser, unless another address was typed."""
        person = last_account.offered(self.request)
        if person is None or normalise_email(self.request.POST.get("login", person.email)) != person.email:
            return {}
        context["form"].offer(person.email)
        return {"offered": person_context(person)}

    def get_initial(self) -> dict[str, Any]:
        return {"login": self.request.POST.get("login", "")}

    def form_valid(self, form: SignInForm) -> HttpResponse:
        # A step after the password, such as the code from the mail, may lose `next`.
        returning.remember(self.request)
        return cast(HttpResponse, super().form_valid(form))


class SignOutView(library.LogoutView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | return_field(self.request) | {"person": person_context(cast(User, self.request.user))}

    def get_redirect_url(self) -> str:
        return returning.onward_from_sign_out(self.request)

    def post(self, *args: Any, **kwargs: Any) -> HttpResponse:
        """Sign out. With a return path it is to use another account, so this one is not offered."""
        response = cast(HttpResponse, super().post(*args, **kwargs))
        if returning.requested(self.request):
            last_account.forget(response)
        return response


@require_POST
def forget_account(request: HttpRequest) -> HttpResponse:
    """Stop offering the last account, and show the sign-in page again."""
    response = redirect(returning.onward_from_sign_out(request))
    last_account.forget(response)
    return response


def send_code(request: HttpRequest) -> HttpResponse:
    """Send a code to the signed-in person's address and show the code page; continue at `next` if it is confirmed.

    allauth redirects here with a GET after the code, so the URL of the form has `next` in its query.
    """
    if request.method != "POST":
        return _continue(request)
    if request.user.is_authenticated:
        verification.align(request.user)
    response = cast(HttpResponse, _continue_when_verified(request))
    is_to_code_page = response.get("Location", "").startswith(reverse("account_email_verification_sent"))
    return redirect(returning.code_page_url(request)) if is_to_code_page else response


def _continue(request: HttpRequest) -> HttpResponse:
    return redirect(returning.requested(request) or "profile")


_continue_when_verified = verified_email_required(_continue)


# Password reset ------------------------------------------------------------------------------------------------------


class PasswordResetView(returning.StepMixin, library.PasswordResetView):
    """Asks for the address. The session keeps the return path: allauth would follow it before the reset."""

    def get_initial(self) -> dict[str, Any]:
        return {"email": self.request.POST.get("email", "")}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | return_field(self.request)

    def form_valid(self, form: ResetRequestForm) -> HttpResponse:
        if seconds := throttling.reset_wait(self.request):
            return too_many_requests(self.request, seconds)
        returning.remember(self.request)
        return cast(HttpResponse, super().form_valid(form))

    def get_success_url(self) -> str:
        return reverse("account_reset_password_done")


class PasswordResetFromKeyView(returning.StepMixin, NewPasswordMixin, library.PasswordResetFromKeyView):
    """The page of the link in the e-mail."""

    def logout(self) -> None:
        """Only when the form is posted: opening another person's link must not sign anybody out."""
        if self.request.method == "POST":
            super().logout()


# Profile -------------------------------------------------------------------------------------------------------------


@method_decorator([login_required, never_cache], name="dispatch")
class ProfileView(RetryLaterMixin, UpdateView):  # type: ignore[type-arg]
    form_class = ProfileForm
    template_name = "accounts/profile.html"

    def get_object(self, queryset: Any = None) -> User:
        """A copy of `request.user`, which an invalid form must not change."""
        return User.objects.get(pk=cast(User, self.request.user).pk)

    def get_initial(self) -> dict[str, Any]:
        return {"nickname": self.request.POST["nickname"]} if "nickname" in self.request.POST else {}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        person = cast(User, self.request.user)
        return super().get_context_data(**kwargs) | {
            "person": person_context(person),
            "email_confirmed": person.email_verified_at is not None,
            "has_picture": bool(person.avatar),
            "claims": facts(person),
            "picture_max_bytes": UPLOAD_MAX_BYTES,
            "picture_max_megabytes": UPLOAD_MAX_BYTES // 1024**2,
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if "remove_picture" in request.POST:
            avatars.remove_picture(self.get_object())
            messages.success(request, _("Your picture is removed."))
            return redirect("profile")
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: ProfileForm) -> HttpResponse:
        try:
            form.save()
        except NotStored:
            text = _(
                "Your picture could not be saved because of a fault on our side. Try again later. The rest is saved."
            )
            messages.error(self.request, text)
        else:
            messages.success(self.request, _("Your profile is saved."))
        return redirect("profile")


def person_context(person: User) -> dict[str, str]:
    """The person, for templates."""
    return {"display_name": person.display_name, "email": person.email, "avatar_url": avatars.avatar_url(person)}


def return_field(request: HttpRequest) -> dict[str, Any]:
    """`next` for the page's form, checked (allauth's context has it unchecked)."""
    return {
        "redirect_field_name": REDIRECT_FIELD_NAME,
        "redirect_field_value": returning.requested(request),
    }


# When a request is refused -------------------------------------------------------------------------------------------


def stale_form(request: HttpRequest) -> HttpResponseBase | None:
    """The page of a form whose CSRF token is missing or old, rendered anew; None for pages of other packages.

    The page keeps what was typed, except passwords. A person who has signed in in another tab continues at once.
    """
    match = request.resolver_match
    if match is None or not match.func.__module__.startswith(("accounts.", "allauth.")):
        return None
    messages.warning(request, _("This page was open for too long or in too many windows. Please try again."))
    request.POST.keys()  # Django reads the form once, and only while the method is POST
    request.method = "GET"
    try:
        response = match.func(request, *match.args, **match.kwargs)
        if isinstance(response, SimpleTemplateResponse):
            response.render()
    finally:
        request.method = "POST"
    if response.status_code == HTTPStatus.OK:
        response.status_code = HTTPStatus.FORBIDDEN
    return response if response.status_code != HTTPStatus.METHOD_NOT_ALLOWED else redirect("profile")


# Pictures ------------------------------------------------------------------------------------------------------------


@require_safe
def avatar(request: HttpRequest, sub: uuid.UUID, version: str) -> HttpResponseBase:
    """The picture of the `avatar` claim, public and cacheable. Specification 2.4; D16.

    The URL of an old version shows the present picture and is cached briefly. While its file can't be read, it shows
    initials, which are not cached. No session is read and no cookie set.
    """
    person = User.objects.only("avatar", "nickname").filter(pk=sub, is_active=True).first()
    if person is None:
        raise Http404
    current = avatars.version(person)
    etag = f'"{current}"'
    age = AVATAR_AGE_SECONDS if version == current else OLD_AVATAR_AGE_SECONDS
    caching = {"ETag": etag, "Cache-Control": f"public, max-age={age}"}
    # A client that sends this ETag has the picture, even while its file can't be read.
    response = get_conditional_response(request, etag=etag)
    if response is None:
        picture = avatars.png(person)
        if picture is None:
            picture, caching = avatars.drawn(person), {"Cache-Control": "no-store"}
        response = HttpResponse(picture, content_type="image/png")
    always = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin"}
    for name, value in {**caching, **always}.items():
        response[name] = value
    return response
