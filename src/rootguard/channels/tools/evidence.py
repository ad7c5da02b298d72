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
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rootguard.channels.tools.fields import Field, ends_of
from rootguard.channels.tools.units import (
    Asked,
    asked_unit,
    fitting,
    suffix_units,
    without_described_units,
)
from rootguard.channels.tools.words import (
    Match,
    Meaning,
    Meanings,
    Words,
    data,
    key_of,
    match,
    several,
    text_words,
    words_of,
)
from rootguard.expressions import Variable
from rootguard.graph import Graph
from rootguard.language import names
from rootguard.language.fold import unaccented
from rootguard.language.units import period_words
from rootguard.template import Template, catalog, load_template

# Above this the owner's value goes into a stranger's call, below it the owner is asked. On the
# stored schemas nothing above it is wrong (docs/mcp-schemas.md).
ACT_ABOVE: Final = 0.9
_LONGEST_UNIT: Final = 4  # words: `ml_min_1_73`
_TELLING: Final = 3  # letters of a name that says something beside the person: not `x`, `bp`
# Both are below `ACT_ABOVE`; which is shown first to the owner is all that they decide.
OBJECTED: Final = 0.4
_UNCLEAR: Final = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """What is known of the tool around a parameter."""

    words: frozenset[str]
    name: frozenset[str]
    called: Words = ()
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
    """A description up to its first full stop, bar or line break."""
    return re.split(r"\.\s|[;\n]|\s\|\s", text, maxsplit=1)[0]


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
    head = _ASIDE.sub(" ", first_sentence(text))
    words = text_words(head)
    # As it is first: "INR" is a ratio before it is a currency.
    tried = [words, _without_unit(words), text_words(without_described_units(head))]
    for each in dict.fromkeys(tried):
        hit = match(each, meaning) if each else None
        if hit is not None and not hit.extra:
            return Reading(field=field, found=hit, named=None, misfit="", described=True, text=text)
    return None


def _without_unit(words: Words) -> Words:
    while words and suffix_units(words[-1:]):
        words = words[:-1]
    return words


def judge(reading: Reading, tool: Tool, meanings: Meanings, siblings: Sequence[Words]) -> Verdict:
    """How sure a reading is."""
    reading = _diagnosed(reading, tool, meanings)
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
    if not objection and _names_beside(reading, siblings):
        objection = "it names the value beside it"
    if not objection and reading.field.several:
        objection = "it stands in a list of several"
    if objection:
        return Verdict(reading=reading, confidence=OBJECTED, reason=objection, asked=asked)
    reasons = _evidence(reading, tool, asked)
    confidence = _confidence(reading, reasons, meanings)
    spelled = "described as" if reading.described else "named as"
    words = ", ".join((f"{spelled} {reading.meaning.name}", *reasons.values()))
    if confidence <= ACT_ABOVE:
        words = f"{words}: too little to be sure"
    return Verdict(reading=reading, confidence=round(confidence, 2), reason=words, asked=asked)


_VALUES: Final = frozenset(
    ("value", "amount", "quantity", "result", "number", "reading", "measurement", "unit", "units")
)


def _names_beside(reading: Reading, siblings: Sequence[Words]) -> bool:
    """Whether a name is no person's: {"name": "AST", "value": 47}."""
    return (
        reading.meaning.sort == "identifier"
        and words_of(reading.field.path[-1]) == ("name",)
        and any(words and (_VALUES.issuperset(words) or words == ("n",)) for words in siblings)
    )


_EARLIER: Final = frozenset(("earlier", "previous", "prior", "past", "history"))
_OWNER: Final = re.compile(r"\bof (?:the |a |an |each |this |that )?([^\W\d_]+)")
_MOMENT: Final = re.compile(
    r"\bat (?!rest\b|admission\b|present\b|least\b|most\b)\w+", re.IGNORECASE
)
_APART: Final = re.compile(r"[(\[][^)\]]*[)\]]|\S+/\S+")


