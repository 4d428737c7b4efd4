"""Several browsers or commands change one account, application or key at the same moment."""

from __future__ import annotations

import base64
import io
import json
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.core import mail
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client, RequestFactory
from django.utils import timezone

from accounts.factors import failures
from accounts.factors.adapter import FactorAdapter
from accounts.factors.authenticators import mark_used
from accounts.models import FailedFactor, OutgoingMail, User
from accounts.passwords import hashing
from accounts.profile.own_data import delete_account
from accounts.rights import LastAdministrator
from accounts.sessions.credential_changes import set_active
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application, SigningKey
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory
from tests.faults.races import at_once, begin
from tests.pages import (
    CODE_PAGE,
    SECOND,
    SIGN_UP,
    browser_of,
    code_of,
    is_signed_in,
    mailed_code,
    proven,
    sign_in,
    with_session,
)

# Accounts -------------------------------------------------------------------------------------------------------------

# Second factors. D21, L7 ----------------------------------------------------------------------------------------------


def test_one_of_ten_that_send_a_code_at_once_is_the_first(postgresql: None) -> None:
    app = Authenticator.objects.create(user=PersonFactory(), type="totp", data={"secret": "none"})
    for code in ("000000", "000001"):
        assert sum(at_once(*[partial(mark_used, app.user, code)] * 10)) == 1
    app.refresh_from_db()
    assert (app.data["secret"], len(app.data["used_codes"])) == ("none", 2)


def test_of_guesses_at_once_no_more_than_the_limit_are_checked(postgresql: None, settings: Any) -> None:
    settings.RATES = {"second_factor": "5/15m"}
    person, checked = PersonFactory(), []

    def check() -> None:
        checked.append(1)
        raise ValidationError("wrong", code="wrong")

    def guess() -> str:
        try:
            failures.limited(RequestFactory().post("/"), person, check, is_sign_in=False)
        except ValidationError as error:
            return str(error.code)
        return ""

    answers = at_once(*[guess] * 30)
    assert (len(checked), answers.count("wrong"), answers.count("throttled")) == (5, 5, 25)
    assert FailedFactor.objects.filter(user=person).count() == 5


# The last two administrators remove each other, or themselves. P16 ----------------------------------------------------


def administrators() -> list[User]:
    User.objects.filter(is_superuser=True).update(is_superuser=False)
    return [PersonFactory(is_staff=True, is_superuser=True) for _ in range(2)]


# Each way is ready before both begin: a sign-in would write the row of a person who may be deleted by then.


def leave(person: User, _other: User) -> Callable[[], object]:
    return partial(delete_account, person)


def deactivate(_person: User, other: User) -> Callable[[], object]:
    return partial(set_active, other, False)


def demote_in_admin(person: User, other: User) -> Callable[[], object]:
    form = {"nickname": "Other", "is_active": "on", "is_staff": "on"}
    return partial(proven(with_session(person)).post, f"/admin/accounts/user/{other.pk}/change/", form)


@pytest.mark.parametrize("way", [leave, deactivate, demote_in_admin])
def test_of_two_administrators_one_stays(postgresql: None, way: Callable[[User, User], Callable[[], object]]) -> None:
    first, second = administrators()
    start = threading.Barrier(2)

    def run(act: Callable[[], object]) -> None:
        start.wait(timeout=60)
        with suppress(LastAdministrator):
            act()

    at_once(partial(run, way(first, second)), partial(run, way(second, first)))
    assert User.objects.filter(is_superuser=True, is_staff=True, is_active=True).count() == 1


def test_while_an_account_is_deleted_no_administrator_waits(postgresql: None) -> None:
    root, _ = administrators()

    def sign_in() -> None:
        User.objects.filter(pk=root.pk).update(last_login=timezone.now())

    with transaction.atomic():
        delete_account(PersonFactory())
        begin(sign_in).result(timeout=60)  # a lock time-out would be raised here


# Two posts of one sign-up form, as after a double click without script ------------------------------------------------

PEOPLE = User._meta.db_table


