"""Claims weighed: how much the words around a number speak for a value of the owner's own.

The rules of `claims` say what they know a reason for. People write in more ways than anybody has
thought of, so a number that no rule explains, or that a rule explains wrongly, is weighed: the
rules' own verdict, what sort of words stand around it (`senses.toml`), which of the owner's
quantities it could be by their public bounds, and what was asked before. A logistic model adds up
weights of such features; `weights.json` has them, readable, made by `python -m tools.weights` from
messages that were written and marked for it, and from public posts that were marked.

What it may do is narrow. It puts a number in doubt that the rules would keep, and it keeps one that
they doubt, or that a name seems to tie to the owner where the words say that it is as good as
never so ("the fixture has weight 80"). Nothing is ever taught or released by weight. It reads the
owner's own words only, numbers are masked in it, and it never sees the owner's values: one text is
weighed alike for everybody.
"""

import functools
import importlib.resources
import json
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Final, NamedTuple

from rootguard.language.fold import Spans
from rootguard.language.lists import read_lists
from rootguard.language.numbers import WrittenNumber
from rootguard.reading.claims import Claim, Expectation, Source, Standing, TextReading
from rootguard.reading.page import Measure, Page
from rootguard.reading.subjects import clause_at


@dataclass(frozen=True, slots=True)
class Margins:
    """How probable it must be that a number is the owner's for the rules to be overruled.

    `doubted`: from this on a number that they keep is put in doubt. `kept`: below these one that
    they hide is kept, by how it stands.
    """

    doubted: float
    kept: Mapping[Standing, float]


USUAL: Final = Margins(0.4, {"owner": 0.03, "likely": 0.03, "open": 0.07})
"""Chosen on texts that the weights were not made from, so that a value that leaves is worth a few
other numbers that change: docs/text.md has the figures."""
CAREFUL: Final = Margins(0.1, {"owner": 0.0, "likely": 0.01, "open": 0.03})
"""For who would rather lose a number than a value."""
_SENTENCE: Final = 30
_AROUND: Final = 50
"""Tokens on either side that are looked at, as a sentence and at all. A long text is read in pieces
that share more than that, with the same result."""
_FAR: Final = 1000  # characters that have so many tokens, in whatever people write
_NEXT: Final = 80  # characters to the number before or behind
_JOINED: Final = 3  # as in "134/86" and "54, 23"
_NEAR: Final = 300  # characters in which the rules' other verdicts count
_MOST_NEAR: Final = 40  # on either side: a long list of numbers is not counted again for each
_MOST_OWN, _MOST_DOUBTED = 3, 2
_OPENING: Final = 5  # tokens that say what a message is: "Translate this", "Hello doctor"
# How far words, their senses, and senses together with a fitting quantity are looked at. Without
# any one of these the error on unseen messages is the same within its noise; without all it is not.
_WORD_BEFORE, _WORD_AFTER = 4, 3
_SENSE_NEAR: Final = 4
_SENSE_FAR: Final = 6
_FARTHEST_NAME: Final = 8
_MOST_BEFORE, _MOST_AROUND = 4, 6  # numbers that are counted
_DECIMALS: Final = 3
_LEAST_MONEY: Final = 200  # as a month's or year's amount; less is a price or a count
_THOUSAND = re.compile(r" ?k(?![^\W_])")
_YEARS: Final = (1900, 2100)
_SIZES: Final = (
    *(2, 3, 5, 10, 15, 20, 30, 45, 65, 90, 120, 160, 220, 300, 500, 1000, 2000, 5000),
    *(10_000, 30_000, 100_000, 300_000, 1_000_000),
)
"""Edges between sizes of numbers, as coarse as ages, readings and amounts differ."""
_TOKEN = re.compile(r"[^\W\d_]+(?:'[a-z]+)?|[^\w\s]|\n|_+")
_ENDS: Final = frozenset((".", "!", "?", "\n", ";"))
_NUMBER, _NAME = "#", "@"  # what stands for a number, and before the group of a quantity's name
_TAKEN: Final = "_"  # what stands for an identifier or an answer; it has no sense
_CODED: Final = (1, 3, 6, 10)
"""Edges between counts of words and signs of programs around a number."""
_SIGNS: Final = frozenset("`_{}=<>[]#")
_PEOPLE: Final = frozenset(("self", "we", "you", "she_he", "they", "kin", "acquaintance", "animal"))
_PLURAL: Final = 4  # letters of a word that loses its s to be found


