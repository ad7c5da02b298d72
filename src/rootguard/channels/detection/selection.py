"""The detectors that a profile or an option names, with the kinds and the words that it chose.

A name is `rules`, `spacy` or `presidio`, the latter two with a pipeline behind a colon if it is not
the usual one. A model is loaded once, whoever asks for it.
"""

import functools
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rootguard.channels.detection.presidio import PresidioEntities
from rootguard.channels.detection.rules import (
    DEFAULT_KINDS,
    FOUND_KINDS,
    AllowList,
    Detector,
    Found,
    FoundKind,
    Rules,
)
from rootguard.channels.detection.spacy import SpacyNames
from rootguard.errors import UnknownNameError

PIPELINE: Final = "en_core_web_md"
"""The pipeline where none is named."""
DETECTORS: Final = ("rules", "spacy", "presidio")


class Selected:
    """A detector of which only some kinds count, and no allowed words."""

    def __init__(
        self, detector: Detector, *, kinds: Collection[FoundKind], allow: Iterable[str]
    ) -> None:
        self._detector = detector
        self._kinds = frozenset(kinds)
        self._allowed = AllowList(allow)

    def find(self, text: str) -> list[Found]:
        """What the detector finds of these kinds, outside of allowed phrases."""
        return [
            item
            for item in self._detector.find(text)
            if item.kind in self._kinds and not self._allowed.allows(text, item.start, item.end)
        ]


def make_detectors(
    names: Sequence[str] = ("rules",),
    *,
    kinds: Collection[str] | None = None,
    allow: Iterable[str] = (),
) -> tuple[Detector, ...]:
    """The detectors of these names; an unknown name or kind is refused."""
    chosen = DEFAULT_KINDS if kinds is None else tuple(map(_kind, kinds))
    allowed = tuple(allow)
    made: list[Detector] = []
    for name in dict.fromkeys(names):
        sort, _, pipeline = name.partition(":")
        if sort not in DETECTORS or (sort == "rules" and pipeline):
            raise UnknownNameError("detector", sort, DETECTORS)
        if sort == "rules":
            made.append(Rules(kinds=chosen, allow=allowed))
        else:
            made.append(Selected(_model(sort, pipeline or PIPELINE), kinds=chosen, allow=allowed))
    return tuple(made)


def _kind(name: str) -> FoundKind:
    for kind in FOUND_KINDS:
        if kind == name:
            return kind
    raise UnknownNameError("kind of identifier", name, FOUND_KINDS)


@functools.cache
def _model(sort: str, pipeline: str) -> Detector:
    return SpacyNames(pipeline) if sort == "spacy" else PresidioEntities(pipeline)
