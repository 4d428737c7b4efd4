"""Clients that redeem codes while a part of the service fails, and a comparison of their results with the rows.

A client replaces a kept connection that the server closed while it was idle, as RFC 9112 §9.3 allows. One that is
closed after a request was sent counts as `Unanswered`, although §9.3.1 would let a client repeat an idempotent request.
"""

from __future__ import annotations

import http.client
import json
import queue
import secrets
import select
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from django.db import connection
from django.utils import timezone

from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.factories import PersonFactory, Registered, digest_of
from tests.server import Server, wait_until

CALLERS, CODES = 8, 5000
CALL_SECONDS = 120
PATIENCE_SECONDS = 300
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Unanswered(OSError):
    """The request was sent, and the connection ended before the complete response arrived: the service failed."""


class NotListening(OSError):
    """No connection could be opened: nothing was sent, so nothing is lost."""


class Located(Protocol):
    @property
    def base_url(self) -> str: ...


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    """A client that keeps its connection, or opens one for each call. It may have an address of its own."""

    def __init__(self, server: Located, *, keeps: bool = True, address: str = "127.0.0.1") -> None:
        self.netloc = urlsplit(server.base_url).netloc
        self.keeps, self.address = keeps, address
        self.connection: http.client.HTTPConnection | None = None

    def exchange(self, application: Any, code: str) -> Answer:
        credentials = {"client_id": application.client_id, "client_secret": application.client_secret}
        form = {"grant_type": "authorization_code", "code": code, **credentials}
        return self.call("POST", "/oauth/token", urlencode(form), FORM)

    def userinfo(self, token: str) -> Answer:
        return self.call("GET", "/oauth/userinfo", headers={"Authorization": f"Bearer {token}"})

    def call(self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> Answer:
        """Raises NotListening, Unanswered."""
        connection = self._open()
        more = {} if self.keeps else {"Connection": "close"}
        try:
            connection.request(method, path, body, {"Host": self.netloc, **(headers or {}), **more})
            response = connection.getresponse()
            answer = Answer(response.status, response.msg, response.read())
        except (http.client.HTTPException, OSError) as error:
            self._hang_up()
            raise Unanswered(type(error).__name__) from None
        if not self.keeps or response.will_close:
            self._hang_up()
        return answer

    def _hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def _open(self) -> http.client.HTTPConnection:
        if self.connection is not None and self.connection.sock is not None:
            if not select.select([self.connection.sock], [], [], 0)[0]:
                return self.connection
            self._hang_up()
        place = ("127.0.0.1", urlsplit(f"//{self.netloc}").port)
        connection = http.client.HTTPConnection(*place, timeout=CALL_SECONDS, source_address=(self.address, 0))
        try:
            connection.connect()
        except OSError:
            raise NotListening from None
        self.connection = connection
        return connection


def codes_for(application: Registered, count: int, **fields: Any) -> list[str]:
    """So many codes of one person that can be redeemed."""
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

    def run_during(self, fault: Callable[[], object], *, ends: bool = False) -> None:
        """Calls `fault` while the callers redeem codes. Afterwards they go on, unless it ends the service.

        They make the last quarter of the codes do until then.
        """
        with ThreadPoolExecutor(CALLERS) as pool:
            self._callers = [pool.submit(self._call, Caller(self.server, keeps=n % 2 == 0)) for n in range(CALLERS)]
            try:
                self.go_on(300)
                fault()
                if not ends:
                    self.go_on(100)
            finally:
                self._is_enough = True
            for caller in self._callers:
                caller.result()
        assert self.done < CODES, "it happened too late to disturb anybody"

    def go_on(self, more: int) -> None:
        """Wait until so many more codes are redeemed."""
        seen = self.done
        self.wait_until(lambda: self.done >= seen + more)

    def wait_until(self, is_true: Callable[[], object]) -> None:
        """A caller that has ended, after an error, ends the wait too."""
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
        except (NotListening, Unanswered) as error:
            self.trouble[type(error).__name__] += 1
            return False
        if answer.status == 200:
            self.redeemed[code] = answer.json()["access_token"]
        elif answer.status == 400 and answer.json()["error"] == "invalid_grant":
            self.refused += 1
        else:
            assert answer.status == 503, f"{answer.status}: {answer.body[:300]!r}"
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
    """How often user info answered with each status, asked once for each token."""
    caller = Caller(server)
    return Counter(caller.userinfo(token).status for token in tokens)
