"""Two ways to do one thing, timed in turns on the same machine; and single figures, timed likewise.

Judged is processor time: what the process itself used, whatever else the machine does meanwhile.
Wall time stands beside it. Each round times both contenders back to back, in alternating order, so
that what slows a processor down, its caches for one, hits both. A result is a median over rounds,
with the middle half of the rounds as its spread.
"""

import gc
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Literal

ROUNDS = int(os.environ.get("ROOTGUARD_BENCH_ROUNDS", "11"))
"""At most so many; ROOTGUARD_BENCH_ROUNDS makes a run shorter, and its spreads wider."""
_BATCH_SECONDS = 0.015
"""One timing lasts about this long, or one call if that is longer."""
_SHORT_SECONDS = 0.1

Clock = Literal["processor", "wall"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What something took, in seconds."""

    processor: float
    wall: float

    def __truediv__(self, units: float) -> "Spent":
        return Spent(processor=self.processor / units, wall=self.wall / units)


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """A way to do it. One call does `units` of the work that is compared.

    A call that works in another process says itself what that took: it returns a `Spent`.
    """

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
    clock: Clock = "processor"
    """What is judged. Of work that other processes share, the wall time."""
    rounds: int = ROUNDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """A comparison that cannot be made here, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A comparison that was made. Seconds are medians per unit of work, by the judged clock."""

    case: Case
    ours_seconds: float
    theirs_seconds: float
    ratios: tuple[float, ...]
    ours_wall: float | None = None
    theirs_wall: float | None = None

    @property
    def ratio(self) -> float:
        """How many times as long the alternative takes: above 1, RootGuard is faster."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The middle half of the rounds."""
        return middle_half(self.ratios)

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        if self.case.aim is None:
            return None
        return self.ratio >= self.case.aim and (self.case.check is None or self.case.check.holds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """What one unit of something takes, with nothing beside it but an aim in seconds."""

    name: str
    unit: str
    rounds: tuple[Spent, ...]
    aim: float | None = None
    """The most processor time a unit may take."""
    rate: bool = False

    @property
    def seconds(self) -> float:
        """Processor time of a unit."""
        return statistics.median(each.processor for each in self.rounds)

    @property
    def wall(self) -> float:
        """Wall time of a unit."""
        return statistics.median(each.wall for each in self.rounds)

    @property
    def spread(self) -> tuple[float, float]:
        """The middle half of the rounds."""
        return middle_half([each.processor for each in self.rounds])

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        return None if self.aim is None else self.seconds <= self.aim


@dataclass(frozen=True, kw_only=True, slots=True)
class Growth:
    """What something takes at several sizes, and the exponent that fits: time is like size to it.

    By least squares of logarithms. An exponent of 0 says that the size does not matter, of 1 that
    twice the size takes twice the time.
    """

    name: str
    size: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    limit: float = 1.1

    @property
    def exponent(self) -> float:
        """The slope of the line through the logarithms."""
        xs, ys = [math.log(n) for n in self.sizes], [math.log(s) for s in self.seconds]
        x, y = statistics.fmean(xs), statistics.fmean(ys)
        above = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
        return above / sum((a - x) ** 2 for a in xs)

    @property
    def met(self) -> bool:
        """Whether it grows no faster than is allowed."""
        return self.exponent <= self.limit


Result = Row | Figure | Growth | Skipped


def middle_half(figures: Sequence[float]) -> tuple[float, float]:
    """The quartiles; of a single figure, itself."""
    if len(figures) < 2:
        return figures[0], figures[0]
    low, _, high = statistics.quantiles(figures, n=4, method="inclusive")
    return low, high


def measure(case: Case) -> Row:
    """Time both contenders in turns."""
    sides = (case.ours, case.theirs)
    with _no_collection():
        batches = [_batch(side) for side in sides]
        # What the other has just given back to the system, whoever comes next must ask for again:
        # a page fault for each page. One call that is not timed pays for it, where calls are short.
        short = [_timed(side, 1).wall < _SHORT_SECONDS for side in sides]
        spent: tuple[list[Spent], list[Spent]] = ([], [])
        for turn in range(min(case.rounds, ROUNDS)):
            for side in (0, 1) if turn % 2 else (1, 0):
                if short[side]:
                    sides[side].call()
                took = _timed(sides[side], batches[side])
                spent[side].append(took / (batches[side] * sides[side].units))
    ours, theirs = ([_judged(each, case.clock) for each in side] for side in spent)
    return Row(
        case=case,
        ours_seconds=statistics.median(ours),
        theirs_seconds=statistics.median(theirs),
        ratios=tuple(other / own for own, other in zip(ours, theirs, strict=True)),
        ours_wall=statistics.median(each.wall for each in spent[0]),
        theirs_wall=statistics.median(each.wall for each in spent[1]),
    )


def figure(
    contender: Contender,
    *,
    unit: str,
    aim: float | None = None,
    rate: bool = False,
    rounds: int = ROUNDS,
) -> Figure:
    """Time one thing alone."""
    with _no_collection():
        batch = _batch(contender)
        turns = range(min(rounds, ROUNDS))
        spent = [_timed(contender, batch) / (batch * contender.units) for _ in turns]
    return Figure(name=contender.name, unit=unit, rounds=tuple(spent), aim=aim, rate=rate)


def growth(
    name: str,
    size: str,
    contenders: Sequence[tuple[int, Contender]],
    *,
    limit: float = 1.1,
    rounds: int = 5,
) -> Growth:
    """Time the same thing at several sizes, in turns; of each the least time that was met."""
    with _no_collection():
        batches = [_batch(contender) for _, contender in contenders]
        best = [math.inf] * len(contenders)
        for _ in range(min(rounds, ROUNDS)):
            for place, (_, contender) in enumerate(contenders):
                took = _timed(contender, batches[place]) / (batches[place] * contender.units)
                best[place] = min(best[place], took.processor)
    sizes = tuple(number for number, _ in contenders)
    return Growth(name=name, size=size, sizes=sizes, seconds=tuple(best), limit=limit)


def family(process: int) -> list[int]:
    """A process and all that it has started, by Linux's own table."""
    found = [process]
    for each in found:
        for tasks in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, tasks.read_text("ascii").split())
    return found


def _judged(spent: Spent, clock: Clock) -> float:
    return spent.processor if clock == "processor" else spent.wall


def _timed(contender: Contender, calls: int) -> Spent:
    call, told = contender.call, Spent(processor=0.0, wall=0.0)
    processor, wall = time.process_time(), time.perf_counter()
    for _ in repeat(None, calls):
        said = call()
        if isinstance(said, Spent):
            told = Spent(processor=told.processor + said.processor, wall=told.wall + said.wall)
    if told.wall:
        return told
    return Spent(processor=time.process_time() - processor, wall=time.perf_counter() - wall)


def _batch(contender: Contender) -> int:
    """How many calls fill one timing. The calls made to find out warm both sides up."""
    _timed(contender, 1)
    calls = 1
    while (took := _timed(contender, calls).wall) < _BATCH_SECONDS / 4:
        calls *= 4
    return max(1, round(calls * _BATCH_SECONDS / took))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the garbage collector, which would hit whoever is timed just then."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
