"""A path of the site for each of its URL patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

_VALUES = {"sub": "00000000-0000-0000-0000-000000000000", "pk": "1", "object_id": "1", "content_type_id": "1"}
# Of routes that are regular expressions.
_EXAMPLES = {
    "/^(?P<path>(oauth|\\.well-known)(/.*)?)$": "/.well-known/openid-configuration",
    "/^accounts/password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)$": "/accounts/password/reset/1-set-password",
    "/admin/^(?P<app_label>auth|accounts|oauth_bridge)/$": "/admin/accounts/",
    "/admin/(?P<url>.*)$": "/admin/nothing",
}


def example_paths() -> set[str]:
    return {
        _EXAMPLES[route]
        if "(?P" in route
        else re.sub(r"<(?:\w+:)?(\w+)>", lambda name: _VALUES.get(name[1], "x"), route)
        for route in _routes(get_resolver())
    }


def _routes(resolver: Any, prefix: str = "/") -> Iterator[str]:
    for each in resolver.url_patterns:
        route = f"{prefix}{each.pattern}"
        if isinstance(each, URLResolver):
            yield from _routes(each, route)
        elif isinstance(each, URLPattern):
            yield route
