"""What is stored sealed is read as long as its key is known, and after `manage.py reseal` needs no former one."""

from __future__ import annotations

import re
import time
from importlib import import_module
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core.management import CommandError, call_command

from accounts.factors.authenticators import FactorAdapter
from accounts.mail import outbox
from accounts.mail.outbox import Email
from accounts.models import OutgoingMail, User
from config.infrastructure import sealing
from config.management.commands import reseal
from oauth_bridge.openid import signing_keys
from tests.factories import database_text
from tests.server import ROOT

pytestmark = pytest.mark.django_db

NEW = "the new key, of more than fifty characters, made for this test only"


@pytest.fixture
def stored(alice: User, settings: Any) -> None:
    app = {"secret": FactorAdapter().encrypt("JBSWY3DP"), "used_codes": ["ä"]}
    codes = {"seed": FactorAdapter().encrypt("a seed"), "used_mask": 5, "viewed_at": time.time()}
    Authenticator.objects.create(user=alice, type="totp", data=app)
    Authenticator.objects.create(user=alice, type="recovery_codes", data=codes)
    Authenticator.objects.create(user=alice, type="webauthn", data={"name": "Telephone", "credential": {}})
    for once in ("", "", "", "sent"):
        outbox.add_notice("test", Email("a@example.org", "Subject", "the text", "<p>the text</p>"), once=once)
    OutgoingMail.objects.filter(once__isnull=False).update(sealed=b"")
    signing_keys.signer("ES256")
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], NEW


@pytest.mark.usefixtures("stored")
def test_what_is_sealed_anew_opens_without_the_former_key(settings: Any, capsys: Any) -> None:
    before = {row.pk: row.data for row in Authenticator.objects.all()}
    call_command("reseal")
    told = re.findall(r"(.+): [13] sealed anew, 0 under SECRET_KEY already, 0 that could", capsys.readouterr().out)
    assert told == [column.kind for column in reseal.SEALED_COLUMNS]
    dump = database_text()
    call_command("reseal")
    assert capsys.readouterr().out.count(": 0 sealed anew") == 4
    assert database_text() == dump
    settings.SECRET_KEY_FALLBACKS = []
    app, codes, passkey = Authenticator.objects.order_by("pk")
    assert FactorAdapter().decrypt(app.data["secret"]) == "JBSWY3DP"
    assert FactorAdapter().decrypt(codes.data["seed"]) == "a seed"
    for row, sealed in ((app, "secret"), (codes, "seed"), (passkey, "name")):
        assert {**row.data, sealed: ""} == {**before[row.pk], sealed: ""}
    mails = [outbox._open(row) for row in OutgoingMail.objects.filter(once=None)]
    assert [mail and mail.text for mail in mails] == ["the text"] * 3


@pytest.mark.usefixtures("stored")
def test_what_no_key_opens_is_named_left_and_fails_the_command(settings: Any, capsys: Any) -> None:
    settings.SECRET_KEY_FALLBACKS = []
    first = Authenticator.objects.get(type="totp")
    Authenticator.objects.filter(pk=first.pk).update(data=first.data | {"secret": "rubbish"})
    dump = database_text()
    with pytest.raises(CommandError):
        call_command("reseal")
    told = capsys.readouterr()
    assert re.findall(r" (\d) that could not be opened\.", told.out) == ["1", "1", "1", "3"]
    assert f"no key opens row {first.pk} of mfa.Authenticator." in told.err
    assert database_text() == dump


def test_each_purpose_that_is_sealed_is_resealed_or_a_cookie() -> None:
    not_stored = {"accounts.sessions.known_browsers"}  # a cookie
    sealing_modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in ("accounts", "oauth_bridge")
        for path in (ROOT / package).rglob("*.py")
        if "sealing.seal(" in path.read_text(encoding="utf-8")
    }
    purposes = {import_module(name).PURPOSE for name in sealing_modules - not_stored}
    assert purposes == {column.purpose for column in reseal.SEALED_COLUMNS}


def test_it_opens_only_unchanged_for_its_purpose_and_row() -> None:
    sealed = sealing.seal("purpose", b"content", b"row")
    assert sealing.unseal("purpose", sealed, b"row") == b"content"
    assert sealing.unseal("another", sealed, b"row") is sealing.unseal("purpose", sealed, b"another row") is None
    for changed in (sealed[:-1] + bytes([sealed[-1] ^ 1]), sealed[:4], b""):
        assert sealing.unseal("purpose", changed, b"row") is None
