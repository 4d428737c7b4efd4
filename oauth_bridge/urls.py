"""The paths of this package. No path ends in a slash, and no redirect adds a slash."""

from django.urls import path, re_path

from oauth_bridge import logout, views
from oauth_bridge.api_docs import documents, openapi
from oauth_bridge.applications import logos
from oauth_bridge.consent import pages

urlpatterns = [
    path("oauth/authorize", views.authorize, name="authorize"),
    path("oauth/token", views.token, name="token"),
    path("oauth/userinfo", views.user_info, name="userinfo"),
    path("oauth/revoke", views.revoke, name="revoke"),
    path("oauth/introspect", views.introspect, name="introspect"),
    path("oauth/logout", logout.end_session, name="end_session"),
    path("oauth/jwks", views.jwks, name="jwks"),
    path(".well-known/openid-configuration", views.configuration, name="openid_configuration"),
    path(".well-known/oauth-authorization-server", views.configuration, name="server_metadata"),
    path("openapi.json", openapi.published, name="openapi"),
    path("docs", documents.page, name="docs"),
    path("docs/<slug:name>", documents.page, name="docs"),
    re_path(r"^(?P<path>(oauth|\.well-known)(/.*)?)$", views.unknown_path),
    path("accounts/applications", pages.applications, name="connected_applications"),
    path("accounts/export", pages.ExportView.as_view(), name="export"),
    path("logos/<str:name>", logos.logo, name="logo"),
]
