"""The table of security events: each is written by a real request, with its members and no other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from config import logs
from config.infrastructure import events
from config.infrastructure.events import Event
from oauth_bridge.maintenance import backchannel
from oauth_bridge.models import Application, ApplicationSecret, ApplicationSession
from oauth_bridge.protocol.openid_request import Granted
from oauth_bridge.storage import signing_keys
from tests.events import Attempt, Log
from tests.factories import PASSWORD, CodeFactory, PersonFactory, rewind
from tests.factors import SECOND, Account, code_of
from tests.logout_receiver import Receiver
from tests.pages import CODE_PAGE, choose, mailed_code, mailed_path, proven, sign_up
from tests.server import free_port
from tests.unit.test_bridge_admin import ADD, FORM

# By a command, or by the thread that tells applications.
WITHOUT_REQUEST = {Event.SIGNING_KEY_REVOKED, Event.LOGOUT_TOLD, Event.LOGOUT_NOT_TOLD}

pytestmark = pytest.mark.django_db


def test_a_member_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="SIGNED_OUT"):
        events.write(Event.SIGNED_OUT, password="hidden")


def test_in_a_transaction_a_change_is_told_after_the_commit_and_what_was_tried_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "events")

    def told() -> list[str]:
        return [record.event for record in caplog.records]

    with transaction.atomic():
        events.write(Event.ACCOUNT_DELETED)
        events.write(Event.REFUSED, code="x")
        transaction.set_rollback(True)
    assert told() == ["refused"]
    with transaction.atomic():
        events.write(Event.ACCOUNT_DELETED)
        assert told() == ["refused"]
    assert told() == ["refused", "account_deleted"]


@pytest.mark.parametrize("event", Event)
def test_no_member_has_a_name_that_every_line_has(event: Event) -> None:
    taken = {"time", "level", "logger", "message", "reference", "event", "address", "exception", *logs.OWN_ATTRIBUTES}
    assert not event.members & taken
    assert Event.__members__[event.name] is event, "an event with the values of another one would be its alias"


class Story:
    """What happens to people and applications, by real requests. Each method writes the events that it names."""

    def __init__(self) -> None:
        self.given = Attempt()
        self.person = self.given.person
        self.browser = self.given.browser

    def sign_in(self, password: str = PASSWORD, browser: Client | None = None) -> Any:
        form = {"login": self.person.email, "password": password}
        return (browser or self.browser).post("/accounts/sign-in", form)

    def exchange(self, raw: str) -> Any:
        application = self.given.application
        form = {"client_id": application.client_id, "client_secret": application.secret, "code": raw}
        return self.given.post("/oauth/token", form | {"grant_type": "authorization_code"})

    def administrator(self) -> Client:
        self.browser.force_login(User.objects.create_superuser("admin@example.com", PASSWORD, nickname="Admin"))
        return proven(self.browser)

    def refused(self) -> None:
        self.browser.get("/nothing")

    def limit_reached(self) -> None:
        for _ in range(11):
            self.sign_in("wrong")

    def host_not_served(self) -> None:
        self.browser.get("/", HTTP_HOST="evil.example")

    def signed_in(self) -> None:
        self.sign_in()

    def signed_out(self) -> None:
        self.sign_in()
        self.browser.post("/accounts/sign-out")

    def _second_factor(self, of_account: Callable[[Account], str]) -> None:
        account, browser = Account(self.person), Client()
        self.sign_in(browser=browser)
        browser.post(SECOND, {"code": of_account(account)})

    def second_factor_used(self) -> None:
        self._second_factor(lambda account: code_of(account.secret))

    def second_factor_asked(self) -> None:
        Account(self.person)
        self.sign_in(browser=Client())

    def recovery_code_used(self) -> None:
        self._second_factor(lambda account: account.codes[0])

    def factors_changed(self) -> None:
        Account(self.person)

    def signed_up(self) -> None:
        sign_up(self.browser)

    def address_code_sent(self) -> None:
        User.objects.filter(pk=self.person.pk).update(email_verified_at=None)
        self.sign_in()

    def address_confirmed(self) -> None:
        sign_up(self.browser)
        self.browser.post(CODE_PAGE, {"code": mailed_code()})

    def password_reset_asked(self) -> None:
        self.browser.post("/accounts/password/reset", {"email": self.person.email})

    def password_changed(self) -> None:
        self.password_reset_asked()
        choose(self.browser, mailed_path())

    def _set_active(self, form: dict[str, str]) -> None:
        path = reverse("admin:accounts_user_change", args=[self.person.pk])
        self.administrator().post(path, {"nickname": "x", **form})

    def account_deactivated(self) -> None:
        self._set_active({})

    def account_activated(self) -> None:
        User.objects.filter(pk=self.person.pk).update(is_active=False)
        self._set_active({"is_active": "on"})

    def account_unlocked(self) -> None:
        self.administrator().post(f"{reverse('admin:person', args=[self.person.pk])}?act=unlock")

    def rights_changed(self) -> None:
        path = reverse("admin:accounts_user_change", args=[self.person.pk])
        self.administrator().post(path, {"nickname": "x", "is_active": "on", "is_staff": "on"})

    def account_deleted(self) -> None:
        self.sign_in()
        self.browser.post("/accounts/delete", {"email": self.person.email})

    def consent_given(self) -> None:
        self.given.answer(decision="allow")

    code_issued = consent_given

    def disconnected(self) -> None:
        self.consent_given()
        self.browser.post("/accounts/applications", {"disconnect": self.given.application.client_id})

    def code_redeemed(self) -> None:
        assert self.exchange(CodeFactory(application=self.given.application, user=self.person).raw).status_code == 200

    def code_replayed(self) -> None:
        issued = CodeFactory(application=self.given.application, user=self.person)
        self.exchange(issued.raw)
        rewind(issued.row, 10)
        self.exchange(issued.raw)

    def expired_secret_used(self) -> None:
        ApplicationSecret.objects.update(expires_at=timezone.now())
        self.exchange("x")

    def application_registered(self) -> None:
        self.administrator().post(ADD, FORM)

    secret_made = application_registered

    def signing_key_made(self) -> None:
        openid = Granted(userinfo=["sub"], id_token=[]).to_json()
        issued = CodeFactory(application=self.given.application, user=self.person, openid=openid)
        assert "id_token" in self.exchange(issued.raw).json()

    def signing_key_revoked(self) -> None:
        signing_keys.revoke(signing_keys.rotate("ES256").kid)

    def secret_ended(self) -> None:
        page = reverse("admin:oauth_bridge_application_secret", args=[self.given.application.row.pk])
        self.administrator().post(page, {"number": "1", "is_leaked": "on", "confirmed": "on", "end": "1"})

    def application_changed(self) -> None:
        row = self.given.application.row
        form = {"name": "Another Name", "homepage": row.homepage, "redirect_uris": row.redirect_uris}
        path = reverse("admin:oauth_bridge_application_change", args=[row.pk])
        assert self.administrator().post(path, form).status_code == 302

    administered = application_changed

    def _act(self, name: str) -> None:
        path = reverse("admin:application_act", args=[self.given.application.row.pk, name])
        assert self.administrator().post(path).status_code == 302

    def application_switched_off(self) -> None:
        self._act("switch-off")

    def application_switched_on(self) -> None:
        Application.objects.update(is_enabled=False)
        self._act("switch-on")

    def application_access_ended(self) -> None:
        self._act("end-access")

    def _sign_out_of_application(self, uri: str, **changes: Any) -> None:
        row = self.given.application.row
        Application.objects.filter(pk=row.pk).update(backchannel_logout_uri=uri)
        ApplicationSession.objects.create(sign_in=uuid4(), user=self.person, application=row, **changes)
        backchannel.wake()
        backchannel.tell_next()

    def logout_told(self) -> None:
        with Receiver().listening() as receiver:
            self._sign_out_of_application(receiver.url)

    def logout_not_told(self) -> None:
        long_ago = timezone.now() - timedelta(days=2)
        self._sign_out_of_application(f"http://127.0.0.1:{free_port()}/", ended_at=long_ago, due_at=long_ago)

    def application_deleted(self) -> None:
        path = reverse("admin:oauth_bridge_application_delete", args=[self.given.application.row.pk])
        self.administrator().post(path, {"post": "yes", "typed": self.given.application.row.name})


@pytest.fixture
def story(settings: Any) -> Story:
    settings.SIGN_UP = "open"
    settings.STAFF_SECOND_FACTOR = False
    settings.BACKCHANNEL_NETWORKS = [ip_network("127.0.0.0/8")]
    return Story()


@pytest.mark.parametrize("event", Event)
def test_a_real_request_writes_each_event_once(event: Event, story: Story, event_log: Log) -> None:
    name = event.name.lower()
    getattr(story, name)()
    line, *others = event_log.of(name)
    assert not others
    assert (line["levelno"], line["msg"]) == (event.level, event.message)
    assert (line["reference"] and line["address"] == "127.0.0.1") or event in WITHOUT_REQUEST
    missing = event.members - line.keys()
    assert missing <= ({"client_id", "person"} if event is Event.REFUSED else set())
    if "person" in event.members and "person" in line and event not in {Event.SIGNED_UP, Event.ADDRESS_CONFIRMED}:
        assert line["person"] == str(story.person.pk)
    if "client_id" in line and event not in {Event.APPLICATION_REGISTERED, Event.SECRET_MADE}:
        assert line["client_id"] == story.given.application.client_id


def test_why_somebody_could_not_sign_in_is_found_by_the_person_alone(story: Story, event_log: Log) -> None:
    """At the sign-in page, for the application, and when the application exchanges the code."""
    wrong = story.sign_in("wrong")
    Application.objects.update(is_restricted=True)
    story.browser.force_login(story.person)
    not_admitted = story.browser.get(story.given.link())
    Application.objects.update(is_restricted=False)
    issued = CodeFactory(application=story.given.application, user=story.person)
    rewind(issued.row, 700)
    expired = story.exchange(issued.raw)
    found = [line for line in event_log.of("refused") if line.get("person") == str(story.person.pk)]
    assert [line["reference"] for line in found][-1] == expired["X-Reference"]
    assert {wrong["X-Reference"], not_admitted["X-Reference"]} <= {line["reference"] for line in found}
    assert [line["cause"] for line in found][-1] == "code_expired"
    assert {"password_wrong", "not_admitted"} <= {line["cause"] for line in found}
    assert {line["address"] for line in found} == {"127.0.0.1"}
    assert {line.get("client_id") for line in found[1:]} == {story.given.application.client_id}


def test_nothing_that_is_secret_is_in_an_event(story: Story, event_log: Log) -> None:
    for step in (lambda: story.sign_in("wrong"), story.password_changed, story.disconnected, story.code_replayed):
        step()
        story.person.refresh_from_db()
    written = repr(event_log.lines)
    secrets = [story.person.email, PASSWORD, story.given.application.secret, mailed_path().rpartition("/")[2]]
    assert not [secret for secret in secrets if secret in written]


def test_a_command_writes_events_too(event_log: Log) -> None:
    application, person = Attempt().application, PersonFactory()
    for action in ("rotate-secret", "disable", "enable", "delete"):
        call_command("application", action, application.client_id)
    call_command("account", "deactivate", person.email)
    assert [line["event"] for line in event_log.lines] == [
        "secret_made",
        "administered",
        "application_switched_off",
        "administered",
        "application_switched_on",
        "administered",
        "administered",
        "application_deleted",
        "account_deactivated",
        "administered",
    ]
    acts = event_log.of("administered")
    assert [line["action"] for line in acts][::4] == ["secret_made", "account_deactivated"]
    assert {line["actor"].partition(" (")[0] for line in acts} == {"command line"}
    assert (acts[0]["kind"], acts[0]["key"]) == ("application", application.client_id)
    assert (acts[4]["kind"], acts[4]["key"]) == ("person", str(person.pk))
