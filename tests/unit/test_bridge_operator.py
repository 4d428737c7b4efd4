"""`manage.py application`, and `after-restore`."""

from __future__ import annotations

import io
import json
import re
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command

from accounts.models import AuditEntry, User
from oauth_bridge.applications import registry
from oauth_bridge.applications.fields import FIELDS, SECTIONS
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.models import Application, ApplicationSecret
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, Registered, TokenFactory
from tests.grants import Log, read, redeem
from tests.pages import browser_of

pytestmark = pytest.mark.django_db

URI = "https://app.example/callback"
NEW = "0123456789abcdef0123456789abcdef"
OTHER = "f" * 32
GOOD = {"client_id": NEW, "name": "New", "redirect_uris": [URI]}


def run(*arguments: str) -> tuple[str, str]:
    out, errors = io.StringIO(), io.StringIO()
    call_command("application", *arguments, stdout=out, stderr=errors)
    return out.getvalue(), errors.getvalue()


def described(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json")[0])


def apply(content: Any, *options: str) -> tuple[str, str]:
    with NamedTemporaryFile() as file:
        file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
        file.flush()
        return run("apply", file.name, *options)


def refused(content: Any) -> str:
    before = list(Application.objects.order_by("pk").values())
    with pytest.raises(CommandError) as error:
        apply(content)
    assert list(Application.objects.order_by("pk").values()) == before
    assert not Group.objects.filter(name="made").exists()
    assert str(error.value).replace("\n", "").isprintable()
    return str(error.value)


@pytest.fixture
def registered() -> Registered:
    made: Registered = ApplicationFactory(name="Photo “Printer” \\ עברית", operator="A & B", is_trusted=True)
    registry.set_groups(made.row, [Group.objects.create(name="readers"), Group.objects.create(name="editors")])
    return made


@contract("O.application.create", "O.application.trusted", "O.application.list", "O.application.show")
@contract("D15.digests", "D15.entropy")
def test_only_the_command_that_makes_a_secret_prints_it() -> None:
    uris = [URI, "http://127.0.0.1:9000/b"]
    created = described("create", "Printer ☃", *(f"--redirect-uri={uri}" for uri in uris), "--trusted")
    assert set(created) == {"client_id", "client_secret", "name", "redirect_uris"}
    assert (created["name"], created["redirect_uris"]) == ("Printer ☃", uris)
    assert re.fullmatch(r"[A-Za-z0-9_-]{43,}", created["client_secret"])
    assert bytes(ApplicationSecret.objects.get().digest) == digest_of(created["client_secret"])
    assert Application.objects.get().is_trusted
    public = described("create", "Kiosk", "--redirect-uri", URI, "--public")
    assert (public["client_secret"], ApplicationSecret.objects.count()) == (None, 1)
    client_id = created["client_id"]
    for arguments in (["list", "--json"], ["show", client_id, "--json"], ["list"], ["show", client_id]):
        text = run(*arguments)[0]
        hidden = created["client_secret"], "client_secret", "digest"
        assert (client_id in text, [each for each in hidden if each in text]) == (True, [])


@contract("O.application.disable", "O.application.delete")
def test_disable_enable_and_delete_say_what_is_now_and_an_unknown_client_id_is_named() -> None:
    token = TokenFactory()
    client_id = token.row.application.client_id
    for action in ("disable", "enable", "delete"):
        assert described(action, client_id)["enabled"] is (action != "disable")
        assert read(token.raw).status_code == 401
    assert not ApplicationSecret.objects.exists()
    for action in ("show", "rotate-secret", "disable", "enable", "delete"):
        with pytest.raises(CommandError, match=f"no application with the client_id {client_id}"):
            run(action, client_id)


@contract("O.after-restore")
def test_after_a_restore_all_credentials_end_and_what_else_is_back_is_listed(alice: User) -> None:
    kept, replaced, off = ApplicationFactory(), ApplicationFactory(), ApplicationFactory(is_enabled=False)
    secret_rotation.rotate(replaced.row)
    secret_rotation.rotate(off.row, secret_rotation.REVOKE_NOW)
    token, code = (made(application=kept, user=alice) for made in (TokenFactory, CodeFactory))
    PersonFactory(is_superuser=True, is_active=False)
    root, browser = PersonFactory(is_superuser=True), browser_of(alice)
    ConsentFactory(user=root, application=kept.row, fingerprint="x")
    out = io.StringIO()
    call_command("after-restore", "--json", stdout=out)
    found = json.loads(out.getvalue())
    assert found["ended"].items() >= {"sessions": 1, "codes": 1, "access_tokens": 1}.items()
    answers = browser.get("/accounts/profile"), read(token.raw), redeem(kept, code)
    assert [answer.status_code for answer in answers] == [302, 401, 400]
    secrets = {each["client_id"]: (each["working_secrets"], each["enabled"]) for each in found["applications"]}
    assert secrets == {kept.client_id: (1, True), replaced.client_id: (2, True), off.client_id: (1, False)}
    assert (found["administrators"], found["remembered_consents"]) == ([root.email], 1)
    assert found["people"] == {"active": 2, "deactivated": 1}
    assert found["newest"]["access_token"] == token.row.issued_at.isoformat()
    assert found["newest_of_all"] == max(filter(None, found["newest"].values()))
    call_command("after-restore", stdout=out)
    for text in (f"{replaced.client_id}  {replaced.row.name}: 2 working", root.email, *found["to_do"].values()):
        assert text in out.getvalue()


def test_each_field_is_set_or_emptied_and_the_rest_stays() -> None:
    row = ApplicationFactory(name="Photo Printer").row
    before = described("show", row.client_id)
    texts = {"name": "Reading", "operator": "Ministry “of” Books", "homepage": "https://reading.example/"}
    texts |= {name: f"https://reading.example/{name}" for name in ("policy_uri", "tos_uri", "initiate_login_uri")}
    for name, value in texts.items():
        assert described("set", row.client_id, f"--{name.replace('_', '-')}", value)[name] == value
    assert described("show", row.client_id) == before | texts
    for option, value, stored in (("--operator", "", ""), ("--tos-uri", "a.example/", "https://a.example/")):
        assert described("set", row.client_id, option, value)[option[2:].replace("-", "_")] == stored
    uris = ["https://b.example/cb", "https://a.example/cb"]
    assert described("set", row.client_id, *(f"--redirect-uri={uri}" for uri in uris))["redirect_uris"] == uris
    for name, expected in (("trusted", True), ("no-trusted", False), ("profile-in-id-token", True)):
        described("set", row.client_id, f"--{name}")
        assert next(iter(AuditEntry.objects.latest("id").changes.values()))[1] is expected


@contract("O.application.set")
def test_set_replaces_the_groups_and_makes_those_that_do_not_exist() -> None:
    client_id = described("create", "Inner", "--redirect-uri", URI, "--group", "readers")["client_id"]
    [listed] = described("list")
    assert (listed["restricted"], listed["groups"]) == (True, ["readers"])
    assert "readers" in run("show", client_id)[0]
    assert described("set", client_id, "--group", "readers", "--group", "new ones")["groups"] == ["new ones", "readers"]
    assert not Group.objects.get(name="new ones").permissions.exists()
    assert described("set", client_id, "--group", "")["groups"] == []
    assert described("show", client_id)["restricted"] is False
    run("set", client_id, "--group", "readers")
    Group.objects.all().delete()
    assert described("set", client_id, "--name", "Other")["restricted"] is True, "nobody, not everybody"
    assert described("set", client_id, "--group", "")["restricted"] is False


def test_what_is_wrong_names_the_option_and_changes_nothing() -> None:
    row = ApplicationFactory().row
    before = described("list")
    for arguments, option in (
        (["create", "a\nb", "--redirect-uri", URI], "NAME: "),
        (["create", "A", "--redirect-uri", ""], "--redirect-uri: "),
        (["create", "A", "--redirect-uri", "https://app.example/\x1b[2J\u202e"], "--redirect-uri: .*u001b"),
        (["create", "A", "--redirect-uri", URI, "--group", "x" * 151], "--group: "),
        (["set", row.client_id], "Nothing to change"),
        (["set", row.client_id, "--operator", "Somebody", "--name", ""], "--name: "),
        (["set", row.client_id, "--group", "a", "--group", ""], "--group: "),
    ):
        with pytest.raises(CommandError, match=f"^{option}") as error:
            run(*arguments)
        assert str(error.value).isprintable(), arguments
    assert described("list") == before
    assert not Group.objects.exists()


def test_export_has_each_field_and_nothing_else(registered: Registered) -> None:
    (found,) = described("export")
    assert list(found) == ["client_id", *(field.name for field in FIELDS)]
    on_page = {name for _title, options in SECTIONS for name in options["fields"]}
    assert {field.column for field in FIELDS} - on_page == {"is_trusted", "is_enabled"}, "which acts change"
    assert found["groups"] == ["editors", "readers"]
    assert (found["trusted"], found["restricted"], found["enabled"]) == (True, True, True)
    assert json.loads(run("export")[0]) == [found]
    assert "secret" not in str(found)


def test_apply_stores_what_differs_and_prints_it_as_a_dry_run_does(registered: Registered, event_log: Log) -> None:
    changed = {"name": "Reading", "redirect_uris": [URI], "trusted": False, "groups": ["made", "readers"]}
    before = described("export")
    content = [before[0] | changed, GOOD]
    out, errors = apply(content, "--dry-run")
    assert errors.endswith("Nothing was stored: this was a dry run.\n")
    assert described("export") == before
    assert not event_log.lines
    assert not [each for each in (AuditEntry.objects, Group.objects.filter(name="made")) if each.exists()]
    real, told = apply(content)
    assert real == out
    assert told == "The group made did not exist, so it is made. Nobody is in it yet.\n"
    for line in ('-> "Reading"', f'  redirect_uris: + "{URI}"', '  groups: - "editors"', '  groups: + "made"'):
        assert line in out
    assert "  trusted: true -> false" in out
    assert before[0] | changed in described("export")
    assert apply(content) == ("no changes\n", "")
    new = Application.objects.get(client_id=NEW)
    assert (new.is_enabled, new.is_restricted, new.is_public, new.secrets.exists()) == (True, False, False, False)
    assert f"`application rotate-secret {NEW}`" in out
    for action in ("application_registered", "application_changed"):
        assert (len(event_log.of(action)), AuditEntry.objects.filter(action=action).count()) == (1, 1)


def test_an_application_is_restricted_by_its_groups_unless_the_file_says_otherwise() -> None:
    for more, is_restricted in (({"groups": ["made"]}, True), ({}, False), ({"restricted": True}, True)):
        apply([GOOD | {"groups": []} | more])
        assert described("export")[0]["restricted"] is is_restricted


def test_a_whole_installation_is_copied_and_what_is_the_same_is_no_change(registered: Registered) -> None:
    public = ApplicationFactory(client_type="public", is_enabled=False, homepage="", operator="Ministry")
    closed = ApplicationFactory().row
    Application.objects.filter(pk=closed.pk).update(is_restricted=True)
    content = described("export")
    Application.objects.all().delete()
    Group.objects.all().delete()
    out, _ = apply(content)
    assert out.count("new ") == 3
    assert f"rotate-secret {public.client_id}" not in out
    assert described("export") == content
    for entry in content:
        entry |= {name: entry[name][::-1] for name in ("groups", "redirect_uris")} | {"name": f" {entry['name']} "}
    same = b"\xef\xbb\xbf" + json.dumps(content).encode()
    assert apply(same) == ("no changes\n", ""), "another order, spaces, and a byte order mark"
    old = {"name": "Tab\tand\x1b[2J", "redirect_uris": "http://old.example/cb\nhttps://*.example/"}
    Application.objects.filter(client_id=closed.client_id).update(**old)
    assert apply(run("export")[0].encode())[0] == "no changes\n", "what is refused today stays"
    apply([{"client_id": registered.client_id, "enabled": False}])
    row = Application.objects.get(client_id=registered.client_id)
    assert (row.is_enabled, row.credentials_version) == (False, 1), "its codes and tokens have ended"


WRONG: list[tuple[Any, str]] = [
    (None, "No. 2: client_id: it is missing"),
    ({"client_id": NEW.upper()}, "No. 2: client_id: it is missing, or not 32 digits and letters from a to f."),
    ({"client_id": NEW}, f"No. 2 ({NEW}): client_id: it is there more than once."),
    ({"name": ...}, f"No. 2 ({OTHER}): name: This field is required."),
    ({"name": 7}, "name: it must be a text."),
    *(({name: "a\ud800"}, f"{name}: ") for name in ("name", "homepage", "client_type")),
    ({"groups": ["\ud800"]}, "groups: "),
    ({"redirect_uris": []}, "redirect_uris: "),
    ({"redirect_uris": [7]}, "redirect_uris: it must be a list of texts."),
    ({"enabled": "yes"}, "enabled: it must be true or false."),
    ({"groups": ["made"], "restricted": False}, "restricted: it is false, but there are groups."),
    ({"\ud800\x1b": 1}, "\\ud800\\u001b: there is no such field."),
    ({"client_secret": "hunter2"}, "there is no such field. `application export` prints the fields that exist."),
]


def test_everything_that_is_wrong_names_application_and_field() -> None:
    for entry, sentence in WRONG:
        if entry:
            entry = {"client_id": OTHER, "name": "Other", "redirect_uris": [URI]} | entry
            entry = {name: value for name, value in entry.items() if value is not ...}
        nothing, said = refused([GOOD, entry]).splitlines()
        assert (nothing, sentence in said, "hunter2" in said) == ("Nothing was changed.", True, False), entry
    row = ApplicationFactory().row
    said = refused([{"client_id": row.client_id, "client_type": "public"}, GOOD | {"name": ""}])
    assert "client_type: it is fixed" in said
    assert "name: This field is required." in said


def test_no_name_looks_like_a_trusted_one_in_the_file_or_outside() -> None:
    rows = [ApplicationFactory(name=name, is_trusted=True).row for name in ("Photo Printer", "Reading")]
    assert f"No. 1 ({NEW}): name: People could take “Photo" in refused([GOOD | {"name": "Ph0to PrInter"}])
    both = [GOOD | {"name": "Holiday"}, GOOD | {"client_id": OTHER, "name": "holiday", "trusted": True}]
    assert refused(both).count("name: People could take") == 2
    names = ("Reading", "Photo Printer")
    apply([{"client_id": row.client_id, "name": name} for row, name in zip(rows, names, strict=True)])
    assert tuple(Application.objects.get(pk=row.pk).name for row in rows) == names, "they swap"
    Application.objects.update(is_trusted=False)
    assert "People could take “Reading”" in apply([GOOD | {"name": "reading"}])[1], "a warning"


def test_a_file_without_a_list_is_a_sentence_and_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"", b"{}", b"[{]", b"\xff[]"):
        assert re.fullmatch("FILE: .*", refused(content))
    for path in ("/nowhere/applications.json", "/"):
        with pytest.raises(CommandError, match=r"^FILE: "):
            run("apply", path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps([GOOD]).encode())))
    run("apply", "-")
    assert Application.objects.get().client_id == NEW
