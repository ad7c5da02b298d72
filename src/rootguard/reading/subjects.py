"""Whose a clause is: the owner's, another person's, nobody's, or not said.

A text is cut into sentences and lines, and these where a new subject begins ("my boss makes 200k,
I make 85k"). Words that say who is spoken of are in `subjects.toml`. Who speaks is not known here:
the reader decides what a clause that does not say it means, and what "I" is in a model's turn.
No decision depends on a number's value. Cost is linear: only words of the lists are looked at.
"""

import functools
import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rootguard.language.fold import Openings, Spans, caseless, first_words, key_of, matches_at
from rootguard.language.lists import either, read_lists, whole
from rootguard.language.names import formulas, languages_of
from rootguard.language.units import canonical
from rootguard.reading.page import Page

Whose = Literal["owner", "other", "nobody", "unsaid"]
_Strength = Literal["strong", "weak"]

_NEAR = 48  # characters around a word that are looked at: four or five words
_QUESTION = 400  # characters of a sentence that are looked at for who is asked for what
_ABBREVIATION = 10  # characters before a point that may be an abbreviation
_LOOKED_AT = 8  # numbers of a sentence before a general word
_WRAPPED = 60  # a line of prose this long goes on in the next if that begins small
_TELLING = 2  # words of a language, as in the index of names
# Searches begin with a set of characters where they can: `re` skips quickly to one of these.
_STOP = re.compile(r"[\n;.!?…。！？；](?:(?<=[.!?…])[.!?…]*)?")
_WORD = re.compile(r"[^\W\d_]+")
_LAST_WORD = re.compile(r"[^\w\n]*([^\W\d_]+)")  # read backwards
_AGE = re.compile(
    r"(?<![^\W_])(?P<article>an?|the|eine?|einem|einer|einen|un|une|una|uma?|een)\s+"
    r"(?:[^\W\d_]+\s+)?(?:\d{1,3}|(?:[a-z]{3,5}ty|ten|[a-z]{2,5}teen|two|three|four|five|six|seven|eight|nine"
    r"|eleven|twelve)(?:[- ][a-z]{3,5})?)[- ]?"
    r"(?:years?[- ]?olds?|yrs?[- ]?olds?|year|yo|y/o|jahrige[rnms]?|jahre|months?[- ]old)(?![^\W_])"
)
_OWNER_COPULA = re.compile(
    r"(?:\b(?:i|as|am|me|im|i'm|was|being|bin|soy|sono|sou|ik|ben)\W{1,2})\Z"
)
_SERVED_COPULA = re.compile(r"\b(?:patient|user|client|applicant)\W{1,2}(?:is|was)\W{1,2}\Z")
_LIKE_FIVE = re.compile(r"i ?(?:'?m|am|was|were) (?:a )?(?:five|5|beginner|child|dummy)(?![^\W_])")
_BOUNDED = re.compile(r"(?<![^\W_])an? ([a-z0-9-]{2,12}) ([a-z<>]{1,10})(?= )")
_ASKED = re.compile(
    r"\W*(?:(?:and|so|then|ok|okay|great|thanks|first|next|now)\W+)*"
    r"(?:what|how (?:much|many|old|tall|heavy|high|often)|which|when)"
    r"(?:'s| is| are| was| were| do| did| would| will| [a-z]+ (?:do|did|are|is))?"
    r" (?:you|your)\b(?P<verb> [a-z]+)?"
)
_COUNTS = re.compile(r" ?(?:[=<>]|[+*%-]=|\+\+|in range\b)|_")
_COUNTED = re.compile(r"(?:\b(?:int|let|var|auto|size_t) |[_$%&]|\+\+)\Z")
_IS_IT = re.compile(r"\W*(?:is|are|was|ist|est|es|e) \d")
_YEAR = re.compile(r"(?:19|20)\d\d")
_FULL_NAME = re.compile(
    r"(?P<name>[A-Z](?<![\w'-].)[a-z]{1,20}(?:[A-Z][a-z]{1,20})? (?:[A-Z]['’])?[A-Z][a-z]{1,20})"
    r"(?:(?P<verb>'s)| (?P<did>[a-z]{2,12}))\b"
)
_ENDED = frozenset(("died", "married", "scored", "reigned", "starred"))
_ONE_NAME = re.compile(  # "Napoleon died at age 51", "LeBron's weight"
    r"(?P<name>[A-Z](?<![\w'.-].)(?:[a-z]{2,20}(?:[A-Z][a-z]{1,20})?|[a-z][A-Z][a-z]{1,20}))"
    rf"(?:'s(?= [a-z])| (?P<did>{either(_ENDED)})\b)"
)
_IS_MUCH = re.compile(r" (?:about |around |only |now |already )?\d")
_ARE_MUCH = re.compile(r"(?:'re| are| were| came| went| ran| run| read)(?: [a-z]{1,8}){0,2} \d")
_HOW = re.compile(  # "How tall is Shaquille O'Neal?"
    r"(?<![^\W_])how (?:old|tall|heavy|much|high)(?: money)? (?:is|was|are|were|does|did|do|will) "
    r"(?!(?:i|you|we|my|our|your|me|the patient|the user|it|that|this)(?![^\W_]))"
    r"(?!(?:he|she|they|his|her)(?![^\W_]))"
    r"(?=[^\W\d_]{2})"
)
_WHAT = re.compile(  # "What did Queen Victoria weigh?"
    r"(?<![^\W_])what (?:did|does) (?!(?:i|you|we|my|our|your|it|that|this|one)(?![^\W_]))"
    r"(?!(?:he|she|they|his|her|the patient|the user)(?![^\W_]))"
    r"(?=(?:[^\W\d_]+ ){1,3}(?:weigh|earn|make|measure|spend)(?![^\W_]))"
)
_THIRD_VERBS = frozenset(("weighs", "earns", "costs", "measures", "spends", "weighed", "yields"))
_THIRD_VERB = re.compile(  # "The turkey weighs 6.5 kg"
    r"(?<![^\W_])(?P<article>the|this|that|a|an|our|my|each|every)(?: [^\W\d_]+)? "
    r"(?P<noun>[^\W\d_]+)"
    rf" (?:{either(_THIRD_VERBS)})(?![^\W_])"
    r"(?! (?:is|are|was|were|come|came|amount|run)(?![^\W_]))"  # "My living costs are 4320"
)
_HEADING = re.compile(r"[ \t]*#{1,6} ")
_BESIDE_NAME = re.compile(r"(?: [^\W\d_]+)?[,(: ]{1,3}\d{1,3}(?![\d.,:/]*\d)")


