"""The OpenID Foundation's plans RP-Initiated Logout OP and Back-Channel Logout OP: a test for each module, by name."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest

from tests.contract.openid_conformance import LOGOUT_PLANS, Client
from tests.contract.test_openid import verified
from tests.contract.test_openid_conformance import name_of
from tests.driver import OAuthDriver, Page
from tests.factories import ApplicationFactory
from tests.logout_receiver import Receiver

AFTER = "https://client.example/post_logout_redirect"
EVENT = "http://schemas.openid.net/event/backchannel-logout"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().listening() as found:
        yield found


@pytest.fixture
def client(driver: OAuthDriver, alice: Any, receiver: Receiver) -> Client:
    application = ApplicationFactory(post_logout_redirect_uris=AFTER, backchannel_logout_uri=receiver.url)
    return Client(driver, application, alice, {})


def test_every_module_of_the_plans_has_a_test() -> None:
    modules = {module for plan in LOGOUT_PLANS.values() for module in plan}
    assert {module for module in modules if not hasattr(sys.modules[__name__], name_of(module))} == set()


def leave(client: Client, **changes: str | None) -> tuple[Any, str]:
    """The answer to the end session request of a person who has signed in, and its `state`."""
    state = secrets.token_urlsafe(96)
    given = {"id_token_hint": client.flow().id_token, "post_logout_redirect_uri": AFTER, "state": state, **changes}
    query = urlencode({name: value for name, value in given.items() if value is not None})
    return client.driver.open(f"/oauth/logout?{query}"), state


def is_signed_out(client: Client) -> bool:
    return client.error(client.ask(prompt="none")) == "login_required"


def assert_refused(answer: Any, client: Client) -> None:
    assert (answer.status_code, "Location" in answer.headers) == (400, False)
    assert not is_signed_out(client)


def assert_confirmed(answer: Any, client: Client) -> Any:
    """The page asks; the answer of the person signs out."""
    assert "Location" not in answer.headers
    [form] = [form for form in Page(answer).forms if "leaving" in form.fields]
    done = client.driver.submit(form)
    assert is_signed_out(client)
    return done


def is_signed_out_page(answer: Any) -> bool:
    return answer.status_code == 200 and "You are signed out" in Page(answer).text


# RP-Initiated Logout OP -----------------------------------------------------------------------------------------------


def test_rp_initiated_logout_discovery_endpoint_verification(driver: OAuthDriver) -> None:
    found = driver.call("GET", "/.well-known/openid-configuration").json()
    assert found["end_session_endpoint"] == f"{driver.auth_url}/oauth/logout"


def test_rp_initiated_logout(client: Client) -> None:
    answer, state = leave(client)
    assert answer.headers["Location"] == f"{AFTER}?state={state}"
    assert is_signed_out(client)


def test_rp_initiated_logout_bad_post_logout_redirect_uri(client: Client) -> None:
    assert_refused(leave(client, post_logout_redirect_uri=f"{AFTER}/bad")[0], client)


def test_rp_initiated_logout_query_added_to_post_logout_redirect_uri(client: Client) -> None:
    assert_refused(leave(client, post_logout_redirect_uri=f"{AFTER}?foo=bar")[0], client)


def test_rp_initiated_logout_modified_id_token_hint(client: Client) -> None:
    claims = jwt.decode(client.flow().id_token, options={"verify_signature": False})
    assert_refused(leave(client, id_token_hint=jwt.encode(claims, "", "none"))[0], client)


def test_rp_initiated_logout_bad_id_token_hint(client: Client) -> None:
    another = ApplicationFactory(post_logout_redirect_uris=AFTER).client_id
    claims = {"iss": client.driver.base_url, "sub": str(client.person.pk), "aud": another}
    assert_refused(leave(client, id_token_hint=jwt.encode(claims, "s" * 32, "HS256"))[0], client)


def test_rp_initiated_logout_no_id_token_hint(client: Client) -> None:
    answer, _ = leave(client, id_token_hint=None)
    assert_refused(answer, client)


def test_rp_initiated_logout_no_params(client: Client) -> None:
    answer, _ = leave(client, id_token_hint=None, post_logout_redirect_uri=None, state=None)
    assert is_signed_out_page(assert_confirmed(answer, client))


def test_rp_initiated_logout_no_post_logout_redirect_uri(client: Client) -> None:
    answer, _ = leave(client, post_logout_redirect_uri=None)
    assert is_signed_out_page(answer)
    assert is_signed_out(client)


def test_rp_initiated_logout_no_state(client: Client) -> None:
    assert leave(client, state=None)[0].headers["Location"] == AFTER
    assert is_signed_out(client)


def test_rp_initiated_logout_only_state(client: Client) -> None:
    answer, _ = leave(client, id_token_hint=None, post_logout_redirect_uri=None)
    assert is_signed_out_page(assert_confirmed(answer, client))


# Back-Channel Logout OP -----------------------------------------------------------------------------------------------


def test_backchannel_logout_discovery_endpoint_verification(driver: OAuthDriver) -> None:
    found = driver.call("GET", "/.well-known/openid-configuration").json()
    assert found["backchannel_logout_supported"] is found["backchannel_logout_session_supported"] is True
    assert found["end_session_endpoint"]


def test_backchannel_rp_initiated_logout(client: Client, receiver: Receiver) -> None:
    signed_in = client.flow()
    answer, state = leave(client)
    assert answer.headers["Location"] == f"{AFTER}?state={state}"
    end = time.monotonic() + 30
    while not receiver.requests and time.monotonic() < end:
        time.sleep(0.05)
    [(_path, _headers, form)] = receiver.requests
    assert set(form) == {"logout_token"}
    token = verified(client.driver, client.application, receiver.tokens[0])
    assert abs(time.time() - token["iat"]) < 60
    assert token["jti"]
    assert token["events"] == {EVENT: {}}
    assert (token["sub"], token["sid"]) == (signed_in.claims["sub"], signed_in.claims["sid"])
    assert "nonce" not in token
    assert is_signed_out(client)
