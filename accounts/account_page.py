"""The shared parts of the account pages: the person, and the page's entry in the sub-navigation."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest
from django.views.generic.base import ContextMixin

from accounts.models import User
from accounts.pictures import current_picture


class AccountPageMixin(ContextMixin):
    """`section` is the route of the entry that is marked; empty when the page's own route has an entry."""

    request: HttpRequest
    section = ""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {"person": person_context(cast(User, self.request.user)), "section": self.section}


def person_context(person: User) -> dict[str, str]:
    """The person, for templates."""
    return {
        "display_name": person.display_name,
        "email": person.email,
        "avatar_url": current_picture.avatar_url(person),
    }
