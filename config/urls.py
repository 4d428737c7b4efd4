"""The site's error handlers, and its paths except static files."""

from functools import partial

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

import accounts.admin  # noqa: F401  (registers its models: see config.apps.AdminConfig)
import oauth_bridge.administration.application_admin
import oauth_bridge.administration.people  # noqa: F401
from config import branding, health
from config.infrastructure import paths

leads_to = partial(RedirectView.as_view, http_method_names=["get", "head"])

urlpatterns = [
    # The profile replaces allauth's page of e-mail addresses. If `account_email` were below /accounts, allauth's
    # middleware would redirect /accounts/, a path that must not exist.
    path("", RedirectView.as_view(pattern_name="profile"), name="account_email"),
    path("accounts", leads_to(pattern_name="profile"), name="accounts"),
    path(
        paths.CHANGE_PASSWORD[1:], leads_to(pattern_name="account_change_password"), name="well_known_change_password"
    ),
    path("", include("oauth_bridge.urls")),
    path("", include("accounts.urls")),
    path("admin/", admin.site.urls),
    path("brand/<str:name>", branding.brand, name="brand"),
    path("health/live", health.live),
    path("health/ready", health.ready),
]

handler400 = "config.http.error_handlers.bad_request"
handler403 = "config.http.error_handlers.forbidden"
handler404 = "config.http.error_handlers.not_found"
handler429 = "accounts.pages.too_many_requests"
handler500 = "config.http.error_handlers.server_error"
