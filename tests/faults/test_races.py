"""Several browsers or commands change one account, application or key at the same moment."""

from __future__ import annotations

import base64
import io
import json
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.core import mail
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client, RequestFactory
from django.utils import timezone

from accounts import throttling
from accounts.factors.authenticators import FactorAdapter, mark_used
from accounts.models import FailedFactor, OutgoingMail, User
from accounts.passwords import hashing
from accounts.rights import LastAdministrator
from accounts.sessions.credential_changes import set_active
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application, ApplicationSecret, SigningKey
from oauth_bridge.openid import signing_keys
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, digest_of
from tests.faults.races import at_once, begin, wait_until_it_waits, waiting
from tests.pages import CODE_PAGE, SECOND, SIGN_UP, code_of, mailed_code, proven, sign_in, with_session
from tests.server import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.usefixtures("postgresql")


def test_one_of_ten_that_send_a_code_at_once_is_the_first() -> None:
    app = Authenticator.objects.create(user=PersonFactory(), type="totp", data={"secret": "none"})
    for code in ("000000", "000001"):
        assert sum(at_once(*[partial(mark_used, app.user, code)] * 10)) == 1
    app.refresh_from_db()
    assert (app.data["secret"], len(app.data["used_codes"])) == ("none", 2)


def test_of_guesses_at_once_no_more_than_the_limit_are_checked(settings: Any) -> None:
    settings.RATES = {"second_factor": "5/15m"}
    person, checked, request = PersonFactory(), [], RequestFactory().post("/")
    request.user = person

    def check() -> None:
        checked.append(1)
        raise ValidationError("wrong", code="wrong")

    def guess() -> str:
        try:
            throttling.check_second_factor(request, person, check)
        except ValidationError as error:
            return str(error.code)
        return ""

    answers = at_once(*[guess] * 30)
    assert (len(checked), answers.count("wrong"), answers.count("throttled")) == (5, 5, 25)
    assert FailedFactor.objects.filter(user=person).count() == 5


def administrators() -> list[User]:
    User.objects.filter(is_superuser=True).update(is_superuser=False)
    return [PersonFactory(is_staff=True, is_superuser=True) for _ in range(2)]


def leave(person: User, _other: User) -> Callable[[], object]:
    return partial(proven(with_session(person)).post, "/accounts/delete", {"email": person.email})


def demote_in_admin(person: User, other: User) -> Callable[[], object]:
    form = {"nickname": "Other", "is_staff": "on"}
    return partial(proven(with_session(person)).post, f"/admin/accounts/user/{other.pk}/change/", form)


# Each way is ready before both begin: a sign-in would write the row of a person who may be deleted by then.
@pytest.mark.parametrize(
    "way",
    [
        leave,
        lambda _person, other: partial(set_active, other, False),
        demote_in_admin,
    ],
    ids=["leave", "deactivate", "demote in admin"],
)
def test_of_two_administrators_one_stays(way: Callable[[User, User], Callable[[], object]]) -> None:
    first, second = administrators()
    start = threading.Barrier(2)

    def run(act: Callable[[], object]) -> None:
        start.wait(timeout=PATIENCE_SECONDS)
        with suppress(LastAdministrator):
            act()

    at_once(partial(run, way(first, second)), partial(run, way(second, first)))
    assert User.objects.filter(is_superuser=True, is_staff=True, is_active=True).count() == 1


def test_while_an_account_is_deleted_no_administrator_waits() -> None:
    root, _ = administrators()

    def sign_in() -> None:
        User.objects.filter(pk=root.pk).update(last_login=timezone.now())

    with transaction.atomic():
        leave(person := PersonFactory(), person)()
        begin(sign_in).result(timeout=PATIENCE_SECONDS)  # a lock time-out would be raised here


