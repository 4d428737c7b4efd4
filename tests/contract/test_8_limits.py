"""Specification 8 and D21: rate limits. Attacker and victim of each: tests/security/test_limits_of_….py."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from typing import Any

import pytest
import requests
from django.test import Client

from tests.conftest import Launch
from tests.contract_coverage import contract

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("fresh_counters")]


@contract("D21.proxy", "D21.ipv6", "D21.userinfo-failures")
def test_behind_a_proxy_the_right_most_untrusted_address_counts_and_ipv6_by_its_64_network(settings: Any) -> None:
    settings.RATES, settings.TRUSTED_PROXIES = {"userinfo_failures": "3/m"}, [ip_network("127.0.0.1")]

    def ask(forwarded: str) -> int:
        headers = {"authorization": "Bearer bad", "x-forwarded-for": forwarded}
        return Client().get("/oauth/userinfo", headers=headers).status_code

    mine, network = "10.1.2.3", "2001:db8:7"
    lies = [f"{lie}, {mine}, 127.0.0.1" for lie in ("1.2.3.4", "5.6.7.8, 127.0.0.1", "nonsense")]
    assert [ask(each) for each in (*lies, f"9.9.9.9, {mine}", f"{mine}, 10.3.2.1")] == [401] * 3 + [429, 401]
    hosts = ("1::1", "1::2", "1:aaaa:bbbb:cccc:dddd", "1::3", "2::3")
    assert [ask(f"{network}:{host}") for host in hosts] == [401] * 3 + [429, 401]


@contract("D21.redis")
def test_all_workers_count_together_in_redis(launch: Launch, redis_server: Any) -> None:
    server = launch(RATE_LIMITS="on", RATE_USERINFO_FAILURES="10/30d", REDIS_URL=redis_server.url, WEB_CONCURRENCY="2")
    headers = {"Authorization": "Bearer bad", "Connection": "close"}

    def ask(_: int) -> int:
        return requests.get(f"{server.base_url}/oauth/userinfo", headers=headers, timeout=60).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(ask, range(40)))
    assert statuses == [401] * 10 + [429] * 30
