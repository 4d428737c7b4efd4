"""A JSON list that is written one element at a time, so that its length costs no memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator


def pieces(elements: Iterable[object]) -> Iterator[str]:
    """The text of the list: one element a line."""
    separator = "[\n"
    for element in elements:
        yield separator + json.dumps(element, ensure_ascii=False)
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"
