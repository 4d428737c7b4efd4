"""The list of people in Django admin: their state and invitation, their rights, and their last sign-in."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from accounts.admin import UserAdmin
from accounts.models import User
from accounts.pages import person_context
from accounts.templatetags.times import ago
from oauth_bridge.administration import person as page
from oauth_bridge.administration import record_facts, shown

STATES: dict[str, tuple[Any, dict[str, Any]]] = {
    "active": (
        pgettext_lazy("person", "Active"),
        {"is_active": True, "invited_at": None, "email_verified_at__isnull": False},
    ),
    "unconfirmed": (gettext_lazy("Not confirmed"), {"is_active": True, "invited_at": None, "email_verified_at": None}),
    "invited": (gettext_lazy("Invited"), {"is_active": True, "invited_at__isnull": False}),
    "off": (pgettext_lazy("person", "Off"), {"is_active": False}),
}


class StateFilter(admin.SimpleListFilter):
    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, word) for name, (word, _columns) in STATES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        _word, columns = STATES.get(self.value() or "", ("", {}))
        return queryset.filter(**columns)


@admin.register(User)
class PersonAdmin(UserAdmin):
    list_display = ("named", "state", "administration", "last_sign_in")
    list_display_links = None
    list_filter = (StateFilter, "is_staff")
    search_fields = ("email",)  # shows the field; `get_search_results` searches
    search_help_text = gettext_lazy("Name, e-mail or user ID")

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        rows = found.result_list = list(found.result_list)
        locked_until, invitations = record_facts.locked_until([row.pk for row in rows]), page.invitations(rows)
        for row in rows:
            row.shown_state = page.state(row, locked_until.get(row.pk))
            row.invitation = invitations.get(row.pk, "")
        return found

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[User], search_term: str) -> Any:
        return queryset.filter(page.matching(search_term)), False

    def response_add(self, request: HttpRequest, obj: User, post_url_continue: str | None = None) -> HttpResponse:
        invited = shown.page("accounts_user_changelist", state="invited")
        return redirect(invited if self.has_view_permission(request) else "admin:index")

    @admin.display(description=gettext_lazy("person"), ordering="email")
    def named(self, person: User) -> str:
        context = {"person": person, "shown": person_context(person)}
        return render_to_string("admin/accounts/user/_named.html", context)

    @admin.display(description=gettext_lazy("state"), ordering="is_active")
    def state(self, person: Any) -> str:
        badge, word = person.shown_state
        about = format_html('<br><span class="quiet">{}</span>', person.invitation) if person.invitation else ""
        return format_html('<span class="badge {}">{}</span>{}', badge, word, about)

    @admin.display(description=gettext_lazy("Administration"), ordering="is_staff")
    def administration(self, person: User) -> str:
        if person.is_staff and person.is_superuser:
            return _("Everything")
        return _("With chosen rights") if person.is_staff else "–"

    @admin.display(description=gettext_lazy("Last sign-in"), ordering=F("last_login").asc(nulls_first=True))
    def last_sign_in(self, person: User) -> str:
        at = ago(person.last_login) if person.last_login else "–"
        return format_html('<span class="word">{} </span>{}', _("Last sign-in"), at)
