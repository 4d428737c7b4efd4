"""A name is data: no page, message or e-mail uses it as a template, whatever signs it contains."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from oauth_bridge.activity import counts
from oauth_bridge.administration import application_acts
from oauth_bridge.administration.person import ACTS as ACTS_ON_PEOPLE
from oauth_bridge.applications import registry
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application
from tests.factories import ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory
from tests.grants import HTML, Attempt
from tests.pages import admin_browser, with_session
from tests.unit.test_accounts_notices import KINDS, composed

SIGNS = "100% %(name)s %s {0} {name} {{ x }} %%"
APPLICATION, PERSON, GROUP, OPERATOR = (f"{kind} {SIGNS}" for kind in ("Zapp", "Zperson", "Zgroup", "Zoperator"))
EMAIL = "zmail%s{0}{name}%%@example.com"
CALLBACK = "https://client.example/zcallback%28name%29s%25"


def is_whole(text: str) -> None:
    """Each name in the text is all of it."""
    text = re.sub(r"\s+", " ", unescape(re.sub(r'href="[^"]*"', "", text)))
    for name in (APPLICATION, PERSON, GROUP, OPERATOR, EMAIL):
        for found in re.finditer(re.escape(name.split()[0][:5]), text):
            assert text.startswith(name, found.start()), text[found.start() - 80 : found.start() + 80]


@pytest.fixture
def named() -> tuple[Application, User, Group]:
    group = Group.objects.create(name=GROUP)
    group.permissions.set(Permission.objects.filter(codename="view_group"))
    person = PersonFactory(nickname=PERSON, email=EMAIL, is_staff=True)
    person.groups.add(group)
    attempt = Attempt()
    attempt.application = ApplicationFactory(
        name=APPLICATION, operator=OPERATOR, homepage="https://client.example/", redirect_uris=CALLBACK
    )
    application = attempt.application.row
    registry.set_groups(application, [group])
    registry.set_owners(application, [person])
    ApplicationFactory(name=APPLICATION)
    ConsentFactory(application=application, user=person, fingerprint="x")
    CodeFactory(application=application, user=person, redirect_uri=CALLBACK, redeemed_at=timezone.now())
    secret_rotation.rotate(application, maker=person)
    attempt.person = person
    attempt.browser.get(attempt.link(redirect_uri=f"{CALLBACK}/"), **HTML)
    attempt.answer(decision="refuse")
    attempt.person = PersonFactory(nickname=PERSON)
    attempt.browser.get(attempt.link(), **HTML)
    counts.flush()
    return application, person, group


def walked(browser: Client, *starts: str) -> Counter[str]:
    """Follow the links from these pages, at most two of a kind. Returns the kinds."""
    waiting, kinds = [*starts], Counter[str]()
    while waiting:
        address = waiting.pop()
        kind = address if address in starts else re.sub(r"[0-9a-f-]{20,}|\d+", "*", address.partition("?")[0])
        if kinds[kind] > 1 or kind.startswith(("/static/", "/docs")):
            continue
        kinds[kind] += 1
        answer = browser.get(address, follow=True, **HTML)
        assert answer.status_code < 500, address
        if answer["Content-Type"].startswith("text/html"):
            is_whole(answer.text)
            links = (unescape(link) for link in re.findall(r'href="([/?][^"#]*)"', answer.text))
            waiting += [answer.request["PATH_INFO"] + link if link.startswith("?") else link for link in links]
    return kinds


@pytest.mark.django_db
def test_a_name_is_never_a_template(named: tuple[Application, User, Group]) -> None:
    application, person, group = named
    root = admin_browser()
    own = with_session(person)

    def posted(address: str, **form: Any) -> None:
        answer = root.post(address, form, follow=True)
        assert answer.status_code == 200, address
        is_whole(answer.text)

    page = reverse("admin:person", args=[person.pk])
    end = f"{page}?act=end&client_id={application.client_id}"
    acts = [f"{page}?act={name}" for name in ACTS_ON_PEOPLE]
    acts += [reverse("admin:application_act", args=[application.pk, name]) for name in application_acts.ACTS]
    kinds = walked(root, "/admin/", "/admin/find/?q=zapp", end, *acts)
    assert len(kinds) > 40, sorted(kinds)
    link = f"/oauth/authorize?client_id={application.client_id}&redirect_uri={quote(CALLBACK)}&response_type=code"
    walked(own, "/accounts/profile", "/admin/", link)
    for browser in (Client(), with_session(PersonFactory(nickname=PERSON))):
        answer = browser.get(link, follow=True, **HTML)
        assert "Zapp" in answer.text
        is_whole(answer.text)
    for address in [end, *acts]:
        posted(address, owners=[str(person.pk)])
    posted(reverse("admin:auth_group_delete", args=[group.pk]), post="yes")
    posted(reverse("admin:accounts_user_delete", args=[person.pk]), post="yes", typed=EMAIL)
    posted(reverse("admin:oauth_bridge_application_delete", args=[application.pk]), post="yes", typed=APPLICATION)
    walked(root, "/admin/trail/", "/admin/activity/?days=30")
    for kind in KINDS:
        message = composed(kind, nickname=PERSON, application=APPLICATION)
        for text in (message.subject, message.text, re.sub("<[^>]+>", "", message.html)):
            is_whole(text)
