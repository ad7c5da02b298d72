"""What the text channel would do with each number and answer of a text, and why, without doing it.

An `Explainer` reads as `TextChannel` reads: declared identifiers first, then claims, then what
detectors find, a text that is JSON by its keys. It has no store: nothing is drawn, charged, stored
or released, and tokens live as long as the explainer. Which quantities have a released value it is
told, and it learns as it goes which ones the owner's words would give one.

Not covered: what an earlier conversation taught, and tokens that were issued there.
"""

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from rootguard.channels.detection import Detector, merge
from rootguard.channels.text.channel import reader_of_answers
from rootguard.channels.text.documents import TextLook, Walk, parsed, scalar_places
from rootguard.channels.text.edits import Edit, Sanitization
from rootguard.errors import shielded
from rootguard.identifiers import Identifiers, new_key
from rootguard.language.fold import Spans, key_of
from rootguard.language.numbers import HOLE
from rootguard.reading.answers import Answer
from rootguard.reading.claims import (
    NOTHING,
    SILENCE,
    Claim,
    Expectation,
    Heard,
    Reason,
    Source,
    Standing,
    decide,
    read_claims,
)
from rootguard.reading.page import Page, read_page
from rootguard.reading.weighing import CAREFUL, USUAL, weigh
from rootguard.session.declared import Declarations, PersonConversation
from rootguard.session.person import formula_names
from rootguard.template import Root, Template
from rootguard.values import RootName

Outcome = Literal["teach", "release", "redact", "doubt", "identifier", "keep"]
"""A decision as it turns out: a release that gives the quantity its value is `teach`, and one of
which nothing can be computed is `redact`; what a detector finds becomes a token (`identifier`)."""

# Scalars of JSON that a walk neither reads as a text nor as a number, so that it takes no step.
_NO_VALUE: Final = "null"
# Whose words give a quantity its value. An agent or a tool may have been talked into theirs.
_TEACHERS: Final = ("owner", "trusted")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ExplainedNumber:
    """One number or answer: where it stands, what is claimed of it, what becomes of it. No value.

    `hole` is what stands there if it is taken out.
    """

    start: int
    end: int
    source: Source
    standing: Standing
    reason: Reason
    root: RootName | None
    computed: str
    outcome: Outcome
    hole: str = HOLE


