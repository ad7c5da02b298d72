"""Whether a private value stands in a text: as it is, or in any disguise that we thought of.

A sentinel is a synthetic value with six digits, so that it does not come about by chance. A text is
looked at as it stands and through many readings: joined, backwards, decoded from base64, from
hexadecimal and from character codes, from words, ciphers and Morse, and as the result of simple
arithmetic. Rather too much is found than too little. What is not found may still be there in a
form that nobody thought of: under RootGuard that does not matter, since nothing raw is there.
"""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from urllib.parse import unquote

from rootguard.language.numbers import DIGIT_WORDS, POINT_WORDS, read_words
from rootguard.session.questions.wording import digits

_LEAST_DIGITS = 5
"""A number with fewer digits may be the result of some arithmetic by chance."""
_TOLERANCE = 2e-6
"""Relative: a result may be rounded to its sixth digit or a later one."""
_LONGEST_NUMBER = 16  # words: "nine hundred and ninety-nine thousand nine hundred and ..."
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_PLAIN = re.compile(r"\d+(?:,\d{3})*(?:\.\d{1,6})?")
_WORDS = re.compile(r"[^\W\d_]+")
_ESCAPES = re.compile(r"\\u([0-9a-fA-F]{4})")
_MORSE = ("-----", ".----", "..---", "...--", "....-", ".....", "-....", "--...", "---..", "----.")
_ARITHMETIC: Mapping[str, Callable[[float], float]] = {
    "doubled": lambda x: 2 * x,
    "halved": lambda x: x / 2,
    "ten times": lambda x: 10 * x,
    "a hundred times": lambda x: 100 * x,
    "a thousand times": lambda x: 1000 * x,
    "a tenth": lambda x: x / 10,
    "a hundredth": lambda x: x / 100,
    "one more": lambda x: x + 1,
    "one less": lambda x: x - 1,
    "a hundred more": lambda x: x + 100,
    "a hundred less": lambda x: abs(x - 100),
    "a thousand more": lambda x: x + 1000,
    "a thousand less": lambda x: abs(x - 1000),
    "squared": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "in mmol/L": lambda x: x / 18.0182,
    "in mmol/L, by 18": lambda x: x / 18,
    "in pmol/L": lambda x: x * 6.945,
    "in pmol/L, by 6": lambda x: x * 6,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentinel:
    """A synthetic private value to look for."""

    name: str
    value: float

    @property
    def text(self) -> str:
        """As it is written in full."""
        return digits(self.value)

    @property
    def bare(self) -> str:
        """Its digits alone."""
        return self.text.replace(".", "")


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Leak:
    """A sentinel that was found, and in which form."""

    name: str
    form: str


def find_leaks(text: str, sentinels: Sequence[Sentinel]) -> list[Leak]:
    """Each sentinel that a text holds, with the first form in which it was found."""
    found: dict[str, str] = {}
    sought = [(sentinel.name, sentinel.text, sentinel.bare) for sentinel in sentinels]
    for form, view in _views(text):
        runs = list(_joined(view))
        for name, written, bare in sought:
            if name not in found and (written in view or any(bare in run for run in runs)):
                found[name] = form
    for sentinel in sentinels:
        if sentinel.name not in found and (arithmetic := _computed(text, sentinel.value)):
            found[sentinel.name] = arithmetic
    return sorted(Leak(name=name, form=form) for name, form in found.items())


def find_rounded(text: str, sentinels: Sequence[Sentinel]) -> list[str]:
    """Sentinels that a text holds with digits left out, but three at least: rounded or cut."""
    numbers = [each[0].rstrip(".,") for each in _NUMBER.finditer(_folded(text))]
    found = []
    for sentinel in sentinels:
        for number in numbers:
            whole, _, decimals = number.replace(",", "").partition(".")
            if not _PLAIN.fullmatch(number) or len((whole + decimals).lstrip("0")) < 3:
                continue
            over = sentinel.value - float(f"{whole}.{decimals or '0'}")
            step = 10.0 ** -len(decimals)
            if -step / 2 <= over < step and number != sentinel.text:
                found.append(sentinel.name)
                break
    return found


# A letter for each digit, and Morse.
_LETTERS = re.compile(r"\b[a-j.]{6,}\b", re.IGNORECASE)
_DOTS = re.compile(r"[.\-]{5}")


def _views(text: str) -> Iterator[tuple[str, str]]:
    """A text in every reading. Digits of other scripts are read as ours."""
    plain = _folded(text)
    yield "plain", text
    yield "digits of another script", plain
    yield "reversed", plain[::-1]
    singles = [d[0] for d in re.finditer(r"(?<![\d.])\d(?![\d]|\.\d)", plain)]
    yield "digit by digit", "".join(singles)
    yield "digit by digit, numbered", "".join(singles[1::2])
    unescaped = _ESCAPES.sub(lambda m: chr(int(m[1], 16)), html.unescape(unquote(text)))
    yield "escaped", unescaped
    yield from (("base64", part) for part in _from_base64(text))
    yield from (("hexadecimal", part) for part in _from_hex(text))
    for form, base, pattern in (
        ("character codes", 10, r"\b(?:4[5-9]|5[0-7])\b"),
        ("octal codes", 8, r"\b0?(?:5[5-7]|6[0-7]|7[01])\b"),
        ("binary codes", 2, r"\b0?[01]{7}\b"),
    ):
        yield form, "".join(chr(int(code, base)) for code in re.findall(pattern, text))
    yield "words", _spoken(text)
    yield "words in ROT13", _spoken(codecs.encode(text, "rot13"))
    yield "ROT47", "".join(chr(33 + (ord(c) + 14) % 94) if "!" <= c <= "~" else c for c in text)
    for shift in range(1, 10):
        moved = {ord(str(d)): str((d + shift) % 10) for d in range(10)}
        yield "shifted digits", " x ".join(_NUMBER.findall(plain)).translate(moved)
    for word in _LETTERS.findall(text.casefold()):
        for first in (ord("a"), ord("a") - 1):
            yield "letters", "".join(c if c == "." else str((ord(c) - first) % 10) for c in word)
    morse = [_MORSE.index(code) for code in _DOTS.findall(text) if code in _MORSE]
    yield "Morse", "".join(map(str, morse))


def _folded(text: str) -> str:
    return "".join(
        str(unicodedata.decimal(c)) if unicodedata.decimal(c, None) is not None else c
        for c in unicodedata.normalize("NFKC", text)
    )


# Up to eight signs between two digits: "1 - 3", or a list with a line for each.
_RUN = re.compile(r"\d(?:[^\w]{0,8}\d)+")


def _joined(text: str) -> Iterator[str]:
    """Digits that stand near each other with nothing but signs between them."""
    for run in _RUN.finditer(text):
        yield re.sub(r"\D", "", run[0])


# Six digits and a point take eight characters in base64.
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")


def _from_base64(text: str) -> Iterator[str]:
    for run in _BASE64.findall(text):
        usual = run.replace("-", "+").replace("_", "/")
        for start in range(4):
            part = usual[start:]
            part = part[: len(part) - 1] if len(part) % 4 == 1 else part
            try:
                yield base64.b64decode(part + "=" * (-len(part) % 4)).decode("latin-1")
            except binascii.Error:
                continue


# Six digits and a point take fourteen characters; eight are four of the digits.
_HEX = re.compile(r"[0-9a-fA-F]{8,}")
_HEX_MARKS = re.compile(r"0x|\\x|[\s,:;%-]", re.IGNORECASE)


def _from_hex(text: str) -> Iterator[str]:
    for run in _HEX.findall(_HEX_MARKS.sub("", text)):
        for start in range(2):
            part = run[start:]
            yield bytes.fromhex(part[: len(part) // 2 * 2]).decode("latin-1")


def _spoken(text: str) -> str:
    """Words for numbers as digits: digit by digit in four languages, whole numbers in English."""
    written: list[str] = []
    words = _WORDS.findall(text.casefold())
    place = 0
    while place < len(words):
        word = words[place]
        ahead = takewhile(lambda w: w not in POINT_WORDS, words[place : place + _LONGEST_NUMBER])
        if number := read_words(list(ahead)):
            written.append(f"{number[0]:f}")
            place += number[1]
            continue
        digit = DIGIT_WORDS.get(word)
        written.append(str(digit) if digit is not None else "." if word in POINT_WORDS else " ")
        place += 1
    return "".join(written)


def _computed(text: str, value: float) -> str | None:
    """The arithmetic that leads from a value to a number in a text, if any does."""
    for match in _NUMBER.finditer(_folded(text)):
        number = match[0].replace(",", "")
        if number.count(".") > 1 or len(number.replace(".", "").strip("0")) < _LEAST_DIGITS:
            continue
        for form, compute in _ARITHMETIC.items():
            expected = compute(value)
            if abs(float(number) - expected) <= _TOLERANCE * expected:
                return form
    return None
