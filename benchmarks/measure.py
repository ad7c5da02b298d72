"""Two ways to do one thing, timed in turns on the same machine.

Each round times both contenders back to back, in alternating order, so that whatever else the
machine does hits both. The result is the median over rounds of their ratio, with the middle half
of the rounds as its spread. A time on its own is printed for scale and never judged.
"""

import statistics
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 11
_BATCH_SECONDS = 0.015
"""One timing lasts about this long, or one call if that is longer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """A way to do it. One call does `units` of the work that is compared."""

    name: str
    call: Callable[[], object]
    units: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A figure besides speed that must not exceed its limit for the aim to be met."""

    name: str
    value: float
    limit: float

    @property
    def holds(self) -> bool:
        """Whether the limit is kept; a NaN does not keep it."""
        return self.value <= self.limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A comparison to be made. `aim` is the least ratio theirs / ours that is wanted."""

    ours: Contender
    theirs: Contender
    aim: float | None = None
    check: Check | None = None
    rate: bool = False
    """Whether people read this as units per second rather than as a time per unit."""
    processor: bool = False
    """Whether this is about work, and not about waiting: by processor time, of all threads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """A comparison that cannot be made here, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A comparison that was made. Seconds are medians per unit of work."""

    case: Case
    ours_seconds: float
    theirs_seconds: float
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """How many times as long the alternative takes: above 1, RootGuard is faster."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The middle half of the rounds."""
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        if self.case.aim is None:
            return None
        return self.ratio >= self.case.aim and (self.case.check is None or self.case.check.holds)


def measure(case: Case) -> Row:
    """Time both contenders in turns."""
    clock = time.process_time if case.processor else time.perf_counter
    timers = [timeit.Timer(each.call, timer=clock) for each in (case.ours, case.theirs)]
    batches = [_batch(timer) for timer in timers]
    units = [case.ours.units, case.theirs.units]
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        for side in (0, 1) if turn % 2 else (1, 0):
            took = timers[side].timeit(batches[side])
            seconds[side].append(took / (batches[side] * units[side]))
    ours, theirs = seconds
    return Row(
        case=case,
        ours_seconds=statistics.median(ours),
        theirs_seconds=statistics.median(theirs),
        ratios=tuple(other / own for own, other in zip(ours, theirs, strict=True)),
    )


def _batch(timer: timeit.Timer) -> int:
    """How many calls fill one timing. The calls made to find out warm both sides up."""
    timer.timeit(1)
    calls = 1
    while (took := timer.timeit(calls)) < _BATCH_SECONDS / 4:
        calls *= 4
    return max(1, round(calls * _BATCH_SECONDS / took))
