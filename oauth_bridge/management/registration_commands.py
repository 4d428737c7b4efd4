"""The options and work of `manage.py application create` and `set`. Contract, operator's interface."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, OutputWrapper
from django.db import transaction

from accounts import groups
from config.infrastructure.command_errors import command_error, shown
from oauth_bridge.management import registration_fields, secret_commands
from oauth_bridge.management.registration_fields import FIELDS, OPTIONS
from oauth_bridge.models import Application
from oauth_bridge.storage import applications, look_alikes

_OF_CREATE = (
    "homepage",
    "redirect_uris",
    "post_logout_redirect_uris",
    "id_token_alg",
    "profile_in_id_token",
    "trusted",
    "groups",
)


def add_create_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name")
    for field in FIELDS:
        if field.name in _OF_CREATE:
            _add(parser, field, is_required=field.name == "redirect_uris")
    parser.add_argument("--public", action="store_true", help="it can keep no secret: it has none, and uses PKCE")


def add_set_arguments(parser: ArgumentParser) -> None:
    for field in FIELDS:
        if field.option:
            _add(parser, field, is_required=False)


def _add(parser: ArgumentParser, field: registration_fields.Field, *, is_required: bool) -> None:
    if field.type is bool:
        parser.add_argument(field.option, action=BooleanOptionalAction, dest=field.name, help=field.help)
        return
    parser.add_argument(
        field.option,
        action="append" if field.type is list else "store",
        dest=field.name,
        metavar=field.metavar,
        required=is_required,
        help=field.help,
    )


@transaction.atomic
def create(options: dict[str, Any], warnings: OutputWrapper) -> dict[str, Any]:
    """Register the application. Raises CommandError: a value cannot be registered. The message names the option."""
    try:
        after = options["post_logout_redirect_uris"] or []
        registration_fields.columns({"redirect_uris": options["redirect_uris"], "post_logout_redirect_uris": after})
        application, secret = applications.register(
            name=options["name"].strip(),
            redirect_uris=options["redirect_uris"],
            homepage=(options["homepage"] or "").strip(),
            is_trusted=bool(options["trusted"]),
            is_public=options["public"],
            post_logout_redirect_uris=after,
            id_token_alg=options["id_token_alg"] or "RS256",
            profile_in_id_token=bool(options["profile_in_id_token"]),
            groups=_groups(options, warnings) or (),
        )
    except ValidationError as problems:
        raise command_error(problems, {**OPTIONS, "name": "NAME"}) from None
    warn_of_look_alikes(application, warnings)
    return secret_commands.with_secret(application, secret)


@transaction.atomic
def change(application: Application, options: dict[str, Any], warnings: OutputWrapper) -> None:
    """Change the given fields. Raises CommandError: no field is given, or a value cannot be stored."""
    given = {field.name: options[field.name] for field in FIELDS if field.option and options[field.name] is not None}
    if not given:
        raise CommandError("Nothing to change was given. See `application set --help`.")
    try:
        columns = registration_fields.columns(given)
        changed = applications.change(application, columns, _groups(options, warnings))
    except ValidationError as problems:
        raise command_error(problems, OPTIONS) from None
    if "name" in changed:
        warn_of_look_alikes(application, warnings)


def warn_of_look_alikes(application: Application, warnings: OutputWrapper) -> None:
    for other in look_alikes.find(application.name, application.pk):
        warnings.write(f"People could take “{shown(other.name)}” ({other.client_id}) for this application.")


def _groups(options: dict[str, Any], warnings: OutputWrapper) -> list[Group] | None:
    """Return the groups that the options name; None if no option concerns groups."""
    if options["groups"] is None:
        return None
    found, made = groups.named(options["groups"])
    warn_of_new_groups(made, warnings)
    return found


def warn_of_new_groups(made: list[str], warnings: OutputWrapper) -> None:
    for name in made:
        warnings.write(f"The group {shown(name)} did not exist and was made. Nobody is in it yet.")
