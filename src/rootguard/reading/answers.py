"""Answers that are no numbers: yes or no, one of a few words, a day.

Found behind a name ("Smoker: no", "region = South", "born on 3 March 1980"), in a table's cell, or
said of oneself ("I have never smoked", "I'm a woman"). What is read here is only where an answer
stands and how one is written there. The place and the form do not depend on which answer it is: a
statement is taken with its "not", "never" and "yes", so that either answer leaves the same words,
and a day is written back in a form that all days have.

Not read: what is told by something else ("my wife and I", a drug's name), and words that no list
has. The lists are in `answers.toml`.
"""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Final, Literal

from rootguard.language.fold import Spans, bare, fold
from rootguard.language.fold import plain as plain_text
from rootguard.reading.page import Page
from rootguard.reading.subjects import Clause, clause_at, clauses
from rootguard.template import Root
from rootguard.values import RootName, RootType

Writer = Callable[[RootType, float], str]

_HALF: Final = 0.5  # a flag is 0 or 1; this only says which, whatever rounding did
_WHEN: Final = frozenset(
    {"diagnosed", "earlier"}
)  # first words of a title that say only when or how
_WORDS_BEFORE: Final = 9  # of a statement: "no, I have never ever been a heavy"
_REACH: Final = 90  # characters between the name of a day and the day
_BACK: Final = 60  # the same where the day stands first
_UNKNOWN: Final = 80  # characters of an answer that is none of those known
_LEAST_ALONE: Final = 4  # letters of a category's answer that is told without its name
_ABBREVIATED: Final = 3  # letters of a month

_OPEN: Final = r"[\"'*_`“”«»\[(]{0,3}"
_CLOSE: Final = r"[\"'*_`“”«»\])]{0,3}"
_SUFFIXES: Final = "status|flag|yn|code|answer|date|history|state"
_GAP: Final = re.compile(  # "smoker**: ", "smoker (y/n) = ", "Do you smoke?\nA: "
    rf"(?: of [a-z]{{2,12}})?{_CLOSE}[ \t]{{0,3}}(?:\([^()\n]{{1,24}}\)[ \t]?)?"
    r"(?:status|flag|code|name)?[ \t]{0,3}"
    r"(?P<mark>=>|->|:=|==|[:=|?>→–—-]|\t)"
    r"[ \t]{0,8}(?:\n[ \t]*)?(?:[\"']?,?\s?[\"']?(?:a|answer|me|patient|user|antwort|reponse|r)"
    r"[\"']?\s?[:.][ \t]*)?"
    rf"{_OPEN}"
)
_LOOSE: Final = re.compile(
    r"(?:[ _](?:status|flag))?(?:(?P<verb>[ ](?:is|was|are|equals|ist|est|es|e|sind|set to))"
    rf"(?: currently| now| set to)?[ ]|[ ,]{{1,2}}|[ ]?\(){_OPEN}"
)
_MEASURED: Final = re.compile(  # its value is a number, read as one: "My sex is 1"
    r"(?: or [a-z]+)?[ ](?:is|was|are|equals|ist|est|es|e|sind|set to)[ ]\d"
)
_ENDS: Final = re.compile(r"\s*(?:[.,;!?)|\n]|\Z)")
_CHECKBOX: Final = re.compile(r"(?:\[(?P<box>[ x✓✔])\]|(?P<sign>[☐☑☒✅❌✓✗✔✘]))[ \t]{0,2}\Z")
_AMOUNT: Final = re.compile(r"[01] ?/ ?[a-z]")  # "smoking: 0/day" is no more a no than 20 is
_BOX: Final = re.compile(r"\[(?P<mark>[ x✓✔])\]")  # behind a label: "smoker: [x]"
_DATA_CENTRE: Final = re.compile(  # what computing clouds call their regions: nobody lives there
    r"(?:[a-z]{2}(?:-gov|-iso[a-z]?)?|europe|asia|australia|africa|(?:north|south)america)"
    r"-(?:north|south|east|west|central|northeast|northwest|southeast|southwest)-?\d{1,2}"
    r"(?:-?[a-z])?"
    r"|(?:north|south|east|west|central){1,2}(?:us|europe|asia|india)\d?"
)
_DIRECTED: Final = re.compile(r"(?<![^\W_])(?:up|down|out|back|over)[ ]\Z")  # "up north"
_TYPE_WORDS: Final = re.compile(
    r"(?:bool(?:ean)?|str(?:ing)?|int(?:eger)?|number|optional|required|enum|date|category"
    r"|yes or no|yes/no|true or false|null|nan|self)\b"
)
_LAST_WORD: Final = re.compile(r"(?<![^\W_])([^\W_]+(?:'[^\W_]+)?)[ ,!-]{1,2}\Z")
_AGED: Final = re.compile(
    r"(?<![^\W_])\d{1,3}[ -]?(?:y/?o|yo|years?|yrs?|jahre|ans|anos|anni|[mf])\b"
)
_AGE_AND_SEX: Final = re.compile(r"(?<![\w.])\d{1,3} ?(?:y/?o ?|yrs? ?)?([mf])(?![^\W_])")
_FIGURE: Final = re.compile(r"[-+]?\d[\d.,]*\Z")
_TAIL_SPAN: Final = re.compile(
    r"[ ](?:since|for|seit|depuis|desde|da|for the last|in)[ ][^\n.,;!?]{1,24}"
    r"|[ ](?:about |around |roughly )?(?:\d{1,3}|an?|half an?|one|two|ten|twenty)"
    r" (?:packs?|cigarettes?|cigs?)(?: an?| per| each)?(?: day| week)?"
)
_SHORT_REPLY: Final = re.compile(  # up to eight words, then the end of the sentence; no figures
    r"[^\W\d_](?:[^\W\d_]|['’-])*(?:[ ,]{1,2}[^\W\d_](?:[^\W\d_]|['’-])*){0,7}(?=\s*(?:[.!;\n]|\Z))"
)
_QUESTION: Final = re.compile(r"[^.!?\n]{0,80}\?")

