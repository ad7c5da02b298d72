"""In which unit a schema asks for a value: read from names, descriptions, bounds and examples.

A number in the wrong unit is a wrong value, so a unit is never assumed where several are in use:
then the question is put, with the units that it may be. A multiplier that is not understood
("hundreds per µL", "in cents") and a unit that nobody described refuse the reading.
"""

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rootguard.channels.tools.fields import Field
from rootguard.channels.tools.words import (
    Meaning,
    Words,
    data,
    key_of,
    text_words,
    without_periods,
)
from rootguard.language.fold import bare, plain
from rootguard.language.units import (
    UNKNOWN,
    also_words,
    canonical,
    convert,
    currencies,
    fits,
    multiplier_words,
    read_currency,
    read_period,
    readings,
)

_OPENERS: Final = re.compile(r"(?:\b(?:in|en|as|units?|unit of)\s*[:=]?\s+|[(\[|,:=]\s*|^\s*)\Z")
_STARTS: Final = re.compile(r"(?<![^\W_])(?=[^\s])|(?=[%/$])")
_FOREIGN_MONEY: Final = re.compile(r"\b(eur|euros?|gbp|chf|jpy|yen|cad|aud|inr|rupees)\b|[€£¥₹]")
_OWN_MONEY: Final = {"USD": re.compile(r"\b(usd|dollars?)\b|\$")}
_COUNTS: Final = frozenset(("/uL", "10^9/L", "10^12/L", "10^4/uL", "10^5/uL"))
_COUNTING: Final = frozenset(
    (
        *("cell", "cells", "platelet", "platelets", "count", "number", "no", "n", "in", "per"),
        *("zellen", "cellules", "celulas", "cellule", "elements", "клеток", "个", "個"),
    )
)
"""What stands before "/µL" and multiplies nothing."""
_WORD_BEFORE: Final = re.compile(r"([^\W\d_]+)(\.?)( ?)(?:of )?\Z")
_POWER_BEFORE: Final = re.compile(r"(?<![\d.,])10+ ?\Z")
_POWER_AFTER: Final = re.compile(r" ?[x*·] ?10+(?![\d.])|,? \(?in (?:tens|hundreds|thousands)\b")
# A fraction with a unit's denominator, and the words of rates that nobody converts.
_QUOTIENT: Final = re.compile(
    r"(?<![^\W_])[^\W\d_%]+/ ?(?:[µumdcnpf]?l|lit(?:er|re)s?|mol|min|kg|m2|л|мл|мкл)(?![^\W_])"
)
_UNCONVERTED: Final = re.compile(r"\bbasis points?\b|\bbps\b|\bper ?mille?\b|‰")
_SMALL_MONEY: Final = re.compile(r"\b(?:cents?|pence|pennies|minor units?)\b")
_ABSURD: Final = 50  # times the root's own bounds: the unit must be another one
_FRACTION: Final = "fraction"
_AS_FRACTION: Final = re.compile(r"\b(?:decimal|fraction|proportion|0\.\d+ for)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The unit that is asked for, and whether the schema says so; or why that is not clear."""

    unit: str | None = None
    stated: bool = False
    how: str = ""
    problem: str = ""


def suffix_units(words: Words) -> tuple[str, ...]:
    """The units that the last words of a name may spell, all of them together."""
    own = data()["units"].get(key_of(words))
    if own is not None:
        return tuple(own)
    spelled = [sep.join(words) for sep in ("_", "/", " ")]
    power = _NAMED_POWER.fullmatch(spelled[0])
    if power is not None:
        spelled = [f"10^{power[1]}/{power[2]}"]
    joined = map(canonical, spelled)
    return tuple(dict.fromkeys(unit for unit in joined if unit is not None))


_NAMED_POWER: Final = re.compile(r"x?_?10_(\d{1,2})_(?:per_)?([a-z]+3?)")


def fitting(unit: str, meaning: Meaning) -> str | None:
    """The unit as this value takes it, or None if it measures something else."""
    if unit == meaning.unit:
        return unit
    if {unit, meaning.unit} == {"bpm", "Hz"}:
        return unit
    if "bpm" in (unit, meaning.unit) or (meaning.unit.startswith("%/") and unit[:1] != "%"):
        return None  # beats and interest have the same dimension, one over time
    return fits(unit, meaning.unit, meaning.substance)


def units_in(text: str) -> tuple[tuple[str, bool], ...]:
    """Units that a description names, and whether it clearly presents them as units."""
    found: dict[str, bool] = {}
    flat = bare(plain(text))
    places = list(_places(flat))
    for start, stop, unit, presented in places:
        known = UNKNOWN if _multiplied(flat, start, stop, unit) else unit
        found[known] = found.get(known, False) or presented
    for word in text_words(flat):
        for unit in data()["units"].get(word, ()) if len(word) > 3 else ():
            found.setdefault(unit, True)
    for strange in _QUOTIENT.finditer(flat):
        if not any(start < strange.end() and strange.start() < stop for start, stop, *_ in places):
            found[UNKNOWN] = True
    if _UNCONVERTED.search(flat):
        found[UNKNOWN] = True
    return tuple(found.items())


def _places(flat: str) -> Iterator[tuple[int, int, str, bool]]:
    """Where a plain text has units: from, to, which, and whether it presents them as units."""
    end = -1
    for start in (m.start() for m in _STARTS.finditer(flat)):
        if start < end:
            continue
        presented = _OPENERS.search(flat[max(0, start - 12) : start]) is not None or not start
        for unit, stop in _read(flat, start):
            if flat[start:stop] in also_words() and not presented:
                continue
            yield start, stop, unit, presented
            end = stop


def _multiplied(flat: str, start: int, stop: int, unit: str) -> bool:
    """Whether a multiplier that is not part of it stands before or after a unit."""
    before = flat[max(0, start - 24) : start]
    word = _WORD_BEFORE.search(before)
    if word is not None and word[1] in multiplier_words():
        return len(word[1]) > 1 or unit in _COUNTS  # "k" may be potassium
    joined = unit in _COUNTS and word is not None and not word[3] and word[0] == word[1] + word[2]
    if joined and word is not None and word[1] not in _COUNTING:
        return True
    if _POWER_BEFORE.search(before):
        return True
    return _POWER_AFTER.match(flat, stop) is not None


def without_units(text: str) -> str:
    """A text with commas where units stand, so that their words are nobody's: "of mercury"."""
    flat = bare(plain(text))
    if len(flat) != len(text):
        return text
    for start, stop, _, presented in _places(flat):
        if presented or stop - start > 2:
            text = text[:start] + "," * (stop - start) + text[stop:]
    return text


# A tool's descriptions are public and are asked for again and again. What a call or an answer says
# is read by the plain functions: no text of a person's is remembered.
described_units: Final = functools.lru_cache(maxsize=4096)(units_in)
without_described_units: Final = functools.lru_cache(maxsize=4096)(without_units)


def _read(flat: str, start: int) -> Iterator[tuple[str, int]]:
    longest = 0
    for unit, stop in readings(flat, start):
        if stop < longest:
            return
        longest = stop
        yield unit, stop


def asked_unit(
    meaning: Meaning,
    field: Field,
    named: str | None,
    misfit: str,
    periods: frozenset[str],
    text: str,
) -> Asked:
    """The unit asked for: `named` by the parameter's name, else as its description says."""
    if misfit:
        return Asked(problem=f"its name is in {misfit}, which does not measure {meaning.name}")
    if not meaning.unit:
        return Asked(how="a plain number")
    if meaning.unit.partition("/")[0] in currencies():
        return _money(meaning, named, periods, text)
    if meaning.unit.startswith("%") and named is None and _AS_FRACTION.search(plain(text)):
        fit = fitting("L/L", meaning)
        if fit is None:
            return Asked(problem="it is a fraction, which is not converted")
        return _within(meaning, field, fit, Asked(unit=fit, stated=True, how="as a fraction"))
    stated: dict[str, None] = {} if named is None else {named: None}
    wrong = ""
    presented = list(described_units(text)) + [(u, True) for u in _declared(field.unit)]
    if (UNKNOWN, True) in presented or (UNKNOWN, False) in presented:
        return Asked(problem="it is in a unit, or in multiples of one, that is not known here")
    for unit, clearly in presented:
        fit = fitting(unit, meaning)
        if fit is not None:
            stated[fit] = None
        elif clearly:
            wrong = wrong or unit
    spelled = key_of(text_words(meaning.unit))  # nothing of "%", which every text would have
    if not stated and spelled and spelled in key_of(text_words(text)):
        stated[meaning.unit] = None
    if len(stated) > 1:
        return Asked(problem=f"several units are named: {', '.join(stated)}")
    if stated:
        unit = next(iter(stated))
        return _within(meaning, field, unit, Asked(unit=unit, stated=True, how=f"in {unit}"))
    if wrong:
        return Asked(problem=f"it is in {wrong}, which does not measure {meaning.name}")
    return _unstated(meaning, field)


def _declared(unit: str) -> tuple[str, ...]:
    known = canonical(unit) if unit else None
    return () if known is None else (known,)


def _money(meaning: Meaning, named: str | None, periods: frozenset[str], text: str) -> Asked:
    """Money: the currency must not be another one, and a period must be said where one counts."""
    code = meaning.unit.partition("/")[0]
    flat = bare(plain(text))
    other = _FOREIGN_MONEY.search(flat)
    if other is not None and code == "USD":
        return Asked(problem=f"it is in {other[0]}, and currencies are not exchanged")
    power = _money_power(flat)
    if power not in (0, 3):
        return Asked(problem="it is in a multiple or a part of the currency that is not known here")
    own = _OWN_MONEY.get(code)
    stated = named is not None or (own is not None and own.search(flat) is not None)
    amount = f"k{code}" if power else code
    if not meaning.periodic:
        return Asked(unit=amount, stated=stated, how=f"in {amount}")
    found = periods or without_periods(text_words(text))[1] | _period_of(flat)
    if len(found) != 1:
        return Asked(problem="it does not say whether it is by the month or by the year")
    period = next(iter(found))
    how = f"by the {period}" if not power else f"in {amount} by the {period}"
    return Asked(unit=f"{amount}/{period}", stated=True, how=how)


_KILO_MONEY: Final = re.compile(
    r"(?<![^\W_])k ?(?:us)?(?:\$|usd|dollars)|(?:\$|usd) ?k(?![^\W_])|(?:\$|usd) ?1,?000s?(?!\w)"
    r"|(?<![\d,.])[\'’]?000s?(?!\w)|\bin 1,?000s?(?!\w)"
)
_AMOUNT_BEFORE: Final = re.compile(r"\d[ -]?\Z")


def _money_power(flat: str) -> int | None:
    """The power of ten in which an amount is asked for; None if that is not clear.

    A multiplier after a number belongs to that number: "up to 5 million".
    """
    if _SMALL_MONEY.search(flat):
        return None
    found = {3} if _KILO_MONEY.search(flat) else set()
    for word in re.finditer(r"[^\W\d_]{2,}", flat):
        if word[0] in multiplier_words() and not _AMOUNT_BEFORE.search(flat[: word.start()]):
            found.add(multiplier_words()[word[0]] or -1)
    return 0 if not found else next(iter(found)) if len(found) == 1 else None


def _period_of(flat: str) -> frozenset[str]:
    """The period right after a currency: "USD p.a."."""
    found = set()
    for start in (m.start() for m in _STARTS.finditer(flat)):
        money = read_currency(flat, start)
        if money is not None:
            after = money[1] + (flat[money[1] : money[1] + 1] == " ")
            period = read_period(flat, after)
            found |= set() if period is None else {period[0]}
    return frozenset(found)


def _unstated(meaning: Meaning, field: Field) -> Asked:
    usual = meaning.usual or (meaning.unit,)
    if len(usual) == 1:
        return _within(meaning, field, usual[0], Asked(unit=usual[0], how=f"{usual[0]} as usual"))
    bounded = [unit for unit in usual if _plausible(meaning, field, unit)]
    if len(bounded) == 1 and bounded[0] != _FRACTION:
        unit = bounded[0]
        return Asked(unit=unit, stated=True, how=f"in {unit} by its bounds")
    return Asked(problem=f"it does not say in which unit: {', '.join(usual)}")


def _plausible(meaning: Meaning, field: Field, unit: str) -> bool:
    """Whether a typical value in this unit is within the bounds and near the examples."""
    typical = _typical(meaning, unit)
    if typical is None or _coarse(meaning, field, unit):
        return typical is None
    near = all(typical / 2 <= example <= typical * 2 for example in field.examples)
    return field.lower <= typical <= field.upper and near


def _typical(meaning: Meaning, unit: str) -> float | None:
    if meaning.typical is None:
        return None
    if unit == _FRACTION:
        return meaning.typical / 100
    return in_unit(meaning.typical, meaning, unit)


def _within(meaning: Meaning, field: Field, unit: str, good: Asked) -> Asked:
    """The answer, unless the schema's bounds do not let the value through."""
    if _coarse(meaning, field, unit):
        return Asked(problem=f"it takes whole numbers, too coarse for {meaning.name} in {unit}")
    if meaning.domain is None:
        return good
    ends = [in_unit(end, meaning, unit) for end in (meaning.domain.lower, meaning.domain.upper)]
    typical = _typical(meaning, unit)
    if None in ends or typical is None:
        return good
    low, high = sorted(end for end in ends if end is not None)
    shared = min(high, field.upper) - max(low, field.lower)
    if not field.lower <= typical <= field.upper and shared < (high - low) / 10:
        return Asked(problem=f"its bounds do not fit {meaning.name} in {unit}")
    if not good.stated and math.isfinite(field.upper) and field.upper > _ABSURD * high:
        return Asked(problem=f"its bounds are far wider than {meaning.name} in {unit}")
    return good


def _coarse(meaning: Meaning, field: Field, unit: str) -> bool:
    """Whether whole numbers in this unit would say next to nothing."""
    if field.kind != "integer" or meaning.domain is None:
        return False
    ends = [in_unit(end, meaning, unit) for end in (meaning.domain.lower, meaning.domain.upper)]
    if ends[0] is None or ends[1] is None:
        return False
    return abs(ends[1] - ends[0]) < 4


def in_unit(value: float, meaning: Meaning, unit: str) -> float | None:
    """A value of this meaning, from its own unit to another."""
    if unit == meaning.unit:
        return value
    return convert(value, meaning.unit, unit, meaning.substance)


def same_unit(unit: str, meaning: Meaning) -> bool:
    """Whether a unit is the value's own, or another name of it: mEq/L of sodium are mmol/L."""
    return in_unit(0.0, meaning, unit) == 0.0 and in_unit(1.0, meaning, unit) == 1.0
