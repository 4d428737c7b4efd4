"""`manage.py application create` and `set`. Contract, operator's interface."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError
from django.test import Client

from accounts.models import AuditEntry
from oauth_bridge.models import Application
from tests.factories import ApplicationFactory
from tests.grants import Log
from tests.unit.test_bridge_operator import URI, described, run

pytestmark = pytest.mark.django_db

VALUES = {
    "--name": ("name", "Reading"),
    "--operator": ("operator", "Ministry “of” Books"),
    "--homepage": ("homepage", "https://reading.example/"),
    "--policy-uri": ("policy_uri", "https://reading.example/privacy"),
    "--tos-uri": ("tos_uri", "https://reading.example/terms"),
    "--initiate-login-uri": ("initiate_login_uri", "https://reading.example/sign-in"),
}


@pytest.fixture
def row() -> Application:
    row: Application = ApplicationFactory(name="Photo Printer").row
    return row


# create ---------------------------------------------------------------------------------------------------------------


def test_a_public_application_has_no_secret() -> None:
    made = described("create", "Kiosk", "--redirect-uri", URI, "--public")
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
    (["A", "--redirect-uri", URI, "--homepage", "ftp://app.example"], "--homepage"),
    (["A", "--redirect-uri", URI, "--homepage", "https://app.example/\x00"], "--homepage"),
    (["A", "--redirect-uri", ""], "--redirect-uri"),
    (["A", "--redirect-uri", "http://app.example/"], "--redirect-uri"),
    (["A", "--redirect-uri", URI, "--group", "x" * 151], "--group"),
    (["A", "--redirect-uri", "https://app.example/\x1b[2J\u202e"], "--redirect-uri"),
]


def test_create_names_the_option_that_is_wrong_and_shows_no_character_that_steers_a_terminal() -> None:
    for arguments, option in WRONG_AT_CREATE:
        with pytest.raises(CommandError, match=rf"^{option}: ") as refused:
            run("create", *arguments)
        assert str(refused.value).isprintable(), arguments
    assert "\\u001b" in str(refused.value)
    assert not Application.objects.exists()


# set ------------------------------------------------------------------------------------------------------------------


def test_each_field_is_set_or_emptied_and_the_rest_stays(row: Application, admin_client: Client) -> None:
    for option, (field, value) in VALUES.items():
        before = described("show", row.client_id)
        assert described("set", row.client_id, option, value)[field] == value
        after = described("show", row.client_id)
        assert {name for name in after if after[name] != before[name]} == {field}
    form = {name: after[name] for name, _ in VALUES.values()} | {"redirect_uris": "\n".join(after["redirect_uris"])}
    path = f"/admin/oauth_bridge/application/{row.pk}/change/"
    assert admin_client.post(path, form | {"is_enabled": "on"}).status_code == 302
    assert described("show", row.client_id) == after, "the form accepts what set stored"
    for option, (field, _value) in VALUES.items():
        if option != "--name":
            assert described("set", row.client_id, option, "")[field] == ""
    assert described("set", row.client_id, "--tos-uri", "a.example/")["tos_uri"] == "https://a.example/", "as the form"
    uris = ["https://b.example/cb", "https://a.example/cb"]
    set_all = described("set", row.client_id, "--trusted", *(f"--redirect-uri={uri}" for uri in uris))
    assert (set_all["redirect_uris"], set_all["trusted"]) == (uris, True)
    assert described("set", row.client_id, "--name", "Other")["trusted"] is True
    assert described("set", row.client_id, "--no-trusted")["trusted"] is False
    for option, expected in (("--profile-in-id-token", True), ("--no-profile-in-id-token", False)):
        assert described("set", row.client_id, option)["profile_in_id_token"] is expected
        assert described("show", row.client_id)["profile_in_id_token"] is expected
        assert AuditEntry.objects.latest("id").changes["profile_in_id_token"][1] is expected
    assert admin_client.post(path, form | {"profile_in_id_token": "on"}).status_code == 302
    assert described("show", row.client_id)["profile_in_id_token"] is True


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
    before = described("show", row.client_id)
    for arguments, option in WRONG_AT_SET:
        with pytest.raises(CommandError, match=rf"^{option}: "):
            run("set", row.client_id, "--operator", "Somebody", *arguments)
    assert described("show", row.client_id) == before
    assert not Group.objects.exists()


def test_no_name_is_set_that_looks_like_a_trusted_one_and_another_is_warned_of(row: Application) -> None:
    ApplicationFactory(name="Holiday", is_trusted=True)
    other = ApplicationFactory(name="Photo Pr1nter").client_id
    for client_id, *change in ((other, "--name", "Ho1iday"), (row.client_id, "--trusted")):
        with pytest.raises(CommandError, match=r"^--name: People could take"):
            run("set", client_id, *change)
    assert "People could take “Photo Printer”" in run("set", other, "--name", "photo printer")[1]


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
    assert described("set", row.client_id, "--operator", "Somebody")["redirect_uris"] == ["http://old.example/cb"]


def test_one_change_is_one_entry_and_one_event_and_a_group_that_is_made_is_said(
    row: Application, event_log: Log
) -> None:
    change = ["set", row.client_id, "--name", "Reading", "--trusted", "--group", "readers"]
    assert "The group readers did not exist, so it is made." in run(*change)[1]
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
    assert described("show", row.client_id)["restricted"] is True
    assert described("set", row.client_id, "--name", "Other")["restricted"] is True
    assert described("set", row.client_id, "--group", "")["restricted"] is False
