"""A JSON list that is written element by element, so a long list needs no more memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator


def pieces(elements: Iterable[object]) -> Iterator[str]:
    """The text of the list in pieces, one element per line."""
    separator = "[\n"
    for element in elements:
        yield separator + json.dumps(element, ensure_ascii=False)
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"
