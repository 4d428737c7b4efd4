"""One letter in place of a logo."""

import pytest

from config.infrastructure.graphemes import first_grapheme


@pytest.mark.parametrize(
    ("text", "grapheme"),
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
def test_the_first_grapheme_is_what_a_reader_sees_as_one_character(text: str, grapheme: str) -> None:
    assert first_grapheme(text) == grapheme
