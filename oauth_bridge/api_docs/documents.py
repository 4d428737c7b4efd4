"""The pages at /docs. The documents are public and in English. The rest of a page is in the reader's language."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page, require_safe
from django.views.decorators.vary import vary_on_headers

from oauth_bridge.api_docs import openapi
from oauth_bridge.models import Application

if TYPE_CHECKING:
    from markdown_it.token import Token

INDEX = "index"
# The names and the titles of the pages, in the order of the navigation.
TITLES = {
    INDEX: _("Overview"),
    "guide": _("Five-minute guide"),
    "connect": _("Libraries and products"),
    "reference": pgettext_lazy("documentation", "Reference"),
    "errors": _("Errors"),
}
# A block of code with a name, such as ```python client.
NAMED_BLOCK = re.compile(r"^```\w+ ([\w-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The callback address in the guide, which a developer can register unchanged for a trial.
EXAMPLE_CALLBACK = "http://127.0.0.1:8765/callback"
DOCUMENT_LINK = re.compile(r"(\w+)\.md(#.*)?")
FITTING_COLUMNS = 2  # that have room beside each other on a narrow screen


@require_safe
@conditional_page
@vary_on_headers("Accept-Language", "Cookie")
@cache_control(public=True, max_age=300)
def page(request: HttpRequest, name: str = INDEX) -> HttpResponse:
    if name not in TITLES:
        raise Http404
    document = _rendered(name, settings.AUTH_URL, settings.BASE_URL, settings.SERVICE_NAME)
    return render(request, "oauth_bridge/docs.html", {"document": document, "titles": TITLES, "current": name})


@functools.cache  # the settings are part of the key, so that a test may change a setting
def _rendered(name: str, *_settings: str) -> dict[str, Any]:
    """Return the `title` (the first line), the `body` as HTML, and the `headings` of a document."""
    from markdown_it import MarkdownIt  # only a worker that serves a document needs the library

    text = openapi.reference() if name == "reference" else source(name)
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("image", _picture)
    parser.add_render_rule("table_open", _table)
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    tokens = parser.parse(openapi.fill(text))
    title, tokens = tokens[1].content, tokens[3:]
    headings = []
    for token, inline in pairwise(tokens):
        for child in token.children or ():
            if child.type == "link_open" and (link := DOCUMENT_LINK.fullmatch(str(child.attrGet("href")))):
                child.attrSet("href", f"/docs{'' if link[1] == INDEX else '/' + link[1]}{link[2] or ''}")
        if token.type == "heading_open":
            words = inline.content.replace("`", "")
            headings.append({"tag": token.tag, "anchor": anchor(words), "text": words})
            token.attrSet("id", anchor(words))
    body = mark_safe(parser.renderer.render(tokens, parser.options, {}))  # noqa: S308  (a document of the repository)
    return {"title": title, "body": body, "headings": headings}


def anchor(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _table(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _environment: Any) -> str:
    """Return the HTML that opens a table. A table with more than FITTING_COLUMNS columns scrolls, also by keyboard."""
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
    return format_html(
        '<div class="code"><pre id="code-{}"><code>{}</code></pre>'
        '<button class="button outlined small" type="button" data-copy="code-{}" data-done="Copied" hidden>'
        "Copy</button></div>\n",
        index,
        tokens[index].content,
        index,
    )


def source(name: str) -> str:
    return (settings.BASE_DIR / "docs" / f"{name}.md").read_text(encoding="utf-8")


def blocks(name: str, language: str = "") -> dict[str, str]:
    """Return the document's code blocks (in `language`, if given) by name. Blocks with the same name are joined."""
    found: dict[str, str] = {}
    for match in NAMED_BLOCK.finditer(source(name)):
        if match[0].startswith(f"```{language}"):
            found[match[1]] = f"{found[match[1]]}\n{match[2]}" if match[1] in found else match[2]
    return found


def fill_for(text: str, application: Application) -> str:
    """Return the sample code with the application's client_id and first callback address. No secret is filled in."""
    callback = (application.callback_addresses or [EXAMPLE_CALLBACK])[0]
    if application.is_public:
        text = "".join(line for line in text.splitlines(keepends=True) if "CLIENT_SECRET" not in line)
    text = text.replace(EXAMPLE_CALLBACK, "{REDIRECT_URI}")
    text = text.replace(quote(EXAMPLE_CALLBACK, safe=""), "{QUOTED_REDIRECT_URI}")
    values = {"REDIRECT_URI": callback, "QUOTED_REDIRECT_URI": quote(callback, safe="")}
    return openapi.fill(text, CLIENT_ID=str(application.client_id), **values).strip()
