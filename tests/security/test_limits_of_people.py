"""The limits of sign-in, reset and codes by mail in docs/contract.md, tested as attacker and as victim. D21.

`tests.project.test_documents` requires two tests of each row: `test_<row>_stops_the_attacker` and
`test_<row>_lets_the_victim_go_on`. The row states what the victim can still do.
"""

from __future__ import annotations

import io
import json
import re
import threading
import time
from collections import Counter
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.mail import outbox
from accounts.mail.composing import compose
from accounts.models import AuditEntry, OutgoingMail, Session, User
from accounts.pictures import reencoder, reencoder_runner
from oauth_bridge.applications import mails, registry
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application
from tests.contract_coverage import contract
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, picture, upload
from tests.grants import (
    ANOTHER,
    HERS,
    add_second_factor,
    answer,
    ask_for_reset,
    choose_password_by_mail,
    consent_page,
    site_address,
    statuses,
    try_password,
)
from tests.pages import (
    admin_browser,
    browser_of,
    deliver_all,
    known_browser,
    mailed_code,
    proven,
    sign_up,
    text_of,
    type_code,
    with_session,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_moment")]


def test_the_rates_are_those_of_the_table(settings: Any) -> None:
    """The tests of the rows set smaller ones."""
    table = (Path(__file__).parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")
    rates = {row: re.findall(r"\d+/\w+", cell) for row, cell in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", table, re.M)}
    further = {"sign_up": ["sign_up_day"], "picture": ["picture_hour"]}
    for row, shown in rates.items():
        names = [{"sign_in_of_all": "sign_in"}.get(row, row), *further.get(row, [])]
        found = [settings.RATES[name] for name in names if name in settings.RATES]
        assert shown[: len(found)] == found, row
    assert [settings.RATES[name] for name in ("revoke", "introspect", "notice_of_all", "act")] == [
        *(["6000/m"] * 2),
        *("20/h", "3000/h"),
    ]
    assert settings.RESET_MAILS_FROM_ALL == 3
    assert rates["new_browser_mail"] == [f"{settings.NEW_BROWSER_MAILS_PER_DAY}/d"]


@contract("D21.sign-in-account")
def test_sign_in_account_stops_the_attacker(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_account": "2/15m"}
    assert statuses([try_password(alice.email, address=HERS) for _ in range(4)]) == [200] * 2 + [429] * 2
    assert try_password(alice.email, PASSWORD, address=HERS).status_code == 429


@contract("D21.sign-in-account", "D21.known")
def test_sign_in_account_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_account": "2/15m"}
    known = known_browser(alice)
    for _ in range(4):
        try_password(alice.email, address=HERS)
    assert try_password(alice.email, PASSWORD, address=ANOTHER).status_code == 302
    assert try_password(alice.email, PASSWORD, address=HERS, browser=known).status_code == 302


def test_a_password_is_guessed_no_more_often_at_sign_up(settings: Any) -> None:
    """Nor is it visible there whether the address of an account is confirmed."""
    settings.RATES, settings.SIGN_UP = {"sign_in_account": "2/15m"}, "open"
    for verified_at in (timezone.now(), None):
        bob = PersonFactory(email_verified_at=verified_at)
        for each, password in enumerate(["a guessed phrase", "another guessed phrase", PASSWORD]):
            with time_machine.travel(time.time() + 11 * each, tick=False):
                answer = sign_up(Client(), email=bob.email, password1=password, address=HERS)
            assert (answer.status_code, answer["Location"]) == (302, "/accounts/confirm-email")
        assert {each.subject[:16] for each in mail.outbox} == {"You already have"}
        assert try_password(bob.email, PASSWORD, address=HERS).status_code == 429


def guess_everywhere(settings: Any, person: User) -> list[int]:
    settings.RATES = {"sign_in_account": "1/15m"}
    return statuses([try_password(person.email, address=f"192.0.2.{number}") for number in range(12)])


@contract("D21.rotating")
def test_sign_in_account_everywhere_stops_the_attacker(settings: Any, alice: User) -> None:
    assert guess_everywhere(settings, alice) == [200] * 10 + [429] * 2


@contract("D21.rotating", "D21.known")
def test_sign_in_account_everywhere_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    known = known_browser(alice)
    guess_everywhere(settings, alice)
    assert try_password(alice.email, PASSWORD, browser=known).status_code == 302
    fresh = Client()
    told = try_password(alice.email, PASSWORD, browser=fresh)
    assert told.status_code == 429
    assert "choose a new password with the link below" in told.content.decode()
    choose_password_by_mail(alice, fresh)


def test_one_machine_with_an_ipv6_site_locks_no_account(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_account": "1/15m"}
    for network in range(12):
        try_password(alice.email, address=site_address(4, network))
    assert try_password(alice.email, PASSWORD).status_code == 302


@contract("D21.sign-in-address", "8/rate")
def test_sign_in_address_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"sign_in_address": "2/15m"}
    answers = [try_password(f"person{number}@example.com", address=HERS) for number in range(4)]
    assert statuses(answers) == [200] * 2 + [429] * 2


@contract("D21.known")
def test_sign_in_address_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_address": "2/15m"}
    known = known_browser(alice)
    for number in range(3):
        try_password(f"person{number}@example.com", address=HERS)
    assert try_password(alice.email, PASSWORD, address=ANOTHER).status_code == 302
    assert try_password(alice.email, PASSWORD, address=HERS, browser=known).status_code == 302
    choose_password_by_mail(alice, Client(), HERS)


@contract("D21.all-sign-ins")
def test_sign_in_of_all_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"sign_in": "3/m"}
    answers = [try_password(f"person{number}@example.com", address=f"192.0.2.{number}") for number in range(5)]
    assert statuses(answers) == [200] * 3 + [429] * 2
    assert 1 <= int(answers[3]["Retry-After"]) <= 60


@contract("D21.all-sign-ins", "D21.known")
def test_sign_in_of_all_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in": "1/m"}
    known = known_browser(alice)
    try_password("person@example.com", address=HERS)
    assert try_password(alice.email, PASSWORD, browser=known).status_code == 302
    fresh = Client()
    assert f'value="{alice.email}"' in try_password(alice.email, PASSWORD, browser=fresh).text
    choose_password_by_mail(alice, fresh)


@contract("D21.sign-in-done")
def test_sign_in_done_stops_the_attacker(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_done": "2/15m"}
    answers = [try_password(alice.email, PASSWORD, address=f"192.0.2.{number}") for number in range(4)]
    assert statuses(answers) == [302] * 2 + [429] * 2
    assert "This account has signed in very often" in answers[3].content.decode()
    bob = PersonFactory()
    known, again = known_browser(bob), []
    for _ in range(4):
        again.append(try_password(bob.email, PASSWORD, browser=known))
        known.post("/accounts/sign-out")
    assert statuses(again) == [302] * 2 + [429] * 2


@contract("D21.sign-in-done", "D21.known")
def test_sign_in_done_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    known = known_browser(alice)
    settings.RATES = {"sign_in_done": "3/15m"}
    for number in range(5):
        try_password(alice.email, PASSWORD, address=f"192.0.2.{number}")
    assert try_password(alice.email, PASSWORD, browser=known).status_code == 302
    choose_password_by_mail(alice, Client())


def begin_sign_ins(settings: Any, person: User) -> list[int]:
    """Each right password stores a session that waits for the next step for an hour."""
    settings.RATES = {"sign_in_begun": "3/15m"}
    return statuses([try_password(person.email, PASSWORD, address=HERS) for _ in range(5)])


def test_sign_in_begun_stops_the_attacker(settings: Any, alice: User) -> None:
    add_second_factor(alice)
    assert begin_sign_ins(settings, alice) == [302] * 3 + [429] * 2
    assert Session.objects.count() == 3


def test_sign_in_begun_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    known = known_browser(alice)
    assert begin_sign_ins(settings, alice)[-1] == 429
    assert try_password(alice.email, PASSWORD, address=HERS, browser=known).status_code == 302


def test_reset_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"reset": "3/m"}
    answers = [ask_for_reset(f"person{number}@example.com", address=HERS) for number in range(5)]
    assert statuses(answers) == [302] * 3 + [429] * 2
    assert 1 <= int(answers[4]["Retry-After"]) <= 60
    rotating = [ask_for_reset(f"person{n}@example.com", address=site_address(5, n)) for n in range(14)]
    assert statuses(rotating) == [302] * 12 + [429] * 2


def test_reset_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"reset": "3/m"}
    for number in range(5):
        ask_for_reset(f"person{number}@example.com", address=HERS)
    choose_password_by_mail(alice, Client(), ANOTHER)


def ask_for_many_mails(email: str) -> None:
    for _ in range(8):
        ask_for_reset(email, address=HERS)
    assert len(mail.outbox) == 5
    ask_for_reset(email, address=ANOTHER)
    assert len(mail.outbox) == 6
    for number in range(12):
        ask_for_reset(email, address=f"203.0.113.{number}")
    assert len(mail.outbox) == 15


def test_reset_mail_stops_the_attacker(alice: User) -> None:
    ask_for_many_mails(alice.email)


@contract("D21.known")
def test_reset_mail_lets_the_victim_go_on(alice: User) -> None:
    known = known_browser(alice)
    ask_for_many_mails(alice.email)
    ask_for_reset(alice.email, browser=known)
    assert len(mail.outbox) == 16
    mail.outbox[15:] = []
    choose_password_by_mail(alice, Client(), HERS)


def post_password(address: str) -> Any:
    return Client().post("/accounts/password/reset/1-set-password", {"password1": "x"}, REMOTE_ADDR=address)


def test_new_password_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"new_password": "3/m"}
    answers = [post_password(HERS) for _ in range(5)]
    assert statuses(answers) == [200] * 3 + [429] * 2
    assert int(answers[4]["Retry-After"]) >= 1
    assert statuses([post_password(site_address(7, number)) for number in range(14)]) == [200] * 12 + [429] * 2


def test_new_password_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"new_password": "3/m"}
    for _ in range(5):
        post_password(HERS)
    choose_password_by_mail(alice, Client(), ANOTHER)


