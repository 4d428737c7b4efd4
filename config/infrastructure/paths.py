"""The table of the site's paths. For each path, it has the properties that are the same for all requests to the path.

A new path needs a row, unless a row of `_BELOW` applies to the path. tests/unit/test_infrastructure_paths.py checks all
URL patterns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import quote

from django.http import HttpRequest

from config.infrastructure import request_classes
from config.infrastructure.request_classes import RequestClass

AUTHORIZE = "/oauth/authorize"
TOKEN = "/oauth/token"
USERINFO = "/oauth/userinfo"
JWKS = "/oauth/jwks"
REVOKE = "/oauth/revoke"
INTROSPECT = "/oauth/introspect"
LOGOUT = "/oauth/logout"
OPENID_CONFIGURATION = "/.well-known/openid-configuration"
SERVER_METADATA = "/.well-known/oauth-authorization-server"
CHANGE_PASSWORD = "/.well-known/change-password"  # for password managers: W3C, A Well-Known URL for Changing Passwords
OPENAPI = "/openapi.json"
OPERATIONS = (AUTHORIZE, TOKEN, USERINFO, JWKS, REVOKE, INTROSPECT, LOGOUT, OPENID_CONFIGURATION, SERVER_METADATA)
DOCS = "/docs"


@dataclass(frozen=True, slots=True)
class Kind:
    """How requests to a path are answered. The defaults are for a path that does not exist."""

    is_page: bool = False  # exists at the host of AUTH_URL only; other hosts redirect to it. D1.
    is_for_programs: bool = False  # always answered in JSON. D19.
    is_cross_origin: bool = False  # applications in browsers call this path from other origins, without cookies. D22.
    is_translated: bool = True  # its pages, including error pages, are in the language of the request
    is_file: bool = False  # pages load this file, so it is served even if a header is too long
    takes_a_file: bool = False  # a post may be multipart
    is_for_any_host: bool = False  # load balancers ask by IP address, or without a Host header
    request_class: RequestClass = request_classes.STRANGER
    request_class_of_post: RequestClass | None = None  # the class of a post, if the post hashes a password


NOWHERE = Kind()
PAGE = Kind(is_page=True)
PAGE_WITH_FILE = Kind(is_page=True, takes_a_file=True)
PAGE_WITH_PASSWORD = Kind(is_page=True, request_class_of_post=request_classes.SIGN_IN)
ADMINISTRATION = Kind(is_page=True, request_class=request_classes.ADMINISTRATION)
ADMINISTRATION_WITH_FILE = replace(ADMINISTRATION, takes_a_file=True)
NO_OPERATION = Kind(is_for_programs=True, is_translated=False)
OPERATION = Kind(
    is_for_programs=True, is_translated=False, is_cross_origin=True, request_class=request_classes.USERINFO
)
DOCUMENT = Kind(is_translated=False)
# Readiness has the class of user info, because a load balancer must not remove a machine whose threads for pages are
# all busy.
READINESS = replace(DOCUMENT, is_for_any_host=True, request_class=request_classes.USERINFO)
LIVENESS = replace(DOCUMENT, is_for_any_host=True, request_class=request_classes.PROBE)
FILE = Kind(is_file=True)

_EXACT = {
    AUTHORIZE: Kind(is_page=True, request_class=request_classes.AUTHORIZE),
    TOKEN: replace(OPERATION, request_class=request_classes.TOKEN),
    USERINFO: OPERATION,
    JWKS: OPERATION,
    REVOKE: OPERATION,
    INTROSPECT: OPERATION,
    LOGOUT: PAGE,
    OPENID_CONFIGURATION: OPERATION,
    SERVER_METADATA: OPERATION,
    OPENAPI: replace(DOCUMENT, is_cross_origin=True),
    "/": PAGE,
    DOCS: PAGE,
    "/accounts": PAGE,
    "/accounts/profile": PAGE_WITH_FILE,  # the person uploads a picture
    "/accounts/sign-in": PAGE_WITH_PASSWORD,
    "/accounts/sign-up": PAGE_WITH_PASSWORD,
    "/accounts/confirm": PAGE_WITH_PASSWORD,
    "/accounts/password/change": PAGE_WITH_PASSWORD,
    "/accounts/password/reset": PAGE,  # sends an e-mail, but hashes no password
    "/admin": ADMINISTRATION,
    CHANGE_PASSWORD: PAGE,
    "/admin/oauth_bridge/application/add/": ADMINISTRATION_WITH_FILE,  # the administrator uploads a logo
    "/health/live": LIVENESS,
    "/health/ready": READINESS,
}
_FORM_OF_AN_APPLICATION = re.compile(r"/admin/oauth_bridge/application/[^/]+/change/")
# The kinds of paths by the beginning of the path. The first row that fits applies.
_BELOW = {
    "/accounts/password/reset/": PAGE_WITH_PASSWORD,
    "/accounts/": PAGE,
    "/docs/": PAGE,
    "/static/": FILE,
    "/avatars/": FILE,
    "/logos/": FILE,
    "/brand/": FILE,
    "/admin/": ADMINISTRATION,
    "/health/": DOCUMENT,
    "/oauth/authorize/": replace(NO_OPERATION, is_page=True),
    "/oauth/": NO_OPERATION,
    "/.well-known/": replace(NO_OPERATION, is_cross_origin=True),  # scripts look for metadata at several paths
}


def kind_of(path: str) -> Kind:
    """Return the kind of a path, which has the form of `request.path_info`: decoded, without the query."""
    if kind := _EXACT.get(path):
        return kind
    if _FORM_OF_AN_APPLICATION.fullmatch(path):
        return ADMINISTRATION_WITH_FILE
    for beginning, kind in _BELOW.items():
        if path.startswith(beginning):
            return kind
    return NOWHERE


def path_as_sent(request: HttpRequest, path: str = "") -> str:
    """Return the path, or another `path`, and the query.

    The query stays as the client sent it, because it may contain a `state` (D5).
    """
    path = quote(path or request.path, safe="/!$&'()*+,;=:@-._~")
    # WSGI passes the bytes of the query decoded as latin-1 (PEP 3333).
    query = quote(request.META.get("QUERY_STRING", "").encode("latin-1", "replace"), safe="!$&'()*+,;=:@/?%-._~[]")
    return f"{path}?{query}" if query else path
