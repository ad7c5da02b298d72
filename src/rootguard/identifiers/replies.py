"""Tokens in a reply: in which forms they are written there, where they stand, and what was meant.

A model does not copy tokens, it uses them: "+1 732 918 4402" becomes "(732) 918-4402", "1985-06-02"
becomes "June 2nd, 1985", "QM-5520913" becomes "qm5520913". A form is a sequence of letters and
digits with places where separators may stand; `Sequences` finds all of them in one walk. What is
written is then filled with the original's digits, letters or day, so that it keeps its form.

Numbers, days and addresses are found by these sequences, names by their words. A word of a name
counts in any letter case, with a possessive or a plural "s", within an address or the name of a
file, with initials. It is somebody else's where a capitalised word stands beside it that the
conversation never mentioned ("Anna Ostrander", "the Patel Museum"), an author's in a citation, and
another word where letters go on ("Annaburg").

Every decision looks a bounded way to both sides. `_Unsettled` says that the text breaks off before
the decision, so that a stream waits; a whole text and its pieces are restored alike.
"""

import datetime
import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NoReturn, SupportsIndex

from rootguard.errors import IdentifierError
from rootguard.identifiers.formats import (
    BESIDE,
    PARTICLES,
    SUFFIXES,
    TITLES,
    Kind,
    Role,
    read_day,
    read_digits,
)
from rootguard.identifiers.registry import closes, is_settled, opens

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
    return _FORMS[kind](token) if kind in _FORMS else iter(())  # names have words, no sequences


_FORMS = {"code": code_forms, "phone": phone_forms, "email": email_forms, "date": date_forms}


_CONTEXT = 128
"""Characters to the left that a decision may look at: three words, their gaps and a mark."""
_LONGEST = 30
"""Letters; a longer word is no name, and no neighbour."""
_LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0300-\u036f\u1e00-\u1eff"
# Escapes first: the "n" of "\nAnna" in a JSON text is none of the name's letters.
_RUN = re.compile(rf"\\[nrtbf]|\\u[0-9A-Fa-f]{{4}}|%[0-9A-Fa-f]{{2}}|([{_LATIN}]+)")
_ESCAPED = re.compile(r"(?:\\[nrtbf]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2})\Z")
_BESIDE_GAPS = (" ", "\u00a0", "-")
_PAIR_GAPS = (*_BESIDE_GAPS, ", ", ",", ".", "_", "+", "/", "\n", "  ", "%20")
_INITIAL_GAPS = (". ", ".", ".\u00a0", ".-", " ", "\u00a0", "-")
_OPENING = re.compile(r"(?:\A|[.!?:;\n\r])[\s\"'\u201c\u201d\u2018(*_#>\[\-\u2022]*\Z")
_OPENING_REACH = 8  # characters: the end of a sentence, blanks, a quote or a mark of a list
_YEAR_NEXT = re.compile(r"(?:,?\s+|-|/|\.\s?)(?:(?:of|de|del)\s+)?[0-9]{4}(?![0-9])")
_YEAR_BEGUN = re.compile(r"(?:,?\s*|-|/|\.\s?)(?:o|of|d|de|del)?\s*[0-9]{0,4}")
_YEAR_REACH = 12  # characters: ", del 2026" and a blank or two
_CITED = re.compile(r" et al| \([0-9]{4}")
_CITED_BEGUN = re.compile(r" (?:e|et|et |et a|\([0-9]{0,3})?")
_MOST_INITIALS = 4  # between two words of a name; "J. R. R. Tolkien" has three
_HARMLESS = BESIDE | TITLES | SUFFIXES | PARTICLES


class _Unsettled(Exception):  # noqa: N818 - no error: a stream waits for more text
    """The text breaks off before it can be decided."""


@dataclass(frozen=True, slots=True, repr=False)
class NameWord:
    """A token that stands for one word of a name, and that word's place in a name."""

    token: str
    role: Role


@dataclass(frozen=True, slots=True, repr=False)
class TokenFind:
    """A stretch of a text where a token stands, and how to make out what was meant."""

    start: int
    end: int
    meant: Callable[[], str | None]


