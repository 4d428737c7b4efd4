"""The `Authorization` header of the token and user-info operations."""

from __future__ import annotations

import re

from django.http import HttpRequest

# An error sentence quotes the scheme of the header only if this pattern matches. Otherwise, the first word may be a
# credential.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,15}) +[^ ]")


def read(request: HttpRequest) -> str:
    """Return the header without surrounding spaces, or an empty string."""
    return str(request.META.get("HTTP_AUTHORIZATION", "")).strip()


def scheme_of(header: str) -> str:
    """Name the scheme of the header for an error sentence, without the credential that follows the scheme."""
    found = SCHEME.match(header)
    return f"the scheme {found[1]}" if found else "no scheme"


def is_basic(header: str) -> bool:
    return header.partition(" ")[0].lower() == "basic"
