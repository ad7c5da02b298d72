"""Of whom a fact is said that stands in a sentence, and whether it is only spoken of.

A statement without a number is short, and its subject stands before it: "my doctor says that I
have", "a man who smokes", or nothing at all, as in notes ("never smoked, walks daily"). So the last
person named before a fact in its sentence has it; `subjects` decides by whole clauses, as numbers
need it.
A fact is only spoken of where it is the subject itself ("smoking is banned"), part of another word
("the stroke ward") or what a text or a lesson is about. The lists are in `answers.toml`.
"""

import functools
import re
from typing import Final, Literal

from rootguard.language.lists import whole
from rootguard.reading.stretches import Stretches, listed, word_list, words_in
from rootguard.reading.subjects import anybody, kin, people

_NEAR: Final = 120  # characters before a fact in which whoever has it is named
_PIECES: Final = re.compile(r"[^\W_]+(?:['’/-][^\W_]+)*")
_GENERAL: Final = anybody() - {"someone", "somebody", "anyone", "anybody", "everyone", "everybody"}
_OWNER_IS: Final = re.compile(  # "I'm a tall bus driver", "as a mother"
    r"(?<![^\W_])(?:i am|i['’]m|im|i was|are you|being|as|ich bin|als|je suis|soy|como"
    r"|sono|come|sou)"
    r"(?: (?:not |also |just |still )?(?:an?|the|one|ein|eine|un|une|una|um|uma|someone|somebody)"
    r"(?: [^\W\d_]+(?:-[^\W\d_]+)*){0,4})?"
    r"(?: (?:someone|somebody|one))? \Z"
)
_WITH_ME: Final = whole(
    r"(?:me|myself) included|including (?:me|myself)|(?:me|myself) too"
    r"|also me"
)
_ARTICLE: Final = re.compile(r"\W*(?:an?|the|any|every|each) ")
_THIRD: Final = re.compile(r" [a-z]{3,}(?<!s)s(?![^\W_])")
# Where the words of a list stand beside a fact.
_THING: Final = r"\W*(?:(?:but|and|so|also|now) )?(?:there (?:was|is|are|were|['’]s)|{} [^\W\d_]+ )"
_MINE: Final = r"(?<![^\W_]){}(?: own| old)? \Z"
_PREDICATES: Final = r"[ ]{}(?![^\W_])"
_SPOKEN_BEHIND: Final = r"[ -]{}(?![^\W_])"
_SENSES: Final = r"[ -](?:the |some |a )?{}(?![^\W_])"
_SPOKEN_OF: Final = r"(?<![^\W_]){}(?: an?| the)? \Z"
_WORKS: Final = (  # what a text, a lesson or a study is about: "an article on teenage smoking"
    r"(?<![^\W_]){}(?: [^\W_]+){0,2}? (?:about|on|of|over|covers?|uber|sur|sobre|su)"
    r"(?: [^\W_]+){0,2}? \Z"
)
_MY_WORKS: Final = r"(?<![^\W_])(?:my|our) {}(?![^\W_])"


@functools.cache
def _saying() -> frozenset[str]:
    lists = ("verbs", "no", "unsure", "own", "ours", "found", "telling", "elliptic", "judging")
    replies = {"y", "n", "yes", "true", "false", "ja", "nein", "oui", "si", "sim"}
    return frozenset(replies).union(*map(word_list, lists)) - word_list("joins_nouns")


@functools.cache
def _speakers() -> frozenset[str]:
    """Words by which the owner is a sentence's subject."""
    objects = {"me", "my", "myself", "mein", "meine", "mon", "ma", "mi", "mio", "mia", "am", "ho"}
    return (word_list("own") - objects - {"io"}) | {"i'd", "i'll", "we", "wir", "nous"}


Has = Literal["owner", "other", ""]


