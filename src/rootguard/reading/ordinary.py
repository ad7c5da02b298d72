"""What a number is when it is nobody's value: a date, a count, a label, a limit, code and the like.

Each number of a page gets one sort out of a closed set; "value" is what none of the rules took, and
what stands right behind the name of a quantity. The rules look at a few words on either side,
listed in `ordinary.toml`, at the line (is it code?) and at whose the clause is (`subjects`). They
never look at a person's values. Cost is linear: a window around each number, each line once.

What belongs to no root, identifier or token may look private all the same (`Surroundings`). A
number near a private-looking word (`wording.toml`), near a name of a root, or in a laboratory's
unit may be a private value that nobody declared, or a mention that was written in a way nobody
thought of. Years after "in", times of day, "3 weeks ago", list markers, "chapter 5" and reference
ranges are not counted as such. Near means within a few words of the same sentence.
"""

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal

from rootguard.language.fold import Spans, key_of
from rootguard.language.lists import read_lists
from rootguard.language.names import formulas, languages_of
from rootguard.language.numbers import WrittenNumber
from rootguard.language.units import currency_before, fits, read_currency, read_period
from rootguard.reading.mentions import following_unit
from rootguard.reading.page import Page, wording
from rootguard.reading.subjects import Clause, clause_at, clauses, kin

OrdinarySort = Literal[
    "value",
    "date",
    "time",
    "span",
    "count",
    "label",
    "version",
    "address",
    "code",
    "range",
    "share",
    "price",
    "dose",
    "score",
    "key",
    "arithmetic",
]

