"""An arbiter for numbers in doubt: a small language model that may say "not the owner's".

The rules leave a number open where the owner says it beside a private word and nothing tells which
quantity it is. Such a number is redacted or refused. With an arbiter it is asked about, and kept
if the answer is a sure no. That is all that an answer can do: it teaches nothing, releases nothing,
and whatever the rules have decided stays. No answer, or a failure, leaves the rules' decision.

A decision must not depend on the owner's values, so the model sees none: every number of the
sentence, in digits or words, and every identifier, token and released value is a letter, X for the
number in question and N for all others.

Nothing is generated. A fixed prompt of solved examples ends with "X is", and what counts is how
much likelier " my" is than " a" as the next token, beside the same for sentences that say nothing
(Zhao et al. 2021, "Calibrate before use"). Examples and calibration are English; a sentence
without a common English word is not asked about.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

from rootguard.reading.claims import Claim
from rootguard.reading.page import Page

MOST_QUESTIONS: Final = 8
"""Of one request. At a tenth of a second each they take less than a second; the rest stays open."""
MARGIN: Final = 2.5
"""By which " a" must be likelier than " my", in nats, for a number to be kept. At 1.75 no model of
docs/gateway.md kept one of the owner's in its sentences, but one in the cases; this is wider."""
_REMEMBERED: Final = 1024  # clauses: a chat sends its earlier messages again with each turn
_LONGEST: Final = 160  # characters on either side of X: longer ones are lists, not sentences
_HERE, _OTHER, _HIDDEN = "X", "N", "\0"
_NUMERIC = re.compile(r"[+−-]?\d+(?:[.,:/'’]\d+)*")
_END = re.compile(r"[.!?](?=\s)|\n")
_ENGLISH = re.compile(r"(?<![^\W_])(?:my|the|and|with)(?![^\W_])", re.IGNORECASE)
_EXAMPLES: Final = (
    ("My iron was X in the last test.", "my iron"),
    ("My doctor wants everybody below X.", "a limit"),
    ("I owe the dentist X and cannot pay.", "my debt"),
    ("I am N and the book is on page X.", "a page"),
    ("The heart rate of X scares me.", "my heart rate"),
    ("I read that a zinc level of X is normal.", "a normal level"),
    ("My savings are N and the sofa costs X.", "a price"),
    ("I earn N and get X from my flat.", "my rent income"),
    ("My lab's limit for iron is X.", "a limit"),
    ("My MCV came back as X.", "my MCV"),
    ("My sister has an iron of X.", "a level of somebody else"),
    ("I am N and became a father at X.", "my age back then"),
    ("My weight is N and the ladder carries X.", "a limit of the ladder"),
    ("I have N saved and X in shares.", "my shares"),
    ("My zinc is N and I turned left at X.", "a house number"),
    ("My magnesium is X mmol/L.", "my magnesium"),
    ("My report quotes a magnesium of X mmol/L as typical.", "a typical level"),
    ("I lost X at the casino.", "my loss"),
    ("I typed a salary of X into the demo.", "a made-up salary"),
    ("My pulse is N and my oxygen X.", "my oxygen"),
    ("I pay N for rent and the castle is for sale at X.", "a price"),
    ("I still pay X for the boat every month.", "my payment"),
)
_PROMPT: Final = "".join(f"{said} X is {what}.\n" for said, what in _EXAMPLES)
_EMPTY: Final = ("X.", "It says X.", "Here X stands.", "X and N.")
"""Sentences that say nothing: what the model favours without being told anything."""


class Arbiter(Protocol):
    """Says whose a number is. Safe to share by threads."""

    def is_owners(self, clause: str) -> bool | None:
        """Whether X in a masked sentence is a value of whoever wrote it; None if unsure."""
        ...


class _Token(Protocol):
    """A token of a model's vocabulary."""

    @property
    def id(self) -> int: ...


class Scorer(Protocol):
    """A language model that says how likely it goes on with a token."""

    def tokenize(self, text: str) -> Sequence[_Token]: ...

    def among(self, prompt: str, ids: Sequence[int]) -> Sequence[float]: ...


