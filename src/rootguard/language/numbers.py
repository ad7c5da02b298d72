"""Numbers as people write them: digits in any script, separators, exponents, words.

A text is folded first (`fold`), so that full-width digits, zero-width characters and superscripts
are read as what they look like. What looks like a date, a time or a version is `opaque`: it
is a number, but not one that a root could have. Reading takes time linear in the text.
"""

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from rootguard.language.fold import Openings, Runs

Sort = Literal["digits", "words", "opaque", "hole"]
HOLE = "[number]"
_LONGEST = 40  # characters, or words, of one number; a longer one is nobody's value

_DATE = (
    r"\d{1,4}(?P<mark>[-/.])\d{1,2}(?P=mark)\d{1,4}"
    r"(?:[Tt ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?|\d{1,2}:\d{2}(?::\d{2})?"
)
_DIGITS = r"(?:\d+|\.\d+)(?:[.,]\d+|'\d{3}(?!\d))*(?:[eE][+-]?\d{1,4}(?![^\W_]))?"
_NUMBER = re.compile(
    rf"(?P<hole>\[number\])|(?<![^\W_])(?<!\d[.,])(?:(?P<date>{_DATE})(?!\d)"
    rf"|(?P<spaced>\d{{1,3}}(?: \d{{3}})+(?!\d)(?:[.,]\d+(?![.,]?\d))?)|(?P<digits>{_DIGITS}))"
)
_BEGINS = re.compile(r"\d|\.(?=\d)|\[(?=number\])")
_ATTACHED = re.compile(_DIGITS)
_SIGN_AFTER = frozenset(" \t\n=:([{|/~<>,;\"'-–")

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {word: value for value, word in enumerate(_SMALL.split())} | {
    word: 10 * value for value, word in enumerate(_TENS.split(), start=2)
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 10**9}
_NAMED = {value: word for word, value in _VALUES.items()} | {
    scale: f"one {word}" for word, scale in _SCALES.items()
}
# The digits as they are spelt out one by one; a language's first word is its zero.
DIGIT_WORDS = {
    word: digit
    for line in (
        " ".join(_SMALL.split()[:10]),
        "cero uno dos tres cuatro cinco seis siete ocho nueve",
        "null eins zwei drei vier fünf sechs sieben acht neun",
        "zéro un deux trois quatre cinq six sept huit neuf",
    )
    for digit, word in enumerate(line.split())
} | {"oh": 0}
POINT_WORDS = frozenset(
    ("point", "dot", "decimal", "comma", "punto", "coma", "komma", "punkt", "virgule")
)
_WORD = re.compile(
    rf"(?<![^\W_])(?:{'|'.join(sorted((*_VALUES, *_SCALES, 'point'), key=len, reverse=True))})"
    r"(?![^\W_])",
    re.IGNORECASE,
)
_SPOKEN = Openings((_WORD, {*_VALUES, *_SCALES, "point"}))


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WrittenNumber:
    """One number in a folded text. `value` is None for what is opaque and for a hole.

    `alternative` is the reading of "12,345" with a decimal comma. Private.
    """

    start: int
    end: int
    sort: Sort
    value: float | None = None
    group: str = ""
    decimal: str = "."
    alternative: float | None = None


def scan(
    text: str,
    runs: Runs | None = None,
    *,
    attached: Sequence[int] = (),
    edges: Sequence[int] = (),
) -> list[WrittenNumber]:
    """Every number of a folded text, in order.

    At `attached` places one may follow a name; none goes over one of the `edges` (sorted).
    """
    found = [part for number in _written(text) for part in _parted(text, number, edges)]
    found += spoken(text, runs)
    for place in attached:
        match = _ATTACHED.match(text, place)
        if match is not None:
            found.append(_digits(text, match.start(), match.end()))
    found.sort(key=lambda number: (number.start, -number.end))
    kept: list[WrittenNumber] = []
    for number in found:
        if not kept or number.start >= kept[-1].end:
            kept.append(number)
    return kept


