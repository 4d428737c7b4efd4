"""What is stored encrypted can be read for as long as its key is known, also after an upgrade."""

from __future__ import annotations

from typing import Any

from accounts.factors.adapter import FactorAdapter
from accounts.sessions.store import SessionStore
from config.infrastructure import sealing

KEY = "a SECRET_KEY of the test of what earlier releases have stored"


def test_what_release_0_1_0_has_stored_is_read(settings: Any) -> None:
    settings.SECRET_KEY = KEY
    assert SessionStore("k" * 32).decode("CIRK9wK6tAqEFOAtW0wp/1RV3z8gxS4A+DLXQe8SJi2jKJw=") == {"a": 1}
    assert FactorAdapter().decrypt("ZdUp8rrtxBsgczQ/yDdNqiHgrzrzyR5NDH6xeFVQpD62Jgel") == "JBSWY3DP"


def test_it_opens_only_unchanged_for_its_purpose_and_row() -> None:
    sealed = sealing.seal("purpose", b"content", b"row")
    assert sealing.unseal("purpose", sealed, b"row") == b"content"
    assert sealing.unseal("another", sealed, b"row") is None
    assert sealing.unseal("purpose", sealed, b"another row") is None
    for changed in (sealed[:-1] + bytes([sealed[-1] ^ 1]), sealed[:4], b""):
        assert sealing.unseal("purpose", changed, b"row") is None
    assert sealing.seal("purpose", b"content", b"row") != sealed, "each time differently"
