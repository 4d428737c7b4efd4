"""Pages that interrupt a sign-in, and how the person continues it. D8, D16."""

import re
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.contrib.sessions.exceptions import SessionInterrupted
from django.test import Client
from django.utils import timezone

from oauth_bridge.consent import remembered
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.storage import applications
from tests.factories import PersonFactory
from tests.pages import mailed_code

pytestmark = pytest.mark.django_db
CALLBACK = "https://reading.example/callback"
PAGE = {"HTTP_ACCEPT": "text/html"}


@pytest.fixture
def application(db):
    return applications.register(name="Reading List", redirect_uris=[CALLBACK], homepage="https://reading.example")[0]


@pytest.fixture
def link(application):
    return f"/oauth/authorize?client_id={application.client_id}&redirect_uri={CALLBACK}&response_type=code&state=s"


def answered(client, fields, **options):
    """The answer to a post of these fields, in the encoding of the consent page."""
    form = "application/x-www-form-urlencoded"
    return client.post("/oauth/authorize", urlencode(fields), content_type=form, **options)


def hidden(page, name):
    return unescape(re.search(f'name="{name}" value="([^"]*)"', page.content.decode())[1])


def test_a_person_with_an_unconfirmed_address_is_mailed_a_code_and_comes_back(client, alice, link):
    alice.email_verified_at = None
    alice.save()
    client.force_login(alice)
    stopped = client.get(link, **PAGE)
    assert stopped.status_code == 403
    assert "not confirmed" in stopped.content.decode()
    assert not AuthorizationCode.objects.exists()

    send = unescape(re.search(r'action="(/accounts/confirm-email/send[^"]+)"', stopped.content.decode())[1])
    typed = client.post(send, follow=True)
    page = client.post(typed.redirect_chain[-1][0], {"code": mailed_code()}, follow=True, **PAGE)
    assert "asks who you are" in page.content.decode()


def test_an_answered_consent_page_leads_to_the_application_and_starts_no_attempt(client, alice, link):
    client.force_login(alice)
    page = client.get(link, follow=True, **PAGE)
    post = {"pending": hidden(page, "pending"), "decision": "allow"}
    answered(client, post)
    AuthorizationCode.objects.update(redeemed_at=timezone.now())
    done = answered(client, post, **PAGE)
    assert done.status_code == 200
    assert "You already signed in to Reading List" in done.content.decode()
    assert 'href="https://reading.example"' in done.content.decode()
    assert "/oauth/authorize" not in done.content.decode()


def test_the_page_of_a_bad_address_shows_what_was_sent_and_nothing_of_what_is_registered(client, link):
    page = client.get(link.replace("callback&", "callbacks%3Cb%3E&"), **PAGE)
    text = page.content.decode()
    assert page.status_code == 400
    assert "https://reading.example/callbacks&lt;b&gt;" in text
    assert f"{CALLBACK}<" not in text


def test_a_late_answer_does_not_use_the_consent_of_the_person_who_is_signed_in_now(client, alice, link, application):
    """The page was Alice's; Bob, who has remembered the application, is signed in when it is posted."""
    bob = PersonFactory(nickname="Bob")
    remembered.remember(bob, application)
    client.force_login(alice)
    pending = hidden(client.get(link, follow=True, **PAGE), "pending")
    client.force_login(bob)
    allowed = answered(client, {"pending": pending, "decision": "allow"}, follow=True, **PAGE)
    assert "Continue to <bdi>Reading List</bdi> as <bdi>Bob</bdi>?" in allowed.content.decode()
    refused = answered(client, {"pending": pending, "decision": "refuse"}, **PAGE)
    assert refused["Location"].startswith(f"{CALLBACK}?error=access_denied")
    assert not AuthorizationCode.objects.exists()


def test_one_link_followed_by_two_people_is_an_attempt_of_each(client, alice, mallory, link):
    shared = client.get(link, **PAGE)["Location"]
    shared = parse_qs(urlsplit(shared).query)["next"][0]
    client.force_login(alice)
    post = {"pending": hidden(client.get(shared, **PAGE), "pending"), "decision": "allow"}
    assert "code=" in answered(client, post)["Location"]
    client.force_login(mallory)
    for decision, expected in (("refuse", "error=access_denied"), ("allow", "code=")):
        post = {"pending": hidden(client.get(shared, **PAGE), "pending"), "decision": decision}
        assert expected in answered(client, post)["Location"]
    assert {row.user for row in AuthorizationCode.objects.all()} == {alice, mallory}


@pytest.mark.parametrize("purpose", ["Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"])
def test_no_kind_of_speculation_gets_a_code(client, alice, link, application, purpose):
    remembered.remember(alice, application)
    client.force_login(alice)
    answer = client.get(link, headers={purpose: "prefetch;prerender"})
    assert answer.status_code == 503
    assert not AuthorizationCode.objects.exists()


def test_a_post_leads_on_when_another_tab_has_signed_out_meanwhile(client, alice, link, monkeypatch):
    client.force_login(alice)
    pending = hidden(client.get(link, follow=True, **PAGE), "pending")

    def interrupted(*arguments):
        raise SessionInterrupted

    monkeypatch.setattr("oauth_bridge.backend.codes.issue", interrupted)
    answer = answered(client, {"pending": pending, "decision": "allow"}, **PAGE)
    assert answer.status_code == 303
    assert answer["Location"].startswith("/oauth/authorize?pending=")


@pytest.mark.parametrize("more", ["x=1&x=2", "notice=1&notice=1", "pending=other"])
def test_a_link_of_ours_repeats_no_parameter(client, alice, link, more):
    client.force_login(alice)
    onward = Client().get(link)["Location"]
    sealed = parse_qs(urlsplit(onward).query)["next"][0]
    assert "asks who you are" in client.get(sealed, **PAGE).content.decode()
    answer = client.get(f"{sealed}&{more}", **PAGE)
    assert answer["Location"].startswith(f"{CALLBACK}?error=invalid_request")
    assert answer["Location"].endswith("&state=s")
