"""One letter in place of a logo, and text that pages can't show."""

import pytest
from django.core.exceptions import ValidationError

from accounts.returning import Caption
from config.infrastructure.text import first_letter, refuse_control_characters


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


@pytest.mark.parametrize("text", ["\u200b", "\u200b \u200d\ufeff", "\u3164\u3164", "\u00ad", "\U000e0041", "\u200f"])
def test_a_text_of_which_nothing_is_seen_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        refuse_control_characters(text)


@pytest.mark.parametrize("text", ["", "  ", "a\u200b", "👩🏽\u200d🚀", "می\u200cخواهم", "\u200fمقهى"])
def test_a_text_of_which_something_is_seen_is_not(text: str) -> None:
    refuse_control_characters(text)
