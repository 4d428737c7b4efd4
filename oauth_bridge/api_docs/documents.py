"""The pages below /docs. The documents are public and in English. The rest of a page is in the reader's language.

A worker imports the Markdown library when it renders its first document.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page, require_safe
from django.views.decorators.vary import vary_on_headers

from oauth_bridge.api_docs import openapi, snippets

if TYPE_CHECKING:
    from markdown_it.token import Token

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
FITTING_COLUMNS = 2  # that have room beside each other on a narrow screen
DOCUMENT_LINK = re.compile(r"(\w+)\.md(#.*)?")


class Heading(NamedTuple):
    level: int
    anchor: str
    text: str


class Rendered(NamedTuple):
    title: str
    body: SafeString
    headings: list[Heading]


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
    text = openapi.reference() if name == "reference" else snippets.source(name)
    return html_of(snippets.fill(text))


def html_of(text: str) -> Rendered:
    """Render Markdown. HTML in it is shown as text. The first line is the title, which the body omits.

    Links to NAME.md become links to pages. Instead of the picture NAME.png, dark pages show NAME-dark.png. A heading
    gets an anchor made of its words.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("image", _picture)
    parser.add_render_rule("table_open", _table)
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    tokens = parser.parse(text)
    title, tokens = tokens[1].content, tokens[3:]
    headings: list[Heading] = []
    for token, inline in pairwise(tokens):
        for child in token.children or ():
            if child.type == "link_open" and (link := DOCUMENT_LINK.fullmatch(str(child.attrGet("href")))):
                child.attrSet("href", f"/docs{'' if link[1] == INDEX else '/' + link[1]}{link[2] or ''}")
        if token.type == "heading_open":
            words = inline.content.replace("`", "")
            headings.append(Heading(int(token.tag[1]), anchor(words), words))
            token.attrSet("id", anchor(words))
    body = parser.renderer.render(tokens, parser.options, {})
    return Rendered(title, mark_safe(body), headings)  # noqa: S308  (a document of the repository)


def anchor(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _table(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _environment: Any) -> str:
    """Begin a table. If it has many columns, it scrolls on a narrow screen, also by keyboard."""
    columns = [token.type for token in tokens[index : index + 4 * FITTING_COLUMNS + 4]].count("th_open")
    if columns <= FITTING_COLUMNS:
        return "<div><table>\n"
    heading = next(tokens[place + 1] for place in range(index, -1, -1) if tokens[place].type == "heading_open")
    label = heading.content.replace("`", "")
    return format_html('<div class="scrolled" role="group" aria-label="{}" tabindex="0"><table>\n', label)


def _picture(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _environment: Any) -> str:
    name = str(tokens[index].attrGet("src"))
    return format_html(
        '<picture><source srcset="{}" media="(prefers-color-scheme: dark)"><img src="{}" alt="{}"></picture>',
        static(name.replace(".png", "-dark.png")),
        static(name),
        tokens[index].content,
    )


def _fence(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _environment: Any) -> str:
    """Render a block of code with a copy button, which is hidden until a script shows it."""
    return format_html(
        '<div class="code"><pre id="code-{}"><code>{}</code></pre>'
        '<button class="button outlined small" type="button" data-copy="code-{}" data-done="Copied" hidden>'
        "Copy</button></div>\n",
        index,
        tokens[index].content,
        index,
    )
