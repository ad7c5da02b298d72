"""The forms in which a reply may write a token, and the original in the same form.

A model does not copy tokens, it uses them: "+1 732 918 4402" becomes "(732) 918-4402", "1985-06-02"
becomes "June 2nd, 1985", "QM-5520913" becomes "qm5520913". A form is a sequence of letters and
digits with places where separators may stand; `Sequences` finds all of them in one walk. What is
written is then filled with the original's digits, letters or day, so that it keeps its form.

Names are not here: they are found word by word (see `replies`).
"""

import datetime
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rootguard.identifiers.formats import Kind, read_day, read_digits

Rewrite = Callable[[str, str], str]
"""From what is written and the original identifier to what stands there instead."""
Edge = Literal["alone", "loose", "day"]
"""How a find must stand: as `finding` says; with nothing going on; without a year behind it."""

# From this many letters and digits on, another grouping is still the same number; shorter ones
# would be met in any table of figures.
REGROUPED = 6
SEPARATORS = frozenset(".,-/()_:#\\\u00b7\u2010\u2011\u2012\u2013\u2014\u2212 \t\n\u00a0\u202f")
_WIDEST_GAP = 3  # characters, as in ") -"; more is another sentence
_ESCAPE = re.compile(r"\\u(?:00a0|00b7|002[def]|0020|201[0-5]|202f|2212)", re.IGNORECASE)
"""Separators as JSON may write them."""
_ESCAPE_LENGTH = len("\\u2011")


@dataclass(frozen=True, slots=True, repr=False)
class TokenForm:
    """One way to write a token: whose, how the original is put there, and how it must stand."""

    kind: Kind
    token: str
    rewrite: Rewrite
    edge: Edge = "loose"


class _Node:
    __slots__ = ("following", "form", "gap")

    def __init__(self) -> None:
        self.following: dict[str, _Node] = {}
        self.form: TokenForm | None = None
        self.gap = False


class Sequences:
    """Forms by the letters and digits they are made of."""

    __slots__ = ("_begins", "_root")

    def __init__(self) -> None:
        self._root = _Node()
        self._begins: re.Pattern[str] | None = None

    def add(self, sequence: str, form: TokenForm, gaps: Iterable[int] | None = None) -> None:
        """Take up a form; separators may stand before the places in `gaps`, by default all.

        The first form of a sequence stays: a token means one thing.
        """
        node = self._root
        allowed = frozenset(range(1, len(sequence)) if gaps is None else gaps)
        for place, character in enumerate(sequence):
            node.gap = node.gap or place in allowed
            following = node.following.get(character)
            if following is None:
                following = node.following[character] = _Node()
                if place <= 1:
                    self._begins = None
            node = following
        if node.form is None and sequence:
            node.form = form

    def __bool__(self) -> bool:
        return bool(self._root.following)

    def starts(self, text: str, first: int = 0) -> Iterator[int]:
        """Where, from `first` on, a form can begin."""
        if not self:
            return
        if self._begins is None:
            # Two characters tell most words apart; a text may break off after one.
            firsts = "".join(map(re.escape, self._root.following))
            pairs = "|".join(
                f"(?<={re.escape(first)}){_next(node)}"
                for first, node in self._root.following.items()
            )
            # The character first: that is what `re` can look for quickly.
            self._begins = re.compile(f"[{firsts}]{_OPENED}(?:{pairs})", re.IGNORECASE | re.DOTALL)
        for match in self._begins.finditer(text, first):
            yield match.start()

    def walk(self, text: str, start: int) -> tuple[list[tuple[int, TokenForm]], bool]:
        """The forms that begin here, by their ends, and whether the text breaks off a longer one.

        A character that a form has is taken as that before it is taken as a separator.
        """
        node, place, gap = self._root, start, 0
        found: list[tuple[int, TokenForm]] = []
        while place < len(text):
            following = node.following.get(lower(text[place]))
            if following is not None:
                node, gap = following, 0
                if node.form is not None:
                    found.append((place + 1, node.form))
            elif node.gap and gap < _WIDEST_GAP and text.startswith("\\u", place):
                if not _ESCAPE.match(text, place):
                    # Broken off, or another sign.
                    return found, len(text) - place < _ESCAPE_LENGTH and bool(node.following)
                gap += 1
                place += _ESCAPE_LENGTH - 1
            elif node.gap and gap < _WIDEST_GAP and text[place] in SEPARATORS:
                gap += 1
            else:
                return found, False
            place += 1
        return found, bool(node.following)


def _next(node: _Node) -> str:
    """What may stand behind the first character of a form, as a pattern."""
    if node.form is not None:
        return ""
    marks = (*node.following, *(SEPARATORS if node.gap else ()))
    return f"(?=[{''.join(map(re.escape, sorted(marks)))}]|\\Z)"


