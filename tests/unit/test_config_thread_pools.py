"""Which threads answer a request, and which requests are refused first."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from config.http import thread_pools
from config.http.thread_pools import HEAD_LENGTH, ThreadPools, class_of
from config.infrastructure import request_classes as classes
from config.infrastructure.request_classes import Pool, RequestClass, must_refuse
from tests.contract_coverage import contract

PROBE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


Connections = Callable[[bytes], Any]


@pytest.fixture
def connection() -> Iterator[Connections]:
    """Connections with a request that has arrived, as gunicorn's worker hands them to its pool."""
    with ExitStack() as opened:

        def connect(sent: bytes) -> Any:
            ours, theirs = map(opened.enter_context, socket.socketpair())
            theirs.sendall(sent)
            return SimpleNamespace(sock=ours)

        yield connect


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (b"POST /oauth/token HTTP/1.1\r\n", classes.TOKEN),
        (b"GET /oauth/userinfo HTTP/1.1\r\n", classes.USERINFO),
        (b"GET /health/ready HTTP/1.1\r\n", classes.USERINFO),
        (b"POST /admin/oauth_bridge/application/1/change/ HTTP/1.1\r\n", classes.ADMINISTRATION),
        (b"GET /static/css/site.css HTTP/1.1\r\n", classes.STRANGER),
        (b"POST /accounts/profile HTTP/1.1\r\n", classes.STRANGER),
        (b"POST /accounts/sign-up HTTP/1.1\r\n", classes.SIGN_IN),
        (b"POST /accounts/confirm HTTP/1.1\r\n", classes.SIGN_IN),
        (b"POST /accounts/password/change HTTP/1.1\r\n", classes.SIGN_IN),
        (b"POST /accounts/password/reset HTTP/1.1\r\n", classes.STRANGER),
        (b"POST /accounts/password/reset/abc-key HTTP/1.1\r\n", classes.SIGN_IN),
        (b"GET /oauth/authorize?state=" + b"x" * 4096, classes.AUTHORIZE),
        (b"GET /accounts/sign-in?next=/oauth/token HTTP/1.1\r\n", classes.STRANGER),
        (b"POST /accounts/sign-in?next=x HTTP/1.1\r\n", classes.SIGN_IN),
        (b"POST /oauth/authorize HTTP/1.1\r\n", classes.AUTHORIZE),
        (PROBE, classes.PROBE),
        (PROBE[:-2] + b"X: " + b"x" * HEAD_LENGTH, classes.STRANGER),
        (b"GET /oauth/use", classes.STRANGER),
        (b"\xff\x00 \xff", classes.STRANGER),
    ],
)
def test_the_first_line_tells_the_class_and_stays_unread(
    connection: Connections, sent: bytes, found: RequestClass
) -> None:
    ours = connection(sent).sock
    assert class_of(ours) == found
    assert ours.recv(len(sent)) == sent
    assert class_of(ours) == classes.STRANGER, "a connection without a request is not waited for"
    ours.close()
    assert class_of(ours) == classes.STRANGER


@contract("D19/overloaded")
def test_pages_are_refused_before_authorizations_and_exchanges_before_profiles(connection: Connections) -> None:
    """While no thread is free, until the places of each class are taken."""
    pools, held = ThreadPools(1), threading.Event()
    done: dict[str, list[Future[bool]]] = {}

    def refused(_: Any) -> bool:
        held.wait(60)
        return must_refuse.get()

    def send(line: str, count: int) -> None:
        for _ in range(count):
            done.setdefault(line, []).append(pools.submit(refused, connection(f"{line} HTTP/1.1\r\n".encode())))

    try:
        for low, high, first, second in (
            ("GET /", "GET /oauth/authorize", classes.STRANGER, classes.AUTHORIZE),
            ("POST /oauth/token", "GET /oauth/userinfo", classes.TOKEN, classes.USERINFO),
        ):
            send(low, first.places + 3)
            send(high, second.places - first.places + 3)
        held.set()
        wait([future for futures in done.values() for future in futures])
    finally:
        held.set()
        pools.shutdown()
    served = [sum(not future.result() for future in futures) for futures in done.values()]
    pages, exchanges = classes.STRANGER.places, classes.TOKEN.places
    expected = [pages, classes.AUTHORIZE.places - pages, exchanges, classes.USERINFO.places - exchanges]
    assert min(expected) > 0
    # The first of a pool is answered at once, and may have left its place before the last one comes.
    assert all(count - least in (0, 1) for count, least in zip(served, expected, strict=True)), (done, served)


@contract("D19/overloaded")
def test_a_request_that_has_waited_for_too_long_is_refused(
    connection: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = ThreadPools(1)
    try:
        for waited, is_refused in ((0.0, False), (classes.TOKEN.seconds + 0.1, True)):
            times = iter([100.0, 100.0 + waited])
            monkeypatch.setattr(thread_pools, "time", SimpleNamespace(monotonic=lambda times=times: next(times)))
            answer = pools.submit(lambda _: must_refuse.get(), connection(b"POST /oauth/token H"))
            assert answer.result() is is_refused
    finally:
        pools.shutdown()


def test_the_worker_holds_fewer_connections_than_it_accepts() -> None:
    """Otherwise it would accept no probe while all places are taken."""
    every = [each for each in vars(classes).values() if isinstance(each, RequestClass)]
    most = {pool: max((each.places for each in every if each.pool is pool), default=0) for pool in Pool}
    assert sum(most.values()) < 500  # worker_connections of config/gunicorn.py


@contract("D19/overloaded")
def test_a_refusal_is_503_with_the_time_and_reads_nothing(client: Client) -> None:
    """Without a database: a statement would fail this test."""
    for path, kind in (("/oauth/token", "json"), ("/oauth/userinfo", "json"), ("/accounts/sign-in", "html")):
        token = must_refuse.set(True)
        try:
            response = client.get(path, headers={"accept": "text/html"})
        finally:
            must_refuse.reset(token)
        assert response.status_code == 503
        assert int(response["Retry-After"]) >= 1
        assert kind in response["Content-Type"]
        assert response["X-Reference"] in response.content.decode()
        if kind == "json":
            assert response.json()["error"] == "temporarily_unavailable"
            assert response["Access-Control-Allow-Origin"] == "*"
