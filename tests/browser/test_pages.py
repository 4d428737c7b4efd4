"""Every page, in light and dark, also from right to left: axe finds no violation, no content is cut off at 320 px.

In Chinese no page shows an English sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import Group
from django.utils import timezone, translation
from playwright.sync_api import Locator, Page, expect

from accounts.models import NICKNAME_MAX_LENGTH, User
from accounts.sessions.credential_changes import set_active
from oauth_bridge.consent import remembered
from oauth_bridge.models import NAME_MAX_LENGTH
from oauth_bridge.storage import applications
from tests.browser.conftest import Device, Open, mailed_code, press
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, Registered
from tests.server import Server

HEAVIEST_PAGE_BYTES = 50_000
# HTML, style sheets and scripts, not compressed.
WEIGHT = """() => performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
  .filter(({ entryType, name }) => entryType === "navigation" || /\\.(css|js)$/.test(new URL(name).pathname))
  .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""
# Whether a heading or paragraph is less than 4 rem wide and higher than 8 rem.
SQUEEZED = """() => [...document.querySelectorAll("main :is(h1, h2, p):not(.unseen)")]
  .some(({ clientWidth, clientHeight }) => 0 < clientWidth && clientWidth < 64 && clientHeight > 128)"""
LONG_HOST = f"{'very-long-label-of-a-host-name-' * 2}.{'w' * 60}.example"


