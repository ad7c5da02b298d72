"""How sure it is that a parameter asks for a value of this person, and the reasons, in words.

A name alone decides only if it can mean nothing else. Short and everyday names (`ast`, `weight`,
`rate`) need other evidence: a fitting unit, a description that names the value, a formula that the
tool computes, a tool that is about medicine or money. Whatever speaks against it (another person,
a thing, a target value, a unit or bounds that do not fit) makes it a question.

Which calculation of the catalog a tool performs follows from what it calls itself and from its
inputs. One that computes a known formula needs nothing that is not already released (Level 1), and
says which roots matter how much (Level 2).
"""

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rootguard.channels.tools.fields import Field, ends_of
from rootguard.channels.tools.units import Asked, asked_unit, fitting, suffix_units
from rootguard.channels.tools.words import (
    Match,
    Meaning,
    Meanings,
    Words,
    data,
    key_of,
    match,
    text_words,
    words_of,
)
from rootguard.expressions import Variable
from rootguard.graph import Graph
from rootguard.language import names
from rootguard.language.fold import unaccented
from rootguard.template import Template, catalog, load_template

# Above this the owner's value goes into a stranger's call, below it the owner is asked. On the
# stored schemas nothing above it is wrong (docs/mcp-schemas.md).
ACT_ABOVE: Final = 0.9
_LONGEST_UNIT: Final = 4  # words: `ml_min_1_73`
_TELLING: Final = 3  # letters of a name that says something beside the person: not `x`, `bp`
# Both are below `ACT_ABOVE`; which is shown first to the owner is all that they decide.
_OUT: Final = 0.4
_UNCLEAR: Final = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """What is known of the tool around a parameter."""

    words: frozenset[str]
    name: frozenset[str]
    inputs: frozenset[str] = frozenset()
    formula: str | None = None
    company: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One way to read a parameter: what it means, as its name (or description) spells it."""

    field: Field
    found: Match
    named: str | None
    misfit: str
    described: bool
    text: str

    @property
    def meaning(self) -> Meaning:
        return self.found.meaning


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A reading judged. Acted on only if it is over `ACT_ABOVE`."""

    reading: Reading
    confidence: float
    reason: str
    asked: Asked


@functools.cache
def _injection() -> re.Pattern[str]:
    return re.compile("|".join(sorted(data()["injection"])), re.IGNORECASE)


def clean(description: str) -> tuple[str, bool]:
    """A description up to the first sentence that gives orders, and whether there was one."""
    order = _injection().search(description)
    if order is None:
        return description, False
    kept = description[: order.start()]
    stop = max(kept.rfind(". "), kept.rfind("\n"), kept.rfind("<"))
    return kept if order[0].startswith("<") else kept[: stop + 1], True


def first_sentence(text: str) -> str:
    """A description up to its first full stop or line break."""
    return re.split(r"\.\s|[;\n]", text, maxsplit=1)[0]


def readings_of(field: Field, text: str, meanings: Meanings) -> list[Reading]:
    """Every way to read a parameter; the best ones only, full before partial."""
    kept, ordered = clean(text)
    found = [r for m in meanings.all if (r := _by_name(field, m, kept)) is not None]
    full = [reading for reading in found if not reading.found.extra]
    if full:
        sound = [reading for reading in full if not reading.misfit]
        return sound or full
    if not ordered and _may_be_described(field):
        full = [r for m in meanings.all if (r := _by_description(field, m, kept)) is not None]
        if full:
            return full
    return sorted(found, key=lambda reading: len(reading.found.extra))[:3]


def _names(field: Field) -> list[Words]:
    """The words of a parameter's name: of the nearest part of its path that says something."""
    parts = [words_of(part) for part in field.path if part != "*"]
    while len(parts) > 1 and _says_nothing(parts[-1]):
        parts.pop()
    names = [parts[-1]]
    if len(parts) > 1:
        names.append((*parts[-2], *parts[-1]))
    return names


def _says_nothing(words: Words) -> bool:
    generic = data()["generic"]
    letters = [w.rstrip("0123456789") for w in words]
    return all(word in generic or not word for word in letters)


