"""What `manage.py application apply` refuses: nothing is stored, and each sentence names application and field."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from oauth_bridge.management import configuration_file
from oauth_bridge.models import Application
from tests.configuration_files import NEW, OTHER, URI, Apply, run
from tests.factories import ApplicationFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def apply(tmp_path: Path) -> Apply:
    return Apply(tmp_path)


GOOD = {"client_id": NEW, "name": "New", "redirect_uris": [URI]}


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ([], "No. 2: it is not an object."),
        (None, "No. 2: it is not an object."),
        ({}, "No. 2: client_id: it is missing"),
        ({"client_id": None}, "No. 2: client_id: it is missing"),
        ({"client_id": 7}, "No. 2: client_id: it is missing"),
        ({"client_id": "a\x00b"}, "No. 2: client_id: it is missing"),
        ({"client_id": "\ud800"}, "No. 2: client_id: it is missing"),
        ({"client_id": "x" * 256}, "No. 2: client_id: it is missing"),
        ({"client_id": NEW.upper()}, f"No. 2 ({NEW.upper()}): client_id: no application has it"),
        ({"client_id": "'; DROP TABLE"}, "client_id: no application has it"),
        ({"name": ...}, f"No. 2 ({OTHER}): name: a new application needs it."),
        ({"redirect_uris": ...}, "redirect_uris: a new application needs it."),
        ({"name": ""}, "name: "),
        ({"name": "a\nb"}, "name: "),
        ({"name": "a\x00b"}, "name: "),
        ({"name": "\ud800"}, "name: it must be a text."),
        ({"name": "a\u202eb"}, "name: "),
        ({"name": "x" * 81}, "name: "),
        ({"name": 7}, "name: it must be a text."),
        ({"name": None}, "name: it must be a text."),
        ({"operator": "\x1b[2J"}, "operator: "),
        ({"homepage": "https://a.example/\x00"}, "homepage: "),
        ({"policy_uri": "nonsense"}, "policy_uri: "),
        ({"tos_uri": "https://u@a.example/"}, "tos_uri: "),
        ({"initiate_login_uri": "http://a.example/"}, "initiate_login_uri: "),
        ({"redirect_uris": []}, "redirect_uris: "),
        ({"redirect_uris": [""]}, "redirect_uris: "),
        ({"redirect_uris": [URI, URI]}, "redirect_uris: "),
        ({"redirect_uris": [f"{URI}\n{URI}/b"]}, "redirect_uris: "),
        ({"redirect_uris": ["http://a.example/"]}, "redirect_uris: "),
        ({"redirect_uris": URI}, "redirect_uris: it must be a list of texts."),
        ({"redirect_uris": [7]}, "redirect_uris: it must be a list of texts."),
        ({"trusted": 1}, "trusted: it must be true or false."),
        ({"enabled": "yes"}, "enabled: it must be true or false."),
        ({"groups": "readers"}, "groups: it must be a list of texts."),
        ({"groups": ["a\x00b"]}, "groups: "),
        ({"groups": ["x" * 151]}, "groups: "),
        ({"groups": ["made", ""]}, "groups: "),
        ({"groups": ["made"], "restricted": False}, "restricted: it is false, but there are groups."),
        ({"client_type": "secret"}, "client_type: "),
        ({"colour": "red"}, "colour: there is no such field."),
        ({"logo": "x.png"}, "logo: there is no such field."),
        ({"\ud800\x1b": 1}, "\\ud800\\u001b: there is no such field."),
        ({"client_secret": "hunter2"}, "client_secret: a secret is never part of a file."),
    ],
)
def test_what_is_wrong_names_application_and_field_and_nothing_is_stored(
    apply: Apply, entry: Any, sentence: str
) -> None:
    ApplicationFactory()
    if isinstance(entry, dict) and entry:
        entry = {"client_id": OTHER, "name": "Other", "redirect_uris": [URI]} | entry
        entry = {name: value for name, value in entry.items() if value is not ...}
    said = apply.refused([GOOD, entry])
    assert sentence in said
    assert said.isprintable()
    assert "hunter2" not in said


def test_all_problems_are_named_and_counted(apply: Apply) -> None:
    entries = [GOOD | {"client_id": f"{number:032x}", "colour": 1, "name": ""} for number in range(30)]
    lines = apply.refused(entries).splitlines()
    assert lines[0] == "Nothing was changed."
    assert len(lines) == configuration_file.MOST_PROBLEMS + 2
    assert lines[-1] == "… and 10 more."


def test_a_client_id_that_stands_twice_is_refused(apply: Apply) -> None:
    assert f"No. 3 ({NEW}): client_id: it is there more than once." in apply.refused(
        [GOOD, GOOD | {"client_id": OTHER}, GOOD]
    )


def test_the_kind_is_fixed_at_registration(apply: Apply) -> None:
    row = ApplicationFactory().row
    assert "client_type: it is fixed" in apply.refused([{"client_id": row.client_id, "client_type": "public"}])


@pytest.mark.parametrize("is_trusted", [False, True])
def test_no_name_looks_like_a_trusted_one_in_the_file_or_outside(apply: Apply, is_trusted: bool) -> None:
    ApplicationFactory(name="Photo Printer", is_trusted=not is_trusted)
    said = apply.refused([GOOD | {"name": "Ph0to PrInter", "trusted": is_trusted}])
    assert f"No. 1 ({NEW}): name: People could take “Photo Printer” for this one" in said
    both = [GOOD | {"name": "Holiday"}, GOOD | {"client_id": OTHER, "name": "holiday", "trusted": True}]
    assert apply.refused(both).count("name: People could take") == 2


def test_a_name_that_looks_like_another_is_warned_of(apply: Apply) -> None:
    ApplicationFactory(name="Holiday")
    assert "people could take “Holiday”" in apply([GOOD | {"name": "holiday"}])[1]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'"text"',
        b"7",
        b"null",
        b"[{]",
        b"[" * 100_000,
        b"[" + b"9" * 5_000 + b"]",
        b'[{"client_id": "a", "client_id": "b"}]',
        b"\xff\xfe[]",
        b"\x00",
        b"PK\x03\x04",
    ],
)
def test_a_file_that_is_no_list_of_applications_is_a_sentence(apply: Apply, content: bytes) -> None:
    said = apply.refused(content)
    assert said.startswith("FILE: ")
    assert said.isprintable()


def test_a_byte_order_mark_is_ignored(apply: Apply) -> None:
    assert apply(b"\xef\xbb\xbf[]")[0] == "no changes\n"


@pytest.mark.parametrize("path", ["/nowhere/applications.json", "/", "a\x00b", ""])
def test_a_file_that_cannot_be_read_is_a_sentence(path: str) -> None:
    with pytest.raises(CommandError, match=r"^FILE: "):
        run("apply", path)


def test_a_file_that_is_too_long_is_refused_before_it_is_parsed(apply: Apply, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration_file, "MOST_BYTES", 1024**2)
    assert apply.refused(b"[" + b" " * 1024**2 + b"]") == "FILE: it is longer than 1 MB. Split it."


@pytest.mark.parametrize("is_text", [False, True])
def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch, is_text: bool) -> None:
    content = json.dumps([GOOD])
    stdin = io.StringIO(content) if is_text else io.TextIOWrapper(io.BytesIO(content.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    run("apply", "-")
    assert Application.objects.get().client_id == NEW
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CommandError, match=r"^FILE: standard input"):
        run("apply", "-")
