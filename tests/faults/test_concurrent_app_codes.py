"""One code of an authenticator app is sent by several browsers at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from allauth.mfa.models import Authenticator
from django.db import connection

from accounts.factors.used_codes import mark_used
from tests.factories import PersonFactory


def test_one_of_ten_that_send_a_code_at_once_is_the_first(postgresql: None) -> None:
    app = Authenticator.objects.create(user=PersonFactory(), type="totp", data={"secret": "none"})

    def use(number: int) -> bool:
        try:
            return mark_used(app, f"{number // 10:06}")
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        firsts = list(pool.map(use, range(100)))
    assert [sum(firsts[each : each + 10]) for each in range(0, 100, 10)] == [1] * 10
    app.refresh_from_db()
    assert app.data["secret"] == "none"
    assert len(app.data["used_codes"]) == 10