@functools.cache
def _senses() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for sense, words in read_lists("rootguard.reading", "senses.toml").items():
        for word in words.split():
            found.setdefault(word, []).append(sense)
    return {word: tuple(senses) for word, senses in found.items()}


class _SensesOnce(dict[str, tuple[str, ...]]):
    """The senses of the words of one page, each looked up once: numbers share most of theirs."""

    __slots__ = ()

    def __missing__(self, token: str) -> tuple[str, ...]:
        found = self[token] = _senses_of(token)
        return found


# Not cached: a cache would keep words of people's texts, of all people of a process together.
def _senses_of(token: str) -> tuple[str, ...]:
    if token[0] in (_NUMBER, _NAME):
        return (token,)
    known = _senses()
    found = known.get(token)
    if found is None and len(token) > _PLURAL and token.endswith("s"):
        found = known.get(token[:-1])
    if found is None and "'" in token:
        found = known.get(token.partition("'")[0])
    return found or ()


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic model: what each feature adds, in hundredths of a nat."""

    bias: int
    features: Mapping[str, int]

    def odds(self, features: Sequence[str]) -> float:
        """The probability that a number with these features is the owner's."""
        known = self.features
        total = self.bias + sum(map(known.get, features, repeat(0)))
        # The logistic function; as a tangent it does not overflow, whatever the weights add up to.
        return (1 + math.tanh(total / 200)) / 2


@functools.cache
def weights() -> Weights:
    """The weights that come with the package."""
    source = importlib.resources.files("rootguard.reading") / "weights.json"
    content = json.loads(source.read_text("utf-8"))
    return Weights(content["bias"], content["features"])


def weigh(
    page: Page,
    reading: TextReading,
    source: Source,
    expectation: Expectation,
    taken: Sequence[tuple[int, int]] = (),
    margins: Margins = USUAL,
) -> tuple[Claim, ...]:
    """The claims of a reading, of which some are in doubt now and some no longer.

    `taken` are identifiers and answers, in places of the original: what they say must not count, as
    what leaves in their place is the same whatever they say.
    """
    if source != "owner" or not reading.claims:
        return reading.claims
    model = weights()
    found = []
    for claim, features in featured(page, reading, expectation, taken):
        weighed = weighed_standing(claim, features, model, margins)
        if weighed == "nobody" and claim.standing != "nobody":
            claim = Claim(start=claim.start, end=claim.end, standing=weighed, reason="weighed")
        elif weighed != claim.standing:
            claim = replace(claim, standing=weighed, reason="weighed")
        found.append(claim)
    return tuple(found)


def weighed_standing(
    claim: Claim, features: Sequence[str], model: Weights, margins: Margins = USUAL
) -> Standing:
    """How a claim stands after it was weighed."""
    if not features:
        return claim.standing
    least = margins.kept.get(claim.standing)
    if least is None:
        return "open" if model.odds(features) >= margins.doubted else claim.standing
    return claim.standing if model.odds(features) >= least else "nobody"


def featured(
    page: Page,
    reading: TextReading,
    expectation: Expectation,
    taken: Sequence[tuple[int, int]] = (),
    *,
    every: bool = False,
) -> Iterator[tuple[Claim, list[str]]]:
    """Each claim with its features; none for what is no number, nor, unless `every`, the sure.

    Sure is what a name ties to the owner in a clause of the owner's own, or what a private word
    that no quantity goes by does there ("my ferritin is 480"): weights know declared ones alone.
    So is what the header of a table names.
    """
    places = {
        page.folded.span(number.start, number.end)[0]: at for at, number in enumerate(page.numbers)
    }
    view: _View | None = None
    cells = Spans((cell.start, cell.end) for column in page.columns for cell in column.cells)
    for at, claim in enumerate(reading.claims):
        place = places.get(claim.start)
        subject = "" if place is None else _subject(reading, page.numbers[place])
        sure = subject == "owner" and (claim.standing == "owner" or claim.reason == "private_word")
        if place is not None and claim.root is not None:
            sure = sure or cells.meet(page.numbers[place].start, page.numbers[place].end)
        if place is None or (sure and not every):
            yield claim, []
            continue
        view = view or _View(page, expectation, taken)
        number = page.numbers[place]
        found = view.features(number, claim, subject, reading.sorts[place])
        if found:
            found += _beside(reading.claims, at)
        yield claim, found


