"""What gunicorn serves: `gunicorn -c config/gunicorn.py config.wsgi`."""

import os
import re
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# The one parameter of a media type that means anything here.
BOUNDARY = re.compile(r';\s*boundary=("?)([\w\'()+,./:=? -]{1,70})\1\s*(?=;|$)', re.ASCII | re.IGNORECASE)
EXTENDED_PARAMETER = re.compile(r";[^;,=]*\*[^;,=]*=[^;,]*")

MACHINE_PATHS = ("/oauth/token", "/oauth/userinfo")


class MachineHandler(WSGIHandler):
    """Django with `MACHINE_MIDDLEWARE`: without sessions, forms, messages and files, which only pages need."""

    def load_middleware(self, is_async: bool = False) -> None:
        whole, settings.MIDDLEWARE = settings.MIDDLEWARE, settings.MACHINE_MIDDLEWARE
        try:
            super().load_middleware(is_async)
        finally:
            settings.MIDDLEWARE = whole


pages = get_wsgi_application()
machines = MachineHandler()


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Django, without the headers' say in how a request is decoded: everything is UTF-8.

    Django decodes by the `charset` a client names, and in `Content-Type` and `Accept` by that of an extended parameter
    (RFC 2231). An unknown one fails before any middleware or error page of ours can answer.
    """
    if content_type := environ.get("CONTENT_TYPE"):
        boundary = BOUNDARY.search(content_type)
        environ["CONTENT_TYPE"] = content_type.partition(";")[0] + (boundary[0] if boundary else "")
    if "*" in environ.get("HTTP_ACCEPT", ""):
        environ["HTTP_ACCEPT"] = EXTENDED_PARAMETER.sub("", environ["HTTP_ACCEPT"])
    handler = machines if environ.get("PATH_INFO") in MACHINE_PATHS else pages
    return handler(environ, start_response)
