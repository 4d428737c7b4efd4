"""What scripts do in Chromium: those of passwords, secrets and pictures, and those of applications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import ExifTags, Image
from playwright.sync_api import Page, expect

from accounts.models import StoredPicture
from oauth_bridge.api_docs import documents
from oauth_bridge.models import Application
from tests.browser.conftest import Way, allow, flaws, press
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import ApplicationFactory, Registered, opened, striped
from tests.pages import admin_page

# New accounts ---------------------------------------------------------------------------------------------------------

RULES = "#id_password1_helptext"


def test_the_rules_of_a_new_password_answer_while_it_is_typed(way: Way) -> None:
    page = way.page()
    page.goto(f"{way.server.auth_url}/accounts/sign-up")
    password, rules, status = page.get_by_label("Password", exact=True), page.locator(RULES), page.get_by_role("status")
    expect(rules.get_by_role("listitem")).to_have_count(3)
    expect(rules.locator(".met, .broken")).to_have_count(0)
    page.get_by_label("Nickname").fill("Nordwind")
    password.press_sequentially("eleven kites")
    expect(rules).to_contain_text("Characters missing: 3")
    expect(status).to_have_text("Characters missing: 3")
    password.press_sequentially(" up")
    expect(rules.locator(".met")).to_contain_text("Long enough")
    expect(status).to_have_text("Long enough")
    password.fill("nordwindnordwind")
    expect(rules.locator(".broken")).to_contain_text("More than your name")
    expect(status).to_contain_text("More than your name")
    assert flaws(page) == []
    password.fill("")
    expect(rules.locator(".met, .broken")).to_have_count(0)


# Client secrets -------------------------------------------------------------------------------------------------------


def test_a_new_secret_is_saved_as_a_file(administrator: Page, driver: OAuthDriver, application: Registered) -> None:
    """The file is made in the browser: no request is sent, and the address names no secret."""
    page = administrator
    page.goto(driver.auth_url + admin_page(application.row, "act", "new-secret"))
    press(page, "Make a new secret")
    new = page.locator("#client-secret").inner_text()
    assert flaws(page) == []

    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    with page.expect_download() as download:
        page.get_by_role("button", name="Download both as a file").click()
    saved = download.value.path().read_text()
    assert saved == f"CLIENT_ID={application.client_id}\nCLIENT_SECRET={new}\n"
    assert [url for url in sent if not url.startswith("blob:")] == []
    assert new not in "".join(sent) + page.url
    press(page, page.get_by_role("link", name="I have saved it"))
    expect(page.locator("#client-secret")).to_have_count(0)


# An application without a backend -------------------------------------------------------------------------------------

FAILURE = "profile().catch((failure) => failure.message)"
ANOTHER_VERIFIER = """() => {
    const kept = JSON.parse(sessionStorage.getItem("sign-in"));
    sessionStorage.setItem("sign-in", JSON.stringify({...kept, verifier: "v".repeat(43)}));
}"""
READ = """async ([api, token, method]) => {
    const answer = await fetch(`${api}/oauth/userinfo`, {method, headers: {Authorization: `Bearer ${token}`}});
    return [answer.status, await answer.json(), answer.headers.get("WWW-Authenticate")];
}"""


def sign_in_with_the_code_of_the_guide(way: Way, page: Page) -> None:
    """Afterwards the page is at the callback address, and has the functions of the guide."""
    code = documents.fill_for(documents.blocks("guide", "js")["single-page"], way.application.row)
    page.goto(way.client.origin)
    page.add_script_tag(content=code)
    with page.expect_navigation():
        page.evaluate("() => { signIn(); }")
    if page.locator("[name=decision]").count() == 0:
        way.sign_in(page)
    allow(page)
    page.add_script_tag(content=code)


@contract("D22.origins", "D22.preflight", "D22.errors")
def test_a_script_of_another_origin_signs_a_person_in_and_reads_what_was_wrong(way: Way, settings: Any) -> None:
    page, api = way.page(), way.driver.base_url
    way.application = ApplicationFactory(redirect_uris=way.client.callback, client_type=Application.CLIENT_PUBLIC)
    settings.AUTH_URL, settings.BASE_URL = way.driver.auth_url, api
    sign_in_with_the_code_of_the_guide(way, page)
    profile = page.evaluate("profile()")
    assert (profile["sub"], profile["email"]) == (str(way.person.pk), way.person.email)
    assert page.url == way.client.callback, "the code is gone from the address bar"
    assert "is not of this session" in page.evaluate(FAILURE)

    sign_in_with_the_code_of_the_guide(way, page)
    page.evaluate(ANOTHER_VERIFIER)
    assert "code_verifier does not match" in page.evaluate(FAILURE)
    status, answer, challenge = page.evaluate(READ, [api, "never-issued", "GET"])
    assert (status, answer["error"]) == (401, "invalid_token")
    assert 'error="invalid_token"' in challenge
    assert page.evaluate(READ, [api, "never-issued", "POST"])[0] == 401


# The profile's picture ------------------------------------------------------------------------------------------------

MIDDLE = "view => [...view.getContext('2d').getImageData(128, 128, 1, 1).data]"


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """Red, green and blue from left to right, stored rotated with an EXIF orientation, as phones do."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    stored = striped().resize((900, 300)).transpose(Image.Transpose.ROTATE_90)
    stored.save(tmp_path / "photo.jpg", exif=exif, quality=95)
    return tmp_path / "photo.jpg"


def test_the_chosen_part_is_shown_before_it_is_saved_and_is_what_is_stored(
    way: Way, photo: Path, tmp_path: Path
) -> None:
    """A file that is too large, or that the browser can't show, gets a message."""
    (tmp_path / "photo.heic").write_bytes(b"no picture")
    (tmp_path / "large.jpg").write_bytes(bytes(25 * 1024 * 1024 + 1))
    page = way.page()
    way.sign_in(page, path="/accounts/sign-in?next=/accounts/profile")
    file, zoom, preview = page.locator("[type=file]"), page.get_by_label("Zoom"), page.locator("canvas")
    for name, message in (
        ("large.jpg", "This picture is larger than 25 MB. Choose a smaller one."),
        ("photo.heic", "Your browser can't show this file here."),
    ):
        file.set_input_files(tmp_path / name)
        expect(page.get_by_text(message)).to_be_visible()
        expect(zoom).to_be_hidden()
        file.set_input_files(photo)
        expect(zoom).to_be_visible()
    assert preview.evaluate(MIDDLE)[:3] == pytest.approx([0, 128, 0], abs=12)
    expect(page.get_by_label("From top to bottom")).to_be_disabled()  # the picture is not higher than the circle
    page.get_by_label("From left to right").press("End")
    assert preview.evaluate(MIDDLE)[:3] == pytest.approx([0, 0, 255], abs=12)
    zoom.press("End")
    expect(page.get_by_label("From top to bottom")).to_be_enabled()
    assert flaws(page) == []
    press(page, "Save")
    expect(page.get_by_text("Your profile is saved.")).to_be_visible()
    way.person.refresh_from_db()
    stored: Any = opened(StoredPicture.read(way.person.avatar) or b"").getpixel((128, 128))
    assert stored[:3] == pytest.approx((0, 0, 255), abs=12)
