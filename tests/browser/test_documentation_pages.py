"""The documents below /docs in Chromium: axe, 320 px, dark, copying, without script."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.driver import OAuthDriver

PAGES = ["/docs", "/docs/guide", "/docs/connect", "/docs/reference", "/docs/errors"]
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 800}},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 320, "height": 640}},
    "arabic": {"viewport": {"width": 320, "height": 640}, "locale": "ar"},
}


@pytest.mark.parametrize("look", LOOKS)
def test_each_document_is_right_in_each_look(open_browser: Open, driver: OAuthDriver, look: str) -> None:
    page = open_browser(**LOOKS[look]).new_page()
    wrong = []
    for path in PAGES:
        page.goto(driver.auth_url + path)
        page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true })")
        found: list[dict[str, Any]] = Axe().run(page).response["violations"]
        wrong += [f"{path} {each['id']}: {node['html'][:160]}" for each in found for node in each["nodes"]]
        if (width := page.evaluate("document.documentElement.scrollWidth")) > page.evaluate("window.innerWidth"):
            wrong.append(f"{path} is {width} px wide")
    assert wrong == []


def test_code_is_copied_with_one_button(open_browser: Open, driver: OAuthDriver) -> None:
    context = open_browser(**LOOKS["light"], permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
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
