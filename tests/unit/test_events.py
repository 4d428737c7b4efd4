"""Each security event is written by a real request; errors have a reference. Of administrators: test_audit_trail.py."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from accounts.pictures.current_picture import avatar_url
from config.infrastructure import events, paths
from config.infrastructure.errors import RequestError, SiteFault, Subject, of_subject, write
from config.infrastructure.events import Event
from oauth_bridge.models import ApplicationSecret
from oauth_bridge.openid import signing_keys
from oauth_bridge.openid.request import Granted
from tests.factories import CodeFactory, Issued, PersonFactory, TokenFactory, rewind
from tests.grants import HTML, Attempt, Log, example_paths
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
    with_session,
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


REFERENCE = re.compile("[0-9A-HJKMNP-TV-Z]{8}")
SHOWN = re.compile(r"<span>Reference</span> <code>([0-9A-Z]{8})</code>")


def of_another_session(given: Attempt) -> Any:
    form = given.form(decision="allow")
    given.browser.force_login(PersonFactory())
    return given.post("/oauth/authorize", form)


def not_confirmed(given: Attempt) -> Any:
    User.objects.filter(pk=given.person.pk).update(email_verified_at=None)
    given.browser.force_login(given.person)
    return given.browser.get(given.link(), **HTML)


def too_many_sign_ins(given: Attempt) -> Any:
    return [given.browser.post("/accounts/sign-in", {"login": "a@b.example", "password": "x"}) for _ in range(11)][-1]


def get(path: str, **options: str) -> Callable[[Attempt], Any]:
    return lambda given: given.browser.get(path, **options)


MULTIPART = "multipart/form-data; boundary=b"
# The code, whether the answer is a page that shows the reference, and the request.
ERRORS: list[tuple[str, bool, Callable[[Attempt], Any]]] = [
    ("token_unknown", False, get("/oauth/userinfo", HTTP_AUTHORIZATION="Bearer x")),
    ("client_unknown", True, lambda given: given.browser.get(given.link(client_id="x"), **HTML)),
    ("refused", False, lambda given: given.answer(decision="refuse")),
    ("consent_page_outdated", False, of_another_session),
    ("no_verified_email", True, not_confirmed),
    ("csrf_no_cookie", False, lambda given: given.post("/oauth/authorize", {}, Client(enforce_csrf_checks=True))),
    ("forbidden", True, lambda _: with_session(PersonFactory(is_staff=True)).get("/admin/activity/", **HTML)),
    ("not_found", True, get("/nothing", **HTML)),
    ("not_found", False, get("/oauth/nothing")),
    ("method", False, lambda given: given.browser.put("/oauth/token")),
    ("method", False, lambda given: given.browser.post("/static/css/site.css")),
    ("header_too_long", False, get("/", HTTP_ACCEPT="x" * 5000)),
    ("media_type", False, lambda given: given.browser.generic("POST", "/", b"--b--", MULTIPART)),
    ("host_named", False, get("/", HTTP_HOST="evil.example")),
    ("sign_in_limited", False, too_many_sign_ins),
]


@pytest.mark.parametrize(("code", "is_page", "ask"), ERRORS)
def test_every_way_to_an_error_writes_one_event_with_the_reference_of_the_answer(
    code: str, is_page: bool, ask: Callable[[Attempt], Any], event_log: Log
) -> None:
    answer = ask(Attempt())
    assert answer.headers["Cache-Control"].count("no-store") == 1
    reference = answer.headers["X-Reference"]
    assert REFERENCE.fullmatch(reference)
    [line] = [line for line in event_log.of("refused") if line["reference"] == reference]
    assert line["code"] == code
    assert line["status"] in range(400, 600)
    assert line["cause"]
    shown = html.unescape(b"".join(answer).decode())
    places = [shown, answer.headers.get("Location", ""), answer.headers.get("WWW-Authenticate", "")]
    described = [place for place in places if "error_description" in place]
    for place in described:
        assert len(re.findall(rf"Reference(?: |%20){reference}\.", place)) == place.count("error_description")
    if is_page:
        assert SHOWN.findall(shown) == [reference]
    if code == "token_unknown":
        assert len(described) == 2


def test_only_the_page_of_a_wrong_answer_has_its_reference() -> None:
    for path in ("/accounts/sign-in", "/accounts/sign-up"):
        assert "<span>Reference</span>" not in Client().get(path).text
    for answer in (
        sign_in(Client(), PersonFactory().email, "not the password"),
        with_session(PersonFactory()).post("/accounts/profile", {"nickname": "\x07"}),
        admin_browser().post("/admin/oauth_bridge/application/add/", {"name": "A", "redirect_uris": "nowhere"}),
    ):
        assert SHOWN.findall(answer.text) == [answer["X-Reference"]]


def test_the_event_names_client_and_person_and_no_other_private_detail(event_log: Log) -> None:
    given = Attempt()
    of_subject.set(Subject(given.application.client_id, given.person.pk))
    write(RequestError(SiteFault.BAD_REQUEST, what="public").about(cause="queue_too_slow", age=3))
    of_subject.set(None)
    [line] = event_log.of("refused")
    members = ("code", "status", "cause", "client_id", "person")
    wanted = ("bad_request", 400, "queue_too_slow", given.application.client_id, str(given.person.pk))
    assert tuple(line[name] for name in members) == wanted
    assert not {"what", "age"} & line.keys()


@pytest.mark.parametrize(("is_signed_in", "method"), [(True, "get"), (False, "head")])
def test_every_path_has_a_reference_unless_a_cache_may_store_the_answer(is_signed_in: bool, method: str) -> None:
    given, stored = Attempt(), set()
    given.person.is_staff = given.person.is_superuser = True
    given.person.save()
    token = TokenFactory(application=given.application, user=given.person)
    if is_signed_in:
        given.browser.force_login(given.person)
    ask = getattr(given.browser, method)
    avatar = avatar_url(given.person).removeprefix("http://testserver")
    for path in {*example_paths(), avatar, "/static/css/site.css", "/static/nothing.css", "/nothing"}:
        answer = ask(path, HTTP_AUTHORIZATION=f"Bearer {token.raw}")
        is_stored = "no-store" not in answer.headers["Cache-Control"]
        assert ("X-Reference" in answer.headers) is not is_stored, path
        if is_stored:
            assert answer.status_code == 200
            stored.add(path)
            if etag := answer.headers.get("ETag"):
                unchanged = ask(path, HTTP_IF_NONE_MATCH=etag)
                assert (unchanged.status_code, "X-Reference" in unchanged.headers) == (304, False)
    published = {paths.OPENID_CONFIGURATION, paths.SERVER_METADATA, paths.JWKS}
    assert stored == {"/static/css/site.css", "/openapi.json", "/docs", avatar, *published}
