"""Exact confidence limits for a probability from counts (Clopper and Pearson 1934).

The lower limit from k successes in n is the p at which k or more have probability alpha:
I_p(k, n-k+1) = alpha, with I the regularised incomplete beta function (continued fraction,
Lentz's method). No successes give 0, n of them give the upper limit 1. SciPy is not a dependency.
"""

import math

_TINY = 1e-300
_MAX_TERMS = 20_000


def lower_limit(successes: int, trials: int, alpha: float) -> float:
    """The probability is at least this, with confidence 1 - alpha."""
    if successes == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if regularised_beta(successes, trials - successes + 1, middle) < alpha:
            low = middle
        else:
            high = middle
    return low


def upper_limit(successes: int, trials: int, alpha: float) -> float:
    """The probability is at most this, with confidence 1 - alpha."""
    return 1.0 - lower_limit(trials - successes, trials, alpha)


def regularised_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges quickly on the other side only
        return 1.0 - regularised_beta(b, a, 1 - x)
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
        - math.log(a)
    )
    if log_front < math.log(_TINY):
        return 0.0
    d = 1 / _away(1 - (a + b) * x / (a + 1))
    c, fraction = 1.0, d
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return math.exp(log_front) * fraction


def _away(value: float) -> float:
    """Not zero: Lentz's method divides by it."""
    return value if abs(value) > _TINY else _TINY