def _written(text: str) -> list[WrittenNumber]:
    """The numbers in digits, and the holes."""
    found: list[WrittenNumber] = []
    at = 0
    while (begin := _BEGINS.search(text, at)) is not None:
        match = _NUMBER.match(text, begin.start())
        if match is None:
            at = begin.end()
            continue
        start, at = match.span()
        if match["hole"]:
            found.append(WrittenNumber(start=start, end=at, sort="hole"))
        elif match["date"] and _is_date(match["date"]):
            found.append(WrittenNumber(start=start, end=at, sort="opaque"))
        elif match["date"]:  # 50/23/231 is a list: its first number now, the rest on its own
            at = start + len(re.split("[-/.:]", match["date"], maxsplit=1)[0])
            found.append(_digits(text, start, at))
        else:
            found += _list(text, start, at)
    return found


def _parted(text: str, number: WrittenNumber, edges: Sequence[int]) -> list[WrittenNumber]:
    """The number, or its parts if it goes over edges: "23,30" under "AST,ALT" is two numbers."""
    first = bisect.bisect_right(edges, number.start)
    inside = [edge for edge in edges[first : first + _LONGEST] if edge < number.end]
    if not inside:
        return [number]
    found, start = [], number.start
    for edge in (*inside, number.end):
        match = _ATTACHED.search(text, start, edge)
        found += [] if match is None else [_digits(text, match.start(), match.end())]
        start = edge + 1
    return found


def _list(text: str, start: int, end: int) -> list[WrittenNumber]:
    """One number, or the numbers of a list without spaces: "23,30,231"."""
    whole = _digits(text, start, end)
    if whole.sort == "digits" or "," not in text[start:end] or end - start > _LONGEST:
        return [whole]
    found = []
    for part in text[start:end].split(","):
        found.append(_digits(text, start, start + len(part)))
        start += len(part) + 1
    return found


def _is_date(text: str) -> bool:
    """Whether a month and a day can be read from it; versions and addresses pass as well."""
    parts = [int(part) for part in re.findall(r"\d+", text.split("T")[0].split(" ")[0])]
    if ":" in text or "." in text:
        return True
    year_first, year_last = len(str(parts[0])) == 4, parts[2] > 31
    low, high = sorted(parts[1:] if year_first else parts[:2])
    return 1 <= low <= 12 and high <= 31 and (year_first or year_last or parts[2] <= 99)


def _digits(text: str, start: int, end: int) -> WrittenNumber:
    """A run of digits and separators, with its sign."""
    body = text[start:end]
    sign = 1.0
    before = text[start - 2 : start - 1] if start >= 2 else " "
    if start and text[start - 1] in "+-" and before in _SIGN_AFTER:
        sign = -1.0 if text[start - 1] == "-" else 1.0
        start -= 1
    read = None if len(body) > _LONGEST else _interpret(body)
    if read is None:
        return WrittenNumber(start=start, end=end, sort="opaque")
    value, group, decimal, other = read
    return WrittenNumber(
        start=start,
        end=end,
        sort="digits",
        value=sign * value,
        group=group,
        decimal=decimal,
        alternative=None if other is None else sign * other,
    )


def _interpret(body: str) -> tuple[float, str, str, float | None] | None:
    """Value, grouping mark, decimal mark, and the other reading of a lone comma."""
    mantissa, _, exponent = body.replace("E", "e").partition("e")
    marks = [character for character in mantissa if not character.isdigit()]
    parts = re.split(r"[., ']", mantissa)
    power = f"e{exponent}" if exponent else ""
    grouped = 1 <= len(parts[0]) <= 3 and parts[0] != "0"
    if not marks:
        return float(mantissa + power), "", ".", None
    if len(set(marks)) == 1 and (len(marks) > 1 or marks[0] in " ',"):
        threes = grouped and all(len(part) == 3 for part in parts[1:])
        other = float(".".join(parts) + power) if len(marks) == 1 and marks[0] == "," else None
        if threes:
            decimal = "," if marks[0] == "." else "."
            return float("".join(parts) + power), marks[0], decimal, other
        return None if other is None else (other, "", ",", None)
    if len(marks) == 1:
        return float((mantissa if parts[0] else "0" + mantissa) + power), "", ".", None
    group, decimal = marks[0], marks[-1]
    inner = parts[1:-1]
    if decimal not in ".," or group == decimal or set(marks[:-1]) != {group}:
        return None
    if not grouped or any(len(part) != 3 for part in inner):
        return None
    return float("".join(parts[:-1]) + "." + parts[-1] + power), group, decimal, None