_NEAR: Final = 48  # characters on either side: four or five words
_FAR: Final = 40  # characters between a name and its number
_LINE: Final = 1000  # characters of a line by which it is judged; code has shorter ones
_LONGEST_MARKER: Final = 3  # digits: from 1000 on it is no item's number
_YEARS: Final = (1900, 2099)
_DAYS: Final = 31  # of the longest month
_NO_PLURALS: Final = ("no_plurals", "small_words", "long_spans", "short_spans")
_WORD = re.compile(r"[^\W\d_]+(?:['.][^\W\d_]+)*")
_LAST_WORD = re.compile(r"([^\W\d_]+)[ _-]\Z")
_WORD_BEFORE = re.compile(r"(?<![^\W_])([^\W\d_]+) (?:(?:the|an?|your|my) )?\Z")  # no comma between
_CAMEL = re.compile(r"(?<![^\W\d_])([^\W\d_]+)\Z")
_TAG = re.compile(r"<[^<>\n]{1,40}>")
_TIE_SIGNS = re.compile(r"[\s:=()\[\]{}\"'`|→~≈*_,…-]*(?:\.{2,}[\s:]*)?")
_COMPARED = re.compile(r"(?:<=|>=|==|!=|<>|[<≤≥]|(?<![\w\"'/=-])>)\s*\Z|\w >\s*\Z")
_ASSIGNED = re.compile(r"\s*[\"'`\])]*\s*(?::\s*[\w\[\]]+\s*=|=>?|:=?|→)\s*[\"'(\[{]*\s*\Z")
_URL = re.compile(r"(?:https?://|www\.|ftp://|file://)[^\s<>\"')\]]+")
_PATH = re.compile(r"(?<![\w/.])(?:~|\.{1,2})?(?:/[\w.@+-]+){2,}/?")
_FILE_LINE = re.compile(r"\b[\w-]+\.[a-z]{1,4}:\d+(?::\d+)?")
_ADDRESSES = (
    (_URL, re.compile(r"://")),
    (_URL, re.compile(r"www\.")),
    (_PATH, re.compile(r"/[\w.@+-]+/")),
    (_FILE_LINE, re.compile(r":\d")),
)
"""Each with a part of it that is found quickly."""
_TELLING_LINE = re.compile(r"[^\n]*[^\W\d_]{3,}[^\n]*\s[^\W\d_]{3}")
_FULL_STOP = re.compile(r"[^.]\.\s")
_STOPS = re.compile(r"\.\s")
_SAID_OF_YEAR = re.compile(r"(?:'s)?\s?[:=]\s?[^\s]|\s(?:was|is)\s")
_FENCE = re.compile(r"^[ \t]*(?:```+|~~~+)[ \t]*([\w+#]*)[^\n]*$", re.MULTILINE)
_CODE_OPENING = re.compile(
    r"\s*(?:>>> |\$ [a-z./]|#!|//|/\*|#include\b|#define\b|@\w+\(|(?:async )?def \w+\("
    r"|class \w+[(:]|enum \w+ ?\{"
    r"|import \w|from [\w.]+ import |assert |print\(|(?:const|let|var) \w+ ?=|function\b.*\("
    r"|(?:public|private|protected|static|final) [\w<>\[\]]+ \w+ ?[(=;{]|elif |else:|try:"
    r"|except\b.*:$"
    r"|for \(|for \w+ in .*:\s*$|while .*:\s*$|if .*:\s*$|if \(|switch \(|insert into |delete from "
    r"|update \w+ set |create (?:table|index)|alter table |drop table |order by |group by "
    r"|(?:and |or )?where \w+(?:\.\w+)? ?(?:=|<|>|in\b|like\b|between\b|is\b)"
    r"|(?:g?awk|sed|grep|jq) (?:-\w|'|\")|>> \[?[a-z][\w, ]*\]? ?= ?\w*[(\[]"
    r"|sub [a-z]\w*\(|end (?:sub|if|function)$|dim \w+ as |for [a-z] ?= ?\S+ to "
    r"|if \w+\([^()]*\) ?[<>=].*\bthen\b|do \d+ [a-z] ?=|\(defn? [a-z]"
    r"|\d{2,5} (?:input \S|print \S|goto \d|gosub \d|let \w+ ?=|if \w+ ?[<>=]|for \w+ ?=)"
    r"|(?:git|pip3?|npm|npx|yarn|docker|kubectl|curl|wget|sudo|chmod|ssh|apt|apt-get|brew|cargo|pytest)"
    r" [a-z./-]|python3? (?:-|\S+\.py))"
    r"|\s+return\b|return .*[;)]\s*$"
)
# Of these, what a sentence may open with as well: "Pip told me", "If I weigh in at night:".
_WORD_OPENING = re.compile(
    r"\s*(?:import \w|from [\w.]+ import |assert |elif |else:|try:|for \w+ in |while |if |where "
    r"|(?:and |or )where |update |order by |group by |return\b|except\b|function\b"
    r"|(?:public|private|protected|static|final) "
    r"|(?:git|pip3?|npm|npx|yarn|docker|curl|sudo|brew|cargo|apt|ssh|pytest) )"
)
_BOLD = re.compile(r"(?<![\w)\]*])\*\*(?=[^\s*])([^*\n]*[^\s*])\*\*(?![\w*])")
_SMALL_WORD = re.compile(r"(?<![\w.$@(\[\"'])(?:[a-z]{1,6})(?:'[a-z]{1,2})?(?![\w(\[=.:])(?! ?=)")
_PROSE: Final = 4  # different words of a sentence that no program has
_SENTENCE_STOP = re.compile(r"[.!?][\"')]{0,2}\s")
_CODE_WITHIN = re.compile(
    r"(?<![<=])==(?![=>])|!=|&&|\+=|\*\*|::|\)\s?;(?!\s{1,4}[a-z]{2,40} [a-z])"
    r"|\)\.\w{2,40}\(|\b\w{2,40}\.\w{2,40}\("
    r"|\bselect\b.{1,200}\bfrom\b|\bwhere \w{1,40}(?:\.\w{1,40})? ?(?:<|>|=|!=)"
    r"|\b(?:int|smallint|bigint|integer|numeric|varchar|decimal|timestamp)\b"
    r" ?(?:\(|not|check|default)"
    r"|\bcheck ?\(\w{1,40} ?[<>]|\$\d{1,2} ?[<>=!]="
    r"|\b[a-z_]\w{1,40}\([\"'\[{]|\b\w{1,40}\(\w{1,40}=|\bif \w{1,40}(?:\.\w{1,40})? ?(?:<|>)=? ?\d"
)
_CODE_SIGNS = (
    *("=", "(", ")", "<", ">", "&&", "**", "::", "select", "smallint", "bigint", "integer"),
    *("numeric", "varchar", "decimal", "timestamp"),
)
"""One of them stands in whatever `_CODE_WITHIN` finds; they are found quickly."""
# A laboratory's mark behind a finding: "214 H     <200 mg/dL".
_FLAGGED = re.compile(r"\s{1,8}[HL]\*?(?=\s{2,}|\t|[ ]*\n|[ ]*\Z|\s+[<>(\[])")
_POWER_OF_TEN = re.compile(r"\s?x\s?10[\^*]?\d")
_FORMAT = re.compile(r"[fdegs%]\}")
_LARGE = re.compile(r"\s?(?:bn\b|billions?\b|trillions?\b|tn\b|mrd\b|milliard)")
_EACH = re.compile(
    r" (?:a|an|per) (?:share|ounce|barrel|unit|litre|liter|gallon|night|person|head)\b"
)
_TESTED = re.compile(
    r"\bunit[- ]?tests?\b|\btest cases?\b"
    r"|^\s*(?:expected|received): [\d\"'{\[]"
    r"|\bassert(?:equals?|that|raises)?\b|\bexpect\(|\.(?:tobe|toequal)\(|==\s?[\"'\d]"
)
_TEST_SIGNS = ("test", "assert", "expect", "received", ".to", "==")
"""One of them stands in whatever `_TESTED` finds; they are found quickly."""
_METHOD = re.compile(r"\.(?:between|gt|lt|ge|le|eq|isin|clip|fillna|sample|head|tail)\([\d., ]*\Z")
_DATA_LINE = re.compile(r"^\s*[\[{\"]|\"\s*:")
_CALL = re.compile(r"([a-z_][\w.]*)\((?:[^()\n]*[,\s=])?\Z")
_PARAMETERS = re.compile(
    r"\b(?:def \w+|function(?: \w+)?|fn \w+|func \w+|fun \w+|constructor|__init__) ?\("
    r"|^\s*(?:export )?(?:interface \w+ ?\{|type \w+ ?=)|\bupdate \w+ set\b"
)
_DEFINING = (
    *("def ", "function", "fn ", "func ", "fun ", "constructor", "__init__"),
    *("interface ", "type ", "update "),
)
"""One of them stands in whatever `_PARAMETERS` finds."""
_TYPED = re.compile(
    r"(?:^\s+|[{;,] ?)(?:let |var |val |public |private |readonly )*\w+\??: ?[\w\[\]| ]+=\s*\Z"
)
_CLASS = re.compile(
    r"^\s*(?:export |public |data |abstract )*(?:class|struct|interface) \w+", re.MULTILINE
)
_BOUNDED_NAME = re.compile(
    r"(?<![^\W_])(?:default|max|min|maximum|minimum|initial|base|avg|mean|median|target|goal|limit"
    r"|upper|lower)"
    r"[_-]?\Z"
)
_BOUNDING = re.compile(r"_(?:below|above|under|over|limit|threshold|cutoff) ?[=:] ?")
_DIFFERENCE = re.compile(r"[*×/+] ?\( ?[a-z_]+ ?[-–] ?\Z|\( ?[a-z_]+ ?[-–] ?\Z")
_DIFFERS = re.compile(r" ?\)(?: ?[*×/+=]| for| if|\.|\Z)")
_OLDS = re.compile(r"(?:\s?(?:-|–|to|and|or|,)\s?\d{1,3})?[- ]?(?:years?|yrs?)?[- ]?olds\b")
_AGES = re.compile(
    r"(?:(?P<who>[^\W\d_]+)[ ,(]{1,3})?\bages(?: from| of| between)? "
    r"(?:\d{1,3}(?:\s?(?:-|–|,|&|/|to|and|or)\s?)(?:and )?){0,6}\Z"
)
_RULE_OF = re.compile(
    r"(?:/\d+){0,3} (?:rule|method|split|principle|budget|diet|plan|mix|portfolio)\b"
)
_STREET = re.compile(r"(?:strasse|straße|gasse|weg|platz|allee|laan|straat|plein|damm)\Z")
_VALUES = re.compile(r"\bvalues\b[^a-z]*\Z")
_PERCENT = re.compile(
    r"\s?(?:%|percent\b|per cent\b|pct\b|prozent\b|pour cent\b|por ciento\b|por cento\b|procent\b)"
)
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b|[ºª°]\s")
_STONES = re.compile(r"st\b")
_DIMENSIONS = re.compile(r"d(?![^\W_])")
_SHORT_YEAR = re.compile(r"[^\W\d_] '\Z")
_WORTH_OF = re.compile(r"k? (?:usd |dollars )?worth of (?!my|our|expenses|savings|income|debt)")
_RUN: Final = ("5", "10", "15", "20", "50", "100")
_THOUSAND = re.compile(r" ?k (?=[a-z])")
_OPERATED = re.compile(
    r"[0-9)a-z²³]\s*[+*×÷^]\s*\Z|[\d)]\s*[-+*/×÷^]\s*[\d.]+\s*\)?\s*=\s*\Z|\)\s*=\s*\Z"
    r"|\d\s+/\s+\Z|\d\s*x\s*\Z"
)
_OPERATES = re.compile(
    r"(?!\* [a-z])\s*[+*×÷^]\s*[(0-9a-z]|\s*x\s*\d|x\^|[a-z]\^\d|\s*[-/]\s*[\d.]+\s*="
)
_CONNECTED = re.compile(
    r"\s?(?:-|–|—|\.\.\.?|to|bis|a|ate|and|und|y|et|e|or|oder|ou|o|tot|en|do|/|,|&)\s?"
)
_RANGED = re.compile(r"\s?(?:-|–|—|\.\.\.?|to|bis|a|ate|and|und|y|et|e|tot|en)\s?")
_JOINED_TO = re.compile(r"(?<![^\W_])[^\W\d_]+\d{0,2}-\Z")
_FOUND_BEFORE = re.compile(  # "23 U/L (", "23 (normal ", "214 mg/dL H ["; or nothing before it
    r"(?:\A|\d)[^\w(\[]?(?: ?[^\W\d_%][^\s(\[]{0,11}| ?%){0,3} ?[(\[](?:[^\W\d_]+[:=]? ){0,2}\Z"
)
_SHORTEST_DRUG: Final = 5  # letters
_OPENS_SENTENCE = re.compile(r"(?:\A|[.!?:;\n]\s{0,2})\Z")
_LIST_MARK = re.compile(r"[.)]\s+\S")
_AMOUNT_END = re.compile(r"k?\s?(?:usd|eur|gbp|dollars|euros?|€|£)?\s?")
_HOURS = re.compile(r"h(?:\d\d)?\b")
_CLOCK = re.compile(r"\s?(?:am|pm|a\.m\.?|p\.m\.?|o'clock|uhr|heures|uur)(?![a-z])")


@functools.cache
def _lists() -> Mapping[str, frozenset[str]]:
    content = read_lists("rootguard.reading", "ordinary.toml")
    return {key: frozenset(words) for key, words in content.items()}


@functools.cache
def _formula_keys() -> frozenset[str]:
    spellings = (s for name, said in formulas().items() for s in (name, *said))
    return frozenset(map(key_of, spellings))


def sorts(page: Page, said: Sequence[Clause] | None = None) -> tuple[OrdinarySort, ...]:
    """The sort of every number of a page, in order; `said` are its clauses if they are known."""
    if not page.numbers:
        return ()
    return tuple(_Sorting(page, clauses(page) if said is None else said).all())


