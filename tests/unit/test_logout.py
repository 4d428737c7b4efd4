"""Addresses of the sign-out are registered by the administration, by commands and by files, and leave a trail."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.core import signing
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AuditEntry
from oauth_bridge.applications import checks
from oauth_bridge.logout_views import PAGE_LIFETIME
from oauth_bridge.models import Application
from tests.factories import ApplicationFactory, PersonFactory
from tests.unit.test_bridge_admin import ADD, FORM

pytestmark = pytest.mark.django_db

AFTER = ["https://app.example/after", "https://app.example/bye?x=1"]
TOLD = "https://app.example/told"


def run(*arguments: str) -> Any:
    out = StringIO()
    call_command("application", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def options(after: list[str], told: str) -> list[str]:
    return [*(part for uri in after for part in ("--post-logout-redirect-uri", uri)), "--backchannel-logout-uri", told]


def registered(client_id: str) -> tuple[list[str], str]:
    shown = run("show", client_id)
    return shown["post_logout_redirect_uris"], shown["backchannel_logout_uri"]


def test_commands_register_change_and_remove_them() -> None:
    made = run("create", "Reading", "--redirect-uri", "https://app.example/cb", *options(AFTER, TOLD))
    client_id = made["client_id"]
    assert registered(client_id) == (AFTER, TOLD)
    run("set", client_id, *options(AFTER[1:], "http://localhost:8080/told"))
    assert registered(client_id) == (AFTER[1:], "http://localhost:8080/told")
    run("set", client_id, *options([""], ""))
    assert registered(client_id) == ([], "")
    changed = AuditEntry.objects.filter(action="application_changed").first()
    assert changed
    assert changed.changes == {
        "post_logout_redirect_uris": [AFTER[:1], []],  # removed and added
        "backchannel_logout_uri": [TOLD, "http://localhost:8080/told"],
    }


REFUSED = [
    (["http://app.example/"], ""),
    (["https://app.example/#x"], ""),
    (["https://app.example/?state=x"], ""),
    (["javascript:alert(1)"], ""),
    ([AFTER[0], AFTER[0]], ""),
    ([f"{AFTER[0]}\n{AFTER[1]}"], ""),
    ([], "http://app.example/told"),
    ([], "https://user@app.example/told"),
    ([], "https://app.example/told#x"),
    ([], "ftp://app.example/"),
]


def test_what_may_not_be_registered_is_refused_with_the_option() -> None:
    application = ApplicationFactory()
    for after, told in REFUSED:
        with pytest.raises(CommandError, match="--backchannel-logout-uri" if told else "--post-logout-redirect-uri"):
            run("set", application.client_id, *options(after, told))
    assert registered(application.client_id) == ([], "")
    with_parameters = ["https://app.example/?code=x&error=y"]
    run("set", application.client_id, *options(with_parameters, ""))
    assert registered(application.client_id) == (with_parameters, ""), "a callback parameter may be in it"


def test_an_export_is_applied_elsewhere(tmp_path: Path) -> None:
    application = ApplicationFactory(post_logout_redirect_uris="\n".join(AFTER), backchannel_logout_uri=TOLD)
    [exported] = run("export")
    assert (exported["post_logout_redirect_uris"], exported["backchannel_logout_uri"]) == (AFTER, TOLD)
    file = tmp_path / "applications.json"
    file.write_text(json.dumps([exported | {"post_logout_redirect_uris": AFTER[::-1]}]))
    assert run("apply", str(file)) == [], "another order is no change"
    Application.objects.all().delete()
    [change] = run("apply", str(file))
    assert change["after"]["backchannel_logout_uri"] == TOLD
    assert registered(application.client_id) == (AFTER[::-1], TOLD)
    file.write_text(json.dumps([exported | {"post_logout_redirect_uris": [], "backchannel_logout_uri": ""}]))
    run("apply", str(file))
    assert registered(application.client_id) == ([], "")


def test_the_administration_registers_and_shows_them(admin_client: Client) -> None:
    typed = {"post_logout_redirect_uris": "\r\n".join(AFTER), "backchannel_logout_uri": TOLD}
    assert admin_client.post(ADD, {**FORM, **typed}).status_code == 303
    row = Application.objects.get()
    assert (row.addresses_after_sign_out, row.backchannel_logout_uri) == (AFTER, TOLD)
    page = admin_client.get(f"/admin/oauth_bridge/application/{row.pk}/").content.decode()
    assert all(uri.replace("&", "&amp;") in page for uri in (*AFTER, TOLD)), page[:500]
    refused = admin_client.post(ADD, {**FORM, "backchannel_logout_uri": "http://app.example/"}).content.decode()
    assert "Use https" in refused


def test_the_check_names_an_internal_address(settings: Any) -> None:
    internal = ["https://10.1.2.3/told", "https://[::ffff:10.1.2.3]/told", "http://localhost:8080/told"]
    rows = [ApplicationFactory(backchannel_logout_uri=uri).row for uri in (*internal, "https://8.8.8.8/told", TOLD, "")]

    def found() -> list[str]:
        codes = [(row, {each.code for each in checks.of_application(row)}) for row in rows]
        return [row.backchannel_logout_uri for row, names in codes if "logout_address_internal" in names]

    assert found() == internal
    settings.BACKCHANNEL_NETWORKS = [ip_network("10.0.0.0/8"), ip_network("127.0.0.0/8")]
    assert found() == []


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
