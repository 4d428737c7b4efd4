"""Claims: data about a person for applications. Specification 2.4; OpenID Connect Core 1.0 §5.1, §5.4, §5.5."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from accounts.pictures.current_picture import avatar_url
from config.infrastructure.errors import RequestError, subject
from oauth_bridge.credentials import admission
from oauth_bridge.errors import OAuthFault

if TYPE_CHECKING:
    from accounts.models import User

OPENID = "openid"
PLAIN = ("sub", "nickname", "email", "avatar")

# The claims of each scope. `profile` also has `avatar`, for older applications that send this scope and read `avatar`.
# There is no `preferred_username`: products take it for a unique name, and nicknames are not unique.
SCOPES: Mapping[str, tuple[str, ...]] = {
    OPENID: ("sub",),
    "profile": ("name", "nickname", "picture", "avatar", "updated_at"),
    "email": ("email", "email_verified"),
    "groups": ("groups",),
}
NAMES = tuple(name for names in SCOPES.values() for name in names)

# Each claim discloses a fact about the person. The consent page lists the facts, not the claims.
FACTS = dict.fromkeys(SCOPES["profile"], "nickname") | {
    "sub": "sub",
    "picture": "avatar",
    "avatar": "avatar",
    "email": "email",
    "email_verified": "email",
    "groups": "groups",
}

_VALUES: Mapping[str, Callable[[User], object]] = {
    "sub": lambda person: str(person.pk),
    "name": lambda person: person.display_name,
    "nickname": lambda person: person.display_name,
    "picture": avatar_url,
    "avatar": avatar_url,
    "email": lambda person: person.email,
    "email_verified": lambda person: True,  # only confirmed addresses are sent
    "updated_at": lambda person: person.profile_changed_at and int(person.profile_changed_at.timestamp()),
}


def is_openid(scope: str) -> bool:
    return OPENID in scope.split()


def is_nearly_openid(scope: str) -> bool:
    """Return whether `scope` seems to misspell `openid`: in capitals, or with a wrong separator (`openid,email`)."""
    return bool(scope) and not is_openid(scope) and OPENID in re.split(r"[\s,;+]", unquote(scope).lower())


def granted_scopes(scope: str) -> list[str]:
    return [name for name in SCOPES if name in scope.split()]


def of_scopes(scopes: Collection[str], more: Collection[str] = ()) -> list[str]:
    wanted = {name for scope in scopes for name in SCOPES[scope]} | set(more)
    return [name for name in NAMES if name in wanted]


def asked_by_parameter(parameter: str, where: str) -> list[str]:
    """Return the known claims under `where` ("userinfo" or "id_token") in the request's JSON parameter `claims`. §5.5.

    Raises ValueError: the JSON or the member is malformed. Raises RecursionError: the JSON is nested too deeply.
    """
    if not parameter:
        return []
    content = json.loads(parameter)
    if not isinstance(content, dict) or not isinstance(content.get(where, {}), dict | None):
        raise ValueError
    return [name for name in NAMES if name in (content.get(where) or {})]


def wanted_values(parameter: str, name: str) -> tuple[list[str], bool]:
    """Return the values that a request wants for the claim `name` of the ID token, and whether the claim is essential.

    If the list is empty, any value is accepted. `parameter`: the parameter `claims`, already checked. §5.5.1.
    """
    asked = (json.loads(parameter).get("id_token") or {}).get(name) if parameter else None
    if not isinstance(asked, dict):
        return [], False
    wanted = [asked["value"]] if "value" in asked else asked.get("values")
    return [str(each) for each in wanted] if isinstance(wanted, list) else [], asked.get("essential") is True


def values(person: User, names: Collection[str] = PLAIN, application_id: int | None = None) -> dict[str, Any]:
    """Return the claims `names` with values. `groups`: the person's groups among those chosen for the application.

    An unknown `updated_at` is left out. Raises RequestError: the person's e-mail address is not confirmed.
    """
    if person.email_verified_at is None:
        subject().person = person.pk
        raise RequestError(OAuthFault.NO_VERIFIED_EMAIL)
    found = {name: _VALUES[name](person) for name in names if name in _VALUES}
    if found.get("updated_at", True) is None:
        del found["updated_at"]
    if "groups" in names and application_id is not None:
        groups = admission.shared_groups(person.pk, application_id)
        found["groups"] = list(groups.order_by("name").values_list("name", flat=True))
    return found


def facts(names: Collection[str]) -> list[str]:
    return list(dict.fromkeys(FACTS[name] for name in NAMES if name in names))


PLAIN_FACTS = facts(PLAIN)
