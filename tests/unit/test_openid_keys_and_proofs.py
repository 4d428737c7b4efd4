"""Signing keys (OpenID Connect Core §10.1), `acr` and `amr` of the ID token, and the proof that a request asks for."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from io import StringIO
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import time_machine
from django.conf import settings as live_settings
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from accounts.models import User
from accounts.sign_in import reauthentication
from oauth_bridge.models import SigningKey
from oauth_bridge.openid import signing_keys
from oauth_bridge.openid.signing_keys import PUBLISHED_AFTER, PUBLISHED_BEFORE
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, Issued, PersonFactory, Registered
from tests.grants import PAGE, browser_at_pages, link_of, redeem
from tests.pages import SECOND, Account, browser_of, code_of, html_of

pytestmark = pytest.mark.django_db

STRONG = {"acr_values": "2"}


@pytest.fixture
def trusted() -> Registered:
    return ApplicationFactory(is_trusted=True)


def ask(browser: Client, application: Registered, **parameters: str) -> Any:
    return browser.get(link_of(application, scope="openid", **parameters), headers=PAGE)


@contract("I5.acr", "I5.amr", "I7.acr")
def test_a_second_factor_is_asked_for_where_the_application_wants_it(account: Account, trusted: Registered) -> None:
    browser = account.browser_before_code()
    assert browser.post(SECOND, {"code": code_of(account.secret)}).status_code == 302
    code = parse_qs(urlsplit(ask(browser, trusted, **STRONG)["Location"]).query)["code"][0]
    token = redeem(trusted, Issued(code, None)).json()["id_token"]
    claims = jwt.decode(token, options={"verify_signature": False})
    assert (claims["acr"], claims["amr"]) == ("2", ["pwd", "otp", "mfa"])
    assert ask(account.browser, trusted, **STRONG)["Location"].startswith("/accounts/")
    assert "code=" in ask(account.browser, trusted, acr_values="1 2")["Location"]
    silent = parse_qs(urlsplit(ask(account.browser, trusted, prompt="none", **STRONG)["Location"]).query)
    assert silent["error"] == ["login_required"]


@contract("I5.acr", "I5.amr")
def test_what_a_session_proves() -> None:
    password: dict[str, Any] = {"method": "password", "at": 1.5}
    for records, acr, amr in (
        ([], "1", []),
        ([password, password | {"at": 9.5}], "1", ["pwd"]),
        ([password, {"method": "mfa", "type": "webauthn", "at": 9.5}], "2", ["pwd", "pop", "mfa"]),
        ([{"method": "mfa", "type": "webauthn", "passwordless": True, "at": 9.5}], "2", ["pop", "mfa"]),
        ([{"method": "password_reset", "at": 9.5}], "1", ["otp"]),
    ):
        proof = reauthentication._proof(records)
        assert (proof.acr, proof.amr, proof.at) == (acr, amr, 9.5 if records else None)


@contract("I7.acr")
def test_a_person_without_a_second_factor_goes_on_unless_it_is_essential(browser: Client, trusted: Registered) -> None:
    assert "code=" in ask(browser, trusted, **STRONG)["Location"]
    for wanted, error in (
        ({"essential": True, "value": "2"}, "unmet_authentication_requirements"),
        ({"essential": True, "values": ["7"]}, "unmet_authentication_requirements"),
        ({"essential": True, "values": ["1", "2"]}, ""),
        ({"values": ["2"]}, ""),
        ({"values": {"2": 1}}, ""),  # which cannot be read
        (None, ""),
    ):
        answer = ask(browser, trusted, claims=json.dumps({"id_token": wanted and {"acr": wanted}}))
        said = answer.get("Location", "") + answer.content.decode()
        assert (f"error={error}" in said, "code=" in said) == (bool(error), not error), wanted


@contract("I7.fresh")
def test_an_old_link_asks_for_a_new_proof(trusted: Registered, alice: User) -> None:
    sign_in_page = ask(Client(), trusted, prompt="login")["Location"]
    link, browser = parse_qs(urlsplit(sign_in_page).query)["next"][0], browser_of(alice)
    assert "code=" in html_of(browser.get(link, headers=PAGE))
    with time_machine.travel(time.time() + 7200):
        assert browser.get(link, headers=PAGE)["Location"].startswith("/accounts/confirm")


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
