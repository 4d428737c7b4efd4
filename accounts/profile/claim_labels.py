"""The four claims that applications receive about a person, for the template `_facts.html`."""

from __future__ import annotations

from django.utils.translation import gettext as _

from accounts.models import User
from accounts.pictures import current_picture


def shown_claims(person: User) -> list[dict[str, str]]:
    """Return the claims of user info in the order in which pages show them, with notes on missing values (D16)."""
    values = {
        "avatar": (_("Picture"), current_picture.avatar_url(person)),
        "nickname": (_("Nickname"), person.display_name),
        "email": (_("E-mail address"), person.email),
        "sub": (_("User ID"), str(person.pk)),
    }
    shown = [{"name": name, "label": label, "value": value, "note": ""} for name, (label, value) in values.items()]
    if not person.nickname.strip():
        shown[1]["note"] = _("You have no nickname, so this name is sent.")
    if person.email_verified_at is None:
        shown[2]["note"] = _("Not confirmed, so applications receive nothing yet.")
    return shown