class _Place:
    """One number and what stands around it on its line."""

    __slots__ = (
        *("after", "before", "end", "left", "left_gap", "right", "right_gap", "sort", "start"),
        *("text", "value"),
    )

    def __init__(self, text: str, number: WrittenNumber) -> None:
        start, end = number.start, number.end
        self.start, self.end = start, end
        self.sort, self.value = number.sort, number.value
        self.text = text[start:end]
        self.before = text[max(0, start - _NEAR) : start].rpartition("\n")[2]
        self.after = text[end : end + _NEAR].partition("\n")[0]
        self.left = _WORD.findall(self.before)[::-1]
        self.right = _WORD.findall(self.after)
        # Beyond the nearest word there are no letters, so it stands nowhere else there.
        self.left_gap = self.before.rpartition(self.left[0])[2] if self.left else self.before
        self.right_gap = self.after.partition(self.right[0])[0] if self.right else self.after

    def previous(self, at: int = 0) -> str:
        return self.left[at] if at < len(self.left) else ""

    def next(self, at: int = 0) -> str:
        return self.right[at] if at < len(self.right) else ""

    @property
    def close(self) -> bool:
        """Whether the word before stands right before."""
        return bool(self.left) and self.left_gap.strip(" ") in ("", "-", "(", ":", "=", "'s")

    @property
    def joined(self) -> bool:
        """Whether the word after stands right behind."""
        return bool(self.right) and self.right_gap in ("", " ", "-")


class CodeLines:
    """Which places of a text are code: by fences, backticks and the shape of the line."""

    __slots__ = ("_fences", "_line", "_line_is_code", "_text", "_within", "is_tested")

    def __init__(self, text: str) -> None:
        self._text = text
        self._fences = self._fenced()
        self._line = (-1, -1)
        self._line_is_code = False
        self._within = Spans()
        self.is_tested = False
        """Whether the line that was asked for last checks something, with data made up for it."""

    def meet(self, start: int, end: int) -> bool:
        """Whether a place is code; places are asked for in order."""
        at = bisect_right(self._fences, start, key=lambda fence: fence[0]) - 1
        inside = at >= 0 and start < self._fences[at][1]
        self._read_line(start)
        if inside and self._fences[at][2] in _lists()["code_fences"]:
            return True
        return self._line_is_code or self._within.meet(start, end)

    def _fenced(self) -> list[tuple[int, int, str]]:
        if "```" not in self._text and "~~~" not in self._text:
            return []
        found = []
        opened: re.Match[str] | None = None
        for match in _FENCE.finditer(self._text):
            if opened is None:
                opened = match
            else:
                found.append((opened.end(), match.start(), opened[1]))
                opened = None
        if opened is not None:
            found.append((opened.end(), len(self._text), opened[1]))
        return found

    def _read_line(self, place: int) -> None:
        """Judge the line of a place, once."""
        if self._line[0] <= place < self._line[1]:
            return
        start = self._text.rfind("\n", 0, place) + 1
        stop = self._text.find("\n", place)
        stop = len(self._text) if stop < 0 else stop
        self._line = (start, stop + 1)
        line = self._text[start:stop]
        within = []
        if "`" in line:
            opened = -1
            for match in re.finditer("`+", line):
                if opened < 0:
                    opened = match.end()
                else:
                    inside = line[opened : match.start()]
                    if not re.fullmatch(r"[\s\d.,%/]*[a-z%/]{0,8}", inside):  # `54`, `23 U/L`
                        within.append((start + opened, start + match.start()))
                    opened = -1
            line = re.sub(r"`[^`]*`", lambda ticked: " " * len(ticked[0]), line)
        if "**" in line:
            line = _BOLD.sub(r"  \1  ", line)
        head = line[:_LINE]
        ended = line.rstrip()[-1:] in (";", "{") and any(sign in head for sign in "=(:")
        shaped = ended or _is_shaped_as_code(head)
        shaped = shaped and _DATA_LINE.search(head) is None
        if shaped and _is_prose(head):
            # Where sentences speak of code, those are code, and not the whole line.
            shaped = False
            stops = [0, *(stop.end() for stop in _SENTENCE_STOP.finditer(head)), len(line)]
            for match in _CODE_WITHIN.finditer(head):
                first = bisect_right(stops, match.start()) - 1
                last = bisect_left(stops, match.end())
                within.append((start + stops[first], start + stops[last]))
        self._line_is_code = shaped
        self._within = Spans(within)
        self.is_tested = _is_tested(head)


def _is_shaped_as_code(line: str) -> bool:
    if _CODE_OPENING.match(line) is not None:
        return True
    signed = any(sign in line for sign in _CODE_SIGNS)
    return signed and _CODE_WITHIN.search(line) is not None


def _is_prose(line: str) -> bool:
    """Whether a line that looks like code is a sentence in which somebody speaks of themselves."""
    opened = _CODE_OPENING.match(line)
    if opened is not None and _WORD_OPENING.match(line) is None:
        return False
    said = {*_SMALL_WORD.findall(line)}
    if said.isdisjoint(_lists()["first_words"]):
        return False
    return len(said & _lists()["sentence_words"]) >= _PROSE


def _is_tested(line: str) -> bool:
    return any(sign in line for sign in _TEST_SIGNS) and _TESTED.search(line) is not None


