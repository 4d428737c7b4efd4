"""The page of the profile."""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.generic import TemplateView
from django.views.generic.edit import UpdateView

from accounts.account_page import AccountPageMixin, person_context
from accounts.factors.authenticators import overview
from accounts.models import User
from accounts.pictures import current_picture
from accounts.profile.forms import ProfileForm
from accounts.retry_after import RetryLaterMixin


@method_decorator([login_required, never_cache], name="dispatch")
class ProfileView(RetryLaterMixin, UpdateView):  # type: ignore[type-arg]
    form_class = ProfileForm
    template_name = "accounts/profile.html"

    def get_object(self, queryset: Any = None) -> User:
        """Return a new object for the person, so that an invalid form does not change `request.user`."""
        return User.objects.get(pk=cast(User, self.request.user).pk)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        person = cast(User, self.request.user)
        return super().get_context_data(**kwargs) | {
            "person": person_context(person),
            "email_confirmed": person.email_verified_at is not None,
            "has_picture": bool(person.avatar),
            "claims": shown_claims(person),
            "picture_max_bytes": settings.PICTURE_MAX_BYTES,
            "picture_max_megabytes": settings.PICTURE_MAX_BYTES // 1024**2,
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if "remove_picture" in request.POST:
            current_picture.remove_picture(self.get_object())
            messages.success(request, _("Your picture is removed."))
            return redirect("profile")
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: ProfileForm) -> HttpResponse:
        form.save()
        messages.success(self.request, _("Your profile is saved."))
        return redirect("profile")


def shown_claims(person: User) -> list[dict[str, str]]:
    """Return the claims of user info in the order in which pages show them, with notes on missing values (D16)."""
    values = {
        "avatar": (_("Picture"), current_picture.avatar_url(person)),
        "nickname": (_("Nickname"), person.display_name),
        "email": (_("E-mail address"), person.email),
        "sub": (_("User ID"), str(person.pk)),
    }
    shown = [{"name": name, "label": label, "value": value, "note": ""} for name, (label, value) in values.items()]
    if not person.nickname.strip():
        shown[1]["note"] = _("You have no nickname, so this name is sent.")
    if person.email_verified_at is None:
        shown[2]["note"] = _("Not confirmed, so applications receive nothing yet.")
    return shown


FEW_RECOVERY_CODES = 3  # the page warns if at most FEW_RECOVERY_CODES codes are left


@method_decorator([login_required, never_cache], name="dispatch")
class SecurityView(AccountPageMixin, TemplateView):
    template_name = "accounts/security.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        person = cast(User, self.request.user)
        return super().get_context_data(**kwargs) | {
            "has_password": person.has_usable_password(),
            "factors": overview(person),
            "few_recovery_codes": FEW_RECOVERY_CODES,
            "changed_at": person.password_changed_at,
        }
