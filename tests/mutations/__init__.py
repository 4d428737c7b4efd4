"""Mutations: for each sentence of the contract, changes of the source that break it.

They stand in the text files of this folder, a paragraph each: the ids of the sentences it breaks, what is broken in a
few words, the file, the old text behind `-`, the new text behind `+`. A paragraph that begins with `#` is a comment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent


class Stale(Exception):
    """The old text of a mutation does not occur exactly once in its file."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """`words` say what is broken, and name the mutation in docs/mutations.md."""

    sentences: tuple[str, ...]
    words: str
    path: str
    old: str
    new: str

    def mutated(self) -> str:
        """The text of the file with the mutation in it. Raises Stale."""
        source = ROOT / self.path
        text = source.read_text(encoding="utf-8") if source.is_file() else ""
        if text.count(self.old) != 1:
            raise Stale(f"{self.words} ({self.path}: the old text occurs {text.count(self.old)} times)")
        return text.replace(self.old, self.new)


def parse(text: str) -> list[Mutation]:
    """The mutations of one file of this folder."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("#"):
            continue
        ids, words, path, *lines = paragraph.strip("\n").splitlines()
        if wrong := [line for line in lines if line[:2].rstrip() not in ("-", "+")]:
            raise ValueError(f"{words}: {wrong[0]}")
        old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        found.append(Mutation(tuple(ids.split()), words, path, old, new))
    return found


def mutations() -> list[Mutation]:
    """Every mutation, in the order of the files."""
    return [each for path in sorted(FOLDER.glob("*.txt")) for each in parse(path.read_text(encoding="utf-8"))]
