"""Provide the template context of all account pages: the person, and the current entry of the sub-navigation."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest
from django.views.generic.base import ContextMixin

from accounts.models import User
from accounts.pictures import current_picture
from config.infrastructure.texts import first_grapheme


class AccountPageMixin(ContextMixin):
    """Adds the person and the section to the context.

    `section` is the route of the sub-navigation entry that is marked as current. If `section` is empty, the entry of
    the page itself is marked.
    """

    request: HttpRequest
    section = ""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {"person": person_context(cast(User, self.request.user)), "section": self.section}


def person_context(person: User) -> dict[str, str]:
    """Return the name, its first letter, the e-mail address and the picture URL of the person for templates."""
    return {
        "display_name": person.display_name,
        "initial": first_grapheme(person.display_name).upper(),
        "email": person.email,
        "avatar_url": current_picture.avatar_url(person),
    }
