"""The toolkit: its signal is sent, and its commands, which would store rows that nobody reads, are refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import oauth2_provider
import pytest
from django.core.management import find_commands
from oauth2_provider.signals import app_authorized

import manage
from oauth_bridge.models import AccessToken
from tests.factories import Registered, digest_of
from tests.grants import exchange


@pytest.mark.django_db
def test_the_signal_of_the_toolkit_has_the_row_of_the_token(application: Registered) -> None:
    """A receiver that fails costs no token."""
    tokens: list[Any] = []

    def receiver(token: AccessToken, **_kwargs: Any) -> None:
        tokens.append(token)
        raise RuntimeError

    app_authorized.connect(receiver)
    assert exchange(application, code="another").status_code == 400
    answer = exchange(application).json()
    app_authorized.disconnect(receiver)
    assert [bytes(token.digest) for token in tokens] == [digest_of(answer["access_token"])]


def test_the_command_line_refuses_every_command_of_the_toolkit_and_names_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = find_commands(str(Path(oauth2_provider.__file__).parent / "management"))
    for command in ("changepassword", *theirs):
        monkeypatch.setattr(sys, "argv", ["manage.py", command])
        with pytest.raises(SystemExit, match=r"Use manage\.py"):
            manage.main()