_Run = tuple[int, int, str]


@dataclass(frozen=True, slots=True, repr=False)
class _Said:
    """What a run of letters is made of, the first word perhaps as an initial only.

    Behind the words there may be the "s" of a plural or a genitive.
    """

    words: tuple[NameWord, ...]
    initial: bool = False
    tail: int = 0

    @property
    def token(self) -> str:
        first, *others = (word.token for word in self.words)
        return (first[:1] if self.initial else first) + "".join(others)


class TokenForms:
    """What was issued in one conversation, to find it again. Tokens only; originals are asked for.

    `original` gives the identifier behind an issued token; `known` says whether a word in lower
    case stands in the conversation. Not safe for threads: whoever uses it has a lock.
    """

    __slots__ = (
        "_heads",
        "_known",
        "_letters",
        "_original",
        "initials",
        "partners",
        "retired",
        "sequences",
        "words",
        "words_said",
    )

    def __init__(
        self, original: Callable[[Kind, str], str | None], known: Callable[[str], bool]
    ) -> None:
        self._original = original
        self._known = known
        self.words_said: dict[str, _Said] = {}
        self._heads: set[str] | None = None  # made when a stream first asks: most replies are whole
        self._letters: set[str] = set()
        self.sequences = Sequences()
        self.words: dict[str, NameWord] = {}
        self.retired: set[str] = set()
        self.initials: dict[str, set[str]] = {}
        self.partners: dict[str, set[str]] = {}

    def add(self, kind: Kind, token: str) -> None:
        """Take up a token that is no name."""
        for sequence, form, gaps in forms_of(kind, token):
            self.sequences.add(sequence, form, gaps)

    def add_word(self, token: str, role: Role) -> None:
        """Take up a word of a name."""
        key = token.lower()
        word = self.words.setdefault(key, NameWord(token, role))
        self.words_said[key] = _Said((word,))
        self.words_said.setdefault(key + "s", _Said((word,), tail=1))
        self._letters.add(token[0].upper())
        self._add_heads(key)

    def add_initial(self, letter: str, beside: Iterable[str]) -> None:
        """Take up an initial that was replaced in a name of these words; of none: of any name."""
        keys = {token.lower() for token in beside}
        if letter not in self.initials:
            self.initials[letter] = keys
        elif self.initials[letter] and keys:
            self.initials[letter] |= keys
        else:
            self.initials[letter] = set()
        self._letters.add(letter)

    def was_replaced(self, letter: str, word: NameWord) -> bool:
        """Whether an initial was replaced in a name with this word."""
        keys = self.initials.get(letter)
        return keys is not None and (not keys or word.token.lower() in keys)

    def pair(self, given: str, surname: str) -> None:
        """These words are one person's: "AnnaPatel", "patelanna" and "apatel" mean them too."""
        one, other = self.words[given.lower()], self.words[surname.lower()]
        self.partners.setdefault(given.lower(), set()).add(surname.lower())
        self.partners.setdefault(surname.lower(), set()).add(given.lower())
        for said in (_Said((one, other)), _Said((other, one)), _Said((one, other), initial=True)):
            key = said.token.lower()
            self.words_said.setdefault(key, said)
            self._add_heads(key)

    def _add_heads(self, key: str) -> None:
        if self._heads is not None:
            self._heads.update(key[:length] for length in range(1, len(key) + 1))

    def finds(
        self, text: str, first: int = 0, *, last: bool = True, anywhere: bool = False
    ) -> tuple[list[TokenFind], int]:
        """What stands in the text from `first` on, in order, and from where on that may change.

        `anywhere`: also where a word of a name is more likely somebody else's.
        """
        found: list[TokenFind] = []
        open_from = len(text)
        for start in self.sequences.starts(text, first):
            try:
                found += self._spelled(text, start, last=last)
            except _Unsettled:
                open_from = start
                break
        if self.words and (windows := self._windows(text) if last else [(0, len(text))]):
            reading = _NameReading(self, text, windows, last=last, anywhere=anywhere)
            open_from = min(open_from, reading.read(first, found))
        chosen: list[TokenFind] = []
        for each in sorted(found, key=lambda each: (each.start, -each.end)):
            if each.start >= open_from:
                break
            if not chosen or each.start >= chosen[-1].end:
                chosen.append(each)
        if chosen and chosen[-1].end > open_from:
            open_from = chosen.pop().start
        return chosen, open_from

    def unpaired(self, text: str) -> set[str]:
        """Issued words that stand in a text without another word of a name beside them."""
        windows = self._windows(text)
        return set(_NameReading(self, text, windows, last=True, anywhere=True).unpaired())

    def _windows(self, text: str) -> list[tuple[int, int]]:
        """The parts of a whole text that words of names stand in, with what decides about them."""
        folded = "".join(map(lower, text)) if not text.isascii() else text.lower()
        places = sorted(place for word in self.words for place in _places(folded, word))
        windows: list[tuple[int, int]] = []
        for place in places:
            start, end = max(place - 2 * _CONTEXT, 0), min(place + 2 * _CONTEXT, len(text))
            if windows and start <= windows[-1][1]:
                windows[-1] = windows[-1][0], end
            else:
                windows.append((start, end))
        return windows

    def _spelled(self, text: str, start: int, *, last: bool) -> list[TokenFind]:
        ends, broken_off = self.sequences.walk(text, start)
        if broken_off and not last:
            raise _Unsettled
        for end, form in reversed(ends):
            if _stands(text, start, end, form, last=last):
                meant = partial(self._rewritten, form, text[start:end])
                return [TokenFind(start, end, meant)]
        return []

    def _rewritten(self, form: TokenForm, written: str) -> str | None:
        original = self._original(form.kind, form.token)
        return None if original is None else form.rewrite(written, original)

    def said(self, run: str) -> _Said | None:
        """What a run of letters says, if it is made of issued words."""
        return self.words_said.get(run.lower())

    def meaning(self, run: str, said: _Said) -> str | None:
        """The original of a run of letters, in its letter case."""
        parts = [self._original("person", word.token) for word in said.words]
        whole = [part for part in parts if part is not None]
        if len(whole) < len(parts):
            return None
        if said.initial:
            whole[0] = whole[0][:1]
        body, tail = run[: len(run) - said.tail], run[len(run) - said.tail :]
        if len(whole) > 1 and body == body.capitalize():  # "Apatel", "Annapatel"
            return "".join(whole).capitalize() + tail
        return styled(body, said.token, "".join(whole)) + tail

    def begins(self, key: str) -> bool:
        """Whether a run that the text breaks off may become an issued word."""
        if self._heads is None:
            said = self.words_said
            self._heads = {each[:length] for each in said for length in range(1, len(each) + 1)}
        return key in self._heads or key[:-1] in self.words

    def may_be_initial(self, letter: str) -> bool:
        """Whether a letter may stand for a word of an issued name."""
        return letter in self._letters

    def known(self, word: str) -> bool:
        """Whether the conversation has this word, or any has."""
        return word in _HARMLESS or self._known(word)

    def initial(self, letter: str, beside: NameWord) -> str | None:
        """The first letter of a partner of this word, if its token begins with the letter."""
        for key in sorted(self.partners.get(beside.token.lower(), ())):
            if key[0].upper() == letter:
                original = self._original("person", self.words[key].token)
                return None if original is None else original[:1].upper()
        return None

    def replaced_initial(self, letter: str) -> str | None:
        """The initial behind a replaced one."""
        return self._original("person", letter)


