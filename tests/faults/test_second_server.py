"""Two servers behind the nginx of docs/high-availability.md; one is killed under load.

A new SECRET_KEY: test_secret_key_rotation.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import requests

from tests.conftest import Launch
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered
from tests.peers import nginx, wait_until
from tests.server import free_port

PEOPLE = 4
SIGN_INS = 12  # of all people, before and after the kill


class Visitor(threading.Thread):
    """Somebody who is signed in to an application again and again: three requests each time."""

    def __init__(self, url: str, application: Registered) -> None:
        super().__init__()
        self.driver, self.application = OAuthDriver(url).signed_in(PersonFactory().email, PASSWORD), application
        for session in (self.driver.browser, self.driver.backend):
            session.hooks["response"].clear()  # 502 is an answer of nginx, which openapi.json does not have
        self.is_over = threading.Event()
        self.sign_ins = 0
        self.failed: Counter[tuple[str, int]] = Counter()

    def run(self) -> None:
        while not self.is_over.is_set():
            try:
                self.sign_ins += self.sign_in()
            except requests.exceptions.ChunkedEncodingError:  # the server had sent the headers, but not the whole body
                self.failed["answer", 200] += 1

    def sign_in(self) -> bool:
        response = self.driver.open(self.driver.authorization_url(self.application))
        if self.is_failed("GET", response):
            return False
        code = self.driver.callback(response).parameters["code"]
        answer = self.driver.exchange(self.application, code)
        if self.is_failed("POST", answer):
            return False
        return not self.is_failed("GET", self.driver.userinfo(answer.json()["access_token"]))

    def is_failed(self, method: str, response: requests.Response) -> bool:
        if failed := response.status_code >= 400:
            self.failed[method, response.status_code] += 1
        return failed


def test_one_of_two_servers_is_killed_and_no_sign_in_is_lost(
    postgresql: None, launch: Launch, redis_server: Any, tmp_path: Path
) -> None:
    """Only a POST or an answer that the killed server was sending may fail, at most one of each visitor."""
    origin, application = free_port(), ApplicationFactory(is_trusted=True)
    url, key, ports = f"http://localhost:{origin}", secrets.token_urlsafe(50), (free_port(), free_port())
    units = {f"10.0.0.{number}:{unit}": port for number, port in enumerate(ports, 1) for unit in (8000, 8001)}
    variables = {"BASE_URL": url, "TRUSTED_PROXIES": "127.0.0.1", "REDIS_URL": redis_server.url, "SECRET_KEY": key}
    lost, _ = (launch(port=port, BIND=f"127.0.0.1:{port}", **variables) for port in ports)
    with nginx(tmp_path / "nginx", origin, units):
        visitors = [Visitor(url, application) for _ in range(PEOPLE)]
        for visitor in visitors:
            visitor.start()

        def all_sign_in_more() -> None:
            before = [visitor.sign_ins for visitor in visitors]
            wait_until(
                lambda: (
                    all(visitor.sign_ins > count for visitor, count in zip(visitors, before, strict=True))
                    and sum(visitor.sign_ins for visitor in visitors) >= sum(before) + SIGN_INS
                ),
                seconds=120,
            )

        try:
            all_sign_in_more()
            assert '"route":"/oauth/token"' in lost.log, "nginx used one server only"
            os.killpg(lost.process.pid, signal.SIGKILL)
            all_sign_in_more()
        finally:
            for visitor in visitors:
                visitor.is_over.set()
            for visitor in visitors:
                visitor.join()
        failed = sum((visitor.failed for visitor in visitors), Counter())
        assert failed.keys() <= {("POST", 502), ("answer", 200)}, failed
        assert all(visitor.failed.total() <= 1 for visitor in visitors), failed
        assert [visitor.driver.get("/accounts/profile").status_code for visitor in visitors] == [200] * PEOPLE
