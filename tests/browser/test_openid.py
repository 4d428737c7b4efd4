"""OpenID Connect in a real browser: the posted answer, and signing out across sites."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Error, Page, expect

from oauth_bridge.models import Application
from tests.browser.conftest import APP, Way, allow

OPENID = {"scope": "openid profile email", "nonce": "n"}


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_the_answer_is_posted_once(way: Way, script: bool) -> None:
    page = way.to_consent(script=script, state="a b", response_mode="form_post", **OPENID)
    page.get_by_role("button", name="Allow").click()
    if not script:
        page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Back")).to_be_visible()
    assert way.client.last["state"] == "a b"
    way.redeem()
    with suppress(Error):  # Chromium does not send a form again by itself
        page.go_back()
    assert len(way.client.calls) == 1


def test_an_application_leads_on_to_an_app_after_each_form(way: Way) -> None:
    """The browser may follow any redirect of the application after consent, a posted answer and a sign-out."""
    page = way.to_consent()
    for address in way.client.to_app:
        way.begin(page, redirect_uri=address)
        goes_on(page, "Allow", "Continue")
        page.reload()
        goes_on(page, "Allow", "Continue")  # the page answers again, until a code is redeemed
        way.redeem(redirect_uri=address)
        way.begin(page, redirect_uri=address, response_mode="form_post", **OPENID)
        goes_on(page, "Allow", "Continue")
        way.redeem(redirect_uri=address)
    Application.objects.filter(pk=way.application.row.pk).update(post_logout_redirect_uris=address)
    sent = {"client_id": way.application.client_id, "post_logout_redirect_uri": address}
    page.goto(f"{way.server.auth_url}/oauth/logout?{urlencode(sent)}")
    goes_on(page, "Sign out")
    is_signed_out(way, page)


def goes_on(page: Page, *buttons: str) -> None:
    """One of the buttons leads through the application's server to its app. `open_browser` hears CSP violations."""
    with page.expect_event("requestfailed", lambda request: request.url.startswith(APP)):
        page.get_by_role("button", name=re.compile("|".join(buttons))).click()


def is_signed_out(way: Way, page: Page) -> None:
    way.begin(page)
    expect(page.get_by_label("Password", exact=True)).to_be_visible()


def test_the_question_of_a_sign_out_leads_back_to_the_application(way: Way) -> None:
    after = f"{way.application.redirect_uri}?after=1"
    Application.objects.filter(pk=way.application.row.pk).update(post_logout_redirect_uris=after)
    page = way.to_consent()
    sent = {"client_id": way.application.client_id, "post_logout_redirect_uri": after, "state": "a b"}
    page.goto(f"{way.server.auth_url}/oauth/logout?{urlencode(sent)}")
    expect(page.get_by_role("heading", name="Sign out of")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("after=1&state=a%20b"))
    is_signed_out(way, page)


def test_a_form_of_the_application_signs_out_with_the_cookies_of_the_person(way: Way) -> None:
    """A post of another site has no cookies in Chromium; the redirect after it has them."""
    page = way.to_consent(**OPENID)
    allow(page)
    page.evaluate(
        """([action, token]) => {
          const form = Object.assign(document.createElement("form"), { method: "post", action });
          form.append(Object.assign(document.createElement("input"), { name: "id_token_hint", value: token }));
          document.body.append(form);
          form.submit();
        }""",
        [f"{way.server.auth_url}/oauth/logout", way.redeem()["id_token"]],
    )
    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    is_signed_out(way, page)
