"""The service behind the nginx configuration of docs/operations.md."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from urllib.parse import quote

import pytest
import requests

from tests.driver import OAuthDriver
from tests.factories import PASSWORD, PersonFactory, Registered
from tests.matrix import contract
from tests.server import Server


@contract("D5.state")
@pytest.mark.parametrize("is_text", [True, False], ids=["letters", "bytes"])
def test_a_state_of_4_kb_comes_back_after_a_whole_sign_in(
    server_behind_nginx: Server, application: Registered, is_text: bool
) -> None:
    state = secrets.token_urlsafe(4096)[:4096] if is_text else "".join(chr(0x2600 + n % 256) for n in range(1365))
    driver = OAuthDriver(server_behind_nginx.base_url, server_behind_nginx.auth_url)
    page = driver.open(driver.authorization_url(application, state=state))
    callback = driver.callback(driver.decide(driver.sign_in(page, PersonFactory().email, PASSWORD)))
    assert callback.raw("state") == quote(state, safe="-_")
    assert driver.exchange(application, callback.parameters["code"]).status_code == 200


def test_bodies_that_nobody_reads_cost_nobody_else_an_answer(server_behind_nginx: Server) -> None:
    is_over = threading.Event()
    answers: dict[str, Counter[int]] = {"unread": Counter(), "token": Counter()}

    def send(name: str, path: str, body: bytes) -> None:
        with requests.Session() as session:
            while not is_over.is_set():
                form = {"Content-Type": "application/x-www-form-urlencoded"}
                answer = session.post(f"{server_behind_nginx.base_url}{path}", data=body, headers=form, timeout=10)
                answers[name][answer.status_code] += 1

    senders = [
        threading.Thread(target=send, args=("unread", "/oauth/jwks", b"x" * 100_000)),
        threading.Thread(target=send, args=("token", "/oauth/token", b"grant_type=authorization_code")),
    ]
    for sender in senders:
        sender.start()
    is_over.wait(3)
    is_over.set()
    for sender in senders:
        sender.join()
    assert {name: set(statuses) for name, statuses in answers.items()} == {"unread": {405}, "token": {400}}
