"""Numbers as people write them: digits in any script, separators, exponents, words.

A text is folded first (`fold`), so that full-width digits, zero-width characters and superscripts
are read as what they look like. What looks like a date, a time or a version is `opaque`: it
is a number, but not one that a root could have. Reading takes time linear in the text.
"""

import bisect
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from rootguard.language.fold import HANGUL, UNSPACED, Openings, Runs, bare
from rootguard.language.lists import either
from rootguard.language.names import languages_of

Sort = Literal["digits", "words", "opaque", "hole"]
HOLE = "[number]"
_HALF = " and a half"
_LONGEST = 40  # characters, or words, of one number; a longer one is nobody's value

_DATE = (
    r"(?<!\d/)\d{1,4}(?P<mark>[-/.])\d{1,2}(?P=mark)\d{1,4}(?![\d]*/\d)"
    r"(?:[Tt ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?|\d{1,2}:\d{2}(?::\d{2})?"
)
_DIGITS = (  # programs part thousands so: 50_000
    r"(?:\d{1,3}(?:_\d{3})+(?![\d_])|\d+|(?<!\.)\.\d+)"
    r"(?:[.,]\d+|'\d{3}(?!\d))*(?:[eE][+-]?\d{1,4}(?![^\W_]))?"
)
_NUMBER = re.compile(
    rf"(?P<hole>\[number\])|(?<![^\W_{UNSPACED}{HANGUL}])(?<!\d[.,])(?:(?P<date>{_DATE})(?!\d)"
    rf"|(?P<hex>0[xX][0-9A-Fa-f]{{1,8}}(?![^\W_]))"
    rf"|(?P<spaced>\d{{1,3}}(?: \d{{3}})+(?!\d)(?:[.,]\d+(?![.,]?\d))?)|(?P<digits>{_DIGITS}))"
)
_BEGINS = re.compile(r"[\d.[](?:(?<=\d)|(?<=\.)(?=\d)|(?<=\[)(?=number\]))")
_ASCII_BEGINS = re.compile(  # the same, and quicker
    r"[0-9.[](?:(?<=[0-9])|(?<=\.)(?=[0-9])|(?<=\[)(?=number\]))"
)
_ATTACHED = re.compile(_DIGITS)
_SEPARATORS = re.compile("[., '_]")
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
    (
        *("point", "dot", "decimal", "comma", "punto", "coma", "komma", "punkt", "virgule"),
        *("virgola", "virgula"),
    )
)
_WORD = re.compile(
    rf"(?<![^\W_])(?:{either((*_VALUES, *_SCALES, 'point'))}"
    r"|a(?= (?:hundred|thousand|million|billion)(?![^\W_])))(?![^\W_])",
    re.IGNORECASE,
)
_SPOKEN = Openings((_WORD, {*_VALUES, *_SCALES, "point", "a"}))


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
    found += foreign(text, runs)
    found += signs(text)
    for place in attached:
        match = _ATTACHED.match(text, place)
        if match is not None:
            found.append(_digits(text, match.start(), match.end()))
    found.sort(key=lambda number: (number.start, -number.end))
    kept: list[WrittenNumber] = []
    for number in found:
        if not kept or number.start >= kept[-1].end:
            kept.append(_with_half(text, number))
    return kept


def _with_half(text: str, number: WrittenNumber) -> WrittenNumber:
    """A number and the half behind it: "83 and a half" is one."""
    if number.value is None or text[number.end : number.end + len(_HALF)].lower() != _HALF:
        return number
    return replace(number, end=number.end + len(_HALF), value=number.value + 0.5, alternative=None)


