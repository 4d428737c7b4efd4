"""What documents say is true: links, tests, variables, limits, versions, units, metrics, private names, /docs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils.html import escape
from prometheus_client import Counter, Gauge, Histogram

from config.infrastructure import events
from config.infrastructure.events import Event
from oauth_bridge.api_docs import openapi
from oauth_bridge.api_docs.documents import TITLES, anchor
from tests import documented
from tests.contract.sentences import SENTENCES
from tests.contract_coverage import TESTS, holders
from tests.factories import ApplicationFactory
from tests.pages import admin_browser, html_of, text_of
from tests.project.test_architecture import ROOT
from tests.unit.test_config_environment import READ_VARIABLES

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def prose_of(path: Path) -> str:
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose_of(path), re.MULTILINE)
    plain = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return plain | {anchor(heading) for heading in headings}


def test_each_link_within_the_documents_leads_somewhere() -> None:
    links = [
        (document, *target.partition("#")[::2])
        for document in DOCUMENTS
        for target in re.findall(r"\]\(((?!https?:|mailto:|/)[^)\s]+)\)", prose_of(document))
    ]
    assert len(links) > 30
    wrong = []
    for document, file, heading in links:
        target = document.parent / file if file else document
        is_made = target == ROOT / "docs" / "reference.md"  # of the OpenAPI document
        if not is_made and (not target.exists() or (heading and heading not in anchors(target))):
            wrong.append(f"{document.name}: {file}#{heading}")
    assert wrong == []


def test_each_test_that_a_document_names_exists() -> None:
    text = "".join(map(prose_of, DOCUMENTS))
    named = set(re.findall(r"`(?:tests/)?([\w/]*test_\w+\.py)(?:::(\w+))?`", text))
    tests = {path.relative_to(TESTS).as_posix(): path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")}
    missing = [
        (file, name) for file, name in named if file not in tests or (name and f"def {name}(" not in tests[file])
    ]
    assert (missing, len(named) > 10) == ([], True)


def test_the_operations_guide_lists_exactly_the_variables_that_are_read_and_the_checks_of_a_deployment() -> None:
    guide = documented.document("operations.md")
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", guide, re.MULTILINE)) == READ_VARIABLES
    text = (ROOT / "config/management/commands/check-deployment.py").read_text(encoding="utf-8")
    names = set(re.findall(r'(?:Finding|clock|_of_checks)\(\s*"([a-z_]+)"', text))
    assert {"database", "mail", "clock_redis"} < names
    guide = guide.partition("## Is the installation in order?")[2]
    assert [each for each in sorted(names) if f"`{each}`" not in guide] == []


def test_each_limit_of_the_table_has_its_variable_and_is_tested_from_both_sides() -> None:
    table = documented.document("contract.md").partition("<!-- limits -->")[2].partition("<!-- /limits")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    files = (TESTS / "security").glob("test_limits_of_*.py")
    tests = "\n".join(path.read_text(encoding="utf-8") for path in files)
    asked = {f"test_{row}_{side}" for row in rows for side in ("stops_the_attacker", "lets_the_victim_go_on")}
    found = set(re.findall(r"^def (test_\w+_(?:stops_the_attacker|lets_the_victim_go_on))\(", tests, re.MULTILINE))
    assert len(rows) > 10
    assert found == asked
    rates = (ROOT / "config" / "limits_and_lifetimes.py").read_text(encoding="utf-8")
    variables = re.findall(r'^    (RATE_[A-Z_]+)="(\S+)",$', rates, re.MULTILINE)
    assert len(variables) == 9
    assert [name for name, default in variables if f"`{name}` {default}" not in table] == []


def test_a_unit_exposes_little_of_the_machine(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    for name, unit in (("sign-in@.service", "sign-in@pages.service"), *[["sign-in-purge.service"] * 2]):
        (tmp_path / unit).write_text(documented.file(f"/etc/systemd/system/{name}"), encoding="utf-8")
        command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", tmp_path / unit]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-200:]
        assert done.stderr == ""  # unknown directives


def test_every_sentence_of_the_contract_has_a_test_and_every_mark_a_sentence() -> None:
    found = holders()
    assert [sentence for sentence, tests in found.items() if not tests] == []
    assert sorted(found.keys() - SENTENCES) == []


def test_the_service_its_document_and_the_last_release_have_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    released = next(heading for heading in headings if heading != "Unreleased")
    assert {settings.VERSION, openapi.document()["info"]["version"], released} == {version}


FOLDER = ROOT / "docs" / "monitoring"
RULES = (FOLDER / "alerts.yml").read_text(encoding="utf-8")


def metrics() -> set[str]:
    events.BUILD_INFO.labels("1.0", "3.11")
    found = [each for each in vars(events).values() if isinstance(each, Counter | Gauge | Histogram)]
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for each in found
        for family in each.collect()
    }


def expressions() -> Iterator[str]:
    yield from re.findall(r"expr: (?:>-\n)?(.+(?:\n {10}\S.*)*)", RULES)
    dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (each["query"] for each in dashboard["templating"]["list"])


def test_each_expression_names_metrics_and_events_that_exist() -> None:
    text = "\n".join(expressions())
    named = {re.sub("_(bucket|count)$", "", name) for name in re.findall(r"\bdelegated_\w+", text)}
    assert sorted(named - metrics()) == []
    known = {part for value in re.findall(r'event=~?"([^"]*)"', text) for part in value.split("|")}
    assert len(known) > 3
    assert sorted(known - {event.name.lower() for event in Event}) == []


def test_the_document_has_each_event_with_its_members() -> None:
    table = documented.document("operations.md").partition("| event | members |")[2]
    rows = re.findall(r"^\| (`.+) \| (`.+) \|$", table.partition("\n\n")[0], re.MULTILINE)
    words = [[re.findall(r"`(\w+)`", cell) for cell in row] for row in rows]
    told = {event: set(members) for events, members in words for event in events}
    assert told == {event.name.lower(): set(event.members) for event in Event}


def test_each_metric_is_in_the_manual_and_the_other_way_round() -> None:
    table = documented.document("operations.md").partition("\n## Metrics")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(delegated_\w+)`", table.replace("`…_retried`", "`delegated_queue_retried`"))) == metrics()


def test_each_rule_fires_when_it_should_and_only_then() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, of Debian's package prometheus")
    tests = FOLDER / "alerts_test.yml"
    names = re.findall(r"\n      - alert: (\w+)", RULES)
    assert len(names) > 10
    assert [name for name in names if f'alertname="{name}"' not in tests.read_text(encoding="utf-8")] == []
    ended = subprocess.run([promtool, "test", "rules", tests], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


HEADING = "## Private names of libraries"


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def rows() -> list[list[str]]:
    text = documented.document("architecture.md")
    lines = re.findall(r"^\| .*", text.partition(HEADING)[2].partition("\n## ")[0], re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_each_row_names_what_is_used_a_test_and_the_cap_of_the_library() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    required = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    wrong = []
    for name, cap_of_library, where, test, _price in rows():
        sources = "".join((ROOT / file).read_text(encoding="utf-8") for file in quoted(where))
        for each in quoted(name):
            last = re.split(r"[. ]", each)[-1] if re.fullmatch(r"[\w.]+", each) else each
            if last not in sources:
                wrong.append(f"{each}: is not used")
        if not quoted(test):  # which exists: tests/project/test_documents.py
            wrong.append(f"{name}: no test")
        library, _, cap = cap_of_library.lower().partition(" < ")
        if not cap or not any(re.fullmatch(rf"{library}(\[\w+\])?[^,]*,<{re.escape(cap)}", each) for each in required):
            wrong.append(f"{name}: {cap_of_library}")
    assert wrong == []


pytestmark = pytest.mark.django_db

PATHS = ["/docs", *(f"/docs/{name}" for name in TITLES if name != "index")]
# What a reader fills in.
SECRETS = {"CLIENT_SECRET", "CODE", "ACCESS_TOKEN"}
LEFT = SECRETS | {"CLIENT_ID", "COOKIE_SECRET", "PASSPHRASE", "REDIRECT_URI", "STATE", "NONCE", "YOUR_HOST"}


def test_a_page_is_for_everybody_and_every_cache() -> None:
    client, grace = Client(), admin_browser()
    for path in PATHS:
        page = client.get(path)
        assert page.status_code == 200
        assert page["Cache-Control"] == "public, max-age=300"
        assert page["Vary"] == "Accept-Language, Cookie"
        assert "script-src 'self'" in page["Content-Security-Policy"]
        assert not page.cookies
        assert client.get(path, headers={"If-None-Match": page["ETag"]}).status_code == 304
        assert html_of(grace.get(path)) == html_of(page), "it does not depend on who reads it"


def test_a_document_stays_english_on_a_page_in_another_language_and_no_other_file_is_served() -> None:
    page = Client().get("/docs/guide", headers={"Accept-Language": "de"})
    assert page["Content-Language"] == "de"
    assert '<article class="document" lang="en" dir="ltr">' in html_of(page)
    assert "Exchange the code" in text_of(page)
    for path in ("/docs/nothing", "/docs/operations", "/docs/guide.md", "/docs/../README"):
        assert Client().get(path).status_code == 404, path


def test_the_addresses_are_those_of_this_service_and_nothing_else_is_left_to_fill_in(settings: Any) -> None:
    settings.AUTH_URL, settings.BASE_URL = "https://sign-in.example", "https://api.example"
    settings.ALLOWED_HOSTS = ["sign-in.example"]
    client = Client(headers={"Host": "sign-in.example"})
    for path in PATHS:
        page = html_of(client.get(path))
        assert "http://testserver" not in page
        assert path == "/docs/errors" or ("https://api.example/o" in page and "https://sign-in.example/o" in page)
        assert set(re.findall(r"\{([A-Z_]+)\}", page)) <= LEFT


def test_the_reference_has_each_parameter_and_each_answer() -> None:
    page = html_of(Client().get("/docs/reference"))
    paths = openapi.document()["paths"]
    for path, method in (("/oauth/authorize", "get"), ("/oauth/token", "post"), ("/oauth/userinfo", "get")):
        section = page.partition(f"<code>{method.upper()} {path}</code></h2>")[2].partition("<h2")[0]
        operation = paths[path][method]
        body = operation.get("requestBody", {"content": {"application/x-www-form-urlencoded": {"schema": {}}}})
        form = body["content"]["application/x-www-form-urlencoded"]["schema"].get("properties", {})
        names = [*(each["name"] for each in operation.get("parameters", ())), *form]
        assert [name for name in names if f"<code>{name}</code>" not in section] == []
        assert [status for status in operation["responses"] if f"<strong>{status}</strong>" not in section] == []
        source = openapi.source()
        marks = [source["paths"][path][method], *([source["x-callback"]] if path == "/oauth/authorize" else [])]
        for fault, sentence in (error for each in marks for error in openapi.errors_of(source, each)):
            row = rf"<td><code>{fault.error}</code></td>\s*<td>{re.escape(escape(sentence))}"
            assert re.search(row, section), fault.name
    assert "&quot;expires_in&quot;: 3600" in page


@pytest.mark.parametrize("client_type", ["confidential", "public"])
def test_an_application_has_snippets_with_its_values_and_no_secret_and_what_a_product_asks_for(
    client_type: str, settings: Any
) -> None:
    """tests/clients/test_snippets.py runs the snippets."""
    settings.BASE_URL, settings.AUTH_URL = "https://api.example", "http://testserver"
    given = ApplicationFactory(client_type=client_type, id_token_alg="ES256")
    page = admin_browser().get(reverse("admin:application", args=[given.row.pk]))
    texts = dict(page.context["snippets"])
    assert list(texts) == ["curl", "Python", "Node", "PHP"]
    for label, text in texts.items():
        assert given.client_id in text, label
        assert ("client_secret" in text.lower()) is (client_type == "confidential"), label
        assert set(re.findall(r"\{([A-Z_]+)\}", text)) <= SECRETS
    if given.secret:
        assert given.secret not in html_of(page)
    api, pages = settings.BASE_URL, settings.AUTH_URL
    to_copy = {"client-id": given.client_id, "setting-1-1": api, "setting-1-3": "openid profile email"}
    to_copy |= {"setting-2-1": f"{pages}/oauth/authorize", "setting-2-2": f"{api}/oauth/token", "setting-2-5": "ES256"}
    for name, value in to_copy.items():
        assert f'<code id="{name}">{value}</code> <button' in html_of(page)
    assert ("None: it makes a proof for each sign-in" in html_of(page)) is (client_type == "public")