_WONDERS = re.compile(r" (?:wants to know|asks|asked|is asking|wondered|wonders) (?:if|whether)\b")
_AGED = re.compile(r" (?:aged|ages|between|under|over) (?:\d|[a-z]{3,5}\b)")
_NEXT_TO = re.compile(r" (?:next to|beside|opposite|across from|ahead of|behind) (?:me|us)\b")
_ME_MUCH = re.compile(r"[:=]?\s\d|[:=]\s")
_ASIDE = re.compile(r"\A( [^\W\d_]+)? \(\d{1,3}(?: ?[a-z]{1,3})?\)")
_PHRASE_END = re.compile(r"[,;:!?\n(]|\.(?:\s|\Z)")
_MARKS = re.compile(r"[,;:!?\n.]")
_TITLED = re.compile(r"\.? ?([^\W\d_]+)")
_HEARSAY = re.compile(r"\W*(?:i|we) (?:have |just |once )?(?:read|heard|saw|found|googled)\b")
_CASE = re.compile(r"\s*(?:clinical |exam |sample )?(?:case|vignette|scenario)(?: \d{1,2})?:")
_BED = re.compile(r"(?<![^\W_])bed #?\d{1,3}(?=(?:,|:| ?[-–]) ?(?:\d{1,3} ?)?[mf]\b)")
_IN_BED = re.compile(r" (?:in|on|from) (?:bed|room|ward|bay) ")
_LABELLED = re.compile(
    r" (?:[A-EX-Z](?=[:,.] ?\w| [^\W\d])|#?[1-9]\d{0,3}(?=[:,. ] ?[^\W\d]))"
)  # "Patient B: age 45"
_ANYBODY = re.compile(  # "What salary does a nurse get"
    r"\b(?:what|how much|how many)(?: [a-z]+)? (?:does|do|did|would|should|can) an? "
    r"(?P<noun>[a-z]+)(?! (?:of|like me))"
)
_COUNTED_PEOPLE = frozenset(
    (
        *("person", "employee", "candidate", "worker", "investor", "couple", "household", "family"),
        *("subject", "participant", "customer", "client", "applicant"),
    )
)
_NUMBERED = re.compile(  # "Person A is 30", "employee 2 earns"
    rf"(?<![^\W_])(?:{either((*_COUNTED_PEOPLE, *map(str.title, _COUNTED_PEOPLE)))}) "
    r"(?:[A-EX-Z]|#?[1-9]\d?)(?![\w.])"
)
_IN_GENERAL = frozenset(
    (
        *("in general", "generally", "generally speaking", "typically", "hypothetically"),
        *("im allgemeinen", "en general", "in generale", "em geral", "over het algemeen"),
    )
)
_FOR_WHOM = frozenset(("for", "with", "of", "to", "by"))
_UNSAID: Whose = "unsaid"


class Clause(NamedTuple):
    """A stretch of a folded text that speaks of one person, or of nobody.

    `addressed`: it asks the other side for values ("Your age?").
    """

    start: int
    end: int
    subject: Whose
    addressed: bool


class _Marker(NamedTuple):
    start: int
    end: int
    subject: Whose
    strength: _Strength = "strong"


@functools.cache
def _lists() -> Mapping[str, Any]:
    return read_lists("rootguard.reading", "subjects.toml")


def reports() -> str:
    """A pattern for what somebody is spoken of in who is not there: a case, a story."""
    return either(_lists()["reports"])


