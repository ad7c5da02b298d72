"""Wheels of fortune with real probabilities, spun exactly with whole numbers.

A wheel with faces 0, 1, … n shows face k or more with probability p_k: a uniform U on [0, 1) shows
the face that counts the p_k above it. The first 32 bits of U settle that against floor(p_k * 2**32)
unless they are equal to one of these; then more bits are drawn and the p_k computed to more bits,
until they differ. So each face has its own probability, not that of a nearby float: no rounding of
the sampler can leak through the low bits of its output.

A geometric variable G with P(G >= k) = q**k is spun from two small wheels, because its remainder
modulo n and its quotient are independent: the remainder is G cut off at n, and the quotient is
geometric with ratio q**n.
"""

from bisect import bisect_left
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from rootguard.rng import WORD_BITS, Randomness

Rows = list[list[int]]
"""For each wheel p_1, … p_n (falling), in units of 2**-precision."""

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


class Wheels:
    """A row of wheels, spun together."""

    __slots__ = ("_compute", "_rows", "_ties")

    def __init__(self, compute: Callable[[int], Rows]) -> None:
        """`compute(precision)` gives the rows of every wheel, within the slack stated above."""
        self._compute = compute
        self._rows = certain_floors(compute, words=1)
        self._ties = frozenset().union(*self._rows)

    def spin(self, source: Randomness) -> list[int]:
        """Spin every wheel once; each face comes up with exactly its probability."""
        words = source.words(len(self._rows))
        if self._ties.isdisjoint(words):
            return list(map(bisect_left, self._rows, words))
        return [self._settle(wheel, word, source) for wheel, word in enumerate(words)]

    def spin_last(self, source: Randomness) -> int:
        """Spin the last wheel alone."""
        return self._settle(len(self._rows) - 1, source.words(1)[0], source)

    def _settle(self, wheel: int, word: int, source: Randomness) -> int:
        row, words = self._rows[wheel], 1
        while word in row:
            words += 1
            word = word << WORD_BITS | source.words(1)[0]
            row = certain_floors(self._compute, words)[wheel]
        return bisect_left(row, word)


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
    """Two wheels for a geometric variable: its `low` lowest binary digits, then the `high` next.

    With `carry` the last face of the second wheel stands for all that needs more digits; without,
    the variable is taken modulo 2**(low + high). With no low digits there is one wheel.
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
    """How many binary digits to spin before the carry.

    Enough that carries are rare (exp(-rate * 2**digits) < 5 %), but never more than it takes to
    write `limit`, beyond which the value does not matter.
    """
    digits = 0
    while rate * (1 << digits) < 3 and (1 << digits) < limit:
        digits += 1
    return digits
