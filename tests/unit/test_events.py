"""Each security event is written by a real request. Those of acts of administrators: test_audit_trail.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from config.infrastructure import events
from config.infrastructure.events import Event
from oauth_bridge.models import ApplicationSecret
from oauth_bridge.openid import signing_keys
from oauth_bridge.openid.request import Granted
from tests.factories import CodeFactory, Issued, rewind
from tests.grants import Log
from tests.pages import (
    SECOND,
    Account,
    admin_browser,
    ask_for_link,
    choose,
    code_of,
    mailed_code,
    mailed_path,
    sign_up,
    type_code,
)
from tests.unit.test_activity import Tried

pytestmark = pytest.mark.django_db


def test_a_member_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="SIGNED_OUT"):
        events.write(Event.SIGNED_OUT, password="hidden")


def test_in_a_transaction_a_change_is_told_after_the_commit_and_what_was_tried_at_once(event_log: Log) -> None:
    with transaction.atomic():
        events.write(Event.ACCOUNT_DELETED)
        events.write(Event.REFUSED, code="x")
        transaction.set_rollback(True)
    with transaction.atomic():
        events.write(Event.ACCOUNT_DELETED)
        assert [line["event"] for line in event_log.lines] == ["refused"]
    assert [line["event"] for line in event_log.lines] == ["refused", "account_deleted"]


class Story(Tried):
    def redeem(self, **fields: Any) -> Issued:
        issued: Issued = CodeFactory(application=self.application, user=self.person, **fields)
        self.exchange(code=issued.raw)
        return issued

    def replay(self) -> None:
        issued = self.redeem()
        rewind(issued.row, 10)
        self.exchange(code=issued.raw)

    def use_expired_secret(self) -> None:
        ApplicationSecret.objects.update(expires_at=timezone.now())
        self.exchange()

    def change_rights(self) -> None:
        url = reverse("admin:accounts_user_change", args=[self.person.pk])
        admin_browser().post(url, {"nickname": "x", "is_staff": "on"})

    def second_factor(self, of_account: Callable[[Account], str]) -> None:
        account = Account(self.person)
        account.browser_before_code().post(SECOND, {"code": of_account(account)})

    def change_password(self) -> None:
        ask_for_link(self.browser, self.person.email)
        choose(self.browser, mailed_path())

    def ask_for_code(self) -> None:
        User.objects.filter(pk=self.person.pk).update(email_verified_at=None)
        self.sign_in()

    def then(self, path: str, **form: str) -> None:
        self.sign_in()
        self.browser.post(path, form)

    def disconnect(self) -> None:
        self.answer(decision="allow")
        self.browser.post("/accounts/applications", {"disconnect": self.application.client_id})


WAYS: dict[str, Callable[[Story], object]] = {
    "refused": lambda story: story.browser.get("/nothing"),
    "limit_reached": lambda story: [story.sign_in(password="wrong") for _ in range(11)],
    "host_not_served": lambda story: story.browser.get("/", HTTP_HOST="evil.example"),
    "signed_in": lambda story: story.sign_in(),
    "signed_out": lambda story: story.then("/accounts/sign-out"),
    "second_factor_used": lambda story: story.second_factor(lambda account: code_of(account.secret)),
    "second_factor_asked": lambda story: [Account(story.person), story.sign_in()],
    "recovery_code_used": lambda story: story.second_factor(lambda account: account.codes[0]),
    "factors_changed": lambda story: Account(story.person),
    "signed_up": lambda story: sign_up(story.browser),
    "address_code_sent": Story.ask_for_code,
    "address_confirmed": lambda story: [sign_up(story.browser), type_code(story.browser, mailed_code())],
    "password_reset_asked": lambda story: ask_for_link(story.browser, story.person.email),
    "password_changed": Story.change_password,
    "rights_changed": Story.change_rights,
    "account_deleted": lambda story: story.then("/accounts/delete", email=story.person.email),
    "consent_given": lambda story: story.answer(decision="allow"),
    "code_issued": lambda story: story.answer(decision="allow"),
    "disconnected": Story.disconnect,
    "code_redeemed": Story.redeem,
    "code_replayed": Story.replay,
    "expired_secret_used": Story.use_expired_secret,
    "signing_key_made": lambda story: story.redeem(openid=Granted(userinfo=["sub"], id_token=[]).to_json()),
    "signing_key_revoked": lambda _: signing_keys.revoke(signing_keys.rotate("ES256").kid),
}


@pytest.fixture
def story(settings: Any) -> Story:
    settings.SIGN_UP = "open"
    settings.STAFF_SECOND_FACTOR = False
    return Story()


@pytest.mark.parametrize("name", WAYS)
def test_a_real_request_writes_each_event_once(name: str, story: Story, event_log: Log) -> None:
    event = Event[name.upper()]
    WAYS[name](story)
    line = only_line(event, event_log, is_in_request=event is not Event.SIGNING_KEY_REVOKED)
    if "person" in event.members and "person" in line and event not in {Event.SIGNED_UP, Event.ADDRESS_CONFIRMED}:
        assert line["person"] == str(story.person.pk)
    if "client_id" in line:
        assert line["client_id"] == story.application.client_id


def only_line(event: Event, event_log: Log, *, is_in_request: bool = True) -> dict[str, Any]:
    """Return the only line of the event. It must have the members of the table."""
    (line,) = event_log.of(event.name.lower())
    assert (line["levelno"], line["msg"]) == (event.level, event.message)
    assert not event.members - line.keys() - ({"client_id", "person"} if event is Event.REFUSED else {"fields"})
    assert (line["reference"] and line["address"] == "127.0.0.1") or not is_in_request
    return line
