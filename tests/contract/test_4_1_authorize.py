"""Specification 4.1: the authorization request, from the link to the answer of the person."""

from __future__ import annotations

from typing import Any

import pytest

from oauth_bridge.credentials.code_redemption import challenge_of
from oauth_bridge.models import Application, AuthorizationCode
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Registered

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636, Appendix B
S256 = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}

UNVERIFIED: list[dict[str, str | None]] = [
    {"client_id": None},
    {"client_id": ""},
    {"client_id": "unknown"},
    {"client_id": "un\x00known"},
    {"client_id": "x" * 1_000},
    {"redirect_uri": None},
    {"redirect_uri": ""},
    {"redirect_uri": "https://evil.example/"},
    {"redirect_uri": "https://client.example/callback/"},
    {"client_id": "unknown", "response_type": "token"},
    {"redirect_uri": "https://evil.example/", "response_type": None},
]


@contract("2.1/client_id", "2.1/redirect_uri", "4.1/client_id", "4.1/redirect_uri", "5.4", "7/400")
@contract("D3.nothing-before", "D4.json", "D4.page", "D19.page")
@pytest.mark.parametrize("changes", UNVERIFIED, ids=str)
def test_an_unverified_request_is_a_400_in_json_for_programs_and_as_a_page_for_people(
    driver: OAuthDriver, application: Registered, changes: dict[str, str | None]
) -> None:
    link = driver.authorization_url(application, **changes)
    for accept in ("*/*", "text/plain", None):
        answer = driver.get(link, headers={"Accept": accept})
        error_of(answer, 400, "invalid_request")
        assert "Location" not in answer.headers
    answer = driver.get(link)
    assert answer.status_code == 400
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "Location" not in answer.headers
    page = Page(answer)
    assert (changes.get("redirect_uri") or "") in "".join(page.words)
    assert page.refresh is None
    assert not any("evil.example" in link for link in page.links)


OPENID = {"scope": "openid"}
# What else the request says, the parameter that is wrong, the error, and the wrong values.
FAULTS: list[tuple[dict[str, str], str, str, tuple[str | None, ...]]] = [
    ({}, "response_type", "invalid_request", (None, "")),
    ({}, "response_type", "unsupported_response_type", ("token", "code token", "Code")),
    ({"code_challenge": VERIFIER}, "code_challenge_method", "invalid_request", ("plain", None)),
    ({"code_challenge": CHALLENGE}, "code_challenge_method", "invalid_request", ("s256",)),
    (
        {"code_challenge_method": "S256"},
        "code_challenge",
        "invalid_request",
        (CHALLENGE[:-1], f"{CHALLENGE}=", None, ""),
    ),
    *(
        ({"scope": scope}, *each)
        for scope in ("profile", "openid")
        for each in (
            ("request", "request_not_supported", ("e30.e30.",)),
            ("request_uri", "request_uri_not_supported", ("https://app.example/request",)),
            ("response_mode", "invalid_request", ("fragment", "query.jwt")),
        )
    ),
    (OPENID, "nonce", "invalid_request", ("n" * 513,)),
    (OPENID, "claims", "invalid_request", ("{", "[]", '{"userinfo": 3}', "[" * 2000, f'{{"{"n" * 2000}": 1}}')),
    (OPENID, "max_age", "invalid_request", ("-1", "1.5", "x", "1" * 10, "\u0663")),
    (OPENID, "prompt", "invalid_request", ("none login",)),
]


