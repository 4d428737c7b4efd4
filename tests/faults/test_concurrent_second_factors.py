"""Wrong second factors of one account that are sent at the same moment. D21, L7."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connection
from django.test import RequestFactory

from accounts.factors import failures
from accounts.models import FailedFactor
from tests.factories import PersonFactory


def test_of_guesses_at_once_no_more_than_the_limit_are_checked(postgresql: None, settings: Any) -> None:
    settings.RATES = {"second_factor": "5/15m"}
    person, checked = PersonFactory(), []

    def guess(number: int) -> str:
        def check() -> None:
            checked.append(number)
            raise ValidationError("wrong", code="wrong")

        try:
            failures.limited(RequestFactory().post("/"), person, check, is_sign_in=False)
        except ValidationError as error:
            return str(error.code)
        finally:
            connection.close()
        return ""

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(guess, range(40)))
    assert (len(checked), answers.count("wrong"), answers.count("throttled")) == (5, 5, 35)
    assert FailedFactor.objects.filter(user=person).count() == 5
