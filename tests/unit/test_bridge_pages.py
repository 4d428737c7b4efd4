"""Pages that interrupt a sign-in, in several tabs too; error pages, for the person and for the developer."""

from __future__ import annotations

import re
from html import unescape
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


def page_of(application: Registered, **changes: str) -> str:
    return html_of(Client().get(link_of(application, **changes), headers=PAGE))


def sign_out_page(**sent: str) -> str:
    return html_of(Client().get("/oauth/logout", sent, headers=PAGE))


def layers(page: str) -> tuple[str, str]:
    parts = page.replace("</dt>", " ").split('<section class="developer"')
    person, developer = (unescape(re.sub(r"<[^>]+>", "", part)) for part in parts)
    return " ".join(person.split()), " ".join(developer.split())


def test_a_known_application_is_named_and_is_the_way_back_and_an_unknown_one_is_not(application: Registered) -> None:
    page = page_of(application, redirect_uri="https://evil.example/callback")
    person, developer = layers(page)
    assert f"{application.row.name} sent you here" in person
    assert "Nothing was shared" in person
    assert f'href="{application.row.homepage}"' in page
    assert ("evil.example" in person, "evil.example" in developer) == (False, True)
    assert 'href="https://evil.example' not in page
    assert application.redirect_uri not in page, "nothing that is registered is shown"
    page = page_of(application, client_id="unknown")
    person, developer = layers(page)
    assert application.row.name not in person + developer
    assert "Go back to the application and try again." in person
    assert 'class="button"' not in page
    assert "No application with this client_id is registered" in developer
    person, _ = layers(sign_out_page(client_id="unknown", post_logout_redirect_uri="x"))
    assert "If you were signed in here, you still are." in person
    assert "Nothing was shared" not in person


def test_an_application_that_is_switched_off_is_named_and_nobody_is_told_to_try_again(application: Registered) -> None:
    application.row.name, application.row.is_enabled = "100% off %(name)s", False
    application.row.save()
    for changes in ({}, {"redirect_uri": "https://evil.example/"}, {"response_type": "token"}):
        page = page_of(application, **changes)
        person, developer = layers(page)
        assert "100% off %(name)s is switched off here" in person
        assert "try again" not in person
        assert "mistake" not in person
        assert "evil.example" not in person + developer
    sent = {"client_id": application.client_id, "post_logout_redirect_uri": "https://app.example/after"}
    person, _ = layers(sign_out_page(**sent))
    assert "The application is switched off." in person
    assert "mistake" not in person


def test_what_is_wrong_with_its_link_alone_is_for_the_developer_to_mend(application: Registered) -> None:
    person, developer = layers(page_of(application, redirect_uri=""))
    assert f"{application.row.name} sent you here without the callback address" in person
    assert "The parameter redirect_uri is missing" in developer
    person, _ = layers(html_of(Client().get(link_of(application), headers={**PAGE, "Host": "another.example"})))
    assert "mistake" not in person
    _, developer = layers(page_of(application, redirect_uri="https://reading.example/callback/"))
    assert re.search(
        r"For the developer The redirect_uri is not one that is registered .*"
        r" Sent https://reading\.example/callback/ Error invalid_request, status 400"
        r" Time \d+ \w+ \d{4}, \d\d:\d\d:\d\d UTC Documentation What each error means Reference [0-9A-HJKMNP-TV-Z]{8}",
        developer,
    )
    _, developer = layers(page_of(application, redirect_uri=f"https://reading.example/<b>/{'x' * 1000}"))
    assert f"https://reading.example/<b>/{'x' * 300}" in developer
    assert "x" * 400 not in developer


LOOPBACK, APP, TENANT = (
    "http://127.0.0.1:8000/callback",
    "https://app.example/cb",
    "https://app.example/cb?tenant=a&x=1",
)
ENCODING = "the percent-encoding (the & and + of an address in a link are %26 and %2B)"
HOST = "the host (localhost and 127.0.0.1 are different addresses)"
# The registered address, the sent one as it stands in the link, and what is named.
DIFFERENCES = [
    (TENANT, TENANT, ENCODING),
    ("https://app.example/cb?q=a+b", "https://app.example/cb?q=a+b", ENCODING),
    (APP, "https%3A%2F%2Fapp.example%2Fcb%3Fa%3D1&utm_source=x", "the query"),
    (APP, "http://localhost:8000/cb", "every part"),
    (LOOPBACK, "http://127.0.0.1:8000/calback", "the path"),
    (LOOPBACK, "127.0.0.1:8000/callback", "the missing scheme"),
    (LOOPBACK, "http://[::1]:8001/callback", f"{HOST} and the port"),
    (LOOPBACK, "https://localhost:8000/other", f"the scheme, {HOST} and the path"),
    ("http://[::1]/cb/", "http://[::1]/cb", "the slash at the end"),
    # A public application: any port is right.
    ("http://127.0.0.1/cb", "http://127.0.0.1:51004/other", "the path"),
    ("http://127.0.0.1/cb", "http://localhost:51004/cb", HOST),
]


def test_only_what_differs_is_named() -> None:
    for registered, sent, checked in DIFFERENCES:
        kind = "public" if registered == "http://127.0.0.1/cb" else "confidential"
        application = ApplicationFactory(redirect_uris=registered, client_type=kind)
        query = f"client_id={application.client_id}&redirect_uri={sent}&response_type=code&state=s"
        description = Client().get(f"/oauth/authorize?{query}").json()["error_description"]
        assert f"Check {checked} of the one in the link." in description, sent
