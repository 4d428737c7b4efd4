"""Addresses of the sign-out are registered by the administration, by commands and by files, and leave a trail."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core import signing
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AuditEntry
from oauth_bridge.logout import PAGE_LIFETIME
from oauth_bridge.models import Application
from tests.factories import ApplicationFactory, PersonFactory
from tests.unit.test_bridge_admin import ADD, FORM

pytestmark = pytest.mark.django_db

AFTER = ["https://app.example/after", "https://app.example/bye?x=1"]


def run(*arguments: str) -> Any:
    out = StringIO()
    call_command("application", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def registered(client_id: str) -> list[str]:
    found: list[str] = run("show", client_id)["post_logout_redirect_uris"]
    return found


def options(after: list[str]) -> list[str]:
    return [part for uri in after for part in ("--post-logout-redirect-uri", uri)]


def test_commands_register_change_and_remove_them() -> None:
    made = run("create", "Reading", "--redirect-uri", "https://app.example/cb", *options(AFTER))
    client_id = made["client_id"]
    assert registered(client_id) == AFTER
    run("set", client_id, *options(AFTER[1:]))
    assert registered(client_id) == AFTER[1:]
    run("set", client_id, *options([""]))
    assert registered(client_id) == []
    changed = AuditEntry.objects.filter(action="application_changed").first()
    assert changed
    assert changed.changes == {"post_logout_redirect_uris": [AFTER[:1], []]}  # removed and added


REFUSED = [
    ["http://app.example/"],
    ["https://app.example/#x"],
    ["https://app.example/?state=x"],
    ["javascript:alert(1)"],
    [AFTER[0], AFTER[0]],
    [f"{AFTER[0]}\n{AFTER[1]}"],
]


def test_what_may_not_be_registered_is_refused_with_the_option() -> None:
    application = ApplicationFactory()
    for after in REFUSED:
        with pytest.raises(CommandError, match="--post-logout-redirect-uri"):
            run("set", application.client_id, *options(after))
    assert registered(application.client_id) == []
    with_parameters = ["https://app.example/?code=x&error=y"]
    run("set", application.client_id, *options(with_parameters))
    assert registered(application.client_id) == with_parameters, "a callback parameter may be in it"


def test_an_export_is_applied_elsewhere(tmp_path: Path) -> None:
    application = ApplicationFactory(post_logout_redirect_uris="\n".join(AFTER))
    [exported] = run("export")
    assert exported["post_logout_redirect_uris"] == AFTER
    file = tmp_path / "applications.json"
    file.write_text(json.dumps([exported | {"post_logout_redirect_uris": AFTER[::-1]}]))
    assert run("apply", str(file)) == [], "another order is no change"
    Application.objects.all().delete()
    run("apply", str(file))
    assert registered(application.client_id) == AFTER[::-1]
    file.write_text(json.dumps([exported | {"post_logout_redirect_uris": []}]))
    run("apply", str(file))
    assert registered(application.client_id) == []


def test_the_administration_registers_and_shows_them(admin_client: Client) -> None:
    assert admin_client.post(ADD, {**FORM, "post_logout_redirect_uris": "\r\n".join(AFTER)}).status_code == 303
    row = Application.objects.get()
    assert row.addresses_after_sign_out == AFTER
    page = admin_client.get(f"/admin/oauth_bridge/application/{row.pk}/").content.decode()
    assert all(uri.replace("&", "&amp;") in page for uri in AFTER), page[:500]


# The page that asks whether an application may sign a person out: RP-Initiated Logout 1.0 §3; I9 ----------------------


def test_a_page_that_is_too_old_asks_again_for_the_same_application(monkeypatch: pytest.MonkeyPatch) -> None:
    browser, application = Client(), ApplicationFactory(post_logout_redirect_uris=AFTER[0])
    browser.force_login(PersonFactory())
    asked = {"client_id": application.client_id, "post_logout_redirect_uri": AFTER[0], "state": "a b"}
    page = browser.get("/oauth/logout", asked)
    now = signing.time.time()
    monkeypatch.setattr(signing.time, "time", lambda: now + (PAGE_LIFETIME + timedelta(minutes=1)).total_seconds())
    form = f"leaving={page.context['leaving']}"
    answer = browser.post("/oauth/logout", form, "application/x-www-form-urlencoded")
    assert answer.status_code in (302, 303)
    again = browser.get(answer["Location"])
    assert application.row.name in again.content.decode()
    assert "_auth_user_id" in browser.session
    browser.post("/oauth/logout", f"leaving={again.context['leaving']}", "application/x-www-form-urlencoded")
    assert "_auth_user_id" not in browser.session
