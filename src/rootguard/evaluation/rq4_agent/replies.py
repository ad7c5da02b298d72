"""How the adversary reads a reply: names and aliases, numbers, and which number is whose.

Made from a template's public names before the first question and never touched again; its digest
stands in every transcript. A number belongs to the name it follows in its sentence; as many numbers
as names in a row are taken in order. A name with two different numbers, or a number without a
name, is not read. Nothing is repaired: what a model rounds or garbles stays so.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
class Mention:
    """Where a name stands in a text."""

    start: int
    end: int
    name: str


class Aliases:
    """Finds names in a text by any of their spellings, longest first, without overlaps.

    A spelling in capitals is meant in capitals only, since `GOT` and `TAG` are words as well; the
    name itself may be spelled in any case.
    """

    def __init__(self, spellings: Mapping[str, Iterable[str]]) -> None:
        known: dict[str, str] = {}
        for name, texts in spellings.items():
            for text in (name, name.replace("_", " "), *texts):
                known.setdefault(text, name)
        ordered = sorted(known, key=lambda text: (-len(text), text))
        self._names = [known[text] for text in ordered]
        parts = (f"({_spelled(text, exact=text.isupper())})" for text in ordered)
        self.pattern = rf"(?<![A-Za-z0-9])(?:{'|'.join(parts)})(?![A-Za-z0-9])"
        self._regex = re.compile(self.pattern, re.IGNORECASE)

    def find(self, text: str) -> list[Mention]:
        """Every mention, from left to right."""
        return [
            Mention(start=m.start(), end=m.end(), name=self._names[(m.lastindex or 1) - 1])
            for m in self._regex.finditer(text)
        ]


def _spelled(text: str, *, exact: bool) -> str:
    words = r"[\s\-_]+".join(re.escape(word) for word in re.split(r"[\s\-_]+", text))
    return f"(?-i:{words})" if exact else f"{words}s?"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
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
        frozen = "\n".join((_NUMBER, _POWER.pattern, _SENTENCES.pattern, self._aliases.pattern))
        self.digest = hashlib.sha256(frozen.encode()).hexdigest()[:16]

    @staticmethod
    def of(template: Template) -> "Parser":
        """The template's parser."""
        return _parser(template)

    def read(self, text: str, asked: Sequence[RootName]) -> Reading:
        """The roots and numbers in a reply to a question about `asked`."""
        found: dict[str, set[str]] = {}
        plain = _POWER.sub(lambda m: " " * len(m[0]), text)
        numbers: list[str] = []
        mentioned = False
        start = 0
        for end in (*(m.end() for m in _SENTENCES.finditer(plain)), len(plain)):
            sentence = plain[start:end]
            start = end
            pairs, said, names = self._pairs(sentence)
            numbers += said
            mentioned = mentioned or names
            for name, number in pairs:
                found.setdefault(name, set()).add(number)
        if not mentioned and len(asked) == 1 and len(numbers) == 1:
            found = {str(asked[0]): {numbers[0]}}  # "It is 24.3 U/L."
        texts: dict[RootName, str] = {}
        for name, written in found.items():
            if name in self._roots and len({_float(each) for each in written}) == 1:
                texts[RootName(name)] = max(written, key=len)
        return Reading(values={root: _float(each) for root, each in texts.items()}, texts=texts)

    def _pairs(self, sentence: str) -> tuple[list[tuple[str, str]], list[str], bool]:
        mentions = self._aliases.find(sentence)
        inside = [(m.start, m.end) for m in mentions]
        numbers = [
            n for n in _NUMBERS.finditer(sentence)
            if not any(start <= n.start() < end for start, end in inside)
        ]  # fmt: skip
        tokens = sorted(
            [(m.start, "name", m.name) for m in mentions]
            + [(n.start(), "number", n[0]) for n in numbers]
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
        for (_, names), (_, said) in zip(runs[::2], runs[1::2], strict=False):
            if len(names) == len(said):
                pairs += zip(names, said, strict=True)
            elif len(said) == 1:
                pairs.append((names[-1], said[0]))
            else:  # several numbers for one name: all are kept, and so none is believed
                pairs += [(names[-1], each) for each in said]
        return pairs, [n[0] for n in numbers], bool(mentions)


def _float(text: str) -> float:
    return float(text.replace(",", "").replace("\u2212", "-"))


@lru_cache(maxsize=64)
def _parser(template: Template) -> Parser:
    return Parser(template)
