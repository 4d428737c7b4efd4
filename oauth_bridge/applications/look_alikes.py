"""Find applications with names that look alike. Refuse such a name if one of the applications is trusted."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from oauth_bridge.models import Application

# Letters and digits that look like Latin letters in common typefaces. The pairs are from Unicode Technical Standard 39,
# for Cyrillic, Greek, Armenian and Latin. The letters are replaced before case folding.
_LIKE = str.maketrans(
    "АаВвЕеЗзКкМмНнОоРрСсТтУуХхЬьѕЅіІјЈԁԀԛԚԝԜһҺӀӏгпүҮΑαΒβΓγΕεΖΗηΙιΚκΜΝνΟοΡρσΤτΥυΧχωՍսոհցօՕՏıɡɑłŁøØđĐħĦŧ01|",
    "AaBbEe33KkMmHhOoPpCcTtYyXxbbsSiIjJdDqQwWhHllrnyYAaBBTyEeZHnIiKkMNvOoPpoTtYuXxwUunhgoOSigalLoOdDhHtoll",
    "™℠",
)
_DROPPED = ("C", "P", "S", "Z")  # control and format characters, punctuation, symbols, spaces


def skeleton(name: str) -> str:
    """Return a text that is equal for names that look alike. A name of nothing but symbols keeps the symbols."""
    letters = unicodedata.normalize("NFKC", name.translate(_LIKE)).translate(_LIKE).casefold()
    letters = unicodedata.normalize("NFKD", letters).translate(_LIKE)
    seen = "".join(
        character
        for character in letters
        if not unicodedata.combining(character) and unicodedata.category(character)[0] not in _DROPPED
    )
    # After case folding, `rn` looks like `m`, `vv` like `w`, and `i` like `l`.
    return seen.replace("rn", "m").replace("vv", "w").replace("i", "l") or letters.strip()


def find(name: str, besides: int = 0) -> list[Application]:
    """Return the applications whose names look like `name`, except the application with the primary key `besides`."""
    seen = skeleton(name)
    return [each for each in Application.objects.exclude(pk=besides) if skeleton(each.name) == seen]


def refuse(alike: Iterable[Application], *, is_trusted: bool, seen: QuerySet[Application] | None) -> None:
    """Refuse a name that looks like the names of `alike` if `is_trusted` or if one of `alike` is trusted.

    `is_trusted`: the application with the refused name is trusted, so it signs people in without asking.
    Raises ValidationError. The message names the other application only if `seen` contains it or is None.
    """
    for other in alike:
        if is_trusted or other.is_trusted:
            text = _("People could take “%(other)s” for this one, and one of the two is trusted. Choose another name.")
            if seen is not None and not seen.filter(pk=other.pk).exists():
                text = _(
                    "People could take another application for this one, and one of the two is trusted."
                    " Choose another name."
                )
            raise ValidationError(text % {"other": other.name})
