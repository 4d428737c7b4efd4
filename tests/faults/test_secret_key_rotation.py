"""SECRET_KEY is replaced: after `manage.py reseal` beside sign-ins, no second factor is lost."""

from __future__ import annotations

import base64
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.test import Client

from accounts.factors.adapter import FactorAdapter
from accounts.models import OutgoingMail, User
from oauth_bridge.key_models import SigningKey
from tests.factories import PersonFactory
from tests.faults.races import begin
from tests.pages import SECOND, browser_of, code_of, is_signed_in, sign_in

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
