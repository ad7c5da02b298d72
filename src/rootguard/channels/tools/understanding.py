"""What a tool asks of the person: read from its schema, judged, and never guessed in silence.

`understand` takes a tool as it describes itself and says which parameter is which root, derived
value, target or identifier, in which unit, and which calculation of the catalog the tool performs.
What it is sure of (over `ACT_ABOVE`) is a `Binding`; what may be meant but is not sure is a
`Question` for the owner, who answers it with a pin; the rest is unbound. It sees public things
only: schemas and templates. Filling in is `filling`.
"""

import os
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from types import MappingProxyType
from typing import Final

from rootguard.channels.tools.answers import Answer, Recognizer, ReleasedMeasure, Unanswerable, rows
from rootguard.channels.tools.comparisons import flat
from rootguard.channels.tools.docstrings import Docstring, asked_for, choices_in, documented
from rootguard.channels.tools.evidence import (
    ACT_ABOVE,
    OBJECTED,
    Known,
    Reading,
    Tool,
    Verdict,
    about,
    clean,
    formula_of,
    judge,
    readings_of,
)
from rootguard.channels.tools.fields import (
    Ends,
    Field,
    Kind,
    Path,
    carries_number,
    ends_of,
    fields_of,
)
from rootguard.channels.tools.units import (
    described_units,
    fitting,
    in_unit,
    same_unit,
    without_described_units,
)
from rootguard.channels.tools.words import (
    Meaning,
    Meanings,
    Words,
    data,
    key_of,
    meanings,
    several,
    text_words,
    words_of,
)
from rootguard.errors import PolicyError, UnknownNameError
from rootguard.language.names import SHORT
from rootguard.language.units import canonical, convert, currencies
from rootguard.session.policy import read_file
from rootguard.template import Root, Template
from rootguard.values import RootName

