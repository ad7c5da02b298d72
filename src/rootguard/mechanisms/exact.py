"""Exact sampling with whole numbers: variables with real probabilities, for one person or many.

A variable with outcomes 0, 1, … n is k or more with probability p_k: a uniform U on [0, 1) stands
for the outcome that counts the p_k above it. The first 32 bits of U settle that against
floor(p_k * 2**32) unless they are equal to one of these; then more bits are drawn and the p_k
computed to more bits, until they differ. So each outcome has its own probability, not that of a
nearby float: no rounding of the sampler can leak through the low bits of its output.

A geometric variable G with P(G >= k) = q**k is drawn as two small variables, because its remainder
modulo n and its quotient are independent: the remainder is G cut off at n, and the quotient is
geometric with ratio q**n.
"""

from bisect import bisect_left
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rootguard.rng import WORD_BITS, Randomness

Rows = list[list[int]]
"""For each variable p_1, … p_n (falling), in units of 2**-precision."""

Words = NDArray[np.uint64]
Outcomes = NDArray[np.int64]

# Bits computed beyond those that are compared; doubled where the slack leaves a threshold open,
# which it does for one threshold in 2**19.
_GUARD_BITS = 64
_SLACK_BITS = 44
"""Rows may be off by 2**44 units. One exponential is off by less than two; a power made of up to
2**17 products by less than 2**19; the quotient of two such, with a denominator of at least 2**-21
(epsilon is at least a millionth), by less than 2**41."""


def exponential_of(epsilon: Fraction) -> Decimal:
    """exp(-epsilon), correctly rounded in the caller's decimal context."""
    return (-(Decimal(epsilon.numerator) / Decimal(epsilon.denominator))).exp()


