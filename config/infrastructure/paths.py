"""The table of the paths of the site: what is known of a request before its view is.

A new path needs a row, unless one of `_BELOW` is right for it: tests/project/test_paths.py walks all URL patterns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

AUTHORIZE = "/oauth/authorize"
TOKEN = "/oauth/token"
USERINFO = "/oauth/userinfo"
JWKS = "/oauth/jwks"
REVOKE = "/oauth/revoke"
INTROSPECT = "/oauth/introspect"
LOGOUT = "/oauth/logout"
OPENID_CONFIGURATION = "/.well-known/openid-configuration"
SERVER_METADATA = "/.well-known/oauth-authorization-server"
OPENAPI = "/openapi.json"
OPERATIONS = (AUTHORIZE, TOKEN, USERINFO, JWKS, REVOKE, INTROSPECT, LOGOUT, OPENID_CONFIGURATION, SERVER_METADATA)
DOCS = "/docs"


@dataclass(frozen=True, slots=True)
class Kind:
    """How requests to a path are answered, whatever is there. The defaults are those of a path that does not exist."""

    is_page: bool = False  # exists at the host of AUTH_URL only; other hosts redirect there. D1.
    is_for_programs: bool = False  # always answered in JSON. D19.
    is_cross_origin: bool = False  # called by applications in browsers, from their own origins; without cookies. D22.
    is_translated: bool = True  # its pages, also those of errors, are in the language of the request
    is_file: bool = False  # needed by the page that says which header of the browser is too long
    takes_a_file: bool = False  # a post may be multipart


NOWHERE = Kind()
PAGE = Kind(is_page=True)
PAGE_WITH_FILE = Kind(is_page=True, takes_a_file=True)
NO_OPERATION = Kind(is_for_programs=True, is_translated=False)
OPERATION = Kind(is_for_programs=True, is_translated=False, is_cross_origin=True)
DOCUMENT = Kind(is_translated=False)
FILE = Kind(is_file=True)

_EXACT = {
    AUTHORIZE: PAGE,
    TOKEN: OPERATION,
    USERINFO: OPERATION,
    JWKS: OPERATION,
    REVOKE: OPERATION,
    INTROSPECT: OPERATION,
    LOGOUT: PAGE,
    OPENID_CONFIGURATION: OPERATION,
    SERVER_METADATA: OPERATION,
    "/": PAGE,
    DOCS: PAGE,
    "/accounts": PAGE,
    "/accounts/profile": PAGE_WITH_FILE,  # a picture
    "/admin": PAGE,
    "/admin/oauth_bridge/application/add/": PAGE_WITH_FILE,  # a logo
}
_FORM_OF_AN_APPLICATION = re.compile(r"/admin/oauth_bridge/application/[^/]+/change/")
# For the paths that begin so. The first row that fits counts.
_BELOW = {
    "/accounts/": PAGE,
    "/docs/": PAGE,
    "/static/": FILE,
    "/avatars/": FILE,
    "/logos/": FILE,
    "/brand/": FILE,
    "/admin/": PAGE,
    "/health/": DOCUMENT,
    OPENAPI: DOCUMENT,
    "/oauth/authorize/": replace(NO_OPERATION, is_page=True),
    "/oauth/": NO_OPERATION,
    "/.well-known/": NO_OPERATION,
}


def kind_of(path: str) -> Kind:
    """The kind of the path, decoded and without the query, as in `request.path_info`."""
    if kind := _EXACT.get(path):
        return kind
    if _FORM_OF_AN_APPLICATION.fullmatch(path):
        return PAGE_WITH_FILE
    for beginning, kind in _BELOW.items():
        if path.startswith(beginning):
            return kind
    return NOWHERE
