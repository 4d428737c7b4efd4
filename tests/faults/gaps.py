"""How long pages and API give no answer while something happens to the service."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter

from tests.faults.load import Caller, NotListening, Unanswered
from tests.peers import wait_until
from tests.server import Server

PAUSE_SECONDS = 0.02
# A page, and the API with a look into the database: what each answers.
EXPECTED = {"/accounts/sign-in": 200, "/oauth/userinfo": 401}
HEADERS = {"Authorization": "Bearer nobody", "Accept": "text/html"}


class Gaps:
    """While the block runs, two callers of each path: one keeps its connection, one opens a new one for each request.

    `failed` counts what was no answer or the wrong one.
    """

    def __init__(self, server: Server) -> None:
        self.failed: Counter[str] = Counter()
        self._server = server
        self._answers: dict[str, list[float]] = {path: [] for path in EXPECTED}
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=[path, keeps]) for path in EXPECTED for keeps in (True, False)
        ]

    def __enter__(self) -> Gaps:
        for thread in self._threads:
            thread.start()
        wait_until(lambda: all(self._answers.values()))
        for times in self._answers.values():
            del times[:-1]  # the first ones had to wait for the callers
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    @property
    def longest_seconds(self) -> float:
        """The longest time in which the server answered nobody on one of the paths."""
        found = map(sorted, self._answers.values())
        return max(after - before for times in found for before, after in itertools.pairwise(times))

    def _ask(self, path: str, keeps: bool) -> None:
        caller = Caller(self._server, keeps=keeps)
        while not self._is_over.wait(PAUSE_SECONDS):
            try:
                status = caller.call("GET", path, headers=HEADERS).status
            except (NotListening, Unanswered) as error:
                self.failed[f"{path}: {type(error).__name__}"] += 1
                continue
            self._answers[path].append(time.monotonic())
            if status != EXPECTED[path]:
                self.failed[f"{path}: {status}"] += 1