class Speaking:
    """Who has what in the sentences of a plain text."""

    __slots__ = ("_stretches", "_text")

    def __init__(self, text: str, stretches: Stretches) -> None:
        self._text = text
        self._stretches = stretches

    def whose(self, at: int, *, family: bool = True) -> Has:
        """Who is named last before a place in its sentence; nothing if nobody is.

        Without `family`, relatives do not count: of some facts they are a part.
        """
        first, last = self._stretches.sentence(at)
        if _WITH_ME.search(self._text, at, last):  # "everybody here smokes, me included"
            return "owner"
        return self._last(max(first, at - _NEAR), at, kin() if family else frozenset())

    def told_before(self, at: int) -> Has:
        """The same of the sentence before, of which one without a subject goes on."""
        first, _ = self._stretches.sentence(at)
        text = self._text
        if first < 2 or text[first - 1] == "\n" or text[first - 2 : first].count("\n"):
            return ""
        start, end = self._stretches.sentence(max(0, first - 2))
        return self._last(max(start, end - _NEAR), end, kin())

    def _last(self, start: int, end: int, family: frozenset[str]) -> Has:
        text = self._text
        words = [(m[0].replace("’", "'"), m.start()) for m in _PIECES.finditer(text, start, end)]
        for place in range(len(words) - 1, -1, -1):
            word, at = words[place]
            if word in _speakers() or word == "me":
                return "owner"
            if word in word_list("relative"):
                spoken = place > 0 and words[place - 1][0] in _speakers()  # "can I, who smoke"
                return "owner" if spoken or _OWNER_IS.search(text, start, at) else "other"
            if word in word_list("third_person") and family:
                return "other"
            if word in _GENERAL and (family or word not in kin()):
                return "owner" if _OWNER_IS.search(text, start, at) else "other"
            if word.removesuffix("'s") in family | people():
                named = [each for each, _ in words[max(0, place - 3) : place]]
                if not word_list("determiners").isdisjoint(named) or word.endswith("'s"):
                    return "owner" if _OWNER_IS.search(text, start, at) else "other"
        return ""

    def others_in(self, start: int, end: int) -> bool:
        """Whether anybody else is named between two places."""
        words = {word.removesuffix("'s") for word in words_in(self._text, start, end)}
        return not words.isdisjoint(word_list("third_person") | kin() | people())

    def spoken_of(self, start: int, end: int, *, mine: bool) -> bool:
        """Whether it is a subject and no fact: "risk of diabetes", "a smoking ban"."""
        text = self._text
        before = max(0, start - _NEAR)
        if listed(_SENSES, "senses").match(text, end) is not None:
            return True
        if listed(_SPOKEN_OF, "spoken_of").search(text, before, start):
            return not self.found(start)
        if self.worked_on(start):
            return True
        return not mine and listed(_SPOKEN_BEHIND, "spoken_behind").match(text, end) is not None

    def says(self, start: int, end: int) -> bool:
        """Whether a sentence says anything of a fact: "diabetes diet" is only looked for."""
        first, last = self._stretches.sentence(start)
        if self._stretches.mark(start) == ".":
            return True
        words = [*words_in(self._text, first, start), *words_in(self._text, end, last)]
        return any(word[0].isdigit() for word in words) or not _saying().isdisjoint(words)

    def of_things(self, at: int) -> bool:
        """Whether a thing is the subject of a sentence before a fact: "the chimney smokes"."""
        first, _ = self._stretches.sentence(at)
        thing = listed(_THING, "articles").match(self._text, first, at)
        return thing is not None and not self.found(at)

    def worked_on(self, at: int) -> bool:
        """Whether a place stands in what a text or a lesson is about."""
        return listed(_WORKS, "works").search(self._text, max(0, at - _NEAR), at) is not None

    def found(self, at: int) -> bool:
        """Whether a sentence says what a doctor or a test found: "the test for X was negative"."""
        words = set(words_in(self._text, *self._stretches.sentence(at)))
        return not word_list("found").isdisjoint(words) and self._stretches.mark(at) != "?"

    def general(self, start: int, end: int, *, composed: bool = False) -> bool:
        """Whether the fact is its sentence's own subject: "smoking is banned in my country".

        What two words name together needs their owner nowhere: "my heart is fine".
        """
        text = self._text
        first, last = self._stretches.sentence(start)
        told = _ARTICLE.fullmatch(text, first, start) and _THIRD.match(
            text, end
        )  # "a smoker coughs"
        if not (told or listed(_PREDICATES, "predicates").match(text, end)) or self.whose(start):
            return False
        mine = listed(_MINE, "possessives").search(text, first, start)
        if mine or word_list("finders") & {*words_in(text, first, start)}:
            return False  # "my diabetes is in remission"
        behind = {*words_in(text, end, last)}
        if not behind.isdisjoint(word_list("own") | word_list("found") | word_list("ours")):
            return False
        before = text[first:start]
        if composed:
            before = listed(_MY_WORKS, "works").sub(" ", before)
        telling = word_list("no") | (word_list("own") | word_list("ours") if composed else set())
        return telling.isdisjoint(words_in(before, 0, len(before)))
