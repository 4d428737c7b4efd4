"""`manage.py application`: what each action prints, and groups. Contract, operator's interface."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command

from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.random_values import digest_of
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("application", *arguments, stdout=out)
    return out.getvalue()


def described(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_only_the_command_that_makes_a_secret_prints_it() -> None:
    created = described("create", "Inner", "--redirect-uri", "https://inner.example/cb", "--trusted")
    assert set(created) == {"client_id", "client_secret", "name", "redirect_uris"}
    assert created["redirect_uris"] == ["https://inner.example/cb"]
    assert len(created["client_secret"]) >= 43
    assert bytes(ApplicationSecret.objects.get().digest) == digest_of(created["client_secret"])
    assert Application.objects.get().is_trusted
    for text in (run("list", "--json"), run("show", created["client_id"], "--json")):
        for hidden in (created["client_secret"], "client_secret", "digest"):
            assert hidden not in text


def test_disable_enable_and_delete_say_what_is_now_and_an_unknown_client_id_is_named() -> None:
    client_id = ApplicationFactory().client_id
    assert described("disable", client_id)["enabled"] is False
    assert described("enable", client_id)["enabled"] is True
    assert "deleted" in run("delete", client_id)
    assert not Application.objects.exists()
    for action in ("show", "rotate-secret", "disable", "enable", "delete"):
        with pytest.raises(CommandError, match=f"no application with the client_id {client_id}"):
            run(action, client_id)


@contract("O.application.set")
def test_set_replaces_the_groups_and_makes_those_that_do_not_exist() -> None:
    made = described("create", "Inner", "--redirect-uri", "https://inner.example/cb", "--group", "readers")
    client_id = made["client_id"]
    [listed] = described("list")
    assert (listed["restricted"], listed["groups"]) == (True, ["readers"])
    assert "readers" in run("show", client_id)
    assert described("set", client_id, "--group", "readers", "--group", "new ones")["groups"] == ["new ones", "readers"]
    assert not Group.objects.get(name="new ones").permissions.exists()
    assert described("set", client_id, "--group", "readers")["groups"] == ["readers"]
    assert described("show", client_id)["restricted"] is True
    assert described("set", client_id, "--group", "")["groups"] == []
    assert described("show", client_id)["restricted"] is False
    assert Group.objects.count() == 2


def test_a_command_that_fails_makes_no_group_and_names_the_field() -> None:
    client_id = ApplicationFactory().client_id
    for arguments, refusal in (
        (["set", client_id, "--group", "readers", "--group", "a\x00b"], "^--group: "),
        (["set", client_id], "Nothing to change"),
        (["create", "Inner", "--redirect-uri", "http://a.example/", "--group", "readers"], "^--redirect-uri: "),
    ):
        with pytest.raises(CommandError, match=refusal):
            run(*arguments)
    assert not Application.objects.get().is_restricted
    assert not Group.objects.exists()
