"""Read environment variables, and the files that replace secret variables.

An empty variable counts as unset. The variable `NAME_FILE` may contain the path of a file that contains the secret
`NAME`. Platforms mount secrets as files, because the variables of a process are easier to read than its files.
"""

from __future__ import annotations

import difflib
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

SECRET = frozenset({"SECRET_KEY", "SECRET_KEY_FALLBACKS", "DATABASE_URL", "REDIS_URL", "EMAIL_URL"})
FILE = "_FILE"
MOST_BYTES = 64 * 1024
# Names are similar if difflib's ratio of them is at least this number. In a name of eight letters, one may differ. No
# two of our names are so similar.
ALIKE = 0.87

_known: set[str] = set()


def value(name: str) -> str:
    """Return the stripped variable or, for a secret, the content of its file; empty if neither is set.

    Raises ImproperlyConfigured: both are set, or the file can't be read.
    """
    _known.add(name)
    text = os.environ.get(name, "").strip()
    path = os.environ.get(name + FILE, "").strip() if name in SECRET else ""
    if text and path:
        raise ImproperlyConfigured(f"{name} and {name}{FILE} are both set. Set one of them.")
    return _content(name + FILE, path) if path else text


def is_set(name: str) -> bool:
    return bool(os.environ.get(name, "").strip() or (name in SECRET and os.environ.get(name + FILE, "").strip()))


def refuse_unknown() -> None:
    """Refuse unknown variables with names similar to ours. Call this function after all variables are read.

    Raises ImproperlyConfigured: such a variable is set, but our variable with the similar name is not.
    """
    known = {name for each in _known for name in (each, *([each + FILE] if each in SECRET else []))}
    for name in sorted(set(os.environ) - known):
        of_file = name.removesuffix(FILE)
        if name.endswith(FILE) and of_file in known:
            raise ImproperlyConfigured(f"{name} is not a variable of this service: only secrets are read from files.")
        meant = difflib.get_close_matches(name, known, 1, ALIKE)
        if meant and not is_set(meant[0]):
            raise ImproperlyConfigured(f"{name} is not a variable of this service. Is {meant[0]} meant?")


def _content(name: str, path: str) -> str:
    """Return the stripped text of the file. Errors do not contain the text."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ImproperlyConfigured(f"{name} must be the path of a file that can be read ({reason}).") from None
    text = content.decode(errors="surrogateescape").strip()
    if not text or len(content) > MOST_BYTES:
        raise ImproperlyConfigured(f"{name} must be the path of a file with at most {MOST_BYTES // 1024} kB of text.")
    return text


def write_new_key(path: Path) -> None:
    """Create the complete file with mode 0600, unless another process has created the file in the meantime."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="ascii") as draft:
        draft.write(secrets.token_urlsafe(64))
        draft.flush()
        with suppress(FileExistsError):
            os.link(draft.name, path)
