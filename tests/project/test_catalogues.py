"""The catalogues in locale/ hold every message of the code, translated, and the compiled ones are made of them.

`make messages` brings them up to date.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from django.conf import settings
from django.utils.translation import to_locale

ROOT = Path(__file__).resolve().parents[2]
LOCALES = [to_locale(code) for code, _name in settings.LANGUAGES if code != "en"]
CODE = ("accounts", "config", "oauth_bridge", "templates")
STRING = r'((?:"(?:[^"\\]|\\.)*"\n)+)'
MESSAGE = re.compile(
    rf"^(?:msgctxt {STRING})?msgid {STRING}(?:msgid_plural {STRING})?((?:msgstr(?:\[\d\])? {STRING})+)", re.MULTILINE
)
# Tags, and what Python or Django inserts.
PARTS = re.compile(r"</?[a-z]+\b[^>]*>|%\([a-z_]+\)[sd]|\{[a-z_]*\}|%%")

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(shutil.which("msgfmt") is None, reason="needs Debian's gettext"),
]


def catalogue(locale: str, suffix: str = "po") -> Path:
    return ROOT / "locale" / locale / "LC_MESSAGES" / f"django.{suffix}"


def text(quoted: str) -> str:
    return "".join(ast.literal_eval(line) for line in quoted.splitlines())


def messages(path: Path, *options: str) -> dict[str, list[str]]:
    """Each msgid, between its msgctxt and msgid_plural, with its translations. `options` are msgattrib's."""
    command = ["msgattrib", "--no-wrap", "--no-obsolete", *options, str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {}
    for context, single, plural, translations, _last in MESSAGE.findall(output):
        strings = re.findall(rf"msgstr(?:\[\d\])? {STRING}", translations)
        found[", ".join(text(each) for each in (context, single, plural) if each)] = [text(each) for each in strings]
    found.pop("", None)  # the header
    return found


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The messages of the code and the templates, as `make messages` finds them."""
    folder = tmp_path_factory.mktemp("messages")
    for name in CODE:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "locale").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-m", "django", "makemessages", "--locale", "xx", "--no-wrap"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    return set(messages(folder / "locale/xx/LC_MESSAGES/django.po"))


def test_there_is_a_catalogue_for_each_language() -> None:
    assert sorted(path.parent.parent.name for path in ROOT.glob("locale/*/LC_MESSAGES/django.po")) == sorted(LOCALES)


@pytest.mark.parametrize("locale", LOCALES)
def test_no_message_is_missing_and_none_is_left_over(locale: str, extracted: set[str]) -> None:
    assert len(extracted) > 400
    assert set(messages(catalogue(locale))) == extracted
    assert "#~ " not in catalogue(locale).read_text(encoding="utf-8")


@pytest.mark.parametrize("locale", LOCALES)
def test_every_message_is_translated_and_none_is_fuzzy(locale: str) -> None:
    assert messages(catalogue(locale), "--only-fuzzy") == {}
    assert messages(catalogue(locale), "--untranslated") == {}


@pytest.mark.parametrize("locale", LOCALES)
def test_translations_insert_what_the_message_inserts_and_keep_its_tags(locale: str) -> None:
    """msgfmt compares what is inserted; a plural may leave the number out, as in "a minute"."""
    subprocess.run(["msgfmt", "--check", "--output-file=/dev/null", catalogue(locale)], check=True)
    wrong = []
    for message, translations in messages(catalogue(locale)).items():
        expected = Counter(PARTS.findall(message))
        for translation in translations if len(translations) == 1 else []:
            if set(PARTS.findall(translation)) != set(expected):
                wrong.append((message, translation))
    assert wrong == []


@pytest.mark.parametrize("locale", LOCALES)
def test_the_compiled_catalogue_is_made_of_the_committed_one(locale: str, tmp_path: Path) -> None:
    made = tmp_path / "django.mo"
    subprocess.run(["msgfmt", "--check-format", "-o", made, catalogue(locale)], check=True)
    assert made.read_bytes() == catalogue(locale, "mo").read_bytes()


def test_no_text_to_be_translated_stands_in_an_f_string() -> None:
    """xgettext does not find it there, so it would stay English."""
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for package in ("config", "accounts", "oauth_bridge")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("_", "gettext", "ngettext", "gettext_lazy")
    ]
    assert found == []
