"""Generates the tables of docs/contract.md from the code. `python -m tests.documents` writes them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.contract.sentences import SENTENCES
from tests.matrix import holders

ROOT = Path(__file__).resolve().parent.parent
CONTRACT = ROOT / "docs" / "contract.md"


def errors() -> str:
    """A table with a row for each error: status, `error`, sentence. Read from the source, so it needs no settings."""
    rows = ["| status | `error` | `error_description` |", "|---|---|---|"]
    source = ast.parse((ROOT / "oauth_bridge" / "errors.py").read_text(encoding="utf-8"))
    table = next(node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "Fault")
    for node in table.body:
        if isinstance(node, ast.Assign):
            # A sentence that a page may show is marked for translation: `_("…")`.
            status, error, sentence = (
                ast.literal_eval(part.args[0] if isinstance(part, ast.Call) else part) for part in node.value.elts
            )
            rows.append(f"| {status} | `{error}` | {sentence} |")
    return "\n".join(rows)


def sentences() -> str:
    """A table with a row for each sentence of the contract and the tests that verify it."""
    rows = ["| sentence | what it says | tests |", "|---|---|---|"]
    for sentence, tests in holders().items():
        held = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests)
        rows.append(f"| {sentence} | {SENTENCES.get(sentence, 'unknown').replace('|', '&#124;')} | {held} |")
    return "\n".join(rows)


def contract() -> str:
    """The text of docs/contract.md with current tables."""
    text = CONTRACT.read_text(encoding="utf-8")
    for name, made in (("errors", errors()), ("sentences", sentences())):
        region = re.compile(f"<!-- {name} -->.*<!-- /{name} -->", re.DOTALL)
        text = region.sub(lambda _, name=name, made=made: f"<!-- {name} -->\n{made}\n<!-- /{name} -->", text)
    return text


if __name__ == "__main__":
    CONTRACT.write_text(contract(), encoding="utf-8")
