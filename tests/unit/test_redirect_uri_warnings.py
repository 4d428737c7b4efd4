"""Hints about callback addresses that can be registered and are rarely meant. D3."""

from __future__ import annotations

import pytest

from oauth_bridge.redirect_uri_warnings import hints

CASES = {
    "https://reading.example/callback": "",
    "http://localhost:3000/cb": "",
    "com.example.app:/callback": "",
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


@pytest.mark.parametrize("uri", CASES)
def test_an_address_has_the_hint_that_fits(uri: str) -> None:
    said, wanted = " ".join(hints(uri)), CASES[uri]
    assert (wanted in said) if wanted else not said