def _may_be_described(field: Field) -> bool:
    """Whether the description may name the value in the name's place."""
    words = [word for part in field.path for word in words_of(part)]
    barred = data()["altering"] | data()["others"] | data()["things"]
    return not barred.intersection(words)


def _by_name(field: Field, meaning: Meaning, text: str) -> Reading | None:
    best: Reading | None = None
    for words in _names(field):
        for reading in _with_suffix(field, meaning, words, text):
            if best is None or _rank(reading) < _rank(best):
                best = reading
        if best is not None and not best.found.extra:
            break
    return best


def _with_suffix(field: Field, meaning: Meaning, words: Words, text: str) -> list[Reading]:
    """The name read with each number of last words taken as its unit."""
    found = []
    for size in range(min(_LONGEST_UNIT, len(words) - 1) + 1):
        rest, tail = words[: len(words) - size], words[len(words) - size :]
        units = suffix_units(tail) if size else ()
        if size and not units and "".join(tail) != _flat(meaning.unit):
            continue
        fit = next((f for u in units if (f := fitting(u, meaning)) is not None), None)
        if size and fit is None and "".join(tail) == _flat(meaning.unit):
            fit = meaning.unit
        if size and rest[-1:] in (("in",), ("en",)):
            rest = rest[:-1]
        hit = match(rest, meaning)
        if hit is not None:
            misfit = units[0] if size and fit is None else ""
            found.append(
                Reading(
                    field=field, found=hit, named=fit, misfit=misfit, described=False, text=text
                )
            )
    return found


def _flat(unit: str) -> str:
    return "".join(text_words(unit))


def _rank(reading: Reading) -> tuple[int, bool, bool]:
    return len(reading.found.extra), bool(reading.misfit), reading.named is None


_ASIDE: Final = re.compile(r"[(\[][^)\]]*[)\]]|\||,|\b(?:in|en)\b\s+\S+$", re.IGNORECASE)


def _by_description(field: Field, meaning: Meaning, text: str) -> Reading | None:
    """The description read as a name: it must say this and nothing more, its unit aside."""
    head = first_sentence(text)
    words = text_words(_ASIDE.sub(" ", head))
    while words and suffix_units(words[-1:]):
        words = words[:-1]
    hit = match(words, meaning) if words else None
    if hit is None or hit.extra:
        return None
    return Reading(field=field, found=hit, named=None, misfit="", described=True, text=text)


def judge(reading: Reading, tool: Tool, meanings: Meanings, siblings: Sequence[Words]) -> Verdict:
    """How sure a reading is."""
    objection = _objection(reading, tool, meanings)
    asked = asked_unit(
        reading.meaning,
        reading.field,
        reading.named,
        reading.misfit,
        reading.found.periods,
        reading.text,
    )
    if not objection and asked.problem:
        return Verdict(reading=reading, confidence=_UNCLEAR, reason=asked.problem, asked=asked)
    if not objection and reading.named is None and _unit_apart(reading, siblings):
        objection = "its unit is another parameter of the tool"
    if not objection and reading.field.several:
        objection = "it stands in a list of several"
    if objection:
        return Verdict(reading=reading, confidence=_OUT, reason=objection, asked=asked)
    reasons = _evidence(reading, tool, asked)
    confidence = _confidence(reading, reasons, meanings)
    spelled = "described as" if reading.described else "named as"
    words = ", ".join((f"{spelled} {reading.meaning.name}", *reasons.values()))
    if confidence <= ACT_ABOVE:
        words = f"{words}: too little to be sure"
    return Verdict(reading=reading, confidence=round(confidence, 2), reason=words, asked=asked)


_OWNER: Final = re.compile(r"\bof (?:the |a |an |each |this |that )?([^\W\d_]+)")
_MOMENT: Final = re.compile(
    r"\bat (?!rest\b|admission\b|present\b|least\b|most\b)\w+", re.IGNORECASE
)
_APART: Final = re.compile(r"[(\[][^)\]]*[)\]]|\S+/\S+")


