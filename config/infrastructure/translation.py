"""Text that is translated when it is shown, not when it is made."""

from __future__ import annotations

from collections.abc import Callable

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop


class TranslatableText:
    """A translatable part of a sentence; several texts become a list. English as `str`, else see `translate`.

    Each text is marked for translation in the code that makes it; `details` are inserted.
    """

    def __init__(self, *texts: str, **details: object) -> None:
        self.texts, self.details = texts, details

    def __str__(self) -> str:
        return self._join(str)

    def translate(self) -> str:
        return self._join(_)

    def _join(self, translated: Callable[[str], str]) -> str:
        *others, last = [translated(text).format(**self.details) for text in self.texts]
        if not others:
            return last
        return translated(gettext_noop("{others} and {last}")).format(others=", ".join(others), last=last)