_SENTENCE: Final = re.compile(r"[^\W\d][.!?]\s+(?=[A-Z])")
_ISO: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_YEAR_FIRST: Final = re.compile(r"(\d{4})([/.])(\d{1,2})\2(\d{1,2})")
_DOTS: Final = re.compile(r"(\d{1,2})\.( ?)(\d{1,2})\.\2(\d{4}|\d{2})")
_DAY_WORD: Final = re.compile(
    r"(\d{1,2})(st|nd|rd|th|\.|er|º|°)?[ \u00a0-]?(de |of |del |d')?"
    r"([^\W\d_]{3,10})\.?,?[ \u00a0-](de |of |del )?(\d{4}|\d{2})"
)
_WORD_DAY: Final = re.compile(
    r"([^\W\d_]{3,10})\.?[ \u00a0](\d{1,2})(st|nd|rd|th)?(,?[ \u00a0])(\d{4})"
)
_SHORT_DAY: Final = re.compile(  # 20260104, 3.3.80
    r"(?<![\w.])(?:(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])|\d{1,2}\.\d{1,2}\.\d{2})"
    r"(?![\w.]\d|\w)"
)
_MONTH_YEAR: Final = re.compile(
    r"(?<![^\W_])([a-z]{3,10})\.?,?[ ](de |of |del )?((?:19|20)\d\d)(?!\d)"
)
_SIX_FIGURES: Final = re.compile(r"[ \t:=]{1,4}(\d{6})(?!\d)")  # LMP 040126
_YEAR_WORDS: Final = (
    r"(?:nineteen|twenty|two thousand)(?:[ -](?:and|hundred|oh|ten|eleven|twelve|[a-z]+teen"
    r"|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|one|two|three|four|five|six|seven"
    r"|eight|nine)(?![^\W_]))"
)
_SPOKEN_YEAR: Final = re.compile(rf",?[ ]{_YEAR_WORDS}*")
_YEAR_IN_WORDS: Final = re.compile(rf"(?<![^\W_]){_YEAR_WORDS}+")
_BIRTHDAY: Final = re.compile(r"birthday|geburtstag|anniversaire|cumpleanos|compleanno|aniversario")
_CLIPPED: Final = re.compile(r"\d{1,2}\.\s*\Z")  # a sentence does not end behind "am 4."
_YEAR: Final = re.compile(r"(?<![\w./-])(?:19|20)\d\d(?![\w/-]|\.\d)")
_SPEAKER: Final = frozenset(("i", "i'm", "im", "ich", "yo", "io", "eu", "my"))
_CONTRACTED: Final = re.compile(r"i(?='ve\b)")
DAY_HOLE: Final = "[date]"
ANSWER_HOLE: Final = "[answer]"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Answer:
    """Where an answer stands in a folded text, whose it is, and how one is written there.

    `said` is what it says in the root's own form, None if that is not to be learnt from.
    `write` writes a released one, None where none can stand. `computed` is a template whose target
    is a day, in place of a root. Private.
    """

    start: int
    end: int
    root: RootName
    said: str | None
    write: Writer | None
    hole: str = ANSWER_HOLE
    computed: str = ""


@dataclass(frozen=True, slots=True)
class _Name:
    start: int
    end: int
    root: RootName
    language: str
    own: bool
    denied: bool = False
    """"Non-smoker": yes to it is no to the root."""


@functools.cache
def _lists() -> Mapping[str, Any]:
    source = importlib.resources.files("rootguard.reading") / "answers.toml"
    return tomllib.loads(source.read_text("utf-8"))


@functools.cache
def _words(name: str) -> frozenset[str]:
    return frozenset(_lists()["statement"][name])


@functools.cache
def _phrases(name: str) -> re.Pattern[str]:
    listed = sorted(map(re.escape, _lists()["statement"][name]), key=len, reverse=True)
    return re.compile("|".join(listed))


@functools.cache
def _list_heads() -> re.Pattern[str]:
    """What stands in front of a list of what somebody has, up to the list."""
    return re.compile(rf"(?<![^\W_])(?:{_phrases('lists').pattern})[ ]{{0,2}}:[ \t]{{0,3}}")


@functools.cache
def _age_ordinals() -> re.Pattern[str]:
    words = "|".join(_lists()["days"]["ages"])
    return re.compile(rf"(?<![^\W_])(?:\d{{1,3}}(?:st|nd|rd|th)|{words})(?![^\W_])")


@functools.cache
def _ago() -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(_lists()['ago'])})(?![^\W_])")


def _folded(text: str) -> str:
    return plain_text(bare(fold(text).text))


@functools.cache
def _month_names() -> Mapping[str, int]:
    """Month words, whole and abbreviated."""
    found: dict[str, int] = {}
    for short in (False, True):
        for months in _lists()["months"].values():
            for number, month in enumerate(months, start=1):
                word = _folded(month)
                found.setdefault(word[:_ABBREVIATED] if short else word, number)
                found.setdefault(word[:4], number)
    return found


@functools.cache
def _days_of_months() -> re.Pattern[str]:
    """A day of a month without its year: "the 4th of January", "Jan 4"."""
    words = "|".join(sorted(_month_names(), key=len, reverse=True))
    told = "|".join(sorted(_lists()["days"]["ordinals"], key=len, reverse=True))
    return re.compile(
        rf"(?<![^\W_])(?:(?:the )?(?:\d{{1,2}}(?:st|nd|rd|th|\.)?|{told}) (?:of |de )?(?:{words})"
        r"(?:,? (?:19|20)\d\d)?"
        rf"|(?:{words})\.? \d{{1,2}}(?:st|nd|rd|th)?)(?![^\W_])"
    )


@functools.cache
def _seasons() -> re.Pattern[str]:
    words = "|".join(sorted(_lists()["days"]["seasons"], key=len, reverse=True))
    return re.compile(
        rf"(?<![^\W_])(?:(?:early|late|mid)[ -])?(?:{words})(?:,?(?: of| de| del)? (?:19|20)\d\d)?"
        r"(?![^\W_])"
    )


@functools.cache
def _pairs(group: Literal["pairs", "sexes"]) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    """The sets of pairs that each word is in."""
    found: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for by_language in _lists()[group]:
        for pair in by_language.values():
            for word in pair:
                if by_language not in found.get(word, ()):
                    found[word] = (*found.get(word, ()), by_language)
    return found


