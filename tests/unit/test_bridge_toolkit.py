"""The toolkit: its settings are checked, its views are the base of ours, its signal is sent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import oauth2_provider
import pytest
from django.core.management import find_commands
from django.db import connection
from django.test.utils import CaptureQueriesContext
from oauth2_provider.signals import app_authorized

import manage
from oauth_bridge.apps import toolkit_is_configured
from oauth_bridge.models import AccessToken
from tests.factories import Registered, digest_of
from tests.grants import exchange


def test_another_backend_or_lifetime_or_a_model_of_the_toolkit_cannot_start(settings: Any) -> None:
    assert toolkit_is_configured() == []
    ours = settings.OAUTH2_PROVIDER
    for name, value, check in (
        ("OAUTH2_BACKEND_CLASS", "oauth2_provider.oauth2_backends.OAuthLibCore", "oauth_bridge.E002"),
        ("AUTHORIZATION_CODE_EXPIRE_SECONDS", 60, "oauth_bridge.E003"),
        ("ACCESS_TOKEN_EXPIRE_SECONDS", 36000, "oauth_bridge.E003"),
    ):
        settings.OAUTH2_PROVIDER = ours | {name: value}
        (error,) = toolkit_is_configured()
        assert error.id == check
        assert name in error.msg
    settings.OAUTH2_PROVIDER, settings.OAUTH2_PROVIDER_GRANT_MODEL = ours, "oauth2_provider.Grant"
    assert [error.id for error in toolkit_is_configured()] == ["oauth_bridge.E001"]


@pytest.mark.django_db
def test_the_signal_of_the_toolkit_has_the_row_of_the_token_which_is_not_read_again(
    application: Registered,
) -> None:
    """A receiver that fails costs no token."""
    tokens: list[Any] = []

    def receiver(token: AccessToken, **_kwargs: Any) -> None:
        tokens.append(token)
        raise RuntimeError

    app_authorized.connect(receiver)
    assert exchange(application, code="another").status_code == 400
    assert tokens == []
    with CaptureQueriesContext(connection) as captured:
        answer = exchange(application)
    (token,) = tokens
    stored = AccessToken.objects.get(digest=digest_of(answer.json()["access_token"]))
    for name in ("digest", "application_id", "user_id", "scope", "issued_at", "expires_at", "person_version"):
        assert getattr(token, name) == getattr(stored, name), name
    sent = [query["sql"] for query in captured.captured_queries]
    assert not [sql for sql in sent if sql.startswith("SELECT") and "accesstoken" in sql]
    app_authorized.disconnect(receiver)


def test_the_command_line_refuses_every_command_of_the_toolkit_and_names_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would store rows that this service does not read, or end in a traceback."""
    theirs = find_commands(str(Path(oauth2_provider.__file__).parent / "management"))
    for command in ("changepassword", *theirs):
        monkeypatch.setattr(sys, "argv", ["manage.py", command])
        with pytest.raises(SystemExit, match=r"Use manage\.py"):
            manage.main()
