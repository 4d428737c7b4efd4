"""The administration: Django's admin site with additional pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
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

# The items of the navigation after the overview: route, label, icon, permission, and the beginning of its other paths.
SECTIONS = [
    ("admin:oauth_bridge_application_changelist", gettext_lazy("Applications"), "applications", rights.VIEW, ()),
    ("admin:accounts_user_changelist", gettext_lazy("People"), "person", rights.PEOPLE, ("/admin/auth/group/",)),
    ("admin:activity", gettext_lazy("Activity"), "activity", rights.ACTIVITY, ()),
    ("admin:trail", gettext_lazy("Audit trail"), "trail", trail.TRAIL, ()),
]


class Site(AdminSite):
    """The class of `django.contrib.admin.site`."""

    own_permissions = ("view_activityrecord", "view_auditentry")  # for models that are not in Django admin

    def get_urls(self) -> list[URLResolver | URLPattern]:
        own = [
            path("trail/", self.admin_view(trail.trail), name="trail"),
            path("find/", self.admin_view(find.find), name="find"),
            path("activity/", self.admin_view(activity.activity), name="activity"),
            path("activity/<int:pk>/", self.admin_view(record.record), name="record"),
            path("oauth_bridge/application/<int:pk>/", self.admin_view(application.application), name="application"),
            path(
                "oauth_bridge/application/<int:pk>/act/<slug:name>/",
                self.admin_view(application_acts.act),
                name="application_act",
            ),
            path(
                "oauth_bridge/application/<int:pk>/secret/<int:number>/<slug:name>/",
                self.admin_view(application_acts.act),
                name="application_secret_act",
            ),
            path(
                "oauth_bridge/application/<int:pk>/secret/",
                self.admin_view(secret_page.new_secret),
                name="application_secret",
            ),
            path("activity/<int:pk>/add-address/", self.admin_view(application_acts.add_address), name="add_address"),
            path("accounts/user/<uuid:pk>/", self.admin_view(person.person), name="person"),
            path("auth/group/<int:pk>/", self.admin_view(group.group), name="group"),
        ]
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
