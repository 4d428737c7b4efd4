"""The names of browsers on pages and in e-mails."""

from __future__ import annotations

import pytest

from accounts.sessions.user_agents import browser_name
from tests.pages import FIREFOX


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari on iPhone"),
        ("Firefox/1 <b>http://mallory.example</b>", "Firefox"),
        ("curl/8", "an unknown browser"),
        ("", "an unknown browser"),
    ],
)
def test_a_browser_has_a_fixed_name(header: str, name: str) -> None:
    assert browser_name(header) == name
