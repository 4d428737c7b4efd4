"""The administration: Django's admin site with additional pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.admin_site import AdminSite
from oauth_bridge.administration import (
    activity,
    application,
    application_acts,
    find,
    group,
    overview,
    person,
    record,
    rights,
    secret_page,
    trail,
)

# The items of the navigation after the overview: route, label, icon, permission, and the beginnings of further paths.
SECTIONS = [
    ("admin:oauth_bridge_application_changelist", gettext_lazy("Applications"), "applications", rights.VIEW, ()),
    ("admin:accounts_user_changelist", gettext_lazy("People"), "person", rights.PEOPLE, ("/admin/auth/group/",)),
    ("admin:activity", gettext_lazy("Activity"), "activity", rights.ACTIVITY, ()),
    ("admin:trail", gettext_lazy("Audit trail"), "trail", trail.TRAIL, ()),
]


_APPLICATION = "oauth_bridge/application/<int:pk>/"
PAGES: list[tuple[str, str, Callable[..., HttpResponseBase]]] = [
    ("trail", "trail/", trail.trail),
    ("find", "find/", find.find),
    ("activity", "activity/", activity.activity),
    ("record", "activity/<int:pk>/", record.record),
    ("add_address", "activity/<int:pk>/add-address/", application_acts.add_address),
    ("application", _APPLICATION, application.application),
    ("application_act", f"{_APPLICATION}act/<slug:name>/", application_acts.act),
    ("application_secret", f"{_APPLICATION}secret/", secret_page.new_secret),
    ("application_secret_act", f"{_APPLICATION}secret/<int:number>/<slug:name>/", application_acts.act),
    ("person", "accounts/user/<uuid:pk>/", person.person),
    ("group", "auth/group/<int:pk>/", group.group),
]


class Site(AdminSite):
    """The admin site with the pages in PAGES. `django.contrib.admin.site` is an instance of this class."""

    own_permissions = ("view_activityrecord", "view_auditentry")  # for models that are not in Django admin

    def get_urls(self) -> list[URLResolver | URLPattern]:
        own = [path(route, self.admin_view(view), name=name) for name, route, view in PAGES]
        return [*own, *super().get_urls()]

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        name, host = settings.ENVIRONMENT, settings.AUTH_URL.partition("://")[2]
        is_production = name.casefold() == "production"
        return super().each_context(request) | {
            "environment": {"name": name, "host": host, "is_production": is_production},
            "version": settings.VERSION,
            "navigation": list(_navigation(request)),
            "may_find": find.may_find(request),
        }

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        return overview.overview(request)

    def app_index(  # type: ignore[override]
        self, request: HttpRequest, app_label: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("admin:index")


def _navigation(request: HttpRequest) -> Iterator[dict[str, Any]]:
    index = reverse("admin:index")
    yield {"url": index, "label": _("Overview"), "icon": "overview", "is_current": request.path == index}
    for route, label, icon, permission, below in SECTIONS:
        if rights.may(request, permission):
            url = reverse(route)
            is_current = request.path.startswith((url, *below))
            yield {"url": url, "label": label, "icon": icon, "is_current": is_current}
