"""When two e-mail addresses are the same: for all accounts, and for the limits of e-mails."""

from __future__ import annotations

import unicodedata


def normalise_email(email: str) -> str:
    """Return the form in which addresses are stored and looked up: NFKC, lower case, without surrounding spaces."""
    return unicodedata.normalize("NFKC", email).strip().lower()


def mailbox_of(email: str) -> str:
    """Return the address of the mailbox for the limits of e-mails.

    `user+tag@` is usually the mailbox of `user@`, so both addresses have the same mailbox, but only in the limits of
    e-mails.
    """
    name, _at, host = normalise_email(email).rpartition("@")
    return f"{name.partition('+')[0] or name}@{host}"