class Visitor:
    """Opens every page, as people with the longest names."""

    def __init__(self, page: Page, provider: Server, driver: OAuthDriver, language: str = "en") -> None:
        self.page = page
        # The browser must not offer a passkey by itself.
        page.add_init_script(
            "if (window.PublicKeyCredential) PublicKeyCredential.isConditionalMediationAvailable = async () => false"
        )
        self.language = language
        self.provider = provider
        self.link: Callable[..., str] = driver.authorization_url
        self.alice = PersonFactory(
            nickname="W" * NICKNAME_MAX_LENGTH, email=f"{'w' * 40}-{PersonFactory.build().email[6:]}"
        )
        self.application: Registered = ApplicationFactory(
            name="M" * NAME_MAX_LENGTH,
            homepage=f"https://{LONG_HOST}/",
            redirect_uris=f"https://{LONG_HOST}/{'p' * 200}",
        )
        self.device: Registered = ApplicationFactory(redirect_uris="com.example.app:/callback", is_trusted=True)

    def _translated(self, text: str) -> str:
        """The text in the language of the pages."""
        with translation.override(self.language):
            return translation.gettext(text)

    def _field(self, label: str) -> Locator:
        optional = re.escape(self._translated("(optional)"))
        return self.page.get_by_label(re.compile(rf"^\s*{re.escape(self._translated(label))}( {optional})?$"))

    def _button(self, label: str) -> Locator:
        return self.page.locator("main").get_by_role("button", name=self._translated(label), exact=True)

    def _not_you(self) -> Locator:
        return self.page.locator("main button", has_text=self._translated("Not you?"))

    def _sign_in(self, email: str, password: str) -> None:
        if self._not_you().count():
            press(self.page, self._not_you())
        self._field("E-mail address").fill(email)
        self._field("Password").fill(password)
        press(self.page, self._button("Sign in"))

    def everything(self) -> Iterator[str]:
        """Open each page and yield its name."""
        yield from self._as_a_stranger()
        yield from self._signing_up()
        yield from self._unconfirmed()
        yield from self._as_alice()
        yield from self._with_a_passkey()
        yield from self._continuing()

    def _open(self, path: str) -> None:
        self.page.goto(path if "://" in path else f"{self.provider.auth_url}{path}")

    def _as_a_stranger(self) -> Iterator[str]:
        for name, path in {
            "400": self.link(self.application, client_id="x" * 200),
            "404": f"/{'unknown' * 30}",
            "sign-in": "/accounts/sign-in",
            "signed out": "/oauth/logout",
            "refused sign-out": "/oauth/logout?id_token_hint=x",
            "password reset": "/accounts/password/reset",
            "dead reset link": "/accounts/password/reset/bad-key",
        }.items():
            self._open(path)
            yield name
        self._open("/accounts/password/reset")
        self._field("E-mail address").fill(self.alice.email)
        press(self.page, self.page.locator("main button[type=submit]").last)
        yield "password reset, sent"
        self._open(self.provider.reset_link())
        yield "password reset, new password"
        self._open(self.link(self.application))
        yield "sign-in for an application"
        self._sign_in(self.alice.email, "wrong")
        yield "sign-in with an error"

    def _confirm(self, code: str) -> None:
        self._field("Code from the mail").fill(code)
        press(self.page, self._button("Confirm the address"))

    def _signing_up(self) -> Iterator[str]:
        email: str = PersonFactory.build().email
        for name, path in {
            "sign-up with a passkey": "/accounts/sign-up/passkey",
            "sign-up": "/accounts/sign-up",
        }.items():
            self._open(path)
            yield name
        press(self.page, self._button("Create the account"))
        yield "sign-up with errors"
        self._open(self.link(self.application))
        press(self.page, self.page.get_by_role("link", name=self._translated("Create an account")))
        yield "sign-up for an application"
        self._field("E-mail address").fill(email)
        self._field("Password").fill(PASSWORD)
        press(self.page, self._button("Create the account"))
        yield "sign-up, code"
        self._confirm("AAAAAA")
        yield "sign-up, code with an error"
        self._confirm(mailed_code(self.provider, email))
        set_active(User.objects.get(email=email), False)
        self._open(self.link(self.application))
        yield "sign-in after a deactivation"
        self._sign_in(email, PASSWORD)
        yield "switched off"
        self.page.context.clear_cookies()

    def _unconfirmed(self) -> Iterator[str]:
        person = PersonFactory(email_verified_at=None)
        self._open(self.link(self.application))
        self._sign_in(person.email, PASSWORD)
        yield "address not confirmed"
        applications.set_groups(self.application.row, [Group.objects.create(name=person.email)])
        self.page.reload()
        yield "for certain people only"
        applications.set_groups(self.application.row, [])
        self.page.context.clear_cookies()

    def _allow_applications(self) -> None:
        """One that is not asked for again, one that is, one that is trusted and one that is switched off."""
        row = self.application.row
        ConsentFactory(user=self.alice, application=row, fingerprint=remembered.fingerprint(row))
        for application in (ApplicationFactory(), ApplicationFactory(is_enabled=False, homepage="")):
            ConsentFactory(user=self.alice, application=application.row, expires_at=None)
        CodeFactory(user=self.alice, application=self.device, redeemed_at=timezone.now())

    def _as_alice(self) -> Iterator[str]:
        self._open(self.link(self.application))
        self._sign_in(self.alice.email, PASSWORD)
        yield "consent"
        self.page.locator("details summary").first.click()
        yield "consent, address unfolded"
        self._open("/accounts/applications")
        yield "applications, none"
        self._allow_applications()
        for name, path in {
            "profile": "/accounts/profile",
            "security": "/accounts/security",
            "new password": "/accounts/password/change",
            "new address": "/accounts/email",
            "password again": "/accounts/confirm?next=/accounts/email",
            "browsers": "/accounts/browsers",
            "authenticator app": "/accounts/security/authenticator",
            "passkey": "/accounts/security/passkeys/add",
            "data": "/accounts/export",
            "deletion": "/accounts/delete",
            "applications": "/accounts/applications",
            "sign-out": "/accounts/sign-out",
            "sign-out for an application": f"/oauth/logout?client_id={self.application.client_id}",
        }.items():
            self._open(path)
            yield name
        self._open("/accounts/profile")
        self._field("Nickname").fill("")
        self._field("Nickname").evaluate("field => { field.removeAttribute('maxlength'); }")
        self._field("Nickname").fill("n" * 300)
        press(self.page, self._button("Save"))
        yield "profile with an error"
        self._open("/accounts/password/change")
        wrong = {"Present password": "wrong", "New password": "short", "New password again": "other"}
        for label, typed in wrong.items():
            self._field(label).fill(typed)
        press(self.page, self._button("Save the password"))
        yield "new password with errors"
        self._open("/accounts/email")
        self._field("New e-mail address").fill(f"new-{self.alice.email}")
        press(self.page, self._button("Send the code"))
        yield "code for the new address"
        self._open("/accounts/sign-out")
        press(self.page, self._button("Sign out"))
        self._open("/accounts/sign-in")
        assert self._not_you().count()
        yield "sign-in with the last account"
        self.page.context.clear_cookies()

    def _with_a_passkey(self) -> Iterator[str]:
        Device(self.page)
        self._open("/accounts/sign-in")
        self._sign_in(self.alice.email, PASSWORD)
        self._open("/accounts/security/passkeys/add")
        self._field("Name").fill("W" * 60)
        self.page.get_by_role("checkbox").check()
        press(self.page, self._button("Add the passkey"))
        yield "recovery codes"
        passkey = f"/accounts/security/passkeys/{self.alice.authenticator_set.get(type='webauthn').pk}"
        for name, path in {
            "recovery codes, shown before": "/accounts/security/recovery-codes",
            "new recovery codes": "/accounts/security/recovery-codes/new",
            "security with a passkey": "/accounts/security",
            "passkey, remove": f"{passkey}/remove",
            "passkey, rename": passkey,
            "passkey again": "/accounts/confirm/passkey?next=/accounts/security",
            "recovery code again": "/accounts/confirm/code?next=/accounts/security",
        }.items():
            self._open(path)
            yield name
        self.page.context.clear_cookies()
        self._open(self.link(self.application))
        self._sign_in(self.alice.email, PASSWORD)
        yield "second factor"
        self._field("Recovery code").fill("123456")
        press(self.page, self._button("Continue"))
        yield "second factor with an error"
        self.page.context.clear_cookies()

    def _continuing(self) -> Iterator[str]:
        """The last page: the browser asks whether to open the application, and takes no more clicks."""
        self._open(self.link(self.device))
        self._sign_in(self.alice.email, PASSWORD)
        self._button("Use a passkey").click()
        expect(self.page.locator("meta[http-equiv=refresh]")).to_have_count(1)
        yield "continuing"


