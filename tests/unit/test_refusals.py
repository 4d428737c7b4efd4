"""Every answer that is an error writes one event "refused", and has a reference that the log has too. D19, D24."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from accounts.pictures.current_picture import avatar_url
from config.infrastructure import paths
from config.infrastructure.errors import RequestError, SiteFault, Subject, of_subject, write
from tests.factories import PersonFactory, TokenFactory
from tests.grants import HTML, Attempt, Log, example_paths
from tests.pages import admin_browser, sign_in, with_session

pytestmark = pytest.mark.django_db

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
WAYS: list[tuple[str, bool, Callable[[Attempt], Any]]] = [
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


@pytest.mark.parametrize(("code", "is_page", "ask"), WAYS)
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
