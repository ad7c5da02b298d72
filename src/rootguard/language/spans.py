"""Stretches of a text that are spoken for, asked quickly whether another one meets them."""

import bisect
from collections.abc import Iterable


class Spans:
    """A set of stretches; asking takes the logarithm of their number."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        merged: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        self._starts = [start for start, _ in merged]
        self._ends = [end for _, end in merged]

    def meet(self, start: int, end: int) -> bool:
        """Whether a stretch overlaps any of these."""
        place = bisect.bisect_right(self._ends, start)
        return place < len(self._starts) and self._starts[place] < end

    def cut(self, start: int, end: int) -> list[tuple[int, int]]:
        """What is left of a stretch outside of these."""
        left = []
        place = bisect.bisect_right(self._ends, start)
        while place < len(self._starts) and self._starts[place] < end:
            if start < self._starts[place]:
                left.append((start, self._starts[place]))
            start = self._ends[place]
            place += 1
        if start < end:
            left.append((start, end))
        return left
