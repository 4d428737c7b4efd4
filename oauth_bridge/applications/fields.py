"""The registered values of an application, for the form, the commands and the audit trail.

A new field needs a column of `models.Application` and an entry of FIELDS. The form shows the fields in SECTIONS.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import BooleanField, CharField
from django.utils.translation import gettext_lazy

from oauth_bridge.callback_addresses.registration import split_lines
from oauth_bridge.models import Application


class Field(NamedTuple):
    """A registered value, with its texts for the command line and the form."""

    name: str
    help: str = ""
    page_help: Any = ""
    stored_as: str = ""  # the column, if its name is not `name`

    @property
    def column(self) -> str:
        return self.stored_as or self.name

    @property
    def type(self) -> type:
        """The type in JSON: bool, str, or list if the field has several values."""
        column = Application._meta.get_field(self.column)
        return bool if isinstance(column, BooleanField) else str if isinstance(column, CharField) else list

    @property
    def option(self) -> str:
        """The command-line option, such as --policy-uri, or --redirect-uri for a list. It is "" if `help` is empty."""
        singular = self.name.removesuffix("s") if self.type is list else self.name
        return "--" + singular.replace("_", "-") if self.help else ""


FIELDS = (
    Field("name", "what people see"),
    Field(
        "operator",
        "who runs it; '' leaves none",
        gettext_lazy("The organisation or person that runs it. People see this on the consent page."),
    ),
    Field("homepage", "'' leaves none", gettext_lazy("People see its host on the sign-in and consent pages.")),
    Field("policy_uri", "the privacy policy; '' leaves none", gettext_lazy("The consent page links to it.")),
    Field("tos_uri", "the terms; '' leaves none", gettext_lazy("The consent page links to them.")),
    Field(
        "redirect_uris",
        "a callback address; repeated, replaces all",
        gettext_lazy(
            "Where people go back to after the sign-in. One a line, each exactly as the application sends it: https, "
            "or http on this machine (localhost, 127.0.0.1, [::1]), or a scheme like com.example.app:/callback. For a "
            "program that listens at any free port of a person’s machine, leave the port out: without a secret, it may "
            "send any port."
        ),
    ),
    Field(
        "initiate_login_uri",
        "where a new sign-in starts; '' leaves none",
        gettext_lazy(
            "Where the application starts a new sign-in: https, or http on this machine. A page of this service that "
            "stayed open after a sign-in leads there, with the button “Sign in again”."
        ),
    ),
    Field(
        "post_logout_redirect_uris",
        "where people continue after a sign-out; repeated, replaces all; '' leaves none",
        gettext_lazy(
            "For OpenID Connect, a standard for signing in. Where people continue when the application signs them out "
            "here: one a line, each exactly as the application sends it."
        ),
    ),
    Field("client_type"),
    Field(
        "id_token_alg",
        "how its ID tokens are signed: RS256 or ES256",
        gettext_lazy(
            "An ID token is a signed note of who signed in, for OpenID Connect. Products expect RS256 unless they say "
            "otherwise."
        ),
    ),
    Field(
        "profile_in_id_token",
        "the ID token has name and e-mail address too, for libraries that read nothing else",
        gettext_lazy(
            "For OpenID Connect. Tick it only if the product shows empty profiles: its library does not read user "
            "info then. The application learns no more than without the tick."
        ),
    ),
    Field("trusted", "people are not asked (no consent page)", stored_as="is_trusted"),
    Field("enabled", stored_as="is_enabled"),
    Field(
        "restricted",
        page_help=gettext_lazy(
            "Others are told so and led back, and the application loses its access to them at once. "
            "Without the tick everybody may use it."
        ),
        stored_as="is_restricted",
    ),
    Field(
        "groups",
        "only people in this group may use it; may be repeated, and replaces all; '' leaves none: everybody may",
        gettext_lazy("One of these groups is enough. A group’s page has its members."),
    ),
)
# The parts of the form of an application in the administration.
SECTIONS: list[Any] = [
    (
        gettext_lazy("What people see"),
        {"fields": ["name", "new_logo", "remove_logo", "operator", "homepage", "policy_uri", "tos_uri"]},
    ),
    (gettext_lazy("Addresses of the sign-in"), {"fields": ["redirect_uris", "remove_used", "initiate_login_uri"]}),
    (gettext_lazy("Sign-out"), {"fields": ["post_logout_redirect_uris"]}),
    (gettext_lazy("Who may use it"), {"fields": ["is_restricted", "groups", "new_group"]}),
    (
        gettext_lazy("Registration"),
        {"fields": ["client_id", "client_type", "id_token_alg", "profile_in_id_token", "created", "updated"]},
    ),
]
BY_NAME = {field.name: field for field in FIELDS}
NAMES = {field.column: field.name for field in FIELDS}


def registered(application: Application) -> dict[str, Any]:
    """Return the client_id and the values of all FIELDS, by name, for JSON."""
    values = {each.name: getattr(application, each.column) for each in FIELDS if each.name != "groups"}
    lists = {each.name: split_lines(values[each.name]) for each in FIELDS if each.type is list and each.name in values}
    groups = sorted(group.name for group in application.groups.all()) if application.pk else []
    return {"client_id": application.client_id, **values, **lists, "groups": groups}