class Explainer:
    """Explains the texts of one conversation, in order. Not to be shared by threads.

    With `answers`, what is yes or no, one of a few words or a day is explained beside the numbers.
    With `careful`, a number is doubted as the channel's policy of that name doubts it.
    """

    __slots__ = (
        *("_answers", "_declared", "_detectors", "_formulas", "_known", "_margins", "_roots"),
        *("_targets", "_templates"),
    )

    @shielded
    def __init__(
        self,
        templates: Sequence[Template],
        *,
        known: Collection[RootName] = (),
        identifiers: Iterable[str] = (),
        detectors: Sequence[Detector] = (),
        answers: bool = False,
        careful: bool = False,
    ) -> None:
        self._answers = answers
        self._margins = CAREFUL if careful else USUAL
        self._templates = tuple(templates)
        self._formulas = formula_names(templates)
        self._roots: dict[RootName, Root] = {}
        for each in templates:
            for name, root in each.roots.items():
                self._roots.setdefault(name, root)  # the first, as for a person of many templates
        self._targets = {each.name: tuple(each.roots) for each in templates}
        self._known = set(known)
        # A key of its own: a token that is made here is nobody's, and is gone with the explainer.
        self._declared = Declarations(identifiers, Identifiers(new_key()))
        self._detectors = tuple(detectors)

    def names_in(self, text: str) -> tuple[RootName, ...]:
        """The quantities that a text names, in order."""
        page = read_page(text, self._roots, self._formulas)
        named = [root for name in page.names if not name.subject for root in name.roots if root]
        return tuple(dict.fromkeys(named))

    def roots_of(self, formula: str) -> tuple[RootName, ...]:
        """The roots of a calculation that goes by this name, in order."""
        return dict(self._formulas).get(key_of(formula), ())

    @shielded
    def explain(
        self, text: str, *, source: Source, expectation: Expectation = NOTHING
    ) -> tuple[list[ExplainedNumber], Heard]:
        """The numbers of a text in order, and what it leaves to later texts."""
        return self.read_any(text, "", TextLook(source=source, expectation=expectation))

    def read_any(
        self, text: str, context: str, look: TextLook
    ) -> tuple[list[ExplainedNumber], Heard]:
        """The same for a text that is read after a context. For who is shielded."""
        document = parsed(text)
        if document is None:
            return self.read(text, context, look)
        reader = _NotingReader(self, text)
        _DocumentWalk(reader, look).sanitize(document)
        # As in the channel: a document counts as the answer to whatever was asked before it.
        return reader.found, Heard(numbers=True)

    def read(self, text: str, context: str, look: TextLook) -> tuple[list[ExplainedNumber], Heard]:
        """The same for a text that is taken for no document."""
        source, expectation = look.source, look.expectation
        if expectation.header:  # the rows of a table whose header came before
            context = f"{context}{expectation.header}\n"
        whole, begin = context + text, len(context)
        declared = self._declared.find(whole)
        taken = [(each.start, each.end) for each in declared]
        page = read_page(whole, self._roots, self._formulas)
        told, asked = self._answered(page, source, expectation, Spans(taken), begin)
        taken += ((each.start + begin, each.end + begin) for each in told)
        if not page.numbers and not page.names:
            return told, replace(SILENCE, asked=asked, asks=True) if asked else SILENCE
        reading = read_claims(
            page,
            source=source,
            taken=taken,
            owner_names=[whole[start:end] for start, end in taken],
            expectation=expectation,
            begin=begin,
        )
        claims = reading.claims
        if not begin:
            claims = weigh(page, reading, source, expectation, taken, self._margins)
        outcomes = [self._outcome(source, claim) for claim in claims]
        for claim, outcome in zip(claims, outcomes, strict=True):
            if outcome in ("teach", "release", "redact"):
                taken.append((claim.start, claim.end))
        # Detectors come last and may not cut what is decided, nor the name of a quantity, which
        # stands in capitals as a person's does. A number that is kept is theirs to look at.
        taken += (page.folded.span(n.start, n.end) for n in page.names if not n.subject)
        found = self._detected(whole, Spans(taken))
        numbers = [
            _explained(claim, source, outcome, found, begin)
            for claim, outcome in zip(claims, outcomes, strict=True)
        ]
        heard = reading.heard
        if asked:
            asked = tuple(dict.fromkeys((*heard.asked, *asked)))
            heard = replace(heard, asked=asked, asks=True)
        return sorted([*told, *numbers], key=lambda each: each.start), heard

    def _answered(
        self, page: Page, source: Source, expectation: Expectation, taken: Spans, begin: int
    ) -> tuple[list[ExplainedNumber], tuple[RootName, ...]]:
        """The answers that are no numbers, and the roots with such answers that are asked for."""
        roots = tuple(self._roots.values())
        reader = reader_of_answers(page, roots, self._templates, source) if self._answers else None
        if reader is None:
            return [], ()
        found = []
        for answer in reader.read(expectation.asked):
            start, end = page.folded.span(answer.start, answer.end)
            if taken.meet(start, end) or end < begin:
                continue
            found.append(
                ExplainedNumber(
                    start=max(0, start - begin),
                    end=end - begin,
                    source=source,
                    standing="owner",
                    reason="answer",
                    root=None if answer.computed else answer.root,
                    computed=answer.computed,
                    outcome=self._answer_outcome(answer, source),
                    hole=answer.hole.lstrip(", "),
                )
            )
        return found, reader.asks()

    def _answer_outcome(self, answer: Answer, source: Source) -> Outcome:
        if answer.computed:
            roots = self._targets.get(answer.computed, ())
            known = bool(roots) and self._known.issuperset(roots)
            return "release" if known and answer.write is not None else "redact"
        if answer.write is None:
            return "redact"
        if answer.root in self._known:
            return "release"
        root = self._roots[answer.root]
        said = answer.said is not None and root.type.inside(answer.said, root.domain) is not None
        if source not in _TEACHERS or not said:
            return "redact"
        self._known.add(answer.root)
        return "teach"

    def _outcome(self, source: Source, claim: Claim) -> Outcome:
        """What becomes of a claim; a value that is taught is known from then on."""
        known = claim.root is None or claim.root in self._known
        decision = decide(source, claim, known=known)
        if decision != "release":
            return decision
        if claim.computed:
            roots = self._targets.get(claim.computed, ())
            return "release" if roots and self._known.issuperset(roots) else "redact"
        if claim.root is None or claim.mention is None:
            return "redact"
        if known or source not in _TEACHERS:
            return "release"
        self._known.add(claim.root)
        return "teach"

    def _detected(self, text: str, taken: Spans) -> Spans:
        finds = merge(each for detector in self._detectors for each in detector.find(text))
        return Spans(span for each in finds for span in taken.cut(each.start, each.end))