@contract("4.1/response_type", "D3.order", "D4.later", "D9.plain", "D12.repeated", "D18.plain", "D19/unsupported")
@contract("D3.nothing-before", "I6.refused")
@pytest.mark.parametrize("is_signed_in", [True, False])
def test_a_later_fault_goes_to_the_callback_before_anybody_is_asked_to_sign_in(
    driver: OAuthDriver, application: Registered, alice: Any, is_signed_in: bool
) -> None:
    if is_signed_in:
        driver.signed_in(alice.email, PASSWORD)
    links = [
        (driver.authorization_url(application, state="s p", **{**more, name: value}), error, name)
        for more, name, error, values in FAULTS
        for value in values
    ]
    for scope, names in (
        ("profile", ("response_type", "scope", "code_challenge")),
        ("openid", ("nonce", "prompt", "max_age", "claims", "response_mode", "id_token_hint")),
    ):
        link = driver.authorization_url(application, state="s p", scope=scope, **S256)
        links += [(f"{link}&{name}=code&{name}=code", "invalid_request", name) for name in names]
        links += [(f"{link}&state=s%20p", "invalid_request", "state")]
    for link, error, named in links:
        answer = driver.get(link)
        assert answer.status_code in (302, 303)
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        callback = driver.callback(answer)
        assert callback.address == application.redirect_uri
        iss = {"iss": driver.base_url} if "scope=openid" in link else {}
        told = callback.parameters
        assert set(told) == {"error", "error_description", "state", *iss}
        assert told.items() >= {"error": error, "state": "s p", **iss}.items(), link[-200:]
        assert told["error_description"].isascii()
        assert named in told["error_description"]
    link = driver.authorization_url(application)
    for name in ("client_id", "redirect_uri"):
        for extra in (getattr(application, name), "https://evil.example/"):
            answer = driver.get(f"{link}&{name}={extra}", headers={"Accept": "*/*"})
            assert name in error_of(answer, 400, "invalid_request")


@contract("D9.s256", "D9.public", "D9.confidential", "D9.unasked")
@pytest.mark.parametrize("kind", [Application.CLIENT_CONFIDENTIAL, Application.CLIENT_PUBLIC])
def test_a_challenge_is_enforced_and_public_clients_need_one(driver: OAuthDriver, alice: Any, kind: str) -> None:
    application = ApplicationFactory(client_type=kind)
    is_public, secret = application.row.is_public, application.client_secret or None
    code = driver.authorize(driver.authorization_url(application, **S256), alice.email, PASSWORD).parameters["code"]
    for verifier in (None, "", "x" * 43, VERIFIER + "x", CHALLENGE):
        expected = (400, "invalid_grant") if verifier or not is_public else (401, "invalid_client")
        error_of(driver.exchange(application, code, client_secret=secret, code_verifier=verifier), *expected)
    assert driver.exchange(application, code, client_secret=secret, code_verifier=VERIFIER).status_code == 200
    without = driver.authorize(driver.authorization_url(application), "", "").parameters
    if is_public:
        assert without["error"] == "invalid_request"
    else:
        error_of(driver.exchange(application, without["code"], code_verifier=VERIFIER), 400, "invalid_grant")
        assert driver.exchange(application, without["code"]).status_code == 200


@contract("D9.verifier", "D13.unspent")
@pytest.mark.parametrize("kind", [Application.CLIENT_CONFIDENTIAL, Application.CLIENT_PUBLIC])
def test_a_malformed_verifier_alone_is_refused_and_spends_nothing(driver: OAuthDriver, kind: str) -> None:
    application = ApplicationFactory(client_type=kind)
    code = CodeFactory(application=application, code_challenge=CHALLENGE).raw
    secret = application.client_secret or None
    for verifier in ("v" * 42, "v" * 129, "v" * 60_000, "v" * 42 + "+", "v" * 43 + " ", "é" * 43, "٣" * 43):
        for presented in (code, "unknown"):
            answer = driver.exchange(application, presented, client_secret=secret, code_verifier=verifier)
            assert "43 to 128 characters" in error_of(answer, 400, "invalid_request")
    answer = driver.exchange(application, code, client_secret="wrong", code_verifier="v")
    error_of(answer, 401, "invalid_client")
    assert driver.exchange(application, code, client_secret=secret, code_verifier=VERIFIER).status_code == 200
    for verifier in ("v" * 43, "v" * 128, "aZ09-._~" * 6):
        code = CodeFactory(application=application, code_challenge=challenge_of(verifier)).raw
        assert driver.exchange(application, code, client_secret=secret, code_verifier=verifier).status_code == 200


@contract("D18.none", "D18.unknown", "I4.plain")
def test_any_scope_gives_four_members_and_openid_alone_more(signed_in: OAuthDriver, application: Registered) -> None:
    for scope in (None, "", "profile", "profile email groups", "unknown", 'a"b \\ \x00', "x" * 2000):
        link = signed_in.authorization_url(application, scope=scope, nonce="n", claims="{")
        callback = signed_in.authorize(link, "", "").parameters
        assert set(callback) == {"code", "state"}
        answer = signed_in.exchange(application, callback["code"]).json()
        assert set(answer) == {"access_token", "token_type", "expires_in"}
        told = signed_in.userinfo(answer["access_token"]).json()
        assert set(told) == {"sub", "nickname", "email", "avatar"}, scope
    assert {code.openid for code in AuthorizationCode.objects.filter(application=application.row)} == {None}


