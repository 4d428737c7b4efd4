"""Clients that redeem codes while a part of the service fails, and a comparison of their results with the rows."""

from __future__ import annotations

import queue
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.db import connection
from django.utils import timezone
from urllib3 import BaseHTTPResponse, HTTPConnectionPool
from urllib3.exceptions import HTTPError

from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.factories import PersonFactory, Registered, digest_of
from tests.server import Server, wait_until

CALLERS, CODES = 8, 5000
CALL_SECONDS = 600  # under valgrind
PATIENCE_SECONDS = 300
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Caller:
    """A client that keeps its connections, or opens one for each call. It may have an address of its own.

    Threads may share it. A call raises NewConnectionError: nothing was sent. Another HTTPError: no full answer came.
    """

    def __init__(self, server: Any, *, keeps: bool = True, address: str = "127.0.0.1") -> None:
        netloc = urlsplit(server.base_url).netloc
        self.headers = {"Host": netloc} | ({} if keeps else {"Connection": "close"})
        options: dict[str, Any] = {"timeout": CALL_SECONDS, "source_address": (address, 0), "maxsize": 64}
        self.pool = HTTPConnectionPool("127.0.0.1", int(netloc.rpartition(":")[2]), **options)

    def exchange(self, application: Any, code: str) -> BaseHTTPResponse:
        credentials = {"client_id": application.client_id, "client_secret": application.client_secret}
        form = {"grant_type": "authorization_code", "code": code, **credentials}
        return self.call("POST", "/oauth/token", urlencode(form), FORM)

    def userinfo(self, token: str) -> BaseHTTPResponse:
        return self.call("GET", "/oauth/userinfo", headers={"Authorization": f"Bearer {token}"})

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> BaseHTTPResponse:
        headers = self.headers | (headers or {})
        return self.pool.urlopen(method, path, body, headers, retries=False, redirect=False)


def codes_for(application: Registered, count: int, **fields: Any) -> list[str]:
    raw, now = [secrets.token_urlsafe(32) for _ in range(count)], timezone.now()
    values = {
        "application": application.row,
        "user": fields.get("user") or PersonFactory(),
        "redirect_uri": application.redirect_uri,
        "scope": "profile",
        "issued_at": now,
        "expires_at": now + timedelta(seconds=600),
        **fields,
    }
    rows = (AuthorizationCode(digest=digest_of(code), attempt=uuid.uuid4(), **values) for code in raw)
    # PostgreSQL takes at most 65,535 parameters in a statement.
    AuthorizationCode.objects.bulk_create(rows, batch_size=1_000)
    return raw


class Redemptions:
    """Callers that send each code until the response is a token or `invalid_grant`. `trouble` counts other results.

    Half of the callers keep their connection, half open one for each call.
    """

    def __init__(self, server: Server, application: Registered) -> None:
        self.server, self.application = server, application
        self.redeemed: dict[str, str] = {}  # code: token
        self.refused = 0
        self.trouble: Counter[str] = Counter()
        self._callers: list[Future[None]] = []
        self._is_enough = False
        self._waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        for code in codes_for(application, CODES):
            self._waiting.put(code)

    @property
    def done(self) -> int:
        return len(self.redeemed) + self.refused

    def run_during(self, fault: Callable[[], object]) -> None:
        """Call `fault` while the callers redeem codes. They slow down for the last quarter of the codes."""
        with ThreadPoolExecutor(CALLERS) as pool:
            self._callers = [pool.submit(self._call, Caller(self.server, keeps=n % 2 == 0)) for n in range(CALLERS)]
            try:
                self.go_on(300)
                fault()
                self.go_on(100)
            finally:
                self._is_enough = True
            for caller in self._callers:
                caller.result()
        assert self.done < CODES, "it happened too late to disturb anybody"

    def go_on(self, more: int) -> None:
        seen = self.done
        self.wait_until(lambda: self.done >= seen + more)

    def wait_until(self, is_true: Callable[[], object]) -> None:
        """Also end the wait when a caller has ended after an error."""
        wait_until(
            lambda: is_true() or any(each.done() for each in self._callers),
            PATIENCE_SECONDS,
            lambda: f"{self.done} of {CODES} done, {self.trouble}",
        )

    def _call(self, caller: Caller) -> None:
        while not self._is_enough:
            try:
                code = self._waiting.get_nowait()
            except queue.Empty:
                return
            while not self._is_settled(caller, code) and not self._is_enough:
                time.sleep(0.05)
            if self._waiting.qsize() < CODES // 4:
                time.sleep(0.25)

    def _is_settled(self, caller: Caller, code: str) -> bool:
        try:
            answer = caller.exchange(self.application, code)
        except HTTPError as error:
            self.trouble[type(error).__name__] += 1
            return False
        if answer.status == 200:
            self.redeemed[code] = answer.json()["access_token"]
        elif answer.status == 400 and answer.json()["error"] == "invalid_grant":
            self.refused += 1
        else:
            assert answer.status == 503, f"{answer.status}: {answer.data[:300]!r}"
            assert int(answer.headers["Retry-After"]) >= 1
            self.trouble[f"503 {answer.json()['error']}"] += 1
            return False
        return True

    def check_that_none_failed(self) -> None:
        assert (self.trouble, self.refused) == ({}, 0)
        self.check_books()

    def check_books(self) -> None:
        """Each code led to one token at most, and each token that was issued works. Specification 3.1; D13."""
        connection.close()  # the fault may have ended it, too
        codes = AuthorizationCode.objects.filter(application=self.application.row)
        spent = codes.filter(redeemed_at__isnull=False).values_list("token_digest", flat=True)
        tokens = AccessToken.objects.filter(application=self.application.row)
        stored = {bytes(digest): revoked_at for digest, revoked_at in tokens.values_list("digest", "revoked_at")}
        assert self.done == len(spent) == len(stored)
        assert {bytes(digest) for digest in spent} == stored.keys()
        assert [stored[digest_of(token)] for token in self.redeemed.values()] == [None] * len(self.redeemed)
        assert statuses(self.server, self.redeemed.values()) == {200: len(self.redeemed)}


def statuses(server: Server, tokens: Iterable[str]) -> Counter[int]:
    caller = Caller(server)
    return Counter(caller.userinfo(token).status for token in tokens)
