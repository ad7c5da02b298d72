"""What a detector gives back: where something stands and what it is, never the text itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from rootguard.identifiers.formats import Kind

_KIND_ORDER: tuple[Kind, ...] = ("email", "code", "date", "phone", "person")


@dataclass(frozen=True, slots=True)
class Found:
    """An identifier's place in a text and its kind. Holds nothing private."""

    start: int
    end: int
    kind: Kind


class Detector(Protocol):
    """Anything that finds identifiers in a text."""

    def find(self, text: str) -> list[Found]:
        """The identifiers in the text, in order and without overlaps."""
        ...


def merge(found: Iterable[Found]) -> list[Found]:
    """Finds of several detectors as one list without overlaps, in order of place.

    Of overlapping ones the longest stays, then the leftmost, then by kind: e-mail, code, date,
    phone, person.
    """
    ranked = sorted(
        {item for item in found if item.start < item.end},
        key=lambda item: (item.start - item.end, item.start, _KIND_ORDER.index(item.kind)),
    )
    kept: list[Found] = []
    taken = bytearray(max((item.end for item in ranked), default=0))
    for item in ranked:
        # Every kept item is at least as long, so an overlap covers an end of this one.
        if not taken[item.start] and not taken[item.end - 1]:
            taken[item.start : item.end] = b"\x01" * (item.end - item.start)
            kept.append(item)
    return sorted(kept, key=lambda item: item.start)
