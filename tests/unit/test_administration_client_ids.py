"""A client ID that no application has: on its record, and in *Find*. D24."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from oauth_bridge.activity.statistics import MOST_RECORDS
from oauth_bridge.administration.record_facts import MOST_NEAR, PART
from oauth_bridge.models import CLIENT_ID_LENGTH, MISTYPED_CLIENT_ID, Application
from oauth_bridge.models.activity import ActivityRecord, Step
from tests.factories import PersonFactory
from tests.grants import HTML, Attempt
from tests.pages import html_of, text_of, with_session
from tests.unit.test_administration import staff
from tests.unit.test_administration_records import ACTIVITY, named, page_of

pytestmark = pytest.mark.django_db

NEAR = "Applications with nearly the same client ID:"


@pytest.mark.parametrize(
    ("sent", "callback", "said_of_it"),
    [
        ("0" * 32, "https://r.test/cb/back", "is registered for: Reading List"),
        ("21" + "3a" * 14 + "3z", "https://x.test/", f"{NEAR} Reading List"),
        ("12" + "3a" * 14, "https://x.test/", f"{NEAR} Reading List"),
        ("zzz" + "a" + "3a" * 14, "https://x.test/", ""),
        ("0" * 32, "https://r.test/cb", ""),
    ],
    ids=["the callback", "two swapped and one wrong", "two missing", "three wrong", "the beginning of a callback"],
)
def test_an_unknown_client_id_names_the_application_that_is_meant(
    grace: Client, sent: str, callback: str, said_of_it: str
) -> None:
    given = Attempt()
    Application.objects.filter(pk=given.application.row.pk).update(
        name="Reading List", client_id="12" + "3a" * 15, redirect_uris="https://r.test/cb/back"
    )
    named("Kiosk")
    given.browser.get(given.link(client_id=sent, redirect_uri=callback), **HTML)
    record = ActivityRecord.objects.get()
    page = reverse("admin:record", args=[record.pk])
    assert record.cause == "client_unknown"
    said = text_of(grace.get(page))
    assert said_of_it in said
    assert ("Reading List" in said) is bool(said_of_it)
    assert "Kiosk" not in said
    assert "Reading List" not in text_of(staff(ACTIVITY).get(page))


def test_find_opens_the_record_of_an_exchange_with_an_unknown_client_id(grace: Client) -> None:
    given, owner = Attempt(), PersonFactory(is_staff=True)
    Application.objects.filter(pk=given.application.row.pk).update(name="Reading List", client_id="12" + "3a" * 15)
    given.application.row.owners.add(owner)
    sent = "21" + "3a" * 15
    form = {"grant_type": "authorization_code", "code": "x", "client_id": sent, "client_secret": "wrong"}
    given.post("/oauth/token", form)
    page = grace.get("/admin/find/", {"q": sent}, follow=True)
    assert page.redirect_chain[-1][0] == reverse("admin:record", args=[ActivityRecord.objects.get().pk])
    assert f"client_id {sent}" in text_of(page)
    assert f"{NEAR} Reading List" in text_of(page)
    for browser, typed in ((with_session(owner), sent), (grace, "cd" * 16)):
        assert "Nothing is found" in text_of(browser.get("/admin/find/", {"q": typed}))


@pytest.mark.integration
def test_what_may_be_a_secret_in_the_place_of_a_client_id_is_not_kept_and_a_nul_is_no_harm() -> None:
    given = Attempt()
    secret = given.application.client_secret
    form = {"grant_type": "authorization_code", "code": "x", "client_id": secret, "client_secret": secret}
    given.post("/oauth/token", form)
    given.post("/oauth/token", {**form, "client_id": secret[:CLIENT_ID_LENGTH].upper()})
    given.post("/oauth/token", {**form, "client_id": given.application.client_id, "client_secret": "wrong"})
    given.post("/oauth/token", {**form, "client_id": "a\0b"})
    *unknown, known, nul = [record.detail for record in ActivityRecord.objects.order_by("pk")]
    assert [each["parameters"]["client_id"] for each in unknown] == [str(len(secret)), str(CLIENT_ID_LENGTH)]
    assert "parameters" not in known, "the client ID is that of the record"
    assert "\0" not in str(nul)
    assert [length for length in range(44) if re.fullmatch(MISTYPED_CLIENT_ID, "a" * length)] == [30, 31, 32, 33, 34]


def test_a_client_id_of_digits_is_shown(grace: Client) -> None:
    sent = {"client_id": "0" * 32, "state": "12", "nonce": "1"}
    page = page_of("client_unknown", Step.AUTHORIZE, detail={"parameters": sent})
    said = text_of(grace.get(page))
    assert f"client_id {'0' * 32}" in said
    assert "state masked, 12 characters" in said
    assert "nonce masked, 1 character " in said
    masked = page_of("client_unknown", Step.AUTHORIZE, detail={"parameters": {"client_id": "43"}})
    found = grace.get("/admin/find/", {"q": "43"})  # the people and applications whose names have these digits
    assert found.status_code == 200
    assert masked not in html_of(found), "it is the length of a secret"


@pytest.mark.parametrize("cause", ["client_unknown", "client_deleted"])
def test_the_application_of_the_code_is_not_that_of_the_unknown_client_id(grace: Client, cause: str) -> None:
    detail = {"parameters": {"client_id": "3a" * 16}}
    page = page_of(cause, client_id=named("Kiosk").client_id, detail=detail)
    said = text_of(grace.get(page))
    assert "Not yet mended." in said
    assert grace.get("/admin/find/", {"q": "3a" * 16}).headers["Location"] == page
    named("Restored", client_id="3a" * 16)
    assert "Mended." in text_of(grace.get(page))


def test_find_names_the_applications_with_nearly_the_same_client_id(grace: Client) -> None:
    row = named("Reading List", client_id="12" + "3a" * 15)
    typed = {"q": "21" + "3a" * 15}
    answer = grace.get("/admin/find/", typed)
    assert f"{NEAR} Reading List" in text_of(answer)
    assert f"{NEAR} Reading List" in text_of(grace.get("/admin/find/", {"q": typed["q"].upper()}))
    assert f'href="{reverse("admin:application", args=[row.pk])}"' in html_of(answer)
    assert "Reading List" not in text_of(staff(ACTIVITY).get("/admin/find/", typed))
    for other in ("zz" + "3a" * 14 + "zz", "12" + "3a" * 14 + "3\0"):
        assert NEAR not in text_of(grace.get("/admin/find/", {"q": other}))
    for number in range(MOST_NEAR + 1):
        named(f"<b>{number}</b>", client_id="4c" * 15 + f"b{number}")
    listed = html_of(grace.get("/admin/find/", {"q": "4c" * 16})).partition(NEAR)[2].partition("</p>")[0]
    assert listed.count("<bdi>&lt;b&gt;") == MOST_NEAR
    assert listed.count("</a>, <a") == MOST_NEAR - 1


def test_one_right_part_is_enough_to_find_what_two_swapped_pairs_changed(grace: Client) -> None:
    """The four other parts change: a pair is swapped across the border of two parts."""
    client_id = "0123456789abcdefghijklmnopqrst" + "uv"
    named("Reading List", client_id=client_id)
    for right, borders in {0: (2, 4), 1: (3,), 2: (1, 4), 3: (1,), 4: (1, 3)}.items():
        typed = client_id
        for at in (border * PART for border in borders):
            typed = typed[: at - 1] + typed[at] + typed[at - 1] + typed[at + 1 :]
        assert typed[right * PART : (right + 1) * PART] == client_id[right * PART : (right + 1) * PART]
        assert f"{NEAR} Reading List" in text_of(grace.get("/admin/find/", {"q": typed}))


@pytest.mark.integration
def test_find_opens_the_newest_of_the_last_records_of_an_unknown_client_id(grace: Client) -> None:
    detail = {"parameters": {"client_id": "ab" * 16}}
    for pk in (1, 2):
        page = page_of("client_unknown", Step.AUTHORIZE, detail=detail, pk=pk)
    assert grace.get("/admin/find/", {"q": "ab" * 16}).headers["Location"] == page
    page_of("busy", Step.AUTHORIZE, pk=2 + MOST_RECORDS)
    assert "Nothing is found" in text_of(grace.get("/admin/find/", {"q": "ab" * 16}))
