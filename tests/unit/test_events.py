"""The table of security events: each is written by a real request, with its members and no other."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from config.infrastructure import events
from config.infrastructure.events import Event
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.openid import signing_keys
from oauth_bridge.openid.request import Granted
from tests.factories import PASSWORD, CodeFactory, Issued, Registered, rewind
from tests.grants import Attempt, Log
from tests.pages import (
    SECOND,
    Account,
    admin_browser,
    ask_for_link,
    choose,
    code_of,
    mailed_code,
    mailed_path,
    sign_in,
    sign_up,
    type_code,
)

# By a command, or by the thread that tells applications.
WITHOUT_REQUEST = {Event.ACCOUNT_UNLOCKED, Event.SIGNING_KEY_REVOKED}

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


class Story:
    """What happens to people and applications, by real requests."""

    def __init__(self) -> None:
        self.given = Attempt()
        self.person, self.application = self.given.person, self.given.application
        self.browser = self.given.browser

    def sign_in(self, password: str = PASSWORD) -> Any:
        return sign_in(self.browser, self.person.email, password)

    def exchange(self, raw: str) -> Any:
        form = {"client_id": self.application.client_id, "client_secret": self.application.secret, "code": raw}
        return self.given.post("/oauth/token", form | {"grant_type": "authorization_code"})

    def redeem(self, **fields: Any) -> Issued:
        issued: Issued = CodeFactory(application=self.application, user=self.person, **fields)
        self.exchange(issued.raw)
        return issued

    def change(self, **fields: Any) -> None:
        User.objects.filter(pk=self.person.pk).update(**fields)

    def administer(self, page: str, row: Registered | User | None, form: dict[str, str], *more: str) -> None:
        """Post the form to a page of the administration, as a superuser."""
        keys = [row.row.pk if isinstance(row, Registered) else row.pk, *more] if row else []
        answer = admin_browser().post(reverse(f"admin:{page}", args=keys), form)
        assert answer.status_code in (200, 302, 303)

    def change_person(self, **form: str) -> None:
        self.administer("accounts_user_change", self.person, {"nickname": "x", **form})

    def act(self, act: str) -> None:
        self.administer("application_act", self.application, {}, act)

    def confirm(self) -> None:
        sign_up(self.browser)
        type_code(self.browser, mailed_code())

    def second_factor(self, of_account: Callable[[Account], str]) -> None:
        account = Account(self.person)
        account.browser_before_code().post(SECOND, {"code": of_account(account)})

    def change_password(self) -> None:
        ask_for_link(self.browser, self.person.email)
        choose(self.browser, mailed_path())

    def then(self, path: str, **form: str) -> None:
        """Sign in, and post the form."""
        self.sign_in()
        self.browser.post(path, form)

    def disconnect(self) -> None:
        self.given.answer(decision="allow")
        self.browser.post("/accounts/applications", {"disconnect": self.application.client_id})

    def replay(self) -> None:
        issued = self.redeem()
        rewind(issued.row, 10)
        self.exchange(issued.raw)

    def use_expired_secret(self) -> None:
        ApplicationSecret.objects.update(expires_at=timezone.now())
        self.exchange("x")

    def register(self) -> None:
        form = {"name": "Reading List", "redirect_uris": "https://reading.example/cb", "client_type": "confidential"}
        self.administer("oauth_bridge_application_add", None, form)

    def change_application(self) -> None:
        row = self.application.row
        form = {"name": "Another Name", "homepage": row.homepage, "redirect_uris": row.redirect_uris}
        self.administer("oauth_bridge_application_change", self.application, form)


WAYS: dict[str, Callable[[Story], object]] = {
    "refused": lambda story: story.browser.get("/nothing"),
    "limit_reached": lambda story: [story.sign_in("wrong") for _ in range(11)],
    "host_not_served": lambda story: story.browser.get("/", HTTP_HOST="evil.example"),
    "signed_in": lambda story: story.sign_in(),
    "signed_out": lambda story: story.then("/accounts/sign-out"),
    "second_factor_used": lambda story: story.second_factor(lambda account: code_of(account.secret)),
    "second_factor_asked": lambda story: [Account(story.person), story.sign_in()],
    "recovery_code_used": lambda story: story.second_factor(lambda account: account.codes[0]),
    "factors_changed": lambda story: Account(story.person),
    "signed_up": lambda story: sign_up(story.browser),
    "address_code_sent": lambda story: [story.change(email_verified_at=None), story.sign_in()],
    "address_confirmed": Story.confirm,
    "password_reset_asked": lambda story: ask_for_link(story.browser, story.person.email),
    "password_changed": Story.change_password,
    "account_deactivated": lambda story: story.change_person(),
    "account_activated": lambda story: [story.change(is_active=False), story.change_person(is_active="on")],
    "account_unlocked": lambda story: call_command("account", "unlock", story.person.email, stdout=io.StringIO()),
    "rights_changed": lambda story: story.change_person(is_active="on", is_staff="on"),
    "account_deleted": lambda story: story.then("/accounts/delete", email=story.person.email),
    "consent_given": lambda story: story.given.answer(decision="allow"),
    "code_issued": lambda story: story.given.answer(decision="allow"),
    "disconnected": Story.disconnect,
    "code_redeemed": Story.redeem,
    "code_replayed": Story.replay,
    "expired_secret_used": Story.use_expired_secret,
    "application_registered": Story.register,
    "secret_made": Story.register,
    "signing_key_made": lambda story: story.redeem(openid=Granted(userinfo=["sub"], id_token=[]).to_json()),
    "signing_key_revoked": lambda _: signing_keys.revoke(signing_keys.rotate("ES256").kid),
    "secret_ended": lambda story: story.administer("application_secret_act", story.application, {}, "1", "leaked"),
    "application_changed": Story.change_application,
    "administered": Story.change_application,
    "application_switched_off": lambda story: story.act("switch-off"),
    "application_switched_on": lambda story: [Application.objects.update(is_enabled=False), story.act("switch-on")],
    "application_access_ended": lambda story: story.act("end-access"),
    "application_deleted": lambda story: story.administer(
        "oauth_bridge_application_delete", story.application, {"post": "yes", "typed": story.application.row.name}
    ),
}


@pytest.fixture
def story(settings: Any) -> Story:
    settings.SIGN_UP = "open"
    settings.STAFF_SECOND_FACTOR = False
    return Story()


@pytest.mark.parametrize("event", Event)
def test_a_real_request_writes_each_event_once(event: Event, story: Story, event_log: Log) -> None:
    name = event.name.lower()
    WAYS[name](story)
    line, *others = event_log.of(name)
    assert not others
    assert (line["levelno"], line["msg"]) == (event.level, event.message)
    assert (line["reference"] and line["address"] == "127.0.0.1") or event in WITHOUT_REQUEST
    missing = event.members - line.keys()
    assert missing <= ({"client_id", "person"} if event is Event.REFUSED else set())
    if "person" in event.members and "person" in line and event not in {Event.SIGNED_UP, Event.ADDRESS_CONFIRMED}:
        assert line["person"] == str(story.person.pk)
    if "client_id" in line and event not in {Event.APPLICATION_REGISTERED, Event.SECRET_MADE}:
        assert line["client_id"] == story.application.client_id


def test_nothing_that_is_secret_is_in_an_event(story: Story, event_log: Log) -> None:
    for step in (lambda: story.sign_in("wrong"), story.change_password, story.disconnect, story.replay):
        step()
        story.person.refresh_from_db()
    written = repr(event_log.lines)
    secrets = [story.person.email, PASSWORD, story.application.secret, mailed_path().rpartition("/")[2]]
    assert not [secret for secret in secrets if secret in written]