def _subject(reading: TextReading, number: WrittenNumber) -> str:
    return clause_at(reading.clauses, number.start).subject


def _rule(claim: Claim) -> str:
    return f"{claim.standing}:{claim.reason}"


def _beside(claims: Sequence[Claim], at: int) -> Iterator[str]:
    """What the rules say of the numbers around it."""
    here = claims[at]
    for side, step in (("-", -1), ("+", 1)):
        claim = claims[at + step] if 0 <= at + step < len(claims) else None
        gap = 0 if claim is None else max(here.start - claim.end, claim.start - here.end)
        if claim is None or gap > _NEXT:
            yield f"{side}rule=none"
            yield f"{side}standing=none {_rule(here)}"
            continue
        yield f"{side}rule={_rule(claim)}"
        yield f"{side}standing={claim.standing} {_rule(here)}"
        if gap <= _JOINED:
            yield f"{side}joined={_rule(claim)}"
    near = Counter[Standing]()
    near.update(
        claim.standing
        for claim in claims[max(0, at - _MOST_NEAR) : at + 1 + _MOST_NEAR]
        if claim is not here and abs(claim.start - here.start) <= _NEAR
    )
    own = min(near["owner"] + near["likely"], _MOST_OWN)
    yield f"own near={own}"
    yield f"own near={own} {here.standing}"
    yield f"open near={min(near['open'], _MOST_DOUBTED)}"
    yield f"other near={min(near['other'], _MOST_DOUBTED)}"
    yield f"nobody near={min(near['nobody'], _MOST_BEFORE)}"


def _group(measure: Measure) -> str:
    """What sort of quantity it is, so that one template's words speak for another's."""
    if measure.money:
        return "money"
    if measure.concept in ("age", "ht", "wt", "waist"):
        return measure.concept
    return "bp" if measure.concept in ("sbp", "dbp") else "lab"


