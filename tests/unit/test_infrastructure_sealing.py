"""What is stored encrypted can be read for as long as its key is known, also after an upgrade."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.factors.adapter import FactorAdapter
from accounts.sessions.store import SessionStore
from config.infrastructure import sealing

pytestmark = pytest.mark.once

KEY = "a SECRET_KEY of the test of what earlier releases have stored"
CHANGES = {
    "another purpose": lambda sealed: ("another", sealed, b"row"),
    "another row": lambda sealed: ("purpose", sealed, b"another row"),
    "a bit": lambda sealed: ("purpose", sealed[:-1] + bytes([sealed[-1] ^ 1]), b"row"),
    "shorter than a nonce": lambda sealed: ("purpose", sealed[:4], b"row"),
    "nothing": lambda sealed: ("purpose", b"", b"row"),
}


def test_what_release_0_1_0_has_stored_is_read(settings: Any) -> None:
    settings.SECRET_KEY = KEY
    assert SessionStore("k" * 32).decode("CIRK9wK6tAqEFOAtW0wp/1RV3z8gxS4A+DLXQe8SJi2jKJw=") == {"a": 1}
    assert FactorAdapter().decrypt("ZdUp8rrtxBsgczQ/yDdNqiHgrzrzyR5NDH6xeFVQpD62Jgel") == "JBSWY3DP"


@pytest.mark.parametrize("change", CHANGES)
def test_it_opens_only_unchanged_for_its_purpose_and_row(change: str) -> None:
    sealed = sealing.seal("purpose", b"content", b"row")
    assert sealing.unseal("purpose", sealed, b"row") == b"content"
    assert sealing.unseal(*CHANGES[change](sealed)) is None


def test_the_same_content_is_sealed_differently_each_time() -> None:
    assert sealing.seal("purpose", b"content") != sealing.seal("purpose", b"content")
