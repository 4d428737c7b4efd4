"""Each sentence has a test, and each mark names a sentence."""

from __future__ import annotations

from tests.contract.sentences import SENTENCES
from tests.contract_coverage import holders


def test_every_sentence_of_the_contract_has_a_test_and_every_mark_a_sentence() -> None:
    found = holders()
    assert [sentence for sentence, tests in found.items() if not tests] == []
    assert sorted(found.keys() - SENTENCES) == []
