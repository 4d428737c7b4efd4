"""The pages on which people download or delete their data. `oauth_bridge` adds its data to the downloaded file."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.generic import TemplateView
from django.views.generic.edit import FormView

from accounts import audit_trail
from accounts.errors import AccountFault, refused
from accounts.factors import authenticators as factors
from accounts.form_fields import EmailField
from accounts.mail import composing
from accounts.models import StoredPicture, User
from accounts.pages import AccountPageMixin
from accounts.pictures import current_picture
from accounts.rights import LastAdministrator, keep_one
from accounts.sessions import known_browsers
from accounts.sign_in.reauthentication import fresh_sign_in_required
from config.infrastructure import events
from config.infrastructure.events import Event

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
_SESSION_COLUMNS = ("browser", "created_at", "last_used_at", "expire_date")


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
        """Return the person's stored data without credentials and their digests; of each list, the newest ENTRIES."""
        picture = current_picture.png(person) if person.avatar else None
        return {
            "sub": person.pk,
            **{name: getattr(person, name) for name in _COLUMNS},
            "groups": sorted(person.groups.values_list("name", flat=True)),
            "picture_png_base64": base64.b64encode(picture).decode() if picture else None,
            "factors": factors.described(person),
            "entries_of_each_list_at_most": ENTRIES,
            "browsers": list(person.sessions.order_by("-created_at").values(*_SESSION_COLUMNS)[:ENTRIES]),
        }


@transaction.atomic
def delete_accounts(request: HttpRequest, *people: User) -> None:
    """Delete the people and all their data, and tell them by e-mail. Raises LastAdministrator: nothing was deleted.

    A code or token that is issued during the deletion is invalid, because its readers also look for the person's row.
    """
    keep_one([person.pk for person in people])
    stored = User.objects.filter(pk__in=[person.pk for person in people])  # another tab may have deleted the account
    for person in stored:
        StoredPicture.objects.filter(name=person.avatar).delete()
        composing.account_deleted(request, person)
        events.write(Event.ACCOUNT_DELETED, person=person.pk)
        audit_trail.write("account_deleted", audit_trail.of_person(person))
    stored.delete()


def delete_never_confirmed(people: Iterable[UUID]) -> int:
    """Delete those of `people` who signed up but still have not confirmed an address. Return their number."""
    found = User.objects.filter(pk__in=people, email_verified_at=None, emailaddress__verified=False)
    return found.delete()[1].get(User._meta.label, 0)


class DeletionForm(forms.Form):
    email = EmailField("off", gettext_lazy("Your e-mail address, to confirm"))

    def __init__(self, *args: Any, person: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person = person

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"]
        if email != self.person.email:
            raise refused(AccountFault.ANOTHER_ADDRESS, "another_address", person=self.person.pk)
        return email


@method_decorator([fresh_sign_in_required, never_cache], name="dispatch")
class DeletionView(AccountPageMixin, FormView):  # type: ignore[type-arg]
    form_class = DeletionForm
    template_name = "accounts/delete.html"
    section = "profile"

    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"person": self.request.user}

    def form_valid(self, form: DeletionForm) -> HttpResponse:
        try:
            delete_accounts(self.request, form.person)
        except LastAdministrator:
            form.add_error(None, refused(AccountFault.LAST_ADMINISTRATOR, person=form.person.pk))
            return self.form_invalid(form)
        self.request.session.flush()
        messages.success(self.request, _("Your account is deleted."))
        response = redirect("account_login")
        known_browsers.withdraw(self.request, response)
        return response
