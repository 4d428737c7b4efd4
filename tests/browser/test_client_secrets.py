"""An administrator rotates a client secret in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open, press, sign_in
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, CodeFactory, PersonFactory, Registered


def at_the_application(page: Page, driver: OAuthDriver, application: Registered) -> Page:
    administrator = PersonFactory(is_staff=True, is_superuser=True)
    page.goto(f"{driver.auth_url}/accounts/sign-in")
    sign_in(page, administrator.email, PASSWORD)
    page.goto(f"{driver.auth_url}/admin/oauth_bridge/application/{application.row.pk}/")
    return page


def check(page: Page) -> None:
    """axe finds no violation, and no content is cut off."""
    answer = Axe().run(page)
    found: list[dict[str, Any]] = answer.response["violations"]
    assert [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("window.innerWidth")


def status(driver: OAuthDriver, application: Registered, secret: str) -> int:
    answer = driver.exchange(application, CodeFactory(application=application).raw, client_secret=secret)
    return int(answer.status_code)


@contract("O.application.rotate-secret", "O.application.rotate-now")
@pytest.mark.parametrize(
    "options",
    [
        {"color_scheme": "light"},
        {"color_scheme": "dark"},
        {"viewport": {"width": 320, "height": 640}},
    ],
    ids=["light", "dark", "320 px"],
)
def test_a_secret_is_replaced_with_an_overlap_and_at_once(
    open_browser: Open, driver: OAuthDriver, application: Registered, options: dict[str, Any]
) -> None:
    page = at_the_application(open_browser(**options).new_page(), driver, application)
    check(page)
    press(page, page.get_by_role("link", name="New secret …"))
    check(page)
    page.get_by_label("7 days").check()
    press(page, page.get_by_role("button", name="Make a new secret"))
    second = page.locator("#client-secret").inner_text()
    check(page)
    for secret in (application.client_secret, second):
        assert status(driver, application, secret) == 200

    press(page, page.get_by_role("link", name="I have saved it"))
    press(page, page.get_by_role("link", name="New secret …"))
    expect(page.locator("#client-secret")).to_have_count(0)
    page.get_by_role("button", name="End all and make a new one").click()
    assert status(driver, application, second) == 200, "nothing was confirmed"
    page.get_by_label("I know that nobody can sign in").check()
    press(page, page.get_by_role("button", name="End all and make a new one"))
    third = page.locator("#client-secret").inner_text()
    check(page)
    assert [status(driver, application, each) for each in (application.client_secret, second, third)] == [401, 401, 200]


def test_a_new_secret_is_saved_as_a_file_and_an_older_one_is_ended(
    open_browser: Open, driver: OAuthDriver, application: Registered, tmp_path: Path
) -> None:
    """The file is made in the browser: no request is sent, and the address names no secret."""
    page = at_the_application(open_browser(viewport={"width": 320, "height": 640}).new_page(), driver, application)
    press(page, page.get_by_role("link", name="New secret …"))
    page.get_by_label("A note").fill("Of the shop")
    press(page, page.get_by_role("button", name="Make a new secret"))
    new = page.locator("#client-secret").inner_text()
    check(page)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    with page.expect_download() as download:
        page.get_by_role("button", name="Download both as a file").click()
    download.value.save_as(tmp_path / "file")
    saved = (tmp_path / "file").read_text(encoding="utf-8")
    assert saved == f"CLIENT_ID={application.client_id}\nCLIENT_SECRET={new}\n"
    assert download.value.suggested_filename == "client-credentials.env"
    assert [url for url in sent if not url.startswith("blob:")] == []
    assert new not in "".join(sent) + page.url

    token = driver.exchange(application, CodeFactory(application=application).raw).json()["access_token"]
    page.goto(page.url)
    page.get_by_label("Secret", exact=True).select_option(label="No. 1")
    page.get_by_label("It has leaked").check()
    page.get_by_label("I know that the application").check()
    press(page, page.get_by_role("button", name="End this secret"))
    expect(page.get_by_text("Client secret No. 1 had leaked")).to_be_visible()
    check(page)
    assert driver.userinfo(token).status_code == 401
    assert [status(driver, application, each) for each in (application.client_secret, new)] == [401, 200]
