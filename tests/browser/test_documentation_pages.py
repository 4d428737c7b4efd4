"""The documents below /docs in Chromium: each in light, dark and at 320 px, copying, without script."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Open, cut_off, violations
from tests.driver import OAuthDriver

PAGES = ["/docs", "/docs/guide", "/docs/connect", "/docs/reference", "/docs/errors"]


def test_each_document_is_right_also_dark_on_a_telephone_within_an_arabic_page(
    open_browser: Open, driver: OAuthDriver
) -> None:
    """Each look once: axe takes seconds for a document."""
    arabic = {"locale": "ar", "color_scheme": "dark", "viewport": {"width": 320, "height": 640}}
    wrong = []
    for page in (open_browser().new_page(), open_browser(**arabic).new_page()):
        for path in PAGES:
            page.goto(driver.auth_url + path)
            page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true })")
            wrong += [*violations(page), *cut_off(page)]
    assert wrong == []


def test_code_is_copied_with_one_button(open_browser: Open, driver: OAuthDriver) -> None:
    page = open_browser(permissions=["clipboard-read", "clipboard-write"]).new_page()
    page.goto(f"{driver.auth_url}/docs/guide")
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("status")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(".venv/bin/python manage.py application create")


def test_they_need_no_script(open_browser: Open, driver: OAuthDriver) -> None:
    page = open_browser(java_script_enabled=False).new_page()
    page.goto(f"{driver.auth_url}/docs")
    page.get_by_role("navigation", name="Documentation").get_by_role("link", name="Libraries and products").click()
    page.get_by_text("On this page").click()
    page.get_by_role("link", name="Grafana").click()
    expect(page.get_by_role("heading", name="Grafana")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)
