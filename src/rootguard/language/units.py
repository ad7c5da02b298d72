"""Units as people write them, and conversion between the units of one root.

A value typed in mmol/L and one typed in mg/dL are the same private value, so they must be read as
the same number and be written back from the same released one. Conversions are affine: a factor
and, for temperatures and HbA1c, an offset. The registry is pint's; what it cannot know (molar
masses, valences, bioassay units) is data in `units.toml`, with its sources. Currencies are not
exchanged. Nothing is guessed: an unknown unit, or one of another dimension, converts to None.
"""

import functools
import itertools
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rootguard.language.fold import bare, digits_in, ends_word, key_of, matches_at, plain
from rootguard.language.lists import either, read_lists

if TYPE_CHECKING:
    import pint

# What pint has no dimensions for; the units of `units.toml` are defined by these.
_OWN_DIMENSIONS = ("charge_equivalent", "bioassay_unit", "glycated_fraction")
_LONGEST_SIGN = 3  # "US$", "CHF": longer spellings of a currency stand after the amount
_DIGITS = re.compile("[0-9]+")
_TEMPERATURES = ("degC", "degF")
_THOUSANDS = "k"
_WORK_HOURS = 2080  # a year; its source is in `units.toml`
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_RAISED = re.compile(r"(?:\^|(?<=m)(?=[23]))([0-9]+)")
UNKNOWN = "an unknown unit"
"""What `readings` give for a count with a multiplier that no unit has; it fits no value."""
_POWER = (
    r"(?:[x*·] ?)?(?:10 ?(?:\^|\*\*|\*|e) ?\{?(?P<power>[0-9]{1,2})\}?"
    r"|10(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2})"
    r"|1?e\+?(?P<short>[0-9]{1,2})|(?P<thousand>1[, ]?000)s?)"
)
_TIMES = {
    **dict.fromkeys(("k", "thou", "thousand", "thousands", "tsd", "tsd.", "tausend", "tys"), 3),
    **dict.fromkeys(("tys.", "тыс", "тыс.", "тысяч", "milliers", "miles", "migliaia"), 3),
    **dict.fromkeys(("milhares", "duizend", "tusen", "bin"), 3),
    **dict.fromkeys(("千", "1000", "1000s", "1,000", "1,000s", "10^3", "10³"), 3),
    **dict.fromkeys(("m", "mil", "mill", "million", "millions", "mio", "mln", "млн", "10^6"), 6),
    **dict.fromkeys(("mio.", "mill.", "mln.", "млн.", "millionen", "millones", "milioni"), 6),
    **dict.fromkeys(("万", "萬"), 4),
    **dict.fromkeys(("lakh", "lakhs", "lac", "lacs"), 5),
    **dict.fromkeys(("billion", "billions", "giga", "10^9"), 9),
    **dict.fromkeys(("trillion", "trillions", "tera", "10^12"), 12),
    **dict.fromkeys(("hundred", "hundreds", "crore", "crores"), None),
}
_VOLUMES = {
    6: r"(?:u|mc|micro)l|mm ?(?:\^?3|³)|cu\.? ?mm|c\.?mm|cubic mm|cubic millimet(?:er|re)s?"
    r"|microlit(?:er|re)s?|мкл|мм3",
    3: r"ml|millilit(?:er|re)s?|cm ?(?:\^?3|³)|мл",
    1: r"dl|decilit(?:er|re)s?",
    0: r"l|lit(?:er|re)s?|л|升",
}
_ELSEWHERE = {"mil": -3}
"""Multipliers that are another one in another language, and by how many powers of ten: "mil" is a
million in English, a thousand in Spanish and Portuguese."""
_COUNTED = {6: "/uL", 9: "10^9/L", 10: "10^4/uL", 11: "10^5/uL", 12: "10^12/L"}