@pytest.fixture
def sign_up_form(fresh_counters: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(hashing, "places", threading.Semaphore(2))
    settings.SIGN_UP = "open"
    settings.ACCOUNT_RATE_LIMITS = dict.fromkeys(("signup", "login_failed", "confirm_email"))
    return {"email": f"new-{time.time_ns()}@example.org", "nickname": "Nia", "password1": "a long enough phrase"}


def post_both(browsers: list[Client], *forms: dict[str, str]) -> None:
    """Both posts have found the address free before one of them stores it. Their answers look the same."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE accounts_user IN SHARE MODE")
        posts = [begin(browser.post, SIGN_UP, form) for browser, form in zip(browsers, forms, strict=True)]
        wait_until(lambda: len(waiting("relation = 'accounts_user'::regclass")) == 2)
    assert [post.result(timeout=PATIENCE_SECONDS)["Location"] for post in posts] == [CODE_PAGE, CODE_PAGE]


@pytest.mark.parametrize("one", [0, 1])
def test_both_posts_lead_to_a_page_that_takes_the_code_of_its_mail(sign_up_form: dict[str, str], one: int) -> None:
    """A browser follows the second answer, and either post may be the one that stores the account."""
    browsers = [Client(), Client()]
    post_both(browsers, sign_up_form, sign_up_form)
    assert User.objects.filter(email=sign_up_form["email"]).count() == 1
    codes = [mailed_code(number) for number in range(2)]
    assert len(set(codes)) == len(mail.outbox) == 2
    typed = [browsers[one].post(CODE_PAGE, {"code": code}) for code in codes]
    assert "/accounts/profile" in [answer.get("Location") for answer in typed]
    assert User.objects.get(email=sign_up_form["email"]).email_verified_at


def test_with_another_password_only_one_post_leads_to_a_page_that_takes_a_code(sign_up_form: dict[str, str]) -> None:
    browsers = [Client(), Client()]
    post_both(browsers, sign_up_form, sign_up_form | {"password1": "another phrase of hers"})
    subjects = [str(each.subject) for each in mail.outbox]
    [told] = [number for number, subject in enumerate(subjects) if subject.startswith("You already have an ")]
    code = mailed_code(1 - told)
    typed = [browser.post(CODE_PAGE, {"code": code}).status_code for browser in browsers]
    assert sorted(typed) == [200, 302]


def applied(path: Path) -> str:
    out = io.StringIO()
    try:
        call_command("application", "apply", str(path), stdout=out, stderr=io.StringIO())
    except CommandError as error:
        return str(error)
    return out.getvalue()


def test_the_same_new_applications_are_registered_once_and_files_in_another_order_wait(tmp_path: Path) -> None:
    names = [uuid.uuid4().hex for _ in range(20)]
    rows = Application.objects.filter(client_id__in=names)

    def apply_at_once(operators: list[str]) -> list[str]:
        for number, operator in enumerate(operators):
            entry = {"redirect_uris": ["https://a.example/"], "operator": operator}
            ordered = names if number % 2 else names[::-1]
            content = json.dumps([{"client_id": name, "name": name, **entry} for name in ordered])
            (tmp_path / str(number)).write_text(content)
        return at_once(*(partial(applied, tmp_path / str(number)) for number in range(len(operators))))

    said = apply_at_once([""] * 4)
    assert sum(each.count("\nnew ") == 19 for each in said) == 1
    for each in said:
        assert each.startswith("new ") or each == "no changes\n" or "Another program registered one" in each
    said = apply_at_once(["One", "Two", "Three", "Four"])
    assert all(each.count("\nchange ") == 19 for each in said)
    assert len({row.operator for row in rows}) == 1


@contract("O.application.secrets")
def test_a_rotation_that_is_stuck_in_the_middle_keeps_no_exchange_waiting(driver: OAuthDriver) -> None:
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


@contract("O.application.rotate-now")
def test_of_two_rotations_at_the_same_moment_one_secret_is_left() -> None:
    """A rotation that missed the secret of a concurrent one would leave that secret valid for ever."""
    application, both = ApplicationFactory(), threading.Barrier(2)

    def held(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        result = execute(sql, *more)
        if sql.startswith("SELECT") and ApplicationSecret._meta.db_table in sql:
            with suppress(threading.BrokenBarrierError):  # rotations that wait for each other never meet
                both.wait(1)
        return result

    def rotate() -> str:
        with connection.execute_wrapper(held):
            return secret_rotation.rotate(application.row, secret_rotation.REVOKE_NOW).secret

    made = at_once(rotate, rotate)
    [working] = [bytes(row.digest) for row in application.row.secrets.all() if row.works]
    assert working in [digest_of(secret) for secret in made]
    assert application.row.secrets.count() == 3


def test_rotations_of_keys_at_once_leave_one_signer_after_another() -> None:
    signing_keys.signer("ES256")
    made = at_once(*[partial(signing_keys.rotate, "ES256")] * 10)
    assert len({row.kid for row in made}) == 10
    [last] = SigningKey.objects.filter(algorithm="ES256", revoked_at=None, signs_until=None)
    with time_machine.travel(timezone.now() + signing_keys.PUBLISHED_BEFORE + timedelta(seconds=1), tick=False):
        assert signing_keys.signer("ES256").kid == last.kid


SECRET = base64.b32encode(b"a secret of twenty b").decode()
PROFILE = "/accounts/profile"


def test_a_reseal_keeps_what_is_used_meanwhile(committed: None, fresh_counters: None, settings: Any) -> None:
    """A recovery code that was used stays used, and after the reseal the old key can go."""
    settings.RATES, person = {}, PersonFactory()
    for model in (Authenticator, OutgoingMail, SigningKey):  # those of other tests, under other keys
        model.objects.all().delete()
    app = {"secret": FactorAdapter().encrypt(SECRET)}
    Authenticator.objects.create(user=person, type="totp", data=app)
    codes = RecoveryCodes.activate(person).get_unused_codes()

    def path_after(code: str) -> str:
        """Where a sign-in with the code leads, empty if the page asks again."""
        browser = Client()
        assert sign_in(browser, person.email)["Location"].partition("?")[0] == SECOND
        return str(browser.post(SECOND, {"code": code}).get("Location", ""))

    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = secrets.token_urlsafe(50), [settings.SECRET_KEY]
    with transaction.atomic():
        call_command("reseal", stdout=io.StringIO())
        signing_in = begin(path_after, codes[0])
        wait_until_it_waits(signing_in)
        assert not signing_in.done()
    assert signing_in.result(timeout=PATIENCE_SECONDS) == PROFILE
    settings.SECRET_KEY_FALLBACKS = []
    assert [path_after(code) for code in codes[:2]] == ["", PROFILE]
    assert path_after(code_of(SECRET)) == PROFILE
