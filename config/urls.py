"""All paths of the site. Only those of Django's admin end in a slash (D2)."""

from django.contrib import admin
from django.urls import include, path

import accounts.admin  # noqa: F401  (registers its models: see config.apps.AdminConfig)
import oauth_bridge.applications.admin  # noqa: F401
from config import branding, health

urlpatterns = [
    path("", include("oauth_bridge.urls")),
    path("", include("accounts.urls")),
    path("admin/", admin.site.urls),
    path("brand/<str:name>", branding.brand, name="brand"),
    path("health/live", health.live),
    path("health/ready", health.ready),
]

handler400 = "config.handlers.bad_request"
handler403 = "config.handlers.forbidden"
handler404 = "config.handlers.not_found"
handler429 = "accounts.retry_later.too_many_requests"
handler500 = "config.handlers.server_error"
