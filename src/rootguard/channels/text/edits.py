"""What is written where in a text, and what came of it. Public: nothing that was replaced."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Edit:
    """A stretch of a text and what is written there; `released` is a root's value."""

    start: int
    end: int
    text: str
    kind: str
    released: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Sanitization:
    """A text that may leave, and how many replacements of which kind made it so."""

    text: str
    replaced: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class JsonSanitization:
    """A JSON value that may leave, and how many replacements of which kind made it so."""

    value: object
    replaced: Mapping[str, int]


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text with its edits, which are in order; made from the end, so that places stay valid."""
    pieces: list[str] = []
    rest = len(text)
    for edit in reversed(edits):
        pieces += [text[edit.end : rest], edit.text]
        rest = edit.start
    return text[:rest] + "".join(reversed(pieces))