def _objection(reading: Reading, tool: Tool, meanings: Meanings) -> str:
    """What speaks against a reading, whatever speaks for it."""
    lists = data()
    name = {word for part in reading.field.path for word in words_of(part)}
    head = first_sentence(reading.text)
    said = set(text_words(head)) | set(text_words(reading.text))
    extra = set(reading.found.extra)
    own = _words_of_meaning(reading.meaning)
    others = lists["others"] - (lists["staff"] if reading.meaning.sort != "identifier" else own)
    for words, where in ((name, "it names"), (said, "its description names")):
        other = sorted((words & others) - own)
        if other:
            return f"{where} someone else ({other[0]})"
    if extra:
        return f"its name says more than {reading.meaning.name} ({', '.join(sorted(extra))})"
    people = sorted((tool.words & others) - own)
    if people and not lists["self"].intersection(text_words(head)):
        return f"the tool is about someone else ({people[0]})"
    measured = reading.meaning.unit.endswith(("/L", "/dL", "/mL"))
    if measured and tool.words & lists["specimens"] and not lists["blood"] & (name | said):
        return "the tool is not about blood"
    aims = sorted(tool.name & lists["aims"])
    if aims and not _in_formula(reading, tool):
        return f"the tool is about another quantity ({aims[0]})"
    outside = set(text_words(_APART.sub(" ", head)))
    for words, what in (
        ((outside & lists["altering"]) - own, "another quantity"),
        (((name | said) & lists["things"]) - own, "something else"),
    ):
        if words:
            return f"its description is of {what} ({min(words)})"
    moment = _MOMENT.search(head)
    if moment is not None:
        return f"its description is of another time ({moment[0].casefold()})"
    owner = next((w for w in _OWNER.findall(unaccented(head).casefold())), "")
    if owner and owner not in meanings.lexicon and not suffix_units((owner,)):
        return f"its description is of something else ({owner})"
    things = sorted((tool.words & lists["things"]) - own)
    if things and reading.found.weak and not _in_formula(reading, tool):
        return f"the tool is about something else ({things[0]})"
    mentioned = [m for _, m, _ in meanings.mentions(text_words(head))]
    if mentioned and reading.meaning not in mentioned and not reading.described:
        return f"its description names {mentioned[0].name}"
    return ""


def _words_of_meaning(meaning: Meaning) -> set[str]:
    return {word for bag in meaning.bags for word in bag} | set(text_words(meaning.name))


def _unit_apart(reading: Reading, siblings: Sequence[Words]) -> bool:
    own = words_of(reading.field.path[-1])
    for words in siblings:
        if words[-1:] in (("unit",), ("units",)) and words[:-1] in ((), own):
            return not reading.field.unit
    return False


def _of_person(reading: Reading, tool: Tool) -> bool:
    """Whether the tool speaks of the person, which says more of bodies than of money."""
    return reading.meaning.field != "finance" and bool(tool.words & data()["self"])


def _in_formula(reading: Reading, tool: Tool) -> bool:
    return reading.meaning.name in tool.inputs


def _evidence(reading: Reading, tool: Tool, asked: Asked) -> dict[str, str]:
    """What speaks for a reading beside its name, by kind."""
    lists = data()
    found: dict[str, str] = {}
    name = words_of(reading.field.path[-1])
    if asked.stated and (reading.described or not suffix_units(name)):  # "years" is its own unit
        found["unit"] = asked.how
    head = text_words(first_sentence(reading.text))
    path = (word for part in reading.field.path for word in words_of(part))
    around = lists["self"].intersection((*head, *path))
    hit = match(head, reading.meaning) if head else None
    if not reading.described and hit is not None and (not hit.weak or around):
        found["description"] = "its description agrees"
    elif around or (_of_person(reading, tool) and len(key_of(name)) >= _TELLING):
        found["person"] = "it is about the person"
    if reading.meaning.sort == "flag" and not isinstance(
        ends_of(reading.field, reading.meaning), str
    ):
        found["form"] = "its choices are those of the value"
    if _in_formula(reading, tool):
        found["formula"] = f"the tool computes {tool.formula}"
    about = lists["finance" if reading.meaning.field == "finance" else "medicine"]
    if tool.words & about or len(tool.company - {reading.meaning.name}) >= 2:
        found["context"] = "the tool is about such values"
    return found


