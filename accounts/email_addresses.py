"""Normalise e-mail addresses for accounts, e-mails and rate limits."""

from __future__ import annotations

import re
import unicodedata

import idna
from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator, MaxLengthValidator
from django.utils.translation import gettext_lazy as _

from config.infrastructure.texts import is_unseen

EMAIL_MAX_LENGTH = 254

NOT_AN_ADDRESS = _("Type an e-mail address, like name@example.com.")
NOT_A_LOCAL_PART = _(
    "The part before the @ may have the letters a to z without accents, digits, and signs such as . _ + - only."
)
UNSEEN = _("The address has a space or an invisible character in it. Delete it, or type the address again.")
NOT_A_DOMAIN = _("The part after the @ is not the name of a domain. Check its spelling.")
# Without quotation marks: "zoe"@example.com and zoe@example.com are the same mailbox (RFC 5321 §4.1.2).
_LOCAL_PART = re.compile(r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]*")
# IDNA 2008 accepts these invisible characters in some domains (RFC 5892 appendix A).
_JOINERS = frozenset("\u200c\u200d")


def normalise_email(typed: str) -> str:
    """Return the address as it is stored and compared: in NFKC and lower case, with an ASCII domain (IDNA 2008).

    Invisible characters at the ends are removed. Raises ValidationError if the text is no address.
    """
    limit_length = MaxLengthValidator(EMAIL_MAX_LENGTH)
    limit_length(typed.strip())
    text = unicodedata.normalize("NFKC", typed)
    seen = [index for index, each in enumerate(text) if not is_unseen(each)] or [0]
    text = text[seen[0] : seen[-1] + 1]
    local, at, domain = text.rpartition("@")
    if any(map(is_unseen, local)) or any(is_unseen(each) and each not in _JOINERS for each in domain):
        raise ValidationError(UNSEEN)
    if not at or not local or not domain or domain.startswith("["):  # a network address has many spellings
        raise ValidationError(NOT_AN_ADDRESS)
    if not _LOCAL_PART.fullmatch(local := local.lower()):
        raise ValidationError(NOT_A_LOCAL_PART)
    try:
        # The mapping of UTS 46 without its transitional part is what browsers apply to a typed domain.
        mapped = domain.lower() if domain.isascii() else idna.uts46_remap(domain, std3_rules=False, transitional=False)
        address = f"{local}@{'.'.join(map(_ascii_label, mapped.split('.')))}"
    except idna.InvalidCodepointContext as error:
        raise ValidationError(UNSEEN if _JOINERS & {*domain} else NOT_A_DOMAIN) from error
    except UnicodeError as error:
        raise ValidationError(NOT_A_DOMAIN) from error
    limit_length(address)
    EmailValidator(NOT_AN_ADDRESS)(address)
    return address


def looked_up_email(typed: str) -> str:
    """Return the result of `normalise_email`, or "" if the text is no address."""
    try:
        return normalise_email(typed)
    except ValidationError:
        return ""


def mailbox_of(email: str) -> str:
    """Return the address without `+tag`, for the limits of e-mails: `user+tag@` is usually the mailbox of `user@`."""
    name, _at, host = email.rpartition("@")
    return f"{name.partition('+')[0] or name}@{host}"


def _ascii_label(label: str) -> str:
    is_encoded = label.startswith("xn--")
    if label.isascii() and not is_encoded:
        return label
    return idna.alabel(idna.ulabel(label) if is_encoded else label).decode()