def _objection(reading: Reading, tool: Tool, meanings: Meanings) -> str:
    """What speaks against a reading, whatever speaks for it."""
    lists = data()
    name = {word for part in reading.field.path for word in words_of(part)}
    head = first_sentence(without_described_units(reading.text))
    said = set(text_words(_without_names(head))) | set(text_words(_without_names(reading.text)))
    extra = set(reading.found.extra)
    own = _words_of_meaning(reading.meaning)
    if own & _EARLIER:  # an earlier stroke is a prior one, and one in the history
        own = own | _EARLIER
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
    aimed = [m for _, m, _ in meanings.mentions(tuple(tool.called))]
    own_aim = not aimed or reading.meaning in aimed
    if aims and own_aim and not _in_formula(reading, tool):
        return f"the tool is about another quantity ({aims[0]})"
    outside = set(text_words(_APART.sub(" ", head)))
    things = lists["things"] - lists["passing"]
    for words, what in (
        ((outside & lists["altering"]) - own, "another quantity"),
        (((name | said) & things) - own, "something else"),
    ):
        if words:
            return f"its description is of {what} ({min(words)})"
    shared = sorted((name | said) & _SHARED)
    if shared and "income" in own:
        return f"its description is of several people ({shared[0]})"
    phrase = _phrase(reading, head, meanings)
    if phrase:
        return f"its description is of another quantity ({phrase})"
    moment = _MOMENT.search(head)
    if moment is not None:
        return f"its description is of another time ({moment[0].casefold()})"
    owner = next((w for w in _OWNER.findall(unaccented(head).casefold())), "")
    known_thing = owner in lists["things"] | lists["others"] and owner not in own | lists["self"]
    if known_thing or (owner and owner not in meanings.lexicon and not suffix_units((owner,))):
        return f"its description is of something else ({owner})"
    around = sorted((tool.words & (things | (lists["passing"] & tool.name))) - own)
    if around and reading.found.weak and not _in_formula(reading, tool):
        return f"the tool is about something else ({around[0]})"
    flag = reading.meaning.sort == "flag"
    mentioned = [
        m
        for _, m, weak in meanings.mentions(text_words(head))
        if not flag or (not weak and not _is_diagnosis(reading.meaning, m))
    ]
    if mentioned and reading.meaning not in mentioned and not reading.described:
        return f"its description names {mentioned[0].name}"
    if reading.described and reading.meaning.domain is None and _several(reading.field):
        return f"its name may be any of several values, and {reading.meaning.name} is computed"
    if reading.meaning.substance == "glucose" and not _fasting(reading, tool, said | name):
        return "it does not say that the glucose is a fasting one"
    return _narrower(reading, tool, said | name)


def _several(field: Field) -> bool:
    """Whether a name stands for several values at once, such as cholesterol."""
    return key_of(words_of(field.path[-1])) in several()


_SHARED: Final = frozenset(("household", "joint", "combined", "couple", "couples", "families"))
_TOKEN: Final = re.compile(r"[^\W_]+")
_JOINT: Final = re.compile(r"[\s\u2019'-]*")
_FASTING: Final = frozenset(
    ("fasting", "fasted", "fbg", "fpg", "fbs", "nuchtern", "ayunas", "ayuno", "jeun", "jejum")
) | frozenset(("digiuno", "nuchter", "czczo", "aclik", "натощак"))


def _fasting(reading: Reading, tool: Tool, said: set[str]) -> bool:
    """Whether a glucose is asked for as the root has it; most glucose is measured unfasted."""
    rooted = any("fasting" in key for key in reading.meaning.spellings)
    words = {unaccented(word) for word in said | set(tool.words)}
    inside = any(sign in word for word in words for sign in ("nuchtern", "空腹"))
    return not rooted or inside or bool(_FASTING & words) or tool.formula in _FASTED


_FASTED: Final = frozenset(("homa", "quicki", "tyg"))
"""Calculations that are of fasting values only, so that a tool need not say it."""


def _narrower(reading: Reading, tool: Tool, said: set[str]) -> str:
    """Why a flag may be less than the root, which holds for one thing or another."""
    wider = [bag - {"or"} for bag in reading.meaning.bags if "or" in bag]
    if reading.meaning.sort != "flag" or not wider or _in_formula(reading, tool):
        return ""
    own = {word for bag in reading.meaning.bags if "or" not in bag for word in bag}
    beyond = {word for bag in wider for word in bag} - own | {"ifg", "prediabetes"}
    if beyond & said:
        return ""
    return f"{reading.meaning.name} of the profile holds for more than it says"


