"""Finding identifiers that nobody declared: persons, phones, e-mails, record numbers, dates.

`Rules` works offline and is the default; `SpacyNames` adds a model of the user's choice. What is
missed is not protected: `docs/detection.md` has the measured rates and what a miss costs.
"""

from rootguard.channels.detection.rules import Detector, Found, Rules, merge
from rootguard.channels.detection.spacy import SpacyNames

__all__ = ["Detector", "Found", "Rules", "SpacyNames", "merge"]
