"""Pages that interrupt a sign-in, in several tabs too, and links that two people follow: how each continues."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.sessions.exceptions import SessionInterrupted
from django.test import Client

from accounts.models import User
from accounts.sessions.credential_changes import set_active
from oauth_bridge.activity import attempts, counts
from oauth_bridge.activity.reading import Filters
from oauth_bridge.consent import consents
from oauth_bridge.consent.pages import stored_about
from oauth_bridge.models import AuthorizationCode
from tests.driver import Page
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered
from tests.grants import PAGE, answer, link_of
from tests.pages import Account, html_of, mailed_code, sign_in, text_of, with_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sign_up_is_open")]


@pytest.fixture
def link(application: Registered) -> str:
    return link_of(application, state="s")


def opened(browser: Client, link: str) -> str:
    return html_of(browser.get(link, headers=PAGE, follow=True))


def test_a_late_answer_does_not_use_the_consent_of_the_person_who_is_signed_in_now(
    client: Client, alice: User, application: Registered, link: str
) -> None:
    bob = PersonFactory(nickname="Bob")
    consents.remember(bob, application.row)
    client.force_login(alice)
    page = opened(client, link)
    client.force_login(bob)
    asked = opened(client, answer(client, page)["Location"])
    assert f"Continue to <bdi>{application.row.name}</bdi> as <bdi>Bob</bdi>?" in asked
    refused = answer(client, page, "refuse")
    assert refused["Location"].startswith(f"{application.redirect_uri}?error=access_denied")
    assert not AuthorizationCode.objects.exists()


def test_a_post_after_a_sign_out_elsewhere_leads_on(alice: User, link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **_named: object) -> None:
        raise SessionInterrupted

    browser = with_session(alice)
    page = opened(browser, link)
    monkeypatch.setattr("oauth_bridge.backend.codes.issue", interrupted)
    assert answer(browser, page)["Location"].startswith("/oauth/authorize?pending=")


def test_our_link_is_sent_once_and_takes_unknown_parameters(alice: User, application: Registered, link: str) -> None:
    browser, sign_in_page = with_session(alice), Client().get(link, headers=PAGE)["Location"]
    sealed = parse_qs(urlsplit(sign_in_page).query)["next"][0]
    for more in ("", "&utm_source=1&utm_source=2", "&client_id=x&client_id=y"):
        assert "asks who you are" in opened(browser, sealed + more)
    callback = re.search(r'content="0; url=([^"]+)"', opened(browser, f"{sealed}&pending=other"))
    assert callback
    assert callback[1].startswith(f"{application.redirect_uri}?error=invalid_request")
    assert callback[1].endswith("&amp;state=s")


def test_each_person_of_a_link_has_an_attempt(alice: User, mallory: User, application: Registered, link: str) -> None:
    query = f"?{urlsplit(Client().get(link, headers=PAGE)['Location']).query}"

    def events() -> set[tuple[Any, int]]:
        counts.flush()
        found = attempts.attempts(Filters(client_id=application.client_id))
        return {(each.person_id, len(each.events)) for each in found}

    for email in (alice.email, "nobody@example.com"):
        sign_in(Client(), email, "wrong", query=query)
    assert events() == {(alice.pk, 2)}, "the unknown address is part of the only person's attempt"
    sign_in(Client(), mallory.email, "wrong", query=query)
    sign_in(Client(), mallory.email, query=query)
    assert events() == {(alice.pk, 1), (mallory.pk, 2), (None, 1)}
    assert [entry["outcome"] for entry in stored_about(mallory, 100)["activity"]] == ["succeeded", "refused"]


CODE, FACTOR, SIGN_IN = "Enter the code from the mail", "Confirm that it is you", "Sign in to continue to"
SWITCHED_OFF = "is switched off"


class Tab:
    """A tab. The tabs of one `browser` share its cookies."""

    def __init__(self, browser: Client, application: Registered | None = None) -> None:
        self.browser, self.application = browser, application or ApplicationFactory()
        self.open(link_of(self.application, state="kept"))

    def open(self, address: str, posted: dict[str, str] | None = None) -> None:
        options: dict[str, Any] = {"headers": PAGE, "follow": True}
        answer = self.browser.post(address, posted, **options) if posted else self.browser.get(address, **options)
        self.address = answer.redirect_chain[-1][0] if answer.redirect_chain else address
        self.html, self.text = answer.text, text_of(answer)
        self.page = Page(cast(Any, SimpleNamespace(url=self.address, text=self.html)))

    def submit(self, **fields: str) -> None:
        form = next(each for each in self.page.forms if fields.keys() <= each.types.keys())
        self.open(form.action, {**form.fields, **fields})

    def sign_in(self, person: User) -> None:
        self.submit(login=person.email, password=PASSWORD)

    def names_the_application(self, heading: str = "") -> None:
        """Assert it of the page, and of the page after a reload."""
        for _ in range(2):
            assert self.application.row.name in self.text
            assert heading in self.text
            self.open(self.address)

    def ends(self) -> None:
        assert answer(self.browser, self.html)["Location"].endswith("state=kept")


def test_the_code_of_a_sign_up_is_typed_in_another_tab(client: Client) -> None:
    first = Tab(client)
    first.names_the_application()
    first.open(next(link for link in first.page.links if "/sign-up" in link))
    first.submit(email=PersonFactory.build().email, password1=PASSWORD)
    first.names_the_application(CODE)
    second = Tab(client, first.application)
    second.open("/accounts/sign-in")
    second.names_the_application(CODE)
    second.submit(code=mailed_code())
    assert "Allow" in second.text
    first.submit(code=mailed_code())
    first.ends()


def test_each_of_two_tabs_at_the_second_factor_leads_to_its_own_request(client: Client, account: Account) -> None:
    first = Tab(client)
    first.sign_in(account.person)
    first.names_the_application(FACTOR)
    first.submit(code="123456")
    second = Tab(client)
    for tab, code in ((second, account.codes[0]), (first, account.codes[1])):
        assert tab.application.row.name in tab.text
        tab.submit(code=code)
        assert tab.application.row.name in tab.text
    first.ends()


def test_a_person_who_is_deactivated_at_the_consent_is_told_so(client: Client) -> None:
    person, tab = PersonFactory(), Tab(client)
    tab.sign_in(person)
    set_active(person, False)
    tab.open(answer(client, tab.html)["Location"])
    assert SWITCHED_OFF in tab.text
    tab.names_the_application(SIGN_IN)
    assert SWITCHED_OFF in tab.text
    assert person.email not in tab.text
    tab.sign_in(PersonFactory(nickname="Mallory"))
    tab.ends()