def _written(text: str) -> list[WrittenNumber]:
    """The numbers in digits, and the holes."""
    found: list[WrittenNumber] = []
    begins, at = _ASCII_BEGINS if text.isascii() else _BEGINS, 0
    while (begin := begins.search(text, at)) is not None:
        match = _NUMBER.match(text, begin.start())
        if match is None:
            at = begin.end()
            continue
        start, at = match.span()
        if match["hole"]:
            found.append(WrittenNumber(start=start, end=at, sort="hole"))
        elif match["hex"]:
            value = float(int(match["hex"], 16))
            found.append(WrittenNumber(start=start, end=at, sort="digits", value=value))
        elif match["date"] and _is_date(match["date"]):
            found.append(WrittenNumber(start=start, end=at, sort="opaque"))
            # In "2024-01-05,23,30" a comma ends the date: no decimal is behind it.
            cells = _ATTACHED.match(text, at + 1) if text[at : at + 1] == "," else None
            if cells is not None:
                found += _list(text, *cells.span())
                at = cells.end()
        elif match["date"]:  # 50/23/231 is a list: its first number now, the rest on its own
            at = start + len(re.split("[-/.:]", match["date"], maxsplit=1)[0])
            found.append(_digits(text, start, at))
        elif " " in match[0] and _is_row(text, start, at):  # "54 23 30 220" is four numbers
            for part in match[0].split(" "):
                found.append(_digits(text, start, start + len(part)))
                start += len(part) + 1
        else:
            found += _list(text, start, at)
    return found


def _is_row(text: str, start: int, end: int) -> bool:
    """Whether what looks like groups of three stands in a row of numbers with blanks between.

    Such a row are feet and a weight, "5'4 200", and a day and a pressure, "day 30 133/85".
    """
    return (
        re.search(r"\d \Z|\d['’] ?\Z", text[max(0, start - 3) : start]) is not None
        or re.match(r" \d|/\d{2,3}(?!\d)", text[end : end + 5]) is not None
        or text[start : start + 2] == "0 "
    )


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
    if body.isdigit() and body.isascii():
        return float(body), "", ".", None
    mantissa, _, exponent = body.replace("E", "e").partition("e")
    marks = [character for character in mantissa if not character.isdigit()]
    parts = _SEPARATORS.split(mantissa)
    power = f"e{exponent}" if exponent else ""
    grouped = 1 <= len(parts[0]) <= 3 and parts[0] != "0"
    if not marks:
        return float(mantissa + power), "", ".", None
    if len(set(marks)) == 1 and (len(marks) > 1 or marks[0] in " ',_"):
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
            found += _amount_of(text, run)
            run = [match]
    return found + _amount_of(text, run)


def _joined(text: str, run: list[re.Match[str]], after: re.Match[str]) -> bool:
    between = text[run[-1].end() : after.start()].lower()
    said = [match[0].lower() for match in run]
    scaled = said[-1] in _SCALES
    if len(run) > _LONGEST or not (
        between in (" ", "-", "\n", " - ") or (scaled and between == " and ")
    ):
        return False
    return _amount([*said, after[0].lower()], partial=True, loose=True) is not None


def _amount_of(text: str, run: list[re.Match[str]]) -> list[WrittenNumber]:
    if len(run) > 1 and text[run[-1].end() : run[-1].end() + 1] == "-":
        said = [match[0].lower() for match in run]
        if _amount(said, partial=False) is None:  # "one fifty-year-old" is not 150
            return _amount_of(text, run[:1]) + _amount_of(text, run[1:])
    while run:  # "fifty point" ends before its point
        value = _amount([match[0].lower() for match in run], partial=False, loose=True)
        if value is not None:
            return [
                WrittenNumber(
                    start=run[0].start(), end=run[-1].end(), sort="words", value=float(value)
                )
            ]
        run = run[:-1]
    return []


def _amount(words: list[str], *, partial: bool, loose: bool = False) -> Decimal | None:
    """The value of number words; None if they are not one number. Partial ones may lack an end.

    As people say it, `loose`, "one eighty-four" is 184.
    """
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
            value = 1 if word == "a" else _VALUES[word]
            if loose and place == 1 and 1 <= current <= 9 and value >= 10 and words[0] != "a":
                current = 100 * current + value
                continue
            room = place == 0 or words[place - 1] in _SCALES
            tail_of_tens = value in range(1, 10) and current % 100 >= 20 and current % 10 == 0
            if not (room or tail_of_tens):
                return None
            current += value
    return Decimal(total + current)


