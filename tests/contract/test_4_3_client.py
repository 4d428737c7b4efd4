"""Specification 4.3, 5.3: how an application authenticates at the token operation. D12."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from oauth_bridge.models import Application
from oauth_bridge.storage import applications, secret_rotation
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import ApplicationFactory, CodeFactory, Registered

IN_HEADER = {"client_id": None, "client_secret": None}


def basic(client_id: str, secret: str) -> dict[str, str]:
    return basic_of(f"{quote(client_id, safe='')}:{quote(secret, safe='')}")


def basic_of(pair: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


@contract("D19/invalid_client", "D19.stranger")
def test_an_unknown_client_and_a_wrong_secret_are_told_in_the_same_words(
    driver: OAuthDriver, application: Registered
) -> None:
    code = CodeFactory(application=application).raw
    sentences = {
        error_of(driver.exchange(application, code, **changes), 401, "invalid_client")
        for changes in (
            {"client_secret": "wrong"},
            {"client_secret": application.client_secret[:-1]},
            {"client_secret": application.client_secret + "="},
            {"client_id": "unknown"},
            {"client_id": application.client_id.upper()},
            {"client_id": ApplicationFactory().client_id},
        )
    }
    assert len(sentences) == 1


@contract("D19/switched-off", "D19.stranger")
def test_only_who_proves_the_secret_learns_that_the_application_is_switched_off(
    driver: OAuthDriver, application: Registered
) -> None:
    code = CodeFactory(application=application).raw
    wrong = error_of(driver.exchange(application, code, client_secret="wrong"), 401, "invalid_client")
    missing = error_of(driver.exchange(application, code, client_secret=None), 401, "invalid_client")
    other = ApplicationFactory()
    new = secret_rotation.rotate(application.row, secret_rotation.REVOKE_NOW).secret
    public = ApplicationFactory()
    public.row.client_type = Application.CLIENT_PUBLIC  # after it had a secret
    public.row.save()
    challenged = CodeFactory(application=public, code_challenge="E" * 43).raw
    for each in (application, public):
        applications.set_enabled(each.row, False)

    for headers, fields in (({}, {"client_secret": new}), (basic(application.client_id, new), IN_HEADER)):
        answer = driver.exchange(application, code, headers=headers, **fields)
        assert "switched off" in error_of(answer, 401, "invalid_client")
        assert ("WWW-Authenticate" in answer.headers) is bool(headers)
    for secret in ("wrong", new[:-1], application.client_secret, other.client_secret):
        assert error_of(driver.exchange(application, code, client_secret=secret), 401, "invalid_client") == wrong
    # A public client proves nothing, so whoever knows its client_id would learn it.
    for sent, said in (({"client_secret": public.client_secret}, wrong), ({"client_secret": None}, missing)):
        for verifier in ({}, {"code_verifier": "v" * 43}):
            answer = driver.exchange(public, challenged, **sent, **verifier)
            assert error_of(answer, 401, "invalid_client") == said


@contract("4.3/client_secret", "D19/missing-secret", "D19.stranger")
@pytest.mark.parametrize("secret", [None, ""])
def test_a_missing_secret_is_named_in_words_that_depend_on_the_request_alone(
    driver: OAuthDriver, application: Registered, secret: str | None
) -> None:
    code = CodeFactory(application=application).raw
    public = ApplicationFactory(client_type=Application.CLIENT_PUBLIC)
    challenged = CodeFactory(application=public, code_challenge="E" * 43).raw
    sentences = {
        error_of(driver.exchange(each, redeemed, client_secret=secret, **changes), 401, "invalid_client")
        for each, redeemed, changes in (
            (application, code, {}),
            (application, code, {"client_id": "unknown"}),
            (application, code, {"code_verifier": "v" * 43}),
            (application, code, {"client_id": "unknown", "code_verifier": "v" * 43}),
            (ApplicationFactory(is_enabled=False), code, {}),
            (public, challenged, {}),
            (public, "unknown", {}),
        )
    }
    assert len(sentences) == 1
    assert "client_secret is missing" in sentences.pop()
    assert driver.exchange(application, code).status_code == 200


@contract("D19/missing-secret", "D21.token-failures")
def test_a_missing_secret_counts_as_a_failed_authentication(launch: Launch, application: Registered) -> None:
    server = launch(RATE_LIMITS="on", RATE_TOKEN_FAILURES="2/30d", REDIS_URL="")
    driver = OAuthDriver(server.base_url)
    for _ in range(2):
        error_of(driver.exchange(application, "x", client_secret=None), 401, "invalid_client")
    error_of(driver.exchange(application, "x", client_secret=None), 429, "rate_limited")


@contract("D12.padding", "D19.stranger", "D13.unspent")
@pytest.mark.parametrize("name", ["client_id", "client_secret"])
@pytest.mark.parametrize("padded", ["{} ", "{}\n", "{}\r\n", " {}", "\t{}", "{}\u00a0", " "])
def test_white_space_around_a_client_id_or_secret_is_named_in_body_and_header_alike(
    driver: OAuthDriver, application: Registered, name: str, padded: str
) -> None:
    code = CodeFactory(application=application).raw
    sentences = set()
    for right in (getattr(application, name), "wrong"):
        sent = {"client_id": application.client_id, "client_secret": application.client_secret}
        sent[name] = padded.format(right)
        sentences.add(error_of(driver.exchange(application, code, **sent), 400, "invalid_request"))
        for pair in (basic(*sent.values()), basic_of(":".join(sent.values()))):
            answer = driver.exchange(application, code, headers=pair, **IN_HEADER)
            sentences.add(error_of(answer, 400, "invalid_request"))
    assert len(sentences) == 1
    assert f"The {name} begins or ends with a space" in sentences.pop()
    assert driver.exchange(application, code).status_code == 200


@contract("D12.basic", "D19/invalid_client")
def test_http_basic_is_accepted(driver: OAuthDriver, application: Registered) -> None:
    right = basic(application.client_id, application.client_secret)
    code = CodeFactory(application=application).raw
    wrong = driver.exchange(application, code, headers=basic(application.client_id, "wrong"), **IN_HEADER)
    error_of(wrong, 401, "invalid_client")
    assert wrong.headers["WWW-Authenticate"].startswith("Basic ")
    assert driver.exchange(application, code, headers=right, **IN_HEADER).status_code == 200

    code = CodeFactory(application=application).raw
    assert driver.exchange(application, code, headers=right, client_secret=None).status_code == 200
    lower = {"Authorization": right["Authorization"].replace("Basic", "basic")}
    code = CodeFactory(application=application).raw
    assert driver.exchange(application, code, headers=lower, **IN_HEADER).status_code == 200


@contract("D12.basic", "D19/invalid_client")
@pytest.mark.parametrize(
    "value", ["Basic", "Basic ", "Basic !!!", "Basic YQ==", "Basic /w==", "Basic OgA6", "Basic Og=="]
)
def test_a_basic_header_that_cannot_be_read_is_a_failed_authentication(
    driver: OAuthDriver, application: Registered, value: str
) -> None:
    answer = driver.exchange(application, "x", headers={"Authorization": value}, **IN_HEADER)
    assert "base64" in error_of(answer, 401, "invalid_client")
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")


@contract("D12.basic", "D19/missing-secret")
def test_basic_without_a_secret_says_so(driver: OAuthDriver, application: Registered) -> None:
    for client_id in (application.client_id, "unknown"):
        answer = driver.exchange(application, "x", headers=basic(client_id, ""), **IN_HEADER)
        assert "client_secret is missing" in error_of(answer, 401, "invalid_client")
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")


@contract("D12.scheme", "D19/invalid_client", "D19.stranger")
@pytest.mark.parametrize("scheme", ["token", "Bearer", "Digest", "X-Key-1"])
def test_another_scheme_is_named_while_nothing_else_proves_the_client(
    driver: OAuthDriver, application: Registered, scheme: str
) -> None:
    header = {"Authorization": f"{scheme} {application.client_secret}"}
    for client_id in (application.client_id, "unknown", None):
        answer = driver.exchange(application, "x", headers=header, client_id=client_id, client_secret=None)
        description = error_of(answer, 401, "invalid_client")
        assert f"the scheme {scheme}. Use Basic" in description
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
    code = CodeFactory(application=application).raw
    assert driver.exchange(application, code, headers=header).status_code == 200


@contract("D12.scheme", "D19.stranger")
@pytest.mark.parametrize("header", ["{}", "{} x", "{}, x", "Basic={}", "Token:{} x", "{}{} x"])
def test_what_may_be_a_credential_is_not_named_as_a_scheme(
    driver: OAuthDriver, application: Registered, header: str
) -> None:
    secret = application.client_secret
    sent = {"Authorization": header.format(secret, secret)}
    answer = driver.exchange(application, "x", headers=sent, client_secret=None)
    assert "has no scheme" in error_of(answer, 401, "invalid_client")
    assert secret[:16] not in answer.text


@contract("D19/invalid_client")
def test_without_basic_no_challenge_is_given(driver: OAuthDriver, application: Registered) -> None:
    assert "WWW-Authenticate" not in driver.exchange(application, "x", client_secret="wrong").headers


@contract("D12.both")
@pytest.mark.parametrize("sent", [{}, {"client_id": None}, {"client_secret": None}], ids=str)
def test_header_and_body_that_say_the_same_are_accepted(
    driver: OAuthDriver, application: Registered, sent: dict[str, str | None]
) -> None:
    code = CodeFactory(application=application).raw
    header = basic(application.client_id, application.client_secret)
    assert driver.exchange(application, code, headers=header, **sent).status_code == 200


@contract("D12.both", "D19.stranger", "D13.unspent")
def test_header_and_body_that_differ_are_refused(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    right = basic(application.client_id, application.client_secret)
    wrong = basic(application.client_id, "wrong")
    other = ApplicationFactory()
    sentences = {
        name: {
            error_of(driver.exchange(application, code, headers=header, **sent), 400, "invalid_request")
            for header, sent in pairs
        }
        for name, pairs in {
            "client_secret": [(right, {"client_secret": "wrong"}), (wrong, {}), (right, {"client_secret": "x" * 3000})],
            "client_id": [(right, {"client_id": other.client_id}), (right, {"client_id": "unknown"})],
        }.items()
    }
    for name, said in sentences.items():
        assert len(said) == 1, "nobody learns which of the two is right"
        assert f"The {name} in the body and the one in the Authorization header differ" in said.pop()
    answer = driver.exchange(application, code, headers=wrong, client_secret="wrong")
    error_of(answer, 401, "invalid_client")
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")
    assert driver.exchange(application, code).status_code == 200