MAX_BYTES: Final = 256 * 1024  # of a file of corrections: thousands of them
_KEYS: Final = ("root", "unit", "ignore")
_SHOWN: Final = 8  # candidates of a question: an owner who has to choose reads no longer list
# Of tomllib's message only where it is: the rest may quote the file.
_PLACE: Final = re.compile(r"at (line \d+, column \d+|end of document)\)\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """One correction: what the parameter is, or that it is nothing of the person's."""

    name: str | None
    unit: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pins:
    """The owner's corrections by tool and parameter, read from TOML. What is pinned is not judged.

    [tools.fib4_score.x1]       # a parameter; inside objects "patient.age", in lists "labs.*.ast"
    root = "ast"                # a root, derived value, target or identifier
    unit = "U/L"                # the unit that the tool takes; the root's own if left out

    [tools.fib4_score.note]
    ignore = true               # never filled in
    """

    tools: Mapping[str, Mapping[Path, Pin]] = dataclass_field(
        default_factory=lambda: MappingProxyType({})
    )

    def of(self, tool: str) -> Mapping[Path, Pin]:
        return self.tools.get(tool, {})


def load_pins(path: str | os.PathLike[str]) -> Pins:
    """Read a file of corrections; a mistake is reported with file, key and remedy."""
    name, content = os.fspath(path), read_file(path, MAX_BYTES, "keep to a few tools")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PolicyError(name, "", "not UTF-8", "save it as UTF-8") from None
    return parse_pins(text, file=name)


def parse_pins(text: str, *, file: str) -> Pins:
    """Corrections from TOML text."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        place = _PLACE.search(str(problem))
        where = f" at {place[1]}" if place else ""
        raise PolicyError(file, "", f"not TOML{where}", "correct that place") from None
    for key in content:
        if key != "tools":
            raise PolicyError(file, key, "a key that is not known here", "use [tools.NAME.PARAM]")
    tools = _table(file, "tools", content.get("tools", {}))
    return Pins(
        tools=MappingProxyType(
            {
                tool: MappingProxyType(
                    {
                        tuple(parameter.split(".")): _pin(file, f"tools.{tool}.{parameter}", entry)
                        for parameter, entry in _table(file, f"tools.{tool}", listed).items()
                    }
                )
                for tool, listed in tools.items()
            }
        )
    )


def _pin(file: str, key: str, entry: object) -> Pin:
    table = _table(file, key, entry)
    for each in table:
        if each not in _KEYS:
            where = f"{key}.{each}"
            remedy = f"use {', '.join(_KEYS)}; quote a parameter that has dots in it"
            raise PolicyError(file, where, "a key that is not known here", remedy)
    ignored, name, unit = table.get("ignore", False), table.get("root"), table.get("unit")
    if not isinstance(ignored, bool):
        raise PolicyError(file, f"{key}.ignore", "neither true nor false", "write true")
    if ignored == (name is not None):
        raise PolicyError(file, key, "root or ignore is needed", 'write root = "ast"')
    if not (isinstance(name, str | None) and isinstance(unit, str | None)):
        raise PolicyError(file, key, "not text", "put it in quotes")
    return Pin(name=name, unit=unit)


def _table(file: str, key: str, entry: object) -> Mapping[str, object]:
    if not isinstance(entry, dict):
        raise PolicyError(file, key, "not a table", f"write [{key}]")
    return entry


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """A parameter that is filled in with a released value.

    `unit` is what the schema asks for, None for the value's own. `ends` are what stands for 0 and
    1 of a root of two points. `own` and `substance` say from what the unit is converted. `formula`
    computes the value where the person's templates have no such name. `lower`, `upper` and `step`
    are the schema's own limits.
    """

    parameter: Path
    name: str
    unit: str | None
    kind: Kind
    confidence: float
    reason: str
    required: bool = False
    ends: Ends | None = None
    formula: str = ""
    own: str = ""
    substance: str | None = None
    lower: float | None = None
    upper: float | None = None
    step: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A parameter that may be one of these, and why that is not sure. Nothing is filled in."""

    parameter: Path
    candidates: tuple[str, ...]
    why: str
    confidence: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolMap:
    """How one tool was understood. `formula` is the catalog template that it computes."""

    tool: str
    bindings: tuple[Binding, ...] = ()
    asked: tuple[Question, ...] = ()
    formula: str | None = None
    unbound: tuple[Path, ...] = ()
    answers: tuple[Answer, ...] = ()
    """Questions about values that are answered from what is released."""


def understand(
    tool_name: str,
    description: str,
    input_schema: Mapping[str, object],
    roots: Mapping[RootName, Root],
    templates: Sequence[Template],
    *,
    pins: Pins | None = None,
    identifiers: Sequence[str] = (),
) -> ToolMap:
    """Which parameter of a tool is which value, and which formula the tool computes."""
    known = meanings(roots, templates, identifiers)
    bare = fields_of(input_schema)
    said = documented(description, tuple(dict.fromkeys(field.path[-1] for field in bare)))
    fields = tuple(_described(field, said, lone=len(bare) == 1) for field in bare)
    pinned = (pins or Pins()).of(tool_name)
    open_fields = [field for field in fields if field.path not in pinned]
    texts = {field.path: _text_of(field) for field in fields}
    # All are read before one is judged: what a tool is about is told by what it asks for, too.
    ways = {f.path: readings_of(f, texts[f.path], known) for f in open_fields}
    tool, formula = _tool(tool_name, said.summary, open_fields, ways, pinned, templates)
    siblings = {field.path: _beside(field, fields) for field in fields}
    bindings: list[Binding] = []
    asked: list[Question] = []
    answers: list[Answer] = []
    recognizer = Recognizer(known, said.summary, tool.words | _company(texts.values()))
    for field in open_fields:
        question = _question(field, texts[field.path], recognizer, tool, known)
        if isinstance(question, Unanswerable):
            asked.append(
                Question(parameter=field.path, candidates=question.names, why=question.why)
            )
        elif question is not None:
            answers.append(question)
        if question is not None:
            continue
        verdicts = [judge(r, tool, known, siblings[field.path]) for r in ways[field.path]]
        # From the name of one value, over words for several, to what is only hinted at: the first
        # that has something to say is the most that is known.
        outcome = (
            _decided(field, verdicts, tool)
            or _ambiguous(field, known, tool)
            or _personal(field, texts[field.path], known, tool)
            or (None if verdicts else _mentioned(field, texts[field.path], known, tool))
            or (_answering(field, texts[field.path], roots) if _is_about(tool) else None)
        )
        if isinstance(outcome, Binding):
            bindings.append(outcome)
        elif outcome is not None:
            asked.append(outcome)
    # Pins come after: the owner may well mean one value twice.
    bindings, doubled = _without_doubles(bindings)
    by_hand = [_pinned(f, pinned[f.path], known) for f in fields if f.path in pinned]
    bindings += [binding for binding in by_hand if binding is not None]
    asked += doubled
    asked += [
        Question(parameter=path, candidates=(), why="pinned, but the tool has no such parameter")
        for path in pinned
        if path not in texts
    ]
    spoken = {b.parameter for b in bindings} | {q.parameter for q in asked}
    told = {a.parameter for a in answers}
    order = {field.path: place for place, field in enumerate(fields)}
    return ToolMap(
        tool=tool_name,
        bindings=tuple(sorted(bindings, key=lambda b: order[b.parameter])),
        asked=tuple(sorted(asked, key=lambda q: order.get(q.parameter, len(order)))),
        formula=None if formula is None else formula.template,
        unbound=tuple(
            f.path for f in fields if f.path not in spoken and not {f.path, f.path[:-1]} & told
        ),
        answers=tuple(answers),
    )


def _company(texts: Iterable[str]) -> frozenset[str]:
    """The words of all parameters that say what a tool is about, or that it is about a person."""
    lists = data()
    words = {word for text in texts for word in text_words(text)}
    return frozenset(words & (lists["medicine"] | lists["finance"] | lists["self"]))


def _question(
    field: Field, text: str, recognizer: Recognizer, tool: Tool, known: Meanings
) -> Answer | Unanswerable | None:
    """A question about values that takes more, or less, than one number."""
    kept, _ = clean(text)
    found = recognizer.read(field, kept)
    if found is not None:
        return found

    def part(said: str) -> ReleasedMeasure | str | None:
        """One place of a list: a value, or the name of one whose unit is not clear."""
        one = replace(field, path=("value",), kind="number", several=False, description=said)
        sure = [judge(reading, tool, known, ()) for reading in readings_of(one, said, known)]
        good = [v for v in sure if not v.reading.found.extra and v.confidence > OBJECTED]
        if len(good) != 1 or good[0].reading.meaning.sort != "value":
            return None
        if good[0].asked.problem:
            return good[0].reading.meaning.name
        meaning, unit = good[0].reading.meaning, good[0].asked.unit or ""
        return ReleasedMeasure(
            name=meaning.name,
            unit=None if not unit or same_unit(unit, meaning) else unit,
            own=meaning.unit,
            substance=meaning.substance,
            formula=meaning.formula,
        )

    return rows(field, kept, part)


def _described(field: Field, said: Docstring, *, lone: bool) -> Field:
    """A parameter with what the tool's description says of it, if its own says nothing.

    The only parameter of a form, if its name says nothing, is what the form asks for.
    """
    text = field.description or said.parameters.get(field.path[-1], "")
    silent = data()["generic"] | data()["replies"]
    if not text and lone and all(w in silent or len(w) == 1 for w in words_of(field.path[-1])):
        text = _ASKING.sub("", said.summary)
    return replace(field, description=asked_for(text), listed=choices_in(text))


_ASKING: Final = re.compile(
    r"(?i)\A\s*(?:please\s+)?(?:(?:enter|provide|give|type|tell us|tell me|specify|input|state|"
    r"confirm|select|choose|what is|what's|what are|which is)\s+)?"
)


def _text_of(field: Field) -> str:
    """What is said of a parameter: its title, unless that repeats the name, and description."""
    title = field.title
    if words_of(title) in (words_of(field.path[-1]), ()):
        title = ""
    text = field.description
    return f"{title}. {text}" if title and text else title or text


def _tool(
    name: str,
    description: str,
    open_: Sequence[Field],
    ways: Mapping[Path, Sequence[Reading]],
    pinned: Mapping[Path, Pin],
    templates: Sequence[Template],
) -> tuple[Tool, Known | None]:
    """What the tool is about, by its own words and by the company of its parameters."""
    text, _ = clean(description)
    whole = {
        reading.meaning.name
        for readings in ways.values()
        for reading in readings
        if not reading.found.extra and not reading.field.several
    }
    whole |= {pin.name for pin in pinned.values() if pin.name is not None}
    sure = frozenset(
        reading.meaning.name
        for readings in ways.values()
        for reading in readings
        if not (reading.found.extra or reading.misfit or reading.described)
        and not reading.found.weak
        and reading.meaning.sort == "value"
    )
    numeric = [
        readings
        for readings in ways.values()
        if not readings or any(r.field.kind in ("number", "integer") for r in readings)
    ]
    read = all(any(not r.found.extra for r in readings) for readings in numeric)
    inputs_of = {f.path: {r.meaning.name for r in ways[f.path] if not r.found.extra} for f in open_}
    formula = formula_of(
        name,
        text,
        whole,
        templates,
        nothing_else=read,
        needed=[inputs_of[f.path] for f in open_ if f.required and _is_number(f)],
        unread=sum(not names for names in inputs_of.values()),
    )
    inputs = frozenset() if formula is None else formula.roots | frozenset(formula.behind)
    tool = Tool(
        words=about(" ".join(words_of(name))) | about(text),
        name=about(" ".join(words_of(name))),
        called=words_of(name),
        inputs=inputs,
        formula=None if formula is None else formula.template,
        company=sure,
    )
    return tool, formula


def _is_number(field: Field) -> bool:
    return field.kind in ("number", "integer") and not field.choices


def _beside(field: Field, fields: Sequence[Field]) -> list[Words]:
    parent = field.path[:-1]
    return [
        words_of(other.path[-1])
        for other in fields
        if other.path[:-1] == parent and other.path != field.path
    ]


def _decided(field: Field, verdicts: Sequence[Verdict], tool: Tool) -> Binding | Question | None:
    """A binding if one reading is sure and no other is possible; else a question, if it is one."""
    if not verdicts:
        return None
    outcomes = [_outcome(field, verdict) for verdict in verdicts]
    sure = [outcome for outcome in outcomes if isinstance(outcome, Binding)]
    whole = [v for v in verdicts if not v.reading.found.extra]
    if len(sure) == 1 and len(whole) == 1:
        return sure[0]
    if len(whole) > 1:
        names = tuple(verdict.reading.meaning.name for verdict in whole)
        return Question(parameter=field.path, candidates=names, why="it may be any of these")
    best = max(verdicts, key=lambda verdict: verdict.confidence)
    if not _worth_asking(best, tool):
        return None
    if whole:
        return next(o for o in outcomes if isinstance(o, Question))
    names = tuple(dict.fromkeys(verdict.reading.meaning.name for verdict in verdicts))
    return Question(
        parameter=field.path, candidates=names, why=best.reason, confidence=best.confidence
    )


def _worth_asking(verdict: Verdict, tool: Tool) -> bool:
    """Whether a partial name is a question: not if what it says besides makes it another thing.

    A weak name that says something else as well is none, unless the tool is about such values.
    """
    found, lists = verdict.reading.found, data()
    if _is_filter(found.extra, tool):
        return False
    if not found.extra:
        return not found.weak or _of_such_values(verdict, tool)
    banded = lists["banded"] | lists["verdicts"]
    if lists["apart"].intersection(found.after) and not banded.intersection(found.extra):
        return False
    before = set(found.extra) - set(found.after)
    if before & lists["different"] and not before & lists["self"] and not found.after:
        return False
    if verdict.reading.meaning.sort == "identifier" and before:
        return bool(before & (lists["self"] | lists["others"] | lists["naming"]))
    if not found.weak:
        return True
    if not _of_such_values(verdict, tool):
        return False
    if (lists["others"] | lists["altering"]).intersection(found.extra):
        return True
    if banded.intersection(found.extra) or any(w[:1].isdigit() for w in found.extra):
        return _same_field(verdict.reading.meaning, tool)
    short = all(len(key) <= SHORT for key in _matched(verdict.reading))
    return not short and _same_field(verdict.reading.meaning, tool)


_BOUNDS: Final = frozenset(("min", "max", "minimum", "maximum", "lowest", "highest", "from", "to"))
_SEARCHES: Final = frozenset(
    ("search", "list", "find", "filter", "browse", "query", "lists", "finds", "searches")
)


def _is_filter(extra: Collection[str], tool: Tool) -> bool:
    """Whether it is a limit by which things are looked up: `min_age` of a list of trials."""
    return bool(extra) and _BOUNDS.issuperset(extra) and not _SEARCHES.isdisjoint(tool.words)


def _of_such_values(verdict: Verdict, tool: Tool) -> bool:
    """Whether an everyday name (height, weight, age) may be a person's: not of a thing's tool."""
    lists, reading = data(), verdict.reading
    said = {*text_words(reading.text), *(w for part in reading.field.path for w in words_of(part))}
    words = (tool.words | said) - _words_named(reading.meaning)
    own = lists["finance" if reading.meaning.field == "finance" else "medicine"]
    spoken = words & (own | lists["self"] | lists["others"])
    return bool(spoken or tool.company) or not words & (lists["things"] - lists["passing"])


def _words_named(meaning: Meaning) -> frozenset[str]:
    return frozenset(word for bag in meaning.bags for word in bag)


def _matched(reading: Reading) -> tuple[str, ...]:
    """The words of a partial name that are the value's."""
    words = words_of(reading.field.path[-1])
    return tuple(w for w in words if w in reading.meaning.spellings) or ("",)


def _same_field(meaning: Meaning, tool: Tool) -> bool:
    """Whether a tool is about medicine or finance, and not only about the other of the two."""
    lists = data()
    medicine, finance = tool.words & lists["medicine"], tool.words & lists["finance"]
    if meaning.sort == "identifier":
        return bool(medicine or finance)
    own, other = (finance, medicine) if meaning.field == "finance" else (medicine, finance)
    return bool(own) or (bool(other) and meaning.field not in ("finance", "medicine"))


def _outcome(field: Field, verdict: Verdict) -> Binding | Question:
    meaning = verdict.reading.meaning
    why, ends = "", None
    if verdict.confidence > ACT_ABOVE:
        if meaning.sort == "flag":
            found = ends_of(field, meaning)
            why, ends = (found, None) if isinstance(found, str) else ("", found)
        elif meaning.sort == "identifier":
            why = "" if field.kind == "string" and not field.choices else "it is not a text"
        else:
            why = carries_number(field, unit_stated=verdict.asked.stated)
    else:
        why = verdict.reason
    if why:
        return Question(
            parameter=field.path,
            candidates=(meaning.name,),
            why=why,
            confidence=min(verdict.confidence, ACT_ABOVE),
        )
    binding = _binding(field, meaning, verdict.asked.unit)
    return replace(binding, confidence=verdict.confidence, reason=verdict.reason, ends=ends)


def _binding(field: Field, meaning: Meaning, unit: str | None) -> Binding:
    finite = {"lower": field.lower, "upper": field.upper}
    limits = {key: end for key, end in finite.items() if abs(end) != float("inf")}
    return Binding(
        parameter=field.path,
        name=meaning.name,
        unit=None if unit is None or same_unit(unit, meaning) else unit,
        kind=field.kind,
        confidence=1.0,
        reason="pinned",
        required=field.required,
        formula=meaning.formula,
        own=meaning.unit,
        substance=meaning.substance,
        lower=limits.get("lower"),
        upper=limits.get("upper"),
        step=field.step,
    )


def _ambiguous(field: Field, known: Meanings, tool: Tool) -> Question | None:
    """A question about words that name several values at once ("blood pressure")."""
    words = words_of(field.path[-1])
    neutral = data()["neutral"] - {"blood"}  # "pressure" alone is anything's
    bare = key_of(word for word in words if word not in neutral)
    meant = several().get(bare) or several().get(key_of(words)) or ()
    names = tuple(name for name in meant if name in known.by_name)
    if not names or field.kind == "boolean" or not tool.words & data()["medicine"]:
        return None
    return Question(parameter=field.path, candidates=names, why="it may be any of these")


_TO_PERSON: Final = frozenset(("you", "your", "patient", "applicant", "borrower"))


def _personal(field: Field, text: str, known: Meanings, tool: Tool) -> Question | None:
    """A number asked of a person in words that are not understood, in a unit of their values.

    "What you earn per month before tax, in USD": which value is meant is the owner's to say.
    """
    if field.kind not in ("number", "integer") or field.choices or field.path[-1] == "*":
        return None
    words = {*text_words(text), *words_of(field.path[-1])}
    lists = data()
    apart = lists["altering"] | lists["others"] | lists["different"] | lists["things"]
    apart = apart - lists["passing"] - {"before", "after", "tax"}  # an income is asked for so
    if not words & _TO_PERSON or words & apart or not _is_about(tool):
        return None
    units = {unit for unit, _ in described_units(flat(text))}
    names = tuple(m.name for m in known.all if m.sort == "value" and _may_take(units, words, m))
    if not names:
        return None
    return Question(
        parameter=field.path, candidates=names[:_SHOWN], why="its words are not understood"
    )


def _mentioned(field: Field, text: str, known: Meanings, tool: Tool) -> Question | None:
    """A number, or a calculation, that is described by a value and is not that value.

    "AST minus 40" and "the one nearest to the patient's AST" tell it as well as the value itself.
    """
    numbers = field.kind in ("number", "integer") or any(
        isinstance(each, int | float) and not isinstance(each, bool) for each in field.choices
    )
    kept, _ = clean(text)
    if not (numbers or (field.kind == "string" and _CALCULATION.search(kept))):
        return None
    words = {*text_words(kept), *words_of(field.path[-1])}
    lists = data()
    apart = (lists["others"] - lists["staff"]) | (lists["things"] - lists["passing"])
    personal = _is_about(tool) or words & lists["self"] or tool.words & lists["self"]
    if not personal or words & apart:
        return None
    said = known.mentions(text_words(without_described_units(kept)))
    names = tuple(dict.fromkeys(m.name for _, m, _ in said if m.sort == "value"))
    if not names:
        return None
    return Question(parameter=field.path, candidates=names[:_SHOWN], why="it may tell one of these")


def _answering(field: Field, text: str, roots: Mapping[RootName, Root]) -> Question | None:
    """A question whose answers are those of a category: "several days", as a word or a number.

    Which of the owner's answers is meant is theirs to say: a questionnaire has the same ones for
    every question.
    """
    said = text.casefold()
    listed = {str(each).casefold() for each in (*field.choices, *field.listed)}
    names = []
    for name, root in roots.items():
        told = [word for word in map(str.casefold, root.type.answers) if len(word) >= _TELLING]
        found = sum(word in listed or word in said for word in told)
        if root.type.name == "category" and found >= _SOME:
            names.append(str(name))
    if not names:
        return None
    why = "its answers are those of these"
    return Question(parameter=field.path, candidates=tuple(names[:_SHOWN]), why=why)


_TELLING: Final = 4  # characters of an answer that says what it answers; "low" is anything's
_SOME: Final = 2  # answers: one alone ("never") is in many a text
_CALCULATION: Final = re.compile(r"[A-Za-z)] ?[*/^] ?[A-Za-z(]|\b(?:expression|formula|equation)\b")


def _may_take(units: Collection[str], words: Collection[str], meaning: Meaning) -> bool:
    """Whether a value is one in these units; time is everything's, so it does not tell."""
    own = meaning.unit.partition("/")[0]
    if own in currencies():
        return own.casefold() in words or "dollars" in words
    fits = (fitting(unit, meaning) for unit in units)
    timed = bool(own) and convert(1.0, own, "years") is not None
    return bool(own) and not timed and any(fit is not None for fit in fits)


def _is_about(tool: Tool) -> bool:
    """Whether a tool is about health or money."""
    return bool(tool.words & data()["personal"]) or bool(tool.company)


def _without_doubles(bindings: Iterable[Binding]) -> tuple[list[Binding], list[Question]]:
    """Two parameters that claim one value are both asked."""
    claims: dict[str, list[Binding]] = {}
    for binding in bindings:
        claims.setdefault(binding.name, []).append(binding)
    kept = [only for only, *others in claims.values() if not others]
    doubled = [
        Question(
            parameter=binding.parameter,
            candidates=(binding.name,),
            why="another parameter asks for the same value",
            confidence=min(binding.confidence, ACT_ABOVE),
        )
        for claim in claims.values()
        if len(claim) > 1
        for binding in claim
    ]
    return kept, doubled


def _pinned(field: Field, pin: Pin, known: Meanings) -> Binding | None:
    """A binding by the owner's word, which must still be about something there is."""
    if pin.name is None:
        return None
    meaning = known.by_name.get(pin.name)
    if meaning is None:
        raise UnknownNameError("value", pin.name, tuple(known.by_name))
    unit = None if pin.unit is None else canonical(pin.unit) or pin.unit
    if unit is not None and unit != meaning.unit:
        fit = fitting(unit, meaning)
        if fit is None or in_unit(1.0, meaning, fit) is None:
            raise UnknownNameError("unit", pin.unit or "", (meaning.unit,))
        unit = fit
    binding = _binding(field, meaning, unit)
    if meaning.sort == "flag":
        found = ends_of(field, meaning)
        return replace(binding, ends=None if isinstance(found, str) else found)
    return binding
