"""A number with what belongs to it: unit, multiplier, currency, period, feet and inches.

`read_quantity` says what a number means beside a given root, and None if its unit measures
something else. The `Form` it finds is how the released value is written back at the same place: in
the unit and with the marks that stand there. Only digits change; the unit's own text stays.
"""

import re
from dataclasses import dataclass, replace

from rootguard.language import units
from rootguard.language.numbers import WrittenNumber, spell
from rootguard.reading.page import Measure

_MULTIPLIERS = {"k": 1e3, "thousand": 1e3, "grand": 1e3, "million": 1e6, "mio": 1e6, "mn": 1e6}
_MULTIPLIER = re.compile(r"[ \-]?(k|thousand|grand|million|mio|mn|m)(?![^\W_])", re.IGNORECASE)
_COMPOUNDS = {
    "ft": (re.compile(r" ?(?:'|ft\.?|foot|feet)[ \-]{0,2}", re.IGNORECASE), "in", 12.0),
    "m": (
        re.compile(r" ?(?:m|met(?:er|re)s?|metros?|metri?)[ \-]{0,2}", re.IGNORECASE),
        "cm",
        100.0,
    ),
    "st": (re.compile(r" ?(?:stones?|st\.?)[ \-]{0,2}", re.IGNORECASE), "lb", 14.0),
}
_BEFORE_UNIT = re.compile(r"[ \t_\-]{0,2}[(\[*]? ?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """How a released value is written at one place. Holds no value.

    `unit` is the unit as written and `own` the root's; `factor` the multiplier ("85k"); `minor` and
    `middle` the smaller unit of "5'11" and the text between.
    """

    own: str
    unit: str
    substance: str | None
    factor: float = 1.0
    group: str = ""
    decimal: str = "."
    minor: str = ""
    middle: str = ""
    suffix: str = ""

    def read(self, value: float) -> float | None:
        """A number written in this form, in the root's own unit."""
        if self.unit == self.own:
            return value * self.factor
        return units.convert(value * self.factor, self.unit, self.own, self.substance)

    def write(self, released: float) -> str:
        """A released value in this form."""
        if self.unit == self.own and self.factor == 1.0 and not self.minor:
            return spell(released, exact=True, group=self.group, decimal=self.decimal)
        value = released
        if self.unit != self.own:
            converted = units.convert(released, self.own, self.unit, self.substance)
            value = released if converted is None else converted
        if self.minor:
            return self._compound(value)
        value /= self.factor
        text = spell(value, exact=False, group=self.group, decimal=self.decimal)
        return text + self.suffix

    def _compound(self, value: float) -> str:
        ratio = _COMPOUNDS[self.unit][2]
        hundredths = round(value * ratio * 100)
        major, rest = divmod(hundredths, round(ratio * 100))
        return f"{major}{self.middle}{rest / 100:g}"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Quantity:
    """A number in a folded text as a value of one root, in the root's own unit. Private.

    `end` is where the digits to replace end, `after` where what belongs to them does.
    """

    start: int
    end: int
    after: int
    value: float
    form: Form
    stated: bool


def read_quantity(
    text: str,
    number: WrittenNumber,
    measure: Measure,
    following: WrittenNumber | None,
    hint: str | None,
) -> Quantity | None:
    """A number beside a root's name; None if its unit does not fit the root.

    `text` is plain and folded; `following` the next number, for feet and inches; `hint` a unit
    that stands elsewhere ("AST (U/L): 23"), used if none stands here.
    """
    if number.value is None:
        return None
    compound = _read_compound(text, number, measure, following)
    if compound is not None:
        return compound
    if measure.money:
        return _read_money(text, number, measure, hint)
    if units.currency_before(text, number.start) is not None:
        return None
    at = _BEFORE_UNIT.match(text, number.end)
    place = number.end if at is None else at.end()
    unit, after, stated = None, number.end, False
    found = list(units.readings(text, place))
    for written, end in found:
        unit = units.fits(written, measure.unit, measure.substance)
        if unit is not None:
            after, stated = end, True
            break
    if unit is None and found and not _could_be_word(text, place, found[0][1], measure):
        return None
    if unit is None:
        multiplier = _MULTIPLIER.match(text, number.end)
        if multiplier is not None and multiplier[1].lower() in _MULTIPLIERS:
            factor = _MULTIPLIERS[multiplier[1].lower()]
            return _quantity(number, multiplier.end(), measure, None, factor=factor)
        if _feet_mark(text, number, measure):
            unit, stated = "ft", True
    return _quantity(number, after, measure, unit or hint, stated=stated or hint is not None)


def _could_be_word(text: str, start: int, end: int, measure: Measure) -> bool:
    """Whether what reads as a misfit unit may be a plain word, or the root's unit is unknown."""
    known = units.canonical(measure.unit) is not None or not measure.unit
    return not known or text[start:end] in units.also_words()


def _feet_mark(text: str, number: WrittenNumber, measure: Measure) -> bool:
    mark = text[number.end : number.end + 1] == "'" and not text[number.end + 1 : number.end + 2]
    value = number.value or 0.0
    fits = units.fits("ft", measure.unit, None) is not None
    return mark and fits and not measure.holds(value, measure.unit) and measure.holds(value, "ft")


def _read_compound(
    text: str, number: WrittenNumber, measure: Measure, following: WrittenNumber | None
) -> Quantity | None:
    """Feet and inches, stones and pounds."""
    if following is None or following.value is None or number.value is None:
        return None
    for major, (middle, minor, ratio) in _COMPOUNDS.items():
        between = middle.match(text, number.end)
        if between is None or between.end() != following.start:
            continue
        if not 0 <= following.value < ratio or number.value != int(number.value):
            continue
        if units.fits(major, measure.unit, measure.substance) is None:
            continue
        form = Form(
            own=measure.unit,
            unit=major,
            substance=measure.substance,
            minor=minor,
            middle=text[number.end : following.start],
        )
        value = form.read(number.value + following.value / ratio)
        if value is None:
            continue
        return Quantity(
            start=number.start,
            end=following.end,
            after=_end_of_minor(text, following.end, minor),
            value=value,
            form=form,
            stated=True,
        )
    return None


def _end_of_minor(text: str, place: int, minor: str) -> int:
    if minor == "in" and text[place : place + 1] == '"':
        return place + 1
    at = place + (text[place : place + 1] == " ")
    return next((end for unit, end in units.readings(text, at) if unit == minor), place)


def _read_money(
    text: str, number: WrittenNumber, measure: Measure, hint: str | None
) -> Quantity | None:
    own_code, _, own_period = measure.unit.partition("/")
    currency = units.currency_before(text, number.start)
    code = None if currency is None else currency[0]
    after, factor, period = number.end, 1.0, None
    multiplier = _MULTIPLIER.match(text, number.end)
    if multiplier is not None:
        factor = {"m": 1e6, **_MULTIPLIERS}[multiplier[1].lower()]
        after = multiplier.end()
    place = after + (text[after : after + 1] in (" ", "-"))
    suffix = units.read_currency(text, place)
    if suffix is not None:
        code, after = code or suffix[0], suffix[1]
    place = after + (text[after : after + 1] in (" ", "-"))
    stated_period = units.read_period(text, place)
    if stated_period is not None:
        period, after = stated_period
    elif code is None and factor == 1.0:
        found = next(units.readings(text, place), None)
        if found is not None and text[place : found[1]] not in units.also_words():
            return None
    if period is None and hint is not None:
        period = hint.partition("/")[2] or None
    unit = "/".join(part for part in (code or own_code, period or own_period) if part)
    if units.fits(unit, measure.unit, None) is None:
        return None
    stated = code is not None or stated_period is not None
    quantity = _quantity(number, after, measure, unit, factor=factor, stated=stated)
    meant = f"{own_code}/year"
    if quantity is None or period is not None or not own_period or own_period == "year":
        return quantity
    if measure.holds(quantity.value, measure.unit) or not measure.holds(quantity.value, meant):
        return quantity
    yearly = _quantity(number, after, measure, meant, factor=factor, stated=stated)
    if yearly is None:
        return quantity
    # An income of $85,000 is a year's. Say so, or what is written back may be read as a month's.
    form = replace(yearly.form, suffix=text[number.end : after] + " a year")
    return replace(yearly, end=after, form=form)


def _quantity(
    number: WrittenNumber,
    after: int,
    measure: Measure,
    unit: str | None,
    *,
    factor: float = 1.0,
    stated: bool = False,
) -> Quantity | None:
    """The number in a unit, by its likelier reading if it has two."""
    value, group, decimal = number.value, number.group, number.decimal
    if value is None:
        return None
    other = number.alternative
    if other is not None:
        first = unit or measure.unit_of(value * factor)
        second = unit or measure.unit_of(other * factor)
        if not measure.holds(value * factor, first) and measure.holds(other * factor, second):
            value, group, decimal = other, "", ","
    chosen = unit or measure.unit_of(value * factor)
    form = Form(
        own=measure.unit,
        unit=chosen,
        substance=measure.substance,
        factor=factor,
        group=group,
        decimal=decimal,
    )
    read = form.read(value)
    if read is None:
        return None
    return Quantity(
        start=number.start, end=number.end, after=after, value=read, form=form, stated=stated
    )