@functools.cache
def _reported() -> re.Pattern[str]:
    """The same, and where the writer looks after somebody: "the patient in my clinic"."""
    return re.compile(
        rf"s? (?:in|at|from|of|described in) (?:the|this|that|a|an|our|my) (?:{reports()}"
        r"|clinic|practice|ward|office|surgery|unit|department|care)\b"
    )


@functools.cache
def _set(group: str, name: str = "") -> frozenset[str]:
    content = _lists()[group]
    return frozenset(content[name] if name else content)


@functools.cache
def _persons() -> frozenset[str]:
    lists = _lists()["persons"]
    return frozenset((*lists["kin"], *lists["people"], *lists["relations"]))


@functools.cache
def _elliptic_words() -> frozenset[str]:
    return _set("asking", "elliptic") | _set("asking", "please") | _set("asking", "you")


def kin() -> frozenset[str]:
    """Persons by kinship."""
    return _set("persons", "kin")


def people() -> frozenset[str]:
    """Persons by acquaintance and role, and pets."""
    return _set("persons", "people")


def anybody() -> frozenset[str]:
    """Words for people in general."""
    return _set("general", "people")


@functools.cache
def persons() -> frozenset[str]:
    """Persons by kinship or acquaintance."""
    return kin() | _set("persons", "people")


@functools.cache
def oneself() -> frozenset[str]:
    """What a speaker is called in a row of a table, in any language: "me", "ich"."""
    return frozenset(_lists()["row"]["owner"])


@functools.cache
def _formula_keys() -> frozenset[str]:
    return frozenset(key_of(said) for many in formulas().values() for said in many)


@functools.cache
def _unspaced() -> re.Pattern[str]:
    lists = _lists()["unspaced"]
    other, owner = ("|".join(map(re.escape, lists[kind])) for kind in ("other", "owner"))
    return re.compile(f"(?P<other>{other})|(?P<owner>{owner})")


@functools.cache
def _phrases() -> Openings:
    phrases = _lists()["general"]["phrases"]
    return Openings((whole(either(phrases)), first_words(phrases)))


@functools.cache
def _marking(spoken: frozenset[str]) -> Mapping[str, str]:
    """What each word may mark in a text of these languages: the words of the lists, and a role."""
    lists = _lists()
    roles: dict[str, str] = {}

    def note(words: Collection[str], role: str) -> None:
        for word in words:
            roles.setdefault(word, role)

    for group in ("own", "self"):
        for language, words in lists[group].items():
            if language in ("any", "en") or language in spoken:
                note(words, group)
    for words in lists["own"].values():
        note(words, "foreign")  # before kin it is a possessive in any text: "mon fils"
    if "it" in spoken:
        roles.pop("i", None)  # the article
    note(lists["object"]["owner"], "me")
    note(lists["object"]["other"], "him")
    note(lists["served"]["nouns"], "served")
    note(lists["third"]["always"], "third")
    note(lists["third"]["possessive"], "her")
    note(("they", "their"), "after")
    if spoken:
        note(lists["third"]["after"], "after")
    note(lists["persons"]["professionals"], "professional")
    note(lists["persons"]["called"], "called")
    note(lists["persons"]["kin"], "person")
    note(lists["persons"]["people"], "person")
    note([f"{word}s" for word in lists["persons"]["singular"]], "unmarked")
    note(lists["persons"]["titles"], "title")
    note(lists["general"]["people"], "people")
    note(lists["general"]["normal"], "normal")
    note(lists["general"]["with_article"], "normal")
    note(lists["names"]["given"], "given")
    note(lists["persons"]["relations"], "person")  # "a client of mine has"
    return roles


def clauses(page: Page, names: Collection[str] = ()) -> tuple[Clause, ...]:
    """The clauses of a page, in order and without gaps; `names` are the owner's own."""
    if not page.plain:
        return ()
    return tuple(_Cutting(page, names).clauses())


_start = operator.itemgetter(0)  # of a clause or a marker: they are in order of it


def clause_at(found: Sequence[Clause], place: int) -> Clause:
    """The clause that a place stands in."""
    return found[bisect_right(found, place, key=_start) - 1]


