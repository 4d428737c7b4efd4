"""The table of the site's paths. A new path needs a row in `_EXACT`, unless a row of `_BELOW` fits its beginning."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

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
OPERATIONS = (AUTHORIZE, TOKEN, USERINFO, JWKS, REVOKE, INTROSPECT, LOGOUT, OPENID_CONFIGURATION, SERVER_METADATA)
DOCS = "/docs"


@dataclass(frozen=True, slots=True)
class Kind:
    """The properties of a path. The defaults are for a path that does not exist."""

    is_page: bool = False  # exists at the host of AUTH_URL only; other hosts redirect to it
    is_for_programs: bool = False  # always answered in JSON
    is_cross_origin: bool = False  # applications in browsers call it from other origins, without cookies
    is_translated: bool = True  # its pages, including error pages, are in the language of the request
    is_file: bool = False  # loaded by pages, so it is served even if a header is too long
    takes_a_file: bool = False  # a post may be multipart
    is_for_any_host: bool = False  # load balancers ask by IP address, or without a Host header


NOWHERE = Kind()
PAGE = Kind(is_page=True)
PAGE_WITH_FILE = Kind(is_page=True, takes_a_file=True)
NO_OPERATION = Kind(is_for_programs=True, is_translated=False)
OPERATION = replace(NO_OPERATION, is_cross_origin=True)
DOCUMENT = Kind(is_translated=False)
PROBE = replace(DOCUMENT, is_for_any_host=True)
FILE = Kind(is_file=True)

_EXACT = {  # a later row replaces an earlier one: of the operations, two are pages
    **dict.fromkeys(OPERATIONS, OPERATION),
    **dict.fromkeys((AUTHORIZE, LOGOUT, "/", DOCS, "/accounts", "/admin", CHANGE_PASSWORD), PAGE),
    "/openapi.json": replace(DOCUMENT, is_cross_origin=True),
    "/accounts/profile": PAGE_WITH_FILE,  # the person uploads a picture
    "/admin/oauth_bridge/application/add/": PAGE_WITH_FILE,  # the administrator uploads a logo
    "/health/live": PROBE,
    "/health/ready": PROBE,
}
_FORM_OF_AN_APPLICATION = re.compile(r"/admin/oauth_bridge/application/[^/]+/change/")
# By the beginning of the path. The first row that fits applies.
_BELOW = {
    **dict.fromkeys(("/accounts/", "/docs/", "/admin/"), PAGE),
    **dict.fromkeys(("/static/", "/avatars/", "/logos/", "/brand/"), FILE),
    "/health/": DOCUMENT,
    "/oauth/authorize/": replace(NO_OPERATION, is_page=True),
    "/oauth/": NO_OPERATION,
    "/.well-known/": replace(NO_OPERATION, is_cross_origin=True),  # scripts look for metadata at several paths
}


def kind_of(path: str) -> Kind:
    if kind := _EXACT.get(path):
        return kind
    if _FORM_OF_AN_APPLICATION.fullmatch(path):
        return PAGE_WITH_FILE
    for beginning, kind in _BELOW.items():
        if path.startswith(beginning):
            return kind
    return NOWHERE


def path_as_sent(request: HttpRequest, path: str = "") -> str:
    """Return `path` (by default the request's) with the request's query. The query stays percent-encoded as sent."""
    path = quote(path or request.path, safe="/!$&'()*+,;=:@-._~")
    # WSGI passes the bytes of the query decoded as latin-1 (PEP 3333).
    query = quote(request.META.get("QUERY_STRING", "").encode("latin-1", "replace"), safe="!$&'()*+,;=:@/?%-._~[]")
    return f"{path}?{query}" if query else path


def set_cookie(response: HttpResponseBase, name: str, value: str, max_age: int | None = None) -> None:
    response.set_cookie(name, value, max_age=max_age, secure=settings.IS_HTTPS, httponly=True, samesite="Lax")
