"""The pages of the profile, of security and of the browsers that are signed in, and the form for the language."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.decorators import login_required
from django.db import Error
from django.db.models import Case, QuerySet, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods
from django.views.generic import TemplateView
from django.views.generic.edit import UpdateView

from accounts import return_path
from accounts.errors import FormError, refuse
from accounts.factors.authenticators import overview
from accounts.form_fields import NicknameField
from accounts.models import Session, User
from accounts.pages import AccountPageMixin, RetryLaterMixin
from accounts.pictures import current_picture, reencoder_runner
from accounts.sessions import user_agents
from accounts.sessions.store import digest
from config.infrastructure.paths import set_cookie

MAX_ZOOM_PERCENT = 400
MIDDLE_PERCENT = 50
FEW_RECOVERY_CODES = 3  # the page warns of so few
LANGUAGE_AGE_SECONDS = 365 * 24 * 3600
_HAND_HELD = ("iPhone", "iPad", "Android")


def _slider(label: Any, initial: int, least: int, most: int, attrs: dict[str, Any]) -> forms.IntegerField:
    """A number in percent. Without a script, the slider is neither visible nor sent."""
    widget = forms.NumberInput({"type": "range", "autocomplete": "off", "data-initial": initial, **attrs})
    return forms.IntegerField(
        label=label, required=False, initial=initial, min_value=least, max_value=most, widget=widget
    )


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]
    nickname = NicknameField(
        gettext_lazy("The name that applications show. Without one they show a name that says nothing about you."),
        {"autocomplete": "nickname"},
    )
    picture = forms.FileField(
        label=gettext_lazy("Picture"),
        required=False,
        help_text=gettext_lazy("JPEG, PNG, GIF or WebP, at most 25 MB. The middle of it is shown, round."),
        widget=forms.FileInput(attrs={"accept": ",".join(reencoder_runner.ACCEPTED_TYPES)}),
    )
    zoom = _slider(gettext_lazy("Zoom"), 100, 100, MAX_ZOOM_PERCENT, {"data-crop": "zoom"})
    # The left end of the slider means the left side of the picture, even on right-to-left pages.
    across = _slider(gettext_lazy("From left to right"), MIDDLE_PERCENT, 0, 100, {"data-crop": "across", "dir": "ltr"})
    down = _slider(gettext_lazy("From top to bottom"), MIDDLE_PERCENT, 0, 100, {"data-crop": "down"})

    class Meta:
        model = User
        fields = ("nickname",)

    def sliders(self) -> list[forms.BoundField]:
        return [self[name] for name in ("zoom", "across", "down")]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors and (upload := cleaned["picture"]):
            zoom, across, down = (
                (field.initial if (value := cleaned[field.name]) is None else value) / 100 for field in self.sliders()
            )
            try:
                cleaned["picture"] = reencoder_runner.reencode(upload, self.instance, (zoom, across, down))
            except FormError as error:
                refuse(error.fault, person=self.instance.pk)
                self.add_error("picture", error)
        return cleaned

    def save(self, commit: bool = True) -> User:
        person: User = super().save(commit=False)
        if "nickname" in self.data and "nickname" in self.changed_data:
            person.change_profile(nickname=person.nickname)
        if self.cleaned_data["picture"]:
            current_picture.set_picture(person, self.cleaned_data["picture"])
        return person


@method_decorator([login_required, never_cache], name="dispatch")
class ProfileView(RetryLaterMixin, AccountPageMixin, UpdateView):  # type: ignore[type-arg]
    form_class = ProfileForm
    template_name = "accounts/profile.html"

    def get_object(self, queryset: Any = None) -> User:
        """Return a new object, so that an invalid form does not change `request.user`."""
        return User.objects.get(pk=cast(User, self.request.user).pk)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {
            "claims": shown_claims(cast(User, self.request.user)),
            "picture_max_bytes": settings.PICTURE_MAX_BYTES,
            "picture_max_megabytes": settings.PICTURE_MAX_BYTES // 1024**2,
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if "remove_picture" in request.POST:
            current_picture.set_picture(self.get_object(), None)
            messages.success(request, _("Your picture is removed."))
            return redirect("profile")
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: ProfileForm) -> HttpResponse:
        form.save()
        messages.success(self.request, _("Your profile is saved."))
        return redirect("profile")


def shown_claims(person: User) -> list[dict[str, str]]:
    """Return name, label and value of each claim of user info, and a note about a missing or unconfirmed value."""
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


@method_decorator([login_required, never_cache], name="dispatch")
class BrowsersView(AccountPageMixin, TemplateView):
    template_name = "accounts/browsers.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        key = digest(self.request.session.session_key)
        order = (Case(When(session_key=key, then=0), default=1), Coalesce("last_used_at", "created_at").desc())
        browsers = [_described(row, is_this=row.session_key == key) for row in self._sessions().order_by(*order)]
        return super().get_context_data(**kwargs) | {"browsers": browsers}

    def post(self, request: HttpRequest) -> HttpResponse:
        others = self._sessions().exclude(session_key=digest(request.session.session_key))
        if "others" in request.POST:
            others.delete()
            messages.success(request, _("All other browsers are signed out."))
        else:
            key = request.POST.get("browser", "")
            if key.isalnum() and others.filter(session_key=key).delete()[0]:  # PostgreSQL refuses control characters
                messages.success(request, _("That browser is signed out."))
        return redirect("browsers")

    def _sessions(self) -> QuerySet[Session]:
        person = cast(User, self.request.user)
        return Session.unexpired().filter(user_id=person.pk)


def _described(row: Session, *, is_this: bool) -> dict[str, Any]:
    return {
        "digest": row.session_key,
        "name": user_agents.shown(row.browser) if row.browser.strip("/") else _("Unknown browser"),
        "is_this": is_this,
        "is_hand_held": row.browser.endswith(_HAND_HELD),
        "since": row.created_at,
        "last_used": row.last_used_at or row.created_at,
    }


# Error pages contain the form too, but without a session or the database they have no CSRF token. A forged post changes
# only the language of pages, and no account, because the session cookie is SameSite.
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def choose_language(request: HttpRequest) -> HttpResponse:
    """Store the posted language in the person's row and in a cookie that config.http.languages reads."""
    if request.method != "POST":  # somebody opened the address of the form
        return redirect("profile")
    there = request.POST.get(REDIRECT_FIELD_NAME, "")
    response = HttpResponseRedirect(there if return_path.is_own_path(there) else reverse("profile"), status=303)
    language = request.POST.get("language", "")
    if language in dict(settings.LANGUAGES):
        set_cookie(response, settings.LANGUAGE_COOKIE_NAME, language, LANGUAGE_AGE_SECONDS)
        response.delete_cookie(settings.UI_LOCALES_COOKIE_NAME, samesite="Lax")
        with suppress(Error):  # the cookie sets the language of pages even without the database
            if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_authenticated:
                User.objects.filter(pk=request.user.pk).update(language=language)
    return response
