"""Write a JSON list element by element, so that a long list needs no more memory than a short one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator


def pieces(elements: Iterable[object]) -> Iterator[str]:
    """Yield the text of the list in pieces, with one element in each line."""
    separator = "[\n"
    for element in elements:
        yield separator + json.dumps(element, ensure_ascii=False)
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"
