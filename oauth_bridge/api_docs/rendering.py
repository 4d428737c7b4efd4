"""Render the Markdown of our documents as HTML. HTML in a document is shown as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

DOCUMENT_LINK = re.compile(r"(\w+)\.md(#.*)?")
# On a narrow screen the CSS shows tables as blocks. Browsers ignore the roles of such a table, so the HTML states the
# roles.
ROLES = {
    "table_open": "table",
    "thead_open": "rowgroup",
    "tbody_open": "rowgroup",
    "tr_open": "row",
    "th_open": "columnheader",
    "td_open": "cell",
}


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    title: str
    body: SafeString
    headings: tuple[Heading, ...]


def render(text: str) -> Rendered:
    """Render a document. The first line is its title, which the body omits. Links to NAME.md become links to pages."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("fence", _fence)
    tokens = parser.parse(text)
    title, tokens = tokens[1].content, tokens[3:]
    headings = tuple(_headings(tokens))
    for token in tokens:
        if token.type in ROLES:
            token.attrSet("role", ROLES[token.type])
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", _page_of(str(child.attrGet("href"))))
    _name_the_columns(tokens)
    html = parser.renderer.render(tokens, parser.options, {})
    return Rendered(title, mark_safe(html), headings)  # noqa: S308  (a document of the repository)


def _headings(tokens: list[Token]) -> list[Heading]:
    """Return the headings, and give each heading an anchor made of its words."""
    found: list[Heading] = []
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            words = inline.content.replace("`", "")
            token.attrSet("id", anchor(words))
            found.append(Heading(int(token.tag[1]), anchor(words), words))
    return found


def anchor(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _name_the_columns(tokens: list[Token]) -> None:
    """Add the name of the column to each cell, so that the CSS for narrow screens can show the name in the cell."""
    columns: list[str] = []
    cells = 0
    for token, inline in pairwise(tokens):
        if token.type == "table_open":
            columns = []
        elif token.type == "th_open":
            columns.append(inline.content)
        elif token.type == "tr_open":
            cells = 0
        elif token.type == "td_open":
            token.attrSet("data-column", columns[cells])
            cells += 1


def _page_of(link: str) -> str:
    match = DOCUMENT_LINK.fullmatch(link)
    if match is None:
        return link
    return f"/docs{'' if match[1] == 'index' else '/' + match[1]}{match[2] or ''}"


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
