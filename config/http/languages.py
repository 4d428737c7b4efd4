"""Choose a page's language: the application's link wins, then the person's choice, then the browser's preferences."""

from __future__ import annotations

import functools
import re
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_plus

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.cache import patch_vary_headers

from config.http.response_headers import GetResponse, is_page
from config.infrastructure import paths
from config.infrastructure.paths import set_cookie

CLIENT_ID = re.compile(r"(?:^|&)client_id=")
UI_LOCALES = re.compile(r"(?:^|&)ui_locales=([^&]*)")
LINKS = (paths.AUTHORIZE, paths.LOGOUT)
READ_CHARACTERS = 200  # characters of `ui_locales`; the rest is ignored
# The pattern includes a separator, which is removed together with the parameter.
UI_LOCALES_IN_ADDRESS = re.compile(r"&ui_locales=[^&]*|(?<=\?)ui_locales=[^&]*&?")


def language_middleware(get_response: GetResponse) -> GetResponse:
    return functools.partial(answer_in_language, get_response=get_response)


def answer_in_language(request: HttpRequest, get_response: GetResponse) -> HttpResponseBase:
    """Call `get_response`. If the pages at this path are translated, choose their language before the call."""
    path = request.path_info
    if not paths.kind_of(path).is_translated:
        return get_response(request)
    # OpenID Connect Core §3.1.2.1. A cookie keeps the language of the application's link for the next pages.
    kept = request.COOKIES.get(settings.UI_LOCALES_COOKIE_NAME, "")
    query = request.META.get("QUERY_STRING", "")
    named_by = {paths.AUTHORIZE: CLIENT_ID, paths.LOGOUT: UI_LOCALES}.get(path)  # not in a continued request
    is_link = named_by is not None and named_by.search(query) is not None
    asked = _supported(query) if is_link else kept if kept and kept in dict(settings.LANGUAGES) else ""
    language = asked or translation.get_language_from_request(request)
    with translation.override(language):
        response = get_response(request)
    if is_page(response):
        response.headers["Content-Language"] = language
        patch_vary_headers(response, ("Accept-Language", "Cookie"))
    if is_link and asked != kept and is_at_pages(request):
        if asked:
            set_cookie(response, settings.UI_LOCALES_COOKIE_NAME, asked)
        else:
            response.delete_cookie(settings.UI_LOCALES_COOKIE_NAME, samesite="Lax")
    return response


def is_at_pages(request: HttpRequest) -> bool:
    return getattr(request, "is_at_pages", False)


def _supported(query: str) -> str:
    sent = UI_LOCALES.search(query)
    for tag in unquote_plus(sent[1][:READ_CHARACTERS]).lower().split() if sent else ():
        with suppress(LookupError):
            return translation.get_supported_language_variant(tag)
    return ""


def switcher(request: HttpRequest) -> dict[str, Any]:
    """Return the variables of the language form: the languages, and the page to return to ("" if there is no form)."""
    is_link = request.path_info in LINKS
    is_repeatable = not is_link or request.method in ("GET", "HEAD")
    there = paths.path_as_sent(request) if is_repeatable and is_at_pages(request) else ""
    if is_link:  # `ui_locales` would override the choice
        there = UI_LOCALES_IN_ADDRESS.sub("", there)
    return {"languages": settings.LANGUAGES, "language_next": there}
