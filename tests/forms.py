"""Forms as browsers post them: urlencoded, and multipart only with a file."""

from __future__ import annotations

from typing import Any

from django.test import RequestFactory
from django.test.client import MULTIPART_CONTENT
from django.utils.http import urlencode

URLENCODED = "application/x-www-form-urlencoded"
post_multipart = RequestFactory.post


def post(
    client: RequestFactory, path: str, data: Any = None, content_type: str = MULTIPART_CONTENT, **more: Any
) -> Any:
    """Replaces `RequestFactory.post`, whose default is multipart always."""
    if content_type == MULTIPART_CONTENT and not any(hasattr(value, "read") for value in (data or {}).values()):
        data, content_type = urlencode(data or {}, doseq=True), URLENCODED
    return post_multipart(client, path, data, content_type, **more)