def wide_context(bits: int) -> Context:
    """Decimal arithmetic with at least that many bits and no limit to exponents."""
    return Context(prec=bits * 302 // 1000 + 8, Emax=MAX_EMAX, Emin=MIN_EMIN)


class ExactSampler:
    """Draws several independent variables together, for one person."""

    __slots__ = ("_compute", "_rows", "_ties")

    def __init__(self, compute: Callable[[int], Rows]) -> None:
        """`compute(precision)` gives a row for every variable, within the slack stated above."""
        self._compute = compute
        self._rows = certain_floors(compute, words=1)
        self._ties = frozenset().union(*self._rows)

    def draw(self, source: Randomness) -> list[int]:
        """One outcome of every variable, each with exactly its probability."""
        words = source.words(len(self._rows))
        if self._ties.isdisjoint(words):
            return list(map(bisect_left, self._rows, words))
        return [self._settled(place, word, source) for place, word in enumerate(words)]

    def draw_last(self, source: Randomness) -> int:
        """One outcome of the last variable alone."""
        return self._settled(len(self._rows) - 1, source.words(1)[0], source)

    def _settled(self, place: int, word: int, source: Randomness) -> int:
        if word not in self._rows[place]:
            return bisect_left(self._rows[place], word)
        return _break_tie(
            lambda words: certain_floors(self._compute, words)[place], word, 1, source
        )


def certain_floors(compute: Callable[[int], Rows], words: int) -> tuple[tuple[int, ...], ...]:
    """2**(32 * words) - 1 - floor(p * 2**(32 * words)) for every p, certain to the last bit.

    Counted from the top, so that they rise and U is one minus what the words spell.
    """
    top = (1 << WORD_BITS * words) - 1
    guard, slack = _GUARD_BITS, 1 << _SLACK_BITS
    while True:
        rows = compute(WORD_BITS * words + guard)
        low = tuple(tuple(max(p - slack, 0) >> guard for p in row) for row in rows)
        high = tuple(tuple(p + slack >> guard for p in row) for row in rows)
        if low == high:
            return tuple(tuple(top - floor for floor in row) for row in low)
        guard *= 2


def geometric_rows(ratio: int, precision: int, low: int, high: int, *, carry: bool) -> Rows:
    """Two rows for a geometric variable: its `low` lowest binary digits, then the `high` next.

    With `carry` the last outcome of the second stands for all that needs more digits; without, the
    variable is taken modulo 2**(low + high). With no low digits there is one row.
    """
    rows: Rows = []
    power = ratio
    if low:
        powers = []
        for _ in range((1 << low) - 1):
            powers.append(power)
            power = power * ratio >> precision
        rows.append(_cut_off(powers, power, precision))
        ratio = power
    powers = []
    for _ in range(1 << high):
        powers.append(power)
        power = power * ratio >> precision
    rows.append(powers if carry else _cut_off(powers[:-1], powers[-1], precision))
    return rows


def _cut_off(powers: list[int], end: int, precision: int) -> list[int]:
    """P(G >= k | G < n) = (q**k - q**n) / (1 - q**n), from q**1, … q**(n-1) and q**n."""
    rest = (1 << precision) - end
    return [(power - end << precision) // rest for power in powers]


def digits_for(rate: float, limit: int) -> int:
    """How many binary digits to draw before the carry.

    Enough that carries are rare (exp(-rate * 2**digits) < 5 %), but never more than it takes to
    write `limit`, beyond which the value does not matter.
    """
    digits = 0
    while rate * (1 << digits) < 3 and (1 << digits) < limit:
        digits += 1
    return digits


# A guide of 65,536 cells takes half a megabyte, which a core's cache holds. A row is searched for
# only where a threshold lies in its cell, and there is one threshold for each grid step.
_CELL_BITS = 16
_SHIFT = np.uint64(64 - _CELL_BITS)


class Streams(Protocol):
    """A stream of uniform bits for each of many rows. Asked twice, it says the same twice."""

    def words(self, block: int, rows: Outcomes | None = None) -> tuple[Words, Words]:
        """Two 64-bit words for each row (of those given): its block of that number."""
        ...

    def source(self, row: int, block: int) -> Randomness:
        """More bits of one row, beside all its blocks: what a tie in that block needs."""
        ...


class GuideTableSampler:
    """Draws one variable for many rows at once (the guide table of Chen and Asau 1974).

    Each row brings 64 bits of U where `ExactSampler` takes 32. The upper 16 of them name a cell of
    a guide; unless a threshold lies in that cell the outcome is read off there, else the 64 bits
    are searched for among the thresholds. Where they are equal to one, which happens once in 2**64
    draws per threshold, more of that row's bits decide.
    """

    __slots__ = ("_compute", "_guide", "_rising")

    def __init__(self, compute: Callable[[int], Rows]) -> None:
        """`compute(precision)` gives one row, within the slack stated above."""
        self._compute = compute
        self._rising = np.array(certain_floors(compute, words=2)[0], dtype=np.uint64)
        edges = np.arange(1 << _CELL_BITS, dtype=np.uint64) << _SHIFT
        below = np.searchsorted(self._rising, edges)
        after = np.append(below[1:], len(self._rising))
        self._guide = np.where(below == after, below, -1)

    def draw(self, words: Words, source: Callable[[int], Randomness]) -> Outcomes:
        """The outcome that each row's word stands for; `source` gives the rest of a row's bits."""
        outcomes: Outcomes = self._guide[(words >> _SHIFT).view(np.int64)]
        unread = np.flatnonzero(outcomes < 0)
        if unread.size:
            sought = words[unread]
            places = np.searchsorted(self._rising, sought)
            outcomes[unread] = places
            last = len(self._rising) - 1
            tied = self._rising[np.minimum(places, last)] == sought
            for row in unread[tied].tolist():
                outcomes[row] = _break_tie(self._floors, int(words[row]), 2, source(row))
        return outcomes

    def _floors(self, words: int) -> tuple[int, ...]:
        return certain_floors(self._compute, words)[0]


def _break_tie(
    floors: Callable[[int], tuple[int, ...]], word: int, words: int, source: Randomness
) -> int:
    """The outcome of a draw whose first words are equal to a threshold: draw until they differ."""
    while True:
        words += 1
        word = word << WORD_BITS | source.words(1)[0]
        row = floors(words)
        if word not in row:
            return bisect_left(row, word)