_DIAGNOSED: Final = frozenset(("diagnosed", "diagnosis", "dx", "with", "of"))


def _diagnosed(reading: Reading, tool: Tool, meanings: Meanings) -> Reading:
    """A flag that holds for more than is asked, read as the diagnosis alone if there is one.

    Who has "diabetes or impaired fasting glucose" and "diagnosed diabetes" is asked for the second
    by a tool that says diabetes.
    """
    said = {*text_words(reading.text), *words_of(reading.field.path[-1])}
    if not _narrower(reading, tool, said):
        return reading
    narrow = next((m for m in meanings.all if _is_diagnosis(m, reading.meaning)), None)
    return (
        reading
        if narrow is None
        else replace(reading, found=replace(reading.found, meaning=narrow))
    )


def _is_diagnosis(flag: Meaning, wider: Meaning) -> bool:
    """Whether a flag is the diagnosis of what another one holds for, or for more."""
    said = (bag - _DIAGNOSED for bag in flag.bags if bag & _DIAGNOSED)
    return flag.sort == "flag" and any(bag in wider.bags for bag in said)


def _phrase(reading: Reading, head: str, meanings: Meanings) -> str:
    """The noun phrase in which the value stands, if it is of something else.

    "Vascular age" is no age, and an "age rating" no age either: what stands right before a name
    modifies it, and what stands right behind it is the noun that is meant.
    """
    lists = data()
    tokens = list(_TOKEN.finditer(unaccented(head).casefold()))
    words = tuple(token[0] for token in tokens)
    place = meanings.named(words, reading.meaning)
    if place is None or reading.meaning.sort != "value":
        return ""
    start, end = place
    text = unaccented(head).casefold()
    fine = lists["harmless"] | lists["neutral"] | lists["self"] | _words_of_meaning(reading.meaning)

    def joined(left: int) -> bool:
        """Whether two words stand in one phrase; one in another script is a translation beside."""
        together = _JOINT.fullmatch(text, tokens[left].end(), tokens[left + 1].start())
        return bool(together) and latin(words[left]) == latin(words[left + 1])

    before = start - 1
    while before >= 0 and joined(before) and words[before] not in LINKS:
        word = words[before]
        if not (word in fine or word.isdigit() or word in period_words() or _reads(word)):
            return f"{word} {words[start]}"
        before -= 1
    after = end
    while after < len(words) and joined(after - 1) and words[after] in lists["neutral"] - LINKS:
        after += 1
    if after < len(words) and joined(after - 1) and words[after] not in LINKS:
        word = words[after]
        if reading.meaning.domain is None and word in ("score", "index", "ratio"):
            return ""  # a computed value is one itself
        if word in lists["banded"] | lists["apart"] or not (
            word in fine | lists["plain"] or word.isdigit() or _reads(word)
        ):
            return f"{words[end - 1]} {word}"
    return ""


def latin(word: str) -> bool:
    """Whether a word is in Latin letters or digits."""
    return word.isascii() or unicodedata.name(word[0], "").startswith("LATIN")


def _reads(word: str) -> bool:
    """Whether a word is a unit, which says nothing of whose or which value it is."""
    return bool(suffix_units((word,)))


LINKS: Final = frozenset(
    (
        *(
            "in",
            "of",
            "for",
            "as",
            "at",
            "by",
            "is",
            "are",
            "was",
            "on",
            "with",
            "from",
            "if",
            "to",
        ),
        *("or", "and", "per", "the", "a", "an", "be", "must", "should", "en", "de", "del", "der"),
        *(
            "des",
            "du",
            "la",
            "le",
            "el",
            "und",
            "y",
            "et",
            "ou",
            "o",
            "how",
            "has",
            "have",
            "e",
            "g",
        ),
        *("em", "w", "i", "di", "da", "do", "von", "che", "das", "die", "this", "that", "which"),
        *("used", "measured", "expressed", "given", "true", "whether", "when", "using", "between"),
        *("must", "will", "can", "may", "taken", "required", "optional", "default", "since", "not"),
    )
)


