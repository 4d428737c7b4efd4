"""The path and the query of a request, in the client's spelling."""

from __future__ import annotations

from urllib.parse import quote

from django.http import HttpRequest


def path_as_sent(request: HttpRequest, path: str = "") -> str:
    """Return the path, or another `path`, and the query.

    The query stays as the client sent it, because it may contain a `state` (D5).
    """
    path = quote(path or request.path, safe="/!$&'()*+,;=:@-._~")
    # WSGI passes the bytes of the query decoded as latin-1 (PEP 3333).
    query = quote(request.META.get("QUERY_STRING", "").encode("latin-1", "replace"), safe="!$&'()*+,;=:@/?%-._~[]")
    return f"{path}?{query}" if query else path