class _Cutting:
    def __init__(self, page: Page, names: Collection[str]) -> None:
        self._page = page
        self._text = page.plain
        self._written = page.folded.text
        words = page.runs.words
        dutch = {"nl"} if len(_set("dutch") & set(words)) >= _TELLING else set[str]()
        self._spoken = languages_of(words) | dutch
        self._own_names = frozenset(
            part for name in names for part in re.findall(r"[^\W\d_]{2,}", caseless(name))
        )
        self._quantities = [name for name in page.names if not name.subject]
        self._starts = [name.start for name in self._quantities]
        self._in_name = Spans((name.start, name.end) for name in self._quantities)
        dotted = [
            (name.start, name.end)
            for name in self._quantities
            if "." in self._text[name.start : name.end]
        ]
        self._dotted, self._has_dotted = Spans(dotted), bool(dotted)
        self._abbreviations = _set("abbreviations")
        self._signed = "<" in self._text or ">" in self._text
        self._has_brackets = "(" in self._text
        self._numbers = [number.start for number in page.numbers]
        self._number_ends = [number.end for number in page.numbers]

    # -- sentences ---------------------------------------------------------------------------

    def _sentences(self) -> Iterator[tuple[int, int]]:
        """Sentences and lines, without gaps."""
        text, start, line = self._text, 0, 0
        abbreviations, has_dotted = self._abbreviations, self._has_dotted
        for stop in _STOP.finditer(text):
            at, end = stop.span()
            mark = text[at]
            if mark == "." and end - at == 1 and text[end : end + 1] == " " and not has_dotted:
                # A point and a blank behind a plain word, as mostly: here, as a call takes as long.
                word = text[max(line, at - _ABBREVIATION) : at].rpartition(" ")[2]
                plain = at - line > 4 and len(word) > 1 and word.isalpha()
                plain = plain and word not in abbreviations
                if not plain and not self._ends_sentence(at, end, line):
                    continue
            elif mark == "\n":
                wrapped = at - line >= _WRAPPED and text[end : end + 1].isalpha()
                goes_on = wrapped and self._written[end].islower() and text[at - 1] not in ".:;!?"
                line = end
                if goes_on:
                    continue
            elif mark in ".!?…" and not self._ends_sentence(at, end, line):
                continue
            yield start, end
            start = end
        if start < len(text):
            yield start, len(text)

    def _ends_sentence(self, at: int, end: int, line: int) -> bool:
        text = self._text
        after = text[end : end + 1]
        if text[at] != ".":
            return not after.isalnum()
        if self._has_dotted and self._dotted.meet(at, end):
            return False
        if after and not (after.isspace() or after in "\"')]*_"):
            return False
        if end - at > 1:
            return True
        before = text[max(line, at - _ABBREVIATION) : at].rpartition(" ")[2].lstrip("([\"'")
        if before in self._abbreviations or (len(before) == 1 and before.isalpha()):
            if before == "i" or after in ("", "\n"):
                return True
            # "199 lb. So at": behind a unit a capital begins a sentence; behind "Dr." a name.
            return canonical(before) is not None and self._written[end + 1 : end + 2].isupper()
        return at - line > 4 or not text[max(line, at - 4) : at].strip().isdigit()

    # -- markers -----------------------------------------------------------------------------

    def _markers(self) -> list[_Marker]:
        roles = _marking(self._spoken)
        runs = self._page.runs
        places = set(runs.places({*(roles.keys() & runs.words), ""}))
        if self._own_names:
            places |= set(runs.places(self._own_names & runs.words))
        found: list[_Marker] = []
        self._antecedent: Whose = "unsaid"
        taken = -1
        for place in sorted(places):
            match = _WORD.match(self._text, place)
            if match is None or place < taken:
                continue
            word = match[0]
            role = "named" if word in self._own_names else roles.get(word, "")
            marker = self._marker(role, word, match.start(), match.end()) if role else None
            if marker is not None:
                found.append(marker)
                taken = marker.end
        found += (
            _Marker(m.start(), m.end(), "other" if m["other"] else "owner")
            for m in (() if self._text.isascii() else _unspaced().finditer(self._text))
        )
        found += self._full_names()
        found += self._things_and_people()
        found += self._ages()
        found += self._bounds()
        found += (
            _Marker(m.start(), m.end(), "nobody", "weak")
            for _, m in _phrases().matches(self._text, runs)
            if not self._in_brackets(m.start())
        )
        found.sort(key=operator.itemgetter(0, 1))
        return found

    def _marker(self, role: str, word: str, start: int, end: int) -> _Marker | None:
        match role:
            case "self":
                if word == "i" and self._is_variable(start, end):
                    return None
                if _LIKE_FIVE.match(self._text, start) and self._before(start) in ("like", "if"):
                    return None  # "explain it like I'm five"
                if word == "mine" and self._before(start) == "of":
                    return None  # "a friend of mine"
                if word == "yo" and self._text[max(0, start - 2) : start].strip()[-1:].isdigit():
                    return None  # "58 yo woman"
                return _Marker(start, end, "owner")
            case "foreign":
                following = self._following(end)
                if following and following[0] in _set("persons", "kin"):
                    return self._possessed(start, end, "other")
                return None
            case "own":
                return self._possessed(start, end, "owner")
            case "named":
                self._antecedent = "owner"
                return _Marker(start, end, "owner")
            case "served":
                return self._served(start, end)
            case "third" | "after" | "her":
                return self._pronoun(role, start, end)
            case "me":
                if self._before(start) in _set("object", "told"):
                    return None  # "tell me about", "give me a comparison"
                if _ME_MUCH.match(self._text, end) and self._joint(0, start) >= start - len("and "):
                    return _Marker(start, end, "owner")  # "Wife 51, me 54", "me: AST 23"
                return _Marker(start, end, "owner", "weak")
            case "him":
                if word == "them" and self._antecedent == "unsaid":
                    return None  # "swap them"
                if self._words_before(start)[:2] == ["to", "according"]:
                    return None  # who says it, not of whom
                return _Marker(start, end, self._third_person(), "weak")
            case "called" | "person" | "professional" | "unmarked":
                return self._person(role, start, end)
            case "title" | "given":
                return self._name(role, start, end)
            case "people":
                following = self._following(end)
                if following and following[0] in _set("persons", "speaking"):
                    return None
                return _Marker(start, end, "nobody")
            case _:
                return self._normal(word, start, end)

    def _is_variable(self, start: int, end: int) -> bool:
        """Whether "i" counts in a program and nobody speaks: "for i = 2", "Cells(i, 3)", "a[i]"."""
        if self._written[start] != "i":
            return False
        before = self._text[max(0, start - _ABBREVIATION) : start]
        if _COUNTS.match(self._text, end) is not None or _COUNTED.search(before) is not None:
            return True
        called = before[-1:] in ("(", "[") and before[-2:-1].isalnum()
        return called and self._text[end : end + 1] in (",", ")", "]")

    def _third_person(self) -> Whose:
        return "owner" if self._antecedent == "owner" else "other"

    def _pronoun(self, role: str, start: int, end: int) -> _Marker | None:
        if role == "after" and (self._antecedent == "unsaid" or self._is_of_things(start, end)):
            return None
        following = self._following(end)
        if following and following[0] in _set("persons", "speaking"):
            return None
        if role == "her" and not (following and self._is_noun(following[0], end)):
            return _Marker(start, end, self._third_person(), "weak")
        if role != "her" and (found := self._possessed(start, end, self._third_person())):
            return found
        return _Marker(start, end, self._third_person())

    def _is_of_things(self, start: int, end: int) -> bool:
        """Whether "they" are what is measured, named right before: "my sugars, they were 180"."""
        if _ARE_MUCH.match(self._text, end) is None:
            return False
        before = _WORD.findall(self._text, max(0, start - _NEAR), start)
        for word in reversed(before):
            if word in _set("third", "things"):
                return True
            if word in _persons():
                return False
        return False

    def _is_noun(self, word: str, end: int) -> bool:
        """Whether "her" has something of hers behind it."""
        return word not in _set("joints") and self._text[end : end + 1] == " " and len(word) > 2

    def _possessed(self, start: int, end: int, whose: Whose) -> _Marker | None:
        """A possessive: of a person it is that person, of a thing whose it is."""
        following = self._following(end)
        for place, word in enumerate(following):
            if self._quantity_at(word, end) and word not in _set("ages"):
                break  # "my patient age": the word is a part of the name
            if word in _set("persons", "professionals") and self._is_told(following[place + 1 :]):
                return None
            if word in _persons():
                rest = following[place + 1 :]
                if rest[:2] in (["and", "i"], ["and", "me"], ["und", "ich"], ["y", "yo"]):
                    return _Marker(start, end, "owner")
                if rest[:1] == ["in"] and "law" in rest[1:2]:
                    rest = rest[2:]
                if rest and rest[0] in _set("persons", "speaking"):
                    if word in _set("persons", "several"):
                        self._antecedent = "other"  # "My parents came. They have"
                    asked = _WONDERS.match(self._text, self._end_of(word, end))
                    return _Marker(start, asked.end(), "other", "weak") if asked else None
                self._antecedent = "other"
                strength: _Strength = (
                    "weak" if self._before(start) in _set("persons", "beside") else "strong"
                )
                return _Marker(start, self._end_of(word, end), "other", strength)
        return _Marker(start, end, whose)

    def _quantity_at(self, word: str, end: int) -> bool:
        """Whether a quantity's name begins within the next words: "my AST"."""
        place = self._text.find(word, end, end + _NEAR)
        at = bisect_left(self._starts, place)
        return at < len(self._starts) and self._starts[at] == place

    def _end_of(self, word: str, end: int) -> int:
        return self._text.find(word, end) + len(word)

    def _is_told(self, rest: Sequence[str]) -> bool:
        """Whether what follows those who measure and advise is not plainly about them."""
        return not (rest and (rest[0] == "s" or rest[0] in _set("persons", "measured")))

    def _served(self, start: int, end: int) -> _Marker | None:
        before = self._before(start)
        if before in _set("served", "indefinite"):
            return _Marker(start, end, "nobody", "weak")
        if any(map(_LABELLED.match, (self._written,), (end,))) or any(
            told.match(self._text, end) for told in (_reported(), _IN_BED, _NEXT_TO)
        ):
            return _Marker(start, end, "other")
        if self._text[end : end + 1] in ("_", "-") or self._text[start - 1 : start] in ("_", "-"):
            return None  # "user_id"
        self._antecedent = "owner"
        return _Marker(start, end, "owner")

    def _person(self, role: str, start: int, end: int) -> _Marker | None:
        """A person without a possessive right before: "Dad is 81", "a colleague", "the driver"."""
        following = self._following(end)
        if role == "professional":
            if self._is_told(following):
                return None
        elif following and (
            following[0] in _set("persons", "speaking") or following[0] in _set("persons", "owed")
        ):
            return None
        before = self._words_before(start)
        articled = any(word in ("a", "an", "the", "this", "that", "another") for word in before[:3])
        if articled and self._is_predicate(before):
            return None
        verb = next((each for each in following if each not in _set("persons", "adverbs")), "")
        told = verb in ("s", "turned", "turns") or verb in _set("third", "verbs")
        if role == "unmarked":  # "husbands labs", without an apostrophe
            told = bool(following) and (
                self._quantity_at(following[0], end) or following[0] in _set("persons", "tested")
            )
            role = "person"
        told = told or _BESIDE_NAME.match(self._text, end) is not None
        whom = not articled and role == "person" and before[:1] and before[0] in _FOR_WHOM
        if whom and _AGED.match(self._text, end):  # "ideas for kids aged 4 to 8"
            return _Marker(start, end, "nobody")
        # "Neighbor earns 9k", "sister's platelets 180", "Wife 51"
        if role != "called" and not articled and (before or not told):
            return None
        if role == "called" and before[:1] and before[0] in ("a", "an", "as", "single", "new"):
            return None
        self._antecedent = "other"
        weak = before[:1] and before[0] in _set("persons", "beside")
        return _Marker(start, end, "other", "weak" if weak else "strong")

    def _is_predicate(self, before: Sequence[str]) -> bool:
        """Whether it says what somebody is: "I am a father of two", "as a woman"."""
        for place, word in enumerate(before[:3]):
            if word in ("a", "an", "the"):
                return any(
                    w in ("am", "m", "im", "as", "i", "being", "was", "bin", "me", "you", "are")
                    for w in before[place + 1 : place + 2]
                )
        return False

    def _name(self, role: str, start: int, end: int) -> _Marker | None:
        if not self._written[start : start + 1].isupper():
            return None
        if role == "title":
            after = _TITLED.match(self._text, end)
            if after is None or not self._written[after.start(1)].isupper():
                return None
            end = after.end()
            if after[1] in self._own_names:
                self._antecedent = "owner"
                return _Marker(start, end, "owner")
        following = self._following(end)
        if following and following[0] in _set("persons", "speaking"):
            return None
        told = following[:1] and (following[0] in _set("names", "verbs") or following[0] == "s")
        aged = _BESIDE_NAME.match(self._text, end) is not None  # "Alice (42)", "Alice, 42"
        if not (told or aged or role == "title"):
            return None
        self._antecedent = "other"
        return _Marker(start, end, "other", "strong" if told or aged else "weak")

    def _normal(self, word: str, start: int, end: int) -> _Marker | None:
        """What holds for everybody: "Normal AST is", "the average income"."""
        if self._in_brackets(start):
            return None
        if word in _set("general", "with_article") and (
            self._before(start) in _set("general", "articles")
        ):
            return _Marker(start, end, "nobody", "weak")
        if word not in _set("general", "normal") or not self._named_between(end, end + _NEAR):
            return None
        following = self._following(end)
        if following:
            place = self._text.find(following[0], end)
            at = bisect_left(self._starts, place)
            named = at < len(self._starts) and self._starts[at] == place
            near = self._text[max(0, start - _NEAR) : start]
            opened = max(near.rfind(mark) for mark in ("\n", ". ", "! ", "? ", "; "))
            opens = not self._numbers_between(start - len(near) + max(opened, 0), start)
            if named and opens:
                return _Marker(start, end, "nobody", "weak")
        return None

    def _things_and_people(self) -> Iterator[_Marker]:
        """Who or what is asked about or does something: "how tall is X", "the turkey weighs"."""
        runs = self._page.runs
        yield from (
            _Marker(m.start(), m.end(), "nobody")
            for m in matches_at(_ANYBODY, self._text, runs.places(("what", "how")))
            if not self._in_name.meet(*m.span("noun"))
        )
        yield from (
            _Marker(m.start(), m.end(), "other")
            for m in matches_at(_NUMBERED, self._written, runs.places(_COUNTED_PEOPLE))
        )
        beds = list(_BED.finditer(self._text)) if "bed" in runs.words else []
        if len(beds) > 1:  # a round of a ward
            yield from (_Marker(m.start(), m.end(), "other") for m in beds)
        if "how" in runs.words:
            yield from (_Marker(m.start(), m.end(), "other") for m in _HOW.finditer(self._text))
        if "what" in runs.words:
            yield from (_Marker(m.start(), m.end(), "other") for m in _WHAT.finditer(self._text))
        verbs = runs.among(_THIRD_VERBS)
        for match in _THIRD_VERB.finditer(self._text) if verbs else ():
            noun = match["noun"]
            if noun not in _set("served", "nouns") and noun not in ("scale", "scales"):
                known = match["article"] in ("the", "this", "that", "our", "my")
                yield _Marker(match.start(), match.end(), "other" if known else "nobody")

    def _full_names(self) -> Iterator[_Marker]:
        """Two words in capitals of which something is told as of a person: "Usain Bolt ran"."""
        for match in _FULL_NAME.finditer(self._written):
            start, end = match.span("name")
            told = match["verb"] is not None or match["did"] in _set("names", "doing")
            # "LeBron James is 39", but not "The Weight is 83" or "Today Weight is 83".
            said = match["did"] in ("is", "was") and _IS_MUCH.match(self._text, match.end())
            opener = self._text[start:end].split()[0]
            plain = opener in _set("names", "no_names") or opener in _set("general", "articles")
            told = told or (bool(said) and not plain)
            at = bisect_left(self._starts, start)
            quantity = at < len(self._starts) and self._starts[at] < end
            words = self._text[start:end].split()
            if told and not quantity and self._own_names.isdisjoint(words):
                yield _Marker(start, end, "other")
        if "'s " not in self._written and _ENDED.isdisjoint(self._page.runs.words):
            return
        for match in _ONE_NAME.finditer(self._written):
            start, end = match.span("name")
            word = self._text[start:end]
            if (
                self._in_name.meet(start, end)
                or word in self._own_names
                or word in _set("names", "no_names")
            ):
                continue
            of = match.end() + 1
            at = bisect_left(self._starts, of)
            has = at < len(self._starts) and self._starts[at] - of <= len("fasting ")
            if match["did"] or has:
                yield _Marker(start, end, "other")

    def _ages(self) -> Iterator[_Marker]:
        """Anybody ("a 10 year old"), or somebody else ("the 45-year-old driver")."""
        if _set("ages").isdisjoint(self._page.runs.words):
            return
        for match in _AGE.finditer(self._text):
            if self._text.startswith(" like me", match.end()):
                continue
            before = self._text[max(0, match.start() - 16) : match.start()]
            if not (_OWNER_COPULA.search(before[-8:]) or _SERVED_COPULA.search(before)):
                subject: Whose = "other" if match["article"] == "the" else "nobody"
                yield _Marker(match.start(), match.end(), subject)

    def _bounds(self) -> Iterator[_Marker]:
        """A bound, not a finding: "an ALT above 56"."""
        if _set("general", "bounds").isdisjoint(self._page.runs.words) and not self._signed:
            return
        for match in _BOUNDED.finditer(self._text):
            if key_of(match[1]) in _formula_keys() and match[2] in _set("general", "bounds"):
                yield _Marker(match.start(), match.end(), "nobody", "weak")
        for name in self._quantities:
            if self._before(name.start) not in ("a", "an", "un", "une", "una", "ein", "eine", "um"):
                continue
            following = self._text[name.end : name.end + 12].split()
            if following and following[0] in _set("general", "bounds"):
                yield _Marker(name.start, name.end, "nobody", "weak")

    def _in_brackets(self, place: int) -> bool:
        if not self._has_brackets:
            return False
        before = self._text[max(0, place - _NEAR) : place]
        return before.rfind("(") > before.rfind(")")

    def _numbers_between(self, start: int, end: int) -> bool:
        return bisect_left(self._numbers, start) < bisect_left(self._numbers, end)

    def _following(self, end: int) -> list[str]:
        """The next few words of the same sentence."""
        text = self._text[end : end + _NEAR]
        if "(" in text:
            text = _ASIDE.sub(r"\1", text)  # "my boss (61) makes"
        stop = _PHRASE_END.search(text)
        return _WORD.findall(text, 0, stop.start() if stop else len(text))[:4]

    def _before(self, start: int) -> str:
        match = _LAST_WORD.match(self._text[max(0, start - _NEAR) : start][::-1])
        return "" if match is None else match[1][::-1]

    def _words_before(self, start: int) -> list[str]:
        """The words before a place on its line, the nearest first."""
        text = self._text[max(0, start - _NEAR) : start]
        return _WORD.findall(_MARKS.split(text)[-1])[::-1][:4]

    # -- clauses -----------------------------------------------------------------------------

    def clauses(self) -> Iterator[Clause]:
        """The clauses, in order and without gaps."""
        markers, names = self._markers(), self._starts
        asks = "?" in self._text or "？" in self._text
        headed = "#" in self._text
        at = named = 0
        last: Whose = "unsaid"
        heading: Whose = "other" if _CASE.match(self._text) else "unsaid"
        for start, end in self._sentences():
            first, unnamed = at, named
            while at < len(markers) and markers[at].start < end:
                at += 1
            while named < len(names) and names[named] < end:
                named += 1
            text = self._text[start:end]
            body = text.strip()
            if first == at and body and last != "other" and not asks and named == unnamed:
                # As mostly: nobody is spoken of, and nothing is asked.
                last = last if self._text[start - 1 : start] == ";" else heading
                yield Clause(start, end, last, False)
                if body[-1] == ":" or (headed and _HEADING.match(text)):
                    heading = last
                continue
            asked = (asks or named > unnamed) and self._addressed(start, end)
            parts = [(start, end, _UNSAID)]
            if first < at:
                said = [m for m in markers[first:at] if not self._follows_finding(start, m)]
                parts = list(self._parts(start, end, said)) if said else parts
            if not body:
                if text == "\n" and self._text[start - 2 : start - 1] != ":":
                    heading = "unsaid"
            elif len(parts) == 1 and parts[0][2] == "unsaid":
                joined = self._text[start - 1 : start] == ";"
                subject: Whose = last if joined else heading
                opener = _WORD.search(body) if last == "other" else None
                if opener is not None and opener[0] in _set("third", "verbs"):
                    subject = "other"
                parts = [(start, end, subject)]
            if last == "other" and _HEARSAY.match(text):
                parts = [(start, end, "other")]  # "What did she weigh? I read 76 kg."
            for begin, finish, subject in parts:
                yield Clause(begin, finish, subject, asked)
                last = subject if body else last
            if body.endswith(":") or (headed and _HEADING.match(text)):
                heading = parts[-1][2]

    def _follows_finding(self, start: int, marker: _Marker) -> bool:
        """Whether a general word only judges what was found: "AST 23, normal range 10-40"."""
        if marker.subject != "nobody":
            return False
        said = self._text[marker.start : marker.end]
        inside = _AGE.fullmatch(said) and self._before(marker.start) == "in"  # "in a 60 year old"
        if said in _IN_GENERAL or inside:
            return False
        asked = _IS_IT.match(self._text, start) is not None  # "Is 23 a normal AST?"
        named = asked or self._named_between(start, marker.start)
        return named and self._found_between(start, marker.start)

    def _found_between(self, start: int, end: int) -> bool:
        """Whether a number that is no year stands there."""
        low, high = bisect_left(self._numbers, start), bisect_left(self._numbers, end)
        return any(
            not _YEAR.fullmatch(self._text, number, self._number_ends[low + place])
            for place, number in enumerate(self._numbers[low : min(high, low + _LOOKED_AT)])
        )

    def _parts(
        self, start: int, end: int, markers: Sequence[_Marker]
    ) -> Iterator[tuple[int, int, Whose]]:
        """A sentence cut where a new subject begins."""
        strong = [marker for marker in markers if marker.strength == "strong"]
        if not strong:
            yield start, end, self._weak(markers)
            return
        begin = start
        first = self._joint(start, strong[0].start)
        subject = strong[0].subject
        if first > start and self._stands_alone(start, first):
            yield start, first, self._weak([m for m in markers if m.start < first])
            begin = first
        for marker in strong[1:]:
            if marker.subject != subject:
                cut = max(self._joint(begin, marker.start), begin)
                if cut > begin:
                    yield begin, cut, subject
                begin, subject = cut, marker.subject
        yield begin, end, subject

    def _weak(self, markers: Sequence[_Marker]) -> Whose:
        said = {marker.subject for marker in markers}
        order: tuple[Whose, ...] = ("other", "owner", "nobody")
        return next((whose for whose in order if whose in said), "unsaid")

    def _stands_alone(self, start: int, end: int) -> bool:
        """Whether what comes before the first subject is a clause of its own with a number."""
        opener = _WORD.search(self._text, start, end)
        led = opener is not None and opener[0] in _set("openings")
        return self._numbers_between(start, end) and not led

    def _joint(self, start: int, place: int) -> int:
        """Where the clause of a subject at a place begins: at the comma or conjunction before."""
        last = bisect_left(self._number_ends, place) - 1
        low = max(start, self._number_ends[last] if last >= 0 else start, place - _NEAR)
        between = self._text[low:place]
        comma = max(between.rfind(mark) for mark in (",", "–", "—", " - ", ":", "("))
        if comma >= 0:
            return low + comma + 1
        words = list(_WORD.finditer(between))
        for word in reversed(words):
            if word[0] in _set("joints"):
                return low + word.start()
        return place

    # -- questions ---------------------------------------------------------------------------

    def _addressed(self, start: int, end: int) -> bool:
        """Whether a sentence asks the other side for values."""
        question = self._text[max(start, end - 8) : end].rstrip().endswith(("?", "？"))
        named = self._named_between(start, end)
        if not (question or named) or self._numbers_between(start, end):
            return False
        text = self._text[start : min(end, start + _QUESTION)]
        words = _WORD.findall(text)
        you = any(word in _set("asking", "you") for word in words)
        asks = any(word in _set("asking", "request") for word in words)
        please = any(word in _set("asking", "please") for word in words)
        if question and named and (you or asks):
            return True
        if question and not named and "yours" in words:
            return True  # "And yours, for comparison?"
        asked = _ASKED.match(text) if question and you else None
        if asked is not None and (asked["verb"] or "").strip() not in _set("asking", "opinion"):
            return True
        if named and (asks or please) and (you or please or question):
            return True
        if question and you and not named and self._elliptic(start, end):
            return True  # "And how about you?"
        return (question or please) and named and self._elliptic(start, end)

    def _named_between(self, start: int, end: int) -> bool:
        return bisect_left(self._starts, start) < bisect_left(self._starts, end)

    def _elliptic(self, start: int, end: int) -> bool:
        """A question without a verb: nothing but quantities and small words."""
        at = bisect_left(self._starts, start)
        reached = start
        rest = []
        while at < len(self._starts) and self._starts[at] < end:
            rest.append(self._text[reached : self._starts[at]])
            reached = self._quantities[at].end
            at += 1
        rest.append(self._text[reached:end])
        small = _elliptic_words()
        return all(word in small for part in rest for word in _WORD.findall(part))