# Not inside a word or number; behind an escape of JSON ("\n", "\u2019") or of an address ("%20"); a
# number may follow a word ("MRN5520913").
_OPENED = (
    r"(?:(?<![^\W_].)|(?<=\\[nrtbf].)|(?<=\\u[0-9A-Fa-f]{4}.)|(?<=%[0-9A-Fa-f]{2}.)"
    r"|(?<=[^\W\d_][0-9]))"
)


def lower(character: str) -> str:
    """A character in lower case, if that is one character."""
    made = character.lower()
    return made if len(made) == 1 else character


def alphanumeric(text: str) -> str:
    """The letters and digits of a text in lower case."""
    return "".join(lower(character) for character in text if character.isalnum())


def _plain(written: str) -> str:
    """What is written, of the same length, without the letters and digits of escapes."""
    return _ESCAPE.sub("\0" * _ESCAPE_LENGTH, written)


def styled(written: str, token: str, original: str) -> str:
    """The original in the letter case in which its token is written."""
    if written == token:
        return original
    if written.islower():
        return original.lower()
    if written.isupper() and (len(written) > 1 or len(token) == 1):
        return original.upper()
    return original


# Codes and phone numbers: the characters of the original, one for one.


def code_forms(token: str) -> Iterator[tuple[str, TokenForm, Iterable[int] | None]]:
    """A code in any case and grouping; a long number in it by itself, without its prefix."""
    sequence = alphanumeric(token)
    everything = range(len(sequence))
    numbered = len(sequence) >= REGROUPED and any(map(str.isdigit, sequence))
    if not numbered:
        yield (
            sequence,
            TokenForm("code", token, _placing(token, everything), "alone"),
            _gaps_of(token),
        )
        return
    yield sequence, TokenForm("code", token, _placing(token, everything)), None
    for run in re.finditer("[0-9]+", sequence):
        if REGROUPED <= len(run[0]) < len(sequence):
            yield run[0], TokenForm("code", token, _placing(token, range(*run.span()))), None


def _gaps_of(token: str) -> list[int]:
    """Before which letters and digits of a token separators stand."""
    counts = itertools.accumulate(map(str.isalnum, token))
    pairs = zip(token, counts, strict=True)
    return [number for character, number in pairs if not character.isalnum()]


def phone_forms(token: str) -> Iterator[tuple[str, TokenForm, Iterable[int] | None]]:
    """A phone number with and without country code, trunk digit, extension and area."""
    read = read_digits(token)
    if read is None:
        return
    main = range(read.national.stop)
    national, code = list(read.national), list(range(read.national.start))
    trunk = code and read.digits[code[-1]] == "0"
    code = code[:-1] if trunk else code
    code = [] if code and read.digits.startswith("00") and not token.startswith("+") else code
    kept = (None,)
    forms: list[tuple[str, Sequence[int | None]]] = [
        (read.digits, range(len(read.digits))),
        (read.digits[: main.stop], main),
    ]
    if len(national) >= _LEAST_LOCAL:
        own = "".join(read.digits[place] for place in national)
        abroad = "".join(read.digits[place] for place in code)
        forms += [(own, national), ("0" + own, (*kept, *national))]
        if abroad:
            forms += [
                (abroad + own, (*code, *national)),
                (abroad + "0" + own, (*code, *kept, *national)),
                ("00" + abroad + own, (*kept, *kept, *code, *national)),
            ]
        if len(national) == len("4155550132"):
            forms += [("1" + own, (*kept, *national)), (own[3:], national[3:])]
    for sequence, places in forms:
        if len(sequence) >= _LEAST_LOCAL:
            yield sequence, TokenForm("phone", token, _placing(token, places)), None
        else:
            yield (
                sequence,
                TokenForm("phone", token, _placing(token, places), "alone"),
                _gaps_of(token),
            )


_LEAST_LOCAL = 7
"""Digits of a number without its area; fewer are met by chance."""


def _placing(token: str, places: Sequence[int | None]) -> Rewrite:
    """Puts the original's characters where its token's stand; None is a digit that stays."""
    issued = [character for character in token if character.isalnum()]

    def rewrite(written: str, original: str) -> str:
        own = [character for character in original if character.isalnum()]
        plain = _plain(written)
        said = [character for character in plain if character.isalnum()]
        meant = [issued[place] for place in places if place is not None]
        given = [c for c, place in zip(said, places, strict=True) if place is not None]
        letters = "".join(filter(str.isalpha, given))
        as_issued = given == meant
        filled = iter(places)
        out = []
        for character, spelled in zip(written, plain, strict=True):
            place = next(filled) if spelled.isalnum() else None
            if place is None:
                out.append(character)
            elif as_issued or not letters:
                out.append(own[place])
            else:
                out.append(own[place].lower() if letters.islower() else own[place].upper())
        return "".join(out)

    return rewrite


