"""The WSGI application that gunicorn serves: `gunicorn -c config/gunicorn.py config.wsgi`."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from wsgiref.types import StartResponse, WSGIEnvironment

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

CONTENT_TYPE_MAX_LENGTH = 256  # characters
# The nginx of docs/operations.md forwards smaller bodies only.
DISCARDED_MAX_BYTES = 42 * 1024 * 1024
DISCARDED_AT_ONCE_BYTES = 64 * 1024
# The only media type parameter that a view needs.
BOUNDARY = re.compile(r';\s*boundary=("?)([\w\'()+,./:=? -]{1,70})\1\s*(?=;|$)', re.ASCII | re.IGNORECASE)

django_application = get_wsgi_application()


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Call Django with the media type and the boundary of `Content-Type` alone.

    Django parses this header before any middleware, and fails if a `charset` or an extended parameter (RFC 2231) names
    an unknown codec.
    """
    if content_type := environ.get("CONTENT_TYPE", "")[:CONTENT_TYPE_MAX_LENGTH]:
        boundary = BOUNDARY.search(content_type)
        environ["CONTENT_TYPE"] = content_type.partition(";")[0] + (boundary[0] if boundary else "")
    response = django_application(environ, start_response)
    # Read what no view has read. Otherwise gunicorn would close a connection that nginx uses again.
    with suppress(OSError):
        for _ in range(DISCARDED_MAX_BYTES // DISCARDED_AT_ONCE_BYTES if environ.get("CONTENT_LENGTH") else 0):
            if not environ["wsgi.input"].read(DISCARDED_AT_ONCE_BYTES):
                break
    return without_body(response) if environ["REQUEST_METHOD"] == "HEAD" else response


def without_body(response: Iterable[bytes]) -> Iterable[bytes]:
    """Replace the body of the answer to a HEAD request by an empty body. RFC 9110 §9.3.2.

    Django leaves the removal to the server, but gunicorn logs a warning for each removed body.
    """
    response.close()  # type: ignore[attr-defined]  # Django's responses and gunicorn's file wrapper have it
    return ()
