"""The table of paths (config.infrastructure.paths) knows every path of the site, and answers as the site needs it."""

from __future__ import annotations

from django.conf import settings
from django.urls import resolve, reverse

from config.infrastructure import paths
from config.infrastructure import request_classes as classes
from config.infrastructure.paths import kind_of
from oauth_bridge.views import unknown_path
from tests.paths import example_paths

# For each flag, the paths that have it and some that don't.
PATHS = {
    "is_page": (
        "/ /docs /docs/guide /accounts /accounts/ /accounts/sign-in /accounts/profile /accounts/nothing /admin",
        "/oauth/token /oauth /oauth/authorizes /adminx /accountsx /health/live /logos/x.png /x",
    ),
    "is_for_programs": (
        "/oauth/token /oauth/userinfo /oauth/ /oauth/revoke /oauth/authorize/ /.well-known/x",
        "/oauth/authorize /oauth /.well-known /xwell-known/x /health/live /openapi.json /accounts",
    ),
    "is_cross_origin": (
        "/oauth/token /oauth/userinfo /oauth/jwks /.well-known/openid-configuration",
        "/oauth/authorize /oauth/token/ /oauth/tokens /openapi.json /.well-known/x",
    ),
    "is_translated": (
        "/ /oauth/authorize /oauth /accounts/sign-in /admin/ /logos/x.png /static/x /nowhere",
        "/oauth/token /oauth/x /.well-known/x /health/live /health/x /openapi.json",
    ),
    "is_file": (
        "/static/css/site.css /avatars/x/y.png /logos/x.png /brand/x.css",
        "/static /accounts/profile /openapi.json /x/static/x",
    ),
    "takes_a_file": (
        "/accounts/profile /admin/oauth_bridge/application/add/ /admin/oauth_bridge/application/1/change/",
        "/accounts/profile/ /accounts/sign-in /oauth/token /admin/accounts/user/add/ /admin/oauth_bridge/application/ "
        "/admin/oauth_bridge/application/1/delete/ /admin/oauth_bridge/application/1/2/change/ "
        "/admin/oauth_bridge/application/1/change/x",
    ),
}


def test_each_flag_is_that_of_its_paths() -> None:
    wrong = []
    for flag, each in PATHS.items():
        having, lacking = (set(paths.split()) for paths in each)
        wrong += [(flag, path) for path in having | lacking if getattr(kind_of(path), flag) is not (path in having)]
    assert wrong == []


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
