"""How many statements each operation costs. The signal of the toolkit is sent, and its commands are refused."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import oauth2_provider
import pytest
from django.core.management import find_commands
from django.db import connection
from django.test.utils import CaptureQueriesContext
from oauth2_provider.signals import app_authorized

import manage
from oauth_bridge.activity import counts
from oauth_bridge.consent import consents
from oauth_bridge.credentials.random_values import new_credential
from oauth_bridge.models import AccessToken, Application, AuthorizationCode
from tests.factories import ApplicationFactory, Registered, digest_of
from tests.grants import exchange, link_of, userinfo

INDEXES = {
    AuthorizationCode: {("id",), ("digest",), ("user_id", "attempt"), ("issued_at",), ("former_digest",)},
    AccessToken: {("id",), ("digest",), ("user_id",)},
}
pytestmark = [pytest.mark.django_db, pytest.mark.integration]


def statements(call):
    """Without BEGIN and COMMIT, of which SQLite needs a pair at the token operation."""
    with CaptureQueriesContext(connection) as captured:
        answer = call()
    sent = [query["sql"].split()[0] for query in captured.captured_queries]
    return answer, [verb for verb in sent if verb not in ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")]


def test_a_sign_in_of_a_signed_in_browser_costs_three_two_and_one(client, alice):
    application = ApplicationFactory(is_trusted=True)
    client.force_login(alice)
    authorize = partial(client.get, link_of(application))
    one_step = ["WITH"] if connection.vendor == "postgresql" else ["UPDATE", "INSERT"]
    for noted in (["UPDATE"], []):  # the first use of a secret in a minute
        answer, sent = statements(authorize)
        assert sent == ["SELECT", "SELECT", "INSERT"]  # application; session and person; code
        code = answer["Location"].partition("code=")[2]
        answer, sent = statements(partial(exchange, application, code=code))
        assert sent == ["SELECT", *noted, *one_step]
    answer, sent = statements(partial(userinfo, answer.json()["access_token"]))
    assert (answer, sent) == (200, ["SELECT"])
    Application.objects.update(is_trusted=False)
    application.row.refresh_from_db()
    consents.remember(alice, application.row)
    answer, sent = statements(authorize)
    assert "code=" in answer["Location"]
    assert sent == ["SELECT", "SELECT", "SELECT", "INSERT"], "a remembered consent costs one more"


def test_a_bad_token_costs_two_and_none_costs_nothing_but_the_record(client, monkeypatch):
    for recorded in (["INSERT"], []):
        assert statements(partial(userinfo, new_credential()))[1] == ["SELECT", "SELECT", *recorded]
        assert statements(partial(client.get, "/oauth/userinfo"))[1] == recorded
        monkeypatch.setattr(counts, "has_room", lambda *_: False)


@pytest.mark.parametrize("model", INDEXES)
def test_a_code_or_token_is_found_by_its_digest_whatever_the_planner_knows(db, model):
    """Another index on a column of the hot conditions is as good in its eyes until the table has been analyzed."""
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, model._meta.db_table).values()
    columns = {tuple(each["columns"]) for each in found if each["index"] or each["unique"] or each["primary_key"]}
    assert columns == INDEXES[model]


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