def spoken(text: str, runs: Runs | None = None) -> list[WrittenNumber]:
    """Numbers in words: "twenty-three", "one hundred and five", "five point nine"."""
    found: list[WrittenNumber] = []
    run: list[re.Match[str]] = []
    for _, match in _SPOKEN.matches(text, runs or Runs(text)):
        if run and _joined(text, run, match):
            run.append(match)
        else:
            found += _amount_of(run)
            run = [match]
    return found + _amount_of(run)


def _joined(text: str, run: list[re.Match[str]], after: re.Match[str]) -> bool:
    between = text[run[-1].end() : after.start()].lower()
    said = [match[0].lower() for match in run]
    scaled = said[-1] in _SCALES
    if len(run) > _LONGEST or not (
        between in (" ", "-", "\n", " - ") or (scaled and between == " and ")
    ):
        return False
    return _amount([*said, after[0].lower()], partial=True) is not None


def _amount_of(run: list[re.Match[str]]) -> list[WrittenNumber]:
    while run:  # "fifty point" ends before its point
        value = _amount([match[0].lower() for match in run], partial=False)
        if value is not None:
            return [
                WrittenNumber(
                    start=run[0].start(), end=run[-1].end(), sort="words", value=float(value)
                )
            ]
        run = run[:-1]
    return []


def _amount(words: list[str], *, partial: bool) -> Decimal | None:
    """The value of number words; None if they are not one number. Partial ones may lack an end."""
    total = current = 0
    for place, word in enumerate(words):
        if word == "point":
            tail = words[place + 1 :]
            digits = [str(_VALUES[digit]) for digit in tail if _VALUES.get(digit, 10) < 10]
            if place == 0 or len(digits) != len(tail) or not (digits or partial):
                return None
            return Decimal(f"{total + current}.{''.join(digits) or '0'}")
        if word == "hundred":
            if not 1 <= current <= 99:
                return None
            current *= 100
        elif word in _SCALES:
            if current < 1 or (total and total < _SCALES[word] * 1000):
                return None
            total, current = total + current * _SCALES[word], 0
        else:
            value = _VALUES[word]
            room = place == 0 or words[place - 1] in _SCALES
            tail_of_tens = value in range(1, 10) and current % 100 >= 20 and current % 10 == 0
            if not (room or tail_of_tens):
                return None
            current += value
    return Decimal(total + current)


def read_words(words: Sequence[str]) -> tuple[Decimal, int] | None:
    """The number that words (in small letters) begin with, and how many of them it takes."""
    taken: list[str] = []
    best: tuple[Decimal, int] | None = None
    for place, word in enumerate(words):
        if word == "and" and taken and taken[-1] in _SCALES:
            continue  # "one hundred and five"
        if word not in _VALUES and word not in _SCALES and word != "point":
            break
        taken.append(word)
        if len(taken) > _LONGEST or _amount(taken, partial=True) is None:
            break
        value = _amount(taken, partial=False)
        best = best if value is None else (value, place + 1)
    return best


def named(value: float) -> str | None:
    """The word for a small, round number: "fifty", "one thousand"."""
    return _NAMED.get(int(value)) if value == int(value) else None


def spell(value: float, *, exact: bool, group: str, decimal: str) -> str:
    """A value in digits: its shortest form if exact, else six significant digits.

    What it writes is read back with the same marks, or writes the same again: a text that was
    sanitized stays as it is when it is sanitized once more.
    """
    text = repr(value) if exact else _six(value)
    if "e" in text:
        return text.replace(".", decimal)
    whole, _, fraction = text.partition(".")
    digits = whole.lstrip("-")
    if group and len(digits) > 3:
        head = len(digits) % 3
        threes = [digits[at : at + 3] for at in range(head, len(digits), 3)]
        digits = group.join(([digits[:head]] if head else []) + threes)
        fraction = fraction or ("0" if group == "." else "")
    elif decimal == "," and len(fraction) == 3 and len(digits) <= 3:
        fraction += "0"  # 30,125 would be read as thirty thousand
    sign = "-" if whole.startswith("-") else ""
    return sign + digits + (decimal + fraction if fraction else "")


def _six(value: float) -> str:
    text = format(Decimal(f"{value:.5e}"), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