@pytest.fixture
def visit(provider: Server, driver: OAuthDriver) -> Callable[..., Visitor]:
    return lambda page, language="en": Visitor(page, provider, driver, language)


def violations(page: Page) -> list[str]:
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def is_cut_off(page: Page) -> bool:
    """Whether the page is wider than 320 px, or a text is squeezed to about one letter in each line.

    Measured with the list of languages open, at the height of a phone and of a window of 1280 × 800 at 400 % zoom.
    """
    usual = page.viewport_size
    languages = page.locator(".languages")
    languages.evaluate_all("all => all.forEach(each => each.open = true)")
    found = False
    for height in (200, 640):
        page.set_viewport_size({"width": 320, "height": height})
        is_wide = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        found = found or is_wide or page.evaluate(SQUEEZED)
    languages.evaluate_all("all => all.forEach(each => each.open = false)")
    if usual:
        page.set_viewport_size(usual)
    return found


@contract("D19.page")
@pytest.mark.parametrize(("language", "schemes"), [("en", ["dark", "light"]), ("ar", ["light"])])
def test_axe_finds_nothing_on_any_page(
    open_browser: Open, visit: Callable[..., Visitor], language: str, schemes: list[str]
) -> None:
    page = open_browser(locale=language).new_page()
    found: dict[str, list[str]] = {}
    cut_off = []
    for name in visit(page, language).everything():
        for scheme in schemes:
            # With motion, buttons take a moment for the other colours.
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
            if bad := violations(page):
                found[f"{name}, {scheme}"] = bad
        assert page.evaluate("document.documentElement.lang") == language, name
        assert page.evaluate("document.documentElement.dir") == ("rtl" if language == "ar" else "ltr"), name
        turned = "all => all.filter(each => getComputedStyle(each).direction !== 'ltr').length"
        assert page.locator("code, [type=email], [autocomplete=one-time-code]").evaluate_all(turned) == 0, name
        assert page.locator("h1").count() == 1, name
        assert page.title(), name
        if is_cut_off(page):
            cut_off.append(name)
    assert found == {}
    assert cut_off == []


