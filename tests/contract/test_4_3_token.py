"""Specification 4.3: the exchange of a code for an access token."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from oauth_bridge.models import AccessToken, Application
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, Registered, rewind

FORM = "application/x-www-form-urlencoded"
UNKNOWN = "&resource=https%3A%2F%2Fa.example&audience=a&utm_source=%ff&x%ff=%00&=&scope=openid&client_secrets=x"


@contract("4.3/grant_type", "4.3/code", "4.3/client_id", "7/400", "D19/invalid_request", "D20.pragma")
@contract("D12.url", "D12.repeated", "D12.media-type", "2.1/client_secret", "4.3")
def test_what_is_wrong_with_the_form_is_named_and_spends_nothing(driver: OAuthDriver, application: Registered) -> None:
    secret, code = application.client_secret, CodeFactory(application=application).raw
    sent = {"grant_type": "authorization_code", "code": code, "client_id": application.client_id}
    sent |= {"client_secret": secret, "redirect_uri": application.redirect_uri, "code_verifier": "v" * 43}
    required = ("grant_type", "code", "client_id")
    for query, form, media_type, named in (
        *(("", {key: value for key, value in sent.items() if key != name}, FORM, name) for name in required),
        *(("", {**sent, name: ""}, FORM, name) for name in required),
        *(("", [*sent.items(), pair], FORM, pair[0]) for pair in sent.items()),
        (urlencode(sent), {}, FORM, "URL"),
        (urlencode({"client_secret": secret}), sent, FORM, "URL"),
        ("x=y", sent, FORM, "URL"),
        *(("", sent, each, each) for each in ("application/json", "text/plain", f"{FORM}x", "", "é")),
        ("", sent, "multipart/form-data; boundary=x", "multipart/form-data"),
    ):
        headers = {"Content-Type": media_type.encode("latin-1")}
        answer = driver.call("POST", f"/oauth/token?{query}".rstrip("?"), data=urlencode(form), headers=headers)
        description = error_of(answer, 400, "invalid_request")
        assert named in description or named == "é"
        assert (FORM in description) is (media_type != FORM)
        assert answer.headers["Pragma"] == "no-cache"
        assert secret not in answer.text
    assert driver.exchange(application, code).status_code == 200
    for same in (f"{FORM};charset=UTF-8", "Application/X-WWW-Form-URLEncoded", f"{FORM}; x=y"):
        code = CodeFactory(application=application).raw
        assert driver.exchange(application, code, headers={"Content-Type": same}).status_code == 200, same


@contract("D12.unknown", "4.3")
def test_unknown_parameters_are_ignored_however_often_they_are_sent(driver: OAuthDriver, alice: Any) -> None:
    """RFC 6749 §3.1, §3.2; RFC 8707 §2 lets `resource` occur many times."""
    application = ApplicationFactory(post_logout_redirect_uris="https://client.example/")
    many = UNKNOWN * 200
    link = driver.authorization_url(application) + UNKNOWN.replace("&scope=openid", "") * 20
    callback = driver.authorize(link, alice.email, PASSWORD)
    assert "code" in callback.parameters
    proof = urlencode({"client_id": application.client_id, "client_secret": application.client_secret})
    sent = {"grant_type": "authorization_code", "code": callback.parameters["code"]}
    exchanged = driver.post_token(f"{proof}&{urlencode(sent)}{many}")
    assert set(exchanged.json()) == {"access_token", "token_type", "expires_in"}
    form = {"Content-Type": FORM}
    body = f"{proof}&token={exchanged.json()['access_token']}{many}"
    assert driver.call("POST", "/oauth/introspect", data=body, headers=form).json()["active"] is True
    read = driver.call("POST", "/oauth/userinfo", data=body.replace("&token=", "&access_token="), headers=form)
    assert read.json()["sub"] == str(alice.pk)
    assert driver.call("POST", "/oauth/revoke", data=body, headers=form).status_code == 200
    after = urlencode({"client_id": application.client_id, "post_logout_redirect_uri": "https://client.example/"})
    asked = Page(driver.open(f"/oauth/logout?{after}{UNKNOWN * 20}"))
    assert [form for form in asked.forms if "leaving" in form.fields]
    error_of(driver.post_token(f"{proof}&{urlencode(sent)}{UNKNOWN * 2000}"), 413, "invalid_request")


@contract("D10.absent", "D10.equal", "D15.dump", "D19/invalid_grant", "D19.sentence")
def test_a_callback_address_that_is_sent_must_be_that_of_the_code(driver: OAuthDriver) -> None:
    """Both are shown: bounded, encoded and without a credential."""
    application = ApplicationFactory(redirect_uris="https://client.example/callback\nhttps://client.example/two")
    code, secret = CodeFactory(application=application).raw, application.client_secret
    for address, shown in {
        "https://client.example/two": "https://client.example/two",
        "https://client.example/callback/": "https://client.example/callback/",
        "https://CLIENT.example/callback": "https://CLIENT.example/callback",
        'https://a.example/"\\ é\u202e?x=%20': "https://a.example/%22%5C%20%C3%A9%E2%80%AE?x=%20",
        f"https://a.example/?code={code}&state=1": "https://a.example/?code=...&state=1",
        f"https://a.example/{secret}": "https://a.example/...",
        "https://a.example/" + "x" * 60_000: "https://a.example/" + "x" * 282 + "...",
        **dict.fromkeys(("x", code, secret), "not an absolute address"),
        "https%3A%2F%2Fclient.example%2Fcallback": "percent-encoded twice",
    }.items():
        answer = driver.exchange(application, code, redirect_uri=address)
        said = f"The redirect_uri is {shown}, but the code was issued for https://client.example/callback. Send"
        assert said in error_of(answer, 400, "invalid_grant")
        assert code not in answer.text
        assert secret not in answer.text
    assert driver.exchange(application, code, redirect_uri="https://client.example/callback").status_code == 200
    code = CodeFactory(application=application).raw
    assert driver.exchange(application, code).status_code == 200, "it may be absent, also with two registered"


@contract("D10.equal", "D19.stranger", "5.3")
def test_nobody_else_is_shown_the_address_of_a_code(driver: OAuthDriver) -> None:
    registered = "https://hidden.example/callback"
    alices, hers = ApplicationFactory(redirect_uris=registered), ApplicationFactory()
    public = ApplicationFactory(redirect_uris=registered, client_type=Application.CLIENT_PUBLIC)
    code = CodeFactory(application=alices, redirect_uri=registered).raw
    challenged = CodeFactory(application=public, redirect_uri=registered, code_challenge="E" * 43).raw
    for application, stolen, proof in (
        (hers, code, {}),
        (alices, code, {"client_secret": "wrong"}),
        (alices, code, {"client_secret": None, "code_verifier": "v" * 43}),
        (public, challenged, {"client_secret": None, "code_verifier": "v" * 43}),
    ):
        answer = driver.exchange(application, stolen, redirect_uri="https://hers.example/", **proof)
        assert answer.status_code in (400, 401)
        assert "hidden.example" not in answer.text


@pytest.mark.integration
@contract("D19/invalid_grant", "7/400", "2.2/use", "D13.no-row")
def test_a_code_that_was_never_issued_or_has_expired_is_refused(driver: OAuthDriver, application: Registered) -> None:
    """An expired code says nothing of the person. Each cause: tests/unit/test_bridge_causes.py."""
    for code in ("x", "x" * 10_000, "é☃", "' OR 1=1 --", "%00", "a b", "../../x", '"quoted\\"'):
        assert "is not known" in error_of(driver.exchange(application, code), 400, "invalid_grant")
    for person in (PersonFactory(), PersonFactory(is_active=False)):
        expired = CodeFactory(application=application, user=person)
        rewind(expired.row, 601)
        assert "10 minutes" in error_of(driver.exchange(application, expired.raw), 400, "invalid_grant")
    assert not AccessToken.objects.filter(application=application.row).exists()
