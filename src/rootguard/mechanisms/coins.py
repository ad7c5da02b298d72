"""Coins with real biases, thrown exactly with whole numbers.

A coin of bias p shows heads when a uniform U on [0, 1) falls below p. The first 32 bits of U settle
that against floor(p * 2**32) unless they are equal to it, one chance in 2**32; then more bits are
drawn and p is computed to more digits, until they differ. So the probability of heads is p itself,
not a nearby float: no rounding of the sampler can leak through the low bits of its output.

A geometric variable G with P(G >= k) = q**k is thrown from few coins, because its binary digits are
independent: digit j is one with probability q**(2**j) / (1 + q**(2**j)), and what remains above
digit j is geometric with ratio q**(2**j) again.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from itertools import compress
from operator import lt

from rootguard.rng import WORD_BITS, Randomness

Biases = Callable[[], Sequence[Decimal]]
"""Computes every bias of a set of coins in the decimal context of the caller."""

_SPARE_DIGITS = 10
"""Digits not relied on. A bias comes from one correctly rounded exponential, at most 17 squarings
and a few other operations, which together lose fewer than eight."""


def exponential_of(epsilon: Fraction) -> Decimal:
    """exp(-epsilon), correctly rounded in the caller's decimal context."""
    return (-(Decimal(epsilon.numerator) / Decimal(epsilon.denominator))).exp()


class Coins:
    """A row of coins, thrown together."""

    __slots__ = ("_biases", "_thresholds", "_ties", "_weights")

    def __init__(self, biases: Biases) -> None:
        self._biases = biases
        self._thresholds = self._floors(words=1)
        self._ties = frozenset(self._thresholds)
        self._weights = tuple(1 << coin for coin in range(len(self._thresholds)))

    def throw(self, source: Randomness) -> int:
        """Throw every coin once, each with exactly its bias; coin i is digit i of the result."""
        words = source.words(len(self._thresholds))
        if not self._ties.isdisjoint(words):
            return sum(compress(self._weights, self._settle(words, source)))
        return sum(compress(self._weights, map(lt, words, self._thresholds)))

    def _settle(self, words: list[int], source: Randomness) -> Iterator[bool]:
        """Decide throws some of whose first words may be the threshold itself."""
        for coin, drawn in enumerate(words):
            limit, length = self._thresholds[coin], 1
            while drawn == limit:
                length += 1
                drawn = drawn << WORD_BITS | source.words(1)[0]
                limit = self._floors(length)[coin]
            yield drawn < limit

    def _floors(self, words: int) -> tuple[int, ...]:
        """The floor(p * 2**(32 * words)) of each bias, certain to the last digit."""
        digits = 10 * words + 18
        while True:
            with localcontext(Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)) as context:
                slack = Decimal(10) ** (_SPARE_DIGITS - digits)
                scale = Decimal(2) ** (WORD_BITS * words)
                scaled = [bias * scale for bias in self._biases()]
                context.rounding = ROUND_FLOOR
                low = tuple(int(value * (1 - slack)) for value in scaled)
                high = tuple(int(value * (1 + slack)) for value in scaled)
            if low == high:
                return low
            digits *= 2


def digit_biases(ratio: Decimal, digits: int) -> list[Decimal]:
    """Biases of the `digits` lowest binary digits of a geometric variable, then of its carry.

    P(G >= k) = ratio**k. The carry is heads when G >= 2**digits, and again for each further
    2**digits.
    """
    biases = []
    for _ in range(digits):
        biases.append(ratio / (1 + ratio))
        ratio = ratio * ratio
    biases.append(ratio)
    return biases


def digits_for(rate: float, limit: int) -> int:
    """How many binary digits to throw one by one before throwing carries.

    Enough that carries are rare (exp(-rate * 2**digits) < 5 %), but never more than it takes to
    write `limit`, beyond which the value does not matter.
    """
    digits = 0
    while rate * (1 << digits) < 3 and (1 << digits) < limit:
        digits += 1
    return digits