# Texts that are taken as they are, in any letter case.


def literal_form(
    kind: Kind, token: str, part: Callable[[str], str] = str
) -> tuple[str, TokenForm, Iterable[int]]:
    """A token, or a part of it, to the character."""
    said = part(token)

    def rewrite(written: str, original: str) -> str:
        return styled(written, said, part(original))

    return "".join(map(lower, said)), TokenForm(kind, token, rewrite), ()


def local_part(address: str) -> str:
    """What stands before the "@"."""
    return address.rpartition("@")[0]


def domain_part(address: str) -> str:
    """What stands behind the "@"."""
    return address.rpartition("@")[2]


def email_forms(token: str) -> Iterator[tuple[str, TokenForm, Iterable[int] | None]]:
    """An address, and either half of it by itself."""
    yield literal_form("email", token)
    yield literal_form("email", token, local_part)
    yield literal_form("email", token, domain_part)
    yield literal_form("email", token, lambda address: address.replace("@", "%40"))
    yield literal_form("email", token, lambda address: address.replace("@", "\\u0040"))


# Days, in figures and in words.


@dataclass(frozen=True, slots=True)
class _Calendar:
    """The words for months and weekdays in one language; `of` stands before month and year."""

    months: tuple[str, ...]
    week: tuple[str, ...] = ()
    of: str = ""


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


# Languages in which replies are read, in the order in which a month that two share is taken.
_ENGLISH = _listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
_CALENDARS: dict[str, _Calendar] = {
    "en": _Calendar(
        (
            *("January", "February", "March", "April", "May", "June"),
            *("July", "August", "September", "October", "November", "December"),
        ),
        _ENGLISH,
    ),
    "short": _Calendar(
        _listed("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
        tuple(day[:3] for day in _ENGLISH),
    ),
    "shorter": _Calendar(_listed("Jan Feb Mar Apr May June July Aug Sept Oct Nov Dec"), _ENGLISH),
    "de": _Calendar(
        (
            *("Januar", "Februar", "M\u00e4rz", "April", "Mai", "Juni"),
            *("Juli", "August", "September", "Oktober", "November", "Dezember"),
        ),
        _listed("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"),
    ),
    "fr": _Calendar(
        (
            *("janvier", "f\u00e9vrier", "mars", "avril", "mai", "juin"),
            *("juillet", "ao\u00fbt", "septembre", "octobre", "novembre", "d\u00e9cembre"),
        ),
        _listed("lundi mardi mercredi jeudi vendredi samedi dimanche"),
    ),
    "es": _Calendar(
        (
            *("enero", "febrero", "marzo", "abril", "mayo", "junio"),
            *("julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre"),
        ),
        _listed("lunes martes mi\u00e9rcoles jueves viernes s\u00e1bado domingo"),
        of="de",
    ),
    "it": _Calendar(
        (
            *("gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno"),
            *("luglio", "agosto", "settembre", "ottobre", "novembre", "dicembre"),
        )
    ),
    "pt": _Calendar(
        (
            *("janeiro", "fevereiro", "mar\u00e7o", "abril", "maio", "junho"),
            *("julho", "agosto", "setembro", "outubro", "novembro", "dezembro"),
        ),
        of="de",
    ),
    "nl": _Calendar(
        (
            *("januari", "februari", "maart", "april", "mei", "juni"),
            *("juli", "augustus", "september", "oktober", "november", "december"),
        )
    ),
}
_WRITTEN_SMALL = ("fr", "es", "it", "pt", "nl")
"""Languages that write months in lower case."""
_Field = tuple[str, str]
"""What stands in a field, and which it is: y(ear), m(onth in figures), w(ord for it), d(ay),
n(th day), a (weekday), k(ept)."""


def date_forms(token: str) -> Iterator[tuple[str, TokenForm, Iterable[int] | None]]:
    """A day in every order of day, month and year, in figures and words; with its weekday."""
    read = read_day(token)
    if read is None:
        return
    if read.times:
        yield literal_form("date", token)
    rewrites: dict[tuple[str, ...], Rewrite] = {}
    for fields in itertools.chain(_in_figures(read.day), _in_words(read.day)):
        names = tuple(name for _, name in fields)
        if names not in rewrites:
            rewrites[names] = _dating(names)
        form = TokenForm("date", token, rewrites[names], "loose" if "y" in names else "day")
        ends = itertools.accumulate(len(text) for text, _ in fields)
        yield "".join(text for text, _ in fields), form, ends


def _in_figures(day: datetime.date) -> Iterator[list[_Field]]:
    year, short = (str(day.year), "y"), (f"{day.year % 100:02d}", "y")
    months = {(str(day.month), "m"), (f"{day.month:02d}", "m")}
    days = {(str(day.day), "d"), (f"{day.day:02d}", "d")}
    for d, m in itertools.product(days, months):
        yield [year, m, d]
        for y in (year, short):
            yield [d, m, y]
            yield [m, d, y]


def _in_words(day: datetime.date) -> Iterator[list[_Field]]:
    year = (str(day.year), "y")
    days = {(str(day.day), "d"), (f"{day.day:02d}", "d")}
    nth = (str(day.day) + _ordinal(day.day), "n")
    the, of = ("the", "k"), ("of", "k")
    for name, calendar in _CALENDARS.items():
        word = (lowered(calendar.months[day.month - 1]), "w")
        week = [(lowered(calendar.week[day.weekday()]), "a")] if calendar.week else []
        de = [(calendar.of, "k")] if calendar.of else []
        english = name in ("en", "short", "shorter")
        yield from ([year, word, d] for d in days)
        for front, back in itertools.product(([], week) if week else ([],), ([year], [])):
            for d in (*days, nth) if english else days:
                yield [*front, d, *de, word, *(de if back else ()), *back]
                yield [*front, word, d, *back]
            if english:
                yield [*front, nth, of, word, *back]
                yield [*front, the, nth, of, word, *back]
                yield [*front, word, the, nth, *back]
            elif week:
                for d, article in itertools.product(days, ("den", "dem", "le", "el")):
                    yield [*front, (article, "k"), d, *de, word, *(de if back else ()), *back]


def lowered(word: str) -> str:
    """A word in lower case, character by character."""
    return "".join(map(lower, word))


def _ordinal(day: int) -> str:
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day not in (11, 12, 13) else 0, "th")


