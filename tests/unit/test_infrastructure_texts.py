"""Text that pages can't show is refused, and one letter stands in place of a logo."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from config.infrastructure.texts import first_grapheme, refuse_control_characters


@pytest.mark.parametrize("text", ["\u200b", "\u200b \u200d\ufeff", "\u3164\u3164", "\u00ad", "\U000e0041", "\u200f"])
def test_a_text_of_which_nothing_is_seen_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        refuse_control_characters(text)


@pytest.mark.parametrize("text", ["", "  ", "a\u200b", "👩🏽\u200d🚀", "می\u200cخواهم", "\u200fمقهى"])
def test_a_text_of_which_something_is_seen_is_not(text: str) -> None:
    refuse_control_characters(text)


def test_the_first_grapheme_is_what_a_reader_sees_as_one_character() -> None:
    whole = ["", "R", "e\u0301", "👩🏽‍🚀", "🇳🇴", "❤️", "👍🏿", "नि"]
    assert [first_grapheme(text) for text in whole] == whole
    assert [first_grapheme(text and text + "🇳🇴 List") for text in whole if text != "🇳🇴"] == whole[:4] + whole[5:]
    assert first_grapheme("🇳🇴🇳🇴") == "🇳🇴"
