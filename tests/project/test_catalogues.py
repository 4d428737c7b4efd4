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
from pathlib import Path

import pytest
from django.conf import settings
from django.utils.translation import to_locale

from tests.project.test_architecture import PACKAGES, ROOT, SOURCES, place, tree

LOCALES = [to_locale(code) for code, _name in settings.LANGUAGES if code != "en"]
STRING = r'((?:"(?:[^"\\]|\\.)*"\n)+)'
MESSAGE = re.compile(
    rf"^(?:msgctxt {STRING})?msgid {STRING}(?:msgid_plural {STRING})?((?:msgstr(?:\[\d\])? {STRING})+)", re.MULTILINE
)
# Tags, and what Python or Django inserts.
PARTS = re.compile(r"</?[a-z]+\b[^>]*>|%\([a-z_]+\)[sd]|\{[a-z_]*\}|%%")

needs_gettext = pytest.mark.skipif(shutil.which("msgfmt") is None, reason="needs Debian's gettext")


def text(quoted: str) -> str:
    return "".join(ast.literal_eval(line) for line in quoted.splitlines())


def messages(catalogue: str) -> dict[str, list[str]]:
    """Each msgid, between its msgctxt and msgid_plural, with its translations."""
    found = {}
    for context, single, plural, translations, _last in MESSAGE.findall(f"{catalogue}\n"):
        strings = re.findall(rf"msgstr(?:\[\d\])? {STRING}", translations)
        found[", ".join(text(each) for each in (context, single, plural) if each)] = [text(each) for each in strings]
    found.pop("", None)  # the header
    return found


def extracted(folder: Path) -> set[str]:
    """The messages of the code and the templates, as `make messages` finds them."""
    for name in (*PACKAGES, "templates"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "locale").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-m", "django", "makemessages", "--locale", "xx", "--no-wrap"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    return set(messages((folder / "locale/xx/LC_MESSAGES/django.po").read_text(encoding="utf-8")))


@needs_gettext
def test_every_message_is_translated_and_none_is_fuzzy_or_left_over(tmp_path: Path) -> None:
    expected, wrong = extracted(tmp_path), []
    assert len(expected) > 400
    assert sorted(path.parents[1].name for path in ROOT.glob("locale/*/LC_MESSAGES/django.po")) == sorted(LOCALES)
    for locale in LOCALES:
        catalogue = (ROOT / "locale" / locale / "LC_MESSAGES" / "django.po").read_text(encoding="utf-8")
        found = messages(catalogue)
        wrong += [(locale, message) for message in found.keys() ^ expected]
        wrong += [(locale, message) for message, translations in found.items() if not all(translations)]
        wrong += [(locale, line) for line in re.findall(r"^#~ .*|^#, .*fuzzy.*", catalogue, re.MULTILINE)]
        for message, translations in found.items():
            # A plural may leave the number out, as in "a minute".
            parts = [set(PARTS.findall(each)) for each in translations if len(translations) == 1]
            wrong += [(locale, message) for each in parts if each != set(PARTS.findall(message))]
    assert wrong == []


@needs_gettext
def test_the_compiled_catalogues_are_made_of_the_committed_ones(tmp_path: Path) -> None:
    """msgfmt also compares what is inserted."""
    for locale in LOCALES:
        catalogue, made = ROOT / "locale" / locale / "LC_MESSAGES" / "django.po", tmp_path / f"{locale}.mo"
        subprocess.run(["msgfmt", "--check", "-o", made, catalogue], check=True)
        assert made.read_bytes() == catalogue.with_suffix(".mo").read_bytes(), locale


def test_no_text_to_be_translated_stands_in_an_f_string() -> None:
    """xgettext does not find it there, so it would stay English."""
    found = [
        f"{place(path)}:{call.lineno}"
        for path in SOURCES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.JoinedStr)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("_", "gettext", "ngettext", "gettext_lazy")
    ]
    assert found == []
