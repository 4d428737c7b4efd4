"""An installation's own logo and colour in a browser: they are seen, can be read, and run nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open, sign_in
from tests.browser.test_pages import violations
from tests.conftest import Launch
from tests.factories import PASSWORD

COLOR = "#7a1f5c"
LOGO = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 32" onload="document.documentElement.id = 'ran'">
<style>rect { fill: rgb(122, 31, 92) }</style><script>document.documentElement.id = 'ran'</script>
<rect width="160" height="32"/></svg>"""


@pytest.mark.parametrize("options", [{"color_scheme": "light"}, {"color_scheme": "dark"}], ids=["light", "dark"])
def test_the_pages_have_the_logo_and_the_colour(
    launch: Launch, open_browser: Open, alice: Any, tmp_path: Path, options: dict[str, Any]
) -> None:
    (tmp_path / "logo.svg").write_text(LOGO, encoding="utf-8")
    server = launch(SERVICE_LOGO=str(tmp_path / "logo.svg"), SERVICE_COLOR=COLOR, SERVICE_NAME="Nord-West Accounts")
    page = open_browser(**options).new_page()
    page.goto(f"{server.auth_url}/accounts/sign-in")
    logo = page.locator(".brand img")
    assert logo.evaluate("image => [image.complete, image.width, image.height]") == [True, 120, 24]
    button = page.get_by_role("button", name="Sign in", exact=True)
    if options["color_scheme"] == "light":
        expect(button).to_have_css("background-color", "rgb(122, 31, 92)")
    assert violations(page) == []
    sign_in(page, alice.email, PASSWORD)
    for path in ("/accounts/profile", "/accounts/security", "/accounts/applications"):
        page.goto(server.auth_url + path)
        assert violations(page) == [], path
        page.set_viewport_size({"width": 320, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
        page.set_viewport_size({"width": 1280, "height": 800})


def test_a_logo_that_is_opened_by_itself_runs_no_script_and_keeps_its_style(
    launch: Launch, chromium: Any, tmp_path: Path
) -> None:
    (tmp_path / "logo.svg").write_text(LOGO, encoding="utf-8")
    server = launch(SERVICE_LOGO=str(tmp_path / "logo.svg"))
    page = chromium.new_page()
    page.goto(f"{server.auth_url}/accounts/sign-in")
    page.goto(page.locator(".brand img").evaluate("image => image.src"))
    expect(page.locator("rect")).to_have_css("fill", "rgb(122, 31, 92)")
    assert page.evaluate("document.documentElement.id") == ""
    page.close()