def _pair(word: str, group: Literal["pairs", "sexes"], language: str) -> tuple[str, str, bool]:
    """The pair that is written for a word, and whether it is a yes.

    A word of several languages ("no") counts as one of the name's language, else as English, so
    that the pair does not tell which of its two was written.
    """
    (by_language, *_) = _pairs(group)[word]
    spoken = [each for each, pair in by_language.items() if word in pair]
    yes = word == by_language[spoken[0]][0]
    # Languages that share a word with this one are one pair: "si" is written back as "no" is.
    joined = {
        each
        for each, pair in by_language.items()
        if any(set(pair) & set(by_language[other]) for other in spoken)
    } | set(spoken)
    first = language if language in joined else "en" if "en" in joined else min(joined)
    one, other = by_language[first]
    return one, other, yes


class AnswerWords:
    """What typed roots are called and how they are answered."""

    __slots__ = ("_names", "_pattern", "conditions", "dated", "kinds", "sexed", "titles")

    def __init__(self, roots: Sequence[Root], days: Sequence[tuple[str, Sequence[str]]]) -> None:
        self.kinds: dict[RootName, RootType] = {root.name: root.type for root in roots}
        self.titles = {root.name: root.label for root in roots}
        self.dated = bool(days) or any(kind.name == "date" for kind in self.kinds.values())
        self.sexed: RootName | None = None
        self.conditions: list[RootName] = []
        self._names: dict[str, tuple[RootName, str, bool]] = {}
        for root in roots:
            self._add(
                root.name, [str(root.name).replace("_", " "), root.title or "", *root.aliases]
            )
            first, _, rest = (root.title or "").partition(" ")
            if root.type.name == "boolean" and first.lower() in _WHEN:
                self._note(_folded(rest), (root.name, "en", False))
        for template, words in days:
            self._add(RootName(template), [*words])
        body = "|".join(
            re.escape(name).replace(r"\ ", r"[\s_-]?")
            for name in sorted(self._names, key=len, reverse=True)
        )
        self._pattern = re.compile(
            r"(?<![a-z0-9])(?:(?:is|has|am|are|ist|hat)_?)?"
            r"(?P<denied>non[-_ ]?|nicht[-_ ]?|no[_ ])?"
            rf"(?P<name>{body})(?:_?(?:{_SUFFIXES}))?(?![a-z0-9])"
        )

    def _add(self, root: RootName, words: Sequence[str]) -> None:
        keys = [_folded(word) for word in words if word]
        for key in keys:
            self._note(key, (root, "en", False))
        for fact in _lists()["facts"].values():
            if not set(keys) & set(fact["called"]):
                continue
            if fact.get("sexes"):
                self.sexed = root
            if fact.get("condition"):
                self.conditions.append(root)
            for language in ("en", "de", "fr", "es", "it", "pt"):
                for word in fact.get(language, ()):
                    self._note(word, (root, language, False))
            for word in fact.get("own", ()):
                self._note(word, (root, "en", True))

    def _note(self, key: str, meant: tuple[RootName, str, bool]) -> None:
        self._names.setdefault(key, meant)

    def names(self, text: str) -> Iterator[_Name]:
        """The names in a plain text, in order."""
        for match in self._pattern.finditer(text):
            key = re.sub(r"[\s_-]+", " ", match["name"])
            meant = self._names.get(key) or self._names.get(match["name"]) or self._spaced(key)
            yield _Name(match.start(), match.end(), *meant, denied=match["denied"] is not None)

    def _spaced(self, key: str) -> tuple[RootName, str, bool]:
        """A name whose words were written as one: "lastperiod"."""
        bald = key.replace(" ", "")
        return next(m for name, m in self._names.items() if re.sub(r"[ _-]", "", name) == bald)


@functools.lru_cache(maxsize=64)
def answer_words(
    roots: tuple[Root, ...], days: tuple[tuple[str, tuple[str, ...]], ...]
) -> AnswerWords:
    """The vocabulary of these roots, and of templates whose target is a day, made once."""
    return AnswerWords(roots, days)


