"""Every answer that is an error writes one event "refused", and has a reference that the log has too. D19, D24."""

from __future__ import annotations

import html
import re
import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from accounts.passwords.hashing import HashingBusy
from accounts.pictures.current_picture import avatar_url
from config.http import gunicorn_errors
from config.infrastructure import paths, references
from config.infrastructure.errors import RequestError, SiteFault, report
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.storage import applications
from tests.events import HTML, Attempt, Log
from tests.factories import PersonFactory, TokenFactory
from tests.paths import example_paths

pytestmark = pytest.mark.django_db

REFERENCE = re.compile("[0-9A-HJKMNP-TV-Z]{8}")


def of_another_session(given: Attempt) -> Any:
    form = given.form(decision="allow")
    given.browser.force_login(PersonFactory())
    return given.post("/oauth/authorize", form)


def redeemed(given: Attempt) -> Any:
    form = given.form(decision="allow")
    given.post("/oauth/authorize", form)
    AuthorizationCode.objects.update(redeemed_at=timezone.now())
    return given.post("/oauth/authorize", form)


def not_confirmed(given: Attempt) -> Any:
    given.person.email_verified_at = None
    given.person.save()
    given.browser.force_login(given.person)
    return given.browser.get(given.link(), **HTML)


def not_admitted(given: Attempt) -> Any:
    applications.set_groups(given.application.row, [Group.objects.create(name="others")])
    given.browser.force_login(given.person)
    return given.browser.get(given.link(), **HTML)


def without_csrf_token(path: str) -> Callable[[Attempt], Any]:
    return lambda given: given.post(path, {"login": "x"}, Client(enforce_csrf_checks=True))


def consent_without_csrf_token(given: Attempt) -> Any:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = given.browser.cookies
    return given.post("/oauth/authorize", given.form(decision="allow"), strict)


def admin_of_a_person(given: Attempt) -> Any:
    given.browser.force_login(given.person)
    return given.browser.get("/admin/login/", **HTML)


def often(path: str, form: dict[str, str], times: int) -> Callable[[Attempt], Any]:
    return lambda given: [given.browser.post(path, form) for _ in range(times)][-1]


