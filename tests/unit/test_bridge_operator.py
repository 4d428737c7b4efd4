"""`manage.py application`. Contract, operator's interface."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.random_values import digest_of

URI = "https://app.example/callback"


def run(*arguments):
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def created(db):
    return json.loads(run("application", "create", "Reading List", "--redirect-uri", URI, "--json"))


def test_create_prints_what_the_application_needs_and_stores_a_digest_only(created):
    assert set(created) == {"client_id", "client_secret", "name", "redirect_uris"}
    assert created["redirect_uris"] == [URI]
    secret = ApplicationSecret.objects.get(application__client_id=created["client_id"])
    assert bytes(secret.digest) == digest_of(created["client_secret"])
    assert len(created["client_secret"]) >= 43


def test_a_trusted_application_is_marked_as_such(db):
    created = json.loads(run("application", "create", "Ours", "--redirect-uri", URI, "--trusted", "--json"))
    assert Application.objects.get(client_id=created["client_id"]).is_trusted


def test_a_bad_address_makes_no_application_and_says_why(db):
    with pytest.raises(CommandError, match="https"):
        run("application", "create", "Bad", "--redirect-uri", "http://app.example/")
    assert not Application.objects.exists()


@pytest.mark.parametrize("action", ["show", "rotate-secret", "disable", "enable", "delete"])
def test_an_unknown_client_id_is_named_in_the_error(db, action):
    with pytest.raises(CommandError, match="no application with the client_id nobody"):
        run("application", action, "nobody")


def test_no_command_but_those_that_make_a_secret_prints_one(created):
    for action in ("list", "show"):
        arguments = [created["client_id"]] if action == "show" else []
        text = run("application", action, *arguments, "--json")
        assert created["client_secret"] not in text
        assert "client_secret" not in text
        assert "digest" not in text


def test_disable_and_enable_say_what_is_now(created):
    assert json.loads(run("application", "disable", created["client_id"], "--json"))["enabled"] is False
    assert json.loads(run("application", "enable", created["client_id"], "--json"))["enabled"] is True


def test_delete_says_so(created):
    assert "deleted" in run("application", "delete", created["client_id"])
    assert not Application.objects.exists()
