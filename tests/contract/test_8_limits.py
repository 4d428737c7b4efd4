"""Specification 8 and D21: rate limits. Attacker and victim of each: tests/security/test_limits_of_….py."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory
from tests.grants import exchange


@pytest.mark.integration
@pytest.mark.django_db
@pytest.mark.usefixtures("fresh_counters")
@contract("D21.token", "D22.errors", "D22.uncounted", "7/429", "8/rate", "D19/rate_limited")
def test_the_exchanges_of_one_application_are_limited_and_preflights_are_not(settings: Any) -> None:
    settings.RATES = {"token": "3/m"}
    application, other = ApplicationFactory(), ApplicationFactory()
    preflight = {"origin": "https://app.example", "access-control-request-method": "POST"}
    assert {Client().options("/oauth/token", headers=preflight).status_code for _ in range(12)} == {200}
    assert [exchange(application, address=f"192.0.2.{number}").status_code for number in range(3)] == [200] * 3
    code = CodeFactory(application=application).raw
    answer = exchange(application, code=code)
    assert (answer.status_code, answer.json()["error"]) == (429, "rate_limited")
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert exchange(other).status_code == 200
    settings.RATES = {}
    assert exchange(application, code=code).status_code == 200, "the code was not spent"