class TestedLines:
    """Which lines of a text check something, with data made up for it; each is judged once."""

    __slots__ = ("_line", "_tested", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = (0, -1)
        self._tested = False

    def has(self, place: int) -> bool:
        """Whether the line of a place is one; the line that was asked for last is remembered."""
        start, stop = self._line
        if not start <= place <= stop:
            start = self._text.rfind("\n", 0, place) + 1
            stop = self._text.find("\n", place)
            stop = len(self._text) if stop < 0 else stop
            self._line = (start, stop)
            self._tested = _is_tested(self._text[start : min(stop, start + _LINE)])
        return self._tested


class _Sorting:
    def __init__(self, page: Page, said: Sequence[Clause]) -> None:
        self._page = page
        self._text = page.plain
        self._said = said
        self._lists = _lists()
        self._names = [name for name in page.names if not name.subject]
        self._ends = [name.end for name in self._names]
        self._starts = {name.start: name for name in self._names}
        self._number_ends = [number.end for number in page.numbers]
        self._code = CodeLines(self._text)
        self._german = "de" in languages_of(page.runs.words)
        text = self._text
        self._addresses = Spans(
            match.span()
            for pattern, sign in _ADDRESSES
            if sign.search(text)
            for match in pattern.finditer(text)
        )
        self._item = 0
        self._marks = self._enumerated() if ")" in text else frozenset[int]()

    def _enumerated(self) -> frozenset[int]:
        """Where marks stand that count up within a text: "(1) ... (2) ...", "1) ... 2) ..."."""
        found: dict[str, list[int]] = {}
        for number in self._page.numbers:
            if number.end - number.start > _LONGEST_MARKER or number.sort != "digits":
                continue
            before = self._text[max(0, number.start - 1) : number.start]
            after = self._text[number.end : number.end + 2]
            if after[:1] != ")" or after[1:].isalnum() or not (before in "( \n\t" or not before):
                continue
            counted = found.setdefault(before if before == "(" else "", [])
            if number.value == len(counted) + 1:
                counted.append(number.start)
        return frozenset(place for each in found.values() if len(each) > 1 for place in each)

    def all(self) -> list[OrdinarySort]:
        """The sorts, in order."""
        found: list[OrdinarySort] = []
        ties: list[bool] = []
        for at, number in enumerate(self._page.numbers):
            place = _Place(self._text, number)
            tied = self._tied(number)
            of_thing = tied and self._is_compound(bisect_right(self._ends, number.start) - 1)
            tied = tied and not of_thing
            sort = self._sort(at, number, place, tied=tied, before=found)
            if of_thing and sort == "value":
                sort = "count"  # "line height 1.5" measures a line
            if at and not ties[-1] and found[-1] == "value" and sort in ("count", "span", "dose"):
                gap = self._text[self._page.numbers[at - 1].end : number.start]
                if len(gap) <= 5 and _RANGED.fullmatch(gap):  # "2-3 sentences"
                    found[-1] = sort
            found.append(sort)
            ties.append(tied)
        return found

    # -- one number --------------------------------------------------------------------------

    def _sort(
        self,
        at: int,
        number: WrittenNumber,
        place: _Place,
        *,
        tied: bool,
        before: Sequence[OrdinarySort],
    ) -> OrdinarySort:
        if number.sort == "hole":
            return "value"
        if number.start in self._marks:
            return "label"
        if self._is_of_several(place):
            return "count"
        if self._is_default(number):
            return "code"
        if _FORMAT.match(place.after) and place.before[-1:] in (":", "%", ".", ">", "<"):
            return "code"  # {height:.2f}
        if self._in_code(number):
            made_up = self._code.is_tested or _METHOD.search(place.before) is not None
            assigned = not made_up and self._assigned(number, place, tied=tied)
            return "value" if assigned else "code"
        if _DIFFERENCE.search(place.before) and _DIFFERS.match(place.after):
            return "arithmetic"
        if self._addresses.meet(number.start, number.end):
            return "value" if self._assigned(number, place, tied=False) else "address"
        if number.sort == "opaque":
            return self._opaque(place)
        if _FLAGGED.match(self._page.folded.text, number.end):
            return "value"
        if self._page.public.meet(number.start, number.end):
            return "range"
        carried = self._carried(at, number, before, tied=tied)
        if carried is not None:
            return carried
        if self._is_key(place):
            return "key"
        if tied:
            return self._tied_sort(number, place)
        for rule, sort in self._rules():
            if rule(place):
                return sort
        return "value"

    def _is_of_several(self, place: _Place) -> bool:
        """Whether it is one of several people's ages: "kids ages 7 and 10", "8 year olds"."""
        if _OLDS.match(place.after):
            return True
        ages = _AGES.search(place.before) if "ages" in place.before else None
        if ages is None:
            return False
        others = ages["who"] in kin() or ages["who"] in self._lists["several"]
        return others or clause_at(self._said, place.start).subject != "owner"

    def _rules(self) -> Sequence[tuple[Callable[[_Place], bool], OrdinarySort]]:
        """In the order in which they are tried: shapes first, then words."""
        return (
            (self._is_time, "time"),
            (self._is_date, "date"),
            (self._is_marker, "label"),
            (self._is_version, "version"),
            (self._is_arithmetic, "arithmetic"),
            (self._is_score, "score"),
            (self._is_share, "share"),
            (self._is_range, "range"),
            (self._is_price, "price"),
            (self._is_span, "span"),
            (self._is_dose, "dose"),
            (self._is_label, "label"),
            (self._is_count, "count"),
        )

    def _tied_sort(self, number: WrittenNumber, place: _Place) -> OrdinarySort:
        """Right behind a quantity's name: its value, unless it plainly says when or how far."""
        clause = clause_at(self._said, number.start)
        bounded = clause.subject != "owner" and self._name_is_bounded(place)
        if bounded or (clause.subject == "nobody" and self._is_range(place)):
            return "range"
        if self._is_year(place) and _SAID_OF_YEAR.match(place.after):
            return "date"
        if self._in_unit_of_things(place) or self._measures_thing(place):
            return "count"
        if _LARGE.match(place.after) or _EACH.match(place.after):
            return "price"  # nobody earns billions, or so much a share
        if place.joined and (
            place.next() in self._lists["short_spans"] or place.next() in self._lists["long_spans"]
        ):
            late = place.next(1) in ("ago", "later", "earlier", "after", "before", "post")
            if late or place.previous() in ("in", "after", "within", "every"):
                return "span"
        if _PERCENT.match(place.after) and self._has_moved(place):
            return "share"
        if number.value is not None and self._is_key(place):
            return "key"
        return "value"

    def _measures_thing(self, place: _Place) -> bool:
        """Whether a cup or the like stands behind it, and no unit of the quantity: "1 cup"."""
        if not place.joined or place.next() not in self._lists["thing_units"]:
            return False
        rest = place.after[len(place.right_gap) + len(place.next()) :]
        if rest.startswith(("/", "^")) or _POWER_OF_TEN.match(place.after):
            return False
        at = bisect_right(self._ends, place.start) - 1
        measures = self._page.vocabulary.measures
        return not any(
            root is not None and fits(place.next(), measures[root].unit, measures[root].substance)
            for root in (self._names[at].roots if at >= 0 else ())
        )

    def _has_moved(self, place: _Place) -> bool:
        """Whether a share is by how much a quantity has changed: "income up 4 %"."""
        if place.previous() in ("by", "dropped", "fell", "rose"):
            return True
        at = bisect_right(self._ends, place.start) - 1
        measures = self._page.vocabulary.measures
        roots = self._names[at].roots if at >= 0 else ()
        measured = any(root is not None and measures[root].unit == "%" for root in roots)
        return not measured and place.previous() in self._lists["share_before"]

    def _in_unit_of_things(self, place: _Place) -> bool:
        """Whether its unit is one that no quantity of a person has: pixels, bytes, an oven's."""
        if place.joined and place.next() in self._lists["machine_units"]:
            return True
        if "°" not in place.after[:2]:
            return False
        at = bisect_right(self._ends, place.start) - 1
        roots = self._names[at].roots if at >= 0 else ()
        measures = self._page.vocabulary.measures
        warm = any(root is not None and "°" in measures[root].unit for root in roots)
        return place.after[:2].lstrip(" ")[:1] == "°" and not warm

    # -- ties --------------------------------------------------------------------------------

    def _tied(self, number: WrittenNumber) -> bool:
        """Whether it stands right behind the name of a quantity."""
        at = bisect_right(self._ends, number.start) - 1
        if at < 0 or number.start - self._ends[at] > _FAR:
            return False
        between = self._text[self._ends[at] : number.start]
        if "<" in between or ">" in between:
            between = _TAG.sub(" ", between)
            if self._text.startswith("<", self._names[at].start - 1):
                between = between.partition(">")[2]  # <alt unit='U/L'>30
        if "\n" in between and _TELLING_LINE.match(self._rest(number)):
            return False
        if "." in between and (_FULL_STOP.search(between) or _STOPS.match(between)):
            return False
        mark = between.strip()
        start = self._names[at].start
        if mark in ("*", "**") and self._text[max(0, start - len(mark)) : start] != mark:
            return False  # a product or a power, and not a name in bold
        words = _WORD.findall(between)
        signs = _WORD.sub(" ", between)
        if _TIE_SIGNS.fullmatch(signs) is None:
            return False
        return all(word in self._lists["ties"] for word in words)

    def _is_compound(self, at: int) -> bool:
        """Whether a name is the end of another's: "line-height", "page weight"."""
        start = self._names[at].start
        before = self._text[max(0, start - 16) : start]
        if start and not before[-1:].isspace() and _BOUNDED_NAME.search(before):
            return True  # DEFAULT_WEIGHT, maxAge
        word = _LAST_WORD.search(before) or _CAMEL.search(before)  # lineHeight
        if word is None:
            return False
        eaten = word[1] in self._lists["kitchen"] and self._text.startswith("sugar,", start)
        return eaten or word[1] in self._lists["measured_things"]  # "3/4 cup sugar, 170C"

    def _rest(self, number: WrittenNumber) -> str:
        return self._text[number.end : number.end + _NEAR].partition("\n")[0]

    def _is_default(self, number: WrittenNumber) -> bool:
        """Whether a definition says what holds if nothing is given: `def f(age=30)`.

        Parameters have such values, and the typed fields of a class. Where a laboratory's quantity
        is among them they may be a person's all the same.
        """
        start = self._text.rfind("\n", 0, number.start) + 1
        line = self._text[max(start, number.start - _LINE) : number.start]
        defines = any(map(line.__contains__, _DEFINING))
        defined = _PARAMETERS.search(line) if defines else None
        if defined is not None and line.count("(", defined.end()) >= line.count(")", defined.end()):
            return not self._is_of_laboratory(start, number.end + _LINE // 5)
        if line.rstrip()[-1:] != "=" or not _TYPED.search(line):
            return False
        opened = _CLASS.search(self._text, max(0, start - _LINE), number.start)
        return opened is not None and not self._is_of_laboratory(opened.start(), start + _LINE)

    def _is_of_laboratory(self, start: int, end: int) -> bool:
        """Whether a stretch names a quantity that only patients have."""
        measures = self._page.vocabulary.measures
        first, last = bisect_left(self._ends, start), bisect_right(self._ends, end)
        return any(
            root is not None and not measures[root].everyday
            for name in self._names[first:last]
            for root in name.roots
        )

    def _assigned(self, number: WrittenNumber, place: _Place, *, tied: bool) -> bool:
        """Whether code gives a quantity this value: `age=54`, `{'AST': [23]}`, `ast 23`."""
        if self._in_unit_of_things(place) or self._is_default(number):
            return False
        at = bisect_right(self._ends, number.start) - 1
        if at >= 0 and number.start - self._ends[at] <= _FAR and not self._is_compound(at):
            between = self._text[self._ends[at] : number.start]
            tied = tied and between.strip(" (") != "-"  # a difference
            joined = re.match(r"_?[a-z_]*", between)  # age_years = 54
            if _BOUNDING.fullmatch(between):
                return False  # income_below = 15000
            if joined is not None and _ASSIGNED.fullmatch(between, joined.end()):
                return True
        if tied and not _OPERATES.match(place.after) and not _COMPARED.search(place.before):
            return True
        callee = _CALL.search(place.before)
        if callee is not None and key_of(callee[1].rpartition(".")[2]) in _formula_keys():
            return True
        return bool(_VALUES.search(place.before)) and self._any_name(place)

    def _any_name(self, place: _Place) -> bool:
        at = bisect_right(self._ends, place.start) - 1
        return (
            at >= 0 and "\n" not in self._text[max(self._ends[at], place.start - 200) : place.start]
        )

    def _carried(
        self, at: int, number: WrittenNumber, before: Sequence[OrdinarySort], *, tied: bool
    ) -> OrdinarySort | None:
        """The sort of the number before, where the two are a pair or a list."""
        if at == 0 or tied:
            return None
        gap = self._text[self._page.numbers[at - 1].end : number.start]
        if len(gap) > len(" out of "):
            return None
        sort = before[-1]
        if sort == "range" and (_RANGED.fullmatch(gap) or gap.strip() == "/"):
            return "range"
        if (
            sort in ("label", "date", "version")
            and _CONNECTED.fullmatch(gap)
            and gap.strip() != ","
        ):
            return sort if sort != "date" or self._is_year(_Place(self._text, number)) else None
        if sort == "score" and gap.strip() in ("/", "-", "–", "out of", ":"):
            return "score"
        return None

    # -- code --------------------------------------------------------------------------------

    def _in_code(self, number: WrittenNumber) -> bool:
        return self._code.meet(number.start, number.end)

    # -- shapes ------------------------------------------------------------------------------

    def _opaque(self, place: _Place) -> OrdinarySort:
        """Dates, times, versions and addresses by their shape."""
        parts = re.findall(r"\d+", place.text)
        if ":" in place.text:
            return "date" if re.search(r"[-/.]", place.text) else "time"
        if "." in place.text and (len(parts) >= 4 or re.match(r"\.\d", place.after)):
            return "address"
        if "-" in place.text or "/" in place.text:
            return "date"
        if "." in place.text:
            dated = any(len(part) == 4 for part in parts) or all(len(part) == 2 for part in parts)
            return "date" if dated and len(parts) == 3 else "version"
        return "label"

    def _is_key(self, place: _Place) -> bool:
        gap = place.left_gap.replace(" ", "")
        return (gap == "+" and place.previous() in self._lists["keys"]) or (
            place.left_gap == " "
            and place.previous() in self._lists["pressed"]
            and place.previous(1) not in self._lists["doers"]  # "I hit 54"
        )

    def _is_time(self, place: _Place) -> bool:
        return bool(_CLOCK.match(place.after) or _HOURS.match(place.after))

    def _is_year(self, place: _Place) -> bool:
        text = place.text
        return len(text) == 4 and text.isdigit() and _YEARS[0] <= int(text) <= _YEARS[1]

    def _is_date(self, place: _Place) -> bool:
        if len(place.text) == 2 and place.text.isdigit() and _SHORT_YEAR.search(place.before):
            return not place.after.startswith(("'", '"', "%", " y"))  # "until May '14"
        if self._is_year(place):
            return self._year_stands(place)
        if place.sort == "digits" and place.text.isdigit() and 1 <= int(place.text[:3]) <= _DAYS:
            return self._is_day(place)
        return False

    def _year_stands(self, place: _Place) -> bool:
        """Whether a number that can be a year stands where one does."""
        if currency_before(self._text, place.start) is not None:
            return False
        unit = self._text[place.end + 1 : place.end + 2]
        if read_period(self._text, place.end + 1) or read_currency(self._text, place.end + 1):
            return False
        previous = place.previous()
        gap = place.left_gap
        if place.after.startswith(("s ", "'s", "s.", "s,")):
            return True
        if previous in self._lists["months"] and gap.strip(" ,.") == "":
            return True
        if re.search(
            r"\d(?:st|nd|rd|th)?, \Z|\d(?:st|nd|rd|th) \Z|q[1-4] \Z|\bfy ?\Z|©\s?\Z|'\Z",
            place.before,
        ):
            return True
        if previous in self._lists["before_year"] and gap.strip(" (-'.,:") == "":
            return True
        noun = place.right_gap == " " and place.next() not in self._lists["small_words"]
        if previous in self._lists["determiners"] and gap == " " and noun and unit != "":
            return True
        if place.before.strip() == "" and noun and place.next() not in self._lists["no_plurals"]:
            counts = self._is_plural(place.next()) or place.next() in self._lists["thing_units"]
            return not counts and not self._is_unit(place.next())  # "2024 election results"
        return place.before.endswith("(") and place.after.startswith(")") and bool(place.left)

    def _is_day(self, place: _Place) -> bool:
        months = self._lists["months"]
        after = re.sub(r"\A(?:st|nd|rd|th|\.|º)(?=\s)", "", place.after)
        words = _WORD.findall(after)
        if words and re.match(r"[ -]", after):
            month = words[0]
            if month in self._lists["between_day_and_month"] and len(words) > 1:
                month = words[1]
            if month in months and after.lstrip(" -").startswith(words[0]):
                at = self._text.find(month, place.end)
                capital = self._page.folded.text[at : at + 1].isupper()
                if capital or month not in self._lists["months_in_capitals"]:
                    return True
                if place.previous() in ("on", "by", "until", "since", "the", "before", "after"):
                    return True
        previous = place.previous()
        if previous == "the":
            previous = place.previous(1)
        close = place.left_gap.strip(" .") == ""
        if close and previous in months:
            at = self._text.rfind(previous, 0, place.start)
            capital = self._page.folded.text[at : at + 1].isupper()
            return capital or previous not in self._lists["months_in_capitals"]
        if close and previous in self._lists["weekdays"] and len(previous) > 3:
            return True
        if re.match(r"(?:st|nd|rd|th)\b", place.after):
            return place.previous() == "the" and place.previous(1) in ("on", "by", "until", "since")
        return bool(re.match(r"/\d{1,2}(?![\d/])", place.after)) and place.previous() in (
            *("on", "due", "since", "until"),
        )

    def _is_marker(self, place: _Place) -> bool:
        """Marks of a list or a note: "1." at the start of a line, "[3]", "#12", "3rd", "B-52"."""
        if place.sort != "digits":
            return False
        text, before, after = place.text, place.before, place.after
        if not before.strip(" \t>*-(") and text.isdigit() and len(text) <= _LONGEST_MARKER:
            closed = after.startswith(")") and before.strip().endswith("(")
            if (_LIST_MARK.match(after) or closed) and self._starts_line(place.start):
                follows = int(text) in (self._item + 1, self._item) or len(text) == 1
                if follows:
                    self._item = int(text)
                    return True
        inline = after.startswith(") ") and before.endswith(" ") and "(" not in before
        if inline and text.isdigit() and text == str(self._item + 1):
            self._item += 1
            return True
        noted = before.endswith("[") and after.startswith("]") and text.isdigit()
        if noted and len(text) <= _LONGEST_MARKER:
            return re.search(r"[\w.;!?)\]\"'] ?\[\Z", before) is not None
        if before.endswith("#") and not re.search(r"\d#\Z", before):
            return True
        if re.search(r"[§№]\s?\Z|\bn[°º]\s?\Z", before):
            return True
        if any(self._text.startswith(term, place.start) for term in self._lists["terms"]):
            return True
        if _DIMENSIONS.match(after) and text in ("2", "3", "4"):
            return True  # a 2D echo
        if _ORDINAL.match(after):
            if _STONES.match(after) and (text[-1:] != "1" or text[-2:] == "11"):
                return False  # "11st 6" is a weight, the place is the 11th
            return "birthday" not in place.right[:3] and "geburtstag" not in place.right[:3]
        joined = _JOINED_TO.search(before)  # "B-52", and not "190lbs-202lbs"
        return joined is not None and not self._names_end(place.start - 1)

    def _names_end(self, place: int) -> bool:
        at = bisect_right(self._ends, place) - 1
        return at >= 0 and self._ends[at] == place

    def _starts_line(self, place: int) -> bool:
        line = self._text[max(0, place - 12) : place]
        return "\n" in line or place <= 8

    def _is_version(self, place: _Place) -> bool:
        net = place.previous() == "net" and not re.search(r"\.net[ -]?\Z", place.before)
        if place.sort != "digits" or net or place.previous() not in self._lists["versioned"]:
            return (
                bool(re.search(r"\b[a-z][\w-]*(?:==|~=|>=|<=|@)\Z", place.before))
                and "." in place.text
            )
        return (
            re.fullmatch(r"[ -]?(?:v|version|>=|<=|==|=|>|<|~=|\^)?\.? ?", place.left_gap)
            is not None
        )

    def _is_arithmetic(self, place: _Place) -> bool:
        if place.sort != "digits":
            return False
        if _POWER_OF_TEN.match(place.after):
            return False  # a unit: 220 x10^3
        called = _CALL.search(place.before)
        if called is not None and called[1].rpartition(".")[2] in self._lists["functions"]:
            return True
        return bool(_OPERATED.search(place.before) or _OPERATES.match(place.after))

    def _is_score(self, place: _Place) -> bool:
        if place.value is None:
            return False
        if re.match(r"\s?/\s?(?:5|10|100)(?!\d|[.,/]\d)| out of \d", place.after):
            whole = re.search(r"\d+", place.after)
            return whole is not None and place.value <= int(whole[0])
        if place.joined and place.next() in self._lists["stars"]:
            return True
        if place.previous() == "scored" and place.close:
            return True
        played = any(word in self._lists["played"] for word in (*place.left[:4], *place.right[:3]))
        return (
            played
            and bool(re.match(r"\s?[-–:]\s?\d{1,2}(?!\d)", place.after))
            and place.value < 200
        )

    def _is_range(self, place: _Place) -> bool:
        clause = clause_at(self._said, place.start)
        owned = clause.subject == "owner"
        pair = re.match(r"\s?(?:-|–|to|bis)\s?\d[\d.,]*", place.after)
        # "AST 23 (10-40)": a pair in brackets behind a number, its unit and what is said of it.
        if pair and place.after[pair.end() :][:1] in (")", "]"):
            found = _FOUND_BEFORE.search(place.before)
            if found is not None and not self._is_change(place, pair[0]):
                return True
        if place.joined and place.next() in self._lists["long_spans"] and not pair:
            return False  # "normal for a 54 year old"
        near = self._lists["between_limit_and_number"]
        signs = re.sub(r"[\w\s]", "", place.left_gap)
        for word in place.left[:4]:
            if word in self._lists["limits"] and not (word == "ranges" and self._does(place)):
                listed = word not in (
                    "min",
                    "max",
                    "upper",
                    "lower",
                    "recommended",
                )
                return (listed or not owned) and set(signs) <= set("<>≤≥=:(-–[]\"'$€£")
            if word not in near and not self._is_name_word(word):
                break
        if owned:
            return False
        compared = _COMPARED.search(place.before)
        general = clause.subject == "nobody" or any(
            w in self._lists["verdicts"] for w in place.right[:5]
        )
        if compared:
            bound = (
                len(re.sub(r"[\w\s]", "", compared[0])) > 1
            )  # a laboratory writes "<5", not "<=5"
            return general or bound or not self._names_end_near(place.start)
        if place.previous() in self._lists["comparisons"] and place.left_gap.strip() == "":
            counts = self._is_count(place) or self._is_span(place)
            return clause.subject != "other" and not counts and not self._is_lower_of_pair(place)
        if self._name_is_bounded(place):
            return True
        if pair and clause.subject == "nobody":
            return True
        judged = _WORD.findall(place.after[pair.end() :])[:3] if pair else ()
        if any(word in self._lists["verdicts"] for word in judged):
            return True
        return clause.subject == "nobody" and any(
            word in self._lists["limits"] for word in place.left[:5]
        )

    def _is_change(self, place: _Place, pair: str) -> bool:
        """Whether a pair in brackets says from where to where: "lost 22 lbs (149 to 127)"."""
        return pair.strip().startswith(("to", "bis")) and any(
            word in self._lists["changes"] for word in place.left[:6]
        )

    def _is_lower_of_pair(self, place: _Place) -> bool:
        """Whether "over" stands between two numbers of a pressure: "134 over 86"."""
        last = bisect_right(self._number_ends, place.start) - 1
        near = last >= 0 and place.start - self._number_ends[last] <= len(" systolic over ")
        return near and place.previous() in ("over", "uber", "sur", "sobre", "su", "op")

    def _name_is_bounded(self, place: _Place) -> bool:
        """Whether a comparison stands before the name that it stands behind: "under age 65"."""
        at = bisect_right(self._ends, place.start) - 1
        if at >= 0 and _BOUNDING.fullmatch(self._text[self._ends[at] : place.start]):
            return True  # income_below = 15000
        if at < 0 or place.start - self._ends[at] > 5:
            return False
        start = self._names[at].start
        before = _WORD_BEFORE.search(self._text, max(0, start - 16), start)
        if before is None or before[1] not in self._lists["before_bounded_name"]:
            return False
        # "from age 65", but "FIB-4 from AST 23 and ALT 30".
        measures = self._page.vocabulary.measures
        ages = all(r is not None and measures[r].concept == "age" for r in self._names[at].roots)
        return before[1] != "from" or ages

    def _is_name_word(self, word: str) -> bool:
        return any(c.isalpha() for c in word) and any(
            word in self._text[n.start : n.end] for n in self._names[:8]
        )

    def _names_end_near(self, place: int) -> bool:
        at = bisect_right(self._ends, place) - 1
        return at >= 0 and place - self._ends[at] <= 4

    def _is_share(self, place: _Place) -> bool:
        percent = _PERCENT.match(place.after)
        if percent is None:
            return False
        rest = _WORD.findall(place.after[percent.end() :])
        gap = place.after[percent.end() :]
        close = place.left_gap.strip(" (~:") == ""
        alone = place.previous() in ("at", "about", "only") and len(place.left) < 2
        if close and place.previous() in self._lists["share_before"] and not alone:
            return True
        if not rest or not gap.startswith(" "):
            return False
        hyphened = gap[1 + len(rest[0]) : 2 + len(rest[0])] == "-"  # "20% co-insurance"
        noun = (len(rest[0]) > 3 or hyphened) and not any(
            rest[0] in self._lists[key] for key in _NO_PLURALS
        )
        return rest[0] in self._lists["share_after"] or noun

    def _is_price(self, place: _Place) -> bool:
        sign = currency_before(self._text, place.start)
        after = place.end + (self._text[place.end : place.end + 1] == " ")
        money = sign is not None or read_currency(self._text, after) is not None
        if not money:
            return False
        if any(word in self._lists["means"] for word in (*place.left[:4], *place.right[:4])):
            return False
        if _WORTH_OF.match(place.after):
            return True
        scaled = any(word in self._lists["scales"] for word in place.right[:1])
        scaled = scaled or re.match(r"\s?(?:[bmt]|bn|mn)\b", place.after) is not None
        if scaled:
            return True
        unit = _AMOUNT_END.match(self._text, place.end)
        ends = place.end if unit is None else unit.end()
        if read_period(self._text, ends) or read_period(self._text, place.end):
            return False
        head = place.before if sign is None else self._text[max(0, sign[1] - _NEAR) : sign[1]]
        words = _WORD.findall(head.rpartition("\n")[2])
        if any(word in ("price", "prices", "cost", "costs", "fee") for word in words[-3:]):
            return True
        if "cost" in words[-6:-3] and words[-1] in self._lists["ties"]:
            return True  # "in total it cost us just about $6300"
        if words and words[-1] in self._lists["priced"]:
            return clause_at(self._said, place.start).subject != "owner" or words[-1] not in (
                *("to", "by", "from", "at", "over", "under", "on"),
            )
        articled = bool(words) and words[-1] in ("a", "an", "the", "this", "that", "each", "per")
        return articled and place.right_gap in (" ", "-") and bool(place.right)

    def _is_span(self, place: _Place) -> bool:
        lists = self._lists
        if not place.joined:
            return False
        unit = place.next()
        follows = place.next(1)
        aged = follows in lists["ages"] or (follows == "of" and place.next(2) == "age")
        aged = aged or place.previous() == "born"
        if unit in lists["short_spans"] or (unit == "s" and place.right_gap == " "):
            return not aged
        if unit in lists["long_spans"] and not aged:
            if place.right_gap == "-" and place.sort != "words":
                return True
            if unit in ("year", "month", "yr") and follows and place.value != 1:
                return True
            if place.previous() in lists["before_span"] and place.left_gap.strip(" ~-") == "":
                return True
            spaced = re.match(r"[a-z]+ [a-z]", place.after.lstrip(" -")) is not None
            return follows in lists["after_span"] and spaced
        return False

    def _is_dose(self, place: _Place) -> bool:
        if self._is_drug(place):
            return True
        if not place.joined or place.right_gap == "-":
            return False
        if place.next() in self._lists["dose_units"]:
            tail = place.after[len(place.right_gap) + len(place.next()) :]
            return not tail.startswith(("/", "%", " per d", " per l"))
        taking = any(word in self._lists["taking"] for word in place.left[:4])
        return taking and place.next() in ("units", "unit", "u", "g", "ml")

    def _is_drug(self, place: _Place) -> bool:
        """Whether it is right behind a drug: "metformin 500", "took one Cetalin 35"."""
        word = place.previous()
        if place.sort != "digits" or place.left_gap != " " or self._names_end(place.start - 1):
            return False
        if len(word) > _SHORTEST_DRUG and word.endswith(tuple(self._lists["drug_stems"])):
            return True
        at = place.start - 1 - len(word)
        if len(word) < _SHORTEST_DRUG or not self._page.folded.text[at : at + 1].isupper():
            return False
        if word in self._lists["months"] or word in self._lists["weekdays"]:
            return False
        inside = place.left[1:9]  # a word that opens its sentence has a capital anyway
        return not _OPENS_SENTENCE.search(self._text, max(0, at - 3), at) and any(
            each in self._lists["taking"] or each in self._lists["taken"] for each in inside
        )

    def _is_count(self, place: _Place) -> bool:
        lists = self._lists
        after = place.next()
        close = place.left_gap.strip(" ") == "" and bool(place.left)
        if close and place.previous() == "top":
            return True
        if re.match(r"/\d+ (?:cup|tsp|tbsp|teaspoon|tablespoon|oz|lb|of)", place.after):
            return True
        if place.after.startswith(("°", " °")):
            return True
        if place.sort == "words" and place.text == "one":
            return not re.match(
                r"[ -](?:hundred|thousand|million|[a-z]*teen|ten|twelve|eleven|[a-z]+ty)",
                place.after,
            )
        money = currency_before(self._text, place.start) is not None
        if place.value == 0 and place.right_gap == " " and after in ("down", "interest", "apr"):
            return True
        if money or not place.joined or not after:
            return False
        if after == "k" and self._counts_thousands(place):
            return True
        bare_unit = not place.after[len(place.right_gap) + len(after) :].startswith(("/", "^"))
        if _POWER_OF_TEN.match(place.after) or re.match(r" of (?:my|our) ", place.after):
            return False  # a unit: 220 x10^9/L; a share: 5208 of my pay
        if after in lists["thing_units"] and bare_unit:
            return True
        if after in lists["plurals"]:
            return True
        at = place.end + len(place.right_gap)
        if at in self._starts:  # "30 glucose tests", and not "220 platelets"
            end = self._starts[at].end
            noun = _WORD.match(self._text, end + 1)
            return noun is not None and self._text[end] == " " and self._is_plural(noun[0])
        if place.right_gap == "-":
            return after not in ("year", "yr", "month", "kg", "lb", "pound", "cm", "foot", "inch")
        if self._is_plural(after) and place.right_gap == " ":
            return True
        if place.value == 1 and place.right_gap == " " and after not in lists["small_words"]:
            return after not in lists["no_plurals"] and not self._is_unit(after)
        if (
            close
            and place.previous() in lists["count_before"]
            and after not in lists["small_words"]
        ):
            return not self._is_unit(after)
        written = self._page.folded.text[place.end + 1 : place.end + 2]
        if after in lists["count_after"] and after not in ("or", "per", "of"):
            return written.islower()
        if self._german and written.isupper() and len(after) > 2:
            units = lists["long_spans"] | lists["short_spans"] | lists["months"]
            return after not in units and not self._is_unit(after)
        if after == "of" and place.next(1) in ("the", "these", "those", "them", "my", "our", "us"):
            return True
        said = place.previous() in ("is", "was", "it", "at", "be", "been", "s", "came", "back")
        adjective = after not in lists["small_words"] and not self._is_unit(after)
        adjective = adjective and after not in lists["no_plurals"] and place.after[1:2].isalpha()
        gap = place.after[len(place.right_gap) + len(after) :]
        second = place.next(1)
        return (
            adjective
            and not said
            and gap.startswith((" ", "-"))
            and (self._is_plural(second) or second in lists["plurals"])
        )

    def _counts_thousands(self, place: _Place) -> bool:
        """Whether thousands of things are counted, or it is how far a run goes: "a 5k run"."""
        noun = place.next(1) if _THOUSAND.match(place.after) else ""
        if noun in self._lists["thing_units"] or noun in self._lists["counted"]:
            return True
        near = (*place.left[:5], *place.right[1:4])
        return place.text in _RUN and any(word in self._lists["runs"] for word in near)

    def _is_plural(self, word: str) -> bool:
        if word in self._lists["plurals"]:
            return True
        return (
            len(word) > 3
            and word.endswith("s")
            and not word.endswith(("ss", "us", "is", "'s"))
            and not any(word in self._lists[key] for key in _NO_PLURALS)
        )

    def _is_unit(self, word: str) -> bool:
        known = ("kg", "lb", "lbs", "cm", "m", "ft", "feet", "foot", "inches", "inch", "in", "st")
        money = read_currency(word, 0) is not None
        more = (
            "stone",
            "mmol",
            "mg",
            "u",
            "iu",
            "k",
            "grand",
            "mmhg",
            "kilos",
            "pounds",
            "bpm",
            "lakh",
        )
        return word in known or word in more or money

    def _is_label(self, place: _Place) -> bool:
        lists = self._lists
        if place.sort == "words" and (place.value or 0) > 20:
            return False
        word = place.previous()
        gap = place.left_gap
        slashed = "/" in place.after[:4] or "/" in place.before[-4:]
        if slashed and _RULE_OF.match(place.after):
            return True  # the 50/30/20 rule
        if gap == " " and _STREET.search(word):
            return True
        if word in ("no", "nr", "nos", "number", "num") and place.previous(1) in lists["labels"]:
            word = place.previous(1)
        if word not in lists["labels"] or self._does(place):
            return self._of_total(place)
        if re.fullmatch(r"[\"']?\s?\.?[:=#(-]?\s?[\"']?", gap) is None:
            return False
        if word == "no" and "." not in gap:
            return False
        if word in lists["short_spans"]:  # "day 3", but not "this week: 104"
            return gap == " " and place.previous(1) not in lists["determiners"]
        if word in lists["verbs_too"]:
            counts = place.right_gap == " " and self._is_plural(place.next())
            return not (counts or place.previous(1) in lists["doers"])
        return True

    def _does(self, place: _Place) -> bool:
        """Whether the word before is what a quantity does: "my sugars run 100-110"."""
        word = place.previous()
        if word not in ("run", "runs", "ranges"):
            return False
        at = place.start - len(place.left_gap) - len(word)
        return self._names_end(at - 1)

    def _of_total(self, place: _Place) -> bool:
        """Whether it says how many there are: "step 3 of 7"."""
        return bool(re.search(r"\d (?:of|von|de|di|van) \Z", place.before))


NEAR = 6  # words: "my ferritin from last week was 480" has five in between
_FAR_APART = 60  # characters without a word, such as a rule of dashes, end what is near
_WORD_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+")
_SENTENCE_END = re.compile(r"[.!?]\s")
_LAB_UNIT = re.compile(r"/(?:d|m|u)?L$|mmHg|kPa|mmol|bpm|kg/m2")
_LABELLING = re.compile(r"[\"'`*]{0,3}\s?[:=]\s*[\"'`$€£*]{0,3}\s?")
_LIST_MARKER = re.compile(r"[.)](?=\s|$)")
_PARTING = re.compile(r"[\"'{}\[\]\n;|=<>]")
_COPULAS = frozenset(("is", "was", "at", "of", "about", "around"))
_UNIT = 2  # letters: "1875/mo on loans"
_TERSE = 40  # characters: "ferritin 480", "my labs: ferritin 480"
_FEW_WORDS = 4  # of the whole message: "my fasting sugar was 106.2", and no sentence of a text
_LEAST_WORD = 20  # "one of them", "two ways", "ten times": smaller number words are seldom values
_LONGEST_INDENT = 8  # characters before "12. Take iron": an indent and a quote mark


class Surroundings:
    """The words of a page and which of them look private."""

    def __init__(self, page: Page) -> None:
        self._text = page.folded.text
        self._plain = page.plain
        self._words = [match.span() for match in _WORD_PART.finditer(self._text)]
        self._starts = [start for start, _ in self._words]
        self._cells = sorted(
            (
                (cell.start, cell.end, column.header)
                for column in page.columns
                for cell in column.cells
            ),
            key=lambda cell: cell[0],
        )
        measures = page.vocabulary.measures
        self._names = Spans(
            (n.start, n.end)
            for n in page.names
            if not n.subject
            # "got" is an enzyme in German laboratories alone.
            and not (n.everyday and not any(r and measures[r].money for r in n.roots))
        )
        content = wording()["private"]
        self._nouns = frozenset(content["nouns"])
        self._birth = frozenset(content["birth"])
        self._harmless = frozenset(content["harmless"])
        self._before_year = frozenset(content["before_year"])
        self._before_ordinal = frozenset(content["before_ordinal"])
        self._verbs_too = frozenset(content["verbs_too"])
        self._doers = frozenset(content["doers"])

    def idle(self, number: WrittenNumber) -> bool:
        """Whether it is a small number word, which is seldom a value: "one of them", "two ways"."""
        single = _WORD_PART.fullmatch(self._text, number.start, number.end) is not None
        return number.sort == "words" and single and (number.value or 0) < _LEAST_WORD

    def private(self, number: WrittenNumber) -> bool:
        """Whether a number looks private where it stands."""
        unit = following_unit(self._plain, number.end)
        if unit is not None and _LAB_UNIT.search(unit) and self._unit_is_written(number):
            return True
        near = [*self._left(number), *self._right(number)]
        if self._ordinary(number):
            return any(self._said(place) in self._birth for place in near)
        return any(self._looks_private(place) for place in near)

    def tied(self, number: WrittenNumber) -> bool:
        """Whether it is in a laboratory's unit, or a few words say a private one and nothing else.

        "Ferritin 480" is somebody's, "net debt of 2.2 billion, EBITDA 647 million" is in the news.
        """
        unit = following_unit(self._plain, number.end)
        if unit is not None and _LAB_UNIT.search(unit) and self._unit_is_written(number):
            return True
        if self.labelled(number):
            return True
        line = self._plain[max(0, number.start - _TERSE) : number.end + _TERSE]
        if len(line) < len(self._plain) or len(_WORD_PART.findall(line)) > _FEW_WORDS:
            return False
        for place in self._left(number):  # "sugar was 106.2"
            if self._looks_private(place):
                return True
            if self._said(place) not in _COPULAS:
                break
        return False

    def beside(self, number: WrittenNumber) -> bool:
        """Whether a private word is next to it, small words aside: "on loans 1875"."""
        small = wording()["between"]
        if self._plain[number.end : number.end + 2].strip()[:1] == "%":
            return False
        for places in (self._left(number), self._right(number)):
            reached = number.start
            for place in places:
                start, end = self._words[place]
                gap = self._plain[end:reached] if end <= reached else self._plain[reached:start]
                if _PARTING.search(gap):
                    break
                if self._looks_private(place):
                    return True
                if self._said(place) not in small and len(self._said(place)) > _UNIT:
                    break
                reached = start if end <= number.start else end
        return False

    def labelled(self, number: WrittenNumber) -> bool:
        """Whether a private word is its key, its label or the header of its column."""
        nearest = next(self._left(number), None)
        if nearest is not None and self._looks_private(nearest):
            gap = self._plain[self._words[nearest][1] : number.start]
            if _LABELLING.fullmatch(gap):
                return True
        at = bisect_right(self._cells, number.start, key=lambda cell: cell[0]) - 1
        if at < 0 or number.start >= self._cells[at][1]:
            return False
        header = self._cells[at][2]
        first = bisect_left(self._starts, header.start)
        last = bisect_left(self._starts, header.end)
        return any(self._looks_private(place) for place in range(first, last))

    def _unit_is_written(self, number: WrittenNumber) -> bool:
        """Not a bare letter that could be the start of a word."""
        rest = self._plain[number.end : number.end + 3].strip()
        return len(rest) > 0 and rest not in ("k", "m")

    def _said(self, place: int) -> str:
        start, end = self._words[place]
        return self._plain[start:end]

    def _looks_private(self, place: int) -> bool:
        word = self._said(place)
        if word in self._nouns or word.removesuffix("s") in self._nouns:
            return True
        return self._names.meet(*self._words[place])

    def _ordinary(self, number: WrittenNumber) -> bool:
        """A year, a time span, an ordinal, a list marker: what counts, but measures nothing."""
        text, start, end = self._plain, number.start, number.end
        after = bisect_left(self._starts, end)
        before = after - 1 if number.sort != "words" else bisect_left(self._starts, start) - 1
        previous = self._said(before) if before >= 0 else ""
        close_before = before >= 0 and text[self._words[before][1] : start] in (" ", "-", " (", "")
        following = self._said(after) if after < len(self._words) else ""
        if following in self._harmless and text[end : self._words[after][0]] in ("", " ", "-"):
            return True
        written = text[start:end]
        year = len(written) == len("2023") and written.isdigit() and "1900" <= written <= "2099"
        if close_before and year and previous in self._before_year:
            return True
        if close_before and previous in self._before_ordinal:
            doer = self._said(before - 1) if before > 0 else ""
            return not (previous in self._verbs_too and doer in self._doers)
        if text[start - 1 : start] == "[" and text[end : end + 1] == "]":
            return True
        opening = text[max(0, start - _LONGEST_INDENT) : start].rsplit("\n", 1)
        at_line_start = (len(opening) > 1 or start <= _LONGEST_INDENT) and not opening[-1].strip(
            " \t>*-"
        )
        return (
            at_line_start
            and bool(_LIST_MARKER.match(text, end))
            and len(written) <= _LONGEST_MARKER
        )

    def _left(self, number: WrittenNumber) -> Iterator[int]:
        edge = number.start
        last = bisect_left(self._starts, number.start)
        for place in range(last - 1, max(last - 1 - NEAR, -1), -1):
            if self._parted(self._words[place][1], edge):
                return
            yield place
            edge = self._words[place][0]

    def _right(self, number: WrittenNumber) -> Iterator[int]:
        edge = number.end
        first = bisect_left(self._starts, number.end)
        for place in range(first, min(first + NEAR, len(self._words))):
            if self._parted(edge, self._words[place][0]):
                return
            yield place
            edge = self._words[place][1]

    def _parted(self, start: int, end: int) -> bool:
        return end - start > _FAR_APART or _SENTENCE_END.search(self._text, start, end) is not None
