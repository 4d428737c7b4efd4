"""A person goes on with a request in another tab, without cookies, or switched off. Each page names it. D8."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.test import Client

from accounts.models import User
from accounts.sessions.credential_changes import set_active
from tests.driver import Page
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered
from tests.grants import PAGE, answer, link_of
from tests.pages import Account, mailed_code, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_counters", "sign_up_is_open")]

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
        """Submit the first form that has all these fields."""
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


@pytest.mark.parametrize("is_reloaded", [True, False])
def test_the_code_of_a_sign_up_is_typed_in_another_tab(client: Client, is_reloaded: bool) -> None:
    first = Tab(client)
    first.names_the_application()
    first.open(next(link for link in first.page.links if "/sign-up" in link))
    first.submit(email=PersonFactory.build().email, password1=PASSWORD)
    first.names_the_application(CODE)
    second = Tab(client, first.application)
    second.open("/accounts/sign-in")
    second.names_the_application(CODE)
    second.submit(code="AAAAAA")
    assert second.application.row.name in second.text
    second.submit(code=mailed_code())
    assert "Allow" in second.text
    first.open(first.address) if is_reloaded else first.submit(code=mailed_code())
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
