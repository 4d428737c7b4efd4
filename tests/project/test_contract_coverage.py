"""Each sentence has a test, and each mark names a sentence."""

from __future__ import annotations

import pytest

from tests.contract.sentences import SENTENCES
from tests.contract_coverage import holders, marked

pytestmark = pytest.mark.once


def test_every_sentence_of_the_contract_has_a_test() -> None:
    assert [sentence for sentence, tests in holders().items() if not tests] == []


def test_no_test_names_a_sentence_that_does_not_exist() -> None:
    assert sorted({sentence for sentence, _ in marked()} - set(SENTENCES)) == []
