"""Addresses of the sign-out are registered by the administration, by commands and by files, and leave a trail."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AuditEntry
from oauth_bridge.models import Application
from tests.unit.test_bridge_admin import ADD, FORM

pytestmark = pytest.mark.django_db

AFTER = ["https://app.example/after", "https://app.example/bye?x=1"]


def run(*arguments: str, after: list[str] | None = None) -> Any:
    options = [part for uri in after or () for part in ("--post-logout-redirect-uri", uri)]
    out = StringIO()
    call_command("application", *arguments, *options, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_commands_and_files_register_change_and_remove_them(tmp_path: Path) -> None:
    made = run("create", "Reading", "--redirect-uri", "https://app.example/cb", after=AFTER)
    client_id, file = made["client_id"], tmp_path / "applications.json"

    def apply(addresses: list[str]) -> Any:
        file.write_text(json.dumps([exported | {"post_logout_redirect_uris": addresses}]))
        return run("apply", str(file))

    def registered() -> list[str]:
        found: list[str] = run("show", client_id)["post_logout_redirect_uris"]
        return found

    [exported] = run("export")
    assert registered() == exported["post_logout_redirect_uris"] == AFTER
    assert apply(AFTER[::-1]) == [], "another order is no change"
    apply([])
    assert registered() == []
    Application.objects.all().delete()
    apply(AFTER[::-1])
    assert registered() == AFTER[::-1]
    for change, found in ((AFTER[1:], AFTER[1:]), ([""], []), (["https://app.example/?code=x&error=y"],) * 2):
        run("set", client_id, after=change)
        assert registered() == found
    changed = AuditEntry.objects.filter(action="application_changed").order_by("id")
    assert {"post_logout_redirect_uris": [AFTER[1:], []]} in [each.changes for each in changed]  # removed and added
    for wrong in (
        ["http://app.example/"],
        ["https://app.example/#x"],
        ["https://app.example/?state=x"],
        ["javascript:alert(1)"],
        [AFTER[0], AFTER[0]],
        [f"{AFTER[0]}\n{AFTER[1]}"],
    ):
        with pytest.raises(CommandError, match="--post-logout-redirect-uri"):
            run("set", client_id, after=wrong)


def test_the_administration_registers_and_shows_them(admin_client: Client) -> None:
    assert admin_client.post(ADD, {**FORM, "post_logout_redirect_uris": "\r\n".join(AFTER)}).status_code == 303
    row = Application.objects.get()
    assert row.addresses_after_sign_out == AFTER
    page = admin_client.get(f"/admin/oauth_bridge/application/{row.pk}/").content.decode()
    assert all(uri.replace("&", "&amp;") in page for uri in AFTER), page[:500]