_VOLUME = "|".join(f"(?P<v{exponent}>{volume})" for exponent, volume in _VOLUMES.items())
_AFTERWARDS = rf",? ?[(\[]?(?:in |x ?)(?P<after>{either(_TIMES)})(?![^\W_])[)\]]?"
_COUNT = re.compile(
    rf"(?:{_POWER}|(?:x ?)?(?P<times>{either(_TIMES)}))(?: ?(?:of )?(?:cells|platelets))?"
    rf"(?: ?/ ?| per (?:an? )?|_per_|_)(?:{_VOLUME})(?![^\W_])(?:{_AFTERWARDS})?"
)
_COUNT_AFTER = re.compile(rf"(?:/ ?|per (?:an? )?)(?:{_VOLUME})(?![^\W_]){_AFTERWARDS}")
_COUNT_FIRSTS = frozenset("x*·1e/p") | {word[0] for word in _TIMES}


@dataclass(frozen=True, kw_only=True, slots=True)
class Substance:
    """What ties a substance's units together: molar mass in g/mol, valence, or a measured line."""

    name: str
    molar_mass: float | None = None
    valence: int | None = None
    bridge: tuple[str, str, float, float] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Affine:
    """y = scale * x + offset."""

    scale: float
    offset: float = 0.0

    def __call__(self, value: float) -> float:
        """The value in the other unit."""
        return self.scale * value + self.offset

    def then(self, after: "Affine") -> "Affine":
        """First here, then there."""
        return Affine(scale=after.scale * self.scale, offset=after(self.offset))

    def back(self) -> "Affine":
        """The conversion the other way."""
        return Affine(scale=1 / self.scale, offset=-self.offset / self.scale)


@dataclass(frozen=True, slots=True)
class _Table:
    """Spellings, what each can mean, and by their first two characters how long they are."""

    meanings: Mapping[str, tuple[str, ...]]
    lengths: Mapping[str, tuple[int, ...]]
    letters: frozenset[str]
    """Spellings of one character."""

    @classmethod
    def of(cls, meanings: Mapping[str, tuple[str, ...]]) -> "_Table":
        letters = frozenset(spelling for spelling in meanings if len(spelling) == 1)
        lengths: dict[str, set[int]] = {}
        for spelling in meanings:
            if len(spelling) > 1:
                every = lengths.setdefault(spelling[:2], set())
                every.add(len(spelling))
                every.update({1} if spelling[0] in letters else ())
        longest_first = {head: tuple(sorted(all_, reverse=True)) for head, all_ in lengths.items()}
        return cls(meanings, longest_first, letters)

    def lengths_at(self, text: str, at: int) -> tuple[int, ...]:
        """How long the spellings may be that begin at a place, the longest first."""
        # By one character there are six times as many lengths to be tried beside a number.
        found = self.lengths.get(text[at : at + 2])
        if found is not None:
            return found
        return (1,) if text[at : at + 1] in self.letters else ()


@functools.cache
def _data() -> Mapping[str, Any]:
    return read_lists("rootguard.language", "units.toml")


@functools.cache
def _spellings() -> _Table:
    """Every spelling and the units it can mean: the one that it names, then those of the data."""
    described = _data()["units"]
    table: dict[str, list[str]] = {plain(unit): [unit] for unit in described}
    for unit, entry in described.items():
        for spelling in (unit, *entry["spellings"]):
            base = bare(plain(spelling))
            raised = _RAISED.sub(lambda power: power[1].translate(_SUPERSCRIPTS), base)
            for variant in {
                base,
                raised,
                base.replace("/", "_"),
                base.replace("/", " per ").strip(),
            }:
                meanings = table.setdefault(variant, [])
                if unit not in meanings:
                    meanings.append(unit)
    return _Table.of({spelling: tuple(units) for spelling, units in table.items()})


@functools.cache
def _money() -> _Table:
    return _Table.of(
        {
            bare(plain(spelling)): (code,)
            for code, spellings in _data()["currencies"].items()
            for spelling in (code, *spellings)
        }
    )


@functools.cache
def _periods() -> _Table:
    periods = _data()["periods"].items()
    return _Table.of({bare(plain(s)): (period,) for period, many in periods for s in many})


