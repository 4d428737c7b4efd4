"""What the documents for operators say to write into files."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def documented(file: str, document: str = "operations.md") -> str:
    """The block that follows the path of the file in the document."""
    guide = (DOCS / document).read_text(encoding="utf-8")
    found = re.findall(rf"`{re.escape(file)}`(?:(?!```).)*```\w*\n(.*?)```", guide, re.DOTALL)
    assert found, f"docs/{document} does not say what {file} contains"
    return str(found[0])
