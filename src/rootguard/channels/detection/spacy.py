"""Names found by a spaCy pipeline that the user names; an optional extra.

Only the parts of the pipeline that recognise entities are loaded. Long texts are read in pieces
that overlap a little, so the memory needed does not grow with the text.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from rootguard.channels.detection.rules import Found, merge
from rootguard.errors import UnknownNameError

_PERSON = frozenset({"PERSON", "PER", "persName"})
"""What the published pipelines call a person: English, most others, Polish."""
_UNUSED = ("tagger", "parser", "senter", "attribute_ruler", "lemmatizer", "morphologizer")
# Characters. A pipeline's memory grows with a piece, and spaCy refuses over a million; the
# overlap is longer than any name, so that each is whole in one of two pieces.
_PIECE, _OVERLAP = 20_000, 400
_NAME = re.compile(r"[^\W\d_](?:[^\n\r\t\d]*[^\W\d_])?")
_POSSESSIVE = ("'s", "’s", "'S", "’S")


class _Entity(Protocol):
    """What is used of a spaCy span."""

    text: str
    label_: str
    start_char: int


class _Doc(Protocol):
    """What is used of a spaCy document."""

    @property
    def ents(self) -> Iterable[_Entity]: ...


class SpacyNames:
    """Finds persons with a spaCy pipeline: an installed package's name, or a folder's path."""

    def __init__(self, pipeline: str) -> None:
        try:
            from spacy import load
        except ImportError:
            raise UnknownNameError("installed package (pip install spacy)", "spacy") from None
        try:
            self._pipeline: Callable[[str], _Doc] = load(pipeline, exclude=_UNUSED)
        except OSError:
            raise UnknownNameError("spaCy pipeline", pipeline) from None

    def find(self, text: str) -> list[Found]:
        """The persons in the text, in order and without overlaps."""
        return merge(self._found(text))

    def _found(self, text: str) -> Iterator[Found]:
        for offset, piece in pieces(text):
            for entity in self._pipeline(piece).ents:
                if entity.label_ in _PERSON:
                    yield from names_in(entity.text, offset + entity.start_char)


def names_in(entity: str, start: int) -> Iterator[Found]:
    """The names in what a pipeline takes for one; it may run over a line's end or take a number."""
    for name in _NAME.finditer(entity):
        cut = 2 if name[0].endswith(_POSSESSIVE) else 0
        yield Found(start + name.start(), start + name.end() - cut, "person")


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """The text in pieces of bounded length that overlap, so that none cuts a name for good."""
    start = 0
    while start < len(text):
        end = start + _PIECE
        yield start, text[start:end]
        if end >= len(text):
            return
        gap = text.find(" ", end - _OVERLAP, end)
        start = gap + 1 if gap != -1 else end - _OVERLAP
