"""An administrator rotates a client secret in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import flaws, press
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import CodeFactory, Registered


@pytest.fixture
def at_the_application(administrator: Page, driver: OAuthDriver, application: Registered) -> Page:
    administrator.goto(f"{driver.auth_url}/admin/oauth_bridge/application/{application.row.pk}/")
    return administrator


def statuses(driver: OAuthDriver, application: Registered, *secrets: str) -> list[int]:
    """The answers to an exchange with each secret."""
    codes = [(CodeFactory(application=application).raw, secret) for secret in secrets]
    return [driver.exchange(application, code, client_secret=secret).status_code for code, secret in codes]


@contract("O.application.rotate-secret", "O.application.rotate-now")
def test_a_secret_is_replaced_with_an_overlap_and_at_once(
    at_the_application: Page, driver: OAuthDriver, application: Registered
) -> None:
    page, first = at_the_application, application.client_secret
    wrong = flaws(page)
    press(page, "New secret …")
    wrong += flaws(page)
    page.get_by_label("7 days").check()
    press(page, "Make a new secret")
    second = page.locator("#client-secret").inner_text()
    wrong += flaws(page)
    assert statuses(driver, application, first, second) == [200, 200]

    press(page, page.get_by_role("link", name="I have saved it"))
    press(page, "New secret …")
    expect(page.locator("#client-secret")).to_have_count(0)
    page.get_by_role("button", name="End all and make a new one").click()
    assert statuses(driver, application, second) == [200], "nothing was confirmed"
    page.get_by_label("I know that nobody can sign in").check()
    press(page, "End all and make a new one")
    third = page.locator("#client-secret").inner_text()
    wrong += flaws(page)
    assert statuses(driver, application, first, second, third) == [401, 401, 200]
    assert wrong == []


def test_a_new_secret_is_saved_as_a_file(at_the_application: Page, application: Registered, tmp_path: Path) -> None:
    """The file is made in the browser: no request is sent, and the address names no secret."""
    page = at_the_application
    press(page, "New secret …")
    page.get_by_label("A note").fill("Of the shop")
    press(page, "Make a new secret")
    new = page.locator("#client-secret").inner_text()
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
