"""The account pages: profile, security, browsers, language, and the download and deletion of a person's own data."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.decorators import login_required
from django.db import Error, transaction
from django.db.models import Case, QuerySet, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods
from django.views.generic import TemplateView
from django.views.generic.edit import FormView, UpdateView

from accounts import audit_trail, return_path
from accounts.errors import AccountFault, FormError, refuse, refused
from accounts.factors import authenticators as factors
from accounts.form_fields import EmailField, NicknameField
from accounts.mail import composing
from accounts.models import Session, StoredPicture, User
from accounts.pages import AccountPageMixin, RetryLaterMixin
from accounts.pictures import current_picture, reencoder_runner
from accounts.rights import LastAdministrator, keep_one
from accounts.sessions import known_browsers, user_agents
from accounts.sessions.store import digest
from accounts.sign_in.reauthentication import fresh_sign_in_required
from config.infrastructure import events
from config.infrastructure.events import Event
from config.infrastructure.paths import set_cookie

MAX_ZOOM_PERCENT = 400
MIDDLE_PERCENT = 50
LANGUAGE_AGE_SECONDS = 365 * 24 * 3600


def _slider(label: Any, initial: int, least: int, most: int, attrs: dict[str, Any]) -> forms.IntegerField:
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
        """Read the person again, so that an invalid form does not change `request.user`."""
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
    no_name = "" if person.nickname.strip() else _("You have no nickname, so this name is sent.")
    not_confirmed = "" if person.email_verified_at else _("Not confirmed, so applications receive nothing yet.")
    rows = (
        ("avatar", _("Picture"), current_picture.avatar_url(person), ""),
        ("nickname", _("Nickname"), person.display_name, no_name),
        ("email", _("E-mail address"), person.email, not_confirmed),
        ("sub", _("User ID"), str(person.pk), ""),
    )
    return [dict(zip(("name", "label", "value", "note"), row, strict=True)) for row in rows]


@method_decorator([login_required, never_cache], name="dispatch")
class SecurityView(AccountPageMixin, TemplateView):
    template_name = "accounts/security.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        person = cast(User, self.request.user)
        return super().get_context_data(**kwargs) | {
            "has_password": person.has_usable_password(),
            "factors": factors.overview(person),
            "few_recovery_codes": 3,  # the page warns of so few
            "changed_at": person.password_changed_at,
        }


@method_decorator([login_required, never_cache], name="dispatch")
class BrowsersView(AccountPageMixin, TemplateView):
    template_name = "accounts/browsers.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        key = digest(self.request.session.session_key)
        order = (Case(When(session_key=key, then=0), default=1), Coalesce("last_used_at", "created_at").desc())
        browsers = [
            {
                "digest": row.session_key,
                "name": user_agents.shown(row.browser) if row.browser.strip("/") else _("Unknown browser"),
                "is_this": row.session_key == key,
                "since": row.created_at,
                "last_used": row.last_used_at or row.created_at,
            }
            for row in self._sessions().order_by(*order)
        ]
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
        return Session.unexpired().filter(user_id=cast(User, self.request.user).pk)


# Error pages contain the form too, but without a session or the database they have no CSRF token. A forged post changes
# only the language of pages, and no account, because the session cookie is SameSite.
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def choose_language(request: HttpRequest) -> HttpResponse:
    """Store the language in a cookie, and also in the database if the person is signed in."""
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


# The download and the deletion of a person's own data -----------------------------------------------------------------

_COLUMNS = (
    "email",
    "email_verified_at",
    "nickname",
    "language",
    "created_at",
    "last_login",
    "password_changed_at",
    "profile_changed_at",
    "is_staff",
)
ENTRIES = 100  # of each list, the newest: an application can cause thousands of codes for a person


@method_decorator([fresh_sign_in_required, never_cache], name="dispatch")
class ExportView(AccountPageMixin, TemplateView):
    template_name = "accounts/export.html"
    section = "profile"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"entries": ENTRIES}

    def post(self, request: HttpRequest) -> HttpResponse:
        data = self.data(User.objects.get(pk=cast(User, request.user).pk))
        response = JsonResponse(data, json_dumps_params={"indent": 2, "ensure_ascii": False})
        response["Content-Disposition"] = 'attachment; filename="account.json"'
        return response

    def data(self, person: User) -> dict[str, Any]:
        """Return the person's data and the newest ENTRIES sessions, without credentials or their digests."""
        picture = current_picture.png(person) if person.avatar else None
        browsers = person.sessions.values("browser", "created_at", "last_used_at", "expire_date")
        return {
            "sub": person.pk,
            **{name: getattr(person, name) for name in _COLUMNS},
            "groups": sorted(person.groups.values_list("name", flat=True)),
            "picture_png_base64": base64.b64encode(picture).decode() if picture else None,
            "factors": factors.described(person),
            "entries_of_each_list_at_most": ENTRIES,
            "browsers": list(browsers.order_by("-created_at")[:ENTRIES]),
        }


@transaction.atomic
def delete_accounts(request: HttpRequest, *people: User) -> None:
    """Delete the accounts, and e-mail the people with a confirmed address. Raises LastAdministrator."""
    keep_one([person.pk for person in people])
    stored = User.objects.filter(pk__in=[person.pk for person in people])  # another tab may have deleted the account
    for person in stored:
        StoredPicture.objects.filter(name=person.avatar).delete()
        composing.account_deleted(request, person)
        events.write(Event.ACCOUNT_DELETED, person=person.pk)
        audit_trail.write("account_deleted", audit_trail.of_person(person))
    stored.delete()  # readers of codes and tokens also need the person's row, so none that is issued meanwhile is valid


def delete_never_confirmed(people: Iterable[UUID]) -> int:
    """Of `people`, delete those who signed up and have confirmed no address. Return the number of deleted people."""
    found = User.objects.filter(pk__in=people, email_verified_at=None, emailaddress__verified=False)
    return found.delete()[1].get(User._meta.label, 0)


class DeletionForm(forms.Form):
    email = EmailField("off", gettext_lazy("Your e-mail address, to confirm"))


@method_decorator([fresh_sign_in_required, never_cache], name="dispatch")
class DeletionView(AccountPageMixin, FormView):  # type: ignore[type-arg]
    form_class = DeletionForm
    template_name = "accounts/delete.html"
    section = "profile"

    def form_valid(self, form: DeletionForm) -> HttpResponse:
        person = cast(User, self.request.user)
        if form.cleaned_data["email"] != person.email:
            form.add_error("email", refused(AccountFault.ANOTHER_ADDRESS, "another_address", person=person.pk))
            return self.form_invalid(form)
        try:
            delete_accounts(self.request, person)
        except LastAdministrator:
            form.add_error(None, refused(AccountFault.LAST_ADMINISTRATOR, person=person.pk))
            return self.form_invalid(form)
        self.request.session.flush()
        messages.success(self.request, _("Your account is deleted."))
        response = redirect("account_login")
        known_browsers.withdraw(self.request, response)
        return response
