"""Every page, light in Arabic and dark on a small screen in Spanish: axe finds nothing, nothing is cut off.

And where the focus goes when something is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from playwright.sync_api import Page, expect

from accounts.models import NICKNAME_MAX_LENGTH
from oauth_bridge.applications import registry
from oauth_bridge.consent import consents
from oauth_bridge.models.application import NAME_MAX_LENGTH
from tests.browser.conftest import Way, add_device, cut_off, press, sign_in, violations
from tests.contract_coverage import contract
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, Registered

TURNED = "all => all.filter(each => getComputedStyle(each).direction !== 'ltr').length"
LONG_HOST = f"{'very-long-label-of-a-host-name-' * 2}.{'w' * 60}.example"


def every_page(page: Page, way: Way) -> Iterator[str]:
    """Open every page, as people with the longest names. Yields the name of each page."""
    # The browser must not offer a passkey by itself.
    page.add_init_script(
        "if (window.PublicKeyCredential) PublicKeyCredential.isConditionalMediationAvailable = async () => false"
    )
    link, provider = way.driver.authorization_url, way.server
    email = PersonFactory.build().email
    alice = PersonFactory(nickname="W" * NICKNAME_MAX_LENGTH, email=f"{'w' * 40}-{email[6:]}")
    application: Registered = ApplicationFactory(
        name="M" * NAME_MAX_LENGTH,
        homepage=f"https://{LONG_HOST}/",
        redirect_uris=f"https://{LONG_HOST}/{'p' * 200}",
    )
    device: Registered = ApplicationFactory(redirect_uris="com.example.app:/callback", is_trusted=True)

    def submit(**typed: str) -> None:
        """Type into the fields of these names, and press Enter in the last one."""
        for name, text in typed.items():
            page.locator(f"main [name={name}]:visible").fill(text)
        with page.expect_navigation():
            page.keyboard.press("Enter")

    def open_(path: str) -> None:
        page.goto(path if "://" in path else f"{provider.auth_url}{path}")

    def each(*paths: str, below: str = "") -> Iterator[str]:
        for path in paths:
            open_(below + path)
            yield path

    yield from each("", "/guide", "/connect", "/reference", "/errors", below="/docs")
    yield from each(
        link(application, client_id="x" * 200),
        link(application, redirect_uri=f"{application.redirect_uri}/"),
        *(f"/{'unknown' * 30}", "/oauth/logout", "/oauth/logout?id_token_hint=x"),
        *("/accounts/sign-in", "/accounts/password/reset/bad-key", "/accounts/password/reset"),
    )
    submit(email=alice.email)
    yield "password reset, sent"
    yield from each(provider.reset_link(), link(application))
    sign_in(page, alice.email, "wrong")
    yield "sign-in with an error"

    yield from each("/accounts/sign-up/passkey", "/accounts/sign-up")
    submit(email="")
    yield "sign-up with errors"
    open_(link(application))
    press(page, page.locator(".aside a"))
    yield "sign-up for an application"
    submit(email=email, password1=PASSWORD)
    submit(code="AAAAAA")
    yield "sign-up, code with an error"

    page.context.clear_cookies()
    open_(link(application))
    sign_in(page, PersonFactory(is_active=False).email)
    yield "switched off"
    person = PersonFactory(email_verified_at=None)
    open_(link(application))
    sign_in(page, person.email)
    yield "address not confirmed"
    registry.set_groups(application.row, [Group.objects.create(name=person.email)])
    page.reload()
    yield "for certain people only"
    registry.set_groups(application.row, [])

    page.context.clear_cookies()
    open_(link(application))
    sign_in(page, alice.email)
    yield "consent"
    open_(link(ApplicationFactory(redirect_uris="com.example.app:/callback")))
    page.locator("[name=decision][value=refuse]").click()
    expect(page.locator("[name=decision]")).to_have_count(0)
    yield "refused"
    # One that is not asked for again, one that is, one that is trusted and one that is switched off.
    ConsentFactory(user=alice, application=application.row, fingerprint=consents.fingerprint(application.row))
    for other in (ApplicationFactory(), ApplicationFactory(is_enabled=False, homepage="")):
        ConsentFactory(user=alice, application=other.row, expires_at=None)
    CodeFactory(user=alice, application=device, redeemed_at=timezone.now())
    yield from each(f"/oauth/logout?client_id={application.client_id}", "/admin/")
    yield from each(
        *("security", "security/authenticator", "security/passkeys/add", "confirm?next=/accounts/email", "browsers"),
        *("export", "delete", "applications", "sign-out", "profile"),
        below="/accounts/",
    )
    yield from each("/accounts/password/change")
    submit(oldpassword="wrong", password1="short", password2="other")
    yield "new password with errors"
    yield from each("/accounts/email")
    submit(email=f"new-{alice.email}")
    yield "code for the new address"
    open_("/accounts/sign-out")
    press(page, page.locator("main button"))
    open_("/accounts/sign-in")
    expect(page.locator("main .account button")).to_be_visible()
    yield "sign-in with the last account"

    page.context.clear_cookies()
    add_device(page)
    open_("/accounts/sign-in")
    sign_in(page, alice.email)
    open_("/accounts/security/passkeys/add")
    submit(name="W" * 60)
    yield "recovery codes"
    key, codes = f"security/passkeys/{alice.authenticator_set.get(type='webauthn').pk}", "security/recovery-codes"
    yield from each(
        *(codes, f"{codes}/new", f"{codes}/new?next=/accounts/profile", "security", key, f"{key}/remove"),
        *("confirm/passkey?next=/accounts/security", "confirm/code?next=/accounts/security"),
        below="/accounts/",
    )

    page.context.clear_cookies()
    open_(link(application))
    sign_in(page, alice.email)
    yield "second factor"
    submit(code="123456")
    yield "second factor with an error"
    page.context.clear_cookies()
    open_(link(device))
    sign_in(page, alice.email)
    page.locator("[data-passkey] button").click()
    expect(page.locator("meta[http-equiv=refresh]")).to_have_count(1)
    yield "continuing"  # the last one: the browser asks whether to open the application, and takes no more clicks


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
    for name in every_page(page, way):
        page.locator("main details").evaluate_all("all => all.forEach(each => each.open = true)")
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
    page.goto(f"{way.server.auth_url}/accounts/sign-up")
    press(page, "Create the account")
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
    expect(page.get_by_label("E-mail address")).to_be_focused()
    expect(page.locator(":focus")).to_have_accessible_description(re.compile("Error: This field is required."))
    expect(page).to_have_title(re.compile("^Error:"))