@functools.cache
def period_words() -> Mapping[str, str]:
    """The single words that say how often, and the period that each says."""
    return {
        spelling: period
        for period, spellings in _data()["periods"].items()
        for spelling in spellings
        if spelling.isalpha()
    }


@functools.cache
def _money_signs() -> Mapping[str, list[str]]:
    """Currencies as written before an amount, longest first, by their last character."""
    found: dict[str, list[str]] = {}
    short = (s for s in _money().meanings if len(s) <= _LONGEST_SIGN)
    for spelling in sorted(short, key=lambda s: (-len(s), s)):
        found.setdefault(spelling[-1], []).append(spelling)
    return found


@functools.cache
def currencies() -> frozenset[str]:
    """The codes of the currencies."""
    return frozenset(_data()["currencies"])


@functools.cache
def also_words() -> frozenset[str]:
    """Spellings of units that are ordinary words too, such as "in" and "a"."""
    return frozenset(_data()["also_words"])


@functools.cache
def canonical(spelling: str) -> str | None:
    """The unit's own spelling ("USD/month", "mg/dL"), or None for a unit nobody described."""
    text = bare(plain(spelling.strip()))
    if text in _spellings().meanings:
        return _spellings().meanings[text][0]
    counted = _count(text, 0)
    if counted and counted[0][1] == len(text):
        return counted[0][0] if counted[0][0] != UNKNOWN else None
    code, slash, period = text.partition("/")
    money = _money_code(code.strip())
    if money is None or not slash:
        return money
    found = _periods().meanings.get(f"/{period.strip()}")
    return None if found is None else f"{money}/{found[0]}"


def _money_code(text: str) -> str | None:
    """A currency, or thousands of it: "usd", "k$"."""
    known = _money().meanings
    if text in known:
        return known[text][0]
    thousands = known.get(text[1:].strip()) if text[:1] == _THOUSANDS else None
    return None if thousands is None else f"{_THOUSANDS}{thousands[0]}"


