"""The compiled catalogues in locale/ are made of the others. `make messages` brings them up to date."""

from __future__ import annotations

import gettext
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings
from django.utils.translation import to_locale

from tests.project.test_architecture import ROOT

LOCALES = [to_locale(code) for code, _name in settings.LANGUAGES if code != "en"]
# Tags, and what Python or Django inserts.
PARTS = re.compile(r"</?[a-z]+\b[^>]*>|%\([a-z_]+\)[sd]|\{[a-z_]*\}|%%")

needs_gettext = pytest.mark.skipif(shutil.which("msgfmt") is None, reason="needs Debian's gettext")


def messages(compiled: Path) -> dict[str, str]:
    """Return the translation of each msgid; "" if it has a plural, which may leave the number out."""
    with compiled.open("rb") as file:
        catalogue = gettext.GNUTranslations(file)._catalog.items()  # type: ignore[attr-defined]
    found = {key[0] if isinstance(key, tuple) else key: "" if isinstance(key, tuple) else to for key, to in catalogue}
    del found[""]  # the header
    return found


@needs_gettext
def test_no_translation_is_fuzzy_left_over_or_inserts_something_else(tmp_path: Path) -> None:
    wrong: list[object] = []
    assert sorted(path.parents[1].name for path in ROOT.glob("locale/*/LC_MESSAGES/django.po")) == sorted(LOCALES)
    for locale in LOCALES:
        catalogue, made = ROOT / "locale" / locale / "LC_MESSAGES" / "django.po", tmp_path / f"{locale}.mo"
        subprocess.run(["msgfmt", "--check", "-o", made, catalogue], check=True)
        assert made.read_bytes() == catalogue.with_suffix(".mo").read_bytes(), locale
        wrong += re.findall(r"^#~ .*|^#, .*fuzzy.*", catalogue.read_text(encoding="utf-8"), re.MULTILINE)
        found = messages(made)
        assert len(found) > 400
        parts = {text: set(PARTS.findall(text)) for pair in found.items() for text in pair}
        wrong += [
            (locale, text) for text, translated in found.items() if translated and parts[text] != parts[translated]
        ]
    assert wrong == []
