"""The work and output of `manage.py application rotate-secret`, `revoke-secret` and `secrets`."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, OutputWrapper

from config.infrastructure.texts import command_error
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application, ApplicationSecret

UNITS = {"m": "minutes", "h": "hours", "d": "days"}
DURATION = re.compile("([0-9]{1,5})([mhd])")


def duration(text: str) -> timedelta | None:
    """Parse a duration such as 30m, 24h or 7d. Return None for any other text."""
    given = DURATION.fullmatch(text)
    return timedelta(**{UNITS[given[2]]: int(given[1])}) if given else None


def add_arguments(parser: ArgumentParser, action: str) -> None:
    if action == "revoke-secret":
        parser.add_argument("number", type=int, help="its number, as `application secrets` lists it")
        parser.add_argument("--leaked", action="store_true", help="end all codes and tokens of the application, too")
        return
    parser.add_argument("--name", default="", help="a note, such as where it is used")
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--overlap", default="24h", help="how long the old one works: 30m, 24h, 7d (24h)")
    ends.add_argument("--now", action="store_true", help="end all older secrets at once, after a leak")


def rotate(application: Application, options: dict[str, Any]) -> dict[str, Any]:
    """Make a new secret. Return the application, the new secret and the older secrets, for JSON."""
    _refuse_public(application)
    overlap = secret_rotation.REVOKE_NOW if options["now"] else duration(options["overlap"])
    if overlap is None or (not overlap and not options["now"]) or overlap > secret_rotation.LONGEST_OVERLAP:
        raise CommandError(
            "--overlap is a number and a unit, m, h or d, such as 24h, and at most 30d. "
            "To end the older secrets at once, use --now."
        )
    name = options["name"].strip()
    try:
        ApplicationSecret._meta.get_field("name").clean(name, None)
        rotation = secret_rotation.rotate(application, overlap, name=name)
    except ValidationError as problem:
        raise command_error(ValidationError({"name": problem})) from None
    except secret_rotation.TooManySecrets:
        raise CommandError(
            f"{secret_rotation.MOST_WORKING} secrets of this application still work, which is the maximum. "
            "Wait until one has expired (see `application show`), or end them all with --now."
        ) from None
    return {**with_secret(application, rotation.secret), "older_secrets": [described(each) for each in rotation.older]}


def revoke(application: Application, options: dict[str, Any], warnings: OutputWrapper) -> dict[str, Any]:
    """End one secret, and describe it for JSON. Write a warning if no secret works afterwards."""
    _refuse_public(application)
    number = options["number"]
    try:
        ended = secret_rotation.revoke(application, number, is_leaked=options["leaked"])
    except secret_rotation.UnknownSecret:
        raise CommandError(f"The application has no secret No. {number}. See `application secrets`.") from None
    if not any(each.works for each in application.secrets.all()):
        warnings.write("No secret of this application works now. Make one with `application rotate-secret`.")
    return described(ended)


def _refuse_public(application: Application) -> None:
    if application.is_public:
        raise CommandError("This application is public: it has no secret.")


def with_secret(application: Application, secret: str) -> dict[str, Any]:
    """Describe an application and its new secret for JSON."""
    return {
        "client_id": application.client_id,
        "client_secret": secret or None,
        "name": application.name,
        "redirect_uris": application.callback_addresses,
    }


def described(secret: ApplicationSecret) -> dict[str, Any]:
    """Describe a secret for JSON, without the secret itself. `maker_sub` is null if a command made the secret."""
    return {
        "id": secret.pk,
        "number": secret.number,
        "name": secret.name,
        "maker": secret.maker,
        "maker_sub": secret.maker_id and str(secret.maker_id),
        "prefix": secret.prefix,
        "created": secret.created_at,
        "last_used": secret.last_used_at,
        "expires": secret.expires_at,
        "works": secret.works,
        "state": str(secret.state),
        "warning": "still_used" if secret.is_still_used else "",
    }


def line(secret: dict[str, Any]) -> str:
    """One line for a terminal about a secret. `secret` is a result of `described`."""
    until = f" until {_time(secret['expires'])}" if secret["expires"] else ""
    ends = f"works{until}" if secret["works"] else f"ended {_time(secret['expires'])}"
    used = f"last used {_time(secret['last_used'])}" if secret["last_used"] else "never used"
    by = f" by {secret['maker']}" if secret["maker"] else ""
    facts = [f"No. {secret['number']}", secret["name"], secret["prefix"] and f"{secret['prefix']}…"]
    facts += [f"{ends}; {used}; made {_time(secret['created'])}{by}", secret["warning"].replace("_", " ")]
    return "  ".join(filter(None, facts))


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