def test_code_by_mail_stops_the_attacker() -> None:
    bob = PersonFactory(email_verified_at=None)
    hers = Client()
    assert try_password(bob.email, PASSWORD, browser=hers)["Location"] == "/accounts/confirm-email"
    attempts = [hers.post("/accounts/confirm-email", {"code": "WRONG1"}) for _ in range(4)]
    assert statuses(attempts) == [200, 200, 302, 302]
    assert attempts[3]["Location"] == "/accounts/sign-in"
    assert try_password(bob.email, PASSWORD, browser=hers).get("Location") != "/accounts/confirm-email"
    assert len(mail.outbox) == 1


def test_code_by_mail_lets_the_victim_go_on() -> None:
    bob = PersonFactory(email_verified_at=None)
    for _ in range(5):
        try_password(bob.email, address=HERS)
    assert not mail.outbox
    his = Client()
    assert try_password(bob.email, PASSWORD, browser=his)["Location"] == "/accounts/confirm-email"
    assert type_code(his, mailed_code())["Location"] == "/accounts/profile"


def ask_for_codes(person: User, number: int) -> list[int]:
    browser = browser_of(person)
    return statuses([browser.post("/accounts/email", {"email": f"{n}-{person.email}"}) for n in range(number)])


def test_new_address_stops_the_attacker() -> None:
    assert ask_for_codes(PersonFactory(), 7) == [302] * 5 + [429] * 2
    assert len(mail.outbox) == 5