def _without_names(text: str) -> str:
    """A text without names of things in which a person's word stands, such as Child-Pugh."""
    return _eponyms().sub(" ", text)


@functools.cache
def _eponyms() -> re.Pattern[str]:
    listed = sorted(data()["eponyms"], key=len, reverse=True)
    body = "|".join(r"[\W_]{0,2}".join(map(re.escape, each.split())) for each in listed)
    return re.compile(rf"(?<![^\W_])(?:{body})(?![^\W_])", re.IGNORECASE)


def about(text: str) -> frozenset[str]:
    """The words that say what a tool is about; a name that it has once it may shorten later."""
    named = {word for found in _eponyms().findall(text) for word in text_words(found)}
    return frozenset(text_words(_without_names(text))) - named


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
    """How sure a reading is that nothing speaks against.

    What counts is the side of `ACT_ABOVE` on which it comes to lie: above it are a name that can
    mean nothing else, a weak name with two reasons, and a description with its unit and one reason
    more. Within a side the figures only put what is shown to the owner in order.
    """
    count = len(reasons)
    contextual = len(reasons.keys() - {"unit"})
    head = re.sub(r"\S+/\S+", " ", first_sentence(without_described_units(reading.text)))
    unknown = [w for w in text_words(head) if w not in meanings.lexicon]
    puzzling = [w for w in unknown if not w[:1].isdigit() and not suffix_units((w,)) and latin(w)]
    if reading.described:
        enough = "unit" in reasons and contextual >= 1
        return 0.91 + 0.02 * contextual if enough else 0.6
    if not reading.found.weak:
        return min(0.99, 0.92 + 0.02 * count)
    told = meanings.named(text_words(head), reading.meaning)
    strongly = (
        told is not None
        and not reading.meaning.spellings[key_of(text_words(head)[told[0] : told[1]])]
    )
    if puzzling and not strongly and "formula" not in reasons:
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
    needed: Sequence[Collection[str]] = (),
    unread: int = 0,
) -> Known | None:
    """The one calculation that the tool's name, description and inputs agree on, if there is one.

    `asked` are the names of what its parameters may mean. A name is not enough without the inputs:
    BARD speaks of fatty liver too, and MELD 3.0 is not MELD. Each number that the tool `needed`
    must be one of the calculation's, and what the calculation lacks must be among the `unread`
    parameters unless the tool is called by its name. The inputs are enough alone only if there are
    three or more, no other calculation has them and the tool takes `nothing_else`.
    """
    every = known(tuple(templates))
    named, said = _keys(words_of(tool_name)), _keys(text_words(description))
    inputs = frozenset(asked)
    ranked: list[tuple[float, Known]] = []
    spoken = [each for each in every if each.keys & (named | said)]
    own = frozenset().union(*(each.roots | each.behind.keys() for each in spoken))
    for each in every:
        given = {root for name in inputs for root in each.behind.get(name, ())} & each.roots
        share = len(given) / len(each.roots)
        longest = max((len(k) for k in each.keys & (named | said)), default=0)
        spare = len(each.roots) if each.keys & named else unread
        if longest and share > _ENOUGH and _fits_inputs(each, given, needed, spare, own):
            bonus = 2.0 if each.keys & named else 1.0
            ranked.append((bonus + share, each))
    if ranked:
        best = max(score for score, _ in ranked)
        top = [each for score, each in ranked if score == best]
        return top[0] if len(top) == 1 else None
    exact = [each for each in every if each.roots == inputs]
    telling = nothing_else and len(inputs) >= _LEAST_INPUTS
    return exact[0] if len(exact) == 1 and telling else None


def _fits_inputs(
    each: Known,
    given: Collection[str],
    needed: Sequence[Collection[str]],
    spare: int,
    own: frozenset[str],
) -> bool:
    """Whether a tool's inputs can be those of a calculation, of which so many may be missing.

    `own` are the inputs of all calculations that the tool names: it may perform two.
    """
    strange = sum(not names for names in needed)
    missing = len(each.roots) - len(given)
    others = any(names and own.isdisjoint(names) for names in needed)
    return not others and strange <= missing <= spare


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
