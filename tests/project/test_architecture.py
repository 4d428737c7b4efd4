"""Rules for the source that a program can check: imports, templates, addresses, translations."""

from __future__ import annotations

import gettext
import pkgutil
import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver, resolve, reverse
from django.utils.translation import to_locale

from config.infrastructure import paths
from oauth_bridge.views import unknown_path
from tests.grants import example_paths

ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATES = sorted((ROOT / "templates").rglob("*.*"))


def test_the_layers_of_import_linter_name_every_module_of_the_wiring() -> None:
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    wiring = contracts["importlinter:contract:packages"]["layers"].split("\n")[1]
    modules = {path.name for path in pkgutil.iter_modules([str(ROOT / "config")])} - {"infrastructure"}
    assert sorted(wiring.split(" : ")) == sorted(f"config.{name}" for name in modules)


def test_templates_hold_no_style_no_script_and_no_other_host() -> None:
    own_script = re.compile(r"<script src=\"\{% static '[^']+' %\}\"[^>]*></script>")
    foreign = re.compile(" style=|<style|<script|https?://| onclick=|javascript:")
    texts = [(path.name, own_script.sub("", path.read_text(encoding="utf-8"))) for path in TEMPLATES]
    found = [(name, word) for name, text in texts for word in foreign.findall(text)]
    # Programs that show e-mails load no style sheet.
    assert {*found} <= {("_html.html", " style=")}


def addresses(patterns: list[URLPattern | URLResolver], prefix: str = "") -> list[tuple[str, URLPattern]]:
    found: list[tuple[str, URLPattern]] = []
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            found.append((route, pattern))
        elif not route.startswith("admin/"):
            found += addresses(pattern.url_patterns, route)
    return found


def test_no_address_ends_in_a_slash_and_each_name_that_a_template_uses_is_one() -> None:
    routes = {pattern.name: route for route, pattern in addresses(get_resolver().url_patterns) if pattern.name}
    assert routes["authorize"] == "oauth/authorize"
    assert [route for route in routes.values() if route.rstrip("$").endswith("/")] == []
    used = {name for path in TEMPLATES for name in re.findall(r"\{% url '([^']+)'", path.read_text(encoding="utf-8"))}
    assert [name for name in sorted(used) if name not in routes and not name.startswith("admin:")] == []


def test_a_path_that_exists_is_known() -> None:
    existing = {path for path in example_paths() if resolve(path).func is not unknown_path}
    existing.add(f"{settings.STATIC_URL}css/site.css")
    assert [path for path in existing if paths.kind_of(path) in (paths.NOWHERE, paths.NO_OPERATION)] == []
    assert len(existing) > 60
    names = "authorize token userinfo jwks revoke introspect end_session openid_configuration server_metadata"
    assert tuple(reverse(name) for name in names.split()) == paths.OPERATIONS


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
