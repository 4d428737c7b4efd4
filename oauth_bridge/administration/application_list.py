"""The list of applications in Django admin. Each row shows the state of one application."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.template.loader import render_to_string
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.admin_site import ModelAdmin
from oauth_bridge.administration import rights, summaries
from oauth_bridge.models import Application
from oauth_bridge.templatetags.formatting import ago


class SummarisedList(ChangeList):
    """A change list that sets `summary` on each application of the page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        found = summaries.of(rows)
        for row in rows:
            row.summary = found[row.pk]
        self.result_list = rows


class ApplicationPermissions(ModelAdmin):
    """All permissions are from `rights`. The response for an invisible application is the same as for a missing one."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Application]:
        return rights.applications(request, rights.VIEW, rights.CHANGE)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Application:
        """Raises PermissionDenied: no application is visible. Raises Http404: no visible application has this id."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found: Application | None = super().get_object(request, object_id, from_field)
        if found is None:
            raise Http404
        return found

    def has_view_permission(self, request: HttpRequest, obj: Application | None = None) -> bool:
        return rights.may(request, rights.VIEW, obj) or rights.may(request, rights.CHANGE, obj)

    def has_change_permission(self, request: HttpRequest, obj: Application | None = None) -> bool:
        return rights.may(request, rights.CHANGE, obj)

    def has_switch_permission(self, request: HttpRequest) -> bool:
        return rights.may(request, rights.SWITCH)

    def has_trust_permission(self, request: HttpRequest) -> bool:
        return rights.may(request, rights.TRUST)

    def may_choose_groups(self, request: HttpRequest, obj: Application | None) -> bool:
        """Return whether the administrator may choose the application's groups. Ownership is not enough."""
        return request.user.has_perm(rights.CHANGE if obj else rights.ADD)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Remove the action that deletes several applications. A deletion needs the typed name of the application."""
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}


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
