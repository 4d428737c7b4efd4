"""Files and commands that docs/ tells an operator to write and to run."""

from __future__ import annotations

import re

from tests.server import ROOT


def document(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def file(path: str, name: str = "operations.md") -> str:
    """What the document says to write into the file: the block after the file's name."""
    return str(re.findall(rf"`{re.escape(path)}`(?:(?!```).)*```\w*\n(.*?)```", document(name), re.DOTALL)[0])


def block(beginning: str) -> str:
    """The first block of operations.md that begins so."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", document("operations.md"), re.DOTALL | re.MULTILINE)
    return str(next(each for each in blocks if each.startswith(beginning)))


def commands(heading: str, name: str) -> list[str]:
    """The blocks of shell commands of a section, subsections excluded."""
    section = re.split(rf"^#+ {re.escape(heading)}$", document(name), flags=re.MULTILINE)[1]
    return re.findall(r"```sh\n(.*?)```", re.split(r"^#+ ", section, flags=re.MULTILINE)[0], re.DOTALL)
