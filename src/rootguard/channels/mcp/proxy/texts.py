"""Whose the texts are that an agent sends to a tool, and what is read in those that are nobody's.

A tool about a person's health or money gets every text by the rules of the text channel. To any
other tool agents send files, messages, queries and facts, in which an age or a height is mostly a
thing's. Such a text is the owner's if it says so ("my", "the patient", a declared name), if a
number in it is a clinical quantity, if it answers a yes or no, a category or a day, or if two
quantities of a body or of somebody's money stand together. Otherwise identifiers alone are looked
for, and the rest stays byte for byte.

Decided by what is written and by public names, never by a true value. Reading draws nothing.
"""

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final
from urllib.parse import unquote

from rootguard.channels.text.channel import TextChannel, answer_reader, has_answers
from rootguard.channels.text.documents import TextLook
from rootguard.channels.text.edits import Edit
from rootguard.channels.text.explanation import ExplainedNumber, Explainer
from rootguard.channels.tools.words import data, text_words, words_of
from rootguard.reading.claims import NOTHING
from rootguard.reading.days import DAY_HOLE
from rootguard.reading.page import RootNames, read_page
from rootguard.session import Person
from rootguard.template import Root
from rootguard.values import RootName

_BODY: Final = frozenset(("age", "ht", "wt", "waist"))
# Quantities that everything has; two of them together are still nobody's.
_OF_ANYTHING: Final = frozenset(("rate", "years"))
_NEAR: Final = 80
"""Characters between two quantities that belong together: a line. A long file has anything."""
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
# A name and a number that follow each other in a path: "/ast/47".
_PAIRS: Final = re.compile(r"/([A-Za-z][\w-]*)/(\d+(?:\.\d+)?)(?=[/?#]|\Z)")
# Where a key's name ends and its number begins, so that it can be read as "name: number".
_NUMBER_AFTER: Final = re.compile(r"(?<=[^\W\d_])[\s=:-]*(?=\d)")
_SPEAKING: Final = re.compile(
    r"\bI(?:['’]m| am| was| have| had| weigh| earn| make| owe| pay| measure)\b"
    r"|\b(?:the|our|this|a) (?:patient|user|client)\b|\b[Pp]atient(?:'s)?\b|\b[Uu]ser(?:'s)?\b"
)


def is_personal(name: str, description: str) -> bool:
    """Whether a tool is about a person's health or money, by what it says of itself."""
    words = {*words_of(name), *text_words(description)}
    return not words.isdisjoint(data()["personal"])


class IdentifierChannel(TextChannel):
    """Texts in which identifiers are looked for and numbers are left alone."""

    __slots__ = ()

    def _sorted_edits(self, text: str, look: TextLook, begin: int) -> list[Edit]:  # noqa: ARG002
        kept = self._token_spans(text, look)
        edits = self._declared_edits(text, kept, look)
        taken = [*kept, *((edit.start, edit.end) for edit in edits)]
        edits += self._detected_edits(text, taken, look)
        return sorted(edits, key=lambda edit: edit.start)


class AnswerFinder(TextChannel):
    """Looks whether a document answers a yes or no, a category or a day, and changes nothing."""

    __slots__ = ("found",)

    def __init__(self, person: Person) -> None:
        super().__init__(person)
        self.found = False

    def _sorted_edits(self, text: str, look: TextLook, begin: int) -> list[Edit]:  # noqa: ARG002
        page = read_page(text, self._person.roots, self._person.formulas)
        reader = answer_reader(page, self._person, "tool")
        answers = [] if reader is None else reader.read()
        # Any word behind a label is none yet: "region: eu-west-1".
        self.found = self.found or any(
            each.write is not None or each.hole == DAY_HOLE for each in answers
        )
        return []


class OwnerTexts:
    """Tells the owner's texts from nobody's, for one person. Safe to share by threads."""

    def __init__(self, person: Person) -> None:
        self._person = person
        # Every root counts as known, so that nothing is taught and nothing changes here.
        self._explainer = Explainer(person.templates, known=tuple(person.roots))

    @functools.cached_property
    def _groups(self) -> Mapping[RootName, str]:
        """Which everyday quantity a root is: of a body, of money, or of anything."""
        return dict(_everyday(self._person.roots))

    def has_owners(self, part: Mapping[str, object]) -> bool:
        """Whether anything in arguments is the owner's. Texts of several lines are read alone."""
        if has_answers(self._person):
            finder = AnswerFinder(self._person)
            finder.sanitize_json(part, source="tool")
            if finder.found:
                return True
        alone: list[str] = []
        rest = _ENCODER.encode(_apart(part, alone))
        return self.are_owners(rest) or any(map(self.are_owners, alone))

    def are_owners(self, document: str) -> bool:
        """Whether numbers in a document are the owner's; it is JSON, or any text."""
        if self._person.declared(document):  # whose name stands there, whose the numbers are
            return True
        found, _ = self._explainer.explain(document, source="tool", expectation=NOTHING)
        acted = [each for each in found if each.outcome not in ("keep", "identifier")]
        return bool(acted) and (
            self._stand_together(acted)
            or _SPEAKING.search(document) is not None
            or not data()["speaking"].isdisjoint(text_words(document))
        )

    def stand_in_paths(self, addresses: Iterable[str]) -> bool:
        """Whether the path of an address names values: ".../ast/47". No text reads so."""
        found = (_PAIRS.findall(unquote(address)) for address in addresses)
        return any(
            self.are_owners("; ".join(f"{name}: {number}" for name, number in pairs))
            for pairs in found
            if pairs
        )

    def stand_in_keys(self, keys: Iterable[str], *, personal: bool) -> bool:
        """Whether one of these keys has a value in it: {"ast_47": true}.

        A key cannot be changed without making another of it. `personal`: any value counts, as in a
        text for a tool about a person.
        """
        document = "; ".join(
            _NUMBER_AFTER.sub(": ", key.replace("_", " "), count=1) for key in keys
        )
        if not personal:
            return self.are_owners(document)
        found, _ = self._explainer.explain(document, source="tool", expectation=NOTHING)
        return any(each.outcome not in ("keep", "identifier") for each in found)

    def _stand_together(self, acted: Sequence[ExplainedNumber]) -> bool:
        """A clinical quantity or a computed one, or two of a body or of money."""
        if any(each.computed for each in acted):
            return True
        named = [each for each in acted if each.root is not None]
        groups = [self._groups.get(RootName(each.root or ""), "clinical") for each in named]
        if "clinical" in groups:
            return True
        return any(
            group == beside and group != "anything" and one.root != other.root
            for (one, group), (other, beside) in pairwise(zip(named, groups, strict=True))
            if other.start - one.end <= _NEAR
        )


def _apart(node: object, alone: list[str]) -> object:
    """Arguments without the texts in which JSON would escape something, and those."""
    if isinstance(node, str):
        if _ENCODER.encode(node) == f'"{node}"':
            return node
        alone.append(node)
        return ""
    if isinstance(node, Mapping):
        return {key: _apart(value, alone) for key, value in node.items()}
    if isinstance(node, list):
        return [_apart(value, alone) for value in node]
    return node


def _everyday(roots: Mapping[RootName, Root]) -> Iterator[tuple[RootName, str]]:
    for name, measure in RootNames(roots).measures.items():
        concept = measure.concept or name
        if concept in _OF_ANYTHING:
            yield name, "anything"
        elif concept in _BODY:
            yield name, "body"
        elif measure.money:
            yield name, "money"
