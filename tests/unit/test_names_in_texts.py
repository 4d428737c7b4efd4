"""A name is data: no page, message or e-mail uses it as a template, whatever signs it contains."""

from __future__ import annotations

import re
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
from oauth_bridge.consent import consents
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import ActivityRecord, Application
from tests.factories import ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory
from tests.grants import HTML, Attempt
from tests.pages import admin_browser, with_session
from tests.unit.test_accounts_notices import KINDS, composed

SIGNS = "100% %(name)s %s {0} {name} {{ x }} %%"
APPLICATION, PERSON, GROUP, OPERATOR = (f"{kind} {SIGNS}" for kind in ("Zapp", "Zperson", "Zgroup", "Zoperator"))
EMAIL = "zmail%s{0}{name}%%@example.com"
CALLBACK = "https://client.example/zcallback%28name%29s%25"


def is_whole(text: str) -> None:
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
    attempt = Attempt(name=APPLICATION, operator=OPERATOR, homepage="https://client.example/", redirect_uris=CALLBACK)
    application = attempt.application.row
    registry.set_groups(application, [group])
    registry.set_owners(application, [person])
    consents.remember(person, ApplicationFactory(name=APPLICATION).row)
    ConsentFactory(application=application, user=person, fingerprint="x")
    CodeFactory(application=application, user=person, redirect_uri=CALLBACK, redeemed_at=timezone.now())
    secret_rotation.rotate(application, maker=person)
    attempt.person = person
    attempt.browser.get(attempt.link(redirect_uri=f"{CALLBACK}/"), **HTML)
    attempt.answer(decision="refuse")
    counts.flush()
    return application, person, group


@pytest.mark.django_db
def test_a_name_is_never_a_template(named: tuple[Application, User, Group]) -> None:
    application, person, group = named
    root, own = admin_browser(), with_session(person)
    page = reverse("admin:person", args=[person.pk])
    end = f"{page}?act=end&client_id={application.client_id}"
    acts = [f"{page}?act={name}" for name in ACTS_ON_PEOPLE]
    acts += [reverse("admin:application_act", args=[application.pk, name]) for name in application_acts.ACTS]
    link = f"/oauth/authorize?client_id={application.client_id}&redirect_uri={quote(CALLBACK)}&response_type=code"
    records = [f"/admin/activity/{pk}/" for pk in ActivityRecord.objects.values_list("pk", flat=True)]
    pages = ["/admin/", "/admin/find/?q=zapp", "/admin/trail/", "/admin/activity/?days=30", page, *records]
    pages += [reverse("admin:application", args=[application.pk]), end, *acts]
    for browser, address in (
        *((root, address) for address in pages),
        *((own, address) for address in ("/accounts/profile", "/accounts/applications", "/admin/", link)),
        (Client(), link),
    ):
        answer = browser.get(address, follow=True, **HTML)
        assert answer.status_code == 200, address
        is_whole(answer.text)
    twin = Application.objects.exclude(pk=application.pk).get()
    for button, said in (("ask_again", "will ask again."), ("disconnect", "is disconnected.")):
        answer = own.post("/accounts/applications", {button: twin.client_id}, follow=True)
        assert f"{APPLICATION} {said}" in unescape(answer.text)
    posts: list[tuple[str, dict[str, Any]]] = [(address, {"owners": [str(person.pk)]}) for address in [end, *acts]]
    for row, typed in ((group, ""), (person, EMAIL), (application, APPLICATION)):
        address = reverse(f"admin:{row._meta.db_table}_delete", args=[row.pk])
        posts.append((address, {"post": "yes", "typed": typed}))
    for address, form in posts:
        answer = root.post(address, form, follow=True)
        assert answer.status_code == 200, address
        is_whole(answer.text)
    for kind in KINDS:
        message = composed(kind, nickname=PERSON, application=APPLICATION)
        for text in (message.subject, message.text, re.sub("<[^>]+>", "", message.html)):
            is_whole(text)
