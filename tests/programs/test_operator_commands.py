"""The operator's interface: the commands of manage.py."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from accounts.models import Session, User
from oauth_bridge.models import AccessToken, ApplicationSecret, AuthorizationCode, Consent
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import (
    PASSWORD,
    ApplicationFactory,
    CodeFactory,
    ConsentFactory,
    PersonFactory,
    Registered,
    TokenFactory,
)

Manage = Callable[..., subprocess.CompletedProcess[str]]


def answered(result: subprocess.CompletedProcess[str]) -> Any:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


# Applications ---------------------------------------------------------------------------------------------------------


@contract("O.application.create", "O.application.trusted", "D7.trusted", "D15.entropy")
def test_application_create_prints_what_a_developer_needs(manage: Manage, driver: OAuthDriver, alice: Any) -> None:
    uris = ["https://client.example/a", "http://127.0.0.1:9000/b"]
    flags = [part for uri in uris for part in ("--redirect-uri", uri)]
    answer, another = (answered(manage("application", "create", "Printer ☃", *flags, "--json")) for _ in range(2))
    assert set(answer) == {"client_id", "client_secret", "name", "redirect_uris"}
    assert answer["name"] == "Printer ☃"
    assert answer["redirect_uris"] == uris
    assert re.fullmatch(r"[A-Za-z0-9_-]{43,}", answer["client_secret"])
    assert answer["client_secret"] != another["client_secret"]
    assert answer["client_id"] != another["client_id"]
    assert driver.token(SimpleNamespace(**answer, redirect_uri=uris[0]), alice.email, PASSWORD)
    answer = answered(manage("application", "create", "T", *flags, "--trusted", "--json"))
    trusted = SimpleNamespace(**answer, redirect_uri=uris[0])
    assert driver.callback(driver.get(driver.authorization_url(trusted))).address == uris[0], "without a consent page"
    refused = manage("application", "create", "A", "--redirect-uri", "http://a.example/", "--json")
    assert (refused.returncode, refused.stdout) == (1, "")


@contract("O.application.delete")
def test_a_deleted_application_is_gone_and_what_it_held_is_worth_nothing(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    token, code = TokenFactory(application=application), CodeFactory(application=application)
    ConsentFactory(user=token.row.user, application=application.row, fingerprint="x")
    answered(manage("application", "delete", application.client_id, "--json"))
    error_of(driver.userinfo(token.raw), 401, "invalid_token")
    error_of(driver.exchange(application, code.raw), 401, "invalid_client")
    for model in (ApplicationSecret, Consent):
        assert not model.objects.filter(application_id=application.row.pk).exists()


# Accounts -------------------------------------------------------------------------------------------------------------


@contract("O.account.set-password")
def test_a_password_that_was_set_works_and_the_old_one_does_not(
    manage: Manage, signed_in: OAuthDriver, another_driver: OAuthDriver, alice: Any
) -> None:
    new = "quite another long password"
    answered(manage("account", "set-password", alice.email, "--password-stdin", "--json", stdin=f"{new}\n"))
    assert signed_in.get("/accounts/profile").status_code == 302
    assert Page(another_driver.sign_in(another_driver.open("/accounts/sign-in"), alice.email, PASSWORD)).sign_in
    assert another_driver.signed_in(alice.email, new).get("/accounts/profile").status_code == 200


@contract("O.account.deactivate", "D17.person")
def test_a_deactivated_account_is_refused_until_it_is_activated(
    manage: Manage, signed_in: OAuthDriver, alice: Any
) -> None:
    token = TokenFactory(user=alice).raw
    answered(manage("account", "deactivate", alice.email, "--json"))
    error_of(signed_in.userinfo(token), 401, "invalid_token")
    assert signed_in.get("/accounts/profile").status_code == 302
    answered(manage("account", "activate", alice.email, "--json"))
    error_of(signed_in.userinfo(token), 401, "invalid_token")
    assert signed_in.get("/accounts/profile").status_code == 302
    assert signed_in.signed_in(alice.email, PASSWORD).get("/accounts/profile").status_code == 200


@contract("O.account.verified")
def test_createsuperuser_counts_as_verified(
    manage: Manage, driver: OAuthDriver, application: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    email = f"root-{uuid.uuid4().hex}@example.com"
    result = manage("createsuperuser", "--noinput", "--email", email, "--nickname", "Root")
    assert result.returncode == 0, result.stderr
    assert User.objects.get(email=email).email_verified_at is not None
    assert driver.token(application, email, PASSWORD)


# After a restore ------------------------------------------------------------------------------------------------------


@contract("O.after-restore")
def test_after_a_restore_all_sessions_codes_and_tokens_end(
    manage: Manage, signed_in: OAuthDriver, application: Registered, alice: Any
) -> None:
    given: dict[str, Any] = {"application": application, "user": alice}
    code, token = CodeFactory(**given), TokenFactory(**given)
    held = {model: model.objects.count() for model in (Session, AuthorizationCode, AccessToken)}
    answer = answered(manage("after-restore", "--json"))
    ended = [answer["ended"][kind] for kind in ("sessions", "codes", "access_tokens")]
    assert ended == list(held.values())
    assert not any(model.objects.exists() for model in held)
    assert signed_in.get("/accounts/profile").status_code == 302
    error_of(signed_in.exchange(application, code.raw), 400, "invalid_grant")
    error_of(signed_in.userinfo(token.raw), 401, "invalid_token")
    assert signed_in.token(application, alice.email, PASSWORD)


@contract("O.after-restore")
def test_after_a_restore_what_else_is_back_is_listed_with_what_to_do(manage: Manage, application: Registered) -> None:
    replaced, revoked = ApplicationFactory(), ApplicationFactory()
    for each, option in ((replaced, "--overlap=7d"), (revoked, "--now")):
        answered(manage("application", "rotate-secret", each.client_id, option, "--json"))
    answered(manage("application", "disable", revoked.client_id, "--json"))
    root, gone = PersonFactory(is_superuser=True), PersonFactory(is_active=False, is_superuser=True)
    ConsentFactory(user=root, application=application.row, fingerprint="x")

    answer = answered(manage("after-restore", "--json"))
    found = {each["client_id"]: (each["working_secrets"], each["enabled"]) for each in answer["applications"]}
    assert [found[each.client_id] for each in (application, replaced, revoked)] == [(1, True), (2, True), (1, False)]
    assert root.email in answer["administrators"]
    assert gone.email not in answer["administrators"]
    assert answer["people"]["active"] == User.objects.filter(is_active=True).count()
    assert answer["people"]["deactivated"] >= 1
    assert answer["remembered_consents"] >= 1

    told = manage("after-restore").stdout
    for text in (f"{replaced.client_id}  {replaced.row.name}: 2 working", root.email, *answer["to_do"].values()):
        assert text in told
