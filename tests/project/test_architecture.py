"""Rules for the source that a program can check: imports, templates, addresses."""

from __future__ import annotations

import pkgutil
import re
from configparser import ConfigParser
from pathlib import Path

from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver, resolve, reverse

from config.infrastructure import paths
from oauth_bridge.views import unknown_path
from tests.grants import example_paths

ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATES = sorted((ROOT / "templates").rglob("*.*"))


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_layers_of_import_linter_name_every_module_of_the_wiring() -> None:
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    wiring = contracts["importlinter:contract:packages"]["layers"].split("\n")[1]
    modules = {path.name for path in pkgutil.iter_modules([str(ROOT / "config")])} - {"infrastructure"}
    assert sorted(wiring.split(" : ")) == sorted(f"config.{name}" for name in modules)


def test_templates_hold_no_style_no_script_and_no_other_host() -> None:
    own_script = re.compile(r"<script src=\"\{% static '[^']+' %\}\"[^>]*></script>")
    foreign = re.compile(" style=|<style|<script|https?://| onclick=|javascript:")
    found = {place(path): foreign.findall(own_script.sub("", path.read_text(encoding="utf-8"))) for path in TEMPLATES}
    # Programs that show e-mails load no style sheet.
    wrong = {path: words for path, words in found.items() if words and not path.endswith("/_html.html")}
    assert wrong == {}


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
