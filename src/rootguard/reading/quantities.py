"""A number with what belongs to it: unit, multiplier, currency, period, feet and inches.

`read_quantity` says what a number means beside a given root, and None if its unit measures
something else. The `Form` it finds is how the released value is written back at the same place: in
the unit and with the marks that stand there. Only digits change; the unit's own text stays.
"""

import math
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from rootguard.language import units
from rootguard.language.numbers import WrittenNumber, reads_as_thousands, spell
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
_DIGITS = 12  # a conversion's rounding errors are in the last of sixteen
_MOST_DIGITS = 20  # nobody writes out more
_COARSEST = 5  # times a root's resolution, in another unit
_EQUAL = 1e-9  # of a power of ten: 100 cm are one metre, whatever the last bit says
_MEMBER = re.compile(r"""["'][ \t]*:\s*(?:\[[-+.0-9eE,\s]*)?\Z""")
_ASSIGNED = re.compile(r"[\w\])][ \t]*=[ \t]*\Z")
_STATEMENT_END = re.compile(r"[ \t]*(?:[,;)\]}#]|\Z|\n)")
_LOOK_BACK = 80  # characters before a number: a key's end, and the numbers of a short list
_BLANK = re.compile(r" [0-9]")
_LETTER = re.compile(r"[^\W\d_]")
_ONWARD = re.compile(r"([/-])[0-9][0-9.,]{0,20}(?:\1[0-9][0-9.,]{0,20}){0,3}")
_SO_FAR = re.compile(r"(?:[0-9][0-9.,]{0,20}[/-]){1,3}\Z")
_THOUSANDS, _YEAR, _LAST_DAY, _DATE_PARTS = 3, 4, 31, 3  # digits, digits, a day, day-month-year
Sort = Literal["prose", "integer", "number"]
"""What stands at a place: a number of prose, or an integer or a number of JSON or code."""
Series = Literal["none", "blanks", "columns", "slashes", "hyphens"]
"""What parts a number from the next: a blank, in a sentence or in a line of numbers; a slash or a
hyphen, in a list that may be read as a date."""
_SET_APART: dict[Series, str] = {"blanks": ",", "slashes": " "}
_BEFORE_UNIT = re.compile(r"[ \t_\-]{0,2}[(\[*]? ?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """How a released value is written at one place. Holds no value.

    `unit` is the unit as written and `own` the root's; `factor` the multiplier ("85k"); `minor` and
    `middle` the smaller unit of "5'11" and the text between. `decimals` is what the root has in its
    own unit; `lower` and `upper` are its bounds.
    `sort` says that a number of JSON or of code stood here, which keeps its type, and `series` what
    stands between it and the next number of a list.
    """

    own: str
    unit: str
    substance: str | None
    decimals: int
    lower: float
    upper: float
    factor: float = 1.0
    group: str = ""
    decimal: str = "."
    minor: str = ""
    middle: str = ""
    suffix: str = ""
    sort: Sort = "prose"
    series: Series = "none"

    def read(self, value: float) -> float | None:
        """A number written in this form, in the root's own unit."""
        if self.unit == self.own:
            return value * self.factor
        return units.convert(value * self.factor, self.unit, self.own, self.substance)

    def write(self, released: float) -> str:
        """A released value in this form: the same for the same value, always.

        It is rounded to what people write, within the root's bounds. That is post-processing: it
        looks at the released value, public knowledge and the form alone, so it costs nothing.
        """
        affine = self._affine()
        ends = affine(min(self.lower, released)), affine(max(self.upper, released))
        value, lower, upper = affine(released), min(ends), max(ends)
        places = decimals_in(self.decimals, affine.scale)
        if self.unit == self.own and not self.minor and self.factor == 1.0:
            places = self.decimals
        if self.minor:
            return self._compound(rounded(value, places, lower, upper))
        if self.factor != 1.0:
            # Whoever writes "1.5 million" is not after the dollar: three digits, "1.48 million".
            size = math.floor(math.log10(abs(value))) if value else 0
            places = min(places, 2 - size)
        if self.sort == "integer":
            places = min(places, 0)
        written = plain(rounded(value, places, lower, upper))
        if self.sort == "integer" and "." in written:  # the type goes before the bounds
            written = plain(rounded(value, 0, value - 1, value + 1))
        if reads_as_thousands(written, self.decimal):
            written = plain(rounded(value, 2, lower, upper))
        if self.factor != 1.0 and "." in written:
            written = written.rstrip("0").rstrip(".")
        merges = self.sort == "prose" and written.isdigit() and self._merges(written)
        apart = _SET_APART.get(self.series, "") if merges else ""
        if written.lstrip("-").isdigit() and (self.sort == "number" or (merges and not apart)):
            written += ".0"
        return spell(written, group=self.group, decimal=self.decimal) + self.suffix + apart

    def _merges(self, whole: str) -> bool:
        """Whether a whole number would be read as the beginning of another one, or of a date.

        "AST ALT 23 30" must not become "223 111", nor "23/30/220" a day of a month. A comma or a
        blank sets it apart; in a line of numbers, or before a hyphen, only a fraction can.
        """
        if self.series in ("blanks", "columns"):
            return len(whole) <= _THOUSANDS
        dated = self.series in ("slashes", "hyphens")
        return dated and (len(whole) == _YEAR or int(whole) <= _LAST_DAY)

    def _affine(self) -> units.Affine:
        """From the root's own unit to what is written here."""
        found = None
        if self.unit != self.own:
            found = units.conversion(self.own, self.unit, self.substance)
        found = found or units.Affine(scale=1.0)
        ratio = _COMPOUNDS[self.unit][2] if self.minor else 1.0
        return found.then(units.Affine(scale=ratio / self.factor))

    def _compound(self, minor: Decimal) -> str:
        major, rest = divmod(minor, Decimal(_COMPOUNDS[self.unit][2]))
        return f"{major:f}{self.middle}{plain(rest)}"


def decimals_in(decimals: int, scale: float) -> int:
    """How many decimals a root has in a unit of which `scale` are one of its own.

    As few as make a step at most five times the root's: 0.1 kg is 0.22 lb and written as whole
    pounds, 1 mmHg is 0.13 kPa and has one decimal. Fewer than none are tens, hundreds, and never
    coarser than the root: one dollar a month is twelve a year.
    """
    exact = decimals - math.log10(abs(scale))
    coarser = 0.0 if exact <= _EQUAL else math.log10(_COARSEST)
    return math.ceil(exact - coarser - _EQUAL)


def rounded(value: float, places: int, lower: float, upper: float) -> Decimal:
    """The nearest number with so many decimals that is within the bounds, which hold the value.

    If there is none, with as many more decimals as it takes.
    """
    exact, least, most = (Decimal(f"{each:.{_DIGITS}g}") for each in (value, lower, upper))
    for more in range(places, places + _DIGITS):
        step = Decimal(1).scaleb(-more)
        found = (exact / step).to_integral_value() * step
        found += step if found < least else -step if found > most else 0
        if least <= found <= most:
            few = abs(found.adjusted()) < _MOST_DIGITS
            return found.quantize(step) if few and more >= 0 else found
    return exact


def plain(number: Decimal) -> str:
    """All digits, without a sign before zero, and without an exponent unless it is a large one."""
    if abs(number.adjusted()) > _MOST_DIGITS:
        return repr(float(number))
    return f"{number or abs(number):f}"


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
            return _quantity(text, number, multiplier.end(), measure, None, factor=factor)
        if _feet_mark(text, number, measure):
            unit, stated = "ft", True
    return _quantity(text, number, after, measure, unit or hint, stated=stated or hint is not None)


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
            decimals=measure.decimals,
            lower=measure.domain.lower,
            upper=measure.domain.upper,
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
    quantity = _quantity(text, number, after, measure, unit, factor=factor, stated=stated)
    meant = f"{own_code}/year"
    if quantity is None or period is not None or not own_period or own_period == "year":
        return quantity
    if measure.holds(quantity.value, measure.unit) or not measure.holds(quantity.value, meant):
        return quantity
    yearly = _quantity(text, number, after, measure, meant, factor=factor, stated=stated)
    if yearly is None:
        return quantity
    if yearly.form.sort != "prose":  # JSON and code have no room for words: in the root's unit
        return replace(quantity, value=yearly.value)
    # An income of $85,000 is a year's. Say so, or what is written back may be read as a month's.
    form = replace(yearly.form, suffix=text[number.end : after] + " a year")
    return replace(yearly, end=after, form=form)


def _quantity(
    text: str,
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
        decimals=measure.decimals,
        lower=measure.domain.lower,
        upper=measure.domain.upper,
        sort=_sort(text, number),
        series=_series(text, number) if after == number.end else "none",
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


def _sort(text: str, number: WrittenNumber) -> Sort:
    """Whether it stands behind a key of JSON (or in its list), or is given to a name in code."""
    if number.sort != "digits":
        return "prose"
    before = text[max(0, number.start - _LOOK_BACK) : number.start]
    code = _ASSIGNED.search(before) and _STATEMENT_END.match(text, number.end)
    if not code and not _MEMBER.search(before):
        return "prose"
    return "integer" if text[number.start : number.end].lstrip("+-").isdigit() else "number"


def _series(text: str, number: WrittenNumber) -> Series:
    if _BLANK.match(text, number.end):
        first = max(0, number.start - _LOOK_BACK)
        line = text[max(first, text.rfind("\n", first, number.start) + 1) : number.start]
        return "blanks" if _LETTER.search(line) else "columns"
    after = _ONWARD.match(text, number.end)
    if after is None:
        return "none"
    before = _SO_FAR.search(text[max(0, number.start - _LOOK_BACK) : number.start])
    parts = 1 + after[0].count(after[1]) + (before[0].count(after[1]) if before else 0)
    # Four numbers between slashes are never read as a date.
    if after[1] == "/":
        return "slashes" if parts == _DATE_PARTS else "none"
    return "hyphens" if parts >= _DATE_PARTS else "none"
