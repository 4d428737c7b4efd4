"""The table of paths (config.infrastructure.paths) knows every path of the site."""

from __future__ import annotations

from django.conf import settings
from django.urls import resolve, reverse

from config.infrastructure import paths
from config.infrastructure.paths import kind_of
from oauth_bridge.views import unknown_path
from tests.paths import example_paths


def test_a_path_that_exists_is_known() -> None:
    """The kinds of what does not exist would be wrong defaults for a new path."""
    existing = {path for path in example_paths() if resolve(path).func is not unknown_path}
    existing.add(f"{settings.STATIC_URL}css/site.css")
    assert [path for path in existing if kind_of(path) in (paths.NOWHERE, paths.NO_OPERATION)] == []
    assert len(existing) > 60
    names = "authorize token userinfo jwks revoke introspect end_session openid_configuration server_metadata"
    assert tuple(reverse(name) for name in names.split()) == paths.OPERATIONS