@contract("D19.page")
def test_no_page_is_cut_off_at_320_px_or_heavier_than_50_kb(open_browser: Open, visit: Callable[..., Visitor]) -> None:
    """In Spanish, whose words are the longest."""
    page = open_browser(locale="es").new_page()
    cut_off, weights = [], {}
    for name in visit(page, "es").everything():
        weights[name] = page.evaluate(WEIGHT)
        if is_cut_off(page):
            cut_off.append(name)
    assert cut_off == []
    assert min(weights.values()) > 10_000, "style sheets and scripts are counted"
    assert {name: weight for name, weight in weights.items() if weight > HEAVIEST_PAGE_BYTES} == {}


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_the_focus_goes_to_the_summary_of_errors_and_from_there_to_the_field(
    open_browser: Open, driver: OAuthDriver, script: bool
) -> None:
    page = open_browser(java_script_enabled=script).new_page()
    for path, button in {
        "/accounts/sign-in": "Sign in",
        "/accounts/sign-up": "Create the account",
    }.items():
        page.goto(f"{driver.auth_url}{path}")
        press(page, page.get_by_role("button", name=button, exact=True))
        summary = page.get_by_role("alert")
        expect(summary).to_be_focused()
        page.keyboard.press("Tab")
        expect(summary.get_by_role("link").first).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_label("E-mail address")).to_be_focused()
        expect(page.get_by_text("This field is required.")).to_have_count(2)


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_the_focus_goes_to_the_only_wrong_field_whose_error_stands_once(
    open_browser: Open, driver: OAuthDriver, script: bool
) -> None:
    page = open_browser(java_script_enabled=script).new_page()
    page.goto(f"{driver.auth_url}/accounts/password/reset")
    press(page, page.get_by_role("button", name="Send the link"))
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("This field is required.")).to_have_count(1)
    field = page.get_by_label("E-mail address")
    expect(field).to_be_focused()
    expect(field).to_have_accessible_description(re.compile("Error: This field is required."))
    expect(page).to_have_title(re.compile("^Error:"))


def test_no_page_in_chinese_shows_an_english_sentence(open_browser: Open, visit: Callable[..., Visitor]) -> None:
    page = open_browser(locale="zh-CN").new_page()
    found = {name: said for name in visit(page, "zh-hans").everything() if (said := English(page.content()).found)}
    assert found == {}


class English(HTMLParser):
    """The texts of a page, and the attributes that people see or hear, with two words in Latin letters.

    Values are left out: they are in `bdi`, `strong` or `code`, or are the names of the service and of languages.
    """

    ATTRIBUTES = ("alt", "aria-label", "placeholder", "title")
    VALUES = ("bdi", "code", "script", "style")
    WORDS = re.compile(r"[A-Za-z]{2,}[ ,]+[A-Za-z]{2,}")
    NAMES = re.compile(r"Delegated Sign-In|Photo Printer [0-9a-f]+|[MWw]{20,}\S*|Demo application")

    def __init__(self, content: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = 0
        self.feed(content)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.inside += tag in self.VALUES
        for name, value in attributes:
            if name in self.ATTRIBUTES or name.startswith("data-"):
                self._look(value or "")

    def handle_endtag(self, tag: str) -> None:
        self.inside -= tag in self.VALUES

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self._look(data)

    def _look(self, text: str) -> None:
        if self.WORDS.search(self.NAMES.sub("", text)):
            self.found.append(text.strip())
