"""The one form of an e-mail address, in which it is stored, mailed, compared and given out.

NFKC, lower case, the domain in ASCII (IDNA 2008), the part before the @ in ASCII. D26.
"""

from __future__ import annotations

import unicodedata

import idna
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from config.infrastructure.validators import is_invisible

JOINERS = (0x200C, 0x200D)  # ZERO WIDTH NON-JOINER and ZERO WIDTH JOINER, which some labels need


def normalise_email(email: str) -> str:
    """Return the one form of the address, which does not change if it is passed again.

    Django's validator must check the result: the function accepts texts without an @, for example.

    Raises ValidationError: the address has no such form, so no mail could reach it.
    """
    text = _folded(email)
    name, at, host = text.rpartition("@")
    _refuse_invisible(name + host.translate(dict.fromkeys(JOINERS)))
    if not name.isascii():
        typed = unicodedata.normalize("NFC", email)
        raise ValidationError(
            _(
                "The part before the @ has “%(character)s”. This service accepts only the letters a to z, digits and"
                " signs such as . _ + - there."
            ),
            "name_not_ascii",
            {"character": next(character for character in typed if not _folded(character).isascii())},
        )
    return f"{name}{at}{_ascii(host)}"


def _refuse_invisible(text: str) -> None:
    if found := next(filter(is_invisible, text), ""):
        raise ValidationError(
            _("The address has an invisible character (%(code)s). Type the address instead of pasting it."),
            "invisible",
            {"code": f"U+{ord(found):04X}"},
        )


def email_to_look_up(email: str) -> str:
    """Return the one form of the address, or a text that no stored address equals. Never raises an error."""
    try:
        return normalise_email(email)
    except ValidationError:
        return _folded(email)


def _folded(email: str) -> str:
    """Return the address in NFKC and lower case, without white space and invisible characters at its ends."""
    # Each character alone, because `str.lower` makes the Σ at the end of a word another letter, of another domain.
    text = unicodedata.normalize("NFKC", "".join(map(str.lower, unicodedata.normalize("NFKC", email))))
    return text.strip("".join(character for character in set(text) if character.isspace() or is_invisible(character)))


def mailbox_of(email: str) -> str:
    """Return the address of the mailbox for the limits of e-mails.

    `user+tag@` is usually the mailbox of `user@`, so both addresses have the same mailbox, but only in the limits of
    e-mails.
    """
    name, _at, host = email_to_look_up(email).rpartition("@")
    return f"{name.partition('+')[0] or name}@{host}"


def _ascii(host: str) -> str:
    """Return the domain in ASCII, by IDNA 2008. ASCII labels are returned unchanged; `xn--` labels are verified.

    Raises ValidationError: the domain does not exist in IDNA 2008.
    """
    try:
        labels = (host if host.isascii() else idna.uts46_remap(host, std3_rules=False)).split(".")
        return ".".join(map(_ascii_label, labels))
    except (idna.IDNAError, UnicodeError):
        _refuse_invisible(host)
        raise ValidationError(
            _("“%(host)s” can't be the domain of an address. Check the part after the @."), "domain", {"host": host}
        ) from None


def _ascii_label(label: str) -> str:
    if label.isascii() and not label.startswith("xn--"):
        return label
    if label.isascii() and idna.alabel(idna.ulabel(label)).decode() != label:
        raise idna.IDNAError
    return idna.alabel(label).decode()
