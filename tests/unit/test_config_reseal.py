"""`manage.py reseal`: what is stored sealed needs no former SECRET_KEY any more."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core.management import CommandError, call_command

from accounts.factors.adapter import FactorAdapter
from accounts.mail import outbox
from accounts.mail.composing import Email
from accounts.models import OutgoingMail, User
from config.infrastructure import sealing
from config.management.commands import reseal
from oauth_bridge.storage import signing_keys
from tests.dump import database_text
from tests.server import ROOT

pytestmark = pytest.mark.django_db

NEW = "the new key, of more than fifty characters, made for this test only"


@pytest.fixture
def stored(alice: User, settings: Any) -> None:
    """Rows under the old key, in a service with a new one."""
    app = {"secret": FactorAdapter().encrypt("JBSWY3DP"), "used_codes": ["ä"]}
    codes = {"seed": FactorAdapter().encrypt("a seed"), "used_mask": 5, "viewed_at": time.time()}
    Authenticator.objects.create(user=alice, type="totp", data=app)
    Authenticator.objects.create(user=alice, type="recovery_codes", data=codes)
    Authenticator.objects.create(user=alice, type="webauthn", data={"name": "Telephone", "credential": {}})
    outbox.add_notice("test", Email("a@example.org", "Subject", "the text", "<p>the text</p>"))
    outbox.add_notice("test", Email("a@example.org", "Subject", "the text", "<p>the text</p>"), once="sent")
    OutgoingMail.objects.filter(once__isnull=False).update(sealed=b"")
    signing_keys.signer("ES256")
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], NEW


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    call_command("reseal", *arguments)
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("stored")
def test_what_is_sealed_anew_opens_without_the_former_key(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    dump, before = database_text(), {row.pk: row.data for row in Authenticator.objects.all()}
    assert all(": 1 to be sealed anew, 0 under SECRET_KEY already," in line for line in run(capsys, "--dry-run"))
    assert database_text() == dump
    assert run(capsys) == [
        f"{kind}: 1 sealed anew, 0 under SECRET_KEY already, 0 that could not be opened."
        for kind in ("Authenticator apps", "Recovery codes", "Signing keys", "Waiting e-mails")
    ]
    dump = database_text()
    assert all(": 0 sealed anew, 1 under SECRET_KEY already," in line for line in run(capsys))
    assert database_text() == dump, "a second run changes nothing"
    settings.SECRET_KEY_FALLBACKS = []
    app, codes, passkey = Authenticator.objects.order_by("pk")
    assert FactorAdapter().decrypt(app.data["secret"]) == "JBSWY3DP"
    assert FactorAdapter().decrypt(codes.data["seed"]) == "a seed"
    assert app.data | {"secret": ""} == before[app.pk] | {"secret": ""}
    assert codes.data | {"seed": ""} == before[codes.pk] | {"seed": ""}
    assert passkey.data == before[passkey.pk]
    mail = outbox._open(OutgoingMail.objects.get(once=None))
    assert mail
    assert mail.text == "the text"


@pytest.mark.usefixtures("stored")
def test_what_no_key_opens_is_named_left_and_fails_the_command(
    settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.SECRET_KEY_FALLBACKS = []
    first = Authenticator.objects.get(type="totp")
    Authenticator.objects.filter(pk=first.pk).update(data=first.data | {"secret": "rubbish"})
    dump = database_text()
    with pytest.raises(CommandError):
        call_command("reseal")
    told = capsys.readouterr()
    assert told.out.count(" 1 that could not be opened.") == 4
    assert f"no key opens row {first.pk} of mfa.Authenticator." in told.err
    assert database_text() == dump


@pytest.mark.usefixtures("stored")
def test_a_change_at_the_same_moment_is_kept_and_a_row_that_goes_is_not_counted(
    settings: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seal = sealing.seal

    def used_meanwhile(*arguments: Any) -> bytes:
        monkeypatch.setattr(sealing, "seal", seal)
        row = Authenticator.objects.get(type="totp")
        Authenticator.objects.filter(pk=row.pk).update(data=row.data | {"used_codes": ["another"]})
        Authenticator.objects.filter(type="recovery_codes").delete()
        return seal(*arguments)

    monkeypatch.setattr(sealing, "seal", used_meanwhile)
    apps, codes, *_others = run(capsys)
    assert "1 sealed anew" in apps
    assert codes.startswith("Recovery codes: 0 sealed anew, 0 under")
    settings.SECRET_KEY_FALLBACKS = []
    data = Authenticator.objects.get(type="totp").data
    assert FactorAdapter().decrypt(data["secret"]) == "JBSWY3DP"
    assert data["used_codes"] == ["another"]


def test_rows_beyond_a_batch_are_sealed_anew(
    monkeypatch: pytest.MonkeyPatch, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(7):
        outbox.add_notice("test", Email("a@example.org", "Subject", "the text", "<p>the text</p>"))
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], NEW
    monkeypatch.setattr(reseal, "BATCH", 3)
    assert "7 sealed anew" in run(capsys)[3]


def test_each_purpose_that_is_sealed_is_resealed_or_a_cookie() -> None:
    """So that a later column, such as that of signing keys, is not forgotten."""
    not_stored = {"accounts.sessions.last_account", "config.deployment.questions"}  # a cookie; valid for a minute
    sealing_modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in ("accounts", "oauth_bridge", "config")
        for path in (ROOT / package).rglob("*.py")
        if "sealing.seal(" in path.read_text(encoding="utf-8")
    }
    purposes = {import_module(name).PURPOSE for name in sealing_modules - not_stored - {reseal.__name__}}
    assert purposes == {column.purpose for column in reseal.SEALED_COLUMNS}
