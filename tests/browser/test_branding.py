"""An installation's own logo and colour in a browser: they are seen, can be read, and run nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import flaws, sign_in
from tests.conftest import Launch
from tests.factories import PASSWORD

LOGO = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 32" onload="document.documentElement.id = 'ran'">
<style>rect { fill: rgb(122, 31, 92) }</style><script>document.documentElement.id = 'ran'</script>
<rect width="160" height="32"/></svg>"""


def test_the_pages_have_the_logo_and_the_colour_and_an_opened_logo_runs_no_script(
    launch: Launch, page: Page, chromium: Any, alice: Any, tmp_path: Path
) -> None:
    (tmp_path / "logo.svg").write_text(LOGO, encoding="utf-8")
    server = launch(SERVICE_LOGO=str(tmp_path / "logo.svg"), SERVICE_COLOR="#7a1f5c", SERVICE_NAME="Nord-West Accounts")
    page.goto(f"{server.auth_url}/accounts/sign-in")
    logo = page.locator(".brand img")
    assert logo.evaluate("image => [image.complete, image.width, image.height]") == [True, 120, 24]
    button = page.get_by_role("button", name="Sign in", exact=True)
    expect(button).to_have_css("background-color", "rgb(122, 31, 92)")
    address, wrong = logo.evaluate("image => image.src"), flaws(page)
    sign_in(page, alice.email, PASSWORD)
    for path in ("/accounts/profile", "/accounts/security", "/accounts/applications"):
        page.goto(server.auth_url + path)
        wrong += flaws(page)
    assert wrong == []

    alone = chromium.new_page()  # its console may complain
    alone.goto(address)
    expect(alone.locator("rect")).to_have_css("fill", "rgb(122, 31, 92)")
    assert alone.evaluate("document.documentElement.id") == ""
    alone.close()
