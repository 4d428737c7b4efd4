"""The floor of `make bench`: the cost of Django under gunicorn for one indexed SELECT by the digest of a token.

One connection for the life of a worker, no middleware, no ORM. It configures Django itself, so it is imported nowhere.
FLOOR_DSN is a libpq connection string.
"""

from __future__ import annotations

import functools
import hashlib
import os
from typing import Any

import django
import psycopg
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=[],
    LOGGING_CONFIG=None,
    MIDDLEWARE=[],
    ROOT_URLCONF=__name__,
    SECRET_KEY="signs nothing",
    USE_TZ=True,
)
django.setup(set_prefix=False)

MEMBERS = ("sub", "nickname", "email", "avatar")
SELECT = """
    SELECT p.sub, p.nickname, p.email, p.avatar FROM token t JOIN person p ON p.id = t.person_id
     WHERE t.digest = %s AND t.expires_at > now()
"""


@functools.cache
def connection() -> psycopg.Connection[Any]:
    return psycopg.connect(os.environ["FLOOR_DSN"], autocommit=True, prepare_threshold=0)


def select(request: HttpRequest) -> HttpResponse:
    token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")[2]
    digest = hashlib.sha256(token.encode()).digest()
    row = connection().execute(SELECT, (digest,), binary=True).fetchone()
    if row is None:
        return JsonResponse({"error": "invalid_token"}, status=401)
    return JsonResponse(dict(zip(MEMBERS, row, strict=True)))


urlpatterns = [path("oauth/userinfo", select)]
application = get_wsgi_application()
