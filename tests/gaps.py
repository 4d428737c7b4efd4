"""How long pages and API give no answer while something happens to the service."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from types import TracebackType

from tests.load import Caller, NotListening, Unanswered
from tests.server import Server
from tests.smtp import wait_until

PAUSE_SECONDS = 0.02
# A page, and the API with a look into the database: what each answers.
EXPECTED = {"/accounts/sign-in": 200, "/oauth/userinfo": 401}
HEADERS = {"Authorization": "Bearer nobody", "Accept": "text/html"}
LONGEST_SECONDS = 0.3


class Gaps:
    """While the block runs, two callers of each path: one keeps its connection, one opens a new one for each request.

    The same callers ask `another` server, to which nothing happens: where the machine is busy, that one has gaps too.
    `failed` counts what was no answer or the wrong one.
    """

    def __init__(self, server: Server, another: Server) -> None:
        self.failed: Counter[str] = Counter()
        self._answers: dict[tuple[Server, str], list[float]] = {
            (asked, path): [] for asked in (server, another) for path in EXPECTED
        }
        self._server, self._another = server, another
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=[*asked, keeps])
            for asked in self._answers
            for keeps in (True, False)
        ]

    def __enter__(self) -> Gaps:
        for thread in self._threads:
            thread.start()
        wait_until(lambda: all(self._answers.values()))
        for times in self._answers.values():
            del times[:-1]  # the first ones had to wait for the callers
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    @property
    def longest_seconds(self) -> float:
        """The longest time in which the server answered nobody on one of the paths."""
        return self._longest_of(self._server)

    def allowed_seconds(self, promised: float = 0, usual: float = 0) -> float:
        """On a busy machine, twice the longest gap of the other server, after the delay that the service promises.

        `usual`: the longest gap of the same server before, which is used instead if it is longer.
        """
        return max(LONGEST_SECONDS, promised + 2 * max(usual, self._longest_of(self._another)))

    def _longest_of(self, server: Server) -> float:
        found = [sorted(self._answers[server, path]) for path in EXPECTED]
        return max(after - before for times in found for before, after in itertools.pairwise(times))

    def _ask(self, server: Server, path: str, keeps: bool) -> None:
        caller = Caller(server, keeps=keeps)
        while not self._is_over.wait(PAUSE_SECONDS):
            try:
                status = caller.call("GET", path, headers=HEADERS).status
            except (NotListening, Unanswered) as error:
                self.failed[f"{path}: {type(error).__name__}"] += 1
                continue
            self._answers[server, path].append(time.monotonic())
            if status != EXPECTED[path]:
                self.failed[f"{path}: {status}"] += 1
