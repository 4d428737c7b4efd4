"""The WSGI application that gunicorn serves: `gunicorn -c config/gunicorn.py config.wsgi`."""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from wsgiref.types import InputStream, StartResponse, WSGIEnvironment

from django.core.wsgi import get_wsgi_application
from django.http import UnreadablePostError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

CONTENT_TYPE_MAX_LENGTH = 256  # characters
# The nginx of docs/operations.md forwards smaller bodies only.
DISCARDED_MAX_BYTES = 42 * 1024 * 1024
# The only media type parameter that a view needs.
BOUNDARY = re.compile(r';\s*boundary=("?)([\w\'()+,./:=? -]{1,70})\1\s*(?=;|$)', re.ASCII | re.IGNORECASE)

django_application = get_wsgi_application()


class WholeBody:
    """A request body that raises UnreadablePostError if it ends before its `length`."""

    def __init__(self, stream: InputStream, length: int) -> None:
        self.stream, self.left = stream, length

    def read(self, size: int) -> bytes:
        return self._whole(self.stream.read, size)

    def readline(self, size: int) -> bytes:
        return self._whole(self.stream.readline, size, b"\n")

    def discard(self) -> None:
        """If at most DISCARDED_MAX_BYTES of the body are unread, read them, so that gunicorn keeps the connection."""
        with suppress(OSError):
            while 0 < self.left <= DISCARDED_MAX_BYTES:
                self.read(min(self.left, 64 * 1024))

    def _whole(self, read: Callable[[int], bytes], size: int, end: bytes | tuple[()] = ()) -> bytes:
        left, self.left = self.left, 0  # after an error, such as the time-out of a silent client, nothing is discarded
        data = read(size)
        if len(data) < min(size, left) and not data.endswith(end):
            raise UnreadablePostError("the body ended early")
        self.left = left - len(data)
        return data


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Call Django with a `WholeBody`. Reduce `Content-Type` to the media type and the boundary."""
    # Django parses this header before any middleware, and fails if a parameter names an unknown codec.
    if content_type := environ.get("CONTENT_TYPE", "")[:CONTENT_TYPE_MAX_LENGTH]:
        boundary = BOUNDARY.search(content_type)
        environ["CONTENT_TYPE"] = content_type.partition(";")[0] + (boundary[0] if boundary else "")
    try:
        length = int(environ.get("CONTENT_LENGTH") or 0)
    except ValueError:  # Django treats a malformed length as 0
        length = 0
    environ["wsgi.input"] = body = WholeBody(environ["wsgi.input"], length)
    response = django_application(environ, start_response)
    body.discard()
    if environ["REQUEST_METHOD"] == "HEAD":  # gunicorn would log a warning for a body. RFC 9110 §9.3.2
        response.close()
        return ()
    return response
