"""An administrator tests an application's sign-in: the real flow, and nothing of it stays."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from accounts.models import AuditEntry, OutgoingMail
from oauth_bridge.activity_models import ActivityCount
from oauth_bridge.models import AccessToken, Application, AuthorizationCode, Consent
from tests.browser.conftest import Open, as_administrator, press, violations
from tests.driver import OAuthDriver
from tests.factories import ApplicationFactory, Registered


def begin(page: Page, driver: OAuthDriver, application: Registered) -> None:
    as_administrator(page, driver)
    page.goto(driver.auth_url + reverse("admin:application", args=[application.row.pk]))
    press(page, page.get_by_role("link", name="Test sign-in"))
    press(page, page.get_by_role("button", name="Test sign-in"))


@pytest.mark.parametrize("kind", ["confidential", "public"])
def test_a_test_passes_and_leaves_nothing(page: Page, driver: OAuthDriver, kind: str) -> None:
    mails = OutgoingMail.objects.filter(kind="application_allowed")
    before = set(mails.values_list("pk", flat=True))
    application = ApplicationFactory(client_type=kind)
    begin(page, driver, application)
    expect(page.get_by_role("heading", level=1)).to_contain_text(application.row.name)
    press(page, page.get_by_role("button", name="Allow"))
    expect(page.get_by_role("heading", name="The test passed")).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    shown = re.sub(f"{Application.TWIN}[0-9a-f]+", "", page.inner_text("main"))
    assert "HTTP 200 OK" in shown
    assert '"nickname": "Alice Ægir"' in shown
    assert re.search(r"[A-Za-z0-9_-]{43}", shown) is None, "a code, token or secret is on the page"
    assert violations(page) == []
    assert not Application.twins.exists()
    assert AuditEntry.objects.get(key=application.row.client_id).action == "sign_in_tested"
    assert not Consent.objects.filter(application__name=application.row.name).exists()
    assert set(mails.values_list("pk", flat=True)) <= before
    assert not ActivityCount.objects.filter(client_id__startswith=Application.TWIN).exists()
    assert all(
        token.revoked_at for token in AccessToken.objects.filter(application_id__isnull=False).order_by("-id")[:1]
    )
    page.reload()
    expect(page.get_by_text("This answer belongs to no test of this browser.")).to_be_visible()


def test_refusing_is_shown_as_the_callback_gets_it(
    open_browser: Open, driver: OAuthDriver, application: Registered
) -> None:
    page = open_browser(java_script_enabled=False).new_page()
    begin(page, driver, application)
    press(page, page.get_by_role("button", name="Refuse"))
    expect(page.get_by_role("heading", name="The test stopped: Callback")).to_be_visible()
    expect(page.get_by_text("access_denied")).to_be_visible()
    assert not Application.twins.exists()


def test_what_goes_wrong_is_named_with_its_record(page: Page, driver: OAuthDriver, application: Registered) -> None:
    begin(page, driver, application)
    Application.twins.update(client_type="public")  # between the link and the exchange
    press(page, page.get_by_role("button", name="Allow"))
    expect(page.get_by_role("heading", name="The test stopped: Exchange")).to_be_visible()
    press(page, page.get_by_role("link", name="Open the record"))
    expect(page.get_by_role("heading", name="A public application sent a secret")).to_be_visible()


def test_the_callback_of_another_session_does_nothing(
    page: Page, open_browser: Open, driver: OAuthDriver, application: Registered
) -> None:
    begin(page, driver, application)
    last = max(AuthorizationCode.objects.values_list("pk", flat=True), default=0)
    with page.expect_request(re.compile("/admin/test-sign-in/")) as caught:
        press(page, page.get_by_role("button", name="Allow"))
    stolen = caught.value.url
    other = open_browser().new_page()
    begin(other, driver, application)
    other.goto(stolen)
    expect(other.get_by_text("This answer belongs to no test of this browser.")).to_be_visible()
    assert not AuthorizationCode.objects.filter(pk__gt=last, redeemed_at=None).exists()
