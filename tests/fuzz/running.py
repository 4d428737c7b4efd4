"""A run: batches of requests in several processes, each batch with a separate seed, and the results."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.judging import judge
from tests.fuzz.plans import Plan, plans
from tests.fuzz.rendering import rendered
from tests.fuzz.wire import Silence, ask
from tests.fuzz.world import Hand, World

BATCH = 250
CODES_OF_A_BATCH = 30
PROCESSES = 4

# The forked processes inherit it.
world: World


@dataclass
class Totals:
    """The number of requests by operation and status, and the failures."""

    seed: int
    counted: Counter[tuple[str, int]] = field(default_factory=Counter)
    tokens: int = 0
    seconds: float = 0
    seen: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Totals) -> None:
        self.counted += other.counted
        self.tokens += other.tokens
        self.seen |= other.seen
        self.failures += other.failures

    def __str__(self) -> str:
        counted = sorted(self.counted.items())
        told = ", ".join(f"{name} {status or 'hung up'}: {count}" for (name, status), count in counted)
        wrong = f"{len(self.failures)} wrong (seed {self.seed})"
        return f"{self.counted.total()} requests in {self.seconds:.0f} s, {wrong}: {told}"


def run(given_world: World, requests: int, base_seed: int) -> Totals:
    """Send at least so many requests, in batches."""
    global world
    world = given_world
    began = time.monotonic()
    totals = Totals(base_seed)
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        batches = [(number, base_seed) for number in range(-(-requests // BATCH))]
        for batch in pool.imap_unordered(run_batch, batches):
            totals.add(batch)
            if batch.failures:
                pool.terminate()
                break
    totals.seconds = time.monotonic() - began
    return totals


def run_batch(numbers: tuple[int, int]) -> Totals:
    number, base_seed = numbers
    totals = Totals(base_seed)
    hand = Hand(world, slice(number * CODES_OF_A_BATCH, (number + 1) * CODES_OF_A_BATCH))

    @seed(base_seed * 100_000 + number)
    @settings(
        max_examples=BATCH,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(plan=plans())
    def holds(plan: Plan) -> None:
        try:
            attempt(plan, hand, totals)
        except Exception as error:
            error.add_note(str(plan))
            raise

    try:
        holds()
    except BaseException as error:
        found = "".join(traceback.format_exception(error))
        totals.failures.append(f"FUZZ_SEED={base_seed}, batch {number}:\n{found}")
    totals.seen = hand.seen | set(hand.redeemed.values())
    totals.tokens = len(hand.redeemed)
    return totals


def attempt(plan: Plan, hand: Hand, totals: Totals) -> None:
    """Raises Wrong: the response breaks a rule. Raises Silence: an expected response is missing."""
    sent = rendered(plan, hand)
    answers = ask(hand.world.server, sent.data)
    if (sent.is_whole and not answers) or (sent.is_framed and len(answers) > 1):
        raise Silence(f"{len(answers)} answers")
    totals.counted.update((operation_of(plan), answer.status) for answer in answers)
    if not answers:
        totals.counted[operation_of(plan), 0] += 1
    for answer in answers:
        judge(sent, answer, hand)


def operation_of(plan: Plan) -> str:
    """The operation of the request before its mutation."""
    first = plan.base.partition(" ")[0].strip(",")
    return OPERATIONS.get(first, "authorize")


OPERATIONS = {"allow": "consent", "refuse": "consent", "exchange": "token", "replay": "token", "expired": "token"}
OPERATIONS |= {"code": "token", "profile": "userinfo"}