class _View:
    """A page as tokens, of which numbers and names of quantities are masked.

    What stands between two masks is read when it is first asked for, and of a long stretch only
    the end that is: most numbers of most texts are not weighed.
    """

    __slots__ = (
        *("_cells", "_domains", "_expected", "_gaps", "_items", "_page", "_senses", "_starts"),
        "_text",
    )

    def __init__(
        self, page: Page, expectation: Expectation, taken: Sequence[tuple[int, int]]
    ) -> None:
        self._page = page
        measures = page.vocabulary.measures
        self._domains: dict[str, list[tuple[float, float]]] = {}
        for measure in measures.values():
            bounds = (measure.domain.lower, measure.domain.upper)
            self._domains.setdefault(_group(measure), []).append(bounds)
        masked = [(number.start, number.end, _NUMBER) for number in page.numbers]
        masked += ((*page.folded.place(start, end), _TAKEN) for start, end in taken)
        for name in page.names:
            root = next((root for root in name.roots if root is not None), None)
            if root is not None and not name.subject:
                masked.append((name.start, name.end, _NAME + _group(measures[root])))
        masked.sort(key=lambda each: (each[0], -each[1]))
        self._items: list[tuple[int, int, str]] = []
        at = 0
        for item in masked:
            if item[0] >= at:
                self._items.append(item)
                at = item[1]
        self._starts = [start for start, _, _ in self._items]
        self._text = page.plain.lower()
        self._gaps: dict[int, list[str]] = {}
        self._senses = _SensesOnce()
        self._cells = sorted(cell.start for column in page.columns for cell in column.cells)
        self._expected = [
            name
            for name, value in (
                ("asked", expectation.asked),
                ("topic", expectation.topic),
                ("mentioned", expectation.mentioned),
                ("elsewhere", expectation.elsewhere),
                ("values", expectation.any_values),
            )
            if value
        ]

    def _between(self, gap: int) -> list[str]:
        """The tokens before a masked item and behind the one before it, or behind the last."""
        found = self._gaps.get(gap)
        if found is None:
            low = self._items[gap - 1][1] if gap else 0
            high = self._items[gap][0] if gap < len(self._items) else len(self._text)
            if high - low <= 2 * _FAR:
                found = _TOKEN.findall(self._text, low, high)
            else:  # a word that is cut would be another one
                left = _TOKEN.findall(self._text, low, low + _FAR)[:-1]
                right = _TOKEN.findall(self._text, high - _FAR, high)[1:]
                found = [*left, *[_TAKEN] * (2 * _AROUND), *right]
            self._gaps[gap] = found
        return found

    def _around(self, item: int) -> tuple[list[str], list[str], bool]:
        """The tokens before an item, the nearest first, and behind; and whether all are before."""
        before: list[str] = []
        gap = item
        while True:
            before += reversed(self._between(gap))
            if len(before) > _AROUND or not gap:
                break
            before.append(self._items[gap - 1][2])
            gap -= 1
        after: list[str] = []
        gap = item + 1
        while True:
            after += self._between(gap)
            if len(after) >= _AROUND or gap >= len(self._items):
                break
            after.append(self._items[gap][2])
            gap += 1
        return before[:_AROUND], after[:_AROUND], len(before) < _AROUND

    def features(self, number: WrittenNumber, claim: Claim, subject: str, sort: str) -> list[str]:
        """What speaks for or against, each with its kind."""
        item = bisect_left(self._starts, number.start)
        if item == len(self._starts) or self._starts[item] != number.start:
            return []
        before, after, opened = self._around(item)
        rule = f"{claim.standing}:{claim.reason}"
        coded = f"coded={bisect_right(_CODED, _of_programs(before) + _of_programs(after))}"
        found = {
            *(f"rule={rule}", f"standing={claim.standing}", f"sort={sort}", f"subject={subject}"),
            *(f"rule={rule} {subject}", f"sort={sort} {subject}"),
            *("named" if claim.root else "unnamed", "idle" if claim.idle else "told"),
            *(coded, *(f"{coded} {each}" for each in (claim.standing, rule, subject, sort))),
            *(f"after={each}" for each in self._expected),
            *(f"after={each} {rule}" for each in self._expected),
        }
        fits = self._fits(number)
        found.update(f"fits={fit}" for fit in fits)
        found.update(f"fits={fit} {rule}" for fit in fits)
        found.update(self._shape(number))
        # Looked up once: what follows asks for the senses of a token four times.
        left, right = (
            _Side(tokens, [*map(self._senses.__getitem__, tokens)]) for tokens in (before, after)
        )
        found.update(_words(left, right, fits))
        found.update(_surroundings(left, right, fits, rule, claim.standing))
        if opened:
            opening = [*reversed(before), _NUMBER, *after][:_OPENING]
            found.update(f"opening={token}" for token in opening)
            found.update(f"opening:{s}" for token in opening for s in self._senses[token])
        cell = bisect_right(self._cells, number.start)
        if cell and number.start - self._cells[cell - 1] <= 2:
            found.update(("cell", f"cell {rule}"))
        return list(found)

    def _fits(self, number: WrittenNumber) -> list[str]:
        """The groups of quantities that it can be one of, by their bounds."""
        value = number.value
        if value is None:
            return ["none"]
        scale = 1000 if _THOUSAND.match(self._page.plain, number.end) else 1
        found = []
        for group, domains in self._domains.items():
            if group == "money":
                amount = value * scale
                fits = amount >= _LEAST_MONEY and any(
                    low <= amount <= high or low <= amount / 12 <= high for low, high in domains
                )
            else:
                fits = any(low <= value <= high for low, high in domains)
            if fits:
                found.append(group)
        return found or ["none"]

    def _shape(self, number: WrittenNumber) -> Iterator[str]:
        """How it is written and how large it is, coarsely."""
        text = self._page.plain[number.start : number.end]
        decimals = min(len(text.partition(".")[2]), _DECIMALS)
        yield f"shape={number.sort} {decimals}{',' if ',' in text else ''}"
        if number.value is None:
            yield "size=none"
            return
        size = abs(number.value)
        edge = bisect_right(_SIZES, size)
        yield f"size={_SIZES[edge] if edge < len(_SIZES) else 'more'}"
        if not decimals and _YEARS[0] <= size <= _YEARS[1]:
            yield "year"