def _places(text: str, word: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def _stands(text: str, start: int, end: int, form: TokenForm, *, last: bool) -> bool:
    """Whether a form that is spelled here is all that is written here."""
    if form.edge == "alone":
        if not last and not is_settled(text, end):
            raise _Unsettled
        begun = opens(text, start) or _ESCAPED.search(text, max(start - 6, 0), start) is not None
        return begun and closes(text, start, end)
    after = text[end : end + 1]
    if not after:
        if not last:
            raise _Unsettled
        return True
    if text[end - 1].isdigit() and form.edge == "loose":
        return not after.isdigit()
    if after.isdigit() or re.match(f"[{_LATIN}]", after) is not None:
        return False
    if form.edge == "loose":
        return True
    ahead = text[end : end + _YEAR_REACH]
    if not last and len(ahead) < _YEAR_REACH and _YEAR_BEGUN.fullmatch(ahead):
        raise _Unsettled
    return _YEAR_NEXT.match(text, end) is None


class _NameReading:
    """One text, read for the names of one conversation."""

    __slots__ = ("_anywhere", "_forms", "_last", "_runs", "_text")

    def __init__(
        self,
        forms: TokenForms,
        text: str,
        windows: list[tuple[int, int]],
        *,
        last: bool,
        anywhere: bool,
    ) -> None:
        self._forms = forms
        self._text = text
        self._last = last
        self._anywhere = anywhere
        self._runs: list[_Run] = [
            (*match.span(), match[0])
            for start, end in windows
            for match in _RUN.finditer(text, start, end)
            if match[1] is not None
        ]

    def read(self, first: int, found: list[TokenFind]) -> int:
        """Add what is found from `first` on; give from where on that may change."""
        words = self._forms.words_said  # asked for every word of a reply
        for i, (start, end, run) in enumerate(self._runs):
            said = words.get(run.lower())
            if start < first or (said is None and len(run) > 1 and end < len(self._text)):
                continue
            try:
                self._settle(i)
                if said is not None:
                    if self._counts(i, said):
                        meant = partial(self._forms.meaning, run, said)
                        found.append(TokenFind(start, end, meant))
                elif len(run) == 1 and run.isupper() and self._forms.may_be_initial(run):
                    letter = self._initial(i)
                    if letter is not None:
                        found.append(TokenFind(start, end, letter))
            except _Unsettled:
                return start
        return len(self._text)

    def unpaired(self) -> Iterator[str]:
        """Issued words without another word of a name beside them."""
        for i, (_, _, run) in enumerate(self._runs):
            said = self._forms.said(run)
            alone = not self._paired_before(i) and not self._paired_after(i)
            if said is not None and len(said.words) == 1 and alone:
                yield said.words[0].token.lower()

    def _settle(self, i: int) -> None:
        """Wait for the rest of a run that may become an issued word."""
        _, end, run = self._runs[i]
        broken_off = not self._last and end == len(self._text)
        if broken_off and (self._forms.begins(run.lower()) or self._forms.may_be_initial(run)):
            raise _Unsettled

    def _counts(self, i: int, said: _Said) -> bool:
        if self._anywhere:
            return not any(word.token.lower() in self._forms.retired for word in said.words)
        if len(said.words) > 1 or self._paired_before(i):
            return True
        if self._blocked_before(i, said.words[0]):
            return self._paired_after(i)
        # A genitive "s" makes of the next word what is the person's: "Annas Werte".
        return bool(said.tail) or self._paired_after(i) or not self._blocked_after(i)

    # To the left all is there.

    def _gap(self, i: int) -> str:
        """What stands between a run and the next."""
        return self._text[self._runs[i][1] : self._runs[i + 1][0]]

    def _is_word(self, i: int) -> bool:
        return self._forms.said(self._runs[i][2]) is not None

    def _paired_before(self, i: int) -> bool:
        """Whether another word of a name stands before, perhaps with initials between."""
        for j in range(i - 1, max(i - 2 - _MOST_INITIALS, -1), -1):
            initial = len(self._runs[j][2]) == 1
            if self._gap(j) not in ((*_PAIR_GAPS, *_INITIAL_GAPS) if initial else _PAIR_GAPS):
                return False
            if not initial:
                return self._is_word(j)
        return False

    def _blocked_before(self, i: int, word: NameWord) -> bool:
        start, _, run = self._runs[i]
        if self._text[max(start - 1, 0) : start].isdigit() and not _ESCAPED.search(
            self._text, max(start - 6, 0), start
        ):
            return True
        if i == 0:
            return False
        gap, other = self._gap(i - 1), self._runs[i - 1][2]
        if gap == "." and run.islower() and self._stray(other):
            return True
        if gap not in _BESIDE_GAPS or len(other) == 1 or not self._strange(i - 1, run):
            return False
        if i > 1 and self._gap(i - 2) in _BESIDE_GAPS and self._partners(i - 2, i):
            return False  # a middle name
        place = self._runs[i - 1][0]
        # A sentence may begin with any word: "Remind Anna". Before a surname it is rather a name.
        opening = _OPENING.search(self._text, max(place - _OPENING_REACH, 0), place)
        return opening is None or gap == "-" or word.role == "surname"

    def _strange(self, i: int, run: str) -> bool:
        """Whether a capitalised word is one that the conversation has not mentioned."""
        start, _, other = self._runs[i]
        if not other[0].isupper() or len(other) > _LONGEST:
            return False
        if len(run) > 1 and run.isupper() and other.isupper():
            return False  # where all is in capitals they say nothing
        if self._forms.said(other) is not None or self._forms.known(other.lower()):
            return False
        ends, broken_off = self._forms.sequences.walk(self._text, start)
        if broken_off and not self._last:
            raise _Unsettled
        return not ends  # else it is a token of another kind

    def _stray(self, other: str) -> bool:
        """Whether what a full stop ties to a word in lower case is no part of the conversation."""
        return (
            other[0].islower()
            and self._forms.said(other) is None
            and not self._forms.known(other.lower())
        )

    def _partners(self, i: int, j: int) -> bool:
        one, other = (self._forms.said(self._runs[k][2]) for k in (i, j))
        if one is None or other is None:
            return False
        partners = self._forms.partners.get(one.words[0].token.lower(), set())
        return other.words[0].token.lower() in partners

    # To the right the text may break off.

    def _after(self, i: int, gaps: tuple[str, ...]) -> tuple[str, int] | None:
        """The next run, if one of these gaps is before it; waits until it is whole."""
        rest = self._runs[i][1]
        if i + 1 == len(self._runs):
            tail = self._text[rest:]
            if not self._last and any(gap.startswith(tail) for gap in gaps):
                raise _Unsettled
            return None
        gap = self._gap(i)
        if gap not in gaps:
            return None
        if not self._last and self._runs[i + 1][1] == len(self._text):
            raise _Unsettled
        return gap, i + 1

    def _paired_after(self, i: int) -> bool:
        here = i
        for _ in range(_MOST_INITIALS + 1):
            gaps = _PAIR_GAPS if len(self._runs[here][2]) > 1 else (*_PAIR_GAPS, *_INITIAL_GAPS)
            following = self._after(here, gaps)
            if following is None:
                return False
            here = following[1]
            if self._is_word(here):
                return True
            if len(self._runs[here][2]) != 1:
                return False
        return False

    def _blocked_after(self, i: int) -> bool:
        _, end, run = self._runs[i]
        after = self._text[end : end + 1]
        if not after:
            if not self._last:
                raise _Unsettled
            return False
        if after.isdigit() or after == "@" or self._cited(end):
            return True
        following = self._after(i, (*_BESIDE_GAPS, "."))
        if following is None:
            return False
        gap, j = following
        if gap == ".":
            return run.islower() and self._stray(self._runs[j][2])
        if len(self._runs[j][2]) == 1:  # an initial: the word behind it decides
            following = self._after(j, _INITIAL_GAPS) if self._runs[j][2].isupper() else None
            if following is None or not self._followed_by_dot(j):
                return False
            j = following[1]
        if not self._strange(j, run):
            return False
        middle = self._after(j, _BESIDE_GAPS)
        return middle is None or not self._partners(i, middle[1])

    def _cited(self, end: int) -> bool:
        """Whether a word is the author of a citation: "Patel et al.", "Patel (2019)"."""
        ahead = self._text[end : end + len(" et al")]
        if not self._last and len(ahead) < len(" et al") and _CITED_BEGUN.fullmatch(ahead):
            raise _Unsettled
        return _CITED.match(ahead) is not None

    def _followed_by_dot(self, i: int) -> bool:
        return self._text[self._runs[i][1] : self._runs[i][1] + 1] == "."

    # Initials

    def _initial(self, i: int) -> Callable[[], str | None] | None:
        """What an initial beside a name that counts stands for."""
        _, end, letter = self._runs[i]
        right = self._name_after(i)
        left = self._name_before(i)
        if not self._last and end == len(self._text):
            raise _Unsettled
        if not self._followed_by_dot(i) and (left is None or right is None):
            return None
        beside = [word for word in (left, right) if word is not None]
        if len(beside) == 2:
            replaced = any(self._forms.was_replaced(letter, word) for word in beside)
            return partial(self._forms.replaced_initial, letter) if replaced else None
        for word in beside:
            if any(
                key[0].upper() == letter for key in self._forms.partners.get(word.token.lower(), ())
            ):
                return partial(self._forms.initial, letter, word)
            if self._forms.was_replaced(letter, word):
                return partial(self._forms.replaced_initial, letter)
        return None

    def _name_after(self, i: int) -> NameWord | None:
        for _ in range(_MOST_INITIALS):
            following = self._after(i, _INITIAL_GAPS)
            if following is None:
                return None
            i = following[1]
            run = self._runs[i][2]
            said = self._forms.said(run)
            if said is not None:
                return said.words[0] if self._counts(i, said) else None
            if len(run) != 1:
                return None
        return None

    def _name_before(self, i: int) -> NameWord | None:
        for j in range(i - 1, max(i - 1 - _MOST_INITIALS, -1), -1):
            run = self._runs[j][2]
            if self._gap(j) not in ((*_INITIAL_GAPS, ", ") if j == i - 1 else _INITIAL_GAPS):
                return None
            said = self._forms.said(run)
            if said is not None:
                tied = self._gap(j)[:1] != "."  # "Anna. P. S." is another sentence
                return said.words[-1] if tied and self._counts(j, said) else None
            if len(run) != 1:
                return None
        return None


class PieceRestorer(ABC):
    """Restores one text that arrives in pieces. For one thread at a time.

    The pieces join to what restoring the whole text gives. Text is held back only while it may be
    part of something that is restored.
    """

    __slots__ = ("_before", "_closed", "_pending")

    def __init__(self) -> None:
        self._closed = False
        self._before = ""  # the last characters that are out, as they came
        self._pending = ""

    def feed(self, piece: str) -> str:
        """Take the next piece of the text; give what can be shown now, restored."""
        if self._closed:
            raise IdentifierError("this text was closed; a new one needs a new stream")
        return self._advance(piece, last=False)

    def close(self) -> str:
        """The text has ended: give the rest, restored."""
        shown = self._advance("", last=True)
        self._closed = True
        return shown

    @property
    def held(self) -> int:
        """How many characters are held back now."""
        return len(self._pending)

    @abstractmethod
    def _advance(self, piece: str, *, last: bool) -> str:
        """What can be shown now that this piece is there; `last` says that nothing follows it."""

    def __repr__(self) -> str:
        return f"<stream that holds {self.held} characters back>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a stream holds identifiers and cannot be pickled or copied")


class ReplyStream(PieceRestorer):
    """Restores a reply by what one conversation was given; made by it."""

    __slots__ = ("_restored",)

    def __init__(self, restored: "Restored") -> None:
        super().__init__()
        self._restored = restored

    def _advance(self, piece: str, *, last: bool) -> str:
        text = self._before + self._pending + piece
        first = len(self._before)
        shown, cut = self._restored(text, first, last)
        self._before, self._pending = text[max(cut - _CONTEXT, 0) : cut], text[cut:]
        return shown


Restored = Callable[[str, int, bool], tuple[str, int]]
"""From a text, where to begin and whether it has ended: what is restored, and up to where."""
