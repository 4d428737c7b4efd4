"""`manage.py application export` and `apply`. Contract, operator's interface."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import AuditEntry
from oauth_bridge.management import configuration_file
from oauth_bridge.management.registration_fields import FIELDS
from oauth_bridge.models import Application
from oauth_bridge.storage import applications
from tests.configuration_files import NEW, URI, Apply, run
from tests.events import Log
from tests.factories import ApplicationFactory, Registered

pytestmark = pytest.mark.django_db


def exported() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("export", "--json")[0])
    return found


@pytest.fixture
def apply(tmp_path: Path) -> Apply:
    return Apply(tmp_path)


@pytest.fixture
def registered() -> Registered:
    made: Registered = ApplicationFactory(name="Photo “Printer” \\ עברית", operator="A & B", is_trusted=True)
    applications.set_groups(made.row, [Group.objects.create(name="readers"), Group.objects.create(name="editors")])
    return made


# export ---------------------------------------------------------------------------------------------------------------


def test_export_has_each_field_and_nothing_else(registered: Registered) -> None:
    (found,) = exported()
    assert list(found) == ["client_id", *(field.name for field in FIELDS)]
    assert found["groups"] == ["editors", "readers"]
    assert (found["trusted"], found["restricted"], found["enabled"]) == (True, True, True)
    text = run("export")[0]
    assert json.loads(text) == [found]
    assert registered.secret not in text
    assert "secret" not in text


def test_export_of_nothing_is_an_empty_list(apply: Apply) -> None:
    assert exported() == []
    assert apply([])[0] == "no changes\n"


def test_export_of_many_costs_a_few_statements() -> None:
    Application.objects.bulk_create(
        Application(name=f"A{number}", redirect_uris=URI) for number in range(configuration_file._BATCH + 1)
    )
    with CaptureQueriesContext(connection) as statements:
        assert len(exported()) == configuration_file._BATCH + 1
    assert len(statements) <= 4


def test_a_twin_of_a_test_is_not_exported(apply: Apply) -> None:
    Application.twins.create(client_id=Application.TWIN + "x", name="Twin", redirect_uris=URI)
    assert exported() == []
    entry = {"client_id": Application.TWIN + "x", "name": "Mallory", "redirect_uris": [URI]}
    assert "client_id: no application has it" in apply.refused([entry])


# What export printed is no change -------------------------------------------------------------------------------------


def test_what_export_printed_is_no_change(apply: Apply, registered: Registered) -> None:
    ApplicationFactory(client_type="public", is_enabled=False)
    text = run("export")[0]
    assert apply(text.encode()) == ("no changes\n", "")
    assert apply.json(json.loads(text)) == []
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    "stored",
    [
        {"name": " Spaces around "},
        {"name": "Tab\tand\x1b[2J"},
        {"name": "left\u202eright"},
        {"name": "Quote \" and \\ and '", "operator": "Ünï ☃ 😀"},
        {"redirect_uris": "http://old.example/cb\nhttps://*.example/"},
        {"homepage": "javascript:alert(1)"},
        {"redirect_uris": ""},
        {"is_restricted": True},
        {"client_id": "an older form of client_id"},
    ],
)
def test_a_value_that_is_refused_today_is_no_change(apply: Apply, stored: dict[str, Any]) -> None:
    row = ApplicationFactory().row
    Application.objects.filter(pk=row.pk).update(**stored)
    assert apply(run("export")[0].encode())[0] == "no changes\n"
    entry = exported()[0] | {"operator": "Somebody"}
    assert [each["after"] for each in apply.json([entry])] == [{"operator": "Somebody"}]


def test_another_order_is_no_change(apply: Apply, registered: Registered) -> None:
    applications.change(registered.row, {"redirect_uris": "https://a.example/\nhttps://b.example/"})
    (entry,) = exported()
    for name in ("groups", "redirect_uris"):
        entry[name] = entry[name][::-1]
    assert apply([entry])[0] == "no changes\n"


# Changing -------------------------------------------------------------------------------------------------------------


def test_apply_stores_what_differs_and_prints_it(apply: Apply, registered: Registered, event_log: Log) -> None:
    changed = {"name": "Reading", "redirect_uris": [URI], "trusted": False, "groups": ["readers", "writers"]}
    (entry,) = exported()
    out, errors = apply([entry | changed])
    assert exported() == [entry | changed]
    assert "  name: " in out
    assert '-> "Reading"' in out
    assert f'  redirect_uris: + "{URI}"' in out
    assert '  groups: - "editors"' in out
    assert '  groups: + "writers"' in out
    assert "  trusted: true -> false" in out
    assert "0 new, 1 changed." in out
    assert errors == "The group writers did not exist and was made. Nobody is in it yet.\n"
    assert apply([entry | changed]) == ("no changes\n", "")
    assert AuditEntry.objects.filter(action="application_changed").count() == 1
    assert len(event_log.of("application_changed")) == 1


def test_only_the_members_that_are_there_count(apply: Apply, registered: Registered) -> None:
    before = exported()[0]
    assert apply([{"client_id": registered.client_id}])[0] == "no changes\n"
    apply([{"client_id": registered.client_id, "operator": "Somebody"}])
    assert exported()[0] == before | {"operator": "Somebody"}


def test_applications_that_are_not_in_the_file_are_left_alone(apply: Apply, registered: Registered) -> None:
    other = ApplicationFactory().row
    (before,) = [each for each in exported() if each["client_id"] == other.client_id]
    apply([{"client_id": registered.client_id, "operator": "Somebody"}])
    assert before in exported()


def test_a_dry_run_prints_the_same_and_stores_nothing(apply: Apply, registered: Registered, event_log: Log) -> None:
    before = exported()
    content = [
        before[0] | {"name": "Reading", "enabled": False, "groups": ["made"]},
        {"client_id": NEW, "name": "New", "redirect_uris": [URI]},
    ]
    dry, _ = apply(content, "--dry-run")
    assert "Nothing was stored: this was a dry run." in dry
    assert exported() == before
    assert not AuditEntry.objects.exists()
    assert not event_log.lines
    assert not Group.objects.filter(name="made").exists()
    real, _ = apply(content)
    assert dry.replace(" Nothing was stored: this was a dry run.", "") == real


def test_switching_off_ends_codes_and_tokens(apply: Apply, registered: Registered, event_log: Log) -> None:
    apply([{"client_id": registered.client_id, "enabled": False}])
    row = Application.objects.get()
    assert (row.is_enabled, row.credentials_version) == (False, 1)
    assert [line["event"] for line in event_log.lines] == ["application_switched_off", "administered"]
    assert AuditEntry.objects.get().action == "application_switched_off"
    assert apply([{"client_id": registered.client_id, "enabled": False}])[0] == "no changes\n"


def test_groups_are_left_by_an_empty_list_and_kept_closed_by_restricted(apply: Apply, registered: Registered) -> None:
    apply([{"client_id": registered.client_id, "groups": []}])
    assert (exported()[0]["restricted"], exported()[0]["groups"]) == (False, [])
    apply([{"client_id": registered.client_id, "groups": [], "restricted": True}])
    assert (exported()[0]["restricted"], exported()[0]["groups"]) == (True, [])


def test_a_group_that_was_renamed_since_is_made_and_said(apply: Apply, registered: Registered) -> None:
    content = exported()
    Group.objects.filter(name="readers").update(name="library")
    out, errors = apply(content)
    assert '  groups: - "library"' in out
    assert errors == "The group readers did not exist and was made. Nobody is in it yet.\n"
    assert exported() == content


def test_two_applications_swap_their_names(apply: Apply) -> None:
    rows = [ApplicationFactory(name=name, is_trusted=True).row for name in ("Photo", "Reading")]
    apply([{"client_id": rows[0].client_id, "name": "Reading"}, {"client_id": rows[1].client_id, "name": "Photo"}])
    assert [Application.objects.get(pk=row.pk).name for row in rows] == ["Reading", "Photo"]


# Registering ----------------------------------------------------------------------------------------------------------


def test_a_new_application_keeps_its_client_id_and_has_no_secret(apply: Apply, event_log: Log) -> None:
    out, _ = apply([{"client_id": NEW, "name": "New", "redirect_uris": [URI], "groups": ["made"]}])
    row = Application.objects.get(client_id=NEW)
    assert (row.is_enabled, row.is_restricted, row.is_public) == (True, True, False)
    assert not row.secrets.exists()
    assert f"`application rotate-secret {NEW}`" in out
    assert event_log.of("application_registered")[0]["client_id"] == NEW
    assert AuditEntry.objects.get(action="application_registered").changes["name"] == [None, "New"]
    assert apply(exported())[0] == "no changes\n"
    assert json.loads(run("rotate-secret", NEW, "--json")[0])["client_secret"]


def test_a_whole_installation_is_copied(apply: Apply, registered: Registered) -> None:
    ApplicationFactory(client_type="public", is_enabled=False, homepage="", operator="Ministry")
    closed = ApplicationFactory().row
    Application.objects.filter(pk=closed.pk).update(is_restricted=True)
    content = exported()
    Application.objects.all().delete()
    Group.objects.all().delete()
    out, _ = apply(content)
    assert "3 new, 0 changed." in out
    assert exported() == content


def test_a_new_public_application_needs_no_secret(apply: Apply) -> None:
    out, _ = apply([{"client_id": NEW, "name": "New", "redirect_uris": [URI], "client_type": "public"}])
    assert Application.objects.get().is_public
    assert "rotate-secret" not in out


def test_apply_of_many_without_a_change_costs_a_few_statements(apply: Apply) -> None:
    Application.objects.bulk_create(
        Application(client_id=uuid.uuid4().hex, name="Same name", redirect_uris=URI)
        for _ in range(configuration_file._BATCH + 1)
    )
    content = exported()
    with CaptureQueriesContext(connection) as statements:
        assert apply(content)[0] == "no changes\n"
    assert len(statements) <= 10
