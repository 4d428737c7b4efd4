"""The list of applications in Django admin. Each row shows the state of one application."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from oauth_bridge.applications import summaries
from oauth_bridge.applications.admin_permissions import ApplicationPermissions
from oauth_bridge.models import Application
from oauth_bridge.shown_times import ago


class SummarisedList(ChangeList):
    """A change list that sets `summary` on each application of the page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        found = summaries.of(rows)
        for row in rows:
            row.summary = found[row.pk]
        self.result_list = rows


class ApplicationList(ApplicationPermissions):
    """The columns of the list. The name of an application links to its page."""

    list_display = ("named", "state", "kind", "month", "failed", "secret_ends", "last_sign_in")
    list_display_links = None
    search_help_text = gettext_lazy("Name, host or client ID")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return SummarisedList

    @admin.display(description=gettext_lazy("application"), ordering="name")
    def named(self, application: Application) -> str:
        return render_to_string("admin/oauth_bridge/application/_named.html", {"application": application})

    @admin.display(description=gettext_lazy("state"))
    def state(self, application: Application) -> str:
        state = application.summary.state  # type: ignore[attr-defined]  # SummarisedList
        return format_html('<span class="badge {}">{}</span>', state.badge, state.word)

    @admin.display(description=gettext_lazy("kind"), ordering="client_type")
    def kind(self, application: Application) -> str:
        kind = str(summaries.KINDS[application.client_type])
        trusted = _("trusted")
        return f"{kind}, {trusted}" if application.is_trusted else kind

    @admin.display(description=gettext_lazy("30 days"))
    def month(self, application: Application) -> str:
        return _figure(application.summary.month, gettext_lazy("sign-ins in 30 days"))  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("Failed, 24 h"))
    def failed(self, application: Application) -> str:
        return _figure(application.summary.failed, gettext_lazy("failed in 24 h"))  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("Secret ends"))
    def secret_ends(self, application: Application) -> str:
        summary = application.summary  # type: ignore[attr-defined]
        if application.is_public:
            return _("has none")
        if not summary.has_secret:
            return format_html('<span class="danger-text">{}</span>', _("ended"))
        return date_format(summary.secret_ends_at, "SHORT_DATE_FORMAT") if summary.secret_ends_at else _("never")

    @admin.display(description=gettext_lazy("Last sign-in"))
    def last_sign_in(self, application: Application) -> str:
        at = application.summary.last_at  # type: ignore[attr-defined]
        return ago(at) if at else "–"


def _figure(number: int, word: object) -> str:
    return format_html('{}<span class="word"> {}</span>', number, word)
