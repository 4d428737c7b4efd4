"""The whole site map. Paths carry no trailing slash (D2); only Django's admin keeps its own."""

from django.contrib import admin
from django.urls import include, path

import accounts.admin  # noqa: F401  (the admin shows what these two register: see config.apps.AdminConfig)
import oauth_bridge.admin  # noqa: F401
from config import health

urlpatterns = [
    path("", include("oauth_bridge.urls")),
    path("", include("accounts.urls")),
    path("admin/", admin.site.urls),
    path("health/live", health.live),
    path("health/ready", health.ready),
]

handler400 = "oauth_bridge.views.bad_request"
handler403 = "oauth_bridge.errors.forbidden"
handler404 = "oauth_bridge.errors.not_found"
handler429 = "accounts.views.too_many_requests"
handler500 = "oauth_bridge.errors.server_error"