_FOREIGN = {
    "de": (
        (
            "null ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn "
            "funfzehn sechzehn siebzehn achtzehn neunzehn"
        ),
        "zwanzig dreissig vierzig funfzig sechzig siebzig achtzig neunzig",
    ),
    "nl": (
        (
            "nul een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien "
            "vijftien zestien zeventien achttien negentien"
        ),
        "twintig dertig veertig vijftig zestig zeventig tachtig negentig",
    ),
    "fr": (
        (
            "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze "
            "quinze seize dix-sept dix-huit dix-neuf"
        ),
        "vingt trente quarante cinquante soixante septante huitante nonante",
    ),
    "es": (
        (
            "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce "
            "quince dieciseis diecisiete dieciocho diecinueve"
        ),
        "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    ),
    "it": (
        (
            "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici "
            "quattordici quindici sedici diciassette diciotto diciannove"
        ),
        "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
    ),
    "pt": (
        (
            "zero um dois tres quatro cinco seis sete oito nove dez onze doze treze catorze quinze "
            "dezesseis dezessete dezoito dezenove"
        ),
        "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
    ),
}
_HUNDREDS = {
    "es": "cien doscientos trescientos cuatrocientos quinientos seiscientos setecientos "
    "ochocientos novecientos",
    "pt": "cem duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos "
    "novecentos",
}
_THOUSANDS = frozenset(("tausend", "duizend", "mila", "mille", "mil"))
_JOINED_THOUSAND = re.compile("tausend|duizend|mila")
# Words of another language or of English as well: alone they count in a text in their language.
_AMBIGUOUS = frozenset(
    (
        *("due", "once", "sept", "dos", "elf", "sei", "cent", "mil", "tre", "otto"),
        *("cento", "mille", "six", "dix", "doze", "acht", "tres", "vier", "nove", "dez"),
        *("sette", "onze", "seize", "diez", "cem", "cien", "tien", "zes", "trois", "cinq"),
        *("huit", "neuf", "sechs", "drei"),
    )
)
_TOKEN = re.compile(r"[^\W\d_]+")
_MOST_TOKENS = 9  # "one hundred and fifty thousand two hundred and five" has so many words


def _below_hundred(language: str) -> Iterator[tuple[str, int]]:
    small, tens = (words.split() for words in _FOREIGN[language])
    yield from ((word, value) for value, word in enumerate(small))
    for ten, name in enumerate(tens, start=2):
        yield name, 10 * ten
        for one in range(1, 10):
            for word in _with_one(language, name, small[one], one):
                yield word, 10 * ten + one
    if language == "fr":
        for value in range(10, 20):
            yield f"soixante {small[value]}", 60 + value
            yield f"soixante et {small[value]}", 60 + value
        yield "quatre vingts", 80
        yield from ((f"quatre vingt {small[value]}".rstrip(), 80 + value) for value in range(1, 20))
        yield "quatre vingt", 80
    if language == "pt":
        yield from (("quatorze", 14), ("dezasseis", 16), ("dezassete", 17), ("dezanove", 19))
    if language == "de":
        yield "eins", 1


def _with_one(language: str, ten: str, one: str, value: int) -> Iterator[str]:
    if language in ("de", "nl"):
        yield f"{one}{'und' if language == 'de' else 'en'}{ten}"
    elif language == "it":
        yield (ten[:-1] if value in (1, 8) else ten) + one
    elif language == "fr":
        yield from (f"{ten} {one}", f"{ten} et {one}")
    elif language == "es":
        yield f"veinti{one}" if ten == "veinte" else f"{ten} y {one}"
        if value == 1:
            yield "veintiun" if ten == "veinte" else f"{ten} y un"
    else:
        yield f"{ten} e {one}"


def _below_thousand(language: str) -> Iterator[tuple[str, int]]:
    below = list(_below_hundred(language))
    yield from below
    small = _FOREIGN[language][0].split()
    if language in _HUNDREDS:
        join = " e " if language == "pt" else " "
        for hundred, name in enumerate(_HUNDREDS[language].split(), start=1):
            yield name, 100 * hundred
            stem = {"cien": "ciento", "cem": "cento"}.get(name, name)
            yield from ((f"{stem}{join}{word}", 100 * hundred + value) for word, value in below)
        return
    name = {"de": "hundert", "nl": "honderd", "fr": "cent", "it": "cento"}[language]
    gap = " " if language == "fr" else ""
    links = {"de": ("", "und"), "nl": ("", "en")}.get(language, (gap,))
    for hundred in range(1, 10):
        firsts = {f"{small[hundred]}{gap}{name}"} | ({name} if hundred == 1 else set())
        for first in firsts:
            yield first, 100 * hundred
            if language == "fr":
                yield f"{first}s", 100 * hundred
            for link in links:
                for word, value in below:
                    yield f"{first}{link}{word}", 100 * hundred + value


@functools.cache
def _lexicon() -> tuple[Mapping[str, int], Mapping[str, frozenset[str]], frozenset[str]]:
    """Phrases of number words and their values, the languages of each, and how they begin."""
    values: dict[str, int] = {}
    spoken_in: dict[str, frozenset[str]] = {}
    for language in _FOREIGN:
        for phrase, value in _below_thousand(language):
            key = phrase.replace("-", " ")
            if value:
                values.setdefault(key, value)
                spoken_in[key] = spoken_in.get(key, frozenset()) | {language}
    for word, languages in (("mil", "es pt"), ("mille", "fr it"), ("tausend", "de")):
        values[word], spoken_in[word] = 1000, frozenset(languages.split())
    values["duizend"], spoken_in["duizend"] = 1000, frozenset(("nl",))
    return values, spoken_in, frozenset(key.split(" ", maxsplit=1)[0] for key in values)


def foreign(text: str, runs: Runs | None = None) -> list[WrittenNumber]:
    """Numbers in words of German, Dutch, French, Spanish, Italian and Portuguese."""
    runs = runs or Runs(text)
    firsts = _lexicon()[2]
    begun = runs.among(firsts)
    if any(joined in text for joined in ("tausend", "duizend", "mila")):
        begun |= {word for word in runs.words if _JOINED_THOUSAND.search(word)}
    spoken_here: frozenset[str] | None = None
    found: list[WrittenNumber] = []
    reached = 0
    for place in runs.places({"", *begun}):
        if place < reached:
            continue
        tokens = _tokens(text, place)
        read = _foreign_amount([word for word, _ in tokens]) if tokens else None
        if read is None:
            continue
        value, taken = read
        if taken == 1 and (value == 1 or tokens[0][0] in _AMBIGUOUS):
            if spoken_here is None:
                spoken_here = languages_of(runs.words)
            if value == 1 or spoken_here.isdisjoint(_lexicon()[1][tokens[0][0]]):
                continue
        reached = tokens[taken - 1][1]
        found.append(WrittenNumber(start=place, end=reached, sort="words", value=float(value)))
    return found


def _tokens(text: str, place: int) -> list[tuple[str, int]]:
    """The words from a place on, bare and in small letters, and where each ends."""
    firsts = _lexicon()[2]
    tokens: list[tuple[str, int]] = []
    while len(tokens) < _MOST_TOKENS and (match := _TOKEN.match(text, place)):
        word = bare(match[0].lower()).replace("ß", "ss")
        if not tokens and word not in firsts and not _JOINED_THOUSAND.search(word):
            break
        tokens.append((word, match.end()))
        place = match.end() + 1
        if text[match.end() : place] not in (" ", "-"):
            break
    return tokens


def _foreign_amount(words: Sequence[str]) -> tuple[Decimal, int] | None:
    """The number that words begin with, and how many of them it takes."""
    value, taken = _thousands(words[0]) or 0, 1
    if not value:
        value, taken = _phrase(words)
        if not taken:
            return None
        after = words[taken : taken + 1]
        if value < 1000 and after and after[0] in _THOUSANDS:
            value, taken = value * 1000, taken + 1
        if value >= 1000:
            skip = taken + (words[taken : taken + 1] == ["e"])
            rest, more = _phrase(words[skip:])
            if more and rest < 1000:
                value, taken = value + rest, skip + more
    if list(words[taken : taken + 1]) and words[taken] in POINT_WORDS:
        rest, more = _phrase(words[taken + 1 :])
        if more and rest < 100:
            digits, taken = str(rest), taken + 1 + more
            while rest < 10 and taken < len(words) and _lexicon()[0].get(words[taken], 10) < 10:
                digits += str(_lexicon()[0][words[taken]])
                taken += 1
            return Decimal(f"{value}.{digits}"), taken
    return Decimal(value), taken


def _phrase(words: Sequence[str]) -> tuple[int, int]:
    """The longest phrase that words begin with: its value, and how many words it has."""
    values = _lexicon()[0]
    for size in range(min(len(words), _MOST_TOKENS), 0, -1):
        value = values.get(" ".join(words[:size]))
        if value is not None:
            return value, size
    return 0, 0


def _thousands(word: str) -> int | None:
    """One word with a thousand in it: "funfundachtzigtausend"."""
    found = _JOINED_THOUSAND.search(word)
    if found is None or word == found[0]:
        return None
    values = _lexicon()[0]
    head, tail = word[: found.start()], word[found.end() :]
    before = values.get(head, 0) if head else 1
    after = values.get(tail, 0)
    if not 1 <= before < 1000 or (tail and not 1 <= after < 1000):
        return None
    return 1000 * before + after


_SIGN_DIGITS = dict(zip("零〇一二三四五六七八九", (0, 0, *range(1, 10)), strict=True)) | {
    "两": 2,
    "兩": 2,
}
_SIGN_SCALES = {"十": 10, "百": 100, "千": 1000}
_SIGNS = re.compile(
    "[零〇一二两兩三四五六七八九十百千万萬]{2,12}(?:[点點][零〇一二三四五六七八九]{1,6})?"
    "|[零〇一二三四五六七八九][点點][零〇一二三四五六七八九]{1,6}"
)
_LEAST_SIGNS = 3  # digits alone: two may be a date or a word ("五四")


def signs(text: str) -> list[WrittenNumber]:
    """Numbers in Chinese signs: "五十四", "一百三十四", "八万五千", "五点九"."""
    if text.isascii():
        return []
    found = []
    for match in _SIGNS.finditer(text):
        whole, _, tail = match[0].replace("點", "点").partition("点")
        value = _signs_value(whole)
        if value is not None and (tail or len(whole) >= _LEAST_SIGNS or not _only_digits(whole)):
            decimals = "".join(str(_SIGN_DIGITS[sign]) for sign in tail)
            read = float(f"{value}.{decimals}") if tail else float(value)
            found.append(
                WrittenNumber(start=match.start(), end=match.end(), sort="words", value=read)
            )
    return found


def _only_digits(text: str) -> bool:
    return all(sign in _SIGN_DIGITS for sign in text)


def _signs_value(text: str) -> int | None:
    if _only_digits(text):
        return int("".join(str(_SIGN_DIGITS[sign]) for sign in text))
    head, mark, tail = text.replace("萬", "万").partition("万")
    if mark:
        more = 0 if not tail else _signs_value(tail.lstrip("零〇"))
        most = _signs_value(head) if head else None
        if len(tail) == 1 and more is not None:
            more *= 1000  # "三万五" is 35 000
        return None if most is None or more is None or more >= 10_000 else most * 10_000 + more
    total, digit, last = 0, None, 10_000
    for place, sign in enumerate(text):
        if sign in _SIGN_SCALES:
            scale = _SIGN_SCALES[sign]
            if scale >= last or (digit is None and not (scale == 10 and place == 0)):
                return None
            total, digit, last = total + (1 if digit is None else digit) * scale, None, scale
        elif _SIGN_DIGITS[sign] == 0:
            continue
        elif digit is not None:
            return None
        else:
            digit = _SIGN_DIGITS[sign]
    if digit is not None and len(text) > 1 and text[-2] in "百千":
        digit *= last // 10  # "二百二" is 220
    return total + (digit or 0)


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


def spell(written: str, *, group: str, decimal: str) -> str:
    """Plain digits ("-12345.60", or "1e+30") with these marks.

    What it writes is read back with the same marks, or writes the same again: a text that was
    sanitized stays as it is when it is sanitized once more. So a single group is not set apart by a
    point: 83.420 would be read as eighty-three.
    """
    if "e" in written:
        return written.replace(".", decimal)
    whole, _, fraction = written.partition(".")
    digits = whole.lstrip("-")
    lone = group == "." and len(digits) <= 6 and not fraction
    if group and len(digits) > 3 and not lone:
        head = len(digits) % 3
        threes = [digits[at : at + 3] for at in range(head, len(digits), 3)]
        digits = group.join(([digits[:head]] if head else []) + threes)
    sign = "-" if whole.startswith("-") else ""
    return sign + digits + (decimal + fraction if fraction else "")


def reads_as_thousands(written: str, decimal: str) -> bool:
    """Whether plain digits with this decimal mark look like thousands: 30,125."""
    whole, _, fraction = written.lstrip("-").partition(".")
    return decimal == "," and len(fraction) == 3 and len(whole) <= 3 and whole != "0"