class AnswerReader:
    """One look for answers at one page."""

    def __init__(
        self, page: Page, words: AnswerWords, *, days: Sequence[tuple[int, int]], told: bool
    ) -> None:
        self._page = page
        self._text = page.plain
        self._words = words
        short = [m.span() for m in _SHORT_DAY.finditer(page.plain)] if days or words.dated else []
        self._days = _longest([*days, *short])
        self._told = told
        self._clauses: tuple[Clause, ...] = ()
        self._names: list[_Name] = []
        self._found: list[Answer] = []

    def read(self, asked: Sequence[RootName] = ()) -> list[Answer]:
        """The answers, in order and without overlaps. `asked` was asked before this text."""
        kinds = self._words.kinds
        names = list(self._words.names(self._text))
        known = Spans((name.start, name.end) for name in names)
        names += (
            _Name(name.start, name.end, root, "en", own=False)
            for name in self._page.names
            for root in name.roots[:1]
            if root in kinds and not known.meet(name.start, name.end)
        )
        self._names = sorted(names, key=lambda name: name.start)
        words = self._words
        if not (names or asked or words.sexed or words.conditions or self._alone()):
            return []
        self._clauses = clauses(self._page)
        self._replies(asked)
        if self._told and self._words.conditions:
            self._whole_lists()
        for name in self._names:
            if self._subject(name.start) in ("other", "nobody"):
                continue
            kind = kinds.get(name.root)
            if kind is None or kind.name == "date":
                self._dated(name)
            elif not self._labelled(name, kind):
                self._stated(name, kind)
                self._inflected(name, kind)
        self._columns()
        if self._told:
            if self._words.sexed is not None:
                self._sexed(self._words.sexed)
            self._told_alone()
        return sorted(self._found, key=lambda answer: answer.start)

    def asks(self) -> tuple[RootName, ...]:
        """The roots that the text asks the other side for, in order."""
        answered = Spans((each.start, each.end) for each in self._found)
        return tuple(
            dict.fromkeys(
                name.root
                for name in self._names
                if name.root in self._words.kinds
                and not answered.meet(name.start, name.end)
                and self._subject(name.start) not in ("other", "nobody")
                and _QUESTION.match(self._text, name.end)
            )
        )

    # -- what stands behind a name --------------------------------------------------------------

    def _labelled(self, name: _Name, kind: RootType) -> bool:
        gap = _GAP.match(self._text, name.end)
        if gap is not None:
            found = self._box_at(gap.end() - 1, name, kind) or self._known_at(gap.end(), name, kind)
            if found is not None and kind.name == "boolean":
                found = self._with_comment(found)
            if found is None and self._told and gap["mark"] in (":", "=", ":=", "=="):
                found = self._unknown_at(gap.end(), name)
            if found is not None:
                return self._keep(found)
        loose = _LOOSE.match(self._text, name.end)
        found = None if loose is None else self._known_at(loose.end(), name, kind)
        if loose is None or found is None or self._text[found.start].isdigit():
            return False
        # "diabetes, no" ends there; "diabetes, no children" says something else.
        if loose["verb"] is None and not _ENDS.match(self._text, found.end):
            return False
        return self._keep(found)

    def _known_at(self, at: int, name: _Name, kind: RootType) -> Answer | None:
        """A known answer that stands here."""
        if kind.name == "category":
            return self._category_at(at, name.root, kind)
        groups: tuple[Literal["pairs", "sexes"], ...] = ("pairs",)
        if name.root == self._words.sexed:
            groups = ("sexes", "pairs")
        for group in groups:
            match = _known_words(group).match(self._text, at)
            if match is not None and _AMOUNT.match(self._text, at) is None:
                one, other, yes = _pair(match[0], group, name.language)
                pair = (other, one) if name.denied else (one, other)
                return Answer(
                    start=at,
                    end=match.end(),
                    root=name.root,
                    said="yes" if yes is not name.denied else "no",
                    write=_one_of(*pair, _case(self._original(at, match.end()))),
                )
        return None

    def _box_at(self, at: int, name: _Name, kind: RootType) -> Answer | None:
        """A box behind a label, with or without its cross."""
        box = _BOX.match(self._text, at) if kind.name == "boolean" else None
        if box is None:
            return None
        return Answer(
            start=box.start("mark"),
            end=box.end("mark"),
            root=name.root,
            said="yes" if (box["mark"] != " ") is not name.denied else "no",
            write=_one_of(*((" ", "x") if name.denied else ("x", " ")), str),
        )

    def _with_comment(self, answer: Answer) -> Answer:
        """The answer with what tells it again: ", unfortunately", or the other one to choose from.

        Where both stand and one is set off by capitals, no word of them may stay.
        """
        text = self._text
        other = re.compile(r"\s?[/|]\s?([^\W\d_]{1,5})(?![^\W_])").match(text, answer.end)
        if other is not None and other[1] in _pairs("pairs"):
            first = self._original(answer.start, answer.end)
            if first.isupper() is self._original(*other.span(1)).isupper():
                return answer
            return replace(answer, end=other.end(), said=None, write=None)
        behind = re.compile(
            rf"(?:,? |, ?|[ ]?[-–—][ ]?)(?:{_phrases('comment').pattern})(?=\s*(?:[.,;!?)\n]|\Z))"
        )
        end = answer.end
        while (more := behind.match(text, end)) is not None:
            end = more.end()
        return replace(answer, end=end)

    def _category_at(self, at: int, root: RootName, kind: RootType) -> Answer | None:
        match = _answers_of(kind.answers).match(self._text, at)
        if match is None:
            return None
        return Answer(
            start=at,
            end=match.end(),
            root=root,
            said=_answer_in(kind.answers, match[0]),
            write=_worded(_case(self._original(at, match.end()))),
        )

    def _unknown_at(self, at: int, name: _Name) -> Answer | None:
        """Whatever stands behind a label, if it is no number of it, no type and no other name."""
        text = self._text
        stop = re.compile(r"[\n,;|}\]]|\.(?=\s|\Z)").search(text, at)
        end = len(text) if stop is None else stop.start()
        said = text[at:end].rstrip(" \"'*_`)")
        if not said or len(said) > _UNKNOWN or said[0] in "[{<(":
            return None
        if _FIGURE.match(said) or _TYPE_WORDS.match(said):
            return None
        if any(each.start == at for each in self._names):
            return None
        if _DATA_CENTRE.fullmatch(said) and not self._tells(said, name):
            return None
        return Answer(start=at, end=at + len(said), root=name.root, said=None, write=None)

    def _tells(self, said: str, name: _Name) -> bool:
        """Whether one of a category's answers is in a text, however it is set apart."""
        kind = self._words.kinds[name.root]
        bald = re.sub(r"[\s_-]", "", said)
        return any(re.sub(r"[\s_-]", "", _folded(each)) in bald for each in kind.answers)

    def _inflected(self, name: _Name, kind: RootType) -> None:
        """Words made of an answer, beside the category's name: "a northerner by region"."""
        stems = _stems(kind.answers) if kind.name == "category" and self._told else None
        if stems is None:
            return
        clause = clause_at(self._clauses, name.start)
        for word in stems.finditer(self._text, clause.start, clause.end):
            self._keep(
                Answer(start=word.start(), end=word.end(), root=name.root, said=None, write=None)
            )

    def _columns(self) -> None:
        """The cells of a table under a header that names a root."""
        for column in self._page.columns:
            under = [
                name
                for name in self._names
                if column.header.start <= name.start and name.end <= column.header.end
            ]
            for name in under[:1]:
                kind = self._words.kinds.get(name.root)
                for cell in column.cells if kind is not None else ():
                    start = cell.start
                    while start < cell.end and self._text[start] in " \t\"'*_`":
                        start += 1
                    if kind is None or start >= cell.end:
                        continue
                    if kind.name == "date":
                        self._keep_days(
                            [day for day in self._days if start <= day[0] < cell.end], name
                        )
                    elif (found := self._known_at(start, name, kind)) is not None:
                        self._keep(found)

    def _replies(self, asked: Sequence[RootName]) -> None:
        """The text's first words, which answer what was asked before it."""
        for root in asked:
            kind = self._words.kinds.get(root)
            if kind is None:
                continue
            name = _Name(0, 0, root, "en", own=True)
            at = len(self._text) - len(self._text.lstrip(" \t\n\"'*_"))
            if kind.name == "date":
                if self._days:
                    self._keep_days(self._days[:1], name)
                else:
                    self._keep_part(name, at, len(self._text))
            elif (found := self._known_at(at, name, kind)) is not None:
                self._keep(self._with_comment(found) if kind.name == "boolean" else found)
            elif self._told and (short := _SHORT_REPLY.match(self._text, at)) is not None:
                self._reply(short, name, kind)
            return

    def _reply(self, short: re.Match[str], name: _Name, kind: RootType) -> None:
        """A few words that answer in a way that no list has: "only on weekends"."""
        if any(short.start() <= each.start < short.end() for each in self._names):
            return  # read by its name
        if kind.name == "category":
            known = _answers_of(kind.answers).search(self._text, *short.span())
            found = None if known is None else self._category_at(known.start(), name.root, kind)
            if found is not None:
                self._keep(found)
                return
        self._keep(
            Answer(start=short.start(), end=short.end(), root=name.root, said=None, write=None)
        )

    # -- what is said of oneself ----------------------------------------------------------------

    def _stated(self, name: _Name, kind: RootType) -> None:
        """Said of oneself, the whole of it: "have never smoked"."""
        if kind.name != "boolean" or not self._told:
            return
        text = self._text
        if name.root == self._words.sexed and text[name.start : name.end] in _pairs("sexes"):
            return
        box = _CHECKBOX.search(text, max(0, name.start - 6), name.start)
        if box is not None:
            self._boxed(box, name)
            return
        clause = clause_at(self._clauses, name.start)
        start, run = self._run_before(name.start, clause.start)
        end = self._run_behind(name.end)
        joined = _CONTRACTED.match(text, start)
        if joined is not None:  # "I've got" leaves the "I" that "I have not" leaves
            start = joined.end()
        if _spoken_of(text, start, name, run) or _MEASURED.match(text, end):
            return
        asserted = (
            name.own
            or clause.subject == "owner"
            or bool(_words("own") & set(run))
            or self._listed(start)
            or self._nothing_else()
            or self._described(clause)
        )
        if not asserted:
            return
        said: str | None = "yes"
        if name.denied or _words("no") & {*run, *re.findall(r"[a-z']+", text[name.end : end])}:
            said = "no"
        if _words("unsure") & set(run):
            said = None
        self._keep(
            Answer(
                start=start,
                end=end,
                root=name.root,
                said=said,
                write=_titled(self._title(name), " " if joined is not None else ""),
            )
        )
        mood = re.compile(rf"\s*(?:{_phrases('mood').pattern}),?[ ]").match(text, clause.start)
        if mood is not None and mood.end() <= start:
            first = mood.start() + len(mood[0]) - len(mood[0].lstrip())
            self._keep(
                Answer(
                    start=first,
                    end=mood.end(),
                    root=name.root,
                    said=None,
                    write=lambda _kind, _number: "",
                    hole="",
                )
            )

    def _run_before(self, at: int, least: int) -> tuple[int, list[str]]:
        """The small words before a name that belong to what is said, from the last one back."""
        run: list[str] = []
        known = _words("fill") | _words("no") | _words("unsure")
        while len(run) < _WORDS_BEFORE:
            match = _LAST_WORD.search(self._text, max(least, at - 24), at)
            if match is None:
                break
            word = match[1].replace("’", "'")
            own = word in _words("own")
            if not own and word not in known:
                break
            run.append(word)
            # Who speaks stays, so that numbers behind it are theirs: "I'm a smoker, 54".
            before = _LAST_WORD.search(self._text, max(least, match.start() - 24), match.start())
            answers = before is not None and before[1] in _pairs("pairs")
            if word in _SPEAKER and not answers:
                break
            at = match.start(1)
        return at, run

    def _run_behind(self, at: int) -> int:
        while True:
            match = re.compile(rf"[ -](?:{_phrases('tail').pattern})(?![^\W_])").match(
                self._text, at
            )
            match = match or _TAIL_SPAN.match(self._text, at)
            if match is None:
                return at
            at = match.end()

    def _boxed(self, box: re.Match[str], name: _Name) -> None:
        """A mark before a name: "[x] smoker"."""
        group = "box" if box["box"] is not None else "sign"
        mark = box[group]
        if group == "box":
            one, other, yes = "x", " ", mark != " "
        else:
            one, other, yes = _pair(mark, "pairs", "en")
        self._keep(
            Answer(
                start=box.start(group),
                end=box.end(group),
                root=name.root,
                said="yes" if yes else "no",
                write=_one_of(one, other, str),
            )
        )

    def _listed(self, at: int) -> bool:
        """Whether it stands in a list of what somebody has: "Conditions: diabetes, gout"."""
        line = self._text.rfind("\n", 0, at) + 1
        head, colon, _ = self._text[line:at].rpartition(":")
        return (
            bool(colon)
            and re.search(rf"(?:{_phrases('lists').pattern})\W{{0,3}}\Z", head) is not None
        )

    def _whole_lists(self) -> None:
        """Lists of conditions with nothing in them but declared ones, or "none".

        Both say of every declared condition whether it is there, so both leave with all of them.
        """
        text = self._text
        for head in _list_heads().finditer(text):
            stop = text.find("\n", head.end())
            listed = text[head.end() : len(text) if stop < 0 else stop].rstrip(" .\t")
            end = head.end() + len(listed)
            left, there = list(listed), set[RootName]()
            for name in self._names:
                if head.end() <= name.start and name.end <= end:
                    if name.root not in self._words.conditions or name.denied:
                        break
                    there.add(name.root)
                    left[name.start - head.end() : name.end - head.end()] = " " * (
                        name.end - name.start
                    )
            rest = re.sub(r"[,;&+/]|(?<![^\W_])(?:and|und|et|y|e)(?![^\W_])", " ", "".join(left))
            empty = _phrases("nothing").fullmatch(rest.strip()) is not None
            if self._subject(head.start()) in ("other", "nobody") or not (
                empty or not rest.strip()
            ):
                continue
            for place, root in enumerate(self._words.conditions if listed else ()):
                self._keep(
                    Answer(
                        start=end if place else head.end(),
                        end=end,
                        root=root,
                        said="no" if empty else "yes" if root in there else None,
                        write=_titled(self._words.titles[root], ", " if place else ""),
                        hole=f"{', ' if place else ''}{ANSWER_HOLE}",
                    )
                )

    def _nothing_else(self) -> bool:
        """Whether the text is nothing but names and what says yes or no: "no smoking, diabetes"."""
        if re.search(r"[\t|\n]", self._text.strip()):  # a table, or a form
            return False
        rest = list(self._text)
        for name in self._names:
            rest[name.start : name.end] = " " * (name.end - name.start)
        words = re.findall(r"[^\W_]+(?:'[^\W_]+)?", "".join(rest))
        return set(words) <= _words("no") | {"and", "or", "und", "et", "y", "e"}

    def _described(self, clause: Clause) -> bool:
        """Whether a clause that names nobody describes somebody: "54 y/o female smoker"."""
        stretch = self._text[clause.start : clause.end]
        return clause.subject == "unsaid" and _AGED.search(stretch) is not None

    def _sexed(self, root: RootName) -> None:
        """Words for a woman or a man, said of the owner."""
        text = self._text
        for match in _sex_words().finditer(text):
            clause = clause_at(self._clauses, match.start())
            if clause.subject in ("other", "nobody"):
                continue
            start, run = self._run_before(match.start(), clause.start)
            told = bool(
                _words("own") - {"my", "mein", "meine", "mon", "ma", "mi", "mio", "mia"} & set(run)
            )
            aged = _AGED.search(text, max(clause.start, match.start() - 20), match.start())
            aged = aged or re.compile(r"[ ,]{1,2}\d{1,3}(?![\w.]\d|\w)").match(text, match.end())
            copula = re.search(
                r"\b(?:i am|i'm|im|as an?|ich bin|je suis|soy|sono|sou)\b[^.;\n]{0,30}\Z",
                text[clause.start : match.start()],
            )
            if not (told or copula or (aged and clause.subject in ("owner", "unsaid"))):
                continue
            language = next(
                (each for by in _lists()["sexes"] for each, pair in by.items() if match[0] in pair),
                "en",
            )
            one, other, yes = _pair(match[0], "sexes", language)
            if _words("no") & set(run):
                write, said, begin = _titled(self._words.titles[root]), None, start
            else:
                write = _one_of(one, other, _case(self._original(match.start(), match.end())))
                said, begin = ("yes" if yes else "no"), match.start()
            self._keep(Answer(start=begin, end=match.end(), root=root, said=said, write=write))

        for match in _AGE_AND_SEX.finditer(text):
            if self._subject(match.start()) not in ("other", "nobody"):
                one, other, yes = _pair(match[1], "sexes", "en")
                case = _case(self._original(match.start(1), match.end(1)))
                self._keep(
                    Answer(
                        start=match.start(1),
                        end=match.end(1),
                        root=root,
                        said="yes" if yes else "no",
                        write=_one_of(one, other, case),
                    )
                )

    def _alone(self) -> list[tuple[RootName, RootType]]:
        return [
            (root, kind)
            for root, kind in self._words.kinds.items()
            if kind.name == "category" and not kind.ordered
        ]

    def _told_alone(self) -> None:
        """A category's answer in a clause of the owner that does not name what is answered."""
        for root, kind in self._alone():
            words = tuple(each for each in kind.answers if len(each) >= _LEAST_ALONE)
            if len(words) != len(kind.answers):
                continue  # some would be replaced and others not
            for match in _answers_of(kind.answers).finditer(self._text):
                if self._subject(match.start()) == "owner":
                    found = self._category_at(match.start(), root, kind)
                    if found is not None:
                        way = _DIRECTED.search(self._text, 0, match.start())
                        self._keep(found if way is None else replace(found, start=way.start()))

    # -- days -----------------------------------------------------------------------------------

    def _dated(self, name: _Name) -> None:
        """The day that belongs to a name, whole, in part, or as so long ago."""
        clause = clause_at(self._clauses, name.start)
        text = self._text
        following = next(
            (n.start for n in self._names if n.start > name.start and n.root != name.root),
            len(text),
        )
        stop = clause.end
        if _CLIPPED.search(text, max(name.end, stop - 6), stop):
            line = text.find("\n", stop)
            stop = len(text) if line < 0 else line
        limit = min(stop, following, name.end + _REACH)
        behind = [day for day in self._days if name.end <= day[0] < limit]
        if behind:
            more = [
                day for day in self._days if behind[-1][1] <= day[0] < min(clause.end, following)
            ]
            self._keep_days([*behind, *more], name)
            return
        if _BIRTHDAY.search(text, name.start, name.end):
            start, stop = max(0, name.start - _BACK), min(len(text), name.end + _BACK)
            start = max(start, text.rfind("\n", 0, name.start) + 1)
            for age in _age_ordinals().finditer(text, start, stop):
                self._keep(self._day(*age.span(), name, None, None))
        figures = _SIX_FIGURES.match(text, name.end)
        if figures is not None:
            self._keep(self._day(*figures.span(1), name, None, None))
            return
        if self._keep_part(name, name.end, limit):
            return
        # A sentence that begins with the day; clauses may begin anew between it and the name.
        least = max(text.rfind("\n", 0, name.start) + 1, name.start - _BACK)
        ends = [m.end() for m in _SENTENCE.finditer(self._page.folded.text, least, name.start)]
        least = max([least, *ends])
        before = [day for day in self._days if least <= day[0] and day[1] <= name.start]
        if before:
            self._keep_days(before[-1:], name)
        else:
            self._keep_part(name, least, name.start)

    def _keep_part(self, name: _Name, start: int, end: int) -> bool:
        """A day told by its month and year, its year, or how long ago it is."""
        for pattern in (
            *(_days_of_months(), _seasons(), _MONTH_YEAR, _ago(), _YEAR, _YEAR_IN_WORDS),
        ):
            parts = pattern.finditer(self._text, start, end)
            if pattern is _MONTH_YEAR:
                parts = (each for each in parts if each[1] in _month_names())
            part = next(iter(parts), None)
            if part is None:
                continue
            write: Writer | None = None
            if pattern is _MONTH_YEAR:
                write = _month_and_year(_lists()["months"][name.language], part[2] or "")
            elif pattern is _days_of_months():
                dated = _YEAR.search(part[0]) is not None
                write = _day_and_month(_lists()["months"][name.language], dated=dated)
            elif pattern in (_YEAR, _YEAR_IN_WORDS):
                write = _year_alone
            stop = part.end()
            if pattern is _days_of_months():
                spoken = _SPOKEN_YEAR.match(self._text, stop)
                stop = stop if spoken is None else spoken.end()
            return self._keep(self._day(part.start(), stop, name, None, write))
        return False

    def _keep_days(self, days: Sequence[tuple[int, int]], name: _Name) -> None:
        """The first of them is what is told; the others were told at other times."""
        for place, (start, end) in enumerate(days):
            said, write = (
                _day_in(self._original(start, end), name.language) if place == 0 else (None, None)
            )
            self._keep(self._day(start, end, name, said, write))

    def _day(
        self, start: int, end: int, name: _Name, said: str | None, write: Writer | None
    ) -> Answer:
        computed = "" if name.root in self._words.kinds else str(name.root)
        return Answer(
            start=start,
            end=end,
            root=name.root,
            said=said,
            write=write,
            hole=DAY_HOLE,
            computed=computed,
        )

    # -- small things ---------------------------------------------------------------------------

    def _subject(self, at: int) -> str:
        return clause_at(self._clauses, at).subject

    def _title(self, name: _Name) -> str:
        return self._words.titles[name.root]

    def _original(self, start: int, end: int) -> str:
        first, last = self._page.folded.span(start, end)
        return self._page.original[first:last]

    def _keep(self, answer: Answer) -> bool:
        if all(answer.end <= e.start or e.end <= answer.start for e in self._found):
            self._found.append(answer)
        return True


