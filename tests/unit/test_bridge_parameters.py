"""Parameters are read once each, byte for byte. D5, D12."""

import pytest

from config.infrastructure.errors import RequestError
from oauth_bridge.errors import OAuthFault
from oauth_bridge.oauth.parameters import Parameters
from tests.contract_coverage import contract

VALUES = {
    b"state=abc": "abc",
    b"state=": "",
    b"state": "",
    b"state=a+b": "a%20b",
    b"state=%20a%20": "%20a%20",
    b"state=%ff%00": "%FF%00",
    b"state=%zz": "%25zz",
    "state=é".encode(): "%C3%A9",
    b"state=a%3Db%26c": "a%3Db%26c",
    b"other=1": None,
}
UNREADABLE = {
    b"code=a&code=a": OAuthFault.REPEATED,
    b"code=%ff": OAuthFault.MALFORMED,
    b"code=%00": OAuthFault.MALFORMED,
    b"code=a%0Ab": OAuthFault.MALFORMED,
}


def test_a_value_is_given_back_byte_for_byte_and_a_parameter_without_one_counts_as_omitted():
    assert {sent: Parameters(sent).percent_encoded("state") for sent in VALUES} == VALUES
    assert Parameters(b"code=&client_id=a").texts() == {"client_id": "a"}


def test_what_cannot_be_read_in_one_way_only_is_refused():
    for body, fault in UNREADABLE.items():
        with pytest.raises(RequestError) as caught:
            Parameters(body).texts()
        assert caught.value.fault is fault, body


@contract("D12.unknown")
def test_an_unknown_parameter_is_ignored_whatever_it_holds():
    for body in (b"x=1&x=", b"x=%ff", b"co%00de=a", b"%ff=%00", b"resource=a&resource=b"):
        assert Parameters(b"code=a&" + body).texts() == {"code": "a"}, body
