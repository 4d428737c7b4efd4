"""The catalogues in locale/ hold every message of the code, translated, and the compiled ones are made of them.

`make messages` brings them up to date.
"""

from __future__ import annotations

import ast
import gettext
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
# Tags, and what Python or Django inserts.
PARTS = re.compile(r"</?[a-z]+\b[^>]*>|%\([a-z_]+\)[sd]|\{[a-z_]*\}|%%")

needs_gettext = pytest.mark.skipif(shutil.which("msgfmt") is None, reason="needs Debian's gettext")


def messages(compiled: Path) -> dict[str, str]:
    """The translation of each msgid, after its msgctxt; "" of one with a plural, which may leave the number out."""
    with compiled.open("rb") as file:
        catalogue = gettext.GNUTranslations(file)._catalog.items()  # type: ignore[attr-defined]
    found = {key[0] if isinstance(key, tuple) else key: "" if isinstance(key, tuple) else to for key, to in catalogue}
    del found[""]  # the header
    return found


def extracted(folder: Path) -> set[str]:
    """The messages of the code and the templates, as `make messages` finds them."""
    for name in (*PACKAGES, "templates"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "locale").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-m", "django", "makemessages", "--locale", "xx", "--no-wrap"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    found = folder / "locale/xx/LC_MESSAGES/django.po"
    found.write_text(re.sub(r'"Plural-Forms:.*\n', "", found.read_text(encoding="utf-8")), encoding="utf-8")
    subprocess.run(["msgen", "-o", found, found], check=True)  # each message is its own translation
    subprocess.run(["msgfmt", "-o", folder / "xx.mo", found], check=True)
    return set(messages(folder / "xx.mo"))


@needs_gettext
def test_every_message_is_translated_and_none_is_fuzzy_or_left_over(tmp_path: Path) -> None:
    """msgfmt also compares what is inserted."""
    expected, wrong = extracted(tmp_path), []
    assert len(expected) > 400
    assert sorted(path.parents[1].name for path in ROOT.glob("locale/*/LC_MESSAGES/django.po")) == sorted(LOCALES)
    for locale in LOCALES:
        catalogue, made = ROOT / "locale" / locale / "LC_MESSAGES" / "django.po", tmp_path / f"{locale}.mo"
        subprocess.run(["msgfmt", "--check", "-o", made, catalogue], check=True)
        assert made.read_bytes() == catalogue.with_suffix(".mo").read_bytes(), locale
        wrong += re.findall(r"^#~ .*|^#, .*fuzzy.*", catalogue.read_text(encoding="utf-8"), re.MULTILINE)
        found = messages(made)
        wrong += [(locale, message) for message in found.keys() ^ expected]
        for message, translation in found.items():
            if translation and set(PARTS.findall(translation)) != set(PARTS.findall(message)):
                wrong.append((locale, message))
    assert wrong == []


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