def _confidence(reading: Reading, reasons: dict[str, str], meanings: Meanings) -> float:
    count = len(reasons)
    contextual = len(reasons.keys() - {"unit"})
    head = re.sub(r"\S+/\S+", " ", first_sentence(reading.text))
    unknown = [w for w in text_words(head) if w not in meanings.lexicon]
    puzzling = [w for w in unknown if not w[:1].isdigit() and not suffix_units((w,))]
    if reading.described:
        enough = "unit" in reasons and contextual >= 1
        return 0.91 + 0.02 * contextual if enough else 0.6
    if not reading.found.weak:
        return min(0.99, 0.92 + 0.02 * count)
    if puzzling and "formula" not in reasons:
        count = count - 1 if "description" in reasons else 0
    if count >= 2:
        return min(0.98, 0.86 + 0.03 * count)
    return 0.5 + 0.1 * max(count, 0)


_LONGEST: Final = 5  # words of what a calculation is called: "atherogenic index of plasma"
_ENOUGH: Final = 0.5  # of a formula's roots; a tool that takes half of them computes something else
_LEAST_INPUTS: Final = 3  # two, weight and height say, are the inputs of many calculations


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A template's calculation: what it is called, which roots it takes, what stands for which."""

    template: str
    keys: frozenset[str]
    roots: frozenset[str]
    behind: dict[str, frozenset[str]]


def formula_of(
    tool_name: str,
    description: str,
    asked: Iterable[str],
    templates: Sequence[Template],
    *,
    nothing_else: bool,
) -> Known | None:
    """The one calculation that the tool's name, description and inputs agree on, if there is one.

    `asked` are the names of what its parameters may mean. A name is not enough without the inputs;
    the inputs are enough alone only if there are three or more, no other calculation has them and
    the tool takes `nothing_else`.
    """
    every = known(tuple(templates))
    named, said = _keys(words_of(tool_name)), _keys(text_words(description))
    inputs = frozenset(asked)
    ranked: list[tuple[float, Known]] = []
    for each in every:
        given = {root for name in inputs for root in each.behind.get(name, ())} & each.roots
        share = len(given) / len(each.roots)
        longest = max((len(k) for k in each.keys & (named | said)), default=0)
        if longest and share > _ENOUGH:
            bonus = 2.0 if each.keys & named else 1.0
            ranked.append((bonus + share, each))
    if ranked:
        best = max(score for score, _ in ranked)
        top = [each for score, each in ranked if score == best]
        return top[0] if len(top) == 1 else None
    exact = [each for each in every if each.roots == inputs]
    telling = nothing_else and len(inputs) >= _LEAST_INPUTS
    return exact[0] if len(exact) == 1 and telling else None


@functools.lru_cache(maxsize=32)
def known(templates: tuple[Template, ...]) -> tuple[Known, ...]:
    """The person's calculations first, then the catalog's."""
    own = {template.name: template for template in templates}
    every = own | {name: load_template(name) for name in catalog() if name not in own}
    return tuple(_known(template) for template in every.values())


def _known(template: Template) -> Known:
    graph = Graph.of(template)
    texts = [*names.formulas().get(template.name, ())]
    if not texts:
        texts = [template.name, template.target.name, template.title.partition("(")[0]]
    return Known(
        template=template.name,
        keys=frozenset(key_of(text_words(text)) for text in texts if text.strip()),
        roots=frozenset(map(str, graph.rests_on(template.target.formula))),
        behind={
            node.name: frozenset(map(str, graph.rests_on(Variable(node.name))))
            for node in graph.order
            if node.name != template.target.name
        },
    )


def _keys(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(
        key_of(words[start : start + size])
        for size in range(1, _LONGEST + 1)
        for start in range(len(words) - size + 1)
    )