class ModelArbiter:
    """An arbiter that compares how likely a model goes on with " my" and with " a"."""

    __slots__ = ("_bias", "_ids", "_lock", "_model")

    def __init__(self, model: Scorer) -> None:
        self._model = model
        # One prompt at a time, or the examples are computed again for each.
        self._lock = threading.Lock()
        self._ids = [model.tokenize(word)[0].id for word in (" my", " a")]
        self._bias = sum(map(self._favour, _EMPTY)) / len(_EMPTY)

    def score(self, clause: str) -> float:
        """How much the sentence speaks for the owner; 0 says nothing."""
        return self._favour(clause) - self._bias

    def is_owners(self, clause: str) -> bool | None:
        score = self.score(clause)
        return None if abs(score) < MARGIN else score > 0

    def _favour(self, clause: str) -> float:
        with self._lock:
            mine, other = self._model.among(f"{_PROMPT}{clause} X is", self._ids)
        return mine - other


class Arbitration:
    """An arbiter with a memory of its answers and a bound on the questions of each request."""

    __slots__ = ("_answers", "_arbiter", "_left", "_lock")

    def __init__(self, arbiter: Arbiter) -> None:
        self._arbiter = arbiter
        self._answers: OrderedDict[str, bool | None] = OrderedDict()
        self._left = MOST_QUESTIONS
        self._lock = threading.Lock()  # worker threads share the answers

    def __repr__(self) -> str:
        return f"<arbitration with {len(self._answers)} answers>"

    def request(self) -> "Arbitration":
        """The same for another request, which may ask as many questions again."""
        made = Arbitration(self._arbiter)
        made._answers, made._lock = self._answers, self._lock
        return made

    def settled(
        self, page: Page, claims: Iterable[Claim], hidden: Iterable[tuple[int, int]]
    ) -> Iterator[Claim]:
        """The claims, of which those left open may be nobody's now; `hidden` is not shown."""
        masks = None
        for claim in claims:
            if claim.standing == "open":
                masks = masks or Masks(page, hidden)
                if self._answer(masks.clause(claim)) is False:
                    claim = replace(claim, standing="nobody", reason="general")
            yield claim

    def _answer(self, clause: str) -> bool | None:
        if not _ENGLISH.search(clause):
            return None
        with self._lock:
            if clause in self._answers:
                self._answers.move_to_end(clause)
                return self._answers[clause]
        if self._left == 0:
            return None
        self._left -= 1
        try:
            answer = self._arbiter.is_owners(clause)
        except Exception:  # noqa: BLE001 - whatever it is: then the rules decide
            return None
        with self._lock:
            self._answers[clause] = answer
            while len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        return answer


class Masks:
    """A text in which every number and every hidden stretch is a mark. Places are the original's.

    Marks have one length whatever they stand for, so that no cut depends on a value.
    """

    __slots__ = ("_masked", "_spans", "_starts")

    def __init__(self, page: Page, hidden: Iterable[tuple[int, int]]) -> None:
        text = page.original
        spans = [*hidden, *(page.folded.span(each.start, each.end) for each in page.numbers)]
        spans += (match.span() for match in _NUMERIC.finditer(text))
        spans += ((at, at + 1) for at, sign in enumerate(text) if sign.isnumeric())
        joined: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            # Two words of a name, "1 200": what a mark stands for must not show in how many.
            if joined and (start <= joined[-1][1] or text[joined[-1][1] : start] == " "):
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        pieces, at, length = [], 0, 0
        self._spans, self._starts = joined, list[int]()
        for start, end in joined:
            length += start - at
            self._starts.append(length)
            pieces += [text[at:start].replace(_HIDDEN, " "), _HIDDEN]
            length += 1
            at = end
        self._masked = "".join([*pieces, text[at:].replace(_HIDDEN, " ")])

    def clause(self, claim: Claim) -> str:
        """The sentence of a claim, with X for its number and N for every other."""
        place = next(at for at, span in enumerate(self._spans) if span[1] > claim.start)
        here = self._starts[place]
        before = self._masked[max(0, here - _LONGEST) : here]
        ends = [match.end() for match in _END.finditer(before)]
        before = before[ends[-1] if ends else 0 :]
        after = self._masked[here + 1 : here + 1 + _LONGEST]
        end = _END.search(after)
        after = after[: end.end() if end else None]
        return f"{before}{_HERE}{after}".replace(_HIDDEN, _OTHER).strip()
