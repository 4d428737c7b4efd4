"""One letter in place of a logo."""

from config.infrastructure.graphemes import first_grapheme


def test_the_first_grapheme_is_what_a_reader_sees_as_one_character() -> None:
    whole = ["", "R", "e\u0301", "👩🏽‍🚀", "🇳🇴", "❤️", "👍🏿", "नि"]
    assert [first_grapheme(text) for text in whole] == whole
    assert [first_grapheme(text and text + "🇳🇴 List") for text in whole if text != "🇳🇴"] == whole[:4] + whole[5:]
    assert first_grapheme("🇳🇴🇳🇴") == "🇳🇴"
