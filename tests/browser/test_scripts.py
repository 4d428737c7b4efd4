"""What scripts do in Chromium: those of passwords, secrets, pictures and documents, and those of applications."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import requests
from PIL import ExifTags, Image
from playwright.sync_api import Page, expect

from accounts.pictures import current_picture
from oauth_bridge.api_docs import documents
from oauth_bridge.models import Application
from tests.browser.conftest import (
    Open,
    Way,
    allow,
    cut_off,
    flaws,
    press,
    sign_in,
    violations,
)
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, Registered, striped

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


def test_a_new_secret_ends_the_old_one_where_that_is_ticked_and_is_saved_as_a_file(
    administrator: Page, driver: OAuthDriver, application: Registered
) -> None:
    """The file is made in the browser: no request is sent, and the address names no secret."""
    page = administrator
    page.goto(f"{driver.auth_url}/admin/oauth_bridge/application/{application.row.pk}/")
    wrong = flaws(page)
    press(page, "New secret …")
    wrong += flaws(page)
    page.get_by_role("checkbox", name="End all at once").check()
    press(page, "Make a new secret")
    new = page.locator("#client-secret").inner_text()
    assert [each.works for each in application.row.secrets.order_by("number")] == [False, True]
    wrong += flaws(page)
    assert wrong == []

    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    with page.expect_download() as download:
        page.get_by_role("button", name="Download both as a file").click()
    saved = download.value.path().read_text(encoding="utf-8")
    assert saved == f"CLIENT_ID={application.client_id}\nCLIENT_SECRET={new}\n"
    assert [url for url in sent if not url.startswith("blob:")] == []
    assert new not in "".join(sent) + page.url
    press(page, page.get_by_role("link", name="I have saved it"))
    expect(page.locator("#client-secret")).to_have_count(0)


# An own logo and colour -----------------------------------------------------------------------------------------------

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
    page.goto(f"{server.auth_url}/accounts/security")
    assert wrong + flaws(page) == []

    alone = chromium.new_page()  # its console may complain
    alone.goto(address)
    expect(alone.locator("rect")).to_have_css("fill", "rgb(122, 31, 92)")
    assert alone.evaluate("document.documentElement.id") == ""
    alone.close()


# Documents below /docs ------------------------------------------------------------------------------------------------

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
    """The page is then at the application's callback address, with the functions of the guide."""
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

GREEN, BLUE = (0, 128, 0), (0, 0, 255)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """Red, green and blue from left to right, stored rotated with an EXIF orientation, as phones do."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    stored = striped(900, 300).transpose(Image.Transpose.ROTATE_90)
    stored.save(tmp_path / "photo.jpg", exif=exif, quality=95)
    return tmp_path / "photo.jpg"


def open_profile(way: Way) -> Page:
    page = way.page()
    way.sign_in(page, path="/accounts/sign-in?next=/accounts/profile")
    return page


def middle_of_preview(page: Page) -> tuple[int, ...]:
    pixel = page.locator("canvas").evaluate("view => [...view.getContext('2d').getImageData(128, 128, 1, 1).data]")
    return tuple(pixel[:3])


def is_near(colour: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(abs(one - two) < 12 for one, two in zip(colour, other, strict=True))


def test_the_chosen_part_is_shown_before_it_is_saved_and_is_what_is_stored(
    way: Way, photo: Path, settings: Any
) -> None:
    page = open_profile(way)
    across = page.get_by_label("From left to right")
    expect(across).to_be_hidden()
    page.get_by_label("Picture", exact=False).first.set_input_files(photo)
    expect(across).to_be_visible()
    assert is_near(middle_of_preview(page), GREEN)
    expect(page.get_by_label("From top to bottom")).to_be_disabled()  # the picture is not higher than the circle
    across.focus()
    page.keyboard.press("End")
    assert is_near(middle_of_preview(page), BLUE)
    page.get_by_label("Zoom").focus()
    page.keyboard.press("End")
    expect(page.get_by_label("From top to bottom")).to_be_enabled()
    assert flaws(page) == []
    press(page, "Save")
    expect(page.get_by_text("Your profile is saved.")).to_be_visible()
    settings.BASE_URL = way.server.base_url
    way.person.refresh_from_db()
    content = requests.get(current_picture.avatar_url(way.person), timeout=60).content
    pixel: Any = Image.open(io.BytesIO(content)).getpixel((128, 128))
    assert is_near(pixel[:3], BLUE)


def test_a_file_that_is_too_large_or_that_the_browser_can_not_show_gets_a_message(
    way: Way, photo: Path, tmp_path: Path
) -> None:
    (tmp_path / "photo.heic").write_bytes(b"no picture")
    (tmp_path / "large.jpg").write_bytes(bytes(25 * 1024 * 1024 + 1))
    page = open_profile(way)
    file = page.locator("[type=file]")
    file.set_input_files(tmp_path / "large.jpg")
    expect(page.get_by_text("This picture is larger than 25 MB. Choose a smaller one.")).to_be_visible()
    file.set_input_files(photo)
    expect(page.get_by_label("Zoom")).to_be_visible()
    file.set_input_files(tmp_path / "photo.heic")
    expect(page.get_by_text("Your browser can't show this file here.")).to_be_visible()
    expect(page.get_by_label("Zoom")).to_be_hidden()
