"""Acts on an account, which the page of a person offers: what one is, and unlocking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.factors import unlocking
from accounts.models import User


class Act(NamedTuple):
    """Something an administrator does to an account, after a page that asks."""

    label: Any
    ends: Callable[[User], str]
    question: Any
    button: Any
    do: Callable[[HttpRequest, User], str]


class ActRefused(Exception):
    """Nothing was done. The text is a sentence for the administrator."""


def _unlock(_request: HttpRequest, found: User) -> str:
    unlocking.unlock(found)
    return _("The account is unlocked: the person can try again at once.")


UNLOCK = Act(
    gettext_lazy("Unlock"),
    lambda _person: _("Forgets wrong passwords and wrong codes that kept the person waiting. Ends nothing else."),
    gettext_lazy("Unlock the account of %(name)s?"),
    gettext_lazy("Unlock"),
    _unlock,
)
