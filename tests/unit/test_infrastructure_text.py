"""One letter in place of a logo."""

import pytest

from accounts.returning import Caption
from config.infrastructure.text import first_letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Reading List", "R"),
        ("", ""),
        ("e\u0301tude", "e\u0301"),
        ("👩🏽‍🚀 Space", "👩🏽‍🚀"),
        ("🇳🇴🇳🇴", "🇳🇴"),
        ("❤️ Heart", "❤️"),
        ("👍🏿", "👍🏿"),
        ("नि", "नि"),
    ],
)
def test_the_first_letter_is_what_a_reader_sees_as_one(text: str, letter: str) -> None:
    assert first_letter(text) == letter


def test_a_caption_has_a_capital_and_knows_when_its_name_is_long() -> None:
    assert Caption("reading list").initial == "R"
    assert not Caption("x" * 30).is_long
    assert Caption("x" * 31).is_long