@contract("I6.form-post", "D18.plain")
def test_a_plain_request_is_answered_in_the_way_it_asks_for(signed_in: OAuthDriver, application: Registered) -> None:
    for decision, members in (("refuse", {"error", "error_description"}), ("allow", {"code"})):
        link = signed_in.authorization_url(application, response_mode="form_post", state='a"<b>&\u00e9')
        answer = signed_in.decide(signed_in.open(link), decision)
        [form] = [form for form in Page(answer).forms if form.action == application.redirect_uri]
        assert (form.method, set(form.fields)) == ("post", {"state", *members})
        assert form.fields["state"] == 'a"<b>&\u00e9'
        assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
    assert signed_in.exchange(application, form.fields["code"]).status_code == 200
    page = signed_in.open(signed_in.authorization_url(application, response_mode="query"))
    assert "code" in signed_in.callback(signed_in.decide(page)).parameters


@contract("D18.misspelt", "4.1/state")
def test_a_misspelt_openid_does_not_become_plain_oauth(signed_in: OAuthDriver, application: Registered) -> None:
    for scope in (
        "OpenID",
        "Openid profile",
        "openid,profile,email",
        "profile;openid",
        "openid+profile",
        "openid%20profile",
        "openid%2Bprofile",
        "profile OPENID,email",
        "email,Openid+profile groups",
    ):
        answer = signed_in.callback(signed_in.get(signed_in.authorization_url(application, scope=scope, state="s")))
        assert (answer.parameters["error"], answer.parameters["state"]) == ("invalid_scope", "s"), scope
        assert "separate scopes by one space" in answer.parameters["error_description"]
    for scope in ("openid OpenID", "openid openid,profile"):
        assert Page(signed_in.open(signed_in.authorization_url(application, scope=scope))).consent
    for scope in ("openid2", "https://openid.example/openid", "open id", "my:openid", "not-openid", "open,id"):
        callback = signed_in.authorize(signed_in.authorization_url(application, scope=scope), "", "")
        assert set(callback.parameters) == {"code", "state"}, scope


def codes_of(application: Registered) -> int:
    return AuthorizationCode.objects.filter(application=application.row).count()


@contract("D8.head", "D8.speculative", "D20.no-store")
def test_neither_head_nor_a_speculative_request_nor_one_of_a_frame_gets_a_code(signed_in: OAuthDriver) -> None:
    trusted = ApplicationFactory(is_trusted=True)
    link = signed_in.authorization_url(trusted)
    opened = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for purpose in ("prefetch", "prefetch;prerender", "Prefetch; anonymous-client-ip"):
        for name in ("Sec-Purpose", "Purpose"):
            answer = signed_in.get(link, headers={name: purpose, **opened})
            assert (answer.status_code, answer.headers["Cache-Control"]) == (503, "no-store"), name
            assert int(answer.headers["Retry-After"]) >= 1
    answers = [signed_in.get(link, headers={"Sec-Fetch-Dest": each}) for each in ("image", "iframe", "empty")]
    head = signed_in.browser.head(link, allow_redirects=False, timeout=10)
    assert head.status_code in (200, 405)
    assert [answer.headers.get("Location") for answer in (*answers, head)] == [None] * 4
    assert codes_of(trusted) == 0
    signed_in.get(link, headers=opened)
    assert codes_of(trusted) == 1


@contract("D16.unverified", "D16.email")
def test_without_a_confirmed_address_nobody_completes_an_authorization(
    driver: OAuthDriver, another_driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    open_page = another_driver.consent_page(application, alice.email, PASSWORD)
    alice.email_verified_at = None
    alice.save()
    stopped = another_driver.decide(open_page)
    assert "not confirmed" in Page(stopped).text
    assert "Send me a code" in Page(stopped).text
    for answer in (
        stopped,
        driver.consent_page(application, alice.email, PASSWORD),
        driver.open(driver.authorization_url(application)),
    ):
        assert "code" in Page(answer).text
        assert Page(answer).forms, "the page offers a way on"
        assert (Page(answer).consent, answer.headers.get("Location")) == (None, None)
    assert codes_of(application) == 0
