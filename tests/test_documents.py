"""What is written about the code is true of it."""

from tests import documents


def test_the_tables_of_the_contract_are_those_of_the_code():
    assert documents.CONTRACT.read_text(encoding="utf-8") == documents.contract(), "run python -m tests.documents"
