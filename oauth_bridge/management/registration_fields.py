"""The fields of an application as commands show and change them: members of JSON, and options. Contract.

Each field that an administrator can change has one entry in FIELDS. `show`, `list`, `export` and `apply` use all
entries. `set` uses the entries with an option. FIELDS does not contain the logo, because the logo is a picture. FIELDS
does not contain secrets, because secrets never leave the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError

from accounts import groups
from oauth_bridge.callback_addresses.registration import split_lines
from oauth_bridge.models import Application


class Field(NamedTuple):
    """A field: its name in JSON, its column, the type of its value in JSON, and its option of `set`, if it has one."""

    name: str
    column: str
    type: type
    option: str = ""
    metavar: str = ""
    help: str = ""


FIELDS = (
    Field("name", "name", str, "--name", "NAME", "what people see"),
    Field("operator", "operator", str, "--operator", "NAME", "who runs it; '' leaves none"),
    Field("homepage", "homepage", str, "--homepage", "URL", "'' leaves none"),
    Field("policy_uri", "policy_uri", str, "--policy-uri", "URL", "the privacy policy; '' leaves none"),
    Field("tos_uri", "tos_uri", str, "--tos-uri", "URL", "the terms; '' leaves none"),
    Field(
        "redirect_uris", "redirect_uris", list, "--redirect-uri", "URI", "a callback address; repeated, replaces all"
    ),
    Field(
        "initiate_login_uri",
        "initiate_login_uri",
        str,
        "--initiate-login-uri",
        "URL",
        "where a new sign-in starts; '' leaves none",
    ),
    Field(
        "post_logout_redirect_uris",
        "post_logout_redirect_uris",
        list,
        "--post-logout-redirect-uri",
        "URI",
        "where people continue after a sign-out; repeated, replaces all; '' leaves none",
    ),
    Field("client_type", "client_type", str),
    Field("id_token_alg", "id_token_alg", str, "--id-token-alg", "RS256|ES256", "how its ID tokens are signed"),
    Field(
        "profile_in_id_token",
        "profile_in_id_token",
        bool,
        "--profile-in-id-token",
        "",
        "the ID token has name and e-mail address too, for libraries that read nothing else",
    ),
    Field("trusted", "is_trusted", bool, "--trusted", "", "people are not asked (no consent page)"),
    Field("enabled", "is_enabled", bool),
    Field("restricted", "is_restricted", bool),
    Field(
        "groups",
        "groups",
        list,
        "--group",
        "NAME",
        "only people in this group may use it; may be repeated, and replaces all; '' leaves none: everybody may",
    ),
)
BY_NAME = {field.name: field for field in FIELDS}
NAMES = {field.column: field.name for field in FIELDS} | {groups.FIELD: "groups"}
OPTIONS = {field.column: field.option for field in FIELDS} | {groups.FIELD: "--group"}


def registered(application: Application) -> dict[str, Any]:
    """Return all values for JSON by name. The groups are read from the database."""
    groups_of_it = sorted(group.name for group in application.groups.all())
    return {"client_id": application.client_id, **values(application), "groups": groups_of_it}


def values(application: Application) -> dict[str, Any]:
    """Return the values that are stored in columns, by the name of the field. The application may be unsaved."""
    found = {field: getattr(application, field.column) for field in FIELDS if field.name != "groups"}
    return {field.name: split_lines(value) if field.type is list else value for field, value in found.items()}


def columns(given: Mapping[str, Any]) -> dict[str, str | bool]:
    """Convert values of fields to values of columns. The values must have the right type. Groups are left out.

    Raises ValidationError: a callback address is empty, or an address has a line break.
    """
    found = {BY_NAME[name].column: _stored(value) for name, value in given.items() if name != "groups"}
    if any(len(split_lines(uri)) != 1 for uri in given.get("redirect_uris", ["-"])):
        raise ValidationError({"redirect_uris": "Give at least one address; none is empty or has a line break."})
    if any(len(split_lines(uri)) > 1 for uri in given.get("post_logout_redirect_uris", ())):
        raise ValidationError({"post_logout_redirect_uris": "No address has a line break."})
    return found


def _stored(value: Any) -> str | bool:
    if isinstance(value, list):
        return "\n".join(each.strip() for each in value)
    return value.strip() if isinstance(value, str) else bool(value)
