"""Make e-mails. The plain text comes from `account/email/NAME_message.txt`, and the HTML from the plain text."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import translation

_SIGNATURE = "-- "  # RFC 3676 §4.3
_WHITE_SPACE = re.compile(r"[^\S\u00a0\u202f]+")  # keep the no-break spaces of French texts


class Email(NamedTuple):
    to: str
    subject: str
    text: str
    html: str


class Paragraph(NamedTuple):
    """`kind` is "code" (indented), "link" (a URL of this service), "signature", or "" for all other text."""

    kind: str
    text: str


def compose(name: str, to: str, context: dict[str, Any], language: str = "") -> Email:
    """Return the e-mail of the template `name` in `language`, or by default in the active language."""
    common = {
        "email": to,
        "service_name": settings.SERVICE_NAME,
        "service_url": settings.AUTH_URL,
        "password_reset_address": f"{settings.AUTH_URL}{reverse('account_reset_password')}",
        "security_address": f"{settings.AUTH_URL}{reverse('security')}",
    }
    with translation.override(language or translation.get_language()):
        context = {**context, **common}
        subject = _WHITE_SPACE.sub(" ", render_to_string(f"account/email/{name}_subject.txt", context)).strip()
        text = render_to_string(f"account/email/{name}_message.txt", context).strip()
        html = render_to_string("account/email/_html.html", {"subject": subject, "paragraphs": list(paragraphs(text))})
    return Email(to, subject, "\n".join(map(_wrapped, text.splitlines())), html)


def _wrapped(line: str) -> str:
    """Break the line after at most 72 characters. Codes, URLs and Chinese text are not broken."""
    if line.startswith(" ") or line == _SIGNATURE or any(unicodedata.east_asian_width(each) in "FW" for each in line):
        return line
    return textwrap.fill(line, 72, break_long_words=False, break_on_hyphens=False)


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a plain text. A line that contains only a URL of this service becomes a link.

    No other URL becomes a link, because nicknames and names of applications may contain URLs.
    """
    own_url = re.compile(re.escape(settings.AUTH_URL) + r"(/\S*)?")
    body, _separator, signature = text.partition(f"\n{_SIGNATURE}\n")
    for block in re.split(r"\n\s*\n", body.strip("\n")):
        for is_link, lines in groupby(block.splitlines(), lambda line: own_url.fullmatch(line) is not None):
            if is_link:
                yield from (Paragraph("link", line) for line in lines)
            else:
                part = "\n".join(lines)
                yield Paragraph("code" if part.startswith("    ") else "", part.strip())
    if signature:
        yield Paragraph("signature", signature.strip())
