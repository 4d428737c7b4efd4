"""How the person proved who they are: `acr` and `amr` of the ID token, and the proof that a request asks for."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import time_machine
from django.test import Client

from accounts.models import User
from accounts.sign_in import reauthentication
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, Issued, Registered
from tests.grants import PAGE, link_of, redeem
from tests.pages import SECOND, Account, browser_of, code_of, html_of

pytestmark = pytest.mark.django_db
STRONG = {"acr_values": "2"}
PASSWORD: dict[str, Any] = {"method": "password", "at": 1.5}


@pytest.fixture
def trusted() -> Registered:
    application: Registered = ApplicationFactory(is_trusted=True)
    return application


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
@pytest.mark.parametrize(
    ("records", "acr", "amr"),
    [
        ([], "1", []),
        ([PASSWORD, PASSWORD | {"at": 9.5}], "1", ["pwd"]),
        ([PASSWORD, {"method": "mfa", "type": "webauthn", "at": 9.5}], "2", ["pwd", "pop", "mfa"]),
        ([{"method": "mfa", "type": "webauthn", "passwordless": True, "at": 9.5}], "2", ["pop", "mfa"]),
        ([{"method": "password_reset", "at": 9.5}], "1", ["otp"]),
    ],
)
def test_what_a_session_proves(records: list[dict[str, Any]], acr: str, amr: list[str]) -> None:
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