_PART = re.compile(r"[0-9]+|[^\W\d_]+")
_Spot = tuple[int, int, str]


def _dating(names: tuple[str, ...]) -> Rewrite:
    """Writes the original's day in these fields."""

    def rewrite(written: str, original: str) -> str:
        read = read_day(original)
        spots = _spots(written, names)
        if read is None or spots is None:
            return written
        numbers = [written[start:end] for start, end, name in spots if name in ("d", "m")]
        padded = any(number.startswith("0") for number in numbers) or (
            "w" not in names and all(len(number) == 2 for number in numbers)
        )
        out, rest = [], 0
        for start, end, name in spots:
            field = _field(name, written[start:end], read.day, written, padded=padded)
            out += [written[rest:start], field]
            rest = end
        return "".join((*out, written[rest:]))

    return rewrite


def _spots(written: str, names: tuple[str, ...]) -> list[_Spot] | None:
    """Where the fields stand in what is written; an ordinal is two of them."""
    wanted = [each for name in names for each in (("d", "th") if name == "n" else (name,))]
    parts = [match.span() for match in _PART.finditer(_plain(written))]
    if len(parts) == 1 and len(written) == len("19850602"):  # without separators
        widths = [4 if name == "y" else 2 for name in wanted]
        parts = list(itertools.pairwise(itertools.accumulate(widths, initial=0)))
    if len(parts) != len(wanted):
        return None
    return [(*part, name) for part, name in zip(parts, wanted, strict=True)]


def _field(name: str, said: str, day: datetime.date, written: str, *, padded: bool) -> str:
    match name:
        case "y":
            return f"{day.year:04d}" if len(said) == len("1985") else f"{day.year % 100:02d}"
        case "m":
            return f"{day.month:02d}" if padded else str(day.month)
        case "d":
            return f"{day.day:02d}" if padded else str(day.day)
        case "th":
            made = _ordinal(day.day)
            return made.upper() if said.isupper() else made
        case "w":
            return _cased(said, _language(said, written).months[day.month - 1])
        case "a":
            weeks = (each.week for each in _CALENDARS.values())
            week = next(w for w in weeks if lowered(said) in map(lowered, w))
            return _cased(said, week[day.weekday()])
        case _:
            return said


def _language(month: str, written: str) -> _Calendar:
    """The language that a date is written in, as far as it shows."""
    having = {
        name: each
        for name, each in _CALENDARS.items()
        if lowered(month) in map(lowered, each.months)
    }
    small = [having[name] for name in _WRITTEN_SMALL if name in having]
    if re.search(r"[0-9]\. ", written) and "de" in having:
        return having["de"]
    return small[0] if small and month.islower() else next(iter(having.values()))


def _cased(said: str, word: str) -> str:
    if said.isupper():
        return word.upper()
    return word.lower() if said.islower() else word[:1].upper() + word[1:]


def forms_of(kind: Kind, token: str) -> Iterator[tuple[str, TokenForm, Iterable[int] | None]]:
    """The sequences that spell a token, with their forms and where separators may stand."""
    match kind:
        case "code":
            return code_forms(token)
        case "phone":
            return phone_forms(token)
        case "email":
            return email_forms(token)
        case "date":
            return date_forms(token)
        case "person":
            return iter(())
