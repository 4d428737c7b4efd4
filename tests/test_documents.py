"""What is written about the code is true of it."""

import re

from tests import documents


def test_the_tables_of_the_contract_are_those_of_the_code():
    assert documents.CONTRACT.read_text(encoding="utf-8") == documents.contract(), "run python -m tests.documents"


def test_every_test_that_the_table_of_faults_names_exists():
    table = (documents.ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", table)
    folder = documents.ROOT / "tests" / "faults"
    missing = [test for file, test in named if f"\ndef {test}(" not in (folder / file).read_text(encoding="utf-8")]
    assert len(named) > 10
    assert missing == []
