"""Signing keys: made by first use, published before and after they sign, ended at once. OpenID Connect Core §10.1."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings as live_settings
from django.core.management import CommandError, call_command
from django.utils import timezone

from oauth_bridge.models import SigningKey
from oauth_bridge.openid import signing_keys
from oauth_bridge.openid.signing_keys import PUBLISHED_AFTER, PUBLISHED_BEFORE
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, Issued, PersonFactory
from tests.grants import browser_at_pages, link_of, redeem

pytestmark = pytest.mark.django_db


def published() -> set[str]:
    return {jwk["kid"] for jwk in signing_keys.published()}


def signing() -> str:
    return signing_keys.signer("ES256").kid


def command(*arguments: str) -> Any:
    out = StringIO()
    call_command("signing-key", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


@contract("I3.kid", "I3.sealed")
def test_the_first_use_makes_a_key_that_signs_at_once_and_is_stored_sealed() -> None:
    signer = signing_keys.signer("ES256")
    assert signer.key.is_private
    row = SigningKey.objects.get()
    assert signing_keys.signer("ES256").kid == row.kid == signer.kid == signer.key.thumbprint()
    assert signer.key.as_der(private=True) not in bytes(row.private or b"")
    assert "d" not in json.loads(row.public)
    assert signing_keys.signer("RS256").kid != row.kid


@contract("I3.published")
def test_a_new_key_is_published_before_it_signs_and_the_old_one_after(time_machine: Any) -> None:
    now = timezone.now()
    time_machine.move_to(now, tick=False)
    old = signing()
    new = command("rotate", "--algorithm", "ES256")[0]["kid"]
    assert {old, new} <= published()
    assert signing() == old
    time_machine.move_to(now + PUBLISHED_BEFORE, tick=False)
    assert signing() == new
    assert old in published()
    time_machine.move_to(now + PUBLISHED_BEFORE + PUBLISHED_AFTER, tick=False)
    assert old not in published()
    assert (signing_keys.verification_key(old) or ("",))[0] == "ES256"


@contract("I3.revoked")
def test_a_revoked_key_ends_at_once_and_another_signs(time_machine: Any) -> None:
    old = signing()
    command("revoke", old)
    assert old not in {signing(), *published()}
    assert signing_keys.verification_key(old) is None
    assert SigningKey.objects.get(kid=old).private is None
    new = command("rotate", "--algorithm", "ES256")[0]["kid"]
    command("revoke", new)
    time_machine.move_to(timezone.now() + PUBLISHED_BEFORE, tick=False)
    assert signing() in published() - {new}, "a revoked new key leaves the service able to sign"
    with pytest.raises(CommandError, match="There is no key x"):
        command("revoke", "x")
    last = signing()
    call_command("after-restore", stdout=StringIO())
    assert last not in published(), "a restored backup brings no key back"


def test_the_purge_replaces_old_keys_and_deletes_private_halves(time_machine: Any) -> None:
    old = signing()
    later = timezone.now() + signing_keys.REPLACED_AFTER + timedelta(minutes=1)
    signing_keys.tidy(later)
    assert SigningKey.objects.filter(algorithm="ES256").count() == 2
    time_machine.move_to(later + PUBLISHED_BEFORE, tick=False)
    signing_keys.tidy(timezone.now())
    assert SigningKey.objects.get(kid=old).private is None
    assert signing() != old
    signing_keys.tidy(later + PUBLISHED_BEFORE + signing_keys.KEPT_FOR)
    assert not SigningKey.objects.filter(kid=old).exists()


def test_a_fallback_opens_a_key_and_without_one_a_new_key_signs(settings: Any) -> None:
    old, first = signing(), live_settings.SECRET_KEY
    for secret, fallbacks in (("x" * 60, [first]), ("y" * 60, [])):
        signing_keys._loaded.clear()
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = secret, fallbacks
        assert (signing() == old) is bool(fallbacks)
    assert old in published()


@contract("I3.unspent")
def test_a_code_is_not_spent_while_no_key_can_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    application, browser = ApplicationFactory(is_trusted=True), browser_at_pages()
    browser.force_login(PersonFactory())
    callback = browser.get(link_of(application, scope="openid"))["Location"]
    code = Issued(parse_qs(urlsplit(callback).query)["code"][0], None)
    with monkeypatch.context() as patch:
        patch.setattr(signing_keys, "_generated", Mock(side_effect=OSError))
        with pytest.raises(OSError):  # noqa: PT011 - without a message
            redeem(application, code)
    assert redeem(application, code).json()["id_token"]
