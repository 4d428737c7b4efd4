"""`manage.py application create` and `set`. Contract, operator's interface."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AuditEntry
from oauth_bridge.models import Application
from tests.factories import ApplicationFactory
from tests.grants import Log

pytestmark = pytest.mark.django_db

URI = "https://app.example/callback"
VALUES = {
    "--name": ("name", "Reading"),
    "--operator": ("operator", "Ministry “of” Books"),
    "--homepage": ("homepage", "https://reading.example/"),
    "--policy-uri": ("policy_uri", "https://reading.example/privacy"),
    "--tos-uri": ("tos_uri", "https://reading.example/terms"),
    "--initiate-login-uri": ("initiate_login_uri", "https://reading.example/sign-in"),
}


def run(*arguments: str) -> tuple[str, str]:
    """Standard output and standard error."""
    out, errors = io.StringIO(), io.StringIO()
    call_command("application", *arguments, stdout=out, stderr=errors)
    return out.getvalue(), errors.getvalue()


def answered(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json")[0])
    return found


@pytest.fixture
def row() -> Application:
    row: Application = ApplicationFactory(name="Photo Printer").row
    return row


# create ---------------------------------------------------------------------------------------------------------------


def test_a_public_application_has_no_secret() -> None:
    made = answered("create", "Kiosk", "--redirect-uri", URI, "--public")
    assert set(made) == {"client_id", "client_secret", "name", "redirect_uris"}
    assert made["client_secret"] is None
    row = Application.objects.get()
    assert row.is_public
    assert not row.secrets.exists()
    assert "client_secret:  none" in run("create", "Kiosk 2", "--redirect-uri", URI, "--public")[0]


# The arguments after `create`, and the option that is wrong.
WRONG_AT_CREATE = [
    (["a\nb", "--redirect-uri", URI], "NAME"),
    ([" ", "--redirect-uri", URI], "NAME"),
    (["A", "--redirect-uri", URI, "--homepage", "app.example"], "--homepage"),
    (["A", "--redirect-uri", URI, "--homepage", "https://app.example/\x00"], "--homepage"),
    (["A", "--redirect-uri", ""], "--redirect-uri"),
    (["A", "--redirect-uri", f"{URI}\n{URI}/b"], "--redirect-uri"),
    (["A", "--redirect-uri", "http://app.example/"], "--redirect-uri"),
    (["A", "--redirect-uri", URI, "--group", "x" * 151], "--group"),
]


def test_create_names_the_option_that_is_wrong() -> None:
    for arguments, option in WRONG_AT_CREATE:
        with pytest.raises(CommandError, match=rf"^{option}: "):
            run("create", *arguments)
    assert not Application.objects.exists()


def test_an_error_shows_no_character_that_steers_a_terminal() -> None:
    with pytest.raises(CommandError) as refused:
        run("create", "A", "--redirect-uri", "https://app.example/\x1b[2J\u202e")
    assert str(refused.value).isprintable()
    assert "\\u001b" in str(refused.value)


# set ------------------------------------------------------------------------------------------------------------------


def test_each_field_is_set_or_emptied_and_the_rest_stays(row: Application) -> None:
    for option, (field, value) in VALUES.items():
        before = answered("show", row.client_id)
        assert answered("set", row.client_id, option, value)[field] == value
        after = answered("show", row.client_id)
        assert {name for name in after if after[name] != before[name]} == {field}
    for option, (field, _value) in VALUES.items():
        if option != "--name":
            assert answered("set", row.client_id, option, "")[field] == ""


def test_the_addresses_that_are_given_replace_all(row: Application) -> None:
    uris = ["https://b.example/cb", "https://a.example/cb"]
    found = answered("set", row.client_id, *(f"--redirect-uri={uri}" for uri in uris))
    assert found["redirect_uris"] == uris


def test_trusted_is_set_and_taken_back(row: Application) -> None:
    assert answered("set", row.client_id, "--trusted")["trusted"] is True
    assert answered("set", row.client_id, "--name", "Other")["trusted"] is True
    assert answered("set", row.client_id, "--no-trusted")["trusted"] is False


WRONG_AT_SET = [
    (["--name", ""], "--name"),
    (["--name", "x" * 81], "--name"),
    (["--name", "a\u202eb"], "--name"),
    (["--operator", "a\nb"], "--operator"),
    (["--homepage", "https://u@app.example/"], "--homepage"),
    (["--policy-uri", "ftp://app.example/"], "--policy-uri"),
    (["--tos-uri", "https://app.example/\x7f"], "--tos-uri"),
    (["--initiate-login-uri", "http://app.example/"], "--initiate-login-uri"),
    (["--redirect-uri", ""], "--redirect-uri"),
    (["--redirect-uri", URI, "--redirect-uri", URI], "--redirect-uri"),
    (["--redirect-uri", "https://*.example/"], "--redirect-uri"),
    (["--group", "a", "--group", ""], "--group"),
]


def test_set_names_the_option_that_is_wrong_and_changes_nothing(row: Application) -> None:
    before = answered("show", row.client_id)
    for arguments, option in WRONG_AT_SET:
        with pytest.raises(CommandError, match=rf"^{option}: "):
            run("set", row.client_id, "--operator", "Somebody", *arguments)
    assert answered("show", row.client_id) == before
    assert not Group.objects.exists()


@pytest.mark.parametrize(
    ("own", "other", "is_trusted", "arguments"),
    [
        ("Holiday", "Photo Printer", True, ["--name", "Photo PrInter"]),
        ("Photo Printer", "Photo Pr1nter", False, ["--trusted"]),
    ],
)
def test_no_name_is_set_that_looks_like_a_trusted_one(
    own: str, other: str, is_trusted: bool, arguments: list[str]
) -> None:
    ApplicationFactory(name=other, is_trusted=is_trusted)
    with pytest.raises(CommandError, match=r"^--name: People could take"):
        run("set", ApplicationFactory(name=own).client_id, *arguments)


def test_a_name_that_looks_like_another_is_warned_of(row: Application) -> None:
    ApplicationFactory(name="Holiday")
    assert "People could take “Holiday”" in run("set", row.client_id, "--name", "holiday")[1]


def test_the_same_values_are_no_change(row: Application, event_log: Log) -> None:
    run("set", row.client_id, "--redirect-uri", "https://b.example/", "--redirect-uri", "https://a.example/")
    updated = Application.objects.get().updated
    entries, events = AuditEntry.objects.count(), len(event_log.lines)
    again = ["--name", f" {row.name} ", "--no-trusted", "--group", ""]
    run("set", row.client_id, *again, "--redirect-uri", "https://a.example/", "--redirect-uri", "https://b.example/")
    assert Application.objects.get().updated == updated
    assert AuditEntry.objects.count() == entries
    assert len(event_log.lines) == events


def test_a_value_that_could_not_be_registered_today_does_not_stop_another_change(row: Application) -> None:
    Application.objects.filter(pk=row.pk).update(redirect_uris="http://old.example/cb")
    assert answered("set", row.client_id, "--operator", "Somebody")["redirect_uris"] == ["http://old.example/cb"]


def test_one_change_is_one_entry_and_one_event_and_a_group_that_is_made_is_said(
    row: Application, event_log: Log
) -> None:
    change = ["set", row.client_id, "--name", "Reading", "--trusted", "--group", "readers"]
    assert "The group readers did not exist and was made." in run(*change)[1]
    assert run(*change)[1] == ""
    entry = AuditEntry.objects.get(action="application_changed")
    assert entry.changes == {
        "name": ["Photo Printer", "Reading"],
        "is_trusted": [False, True],
        "is_restricted": [False, True],
        "groups": [[], ["readers"]],
    }
    (line,) = event_log.of("application_changed")
    assert line["fields"] == "name is_trusted is_restricted groups"
    assert AuditEntry.objects.filter(action="group_created").count() == 1


def test_an_application_whose_groups_are_gone_is_opened_by_an_empty_one(row: Application) -> None:
    run("set", row.client_id, "--group", "readers")
    Group.objects.all().delete()
    assert answered("show", row.client_id)["restricted"] is True
    assert answered("set", row.client_id, "--name", "Other")["restricted"] is True
    assert answered("set", row.client_id, "--group", "")["restricted"] is False


def test_the_form_accepts_what_set_stored(row: Application, admin_client: Client) -> None:
    run("set", row.client_id, *(part for option, (_, value) in VALUES.items() for part in (option, value)))
    shown = answered("show", row.client_id)
    form = {name: shown[name] for name, _ in VALUES.values()}
    lines = "\n".join(shown["redirect_uris"])
    path = f"/admin/oauth_bridge/application/{row.pk}/change/"
    assert admin_client.post(path, form | {"redirect_uris": lines, "is_enabled": "on"}).status_code == 302
    assert answered("show", row.client_id) == shown


def test_the_form_refuses_control_characters_in_addresses_too(row: Application, admin_client: Client) -> None:
    form = {"name": row.name, "redirect_uris": URI, "is_enabled": "on"}
    for address in ("https://app.example/\x00", "https://app.example/\u202e", "https://a.example/\x01"):
        path = f"/admin/oauth_bridge/application/{row.pk}/change/"
        page = admin_client.post(path, form | {"homepage": address})
        assert "homepage" in page.context["adminform"].form.errors
