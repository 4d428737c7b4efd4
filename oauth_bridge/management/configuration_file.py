"""Read and check a file of applications in the format of `manage.py application export`. Contract."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from config.infrastructure.command_errors import shown
from oauth_bridge.management import registration_fields
from oauth_bridge.management.registration_fields import BY_NAME
from oauth_bridge.models import Application

MOST_BYTES = 64 * 1024 * 1024
MOST_PROBLEMS = 20
CLIENT_ID = re.compile("[0-9a-f]{32}")  # the format of `models.new_client_id`
_TYPES = {str: "a text", list: "a list of texts", bool: "true or false"}
_BATCH = 500


class Problems(list[str]):
    """The problems of a file, as sentences. Each sentence concerns one application and one field."""

    def refuse(self) -> None:
        """Raise CommandError if there are problems. The message names at most MOST_PROBLEMS problems."""
        if not self:
            return
        if len(self) == 1:
            raise CommandError(f"{shown(self[0])} Nothing was changed.")
        more = len(self) - MOST_PROBLEMS
        lines = [shown(problem) for problem in self[:MOST_PROBLEMS]] + ([f"… and {more:,} more."] if more > 0 else [])
        raise CommandError("Nothing was changed.\n" + "\n".join(lines))


class Entry:
    """An application of the file. `values` contains only the fields whose values have the right type."""

    def __init__(self, number: int, content: Any) -> None:
        self.problems: list[str] = []
        members = content if isinstance(content, dict) else {}
        client_id = members.get("client_id")
        self.client_id = client_id if isinstance(client_id, str) and len(client_id) <= 255 else ""
        is_readable = self.client_id.isprintable() and self.client_id != ""
        self.label = f"No. {number} ({self.client_id})" if is_readable else f"No. {number}"
        self.values: dict[str, Any] = {}
        if not isinstance(content, dict):
            self.add("", "it is not an object.")
        elif not is_readable:
            self.add("client_id", "it is missing, or not one.")
        for name, value in members.items():
            if name != "client_id":
                self._read(name, value)

    def _read(self, name: str, value: Any) -> None:
        if name in ("client_secret", "secret", "secrets"):
            self.add(name, "a secret is never part of a file. `application rotate-secret` makes one.")
        elif name not in BY_NAME:
            self.add(name[:80], "there is no such field.")
        elif not isinstance(value, wanted := BY_NAME[name].type) or not _has_texts(value):
            self.add(name, f"it must be {_TYPES[wanted]}.")
        else:
            self.values[name] = value

    def add(self, field: str, problem: str) -> None:
        self.problems.append(f"{self.label}: {field}: {problem}" if field else f"{self.label}: {problem}")


def _has_texts(value: Any) -> bool:
    """Return whether UTF-8 can encode the text or texts. False if a list contains other values than texts.

    UTF-8 cannot encode half a surrogate pair.
    """
    texts = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    return all(isinstance(each, str) and not re.search("[\ud800-\udfff]", each) for each in texts)


def entries(path: str) -> list[Entry]:
    """Read the applications from the file, or from standard input if the path is `-`.

    Raises CommandError: the file cannot be read, it is not a list, or an application is malformed or repeated.
    """
    content = _parsed(_text(path))
    if not isinstance(content, list):
        raise CommandError("FILE: a JSON list of applications is needed, as `application export` prints it.")
    found = [Entry(number, each) for number, each in enumerate(content, 1)]
    for client_id, times in Counter(entry.client_id for entry in found if entry.client_id).items():
        if times > 1:
            last = next(entry for entry in reversed(found) if entry.client_id == client_id)
            last.add("client_id", "it is there more than once.")
    Problems(problem for entry in found for problem in entry.problems).refuse()
    return found


def _text(path: str) -> str:
    try:
        if path == "-":
            content = _standard_input()
        else:
            with Path(path).open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise CommandError(f"FILE: it is longer than {MOST_BYTES // 1024**2} MB. Split it.")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"FILE: it can't be read: {error.strerror or error}.") from None
    except ValueError:  # a path with NUL, or bytes that are not UTF-8
        raise CommandError("FILE: it is not a text in UTF-8.") from None


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise CommandError("FILE: standard input is closed.")
    stream = getattr(sys.stdin, "buffer", None)
    return stream.read(MOST_BYTES + 1) if stream else sys.stdin.read().encode()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repetition)
    except RecursionError:
        raise CommandError("FILE: it is nested too deeply.") from None
    except ValueError as error:
        raise CommandError(f"FILE: it is not JSON: {shown(str(error)[:200])}.") from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"{twice[:80]} is there twice in one object")
    return members


def stored(client_ids: list[str]) -> dict[str, Application]:
    """Return the stored applications by client_id, and lock them in the given order until the transaction ends."""
    found: dict[str, Application] = {}
    for start in range(0, len(client_ids), _BATCH):
        rows = Application.objects.select_for_update(no_key=True).filter(
            client_id__in=client_ids[start : start + _BATCH]
        )
        for row in rows.order_by("client_id").prefetch_related("groups"):
            found[row.client_id] = row
    return found


def exported() -> Iterator[dict[str, Any]]:
    """Return all applications in the format that `apply` reads."""
    rows = Application.objects.order_by("client_id").prefetch_related("groups")
    return (registration_fields.registered(row) for row in rows.iterator(chunk_size=_BATCH))
