"""Which callback addresses may be registered, what is said of the others, and which have a hint. D3; RFC 6749 §3.1."""

import pytest
from django.core.exceptions import ValidationError

from oauth_bridge.callback_addresses.registration import hints, registration_problem, split_lines, validate_lines

GOOD = [
    "https://app.example/callback",
    "https://app.example",
    "https://app.example:8443/cb?tenant=7&x=%2F",
    "https://xn--bcher-kva.example/cb",
    "http://localhost:3000/cb",
    "http://127.0.0.1:9201/",
    "http://[::1]:9201/cb",
    "com.example.app:/callback",
    "com.example.app://signed-in/back",
]
# With a part of the reason.
BAD = {
    "http://app.example/cb": "http is possible on this machine only",
    "http://127.0.0.2/cb": "http is possible on this machine only",
    "http://localhost.example/cb": "http is possible on this machine only",
    "https://app.example/cb#": "fragment",
    "https://*.app.example/cb": "wildcards",
    "https://app.example/*": "wildcards",
    "https://user@app.example/cb": "user name",
    "https://app.example/a/../cb": "path",
    "https://app.example/%2E./cb": "path",
    "https://app.example/c b": "spaces",
    "https://app.example/cb\tx": "spaces",
    "https://app.example/\x00": "spaces",
    "https://bücher.example/cb": "punycode",
    "https://app.example\\@evil.example": "which no address may hold",
    "https://App.example/cb": "lower case",
    "HTTPS://app.example/cb": "host",
    "https:///cb": "no host",
    "https:app.example": "no host",
    "https://app.example:0/cb": "port",
    "https://app.example:99999/cb": "port",
    "https://app.example:/cb": "port",
    "https://[::1/cb": "can't be read",
    "https://127.1/cb": "not a name",
    "https://2130706433/cb": "not a name",
    "https://.../cb": "not a name",
    "https://-a.example/cb": "not a name",
    "https://%65vil.example/cb": "not a name",
    "https://app.example/%zz": "hexadecimal",
    "https://app.example/cb?code=fixed": "its query holds",
    "https://app.example/cb?a=1&st%61te=x": "its query holds",
    "javascript:alert(1)": "use https",
    "data:text/html,x": "use https",
    "file:///etc/passwd": "use https",
    "myapp:/cb": "use https",
    "com.example.app:callback": "path after the scheme",
    "/callback": "no scheme",
    "app.example/callback": "no scheme; write https://host/path",
    "127.0.0.1:9201/": "no scheme; write http://host/path",
    "//[::1]/cb": "no scheme; write http://host/path",
    "localhost.example/cb": "no scheme; write https://host/path",
    "http:/localhost:3000/cb": "no host; write http://host/path",
    "https:/localhost/cb": "no host; write https://host/path",
    "https://app.example/" + "a" * 2000: "longer than",
}
# That can be registered and are rarely meant.
HINTS = {
    "https://reading.example/callback": "",
    "http://localhost:3000/cb": "",
    "com.example.app:/callback": "",
    "https://localhost/cb": "",
    "http://[::1]/cb": "Without a port, this is port 80.",
    "https://reading.example": "A bare host",
    "https://reading.example/": "ends with a slash",
    "https://reading.example:443/cb": "leave :443 out",
    "http://127.0.0.1:80/cb": "leave :80 out",
    "https://10.0.4.17/cb": "A private network",
    "https://intranet/cb": "A private network",
    "https://printer.local/cb": "A private network",
    "https://xn--bcher-kva.example/cb": "reads bücher.example",
    "https://xn--ls8h.example/cb": "",
}


def test_an_address_that_browsers_can_return_to_is_registered():
    assert {uri: registration_problem(uri) for uri in GOOD} == dict.fromkeys(GOOD)


def test_any_other_address_is_refused_with_a_reason_of_its_own():
    assert [uri for uri, part in BAD.items() if part not in (registration_problem(uri) or "")] == []


def test_an_address_has_the_hint_that_fits():
    said = {uri: " ".join(hints(uri, is_public=False)) for uri in HINTS}
    assert [uri for uri, part in HINTS.items() if part not in said[uri] or bool(part) is not bool(said[uri])] == []
    assert hints("http://[::1]/cb", is_public=True) == []


def test_lines_are_read_without_what_surrounds_them_and_every_bad_one_gets_its_own_message():
    lines = split_lines(" http://a.example/ \r\n\n https://ok.example/\nhttps://ok.example/\n ftp://b.example/\n")
    assert lines == ["http://a.example/", "https://ok.example/", "https://ok.example/", "ftp://b.example/"]
    with pytest.raises(ValidationError) as caught:
        validate_lines("\n".join(lines))
    first, second, third = caught.value.messages
    assert first.startswith("http://a.example/:")
    assert "more than once" in second
    assert third.startswith("ftp://b.example/:")
    with pytest.raises(ValidationError, match="at least one"):
        validate_lines(" ")
