"""Every page, light in Arabic and dark on a small screen in Spanish: axe finds nothing, nothing is cut off.

And where the focus goes when something is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from accounts.models import NICKNAME_MAX_LENGTH, User
from accounts.sessions.credential_changes import set_active
from oauth_bridge.applications import registry
from oauth_bridge.consent import consents
from oauth_bridge.models import NAME_MAX_LENGTH
from tests.browser.conftest import Device, Way, cut_off, mailed_code, press, violations
from tests.contract_coverage import contract
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, Registered

TURNED = "all => all.filter(each => getComputedStyle(each).direction !== 'ltr').length"
LONG_HOST = f"{'very-long-label-of-a-host-name-' * 2}.{'w' * 60}.example"


class Visitor:
    def __init__(self, page: Page, way: Way) -> None:
        self.page, self.provider = page, way.server
        # The browser must not offer a passkey by itself.
        page.add_init_script(
            "if (window.PublicKeyCredential) PublicKeyCredential.isConditionalMediationAvailable = async () => false"
        )
        self.link = way.driver.authorization_url
        self.alice = PersonFactory(
            nickname="W" * NICKNAME_MAX_LENGTH, email=f"{'w' * 40}-{PersonFactory.build().email[6:]}"
        )
        self.application: Registered = ApplicationFactory(
            name="M" * NAME_MAX_LENGTH,
            homepage=f"https://{LONG_HOST}/",
            redirect_uris=f"https://{LONG_HOST}/{'p' * 200}",
        )
        self.device: Registered = ApplicationFactory(redirect_uris="com.example.app:/callback", is_trusted=True)

    def _submit(self, **typed: str) -> None:
        """Type into the fields of these names, and press Enter in the last one."""
        for name, text in typed.items():
            field = self.page.locator(f"main [name={name}]:visible")
            field.fill(text)
        with self.page.expect_navigation():
            field.press("Enter")

    def _sign_in(self, email: str, password: str = PASSWORD) -> None:
        if self._not_you().count():
            press(self.page, self._not_you())
        self._submit(login=email, password=password)

    def _not_you(self) -> Locator:
        return self.page.locator("main .account button")

    def everything(self) -> Iterator[str]:
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
            "another address": self.link(self.application, redirect_uri=f"{self.application.redirect_uri}/"),
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
        self._submit(email=self.alice.email)
        yield "password reset, sent"
        self._open(self.provider.reset_link())
        yield "password reset, new password"
        self._open(self.link(self.application))
        yield "sign-in for an application"
        self._sign_in(self.alice.email, "wrong")
        yield "sign-in with an error"

    def _signing_up(self) -> Iterator[str]:
        email: str = PersonFactory.build().email
        self._open("/accounts/sign-up/passkey")
        yield "sign-up with a passkey"
        self._open("/accounts/sign-up")
        yield "sign-up"
        self._submit(email="")
        yield "sign-up with errors"
        self._open(self.link(self.application))
        press(self.page, self.page.locator(".aside a"))
        yield "sign-up for an application"
        self._submit(email=email, password1=PASSWORD)
        yield "sign-up, code"
        self._submit(code="AAAAAA")
        yield "sign-up, code with an error"
        self._submit(code=mailed_code(self.provider, email))
        set_active(User.objects.get(email=email), False)
        self._open(self.link(self.application))
        yield "sign-in after a deactivation"
        self._sign_in(email)
        yield "switched off"
        self.page.context.clear_cookies()

    def _unconfirmed(self) -> Iterator[str]:
        person = PersonFactory(email_verified_at=None)
        self._open(self.link(self.application))
        self._sign_in(person.email)
        yield "address not confirmed"
        registry.set_groups(self.application.row, [Group.objects.create(name=person.email)])
        self.page.reload()
        yield "for certain people only"
        registry.set_groups(self.application.row, [])
        self.page.context.clear_cookies()

    def _allow_applications(self) -> None:
        """One that is not asked for again, one that is, one that is trusted and one that is switched off."""
        row = self.application.row
        ConsentFactory(user=self.alice, application=row, fingerprint=consents.fingerprint(row))
        for application in (ApplicationFactory(), ApplicationFactory(is_enabled=False, homepage="")):
            ConsentFactory(user=self.alice, application=application.row, expires_at=None)
        CodeFactory(user=self.alice, application=self.device, redeemed_at=timezone.now())

    def _as_alice(self) -> Iterator[str]:
        self._open(self.link(self.application))
        self._sign_in(self.alice.email)
        yield "consent"
        self.page.locator("details summary").first.click()
        yield "consent, address unfolded"
        self._open(self.link(ApplicationFactory(redirect_uris="com.example.app:/callback")))
        self.page.locator("[name=decision][value=refuse]").click()
        expect(self.page.locator("[name=decision]")).to_have_count(0)
        yield "refused"
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
            "not for administrators": "/admin/",
            "sign-out for an application": f"/oauth/logout?client_id={self.application.client_id}",
        }.items():
            self._open(path)
            yield name
        self._open("/accounts/profile")
        self.page.locator("[name=nickname]").evaluate("field => { field.removeAttribute('maxlength'); }")
        self._submit(nickname="n" * 300)
        yield "profile with an error"
        self._open("/accounts/password/change")
        self._submit(oldpassword="wrong", password1="short", password2="other")
        yield "new password with errors"
        self._open("/accounts/email")
        self._submit(email=f"new-{self.alice.email}")
        yield "code for the new address"
        self._open("/accounts/sign-out")
        press(self.page, self.page.locator("main button"))
        self._open("/accounts/sign-in")
        assert self._not_you().count()
        yield "sign-in with the last account"
        self.page.context.clear_cookies()

    def _with_a_passkey(self) -> Iterator[str]:
        Device(self.page)
        self._open("/accounts/sign-in")
        self._sign_in(self.alice.email)
        self._open("/accounts/security/passkeys/add")
        self._submit(name="W" * 60)
        yield "recovery codes"
        passkey = f"/accounts/security/passkeys/{self.alice.authenticator_set.get(type='webauthn').pk}"
        for name, path in {
            "recovery codes, shown before": "/accounts/security/recovery-codes",
            "new recovery codes": "/accounts/security/recovery-codes/new",
            "recovery codes after a sign-up": "/accounts/security/recovery-codes/new?next=/accounts/profile",
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
        self._sign_in(self.alice.email)
        yield "second factor"
        self._submit(code="123456")
        yield "second factor with an error"
        self.page.context.clear_cookies()

    def _continuing(self) -> Iterator[str]:
        """The last page: the browser asks whether to open the application, and takes no more clicks."""
        self._open(self.link(self.device))
        self._sign_in(self.alice.email)
        self.page.locator("[data-passkey] button").click()
        expect(self.page.locator("meta[http-equiv=refresh]")).to_have_count(1)
        yield "continuing"


@contract("D19.page")
@pytest.mark.parametrize(
    ("language", "scheme", "width"), [("ar", "light", 1280), ("es", "dark", 320)], ids=["Arabic", "Spanish"]
)
def test_axe_finds_nothing_on_any_page_and_none_is_cut_off(way: Way, language: str, scheme: str, width: int) -> None:
    """Spanish has the longest words. Arabic is read from right to left."""
    # With motion, buttons take a moment for the other colours.
    viewport = {"width": width, "height": 640}
    page = way.page(locale=language, color_scheme=scheme, viewport=viewport, reduced_motion="reduce")
    found: list[str] = []
    for name in Visitor(page, way).everything():
        found += [f"{name}: {each}" for each in [*violations(page), *cut_off(page)]]
        html = page.locator("html")
        shown = (html.get_attribute("lang"), html.get_attribute("dir"), page.locator("h1").count(), bool(page.title()))
        if shown != (language, "rtl" if language == "ar" else "ltr", 1, True):
            found.append(f"{name}: {shown}")
        if page.locator("code, [type=email], [autocomplete=one-time-code]").evaluate_all(TURNED):
            found.append(f"{name}: a code or an address is turned round")
    assert found == []


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_the_focus_goes_to_the_summary_of_errors_or_to_the_only_wrong_field(way: Way, script: bool) -> None:
    page = way.page(java_script_enabled=script)
    for path, button in {"/accounts/sign-in": "Sign in", "/accounts/sign-up": "Create the account"}.items():
        page.goto(f"{way.server.auth_url}{path}")
        press(page, button)
        summary = page.get_by_role("alert")
        expect(summary).to_be_focused()
        page.keyboard.press("Tab")
        expect(summary.get_by_role("link").first).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_label("E-mail address")).to_be_focused()
        expect(page.get_by_text("This field is required.")).to_have_count(2)
    page.goto(f"{way.server.auth_url}/accounts/password/reset")
    press(page, "Send the link")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("This field is required.")).to_have_count(1)
    field = page.get_by_label("E-mail address")
    expect(field).to_be_focused()
    expect(field).to_have_accessible_description(re.compile("Error: This field is required."))
    expect(page).to_have_title(re.compile("^Error:"))