@pytest.fixture
def sign_up_form(
    postgresql: None, fresh_counters: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    monkeypatch.setattr(hashing, "places", threading.Semaphore(2))
    settings.SIGN_UP = "open"
    settings.ACCOUNT_RATE_LIMITS = dict.fromkeys(("signup", "login_failed", "confirm_email"))
    return {"email": f"new-{time.time_ns()}@example.org", "nickname": "Nia", "password1": "a long enough phrase"}


def post_both(browsers: list[Client], *forms: dict[str, str]) -> list[Any]:
    """The answers to a post of each browser. Both have found the address free before one of them stores it."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {PEOPLE} IN SHARE MODE")
        posts = [begin(browser.post, SIGN_UP, form) for browser, form in zip(browsers, forms, strict=True)]
        while waiting(cursor) < 2:
            assert not any(post.done() for post in posts), "no post waits for the table"
    return [post.result(timeout=60) for post in posts]


def waiting(cursor: Any) -> int:
    """How many connections wait for the table of people."""
    cursor.execute(
        "SELECT FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE NOT granted AND d.datname = current_database() AND relation = %s::regclass",
        [PEOPLE],
    )
    return int(cursor.rowcount)


@pytest.mark.parametrize("one", [0, 1])
def test_both_posts_lead_to_a_page_that_takes_the_code_of_its_mail(sign_up_form: dict[str, str], one: int) -> None:
    """A browser follows the second answer, and either post may be the one that stores the account."""
    browsers = [Client(), Client()]
    answers = post_both(browsers, sign_up_form, sign_up_form)
    assert [answer["Location"] for answer in answers] == [CODE_PAGE, CODE_PAGE]
    assert User.objects.filter(email=sign_up_form["email"]).count() == 1
    codes = [mailed_code(number) for number in range(2)]
    assert len(set(codes)) == len(mail.outbox) == 2
    typed = [browsers[one].post(CODE_PAGE, {"code": code}) for code in codes]
    assert "/accounts/profile" in [answer.get("Location") for answer in typed]
    assert User.objects.get(email=sign_up_form["email"]).email_verified_at


def test_with_another_password_only_one_post_leads_to_a_page_that_takes_a_code(sign_up_form: dict[str, str]) -> None:
    """Mallory posts the address at the same moment, and both pages look the same."""
    browsers = [Client(), Client()]
    answers = post_both(browsers, sign_up_form, sign_up_form | {"password1": "another phrase of hers"})
    assert [answer["Location"] for answer in answers] == [CODE_PAGE, CODE_PAGE]
    subjects = [str(each.subject) for each in mail.outbox]
    [told] = [number for number, subject in enumerate(subjects) if subject.startswith("You already have an ")]
    code = mailed_code(1 - told)
    typed = [browser.post(CODE_PAGE, {"code": code}).status_code for browser in browsers]
    assert sorted(typed) == [200, 302]


# Applications ---------------------------------------------------------------------------------------------------------

COPIES = 4


def applied(path: Path) -> str:
    out = io.StringIO()
    try:
        call_command("application", "apply", str(path), stdout=out, stderr=io.StringIO())
    except CommandError as error:
        return str(error)
    return out.getvalue()


def apply_at_once(folder: Path, names: list[str], fields: list[dict[str, Any]]) -> list[str]:
    """Each file has all names, every second one from the last to the first."""
    paths = [folder / f"{number}.json" for number in range(len(fields))]
    for number, (path, more) in enumerate(zip(paths, fields, strict=True)):
        ordered = names if number % 2 else names[::-1]
        entry = {"redirect_uris": ["https://a.example/"], **more}
        path.write_text(json.dumps([{"client_id": name, "name": name, **entry} for name in ordered]))
    return at_once(*(partial(applied, path) for path in paths))


def test_the_same_new_applications_are_registered_once_and_files_in_another_order_wait(
    postgresql: None, tmp_path: Path
) -> None:
    names, group = [uuid.uuid4().hex for _ in range(20)], uuid.uuid4().hex
    said = apply_at_once(tmp_path, names, [{"groups": [group]}] * COPIES)
    assert sum("20 new" in each for each in said) == 1
    for each in said:
        assert "20 new" in each or each == "no changes\n" or "Another program registered one" in each
    rows = Application.objects.filter(client_id__in=names)
    assert {row.groups.get().name for row in rows} == {group}
    assert rows.count() == 20

    said = apply_at_once(tmp_path, names, [{"operator": f"Operator {number}"} for number in range(COPIES)])
    assert all("20 changed" in each for each in said)
    assert len({row.operator for row in rows.all()}) == 1


@contract("O.application.secrets")
def test_a_rotation_that_is_stuck_in_the_middle_keeps_no_exchange_waiting(
    postgresql: None, driver: OAuthDriver
) -> None:
    """As when its machine died: the row of the old secret stays locked, and its last use is due to be stored."""
    application = ApplicationFactory()
    codes = [CodeFactory(application=application).raw for _ in range(2)]
    with transaction.atomic():
        secret_rotation.rotate(application.row)
        assert driver.exchange(application, codes[0]).status_code == 200
        transaction.set_rollback(True)
    assert application.row.secrets.get().last_used_at is None
    assert driver.exchange(application, codes[1]).status_code == 200
    assert application.row.secrets.get().last_used_at is not None


# A new SECRET_KEY -----------------------------------------------------------------------------------------------------

OLD, NEW = secrets.token_urlsafe(50), secrets.token_urlsafe(50)
SECRET = base64.b32encode(b"a secret of twenty b").decode()
PROFILE = "/accounts/profile"


@pytest.fixture
def keys(committed: None, fresh_counters: None, settings: Any) -> Iterator[Any]:
    """`keys(NEW, OLD)` makes the first the key and the others its fallbacks. At first it is OLD."""

    def use(key: str, *fallbacks: str) -> None:
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = key, list(fallbacks)

    settings.RATES = {}
    use(OLD)
    yield use
    OutgoingMail.objects.all().delete()  # no other test could send them


def with_app() -> User:
    person = PersonFactory()
    data = {"secret": FactorAdapter().encrypt(SECRET)}
    Authenticator.objects.create(user=person, type="totp", data=data)
    return person


def second_factor(person: User, code: str) -> str:
    """The path to which a sign-in with the code leads, empty if the page asks again."""
    browser = Client()
    assert sign_in(browser, person.email)["Location"].partition("?")[0] == SECOND
    return str(browser.post(SECOND, {"code": code}).get("Location", ""))


def sign_in_until(is_over: threading.Event, codes: dict[User, list[str]]) -> None:
    """Each signs in with the app once, then with recovery codes, which leave `codes`. The last code is kept."""
    for person in codes:
        assert second_factor(person, code_of(SECRET)) == PROFILE
    while True:
        for person, left in codes.items():
            assert second_factor(person, left.pop(0)) == PROFILE
        if is_over.is_set() or any(len(left) == 1 for left in codes.values()):
            return


def test_after_a_reseal_beside_sign_ins_the_old_key_can_go(keys: Any, manage: Any) -> None:
    """A recovery code that was used meanwhile stays used. A session that was used since the rotation goes on."""
    Authenticator.objects.all().delete()  # those of other tests, under other keys
    OutgoingMail.objects.all().delete()
    SigningKey.objects.all().delete()
    codes = {person: list(RecoveryCodes.activate(person).get_unused_codes()) for person in (with_app(), with_app())}
    used_up = {person: each[0] for person, each in codes.items()}
    used, idle = (browser_of(PersonFactory()) for _ in range(2))
    keys(NEW, OLD)
    assert is_signed_in(used)

    is_over = threading.Event()
    signing_in = begin(sign_in_until, is_over, codes)
    done = manage("reseal")
    is_over.set()
    signing_in.result(timeout=120)
    assert done.returncode == 0, done.stderr  # which has what the sign-ins log, too
    assert done.stdout.count(": 2 sealed anew") == 2
    assert manage("reseal", "--dry-run").stdout.count(": 0 to be sealed anew") == 4

    keys(NEW)
    for person, left in codes.items():
        assert second_factor(person, used_up[person]) == ""
        assert second_factor(person, left[0]) == PROFILE
        # The next period's: the present one may have been used above.
        assert second_factor(person, code_of(SECRET, 1)) == PROFILE
    assert is_signed_in(used)
    assert not is_signed_in(idle)
