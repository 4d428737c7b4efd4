"""Text that is translated when it is shown, not when it is made."""

from __future__ import annotations

from collections.abc import Callable

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop


class TranslatableText:
    """A translatable part of a sentence. Several texts become a list: "a, b and c". `str` returns the English text.

    The code that contains a text must mark it for translation. `details` are inserted in the text.
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
