"""The pages below /docs. The documents are public and in English. The rest of a page is in the reader's language.

A worker imports the Markdown library when it renders its first document.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page, require_safe
from django.views.decorators.vary import vary_on_headers

from oauth_bridge.api_docs import snippets

if TYPE_CHECKING:
    from oauth_bridge.api_docs.rendering import Rendered

CACHE_SECONDS = 300
INDEX = "index"
# The names and the titles of the pages, in the order of the navigation.
TITLES = {
    INDEX: _("Overview"),
    "guide": _("Five-minute guide"),
    "connect": _("Libraries and products"),
    "reference": pgettext_lazy("documentation", "Reference"),
    "errors": _("Errors"),
}
# The deepest level of headings in the table of contents of a page.
LISTED = {"guide": 2, "connect": 3, "reference": 2, "errors": 2}
ERRORS_MARK = "<!-- every error: written here when the page is served -->"


@require_safe
@conditional_page
@vary_on_headers("Accept-Language", "Cookie")
@cache_control(public=True, max_age=CACHE_SECONDS)
def page(request: HttpRequest, name: str = INDEX) -> HttpResponse:
    if name not in TITLES:
        raise Http404
    document = _rendered(name, settings.AUTH_URL, settings.BASE_URL, settings.SERVICE_NAME)
    context = {
        "document": document,
        "listed": [heading for heading in document.headings if heading.level <= LISTED.get(name, 1)],
        "pages": [
            {"name": each, "title": title, "url": reverse("docs", args=[] if each == INDEX else [each])}
            for each, title in TITLES.items()
        ],
        "current": name,
    }
    return render(request, "oauth_bridge/docs.html", context)


@functools.cache
def _rendered(name: str, *_settings: str) -> Rendered:
    """Render a document. The settings are part of the cache key, so that a test may change a setting."""
    from oauth_bridge.api_docs import reference, rendering

    text = reference.reference() if name == "reference" else snippets.source(name)
    if name == "errors":
        text = text.replace(ERRORS_MARK, reference.errors())
    return rendering.render(snippets.fill(text))
