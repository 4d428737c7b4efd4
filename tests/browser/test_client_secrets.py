"""An administrator rotates a client secret in a real browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import flaws, press
from tests.driver import OAuthDriver
from tests.factories import CodeFactory, Registered


def status(driver: OAuthDriver, application: Registered, secret: str) -> int:
    """The answer to an exchange with the secret."""
    return driver.exchange(application, CodeFactory(application=application).raw, client_secret=secret).status_code


def test_all_secrets_end_once_that_is_confirmed_and_the_new_one_is_saved_as_a_file(
    administrator: Page, driver: OAuthDriver, application: Registered
) -> None:
    """The file is made in the browser: no request is sent, and the address names no secret."""
    page, first = administrator, application.client_secret
    page.goto(f"{driver.auth_url}/admin/oauth_bridge/application/{application.row.pk}/")
    wrong = flaws(page)
    press(page, "New secret …")
    wrong += flaws(page)
    page.get_by_role("button", name="End all and make a new one").click()
    assert status(driver, application, first) == 200, "nothing was confirmed"
    page.get_by_label("I know that nobody can sign in").check()
    press(page, "End all and make a new one")
    new = page.locator("#client-secret").inner_text()
    wrong += flaws(page)
    assert [status(driver, application, secret) for secret in (first, new)] == [401, 200]
    assert wrong == []

    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    with page.expect_download() as download:
        page.get_by_role("button", name="Download both as a file").click()
    saved = download.value.path().read_text(encoding="utf-8")
    assert saved == f"CLIENT_ID={application.client_id}\nCLIENT_SECRET={new}\n"
    assert download.value.suggested_filename == "client-credentials.env"
    assert [url for url in sent if not url.startswith("blob:")] == []
    assert new not in "".join(sent) + page.url
    press(page, page.get_by_role("link", name="I have saved it"))
    expect(page.locator("#client-secret")).to_have_count(0)
