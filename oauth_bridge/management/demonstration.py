"""Create the accounts and the application of `manage.py quickstart`, and the file with their passwords and secret."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from django.conf import settings

from accounts.models import User
from accounts.sessions.credential_changes import end_credentials
from accounts.sign_in.verification import mark_verified
from config.infrastructure.errors import RequestError
from oauth_bridge.applications import registry
from oauth_bridge.credentials import client_secrets, secret_rotation
from oauth_bridge.models import Application

DEMO_NAME = "Demo application"


def credentials_path() -> Path:
    """Return the path of the file with the passwords.

    If the database is SQLite, the file is in the same folder, so that people delete both together.
    """
    database = settings.DATABASES["default"]
    is_file = database["ENGINE"] == "django.db.backends.sqlite3"
    return (Path(database["NAME"]).parent if is_file else settings.VAR_DIR) / "quickstart.json"


def read_credentials(path: Path) -> dict[str, str]:
    """Return the stored passwords by e-mail address, and the `client_secret`; empty before the first run."""
    try:
        return {str(name): str(value) for name, value in json.loads(path.read_text(encoding="utf-8")).items()}
    except (FileNotFoundError, ValueError, AttributeError):
        return {}


def write_credentials(path: Path, credentials: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(credentials, indent=2) + "\n", encoding="utf-8")


def demo_account(email: str, nickname: str, kept: dict[str, str], is_new: bool, **fields: bool) -> str:
    """Create or update the account. Returns a text for the terminal: the address and the password.

    An existing account gets a new password only if `is_new` is true.
    """
    person = User.objects.filter(email=email).first()
    if person is None:
        person, is_new = User.objects.create_user(email, nickname=nickname), True
    for name, value in {"is_active": True, **fields}.items():
        setattr(person, name, value)
    password = kept.get(email, "")
    if is_new:
        password = kept[email] = secrets.token_urlsafe(12)
        person.set_password(password)
    person.save()
    if is_new:
        end_credentials(person)
    mark_verified(person)
    if person.check_password(password):
        return f"{email}, password {password}"
    return f"{email}, with the password that was set for it elsewhere"


def demo_application(demo_url: str, kept: dict[str, str]) -> tuple[Application, str]:
    """Register the demo application, or update its addresses if it is registered.

    Returns the application and its client secret. The secret is new if the last run stored no valid secret.
    """
    callback = f"{demo_url}/callback"
    application = Application.objects.filter(name=DEMO_NAME).first()
    if application is None:
        application = Application(name=DEMO_NAME, redirect_uris=callback, homepage=demo_url)
        registry.add(application, ())
        secret = secret_rotation.rotate(application).secret
    else:
        application.redirect_uris, application.homepage = callback, demo_url
        application.save(update_fields=["redirect_uris", "homepage", "updated"])
        registry.set_enabled(application, True)
        secret = kept.get("client_secret", "")
        try:
            client_secrets.authenticate({"client_id": application.client_id, "client_secret": secret})
        except RequestError:
            secret = secret_rotation.rotate(application, secret_rotation.REVOKE_NOW).secret
    kept["client_secret"] = secret
    return application, secret
