"""The table of paths (config.infrastructure.paths) knows every path of the site, and answers as the site needs it."""

from __future__ import annotations

from django.conf import settings
from django.urls import resolve, reverse

from config.infrastructure import paths
from config.infrastructure import request_classes as classes
from config.infrastructure.paths import kind_of
from oauth_bridge.views import unknown_path
from tests.paths import example_paths

CLASSES = {
    classes.STRANGER: "/ /nowhere /static/css/site.css /accounts/sign-in /accounts/profile",
    classes.AUTHORIZE: "/oauth/authorize",
    classes.ADMINISTRATION: "/admin/ /admin/oauth_bridge/application/1/change/",
    classes.TOKEN: "/oauth/token",
    classes.USERINFO: "/oauth/userinfo /oauth/introspect /health/ready",
    classes.PROBE: "/health/live",
}


def test_each_path_has_its_class_and_posts_with_a_password_one_of_their_own() -> None:
    expected = {path: found for found, paths in CLASSES.items() for path in paths.split()}
    assert {path: kind_of(path).request_class for path in expected} == expected
    hashing = "/accounts/sign-in /accounts/sign-up /accounts/confirm /accounts/password/change "
    hashing += "/accounts/password/reset/abc-key"
    assert {kind_of(path).request_class_of_post for path in hashing.split()} == {classes.SIGN_IN}
    others = ("/accounts/password/reset", "/accounts/profile", "/oauth/token")
    assert {kind_of(path).request_class_of_post for path in others} == {None}


def test_a_path_that_exists_is_known() -> None:
    """The kinds of what does not exist would be wrong defaults for a new path."""
    existing = {path for path in example_paths() if resolve(path).func is not unknown_path}
    existing.add(f"{settings.STATIC_URL}css/site.css")
    assert [path for path in existing if kind_of(path) in (paths.NOWHERE, paths.NO_OPERATION)] == []
    assert len(existing) > 60
    names = "authorize token userinfo jwks revoke introspect end_session openid_configuration server_metadata"
    assert tuple(reverse(name) for name in names.split()) == paths.OPERATIONS
