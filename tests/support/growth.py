"""Whether work grows with the length of a text and no faster, by the processor's time it takes."""

import time
from collections.abc import Callable

Work = Callable[[str], object]

_FASTEST = 0.002
"""Seconds; below it the clock and what is done once per call are most of what is measured."""
_ATTEMPTS = 4
"""Another program may take the processor's cache in one measurement; not in each of them."""


def grows_linearly(work: Work, unit: str, length: int) -> bool:
    """Whether a text costs far less than the 64 times that quadratic work needs for 8 times it."""
    for _ in range(_ATTEMPTS):
        eighth = max(min(_cost(work, unit, length // 8) for _ in range(3)), _FASTEST)
        if _cost(work, unit, length) < 24 * eighth:
            return True
    return False


def _cost(work: Work, unit: str, length: int) -> float:
    text = (unit * (length // len(unit) + 1))[:length]
    start = time.process_time()
    work(text)
    return time.process_time() - start
