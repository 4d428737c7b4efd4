"""Parameters are read once each, byte for byte. D5, D12."""

import pytest

from config.infrastructure.errors import RequestError
from oauth_bridge.errors import OAuthFault
from oauth_bridge.protocol.parameter_parsing import Parameters
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
    b"x=1&x=": OAuthFault.REPEATED,
    b"code=%ff": OAuthFault.MALFORMED,
    b"code=%00": OAuthFault.MALFORMED,
    b"co%00de=a": OAuthFault.MALFORMED,
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


@contract("D19.sentence")
@pytest.mark.parametrize("body", [b"%b=1&%b=2", b"%b=%%00&a=%b"])
def test_what_may_be_a_credential_in_the_wrong_place_is_not_repeated(body):
    secret = b"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    with pytest.raises(RequestError) as caught:
        Parameters(body % (secret, secret)).texts()
    assert secret.decode() not in caught.value.description
    assert "with a name of 43 characters" in caught.value.description
