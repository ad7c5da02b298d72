"""The prompt sanitizer of the paper: a question in words, an answer in words.

No model reads the question: closed word lists, a template's own names and a small grammar do. What
they find is asked of a `Speaker`, so every number in an answer was released and is in its
transcript. There is nothing else to give: what is not understood gets fixed words that tell
nothing and repeat nothing, and an instruction in a question is only more unknown words.

Words bind as they are spoken: "the sum of AST and ALT divided by 2" halves the sum, and "the square
root of AST times ALT" is the root times ALT. The answer says the formula back in brackets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from rootguard.errors import (
    AccessError,
    FormulaLimitError,
    FormulaNameError,
    FormulaUndefinedError,
    RootGuardError,
    StoreError,
)
from rootguard.expressions import Compare, Node, Variable, to_text
from rootguard.session.questions.arithmetic import Formulas, Spoken
from rootguard.session.questions.tokens import same_unit, tokens_of
from rootguard.session.questions.wording import (
    NO_VALUE,
    NOT_ALLOWED,
    OWN_UNITS,
    TOO_LONG,
    UNDEFINED,
    Token,
    Vocabulary,
    sentence,
    statement,
)
from rootguard.values import Form

MAX_QUESTION: Final = 4_000
"""Characters in a question; a longer one is declined unread."""
MAX_PARTS: Final = 64
"""Things asked for in one question."""
_FEW: Final = 4  # unknown words that may name one thing; more are a clause


class Speaker(Protocol):
    """Whoever answers from noised values, and writes down what it answered."""

    def release(self, name: str) -> Form:
        """A value or an identifier's token by name."""

    def derive(self, formula: str) -> float:
        """The value of a formula of named values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedFormula:
    """A formula, and how to say it; None where it holds a number that has no short word."""

    formula: Node
    says: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedClass:
    """The risk class of a target."""

    target: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedAll:
    """Several names at once. Those that are refused are left out, unless all are."""

    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Declined:
    """Something that has no answer, and the fixed words for it."""

    words: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedName:
    """A value or an identifier, by name."""

    name: str
    says: str


Part = AskedName | AskedFormula | AskedClass | AskedAll | Declined


def answer(question: str, speaker: Speaker, vocabulary: Vocabulary) -> str:
    """Answer a question from released values, in sentences. The same question, the same text.

    Raises only what a speaker raises for its own reasons, such as a store that is down.
    """
    said: list[str] = []
    for parts in read_question(question, vocabulary):
        statements: list[str] = []
        others: list[str] = []
        for part in parts:
            try:
                _answer(part, speaker, vocabulary, statements, others)
            except StoreError:
                raise
            except RootGuardError as refusal:
                others.append(_refusal(refusal))
        if statements:
            said.append(sentence(statements))
        said += others
    return " ".join(said)


def read_question(question: str, vocabulary: Vocabulary) -> list[list[Part]]:
    """What a question asks for, sentence by sentence; never empty, and nothing is released."""
    if len(question) > MAX_QUESTION:
        return [[Declined(words=TOO_LONG)]]
    tokens = tokens_of(question, vocabulary)
    found: list[list[Part]] = []
    start = 0
    for position, token in enumerate(tokens):
        if token.kind == "end":
            reader = _Sentence([*tokens[start:position], Token(kind="end")], vocabulary)
            if parts := reader.parts(asks=token.text == "?"):
                found.append(parts)
            start = position + 1
    if sum(map(len, found)) > MAX_PARTS:
        return [[Declined(words=TOO_LONG)]]
    return found or [[Declined(words=NO_VALUE)]]


def _answer(
    part: Part, speaker: Speaker, vocabulary: Vocabulary, statements: list[str], others: list[str]
) -> None:
    match part:
        case AskedName(name=name, says=says):
            statements.append(statement(says, speaker.release(name), vocabulary.units[name]))
        case AskedFormula(formula=formula, says=says):
            value = speaker.derive(to_text(formula))
            if isinstance(formula, Compare):
                others.append(_verdict(says, holds=value != 0.0))
            else:
                statements.append(statement(says or "that formula", value, computed=True))
        case AskedClass(target=target):
            target_value = speaker.release(target)
            risk = None
            if isinstance(target_value, float):
                risk = vocabulary.risk(target, target_value)
            if risk is None:
                others.append(NO_VALUE)
            else:
                statements.append(statement(f"{vocabulary.spelt[target]} risk class", risk.label))
        case AskedAll(names=names):
            refusals: list[RootGuardError] = []
            for name in names:
                try:
                    value_or_token = speaker.release(name)
                except StoreError:
                    raise
                except RootGuardError as refusal:
                    refusals.append(refusal)
                else:
                    unit = vocabulary.units[name]
                    statements.append(statement(vocabulary.spelt[name], value_or_token, unit))
            if len(refusals) == len(names):
                others.append(_refusal(refusals[0]) if refusals else NO_VALUE)
        case Declined(words=words):
            others.append(words)
        case _:
            assert_never(part)


def _verdict(says: str | None, *, holds: bool) -> str:
    word = "Yes" if holds else "No"
    if says is None:
        return f"{word}."
    return f"{word}: {says} is {'true' if holds else 'false'}."


def _refusal(refusal: RootGuardError) -> str:
    """Fixed words for a refusal: which kind it is, and nothing of what was asked."""
    if isinstance(refusal, AccessError):
        return NOT_ALLOWED
    if isinstance(refusal, FormulaUndefinedError | FormulaLimitError):
        return UNDEFINED
    return NO_VALUE


class _Sentence:
    """Reads one sentence: a list of things, each of them known, computable or unknown.

    `_near` tells what the last word that counts was. An unknown word right beside a name changes
    what the name means ("hemoglobin A1c", "your mother's age"), so such an item is unknown.
    """

    def __init__(self, tokens: list[Token], vocabulary: Vocabulary) -> None:
        self._tokens = tokens
        self._vocabulary = vocabulary
        self._formulas = Formulas(tokens, vocabulary)
        self._parts: list[Part] = []
        self._answers: list[Part] = []
        self._near: str = ""
        self._unknown = 0
        self._spoiled = self._aside = False
        self._clauses: list[tuple[int, int, bool]] = []

    def parts(self, *, asks: bool) -> list[Part]:
        """What the sentence asks for. `asks`: it ends with a question mark."""
        position = 0
        while position < len(self._tokens):
            token = self._tokens[position]
            asks = asks or token.asks
            try:
                spoken = self._formulas.at(position)
            except (FormulaLimitError, FormulaNameError):
                return [*self._parts, Declined(words=UNDEFINED)]
            if spoken is not None:
                self._take(self._asked(spoken))
                position = spoken.end
            else:
                self._take_token(token, position)
                position += 1
        known = any(not isinstance(part, Declined) for part in self._parts)
        return self._with_unknown(asks=asks, known=known)

    def _with_unknown(self, *, asks: bool, known: bool) -> list[Part]:
        """The parts, with a decline where an unknown thing stood in the list."""
        parts: list[Part] = list(self._parts)
        for place, words, aside in reversed(self._clauses):
            if (words <= _FEW and not aside) if known else asks or bool(parts):
                parts.insert(place, Declined(words=NO_VALUE))
        return parts

    def _take(self, part: Part) -> None:
        self._spoiled = self._spoiled or self._near == "unknown"
        self._near = "answer"
        same = isinstance(part, AskedName) and any(
            isinstance(said, AskedName) and said.name == part.name for said in self._answers
        )
        if not same:  # "AST (aspartate aminotransferase)" asks once
            self._answers.append(part)

    def _take_token(self, token: Token, position: int) -> None:
        match token.kind:
            case "comma" | "and" | "marker" | "end":
                self._close(aside=token.kind == "marker")
            case "class" | "target" | "all" | "name":
                for part in self._several(token):
                    self._take(part)
            case "unit":
                self._unit(token.text)
            case "preposition" if self._near == "" and not self._answers and not self._unknown:
                self._aside = True  # "before we continue, ..."
            case "preposition" | "qualifier" | "percent":
                pass
            case "open" | "close":  # what stands in brackets explains
                self._near = ""
            case "determiner":
                before = self._tokens[position - 1].kind if position else "end"
                if self._near == "unknown" and before != "preposition":
                    self._near = ""
            case "filler":
                self._near = ""
            case "operator" if token.text == "-" and self._near != "answer":  # a dash
                self._near = ""
            case "operator" if token.text == "-" and not self._counts(position + 1):
                pass
            case _:
                self._spoiled = self._spoiled or self._near == "answer"
                self._near = "unknown"
                self._unknown += token.kind != "number"  # "I need four values" names nothing

    def _counts(self, position: int) -> bool:
        """Whether something other than a small word follows: then a dash is a minus sign."""
        return self._tokens[position].kind in ("unknown", "name", "number", "open", "call", "list")

    def _several(self, token: Token) -> Sequence[Part]:
        """What a word that stands for no single number asks for."""
        vocabulary = self._vocabulary
        if token.kind == "name":  # an identifier; numbers are read as formulas
            return [AskedName(name=token.text, says=token.says)]
        if token.kind == "all":
            names = vocabulary.called("root")
            if token.text == "everything":
                names = tuple(vocabulary.kinds)
            return [AskedAll(names=names)]
        targets = (token.text,) if token.text else tuple(vocabulary.scored)
        if token.kind == "class":
            return [AskedClass(target=target) for target in targets]
        return [AskedName(name=target, says=vocabulary.spelt[target]) for target in targets]

    def _asked(self, spoken: Spoken) -> Part:
        if isinstance(spoken.node, Variable):
            return AskedName(name=spoken.node.name, says=spoken.says or "")
        return AskedFormula(formula=spoken.node, says=spoken.says)

    def _unit(self, unit: str) -> None:
        last = self._answers[-1] if self._answers else None
        own = isinstance(last, AskedName) and same_unit(self._vocabulary.units[last.name], unit)
        if not own and last is not None:
            self._answers.append(Declined(words=OWN_UNITS))

    def _close(self, *, aside: bool) -> None:
        """End an item of the list; `aside`: what follows says why, or for whom."""
        if self._spoiled:
            self._parts.append(Declined(words=NO_VALUE))
        elif self._answers:
            self._parts += self._answers
        elif self._unknown:
            self._clauses.append((len(self._parts), self._unknown, self._aside))
        self._answers = []
        self._unknown = 0
        self._near = ""
        self._spoiled, self._aside = False, aside
