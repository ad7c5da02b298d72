"""In which unit a schema asks for a value: read from names, descriptions, bounds and examples.

A number in the wrong unit is a wrong value, so a unit is never assumed where several are in use:
then the question is put, with the units that it may be.
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
    also_words,
    canonical,
    convert,
    currencies,
    fits,
    readings,
)

_OPENERS: Final = re.compile(r"(?:\b(?:in|en|as|units?|unit of)\s*[:=]?\s+|[(\[|,:=]\s*|^\s*)\Z")
_STARTS: Final = re.compile(r"(?<![^\W_])(?=[^\s])|(?=[%/$])")
_FOREIGN_MONEY: Final = re.compile(r"\b(eur|euros?|gbp|chf|jpy|yen|cad|aud|inr|rupees)\b|[€£¥₹]")
_OWN_MONEY: Final = {"USD": re.compile(r"\b(usd|dollars?)\b|\$")}
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
    joined = (canonical(sep.join(words)) for sep in ("_", "/", " "))
    return tuple(dict.fromkeys(unit for unit in joined if unit is not None))


def fitting(unit: str, meaning: Meaning) -> str | None:
    """The unit as this value takes it, or None if it measures something else."""
    if unit == meaning.unit:
        return unit
    if "bpm" in (unit, meaning.unit) or (meaning.unit.startswith("%/") and unit[:1] != "%"):
        return None  # beats and interest have the same dimension, one over time
    return fits(unit, meaning.unit, meaning.substance)


@functools.lru_cache(maxsize=4096)
def units_in(text: str) -> tuple[tuple[str, bool], ...]:
    """Units that a description names, and whether it clearly presents them as units."""
    found: dict[str, bool] = {}
    flat = bare(plain(text))
    end = -1
    for start in (m.start() for m in _STARTS.finditer(flat)):
        if start < end:
            continue
        presented = _OPENERS.search(flat[max(0, start - 12) : start]) is not None or not start
        for unit, stop in _read(flat, start):
            spelled = flat[start:stop]
            if spelled in also_words() and not presented:
                continue
            found[unit] = found.get(unit, False) or presented
            end = stop
    for word in text_words(flat):
        for unit in data()["units"].get(word, ()) if len(word) > 3 else ():
            found.setdefault(unit, True)
    return tuple(found.items())


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
    presented = list(units_in(text)) + [(u, True) for u in _declared(field.unit)]
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
    flat = plain(text)
    other = _FOREIGN_MONEY.search(flat)
    if other is not None and code == "USD":
        return Asked(problem=f"it is in {other[0]}, and currencies are not exchanged")
    own = _OWN_MONEY.get(code)
    stated = named is not None or (own is not None and own.search(flat) is not None)
    if not meaning.periodic:
        return Asked(unit=meaning.unit, stated=stated, how=f"in {code}")
    found = periods or without_periods(text_words(text))[1]
    if len(found) != 1:
        return Asked(problem="it does not say whether it is by the month or by the year")
    return Asked(unit=f"{code}/{next(iter(found))}", stated=True, how=f"by the {next(iter(found))}")


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
