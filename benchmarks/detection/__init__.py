"""How well a detector finds undeclared identifiers, measured on labelled texts.

Three sets, all from `detection.toml`: sentences made from templates with names, numbers and dates
of many countries; sentences without any identifier that look as if they had some; and hard cases
written by hand. The generator is seeded: the same seed gives the same texts.

Names are counted apart by whether the rules' lists hold them, and by how the text is written:
as usual, in small letters throughout, in capitals throughout.
"""

import math
import random
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from rootguard.channels.detection import Detector, Found, merge
from rootguard.channels.detection.lists import LISTED
from rootguard.evaluation.study.tables import Sheet
from rootguard.identifiers.formats import KINDS, Kind
from rootguard.language.fold import caseless

Case = Literal["usual", "lower", "upper"]
CASES: tuple[Case, ...] = ("usual", "lower", "upper")
_MARKED = re.compile(r"\[\[(?P<kind>[pnecd]):(?P<text>.*?)\]\]", re.DOTALL)
_KINDS: dict[str, Kind] = {"p": "person", "n": "phone", "e": "email", "c": "code", "d": "date"}
_FIELD = re.compile(r"\{(?P<kind>person|phone|date|code|email)\}")
_HOSTS = ("example.com", "mail.example.org", "posteo.example", "clinic.example.net")
_NAME_FORMS = (60, 20, 10, 10)
"""Per cent: full name, given name alone, initial and surname, surname and given name."""
_Z95 = 1.959963984540054


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelled:
    """A text, its group, and where its identifiers stand."""

    text: str
    group: str
    spans: tuple[Found, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """Counts for one kind in one group of texts.

    `exact` and `overlapping` count the identifiers found as this kind, to the character or in
    part; `covered` those of which every letter and digit lies in some find of any kind, so that
    nothing of them is left in the text. `right` counts the finds that touch an identifier.
    """

    group: str
    kind: Kind
    present: int
    exact: int
    overlapping: int
    covered: int
    found: int
    right: int

    def __add__(self, other: "Score") -> "Score":
        return Score(
            group=self.group,
            kind=self.kind,
            present=self.present + other.present,
            exact=self.exact + other.exact,
            overlapping=self.overlapping + other.overlapping,
            covered=self.covered + other.covered,
            found=self.found + other.found,
            right=self.right + other.right,
        )


class Together:
    """Several detectors as one: everything that any of them finds."""

    def __init__(self, *detectors: Detector) -> None:
        self._detectors = detectors

    def find(self, text: str) -> list[Found]:
        return merge(item for detector in self._detectors for item in detector.find(text))


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval for a proportion (Wilson 1927); nothing observed leaves (0, 1)."""
    if trials == 0:
        return 0.0, 1.0
    share, spread = successes / trials, _Z95**2 / trials
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def _data() -> dict[str, Any]:
    source = resources.files(__package__).joinpath("detection.toml").read_text(encoding="utf-8")
    return tomllib.loads(source)


def marked(text: str, group: str) -> Labelled:
    """A text in which identifiers are marked, [[p:Ann Lee]], as a text and their places."""
    parts: list[str] = []
    spans: list[Found] = []
    length = end = 0
    for match in _MARKED.finditer(text):
        before = text[end : match.start()]
        length += len(before)
        parts += [before, match["text"]]
        spans.append(Found(length, length + len(match["text"]), _KINDS[match["kind"]]))
        length += len(match["text"])
        end = match.end()
    return Labelled(text="".join([*parts, text[end:]]), group=group, spans=tuple(spans))


def handwritten() -> list[Labelled]:
    """The hard cases written by hand: before the rules were finished, and after."""
    data = _data()
    return [
        *(marked(text, "by hand") for text in data["handwritten"]),
        *(marked(text, "by hand, unseen") for text in data["unseen"]),
    ]


def negatives() -> list[Labelled]:
    """Texts without identifiers, in every case."""
    texts = [(text, case) for text in _data()["negatives"] for case in CASES]
    return [_cased(marked(text, f"no identifiers, {case}"), case) for text, case in texts]


def generated(seed: int = 7) -> list[Labelled]:
    """Sentences from templates, for every locale, with listed and with unlisted names."""
    data = _data()
    made: list[Labelled] = []
    for tag, locale in data["locales"].items():
        pools = {
            "listed": _split(locale, listed=True),
            "unlisted": _split(locale, listed=False),
        }
        for number, template in enumerate([*data["templates"], *locale.get("templates", [])]):
            for sort, pool in pools.items():
                filler = _Filler(locale, pool, random.Random(f"{seed} {tag} {number} {sort}"))
                usual = filler.fill(template)
                group = f"{sort} names" if "{person}" in template else "no names"
                made += [_cased(marked(usual, f"{group}, {case}"), case) for case in CASES]
    return made


def _split(locale: dict[str, Any], *, listed: bool) -> tuple[list[str], list[str]]:
    """The locale's given names and surnames that the rules' lists hold, or do not."""
    given, surnames = (
        [name for name in locale[key].split() if (caseless(name) in LISTED) is listed]
        for key in ("given", "surnames")
    )
    return given, surnames


def _cased(usual: Labelled, case: Case) -> Labelled:
    """The whole text in a case; a letter that would become two stays."""
    if case == "usual":
        return usual
    turned = [c.lower() if case == "lower" else c.upper() for c in usual.text]
    text = "".join(
        new if len(new) == 1 else old for new, old in zip(turned, usual.text, strict=True)
    )
    return Labelled(text=text, group=usual.group, spans=usual.spans)


class _Filler:
    """Fills templates with marked identifiers of one locale."""

    def __init__(
        self, locale: dict[str, Any], pool: tuple[list[str], list[str]], rng: random.Random
    ) -> None:
        self._locale = locale
        self._given, self._surnames = pool
        self._rng = rng

    def fill(self, template: str) -> str:
        return _FIELD.sub(lambda field: getattr(self, "_" + field["kind"])(), template)

    def _person(self) -> str:
        given, surname = self._rng.choice(self._given), self._rng.choice(self._surnames)
        order = [surname, given] if self._locale.get("surname_first") else [given, surname]
        full, formal = " ".join(order), f"{surname}, {given}"
        forms = (full, given, f"{given[0]}. {surname}", formal)
        return f"[[p:{self._rng.choices(forms, weights=_NAME_FORMS)[0]}]]"

    def _phone(self) -> str:
        return f"[[n:{self._digits(self._rng.choice(self._locale['phones']))}]]"

    def _code(self) -> str:
        return f"[[c:{self._digits(self._rng.choice(self._locale['codes']))}]]"

    def _email(self) -> str:
        words = [caseless(self._rng.choice(pool)) for pool in (self._given, self._surnames)]
        local = self._rng.choice((".", "_", "")).join(words)
        return f"[[e:{local}{self._rng.randrange(100)}@{self._rng.choice(_HOSTS)}]]"

    def _date(self) -> str:
        day, month = self._rng.randint(1, 28), self._rng.randint(1, 12)
        form: str = self._rng.choice(self._locale["dates"])
        written = form.format(
            d=day,
            dd=f"{day:02}",
            m=month,
            mm=f"{month:02}",
            month=self._locale["months"].split()[month - 1],
            yyyy=self._rng.randint(1935, 2024),
        )
        return f"[[d:{written}]]"

    def _digits(self, form: str) -> str:
        drawn = {"#": "0123456789", "@": "ABCDEFGHJKLMNPRSTUVWXYZ"}
        return "".join(self._rng.choice(drawn.get(sign, sign)) for sign in form)


def measure(detector: Detector, texts: Sequence[Labelled] | None = None) -> list[Score]:
    """The detector's scores for every group and kind, on all three sets unless told otherwise."""
    if texts is None:
        texts = [*generated(), *negatives(), *handwritten()]
    scores: dict[tuple[str, Kind], Score] = {}
    for labelled in texts:
        for score in _scores(labelled, detector.find(labelled.text)):
            key = (score.group, score.kind)
            scores[key] = scores[key] + score if key in scores else score
    return list(scores.values())


def _scores(labelled: Labelled, found: list[Found]) -> Iterator[Score]:
    covered = bytearray(len(labelled.text))
    for item in found:
        covered[item.start : item.end] = b"\x01" * (item.end - item.start)
    for kind in KINDS:
        truth = [span for span in labelled.spans if span.kind == kind]
        finds = [item for item in found if item.kind == kind]
        yield Score(
            group=labelled.group,
            kind=kind,
            present=len(truth),
            exact=sum(span in finds for span in truth),
            overlapping=sum(any(_touch(span, item) for item in finds) for span in truth),
            covered=sum(_hidden(span, labelled.text, covered) for span in truth),
            found=len(finds),
            right=sum(any(_touch(span, item) for span in truth) for item in finds),
        )


def _touch(one: Found, other: Found) -> bool:
    return one.start < other.end and other.start < one.end


def _hidden(span: Found, text: str, covered: bytearray) -> bool:
    return all(covered[i] for i in range(span.start, span.end) if text[i].isalnum())


def table(scores: Iterable[Score], title: str = "Detection") -> Sheet:
    """Recall and precision by group and kind, with counts and 95 % intervals."""
    lines = [
        (
            score.group,
            score.kind,
            _share(score.exact, score.present),
            _share(score.overlapping, score.present),
            _share(score.covered, score.present, interval=True),
            _share(score.right, score.found, interval=True),
        )
        for score in scores
        if score.present or score.found
    ]
    header = ("texts", "kind", "exact", "overlap", "covered", "precision")
    return Sheet(title=title, header=header, lines=tuple(lines), labels=2)


def _share(successes: int, trials: int, *, interval: bool = False) -> str:
    if trials == 0:
        return "–"
    text = f"{100 * successes / trials:.1f} % ({successes}/{trials})"
    if interval:
        low, high = wilson(successes, trials)
        text += f" [{100 * low:.1f}, {100 * high:.1f}]"
    return text
