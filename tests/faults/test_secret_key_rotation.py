"""SECRET_KEY is replaced: with the old one as a fallback, or after `manage.py reseal`, no second factor is lost."""

from __future__ import annotations

import base64
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.test import override_settings

from accounts.factors.adapter import FactorAdapter
from accounts.models import OutgoingMail, User
from tests.conftest import Launch
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, PersonFactory
from tests.factors import code_of
from tests.server import Server

OLD, NEW = secrets.token_urlsafe(50), secrets.token_urlsafe(50)
SECRET = base64.b32encode(b"a secret of twenty b").decode()


def with_app() -> User:
    """A person whose authenticator app was set up under the old key."""
    person = PersonFactory()
    with override_settings(SECRET_KEY=OLD, SECRET_KEY_FALLBACKS=[]):
        data = {"secret": FactorAdapter().encrypt(SECRET)}
    Authenticator.objects.create(user=person, type="totp", data=data)
    return person


def codes_of(person: User) -> list[str]:
    """The recovery codes of the person, made under the old key."""
    with override_settings(SECRET_KEY=OLD, SECRET_KEY_FALLBACKS=[]):
        return list(RecoveryCodes.activate(person).get_unused_codes())


def second_factor(server: Server, person: User, code: str) -> Any:
    driver = OAuthDriver(server.base_url, server.auth_url)
    page = driver.sign_in(driver.open("/accounts/sign-in"), person.email, PASSWORD)
    form = next((each for each in Page(page).forms if "code" in each.fields), None)
    assert form, f"{page.status_code} at {page.url}: {page.text}"
    return driver.submit(form, code=code)


def test_with_the_old_key_as_a_fallback_sessions_and_second_factors_go_on(launch: Launch) -> None:
    person, alice = with_app(), PersonFactory()
    before = launch(SECRET_KEY=OLD)
    browser = OAuthDriver(before.base_url, before.auth_url).signed_in(alice.email, PASSWORD)
    after = launch(SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=OLD)
    answer = browser.browser.get(f"{after.auth_url}/accounts/profile", allow_redirects=False)
    assert answer.status_code == 200
    assert second_factor(after, person, code_of(SECRET)).url == f"{after.auth_url}/accounts/profile"


def test_without_the_old_key_sessions_and_second_factors_are_lost(launch: Launch, manage: Any) -> None:
    person, alice = with_app(), PersonFactory()
    before = launch(SECRET_KEY=OLD)
    browser = OAuthDriver(before.base_url, before.auth_url).signed_in(alice.email, PASSWORD)
    after = launch(SECRET_KEY=NEW)
    assert browser.browser.get(f"{after.auth_url}/accounts/profile", allow_redirects=False).status_code == 302
    assert second_factor(after, person, code_of(SECRET)).url == f"{after.auth_url}/accounts/sign-in/code"
    assert after.logged("stored under another SECRET_KEY")
    assert manage("account", "remove-factors", person.email).returncode == 0
    again = OAuthDriver(after.base_url, after.auth_url)
    page = again.sign_in(again.open("/accounts/sign-in"), person.email, PASSWORD)
    assert page.url == f"{after.auth_url}/accounts/profile"


def sign_in_until(is_over: threading.Event, server: Server, codes: dict[User, list[str]]) -> None:
    """Each signs in with the app once, then with recovery codes, which leave `codes`. The last code is kept."""
    for person in codes:
        assert second_factor(server, person, code_of(SECRET)).url == f"{server.auth_url}/accounts/profile"
    while True:
        for person, left in codes.items():
            assert second_factor(server, person, left.pop(0)).url == f"{server.auth_url}/accounts/profile"
        if is_over.is_set() or any(len(left) == 1 for left in codes.values()):
            return


def test_after_a_reseal_beside_sign_ins_the_old_key_can_go(launch: Launch, manage: Any) -> None:
    """A recovery code that was used meanwhile stays used. A session that was used since the rotation goes on."""
    Authenticator.objects.all().delete()  # those of other tests, under other keys
    OutgoingMail.objects.all().delete()
    codes = {person: codes_of(person) for person in (with_app(), with_app())}
    used_up = {person: each[0] for person, each in codes.items()}
    before = launch(SECRET_KEY=OLD)
    used, idle = (
        OAuthDriver(before.base_url, before.auth_url).signed_in(PersonFactory().email, PASSWORD) for _ in range(2)
    )
    keys = {"SECRET_KEY": NEW, "SECRET_KEY_FALLBACKS": OLD}
    server, profile, is_over = launch(**keys), "/accounts/profile", threading.Event()
    assert used.browser.get(server.auth_url + profile, allow_redirects=False).status_code == 200

    with ThreadPoolExecutor(1) as pool:
        signing_in = pool.submit(sign_in_until, is_over, server, codes)
        done = manage("reseal", **keys)
        is_over.set()
        signing_in.result()
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": 2 sealed anew") == 2
    assert manage("reseal", "--dry-run", **keys).stdout.count(": 0 to be sealed anew") == 4

    server = launch(SECRET_KEY=NEW)
    for person, left in codes.items():
        assert second_factor(server, person, used_up[person]).url == f"{server.auth_url}/accounts/sign-in/code"
        assert second_factor(server, person, left[0]).url == server.auth_url + profile
        # The next period's: the present one may have been used above.
        assert second_factor(server, person, code_of(SECRET, 1)).url == server.auth_url + profile
    assert used.browser.get(server.auth_url + profile, allow_redirects=False).status_code == 200
    assert idle.browser.get(server.auth_url + profile, allow_redirects=False).status_code == 302
