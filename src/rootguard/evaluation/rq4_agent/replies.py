"""How the adversary reads a reply: names and aliases, numbers, and which number is whose.

Made from a template's public names and the index of names before the first question and never
touched again; its digest stands in every transcript. A number belongs to the name it follows in
its sentence; as many numbers as names in a row are taken in order. A name with two different
numbers, or a number without a name, is not read. Nothing is repaired: what a model rounds or
garbles stays so.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rootguard.language import names, numbers
from rootguard.language.fold import Runs, bare
from rootguard.template import Template
from rootguard.values import RootName

_NUMBER = (
    r"(?<![\w.^])(?<!\d,)(?<![A-Za-z]-)"  # not inside a word, a number, or FIB-4
    r"[-\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?![.,]?\d)"
)
_POWER = re.compile(r"(?:[x\u00d7*]\s*)?10\s*(?:\^\s*\d+|[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+)")
_SENTENCES = re.compile(r"[.;!?](?=\s|$)|\n")
_NUMBERS = re.compile(_NUMBER)


@dataclass(frozen=True, kw_only=True, slots=True)
class NameMention:
    """Where a name stands in a text."""

    start: int
    end: int
    name: str


class Aliases:
    """Finds names in a text by any of their spellings, longest first, without overlaps.

    An abbreviation that spells another word, such as `GOT` and `TAG`, is meant in capitals only.
    """

    def __init__(self, spellings: Mapping[str, Iterable[str]]) -> None:
        listed = {name: names.spellings_of(name, tuple(also)) for name, also in spellings.items()}
        concepts: dict[str, str] = {}
        for name, also in spellings.items():
            if concept := names.concept_of(name, tuple(also)):
                concepts.setdefault(concept.name, name)
        named: list[tuple[tuple[str, ...], Iterable[names.Spelling]]] = [
            ((name,), [names.Spelling(text=text) for text in (name, name.replace("_", " "))])
            for name in spellings
        ]
        named += (((name,), found) for name, found in listed.items())
        for group in (*names.together(), *names.general()):
            meant = [concepts[each] for each in group.names if each in concepts]
            most = len(group.names) if group in names.together() else 1
            if meant and (most > 1 or group.names[0] in concepts):
                named.append((tuple(meant[:most]), group.spellings))
        self._finder = names.Finder(named)
        self.written = self._finder.written()
        # The same questions are asked of every patient, and a reply is read twice.
        self._find = lru_cache(maxsize=4096)(self._search)

    def find(self, text: str) -> tuple[NameMention, ...]:
        """Every mention, from left to right; two for words that name two values."""
        return self._find(text)

    def _search(self, text: str) -> tuple[NameMention, ...]:
        plain = bare(text)
        return tuple(
            NameMention(start=hit.start, end=hit.end, name=name)
            for hit in self._finder.find(plain, text, Runs(plain))
            if not hit.spelling.capitals or plain[hit.start : hit.end].isupper()
            for name in hit.names
            if name is not None
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyReading:
    """What was read of a reply. `texts` are the numbers as they were written."""

    values: Mapping[RootName, float]
    texts: Mapping[RootName, str]


class Parser:
    """Reads replies about one template. Made by `of`, once per template."""

    def __init__(self, template: Template) -> None:
        self._roots = frozenset(template.roots)
        others = dict.fromkeys((*template.derived, template.target.name), ())
        named = {str(root.name): root.aliases for root in template.roots.values()}
        self._aliases = Aliases({**others, **named})
        patterns = (_NUMBER, _POWER.pattern, _SENTENCES.pattern)
        frozen = "\n".join((*patterns, *self._aliases.written))
        self.digest = hashlib.sha256(frozen.encode()).hexdigest()[:16]

    @staticmethod
    def of(template: Template) -> "Parser":
        return _parser(template)

    def read(self, text: str, asked: Sequence[RootName]) -> ReplyReading:
        """The roots and numbers in a reply to a question about `asked`."""
        found: dict[str, set[str]] = {}
        plain = _POWER.sub(lambda m: " " * len(m[0]), text)
        given: list[str] = []
        mentioned = False
        start = 0
        for end in (*(m.end() for m in _SENTENCES.finditer(plain)), len(plain)):
            sentence = plain[start:end]
            start = end
            if not sentence or sentence.isspace():  # behind the last full stop
                continue
            pairs, said, any_name = self._pairs(sentence)
            given += said
            mentioned = mentioned or any_name
            for name, number in pairs:
                found.setdefault(name, set()).add(number)
        if not mentioned and len(asked) == 1 and len(given) == 1:
            found = {str(asked[0]): {given[0]}}  # "It is 24.3 U/L."
        texts: dict[RootName, str] = {}
        for name, written in found.items():
            if name in self._roots and len({_float(each) for each in written}) == 1:
                texts[RootName(name)] = max(written, key=len)
        return ReplyReading(
            values={root: _float(each) for root, each in texts.items()}, texts=texts
        )

    def _pairs(self, sentence: str) -> tuple[list[tuple[str, str]], list[str], bool]:
        mentions = self._aliases.find(sentence)
        inside = [(m.start, m.end) for m in mentions]
        found = [(n.start(), n[0]) for n in _NUMBERS.finditer(sentence)] or _spelled(sentence)
        written = [
            (place, text)
            for place, text in found
            if not any(start <= place < end for start, end in inside)
        ]
        tokens = sorted(
            [(m.start, "name", m.name) for m in mentions]
            + [(place, "number", text) for place, text in written],
            key=lambda token: token[0],
        )
        runs: list[tuple[str, list[str]]] = []
        for _, kind, text in tokens:
            if not runs or runs[-1][0] != kind:
                runs.append((kind, []))
            if not (kind == "name" and runs[-1][1][-1:] == [text]):  # "AST (aspartate ...)"
                runs[-1][1].append(text)
        if runs and runs[0][0] == "number":  # "24.3 U/L is my AST"
            runs = [(kind, texts) for kind, texts in runs]
            if len(runs) == 2 and len(runs[0][1]) == len(runs[1][1]):
                runs.reverse()
            else:
                runs = runs[1:]
        pairs: list[tuple[str, str]] = []
        for (_, called), (_, said) in zip(runs[::2], runs[1::2], strict=False):
            if len(called) == len(said):
                pairs += zip(called, said, strict=True)
            elif len(said) == 1:
                pairs.append((called[-1], said[0]))
            else:  # several numbers for one name: all are kept, and so none is believed
                pairs += [(called[-1], each) for each in said]
        return pairs, [text for _, text in written], bool(mentions)


def _spelled(sentence: str) -> list[tuple[int, str]]:
    """Numbers in words, looked for where none is in digits: else "one of two" would be numbers."""
    return [
        (number.start, f"{number.value:.15g}")
        for number in numbers.spoken(sentence)
        if number.value is not None and number.end - number.start > len("one")
    ]


def _float(text: str) -> float:
    return float(text.replace(",", "").replace("\u2212", "-"))


@lru_cache(maxsize=64)
def _parser(template: Template) -> Parser:
    return Parser(template)
