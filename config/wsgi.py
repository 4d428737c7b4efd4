"""What gunicorn serves: `gunicorn -c config/gunicorn.py config.wsgi`."""

import os
import re
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.wsgi import get_wsgi_application

from config.infrastructure.postgresql import base as postgresql

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

CONTENT_TYPE_LIMIT = 256  # characters
# The one parameter of a media type that means anything here.
BOUNDARY = re.compile(r';\s*boundary=("?)([\w\'()+,./:=? -]{1,70})\1\s*(?=;|$)', re.ASCII | re.IGNORECASE)

MACHINE_PATHS = ("/oauth/token", "/oauth/userinfo")


class MachineHandler(WSGIHandler):
    """Django with `MACHINE_MIDDLEWARE`: without sessions, forms, messages and files, which only pages need."""

    def load_middleware(self, is_async: bool = False) -> None:
        whole, settings.MIDDLEWARE = settings.MIDDLEWARE, settings.MACHINE_MIDDLEWARE
        try:
            super().load_middleware(is_async)
        finally:
            settings.MIDDLEWARE = whole


postgresql.timeouts["statement_timeout"] = postgresql.STATEMENT_TIMEOUT_SECONDS
pages = get_wsgi_application()
machines = MachineHandler()


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Django, with nothing but the media type and a boundary left in `Content-Type`.

    Django reads that header before any middleware runs, and would decode by a `charset` or an extended parameter
    (RFC 2231) that may name no codec. Everything is UTF-8.
    """
    if content_type := environ.get("CONTENT_TYPE", "")[:CONTENT_TYPE_LIMIT]:
        boundary = BOUNDARY.search(content_type)
        environ["CONTENT_TYPE"] = content_type.partition(";")[0] + (boundary[0] if boundary else "")
    handler = machines if environ.get("PATH_INFO") in MACHINE_PATHS else pages
    answer = handler(environ, start_response)
    return without_body(answer) if environ["REQUEST_METHOD"] == "HEAD" else answer


def without_body(answer: Iterable[bytes]) -> Iterable[bytes]:
    """The headers alone, as HEAD is answered. RFC 9110 §9.3.2.

    Django leaves the body to the server, and gunicorn logs a warning for each that it drops.
    """
    answer.close()  # type: ignore[attr-defined]  # Django's answers and gunicorn's files have it
    return ()
