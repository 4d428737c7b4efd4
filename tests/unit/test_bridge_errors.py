"""The table of errors: each has a sentence of its own, in the characters that RFC 6749 allows. Specification 7; D19."""

import re

import pytest

from oauth_bridge.errors import Fault, RequestError, UnverifiedRequest

ALLOWED = re.compile(r"[\x20-\x21\x23-\x5B\x5D-\x7E]+")
STATUSES = {400, 401, 403, 404, 405, 413, 414, 429, 431, 500, 503}


@pytest.mark.parametrize("fault", Fault)
def test_each_sentence_has_only_allowed_characters_and_ends_with_a_full_stop(fault):
    assert ALLOWED.fullmatch(fault.sentence)
    assert fault.sentence.endswith((".", "{hint}"))
    assert fault.status in STATUSES


def test_no_two_errors_have_the_same_sentence():
    sentences = [fault.sentence for fault in Fault]
    assert len(set(sentences)) == len(sentences)


def test_a_value_of_the_request_is_reduced_to_allowed_characters():
    refused = RequestError(Fault.REPEATED, name='st"ate\\\n\x00é')
    assert ALLOWED.fullmatch(refused.description)
    assert "st?ate" in refused.description


def test_an_exception_shows_no_value_of_the_request():
    refused = UnverifiedRequest(Fault.MALFORMED, name="value-of-a-stranger")
    assert "value-of-a-stranger" not in repr(refused)
    assert "value-of-a-stranger" not in str(refused)
