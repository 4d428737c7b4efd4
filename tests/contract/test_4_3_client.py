"""Specification 4.3, 5.3: how an application authenticates at the token operation. D12."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from oauth_bridge.applications import registry
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.credentials.code_redemption import challenge_of
from oauth_bridge.models import AccessToken, Application
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import ApplicationFactory, CodeFactory, Registered, TokenFactory, digest_of

VERIFIER = "v" * 43
IN_HEADER = {"client_id": None, "client_secret": None}


def basic(client_id: str, secret: str) -> dict[str, str]:
    return basic_of(f"{quote(client_id, safe='')}:{quote(secret, safe='')}")


def basic_of(pair: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


@contract("4.3/client_secret", "D19/invalid_client", "D19/missing-secret", "D19/switched-off", "D19.stranger")
@contract("D12.basic", "D13.unspent")
def test_who_proves_no_secret_is_told_of_the_request_alone(driver: OAuthDriver, application: Registered) -> None:
    """Whatever the code. Only who proves the secret learns that the application is switched off."""
    code, off, public = CodeFactory(application=application).raw, ApplicationFactory(), ApplicationFactory()
    new = secret_rotation.rotate(off.row, secret_rotation.REVOKE_NOW).secret
    public.row.client_type = Application.CLIENT_PUBLIC  # after it had a secret
    public.row.save()
    without = ApplicationFactory(client_type=Application.CLIENT_PUBLIC)
    codes = {each: CodeFactory(application=each, code_challenge="E" * 43).raw for each in (public, without)}
    for each in (off, public):
        registry.set_enabled(each.row, False)
    verifiers: tuple[dict[str, str | None], ...] = ({}, {"code_verifier": VERIFIER})
    right = application.client_secret
    wrong = [(application, {"client_secret": each}) for each in ("wrong", right[:-1], right + "=")]
    wrong += [(application, {"client_id": each}) for each in ("unknown", application.client_id.upper(), off.client_id)]
    wrong += [(off, {"client_secret": each}) for each in ("wrong", new[:-1], digest_of(new).hex(), off.secret, right)]
    missing: list[tuple[Registered, dict[str, str | None]]] = []
    for changes in verifiers:
        wrong += [(public, {"client_secret": public.client_secret, **changes})]
        missing += [(application, {"client_id": "unknown", "client_secret": None, **changes})]
        missing += [(each, {"client_secret": no, **changes}) for each in (application, public) for no in (None, "")]
    missing += [(each, {"client_secret": no}) for each in (off, without) for no in (None, "")]
    for said, cases, in_header in (
        ("The application could not be authenticated.", wrong, [(application.client_id, "wrong")]),
        ("client_secret is missing", missing, [(application.client_id, ""), ("unknown", "")]),
        ("switched off", [(off, {"client_secret": new})], [(off.client_id, new)]),
    ):
        sent = [
            (each, each_code, changes) for each, changes in cases for each_code in (codes.get(each, code), "unknown")
        ]
        answers = [driver.exchange(each, each_code, **changes) for each, each_code, changes in sent]
        assert not any("WWW-Authenticate" in answer.headers for answer in answers)
        by_header = [driver.exchange(off, "x", headers=basic(*pair), **IN_HEADER) for pair in in_header]
        assert all(answer.headers["WWW-Authenticate"].startswith("Basic ") for answer in by_header)
        assert all(said in answer.headers["WWW-Authenticate"] for answer in by_header)
        sentences = {error_of(answer, 401, "invalid_client") for answer in (*answers, *by_header)}
        assert len(sentences) == 1
        assert said in sentences.pop()
    assert driver.exchange(application, code).status_code == 200


@contract("D12.padding", "D19.stranger", "D13.unspent")
@pytest.mark.parametrize("name", ["client_id", "client_secret"])
def test_space_around_a_client_id_or_secret_is_named(driver: OAuthDriver, application: Registered, name: str) -> None:
    code = CodeFactory(application=application).raw
    sentences = set()
    for padded in ("{} ", "{}\r\n", " {}", "\t{}", "{}\u00a0", " "):
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


@pytest.mark.integration
@contract("D12.basic", "D12.both", "D19/invalid_client")
def test_http_basic_is_accepted_alone_and_beside_the_same_body(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    right = basic(application.client_id, application.client_secret)
    assert driver.exchange(application, code, headers=right, **IN_HEADER).status_code == 200
    lower = {"Authorization": right["Authorization"].replace("Basic", "basic")}
    for headers, sent in (
        (lower, IN_HEADER),
        (right, {}),
        (right, {"client_id": None}),
        (right, {"client_secret": None}),
    ):
        code = CodeFactory(application=application).raw
        assert driver.exchange(application, code, headers=headers, **sent).status_code == 200


@contract("D12.empty-password", "D9.public", "D19/invalid_client")
def test_basic_with_an_empty_password_is_as_an_empty_secret(driver: OAuthDriver, application: Registered) -> None:
    """Libraries send it for an application without a secret. It says nothing about the one that has a secret."""
    public = ApplicationFactory(client_type=Application.CLIENT_PUBLIC)
    proof = {"client_secret": None, "code_verifier": VERIFIER}
    for sent in ({"client_id": None}, {"client_secret": ""}, {}):
        code = CodeFactory(application=public, code_challenge=challenge_of(VERIFIER)).raw
        header = basic(public.client_id, "")
        error_of(driver.exchange(public, code, headers=header, client_secret=None), 401, "invalid_client")
        error_of(driver.exchange(public, code, headers=header, **proof, client_id="x"), 400, "invalid_request")
        error_of(
            driver.exchange(public, code, headers=header, **{**proof, "client_secret": "x"}), 400, "invalid_request"
        )
        answer = driver.exchange(public, code, headers=header, **{**proof, **sent})
        assert answer.status_code == 200
        revoked = driver.call("POST", "/oauth/revoke", headers=header, data={"token": answer.json()["access_token"]})
        assert revoked.status_code == 200
        assert driver.userinfo(answer.json()["access_token"]).status_code == 401
    code = CodeFactory(application=application, code_challenge=challenge_of(VERIFIER)).raw
    said = set()
    for client_id in (application.client_id, "unknown"):
        answer = driver.exchange(application, code, headers=basic(client_id, ""), **proof, client_id=None)
        said.add(error_of(answer, 401, "invalid_client"))
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
    assert len(said) == 1
    assert driver.exchange(application, code, code_verifier=VERIFIER).status_code == 200


@contract("D12.basic", "D12.scheme", "D19/invalid_client", "D19.stranger")
def test_another_header_than_basic_is_told_without_its_credential(driver: OAuthDriver, application: Registered) -> None:
    secret = application.client_secret
    unreadable = ("Basic", "Basic ", "Basic !!!", "Basic YQ==", "Basic /w==", "Basic OgA6", "Basic Og==")
    hidden = ("{}", "{} x", "{}, x", "Basic={}", "Token:{} x", "{}{} x")
    schemes = ("token", "Bearer", "Digest", "X-Key-1")
    for value, said, client_id in (
        *((each, "base64", None) for each in unreadable),
        *((each.format(secret, secret), "has no scheme", application.client_id) for each in hidden),
        *(
            (f"{scheme} {secret}", f"the scheme {scheme}. Use Basic", client_id)
            for scheme in schemes
            for client_id in (application.client_id, "unknown", None)
        ),
    ):
        header = {"Authorization": value}
        answer = driver.exchange(application, "x", headers=header, client_id=client_id, client_secret=None)
        assert said in error_of(answer, 401, "invalid_client"), value
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
        assert secret[:16] not in answer.text
    for scheme in schemes:
        code, header = CodeFactory(application=application).raw, {"Authorization": f"{scheme} {secret}"}
        assert driver.exchange(application, code, headers=header).status_code == 200, "the body proves the client"


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


@contract("5.3", "D13.unspent")
def test_neither_secret_nor_code_of_an_application_opens_another(driver: OAuthDriver, application: Registered) -> None:
    hers, code = ApplicationFactory(), CodeFactory(application=application).raw
    for secret in (hers.client_secret, TokenFactory(application=application).raw):
        error_of(driver.exchange(application, code, client_secret=secret), 401, "invalid_client")
    error_of(driver.exchange(hers, code, client_id=application.client_id), 401, "invalid_client")
    error_of(driver.exchange(hers, code), 400, "invalid_grant")
    assert not AccessToken.objects.filter(application=hers.row).exists()
    assert driver.exchange(application, code).status_code == 200
