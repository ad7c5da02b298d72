"""Finding identifiers that nobody declared: persons, numbers, dates, e-mail and street addresses.

`Rules` works offline and is the default; `SpacyNames` and `PresidioEntities` add a model of the
user's choice, and `make_detectors` makes those that a profile names. What is missed is not
protected: `docs/detection.md` has the measured rates and what a miss costs.
"""

from rootguard.channels.detection.presidio import PresidioEntities
from rootguard.channels.detection.rules import (
    FOUND_KINDS,
    Detector,
    Found,
    FoundKind,
    Rules,
    merge,
)
from rootguard.channels.detection.selection import DETECTORS, make_detectors
from rootguard.channels.detection.spacy import SpacyNames

__all__ = [
    "DETECTORS",
    "FOUND_KINDS",
    "Detector",
    "Found",
    "FoundKind",
    "PresidioEntities",
    "Rules",
    "SpacyNames",
    "make_detectors",
    "merge",
]