def _of_programs(tokens: Sequence[str]) -> int:
    """How many different words and signs of programs there are."""
    known = _senses()
    return sum(token in _SIGNS or "program" in known.get(token, ()) for token in {*tokens})


class _Side(NamedTuple):
    """The tokens on one side of a number, the nearest first, and what each may mean."""

    tokens: Sequence[str]
    senses: Sequence[tuple[str, ...]]


def _words(before: _Side, after: _Side, fits: Sequence[str]) -> Iterator[str]:
    """The words next to a number, and their senses."""
    for side, beside, most in (("-", before, _WORD_BEFORE), ("+", after, _WORD_AFTER)):
        near = [*beside.tokens[:most], "<edge>"][:most]
        for at, token in enumerate(near, 1):
            yield f"{side}{at}={token}"
        for fit in fits:
            yield f"{side}1={near[0]} {fit}"
        for at, senses in enumerate(beside.senses[:_SENSE_FAR], 1):
            for sense in senses:
                yield f"{side}{at}:{sense}"
                yield f"{side}:{sense}"
                if at <= _SENSE_NEAR:
                    for fit in fits:
                        yield f"{side}:{sense} {fit}"
    left = before.senses[0] if before.senses else ()
    right = after.senses[0] if after.senses else ()
    yield from (f"-+:{a} {b}" for a in left for b in right)
    if len(before.senses) > 1:
        yield from (f"--:{b} {a}" for a in left for b in before.senses[1])
    if len(after.senses) > 1:
        yield from (f"++:{a} {b}" for a in right for b in after.senses[1])


def _until_end(tokens: Sequence[str]) -> int:
    """How many tokens there are before one that ends a sentence."""
    return next((at for at, token in enumerate(tokens) if token in _ENDS), len(tokens))


def _surroundings(
    before: _Side, after: _Side, fits: Sequence[str], rule: str, standing: str
) -> Iterator[str]:
    """The sentence, who is spoken of, which quantities are near."""
    left = before.tokens[: min(_until_end(before.tokens), _SENTENCE)]
    right = after.tokens[: min(_until_end(after.tokens) + 1, _SENTENCE)]
    sentence = {
        _NUMBER,
        *chain.from_iterable(before.senses[: len(left)]),
        *chain.from_iterable(after.senses[: len(right)]),
    }
    for sense in sentence:
        yield f"sentence:{sense}"
        yield f"sentence:{sense} {standing}"
        for fit in fits:
            yield f"sentence:{sense} {fit}"
    around = {
        _NUMBER,
        *chain.from_iterable(before.senses),
        *chain.from_iterable(after.senses),
    }
    for sense in around:
        yield f"around:{sense}"
    name = next((token for token in before.tokens if token[0] == _NAME), "")
    spoken_of = (sense for senses in before.senses for sense in senses if sense in _PEOPLE)
    who = next(spoken_of, "nobody")
    yield f"who={who}"
    yield f"who={who} {rule}"
    if name:
        yield f"name={name}"
        yield from (f"name={name} {fit}" for fit in fits)
    for way, beside in (("-", left), ("+", right)):
        for at, token in enumerate(beside, 1):
            if token[0] == _NAME:
                yield f"name{way}{min(at, _FARTHEST_NAME)}={token}"
    numbers = before.tokens.count(_NUMBER)
    yield f"numbers before={min(numbers, _MOST_BEFORE)}"
    yield f"numbers={min(numbers + 1 + after.tokens.count(_NUMBER), _MOST_AROUND)}"
    if not before.tokens or before.tokens[0] == "\n":
        yield "line"
