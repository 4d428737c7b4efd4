"""A Django site with django-allauth and the settings of connect.md. Lines of JSON: where to send the browser; then,
given the callback, the account that allauth made.

    python allauth_site.py SETTINGS_FILE
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import django
import time_machine
from django.conf import settings
from django.core.management import call_command
from django.test import Client

time_machine.travel(time.time() + float(os.environ.get("CLOCK_OFFSET_SECONDS", 0))).start()
defined: dict[str, Any] = {}
exec(compile(Path(sys.argv[1]).read_text(encoding="utf-8"), "snippet", "exec"), defined)
settings.configure(
    SECRET_KEY="test",
    ALLOWED_HOSTS=["client.example"],
    ROOT_URLCONF="allauth.urls",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    EMAIL_BACKEND="django.core.mail.backends.dummy.EmailBackend",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        "allauth.socialaccount.providers.openid_connect",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "allauth.account.middleware.AccountMiddleware",
    ],
    AUTHENTICATION_BACKENDS=["allauth.account.auth_backends.AuthenticationBackend"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
    LOGIN_REDIRECT_URL="/signed-in",
    SOCIALACCOUNT_PROVIDERS=defined["SOCIALACCOUNT_PROVIDERS"],
)
django.setup()
call_command("migrate", verbosity=0)


def tell(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


browser = Client(headers={"host": "client.example"})
tell(url=browser.post("/oidc/service/login/", secure=True)["Location"])
callback = sys.stdin.readline().strip()
back = browser.get(callback.removeprefix("https://client.example"), secure=True)

from allauth.account.models import EmailAddress  # noqa: E402  (after django.setup)
from allauth.socialaccount.models import SocialAccount  # noqa: E402

account, verified = SocialAccount.objects.get(), EmailAddress.objects.get(verified=True)
told = {"sub": account.uid, "email": verified.email, "name": account.extra_data["userinfo"]["name"]}
tell(location=back.get("Location"), **told)