def _longest(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, of those that overlap the longest."""
    kept: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: span[0] - span[1]):
        if all(end <= first or last <= start for first, last in kept):
            kept.append((start, end))
    return sorted(kept)


def _spoken_of(text: str, start: int, name: _Name, run: Sequence[str]) -> bool:
    """Whether it is a subject and no fact: "risk of diabetes", "a smoking ban"."""
    before = text[max(0, start - 24) : name.start]
    if re.search(rf"(?<![^\W_])(?:{_phrases('spoken_of').pattern})(?: an?| the)? \Z", before):
        return True
    behind = re.compile(rf"[ -](?:{_phrases('spoken_behind').pattern})(?![^\W_])")
    return behind.match(text, name.end) is not None and not set(run) & _words("own")


@functools.cache
def _known_words(group: Literal["pairs", "sexes"]) -> re.Pattern[str]:
    words = sorted(map(re.escape, _pairs(group)), key=len, reverse=True)
    return re.compile(rf"(?:{'|'.join(words)})(?![^\W_]|[.,]\d)")


@functools.cache
def _sex_words() -> re.Pattern[str]:
    words = sorted((w for w in _pairs("sexes") if len(w) > 1), key=len, reverse=True)
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, words))})(?![^\W_])")


@functools.lru_cache(maxsize=256)
def _answers_of(answers: tuple[str, ...]) -> re.Pattern[str]:
    """The answers of a category, whatever stands between their words."""
    spelt = [re.sub(r"(?:\\[ -]|_)+", r"[\\s_-]*", re.escape(_folded(each))) for each in answers]
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(sorted(spelt, key=len, reverse=True))})(?![^\W_])")


@functools.lru_cache(maxsize=256)
def _stems(answers: tuple[str, ...]) -> re.Pattern[str] | None:
    """Longer words that begin with an answer; None where answers are too short to tell."""
    if any(len(each) < _LEAST_ALONE for each in answers):
        return None
    spelt = [re.sub(r"(?:\\[ -]|_)+", r"[\\s_-]*", re.escape(_folded(each))) for each in answers]
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(spelt)})-?[^\W\d_]{{2,8}}(?![^\W_])")


def _answer_in(answers: Sequence[str], written: str) -> str | None:
    bald = re.sub(r"[\s_-]", "", written)
    return next((each for each in answers if re.sub(r"[\s_-]", "", _folded(each)) == bald), None)


def _case(written: str) -> Callable[[str], str]:
    """How a word is written where this one stood."""
    if written.isupper():
        return str.upper
    return str.title if written[:1].isupper() else str


def _one_of(one: str, other: str, case: Callable[[str], str]) -> Writer:
    return lambda _kind, number: case(one if number >= _HALF else other)


def _worded(case: Callable[[str], str]) -> Writer:
    return lambda kind, number: (
        case(kind.written(number)) if case is not str else kind.written(number)
    )


def _titled(title: str, before: str = "") -> Writer:
    return lambda kind, number: f"{before}[{title}: {kind.written(number)}]"


# -- how days are written ---------------------------------------------------------------------


def _released_day(kind: RootType, number: float) -> date:
    day = kind.outside(number)
    return day if isinstance(day, date) else date(1970, 1, 1)


def _day_in(written: str, language: str) -> tuple[str | None, Writer]:
    """What a day says in ISO form, if its form can say only one day, and how one is written there.

    A month is written in the name's language: the language that it was written in would tell some
    months from others ("April" is one in two). In figures with slashes day and month may stand
    either way round: they are not learnt from, and written back in ISO form.
    """
    if (iso := _ISO.match(written)) is not None:
        return _iso(iso[1], iso[2], iso[3]), _formatted("{0:%Y-%m-%d}", "")
    if re.fullmatch(r"\d{8}", written):
        return _iso(written[:4], written[4:6], written[6:]), _formatted("{0:%Y%m%d}", "")
    if (first := _YEAR_FIRST.fullmatch(written)) is not None:
        return _iso(first[1], first[3], first[4]), _formatted(
            f"{{0:%Y{first[2]}%m{first[2]}%d}}", ""
        )
    if (dots := _DOTS.fullmatch(written)) is not None:
        full = dots[4] if len(dots[4]) == 4 else ""
        return _iso(full, dots[3], dots[1]), _formatted("{0:%d}.{1}{0:%m}.{1}{0:%Y}", dots[2])
    folded = _folded(written)
    if (worded := _DAY_WORD.fullmatch(folded)) is not None and worded[4] in _month_names():
        month = _month_names()[worded[4]]
        year = worded[6] if len(worded[6]) == 4 else ""
        write = _day_month(language, worded[2] or "", worded[3] or "", worded[5] or "")
        return _iso(year, month, worded[1]), write
    if (worded := _WORD_DAY.fullmatch(folded)) is not None and worded[1] in _month_names():
        month = _month_names()[worded[1]]
        return _iso(worded[5], month, worded[2]), _month_day(language, worded[3] or "", worded[4])
    if (part := _MONTH_YEAR.fullmatch(folded)) is not None and part[1] in _month_names():
        return None, _month_and_year(_lists()["months"][language], part[2] or "")
    return None, _formatted("{0:%Y-%m-%d}", "")


def _iso(year: str, month: str | int, day: str | int) -> str | None:
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None


def _formatted(form: str, between: str) -> Writer:
    return lambda kind, number: form.format(_released_day(kind, number), between)


def _ordinal(day: int, marked: str) -> str:
    if not marked:
        return str(day)
    if marked not in ("st", "nd", "rd", "th"):
        return f"{day}." if marked == "." else str(day)
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _day_month(language: str, marked: str, of: str, of_year: str) -> Writer:
    def write(kind: RootType, number: float) -> str:
        day = _released_day(kind, number)
        month = _lists()["months"][language][day.month - 1]
        linked = "de " if of == "d'" else of
        return f"{_ordinal(day.day, marked)} {linked}{month} {of_year}{day.year}"

    return write


def _month_day(language: str, marked: str, between: str) -> Writer:
    def write(kind: RootType, number: float) -> str:
        day = _released_day(kind, number)
        month = _lists()["months"][language][day.month - 1]
        return f"{month} {_ordinal(day.day, marked)}{between}{day.year}"

    return write


def _month_and_year(months: Sequence[str], of: str) -> Writer:
    def write(kind: RootType, number: float) -> str:
        day = _released_day(kind, number)
        return f"{months[day.month - 1]} {of}{day.year}"

    return write


def _day_and_month(months: Sequence[str], *, dated: bool) -> Writer:
    def write(kind: RootType, number: float) -> str:
        day = _released_day(kind, number)
        return f"{day.day} {months[day.month - 1]}{f' {day.year}' if dated else ''}"

    return write


def _year_alone(kind: RootType, number: float) -> str:
    return str(_released_day(kind, number).year)


# -- when a number was told of ----------------------------------------------------------------

# Characters in which a number's day stands: close behind it, or at the head of its clause.
_WHEN_BEHIND: Final = 40
_WHEN_BEFORE: Final = 60
_NOW: Final = re.compile(
    r"(?<![^\W_])(?:now|today|this morning|current(?:ly)?|at the moment|jetzt|heute|maintenant"
    r"|aujourd'hui|ahora|hoy|adesso|oggi|agora|hoje)(?![^\W_])"
)
_EARLIER: Final = re.compile(
    r"(?<![^\W_])(?:previous(?:ly)?|earlier|back then|last time|the time before|before that"
    r"|formerly|fruher|vorher|zuletzt|auparavant|avant|antes|anteriormente|prima"
    r"|in precedenza|dropped from"
    r"|went (?:up |down )?from|rose from|fell from|up from|down from|used to be)(?![^\W_])"
)
_NEXT_PART: Final = re.compile(r"[,;]|(?<![^\W_])(?:and|und|et|y|e)(?![^\W_])")
_YESTERDAY: Final = frozenset(("yesterday", "gestern", "hier", "ayer", "ieri", "ontem"))
_DAYS_BACK: Final = re.compile(
    r"(\d{1,3}) (day|week|tag|woche|jour|semaine|dia|semana|giorn|settiman)"
)
_WEEKS: Final = frozenset(("week", "woche", "semaine", "semana", "settiman"))


def told_when(
    page: Page,
    place: tuple[int, int],
    between: tuple[int, int],
    days: Sequence[tuple[int, int]],
    today: date,
) -> date | Literal["now", "earlier"]:
    """Of when a number at a place tells: a day, now, or some time before; where nothing says, now.

    `between` are the ends of the numbers before and behind it; all places are of the folded text.
    """
    text = page.plain
    line, stop = text.rfind("\n", 0, place[0]) + 1, text.find("\n", place[1])
    last = min(between[1], place[1] + _WHEN_BEHIND, len(text) if stop < 0 else stop)
    over = _NEXT_PART.search(text, place[1], last)
    behind = (place[1], last if over is None else over.start())
    before = (max(between[0], place[0] - _WHEN_BEFORE, line), place[0])
    for (start, end), nearest in ((behind, min), (before, max)):
        found: list[tuple[int, date | Literal["now", "earlier"]]] = []
        for first, last in days:
            if start <= first and last <= end:
                original = page.original[slice(*page.folded.span(first, last))]
                said, _ = _day_in(original, "en")
                found.append((first, "earlier" if said is None else date.fromisoformat(said)))
        found += ((m.start(), "now") for m in _NOW.finditer(text, start, end))
        found += ((m.start(), "earlier") for m in _EARLIER.finditer(text, start, end))
        found += (
            (m.start(), _day_back(m[0], today))
            for m in _ago().finditer(text, start, end)
            if _NOW.fullmatch(m[0]) is None
        )
        found += (
            (m.start(), "earlier")
            for m in _MONTH_WORD.finditer(text, start, end)
            if m[1] in _month_names() and not any(a <= m.start() < b for a, b in days)
        )
        if found:
            _, when = nearest(found, key=lambda each: each[0])
            return "now" if when == today else when
    return "now"


_MONTH_WORD: Final = re.compile(r"(?<![^\W_])(?:in|im|en|em|on|am) (?:\d{1,2}\.? )?([a-z]{3,10})")


def _day_back(said: str, today: date) -> date | Literal["earlier"]:
    """The day that so many days or weeks ago was; longer spans name no day."""
    if said in _YESTERDAY:
        return today - timedelta(days=1)
    match = _DAYS_BACK.search(said)
    if match is None:
        return "earlier"
    return today - timedelta(days=int(match[1]) * (7 if match[2] in _WEEKS else 1))