def test_new_address_lets_the_victim_go_on(alice: User) -> None:
    ask_for_codes(PersonFactory(), 7)
    assert ask_for_codes(alice, 1) == [302]


def send_picture(browser: Client, content: bytes) -> Any:
    return browser.post("/accounts/profile", {"nickname": "N", "picture": upload(content)})


@pytest.fixture(params=[{"picture": "2/m"}, {"picture_hour": "2/h"}], ids=["minute", "hour"])
def two_pictures(settings: Any, request: Any) -> None:
    settings.RATES = request.param


@pytest.mark.usefixtures("two_pictures")
def test_picture_stops_the_attacker(browser: Client) -> None:
    """Also pictures that can't be decoded count: the attempt takes the time of others."""
    answers = [send_picture(browser, b"not a picture") for _ in range(3)]
    assert statuses(answers) == [200] * 2 + [429]
    assert 1 <= int(answers[2]["Retry-After"]) <= 3600
    assert "You have tried many pictures in a short time." in answers[2].content.decode()


def test_picture_lets_the_victim_go_on(
    settings: Any, browser: Client, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RATES = {"picture": "1/m"}
    hers = browser_of(PersonFactory())
    assert statuses([send_picture(hers, b"not a picture") for _ in range(2)]) == [200, 429]
    assert hers.post("/accounts/profile", {"nickname": "New"}).status_code == 302
    with monkeypatch.context() as patch:
        patch.setattr(reencoder_runner, "_places", threading.Semaphore(0))
        assert statuses([send_picture(browser, picture()) for _ in range(2)]) == [503] * 2
    assert statuses([send_picture(browser, picture()) for _ in range(2)]) == [302, 429]
    assert User.objects.get(pk=alice.pk).avatar


@pytest.mark.usefixtures("two_pictures")
def test_the_logos_of_an_owner_count_as_pictures() -> None:
    owner = admin_browser()
    form = {"name": "A", "redirect_uris": "https://a.example/", "client_type": "public", "id_token_alg": "RS256"}
    answers = [
        owner.post("/admin/oauth_bridge/application/add/", {**form, "new_logo": upload(b"not a picture")})
        for _ in range(3)
    ]
    said = "You have tried many pictures in a short time."
    assert [said in answer.content.decode() for answer in answers] == [False, False, True]


def test_a_picture_that_takes_too_much_work_counts_as_six(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reencoder_runner, "_run", lambda *_: (reencoder.TOO_COSTLY, b""))
    assert statuses([send_picture(browser, picture()) for _ in range(2)]) == [200, 429]


def told_of_new_browsers(person: User) -> int:
    for _ in range(8):
        assert try_password(person.email, PASSWORD).status_code == 302
    deliver_all()
    return len([message for message in mail.outbox if "new browser" in message.subject])


def test_new_browser_mail_stops_the_attacker() -> None:
    assert told_of_new_browsers(PersonFactory(last_login=timezone.now())) == 5


def test_new_browser_mail_lets_the_victim_go_on() -> None:
    bob = PersonFactory(last_login=timezone.now())
    told_of_new_browsers(bob)
    assert told_of_new_browsers(PersonFactory(last_login=timezone.now())) == 10
    with time_machine.travel(timezone.now() + timedelta(days=1)):
        assert told_of_new_browsers(bob) == 15


def told(*kinds: str, to: User) -> Counter[str]:
    """The numbers of mails by kind after 12 events of each kind."""
    before = Counter(OutgoingMail.objects.values_list("kind", flat=True))
    for kind in kinds:
        for _ in range(12):
            outbox.add_notice(kind, compose(kind, to.email, {"nickname": to.nickname}))
    return Counter(OutgoingMail.objects.values_list("kind", flat=True)) - before


def test_notice_stops_the_attacker(settings: Any, alice: User) -> None:
    assert told("recovery_codes_generated", to=alice) == {"recovery_codes_generated": 5}
    mallory = PersonFactory()
    browser, application = proven(with_session(mallory)), ApplicationFactory()
    add_second_factor(mallory)
    settings.RATES = {**settings.RATES, "authorize": "1000/m"}
    for _ in range(12):
        answer(browser, consent_page(browser, application))
        browser.post("/accounts/applications", {"disconnect": application.client_id})
        browser.post("/accounts/security/recovery-codes/new")
    made = Counter(OutgoingMail.objects.values_list("kind", flat=True))
    assert made == {"recovery_codes_generated": 10, "application_allowed": 5}


def test_notice_lets_the_victim_go_on(alice: User) -> None:
    assert told("application_allowed", to=alice) == {"application_allowed": 5}
    assert told("totp_deactivated", "webauthn_added", to=alice) == {"totp_deactivated": 5, "webauthn_added": 5}
    assert told("application_allowed", to=PersonFactory()) == {"application_allowed": 5}
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    for _ in range(12):
        made = ApplicationFactory()
        registry.set_owners(made.row, [alice])
        secret_rotation.rotate(made.row, timedelta(hours=1))
    mails.tell_of_ending_secrets(timezone.now())
    assert OutgoingMail.objects.filter(kind="secret_ends").count() == 12
    with time_machine.travel(timezone.now() + timedelta(hours=1, minutes=1)):
        assert told("application_allowed", to=alice) == {"application_allowed": 5}


def renamed(browser: Client, application: Application, number: int, address: str = "") -> Any:
    address = address or application.redirect_uris
    form = {"name": f"Name {number}", "operator": "“Typed” <b>", "redirect_uris": address, "id_token_alg": "RS256"}
    return browser.post(reverse("admin:oauth_bridge_application_change", args=[application.pk]), form)


def test_administration_stops_the_attacker(settings: Any) -> None:
    """The audit trail, which nothing deletes, grows by a bounded number of bounded entries in an hour."""
    settings.RATES = {"administration": "12/h"}
    browser, application = admin_browser(), ApplicationFactory().row
    lists = [[f"https://client.example/{letter * 180}{number}" for number in range(50)] for letter in "ab"]
    for number in range(40):
        renamed(browser, application, number, "\n".join(lists[number % 2]))
    entries = AuditEntry.objects.all()
    assert entries.count() == 12
    assert max(len(json.dumps(each.changes)) for each in entries) < 5_000
    removed, added = entries.latest("id").changes["redirect_uris"]
    assert [len(removed), len(added), len(added[0])] == [50, 50, 40], "each of them is named"
    assert lists[1][0].startswith(added[0].rstrip("…"))
    other, everybody = admin_browser(), [ApplicationFactory().row for _ in range(30)]
    for action in ("disable", "enable", "disable"):
        chosen = {"action": action, "_selected_action": [str(each.pk) for each in everybody], "post": "yes"}
        other.post("/admin/oauth_bridge/application/", chosen)
    assert AuditEntry.objects.count() == 12 + 2 * 30
    renamed(admin_browser(), application, 99, f"https://client.example/{'a' * 1900}\nhttps://evil.example/cb")
    assert "https://evil.example/cb" in AuditEntry.objects.latest("id").changes["redirect_uris"][1], "not hidden"


def test_administration_lets_the_victim_go_on(settings: Any) -> None:
    settings.RATES = {"administration": "2/h"}
    browser, application = admin_browser(), ApplicationFactory().row
    refused = [renamed(browser, application, number) for number in range(3)][-1]
    assert refused.status_code == 429
    assert 1 <= int(refused["Retry-After"]) <= 3600
    assert "send it again in" in text_of(refused)
    assert "“Typed” &lt;b&gt;" in refused.text
    act = reverse("admin:application_act", args=[application.pk, "switch-off"])
    assert proven(browser).post(act).status_code == 302, "an act may be urgent"
    kept = {name: unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', refused.text)}
    assert renamed(admin_browser(), application, 7).status_code == 302
    call_command("application", "set", application.client_id, "--name", "By command", stdout=io.StringIO())
    with time_machine.travel(timezone.now() + timedelta(hours=1, minutes=1)):
        again = proven(browser)
        address = reverse("admin:oauth_bridge_application_change", args=[application.pk])
        assert again.post(address, kept).status_code == 302
    application.refresh_from_db()
    assert (application.name, application.operator) == ("Name 2", "“Typed” <b>")