WAYS: dict[str, tuple[str, Callable[[Attempt], Any]]] = {
    "JSON of the token operation": ("missing", lambda given: given.post("/oauth/token", {"code": "x"})),
    "JSON of user info": ("token_missing", lambda given: given.browser.get("/oauth/userinfo")),
    "a token that is not known": (
        "token_unknown",
        lambda given: given.browser.get("/oauth/userinfo", HTTP_AUTHORIZATION="Bearer x"),
    ),
    "a page of authorize": ("client_unknown", lambda given: given.browser.get(given.link(client_id="x"), **HTML)),
    "a redirect to the callback": ("response_type", lambda given: given.browser.get(given.link(response_type="x"))),
    "the person refuses": ("refused", lambda given: given.answer(decision="refuse")),
    "a consent page of another session": ("consent_page_outdated", of_another_session),
    "a consent page after the redemption": ("attempt_finished", redeemed),
    "a person whom the application is not for": ("not_admitted", not_admitted),
    "an address that is not confirmed": ("no_verified_email", not_confirmed),
    "a form without a CSRF token": ("csrf", without_csrf_token("/accounts/sign-in")),
    "a consent form without a CSRF token": ("csrf", consent_without_csrf_token),
    "CSRF where no page is shown again": ("csrf", without_csrf_token("/oauth/authorize")),
    "the administration": ("forbidden", admin_of_a_person),
    "no such path, as a page": ("not_found", lambda given: given.browser.get("/nothing", **HTML)),
    "no such path, as JSON": ("not_found", lambda given: given.browser.get("/oauth/nothing")),
    "no such picture": ("not_found", lambda given: given.browser.get("/avatars/x")),
    "a method at an operation": ("method", lambda given: given.browser.put("/oauth/token")),
    "a method that Django refuses": ("method", lambda given: given.browser.post("/health/live")),
    "a method of a static file": ("method", lambda given: given.browser.post("/static/css/site.css")),
    "a long header": ("header_too_long", lambda given: given.browser.get("/", HTTP_ACCEPT="x" * 3000)),
    "a multipart form": (
        "media_type",
        lambda given: given.browser.generic("POST", "/", b"--b--", "multipart/form-data; boundary=b"),
    ),
    "another host": ("host_named", lambda given: given.browser.get("/", HTTP_HOST="evil.example")),
    "a limit that a page explains": (
        "requests_limited",
        often("/accounts/password/reset", {"email": "a@b.example"}, 21),
    ),
    "a limit that a form explains": (
        "sign_in_limited",
        often("/accounts/sign-in", {"login": "a@b.example", "password": "x"}, 11),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_an_error_writes_one_event_with_the_reference_of_the_answer(way: str, event_log: Log) -> None:
    code, ask = WAYS[way]
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
    if 'class="developer"' in shown:
        assert f"<code>{reference}</code>" in shown
    if way == "a token that is not known":
        assert len(described) == 2


@pytest.mark.parametrize(
    ("raised", "code"),
    [(OperationalError, "away"), (HashingBusy, "busy"), (ZeroDivisionError, "server_error")],
)
def test_a_fault_of_ours_is_an_event_and_its_page_shows_the_reference(
    raised: type[Exception], code: str, event_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("accounts.throttling.sign_in_wait", broken)
    browser = Client(raise_request_exception=False)
    if raised is HashingBusy:  # the form explains that one
        monkeypatch.setattr("oauth_bridge.error_responses.not_found", broken)
        answer = browser.get("/nothing", **HTML)
    else:
        answer = browser.post("/accounts/sign-in", {"login": "a@b.example", "password": "x"}, **HTML)
    reference = answer.headers["X-Reference"]
    assert [(line["code"], line["reference"]) for line in event_log.of("refused")] == [(code, reference)]
    assert reference in answer.content.decode()


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "bad_request"), (414, "line_too_long"), (431, "headers_too_large"), (500, "server_error")],
)
def test_what_the_server_refuses_itself_is_an_event_with_the_reference_of_the_answer(
    status: int, code: str, event_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = threading.local()
    thread.request = SimpleNamespace(method="GET")
    monkeypatch.setattr(gunicorn_errors, "_thread", thread)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        gunicorn_errors.write_error(ours, status, "", "")
        head, _, body = theirs.recv(10_000).decode().partition("\r\n\r\n")
    found = re.search(rf"X-Reference: ({REFERENCE.pattern})", head)
    assert found
    assert [(line["code"], line["reference"]) for line in event_log.of("refused")] == [(code, found[1])]
    assert references.current.get() == ""
    assert f"Reference {found[1]}." in body


def test_the_event_names_client_and_person_and_no_other_private_detail(event_log: Log) -> None:
    given = Attempt()
    report(
        RequestError(SiteFault.BAD_REQUEST, what="public").about(
            client=given.application.row, person=given.person.pk, cause="queue_too_slow", age=3
        )
    )
    [line] = event_log.of("refused")
    members = ("code", "status", "cause", "client_id", "person")
    wanted = ("bad_request", 400, "queue_too_slow", given.application.client_id, str(given.person.pk))
    assert tuple(line[name] for name in members) == wanted
    assert not {"what", "age"} & line.keys()


# The reference -------------------------------------------------------------------------------------------------------


def test_the_alphabet_has_no_look_alikes_and_no_two_references_are_equal() -> None:
    seen = {references.new() for _ in range(2000)}
    assert len(seen) == 2000
    assert all(REFERENCE.fullmatch(each) for each in seen)
    assert set("".join(seen)) == set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


@pytest.mark.parametrize("is_signed_in", [True, False])
def test_every_path_has_a_reference_unless_a_cache_may_store_the_answer(is_signed_in: bool) -> None:
    """Also after a HEAD, and also a 304."""
    given, stored = Attempt(), set()
    given.person.is_staff = given.person.is_superuser = True
    given.person.save()
    token = TokenFactory(application=given.application, user=given.person)
    if is_signed_in:
        given.browser.force_login(given.person)
    avatar = avatar_url(given.person).removeprefix("http://testserver")
    for path in {*example_paths(), avatar, "/static/css/site.css", "/static/nothing.css", "/nothing"}:
        for method in (given.browser.get, given.browser.head):
            answer = method(path, HTTP_AUTHORIZATION=f"Bearer {token.raw}")
            is_stored = "no-store" not in answer.headers["Cache-Control"]
            assert ("X-Reference" in answer.headers) is not is_stored, path
            if is_stored:
                assert answer.status_code == 200
                stored.add(path)
                if etag := answer.headers.get("ETag"):
                    unchanged = method(path, HTTP_IF_NONE_MATCH=etag)
                    assert (unchanged.status_code, "X-Reference" in unchanged.headers) == (304, False)
    published = {paths.OPENID_CONFIGURATION, paths.SERVER_METADATA, paths.JWKS}
    assert stored == {"/static/css/site.css", "/openapi.json", "/docs", avatar, *published}