def readings(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The units that can be read at a place of a plain text, and where each ends; longest first.

    A count is read whole or as `UNKNOWN`: "x10^7/uL" without its multiplier would be "/uL".
    """
    counted = _count(text, at)
    if counted:
        yield from counted
        return
    yield from _readings(_spellings(), text, at)


def _count(text: str, at: int) -> tuple[tuple[str, int], ...]:
    """A multiplier over a volume, and where it ends; two if languages differ about it."""
    if text[at : at + 1] not in _COUNT_FIRSTS:
        return ()
    found = _COUNT.match(text, at) or _COUNT_AFTER.match(text, at)
    if found is None or found[0] in _spellings().meanings:  # "k/l" may be listed as something else
        return ()
    given = found.groupdict()
    exponent = next(each for each in _VOLUMES if given[f"v{each}"])
    for digits in (given.get("power"), given.get("raised"), given.get("short")):
        exponent += int(unicodedata.normalize("NFKC", digits)) if digits else 0
    exponent += 3 if given.get("thousand") else 0
    for word in (given.get("times"), given.get("after")):
        more = _TIMES[word] if word else 0
        if more is None:
            return ((UNKNOWN, found.end()),)
        exponent += more
    other = _ELSEWHERE.get(given.get("times") or "")
    every = (exponent,) if other is None else (exponent, exponent + other)
    return tuple((_COUNTED.get(each, UNKNOWN), found.end()) for each in every)


@functools.cache
def multiplier_words() -> Mapping[str, int | None]:
    """Words that multiply a unit or a count, and by which power of ten; None if by no whole one."""
    listed = _data()["multipliers"]
    powers: dict[str, int | None] = {
        word: round(math.log10(float(factor)))
        for factor, words in listed.items()
        if factor != "money"
        for word in words
    }
    return powers | {w: n for w, n in _TIMES.items() if w.strip(".").isalpha()}


def read_currency(text: str, at: int) -> tuple[str, int] | None:
    """The currency written at a place of a plain text, and where it ends."""
    return next(_readings(_money(), text, at), None)


def currency_before(text: str, end: int) -> tuple[str, int] | None:
    """The currency written just before a place of a plain text, and where it begins."""
    edge = end - 1 if text[max(0, end - 1) : end] == " " else end
    for spelling in _money_signs().get(text[max(0, edge - 1) : edge], ()):
        start = edge - len(spelling)
        if start < 0 or not text.startswith(spelling, start):
            continue
        if not (spelling[0].isalnum() and start > 0 and text[start - 1].isalnum()):
            return _money().meanings[spelling][0], start
    return None


def read_period(text: str, at: int) -> tuple[str, int] | None:
    """The period ("a year") written at a place of a plain text, and where it ends."""
    return next(_readings(_periods(), text, at), None)


def _readings(table: _Table, text: str, at: int) -> Iterator[tuple[str, int]]:
    for length in table.lengths_at(text, at):
        end = at + length
        meanings = table.meanings.get(text[at:end])
        if meanings is None or end > len(text):
            continue
        after = text[end : end + 2]
        divided = after[:1] == "/" and after[1:].isalpha() and text[end - 1].isalnum()
        if ends_word(text, end) and not divided:
            yield from zip(meanings, itertools.repeat(end))


@functools.cache
def _numbered() -> tuple[re.Pattern[str], Mapping[str, tuple[str, ...]]]:
    """Units with digits of their own, and what stands before their first digit, by this digit."""
    numbered = [s for s in _spellings().meanings if re.search(r"(?<![a-z])[0-9]", s)]
    body = either(numbered)
    power = rf"(?:[x*·] ?)?10 ?(?:\^|\*\*?) ?[0-9]{{1,2}}(?: ?/ ?| per )(?:{_VOLUME})"
    pattern = re.compile(rf"(?<![0-9.,])(?:{power}|{body})(?![^\W_])")
    before: dict[str, set[str]] = {"1": {"", *(s + b for s in "x*·" for b in ("", " "))}}
    for found in filter(None, map(_DIGITS.search, numbered)):
        before.setdefault(found[0][0], set()).add(found.string[: found.start()])
    return pattern, {digit: tuple(sorted(each)) for digit, each in before.items()}


def digits_in_units(text: str) -> list[tuple[int, int]]:
    """Where a plain text has units that hold digits of their own, such as 10^9/L."""
    pattern, before = _numbered()
    places = {
        digit - len(opening)
        for digit in digits_in(text)
        for opening in before.get(text[digit], ())
        if text.endswith(opening, 0, digit)
    }
    return [match.span() for match in matches_at(pattern, text, sorted(places))]


def unstated(unit: str) -> tuple[str, ...]:
    """The units that a bare number beside a root in this unit may be in instead."""
    return tuple(_data()["units"].get(unit, {}).get("unstated", ()))


def fits(written: str, own: str, substance: str | None) -> str | None:
    """The unit that a written one stands for beside a root in unit `own`; None if it cannot.

    A looser spelling takes what it leaves out from the root: dollars beside a root in dollars a
    month, percent beside a root in percent a year.
    """
    own_unit = canonical(own)
    if own_unit is None:
        return None
    loose = _data()["units"].get(own_unit, {}).get("loose", ())
    if written in loose or written == own_unit.partition("/")[0] in _data()["currencies"]:
        return own_unit
    return written if _affine(written, own_unit, substance) is not None else None


@functools.cache
def substance_of(names: tuple[str, ...]) -> str | None:
    """The substance that a root of these names (its own and its aliases) measures, if described."""
    called = {key_of(name) for name in names}
    for substance, entry in _data()["substances"].items():
        if any(key_of(name) in called for name in entry["names"]):
            return str(substance)
    return None


def convert(
    value: float, from_unit: str, to_unit: str, substance: str | None = None
) -> float | None:
    """The value in another unit; None if a unit is unknown or the two measure different things."""
    affine = conversion(from_unit, to_unit, substance)
    return None if affine is None else affine(value)


def conversion(from_unit: str, to_unit: str, substance: str | None = None) -> Affine | None:
    """How a value is converted; None if a unit is unknown or the two measure different things."""
    source, target = canonical(from_unit), canonical(to_unit)
    if source is None or target is None:
        return None
    return _affine(source, target, substance)


@functools.lru_cache(maxsize=4096)
def _affine(source: str, target: str, substance: str | None) -> Affine | None:
    """Directly, or over one of the substance's ties."""
    if source == target:
        return Affine(scale=1.0)
    direct = _direct(source, target)
    if direct is not None or substance is None:
        return direct
    for left, right, tie in _ties(substance):
        for near, far, step in ((left, right, tie), (right, left, tie.back())):
            there, onward = _direct(source, near), _direct(far, target)
            if there is not None and onward is not None:
                return there.then(step).then(onward)
    return _through_amount(source, target, substance)


def _through_amount(source: str, target: str, substance: str) -> Affine | None:
    """Mass to charge takes two ties: mass to amount, then amount to charge."""
    if "mmol/L" in (source, target):
        return None
    first, second = (
        _affine(source, "mmol/L", substance),
        _affine("mmol/L", target, substance),
    )
    return None if first is None or second is None else first.then(second)


def _ties(substance: str) -> list[tuple[str, str, Affine]]:
    found = describe(substance)
    ties = []
    if found.molar_mass is not None:
        ties.append(("g/L", "mol/L", Affine(scale=1 / found.molar_mass)))
    if found.valence is not None:
        ties.append(("mmol/L", "mEq/L", Affine(scale=float(found.valence))))
    if found.bridge is not None:
        left, right, factor, offset = found.bridge
        ties.append((left, right, Affine(scale=factor, offset=offset)))
    return ties


@functools.cache
def describe(substance: str) -> Substance:
    """What is known of a substance."""
    entry = _data()["substances"][substance]
    bridge = entry.get("bridge")
    return Substance(
        name=substance,
        molar_mass=entry.get("molar_mass"),
        valence=entry.get("valence"),
        bridge=bridge and (bridge["from"], bridge["to"], bridge["factor"], bridge["offset"]),
    )


@functools.lru_cache(maxsize=4096)
def _direct(source: str, target: str) -> Affine | None:
    """By the registry alone."""
    if source == target:
        return Affine(scale=1.0)
    import pint  # half a second to import, and most texts need no conversion

    registry, names = _registry()
    if source not in names or target not in names:
        return None
    zero = 0.0
    try:
        if names[source] in _TEMPERATURES:  # the only scales whose zeros differ
            zero = registry.Quantity(0.0, names[source]).to(names[target]).magnitude
            source, target = f"delta_{names[source]}", f"delta_{names[target]}"
        else:
            source, target = names[source], names[target]
        scale = registry.Quantity(1.0, source).to(target).magnitude
    except pint.DimensionalityError:
        return None
    return Affine(scale=float(scale), offset=float(zero))


@functools.cache
def _registry() -> "tuple[pint.UnitRegistry[Any], Mapping[str, str]]":
    """The registry with our units defined, and what each of them is called in it."""
    import pint

    registry: pint.UnitRegistry[Any] = pint.UnitRegistry()
    for dimension in (*_OWN_DIMENSIONS, *(f"money_{code}" for code in _data()["currencies"])):
        registry.define(f"{dimension} = [{dimension}_dimension]")
    names: dict[str, str] = {}
    definitions = {unit: entry["pint"] for unit, entry in _data()["units"].items()}
    for code, factor in itertools.product(_data()["currencies"], ("", _THOUSANDS)):
        amount = f"{1000 if factor else 1} * money_{code}"
        definitions[f"{factor}{code}"] = amount
        for period in _data()["periods"]:
            time = period if period != "hour" else f"year * {_WORK_HOURS}"
            definitions[f"{factor}{code}/{period}"] = f"{amount} / {time}"
    for number, (unit, definition) in enumerate(definitions.items()):
        names[unit] = definition
        if definition not in _TEMPERATURES:
            names[unit] = f"written_unit_{number}"
            registry.define(f"written_unit_{number} = {definition}")
    return registry, names