def _explained(
    claim: Claim, source: Source, outcome: Outcome, found: Spans, begin: int
) -> ExplainedNumber:
    if outcome in ("doubt", "keep") and found.meet(claim.start, claim.end):
        outcome = "identifier"
    return ExplainedNumber(
        start=max(0, claim.start - begin),  # "4." of the context and "2" here are one number
        end=claim.end - begin,
        source=source,
        standing=claim.standing,
        reason=claim.reason,
        root=claim.root,
        computed=claim.computed,
        outcome=outcome,
    )


class _NotingReader:
    """Reads the parts of a JSON text for a walk, and notes what is said of each number."""

    __slots__ = ("_explainer", "_here", "_place", "_places", "_text")

    def __init__(self, explainer: Explainer, text: str) -> None:
        self._explainer = explainer
        self._text = text
        self._places = [
            (start, end) for start, end in scalar_places(text) if text[start:end] != _NO_VALUE
        ]
        self._place = -1
        self._here: dict[int, list[ExplainedNumber]] = {}

    @property
    def found(self) -> list[ExplainedNumber]:
        """All numbers, in order."""
        return [number for each in self._here.values() for number in each]

    def step(self) -> None:
        """Go to the next key or value."""
        self._place += 1

    def sanitize_text(self, text: str, context: str, look: TextLook) -> Sanitization:
        """A text as it is."""
        found, heard = self._explainer.read_any(text, context, look)
        start, end = self._places[self._place]
        plain = self._text[start + 1 : end - 1] == text  # no escapes: places can be told
        self._here[self._place] = [
            replace(number, start=start + 1 + number.start, end=start + 1 + number.end)
            if plain
            else replace(number, start=start, end=end)
            for number in found
        ]
        released = sum(each.outcome in ("teach", "release") for each in found)
        return Sanitization(text=text, replaced={"root": released} if released else {}, heard=heard)

    def sanitize_key(
        self,
        text: str,
        *,
        detect: bool,  # noqa: ARG002
        tokens: PersonConversation | None,  # noqa: ARG002
    ) -> Sanitization:
        """A key as it is: it holds identifiers at most."""
        return Sanitization(text=text, replaced={})

    def read(self, text: str, context: str, look: TextLook) -> list[Edit]:
        """A number: a walk looks with the whole path first, and the last look counts."""
        found, look.heard = self._explainer.read(text, context, look)
        start, end = self._places[self._place]
        self._here[self._place] = [replace(n, start=start, end=end) for n in found[:1]]
        return [
            Edit(start=n.start, end=n.end, text=HOLE, kind="number", missing=n.root)
            for n in found
            if n.outcome not in ("keep", "identifier")
        ]


class _DocumentWalk(Walk):
    """A walk that tells its reader when it goes on to the next key or value."""

    __slots__ = ("_reader",)

    def __init__(self, reader: _NotingReader, look: TextLook) -> None:
        super().__init__(reader, look)
        self._reader = reader

    def _key(self, key: str, taken: Container[str]) -> str:
        self._reader.step()
        return super()._key(key, taken)

    def _text(self, text: str, path: tuple[str, ...]) -> str:
        self._reader.step()
        return super()._text(text, path)

    def _truth(self, value: bool, *, path: tuple[str, ...]) -> object:
        self._reader.step()
        return super()._truth(value, path=path)

    def _number(self, number: float, path: tuple[str, ...], unit: str) -> object:
        self._reader.step()
        return super()._number(number, path, unit)
