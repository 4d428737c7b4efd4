"""The table of failures keeps to RFC 6749 and to itself. Specification 7; D19."""

import re

import pytest

from oauth_bridge.errors import Fault, RequestError, UnverifiedRequest

ALLOWED = re.compile(r"[\x20-\x21\x23-\x5B\x5D-\x7E]+")
STATUSES = {400, 401, 403, 404, 405, 413, 414, 429, 431, 500, 503}


@pytest.mark.parametrize("fault", Fault)
def test_every_sentence_has_only_characters_that_rfc_6749_allows_and_ends_like_one(fault):
    assert ALLOWED.fullmatch(fault.sentence)
    assert fault.sentence.endswith((".", "{hint}"))
    assert fault.status in STATUSES


def test_no_two_failures_are_told_in_the_same_words():
    sentences = [fault.sentence for fault in Fault]
    assert len(set(sentences)) == len(sentences)


def test_what_a_request_brings_into_a_sentence_is_made_harmless():
    refused = RequestError(Fault.REPEATED, name='st"ate\\\n\x00é')
    assert ALLOWED.fullmatch(refused.description)
    assert "st?ate" in refused.description


def test_a_refusal_carries_nothing_of_the_request_into_a_traceback():
    refused = UnverifiedRequest(Fault.MALFORMED, name="value-of-a-stranger")
    assert "value-of-a-stranger" not in repr(refused)
    assert "value-of-a-stranger" not in str(refused)
