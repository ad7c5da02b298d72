"""The text channel: what a person writes, made fit to leave, and what comes back, restored.

Tokens that were issued before are left alone. Then, in this order: identifiers of the profile and
mentions of roots, identifiers that detectors find, numbers that belong to nothing. A root's number
becomes its released value in the unit and style of the place; an identifier becomes its token; an
identifier that cannot have one (too few look-alikes, or part of a longer word) becomes its kind in
brackets, "[code]", which is not restored. An unbound number is let through, becomes "[number]" or
blocks the text, by policy.

Only the owner's own words, and sources that the owner's policy trusts, teach a value: they give one
to a root that has none. In any other text the number of such a root becomes "[number]", and a root
that has a value gets it as everywhere.

Only replaced stretches change. What was sanitized is left as it is when it is sanitized again, and
is remembered, so that a chat that sends its earlier messages again costs little.
Not covered: what is said without a number or a name, and what the detectors miss.
"""

import hashlib
import json
import os
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Literal, cast

from rootguard.channels.detection import Detector, Found, Rules, merge
from rootguard.channels.detection.rules import find_dates
from rootguard.channels.text.arbiter import Arbitration
from rootguard.channels.text.documents import TextLook, Walk, parsed, rewritten
from rootguard.channels.text.edits import (
    Edit,
    JsonSanitization,
    Sanitization,
    changes,
    neighbourhoods,
)
from rootguard.channels.text.pieces import OVERLAP, window_at
from rootguard.errors import (
    AccessError,
    BudgetError,
    IdentifierError,
    RootGuardError,
    StoreError,
    TextBlockedError,
    shielded,
)
from rootguard.identifiers import Kind
from rootguard.identifiers.formats import SUFFIXES, TITLES
from rootguard.identifiers.registry import closes, opens
from rootguard.identifiers.streaming import StreamRestorer
from rootguard.language.fold import Runs, Spans, key_of
from rootguard.language.numbers import HOLE
from rootguard.reading.answers import Answer, AnswerReader
from rootguard.reading.claims import (
    NOTHING,
    SILENCE,
    Claim,
    Expectation,
    Heard,
    Source,
    TextReading,
    decide,
    read_claims,
)
from rootguard.reading.days import told_when
from rootguard.reading.facts import answer_words
from rootguard.reading.mentions import write
from rootguard.reading.ordinary import CodeLines
from rootguard.reading.page import Page, columns, read_page
from rootguard.reading.weighing import CAREFUL, USUAL, weigh
from rootguard.session.declared import PersonConversation
from rootguard.session.person import Person
from rootguard.template import Root, Template
from rootguard.values import RootName

MOST_CHARACTERS = 1_000_000
"""Of all texts that one channel keeps: a megabyte or two for each person whom a gateway serves."""
ENTRY = 500
"""What a text counts beside its characters: its hash, its counts and the values that it rests on.
A short one is kept as well: most turns of a chat are, and to recall one takes a tenth of the time
that it takes to read it."""
_LEAST_PARTED = 512
"""Characters of a text of which changes have neighbourhoods; a shorter one is read as a whole."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class MemoryEntry:
    """A sanitized text, how it came about, and what must still hold. Public."""

    text: str
    replaced: Mapping[str, int]
    mark: tuple[int, int]
    released: Mapping[RootName, float]
    missing: frozenset[RootName] = frozenset()
    heard: Heard = SILENCE
    written: Mapping[str, int] = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    finds: tuple[Edit, ...] = ()
    """In a conversation: the tokens of the profile, and those of finds where they stood."""


class Memory:
    """A bounded number of sanitized texts; the one that was not asked for longest goes first.

    An original is known by a keyed hash, under a key that lives as long as the channel. Kept are
    the sanitized text and what it rests on: how far the registry of issued tokens went, the
    released values, and which roots had none. Whoever recalls an entry checks these again, so that
    an old one is not used.
    """

    __slots__ = ("_entries", "_key", "_lock", "_size")

    def __init__(self) -> None:
        self._key = os.urandom(hashlib.blake2b.MAX_KEY_SIZE)
        self._entries: OrderedDict[bytes, MemoryEntry] = OrderedDict()
        self._size = 0
        # A gateway's worker threads share a channel; entries and their size change together.
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<memory of {len(self._entries)} texts>"

    def digest(
        self,
        context: str,
        text: str,
        *,
        source: Source = "owner",
        expectation: Expectation = NOTHING,
    ) -> bytes:
        """What an original is known by: with what it is read after, and who said it."""
        made = hashlib.blake2b(f"{len(context)} {source} ".encode(), key=self._key)
        expected = [getattr(expectation, each.name) for each in fields(expectation)]
        made.update(repr(expected).encode() + b"\0")  # `repr` writes every string's end
        made.update((context + text).encode("utf-8", "surrogatepass"))
        return made.digest()

    def recall(self, digest: bytes) -> MemoryEntry | None:
        """What was kept under a digest, if it still is."""
        with self._lock:
            entry = self._entries.get(digest)
            if entry is not None:
                self._entries.move_to_end(digest)  # the least lately used is forgotten first
            return entry

    def keep(self, digest: bytes, entry: MemoryEntry) -> None:
        """Keep an entry, and forget others while there are too many."""
        with self._lock:
            old = self._entries.pop(digest, None)
            self._size += _size_of(entry) - (0 if old is None else _size_of(old))
            self._entries[digest] = entry
            while self._size > MOST_CHARACTERS:
                _, dropped = self._entries.popitem(last=False)
                self._size -= _size_of(dropped)


def _size_of(entry: MemoryEntry) -> int:
    return len(entry.text) + ENTRY


NumberPolicy = Literal["pass", "redact", "block"]
OtherNumberPolicy = Literal["pass", "careful", "redact", "block"]
"""For numbers that nothing ties to the owner. `careful`: those whose words speak for the owner at
all are in doubt (`weighing.CAREFUL`), and the others pass."""
MAX_CHARACTERS = 1_000_000
"""Read at once: some 200,000 words, about a second. Longer texts are read in pieces: a reader holds
many times a text's size in memory, and detectors that others wrote take no more."""
# One look changes a text and the next finds nothing more. The others are for tokens that make a
# detector see what it did not see before; one that goes on for ever must not hold the request.
_ROUNDS = 8
_FEW_ROUNDS = 2
"""One that changes a text and one that finds nothing more; then no other text was looked at."""
_PROMPTS = frozenset(("date", "postcode", "address", "ip"))
_DESK = re.compile(  # addresses of nobody in particular
    r"(?:no-?reply|support|info|help|contact|sales|admin|hello|team|security|press|sender|user)@"
    r"|[^@]+@(?:[\w-]+\.)*example\.",
    re.IGNORECASE,
)
_ANSWERED = frozenset(("boolean", "category", "date"))
_TELLERS = frozenset(("owner", "trusted", "tool"))
"""Whose sentences may tell of the owner: a model and a prompt know released values alone."""
_SPELT_OUT = re.compile(r"[^\W\d_] [^\W\d_]|\+\d")  # two words of a name, a country's code
_LINK = re.compile(r"[a-z]{2,8}://[^\s<>\"')\]]{1,2000}", re.IGNORECASE)
_OF_PROGRAMS = frozenset(("person", "date", "postcode", "phone"))
_READ = frozenset(("range", "version", "time", "score", "share", "price", "dose", "arithmetic"))
_PHONE_NUMBER = re.compile(r"(?<![\w.])\(?\d{3}(?:\) ?|[-. ])\d{3}[-. ]\d{4}(?![\w.]*\d)")
_SCRAP = 3  # the "+1" before an issued token, and the like
_LETTERS = re.compile(r"[^\W\d_]+")
_FORMS = TITLES | SUFFIXES
_MOST_DECIMALS = 3  # of a computed value
_LEAST_CODE = 4  # a token of fewer characters would be met by chance in a reply, and restored there
_MANY_DIGITS = 6  # with fewer, an issued token may just as well be a value of a root
_PLACEHOLDER = re.compile(
    r"\[(?:number|code|phone|date|email|person|address|ip|postcode|age|answer)\]"
)


class TextChannel:
    """One person's texts on their way to a service and back. Safe to share by threads."""

    __slots__ = (
        *("_arbitration", "_detectors", "_elsewhere", "_memory", "_near_private", "_person"),
    )

    def __init__(
        self,
        person: Person,
        *,
        detectors: Sequence[Detector] = (),
        near_private: NumberPolicy = "block",
        elsewhere: OtherNumberPolicy = "pass",
        arbitration: Arbitration | None = None,
    ) -> None:
        self._person = person
        self._arbitration = arbitration
        self._detectors = tuple(detectors)
        self._near_private: NumberPolicy = near_private
        self._elsewhere: OtherNumberPolicy = elsewhere
        self._memory = Memory()

    def __repr__(self) -> str:
        return f"<TextChannel of {self._person!r}>"

    @shielded
    def sanitize(
        self,
        text: str,
        *,
        context: str = "",
        source: Source = "owner",
        expectation: Expectation = NOTHING,
        tokens: PersonConversation | None = None,
    ) -> Sanitization:
        """The text as it may leave; `context` is read before it and not written.

        `source` says who wrote it. In the owner's own words, or a trusted source's, a root without
        a value gets the one that stands here. Anybody else's text never teaches one. `expectation`
        is what the texts before it lead to expect (`reading.claims`). `tokens` are those of the
        conversation that it belongs to; without one, all that were ever issued for the person.
        Repeats until nothing changes: a token may make a detector see what it did not see before.
        Raises `TextBlockedError` if a number in it cannot be placed or if it does not come to rest,
        `BudgetError` or `AccessError` if a value may not be released, and `StoreError` if the store
        does not answer.
        """
        look = TextLook(source=source, expectation=expectation, tokens=tokens)
        return self.sanitize_text(text, context, look)

    def sanitize_text(self, text: str, context: str, look: TextLook) -> Sanitization:
        """The same for who is shielded, such as a walk through a document."""
        with self._person.one_look():
            document = parsed(text)
            if document is not None:
                return self._document(text, document, look)
            return self._recalled_or_read(text, context, look)

    @shielded
    def sanitize_json(
        self,
        value: object,
        *,
        source: Source = "owner",
        expectation: Expectation = NOTHING,
        tokens: PersonConversation | None = None,
    ) -> JsonSanitization:
        """A JSON value as it may leave: numbers by their keys, texts as texts."""
        look = TextLook(source=source, expectation=expectation, tokens=tokens)
        return Walk(self, look).sanitize(value)

    def for_request(self) -> "TextChannel":
        """The same channel for one request, whose questions to an arbiter are counted."""
        if self._arbitration is None:
            return self
        made = copy(self)
        made._arbitration = self._arbitration.request()
        return made

    def names_in(self, text: str) -> tuple[RootName, ...]:
        """The quantities that a text names, in order: of a call, what its result is about."""
        page = read_page(text, self._person.roots, self._person.formulas)
        named = [root for name in page.names if not name.subject for root in name.roots if root]
        return tuple(dict.fromkeys(named))

    def roots_of(self, formula: str) -> tuple[RootName, ...]:
        """The roots of a calculation that goes by this name, in order."""
        return dict(self._person.formulas).get(key_of(formula), ())

    def restore(self, text: str) -> str:
        """A reply with issued tokens put back. For the owner's eyes."""
        return self._person.restore(text)

    def restorer(self) -> StreamRestorer:
        """Restores a reply that arrives in pieces."""
        return self._person.restorer()

    def _document(self, text: str, document: object, look: TextLook) -> Sanitization:
        """A text that is JSON: values by their keys, and every other byte as it was."""
        made = Walk(self, look).sanitize(document)
        released: Counter[str] = Counter()
        for each in made.changes:
            if each.root is not None:
                released[each.root] += each.times
        return Sanitization(
            text=rewritten(text, document, made.value),
            replaced=made.replaced,
            missing=made.missing,
            heard=Heard(numbers=True),
            released=released,
        )

    def _recalled_or_read(self, text: str, context: str, first: TextLook) -> Sanitization:
        expectation = first.expectation
        if expectation.header:  # the rows of a table whose header came before
            context = f"{context}{expectation.header}\n"
        digest = self._memory.digest(context, text, source=first.source, expectation=expectation)
        known = self._memory.recall(digest)
        if known is not None and self._is_current(known, text, context, first.tokens):
            return Sanitization(
                text=known.text,
                replaced=dict(known.replaced),
                missing=known.missing,
                heard=known.heard,
                released=known.written,
            )
        looks = [first]
        outcome = self._sanitize_fully(text, context, looks)
        # What is computed, and what was so on another day, rests on more than an entry says.
        checked = outcome.released.keys() <= first.released.keys() and not first.earlier
        if len(looks) <= _FEW_ROUNDS and checked:
            entry = MemoryEntry(
                text=outcome.text,
                replaced=outcome.replaced,
                mark=looks[-1].mark,
                released=looks[-1].released,
                missing=outcome.missing,
                heard=outcome.heard,
                written=outcome.released,
                declared=first.declared,
                finds=first.finds,
            )
            if first.tokens is not None or self._has_no_token_since(first.mark, context + text):
                self._memory.keep(digest, entry)
        return outcome

    def _sanitize_fully(self, text: str, context: str, looks: list[TextLook]) -> Sanitization:
        """The text when nothing changes any more; `looks` has the first, and gets the others."""
        counts: Counter[str] = Counter()
        released: Counter[str] = Counter()
        looks[0].spared = set()  # a document's texts share their look
        for _ in range(_ROUNDS):
            try:
                edits = self.read(text, context, looks[-1])
            except TextBlockedError as blocked:
                if len(looks) > 1:  # the text is another one by now
                    blocked.start = blocked.end = None
                raise
            after = apply_edits(text, edits)
            changed = [edit for edit in edits if text[edit.start : edit.end] != edit.text]
            counts.update(edit.kind for edit in changed)
            released.update(edit.of for edit in changed if edit.of is not None)
            if after == text or self._is_stable(after, edits, context, looks):
                return Sanitization(
                    text=after,
                    replaced=dict(counts),
                    missing=frozenset(looks[0].missing),
                    heard=looks[0].heard or SILENCE,
                    released=dict(released),
                )
            text = after
            looks.append(looks[0].again())
        raise TextBlockedError("unsettled")

    def _is_stable(
        self, text: str, edits: Sequence[Edit], context: str, looks: list[TextLook]
    ) -> bool:
        """Whether nothing more would change, by a look around the changes only.

        If it cannot be said so the text is read again as a whole.
        """
        whole = context + text
        if not _LEAST_PARTED <= len(whole) <= MAX_CHARACTERS or columns(whole):
            return False  # it is short, or in pieces, or a table's header may be far away
        near = neighbourhoods(whole, changes(edits, len(context)))
        if near is None:
            return False
        look = looks[0].again()
        try:
            found = self._edits(near, look)
        except RootGuardError:
            return False
        if apply_edits(near, found) != near:
            return False
        looks.append(look)
        return True

    def _is_current(
        self, known: MemoryEntry, text: str, context: str, tokens: PersonConversation | None
    ) -> bool:
        """Whether sanitizing a text again would give the same: nothing it rests on has changed.

        The values are released once more, because what leaves is written down.
        """
        try:
            with self._person.one_look():
                return (
                    self._has_same_tokens(known, context + text, tokens)
                    and not any(map(self._person.known, known.missing))
                    and all(self._person.number(r) == value for r, value in known.released.items())
                )
        except RootGuardError:
            return False

    def _has_same_tokens(
        self, known: MemoryEntry, whole: str, tokens: PersonConversation | None
    ) -> bool:
        """Whether a text's identifiers have the tokens here that they had when it was read."""
        if tokens is None:
            return self._has_no_token_since(known.mark, whole, known.text)
        if tuple(found.text for found in tokens.declared(whole)) != known.declared:
            return False
        return all(
            self._token(edit.kind, whole, edit.start, edit.end, tokens) == edit.text
            for edit in known.finds
        )

    def _has_no_token_since(self, mark: tuple[int, int], *texts: str) -> bool:
        """Whether no token that was issued since a mark stands in any of these texts."""
        try:
            issued = self._person.issued_since(mark)
        except RootGuardError:
            return False
        return issued is not None and not any(token in text for token in issued for text in texts)

    def read(self, text: str, context: str, look: TextLook) -> list[Edit]:
        """What is to be written where, in order; `look` gets what was heard.

        For who is shielded: an error's frames have the text.
        """
        skip = len(context)
        with _block_other_refusals(skip):
            long = skip + len(text) > MAX_CHARACTERS
            if long:
                found = self._edits_by_pieces(context + text, look)
            else:
                found = self._edits(context + text, look, skip)
        if not skip:
            return found
        # What begins in the context is replaced as well: "mrn: 4415" may be one identifier.
        return [
            replace(edit, start=max(0, edit.start - skip), end=edit.end - skip)
            for edit in found
            if edit.end > skip
        ]

    def _edits_by_pieces(self, text: str, look: TextLook) -> list[Edit]:
        """The edits of a text that is too long to be read at once."""
        made: list[Edit] = []
        at, mark = 0, None
        while at < len(text):
            window = window_at(text, at, MAX_CHARACTERS, OVERLAP)
            try:
                found = self._edits(window.text, look)
            except TextBlockedError as blocked:
                if blocked.start is not None and blocked.end is not None:
                    blocked.start += window.shift
                    blocked.end += window.shift
                raise
            mark = mark or look.mark  # tokens of earlier pieces are new to the text, too
            for edit in found:
                start, end = edit.start + window.shift, edit.end + window.shift
                # One that reaches into what is written already is seen again in the next round.
                if start < window.end and end > at and start >= (made[-1].end if made else 0):
                    made.append(replace(edit, start=start, end=end))
            at = max(window.end, made[-1].end if made else 0)
        look.mark = mark or look.mark
        return made

    def sanitize_key(
        self, text: str, *, detect: bool, tokens: PersonConversation | None = None
    ) -> Sanitization:
        """A key of a JSON object: identifiers alone. For who is shielded, as `read`."""
        with _block_other_refusals():
            look = TextLook(source="model", tokens=tokens)
            kept = self._token_spans(text, look)
            edits = self._declared_edits(text, kept, look)
            if detect:
                taken = [*kept, *((edit.start, edit.end) for edit in edits)]
                edits += self._detected_edits(text, taken, look)
        edits.sort(key=lambda edit: edit.start)
        counts = Counter(edit.kind for edit in edits)
        return Sanitization(text=apply_edits(text, edits), replaced=counts)

    def _edits(self, text: str, look: TextLook, begin: int = 0) -> list[Edit]:
        with self._person.one_look():
            look.mark = self._person.issued_mark()
            return self._sorted_edits(text, look, begin)

    def _sorted_edits(self, text: str, look: TextLook, begin: int) -> list[Edit]:
        kept = self._token_spans(text, look)
        edits = self._declared_edits(text, kept, look)
        # A few digits may be a token and a root's value; behind a root's name they are the value.
        sure = [span for span in kept if not _has_few_digits(text[slice(*span)])]
        taken = [*sure, *((edit.start, edit.end) for edit in edits)]
        page = read_page(text, self._person.roots, self._person.formulas)
        doubts: list[Claim] = []
        read: list[tuple[int, int]] = []
        answered = self._answer_edits(page, look, taken)
        # Of what an answer's words have in them nothing is left to be replaced.
        over = Spans((edit.start, edit.end) for edit in answered)
        edits = [edit for edit in edits if not over.meet(edit.start, edit.end)] + answered
        taken = [*sure, *((edit.start, edit.end) for edit in edits)]
        asks = look.source == "model" and "?" in text  # "And you?"
        if page.numbers or page.names or asks:  # most texts have nothing of it
            reading = read_claims(
                page,
                source=look.source,
                taken=taken,
                owner_names=[text[edit.start : edit.end] for edit in edits],
                expectation=look.expectation,
                begin=begin,
            )
            look.heard = look.heard or reading.heard
            claims = self._weigh(page, reading, look, taken, begin)
            self._date(page, claims, look)
            edits += self._claim_edits(claims, look, doubts)
            # What is read as a range, a version or a time is no telephone or record number.
            read = [(each.start, each.end) for each in reading.claims if each.reason in _READ]
            if read:  # but "call 415-555-2671" is no subtraction
                dialled = Spans(match.span() for match in _PHONE_NUMBER.finditer(text))
                read = [span for span in read if not dialled.meet(*span)]
        if look.asked:
            heard = look.heard or SILENCE
            asked = tuple(dict.fromkeys((*heard.asked, *look.asked)))
            look.heard = replace(heard, asked=asked, asks=True)
        taken = [*read, *kept, *((edit.start, edit.end) for edit in edits)]
        # The name of a quantity is nobody's, whatever its words are ("globuli rossi", "Gewicht").
        named = [page.folded.span(name.start, name.end) for name in page.names if not name.subject]
        # The page's words have lost their accents, and signs of identifiers may have one.
        runs = page.runs if text.isascii() else None
        found = self._detected_edits(text, [*taken, *named], look, runs, page)
        look.finds = look.finds or tuple(found)
        edits += found
        spans = [*kept, *((edit.start, edit.end) for edit in edits)]
        if self._arbitration is not None:
            doubts = list(self._arbitration.settled(page, doubts, spans))
        edits += self._doubt_edits(doubts, Spans(spans))
        return sorted(edits, key=lambda edit: edit.start)

    def _weigh(
        self,
        page: Page,
        reading: TextReading,
        look: TextLook,
        taken: Sequence[tuple[int, int]],
        begin: int,
    ) -> Sequence[Claim]:
        """The claims of a reading, weighed by the words around them.

        Once, as their writer wrote them: a later look sees others, and is for what tokens uncover.
        Behind a key or a header the rules know what it is; weights are of people's sentences.
        """
        text, claims = page.original, reading.claims
        if not look.first:
            return [
                replace(claim, standing="nobody", reason="weighed")
                if text[claim.start : claim.end] in look.spared
                else claim
                for claim in claims
            ]
        if not begin:
            margins = CAREFUL if self._elsewhere == "careful" else USUAL
            claims = weigh(page, reading, look.source, look.expectation, taken, margins)
        look.spared.update(
            text[claim.start : claim.end]
            for claim in claims
            if claim.standing == "nobody" and claim.reason == "weighed"
        )
        return claims

    def _date(self, page: Page, claims: Sequence[Claim], look: TextLook) -> None:
        """Note which numbers of a series tell of another time than now."""
        told = [each for each in claims if each.root and self._person.roots[each.root].series]
        if not told:
            return
        days = [page.folded.place(*day) for day in find_dates(page.original, Runs(page.original))]
        dated = Spans(days)
        others = [n for n in page.numbers if not dated.meet(n.start, n.end)]
        today = datetime.now().astimezone().date()
        for claim in told:
            start, end = page.folded.place(claim.start, claim.end)
            before = max((n.end for n in others if n.end <= start), default=0)
            behind = min((n.start for n in others if n.start >= end), default=len(page.plain))
            when = told_when(page, (start, end), (before, behind), days, today)
            if when != "now":
                look.earlier[claim.start, claim.end] = when

    def _claim_edits(
        self, claims: Sequence[Claim], look: TextLook, doubts: list[Claim]
    ) -> Iterator[Edit]:
        """The edits that claims come to; those in doubt are left for later."""
        for claim in claims:
            known = claim.root is None or self._person.known(claim.root)
            match decide(look.source, claim, known=known):
                case "release":
                    yield self._value_edit(claim, look)
                case "redact":
                    if claim.root is not None:
                        look.missing.add(claim.root)
                    yield Edit(
                        start=claim.start,
                        end=claim.end,
                        text=HOLE,
                        kind="number",
                        missing=claim.root,
                    )
                case "doubt":
                    doubts.append(claim)
                case "keep":
                    if not claim.idle:
                        doubts.append(claim)

    def _answer_edits(
        self, page: Page, look: TextLook, taken: Sequence[tuple[int, int]]
    ) -> list[Edit]:
        """Answers that are no numbers: yes or no, a category's word, a day."""
        reader = answer_reader(page, self._person, look.source)
        if reader is None:
            return []
        edits = []
        for answer in reader.read(look.expectation.asked):
            start, end = page.folded.span(answer.start, answer.end)
            # What is within goes with it: "as Jane Roe I never smoked".
            if all(b <= start or end <= a or (start <= a and b <= end) for a, b in taken):
                edits.append(self._answer_edit(answer, start, end, look))
        look.asked = reader.asks()
        return edits

    def _answer_edit(self, answer: Answer, start: int, end: int, look: TextLook) -> Edit:
        """The released answer as one is written there; a hole if there is none to write."""
        number, kind = None, None
        if answer.computed:
            number = self._person.computed(answer.computed)
            kind = next(
                each.target.type for each in self._person.templates if each.name == answer.computed
            )
        elif answer.write is not None and self._has_answer(answer, look):
            kind = self._person.roots[answer.root].type
            if answer.root not in look.released:
                look.released[answer.root] = self._person.number(answer.root)
            number = look.released[answer.root]
        if number is None or kind is None or answer.write is None:
            return Edit(start=start, end=end, text=answer.hole, kind="number")
        return Edit(
            start=start,
            end=end,
            text=answer.write(kind, number),
            kind="root",
            of=answer.computed or answer.root,
        )

    def _has_answer(self, answer: Answer, look: TextLook) -> bool:
        """Whether the root has a value; it is taught now if it has none and its owner says it."""
        if self._person.known(answer.root):
            return True
        if look.source in ("owner", "trusted") and answer.said is not None:
            root = self._person.roots[answer.root]
            if root.type.inside(answer.said, root.domain) is not None:
                self._person.sight(answer.root, answer.said)
                return True
        look.missing.add(answer.root)
        return False

    def _value_edit(self, claim: Claim, look: TextLook) -> Edit:
        """A claim's released value, written as it stands there; a hole if there is none."""
        value = None
        text = HOLE
        if claim.computed:
            value = self._person.computed(claim.computed)
            text = HOLE if value is None else _as_written(claim.writing, value)
        elif claim.mention is not None and claim.root is not None:
            when = look.earlier.get((claim.start, claim.end), "now")
            if when == "now":
                value = self._value(claim.root, claim.mention.number, look)
            elif when != "earlier":  # as it was drawn then, or not at all
                value = self._person.number_on(claim.root, when)
            text = HOLE if value is None else write(claim.mention, value)
        kind = "number" if value is None else "root"
        return Edit(
            start=claim.start,
            end=claim.end,
            text=text,
            kind=kind,
            released=value,
            of=None if value is None else claim.computed or claim.root,
        )

    def _doubt_edits(self, doubts: Sequence[Claim], taken: Spans) -> Iterator[Edit]:
        """What becomes of numbers in doubt, and of those that nothing tells of."""
        for claim in doubts:
            if taken.meet(claim.start, claim.end):
                continue
            if claim.standing in ("owner", "likely"):
                continue  # kept by decision: a model's or a prompt's own number
            policy = self._near_private if claim.standing == "open" else self._elsewhere
            if policy == "block":
                raise TextBlockedError(start=claim.start, end=claim.end)
            if policy == "redact":
                yield Edit(start=claim.start, end=claim.end, text=HOLE, kind="number")

    def _token_spans(self, text: str, look: TextLook) -> list[tuple[int, int]]:
        """Issued tokens, and what stands for something that was taken out."""
        issued = (look.tokens.spans if look.tokens is not None else self._person.issued)(text)
        return issued + [m.span() for m in _PLACEHOLDER.finditer(text)]

    def _declared_edits(
        self, text: str, kept: Sequence[tuple[int, int]], look: TextLook
    ) -> list[Edit]:
        """Identifiers of the profile, unless they are issued tokens through and through."""
        left_alone = Spans(kept)
        edits: list[Edit] = []
        declared = (look.tokens or self._person).declared(text)
        look.declared = look.declared or tuple(found.text for found in declared)
        for found in sorted(declared, key=lambda each: each.start):
            new = any(text[a:b].strip() for a, b in left_alone.cut(found.start, found.end))
            if new and (not edits or found.start >= edits[-1].end):
                edits.append(
                    Edit(start=found.start, end=found.end, text=found.text, kind="declared")
                )
        return edits

    def _value(self, root: RootName, number: float, look: TextLook) -> float:
        """The root's released value; taught now if it has none, which `decide` has allowed."""
        if root not in look.released:
            if not self._person.known(root):
                self._person.sight(root, number)
            look.released[root] = self._person.number(root)
        return look.released[root]

    def _detected_edits(
        self,
        text: str,
        taken: Sequence[tuple[int, int]],
        look: TextLook,
        runs: Runs | None = None,
        page: Page | None = None,
    ) -> list[Edit]:
        """What detectors find outside of what is taken; of a find that meets it, the rest."""
        spoken_for = Spans(taken)
        edits = []
        # Persons first: an address is made of the tokens of the names in it.
        finds = self._finds(text, runs, spoken_for)
        if page is not None:
            knows = (lambda _: False) if look.tokens is None else look.tokens.knows_word
            finds = _private_finds(finds, page, knows)
        if look.source == "developer":  # days, desks and what a model is called are the prompt's
            finds = [
                each
                for each in finds
                if each.kind not in _PROMPTS
                and not (each.kind == "person" and " " not in text[each.start : each.end])
                and not (each.kind == "email" and _DESK.match(text, each.start, each.end))
            ]
        for each in sorted(finds, key=lambda find: find.kind != "person"):
            for start, end in spoken_for.cut(each.start, each.end):
                left, right = _trim(text, start, end)
                if each.kind == "person" and _FORMS.issuperset(
                    _LETTERS.findall(text[left:right].lower())
                ):
                    continue  # the "Dr." before an issued token
                whole = (start, end) == (each.start, each.end) or each.kind == "person"
                if right - left > (0 if whole else _SCRAP):
                    token = self._token(each.kind, text, left, right, look.tokens)
                    edits.append(Edit(start=left, end=right, text=token, kind=each.kind))
        return edits

    def _finds(self, text: str, runs: Runs | None, spoken_for: Spans) -> list[Found]:
        try:
            return merge(
                each
                for detector in self._detectors
                for each in (
                    detector.find_among(text, runs or Runs(text), spoken_for)
                    if type(detector) is Rules
                    else detector.find(text)
                )
            )
        except Exception:  # noqa: BLE001 - a stranger's message may hold the text
            failed = TextBlockedError("detector_failed")
        raise failed

    def _token(
        self, kind: str, text: str, start: int, end: int, tokens: PersonConversation | None
    ) -> str:
        """A token, unless it could not be told apart from other text and restored."""
        found = text[start:end]
        if kind == "address" or kind == "age":  # no form that tells nothing and can be restored
            return f"[{kind}]"
        like = cast("Kind", "code" if kind == "ip" or kind == "postcode" else kind)
        short = like == "code" and sum(map(str.isalnum, found)) < _LEAST_CODE
        if not short and opens(text, start) and closes(text, start, end):
            try:
                return (tokens or self._person).protect(like, found)
            except IdentifierError:
                pass
        return f"[{kind}]"


def has_answers(person: Person) -> bool:
    """Whether a person has values that are no numbers."""
    roots = (each.type.name for each in person.roots.values())
    return not _ANSWERED.isdisjoint((*roots, *(each.target.type.name for each in person.templates)))


def answer_reader(page: Page, person: Person, source: Source) -> AnswerReader | None:
    """What looks for a person's answers in a page; None if there are only numbers to look for."""
    return reader_of_answers(page, tuple(person.roots.values()), person.templates, source)


def reader_of_answers(
    page: Page, declared: Sequence[Root], templates: Sequence[Template], source: Source
) -> AnswerReader | None:
    """The same for roots and templates that may be nobody's."""
    roots = tuple(each for each in declared if each.type.name in _ANSWERED)
    targets = tuple(
        (each.name, (each.target.name.replace("_", " "), each.title))
        for each in templates
        if each.target.type.name == "date"
    )
    if not roots and not targets:
        return None
    days: list[tuple[int, int]] = []
    if targets or any(root.type.name == "date" for root in roots):
        text = page.original
        days = [page.folded.place(*day) for day in find_dates(text, Runs(text))]
    return AnswerReader(page, answer_words(roots, targets), days=days, told=source in _TELLERS)


class SourceReader(TextChannel):
    """Reads what a trusted source says: teaches its values, and writes and releases nothing."""

    __slots__ = ()

    @shielded
    def learn(self, said: object) -> None:
        """Teach the values in a text or a JSON value; a text that is JSON is read as JSON."""
        if isinstance(said, str) and said.lstrip()[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                said = json.loads(said)
        Walk(self, TextLook(source="trusted")).sanitize(said)

    def sanitize_text(self, text: str, context: str, look: TextLook) -> Sanitization:
        """Nothing of the text is kept: what it says is in the clear."""
        self.read(text, context, look)
        return Sanitization(text="", replaced={}, heard=look.heard or SILENCE)

    def sanitize_key(
        self,
        text: str,
        *,
        detect: bool,  # noqa: ARG002
        tokens: PersonConversation | None = None,  # noqa: ARG002
    ) -> Sanitization:
        """A key as it is: it is not sent anywhere."""
        return Sanitization(text=text, replaced={})

    def _detected_edits(
        self,
        text: str,  # noqa: ARG002
        taken: Sequence[tuple[int, int]],  # noqa: ARG002
        look: TextLook,  # noqa: ARG002
        runs: Runs | None = None,  # noqa: ARG002
        page: Page | None = None,  # noqa: ARG002
    ) -> list[Edit]:
        return []

    def _doubt_edits(self, doubts: Sequence[Claim], taken: Spans) -> Iterator[Edit]:  # noqa: ARG002
        return iter(())

    def _value_edit(self, claim: Claim, look: TextLook) -> Edit:  # noqa: ARG002
        """Teach the value, release none."""
        if claim.mention is not None and not self._person.known(claim.mention.root):
            self._person.sight(claim.mention.root, claim.mention.number)
        return Edit(start=claim.start, end=claim.end, text=HOLE, kind="number")

    def _answer_edit(self, answer: Answer, start: int, end: int, look: TextLook) -> Edit:
        """Teach the answer, release none."""
        if not answer.computed:
            self._has_answer(answer, look)
        return Edit(start=start, end=end, text=answer.hole, kind="number")


@contextmanager
def _block_other_refusals(skip: int = 0) -> Iterator[None]:
    """Let out what a caller can act on; another refusal (no finite number) blocks the text.

    Places are counted from `skip`, where the text begins after its context.
    """
    try:
        yield
    except TextBlockedError as blocked:
        if blocked.start is not None and blocked.end is not None:
            blocked.start = max(0, blocked.start - skip)
            blocked.end = max(0, blocked.end - skip)
        raise
    except (StoreError, BudgetError, AccessError):
        raise
    except RootGuardError as refusal:
        stopped = TextBlockedError("number_refused")
        stopped.logged = refusal.logged
        raise stopped from None


def _private_finds(finds: Sequence[Found], page: Page, knows: Callable[[str], bool]) -> list[Found]:
    """The finds without those that say nothing of anybody's life.

    A given name alone that nothing introduces is nobody's in particular ("Alice is 42"), unless a
    fuller name of the conversation has it. In code, names, days and places are of the program.
    """
    if not finds:  # as mostly: lines need not be told from code
        return []
    text, code = page.original, CodeLines(page.plain)
    links = Spans(match.span() for match in (_LINK.finditer(text) if "://" in text else ()))
    full = {
        word
        for find in finds
        if find.kind == "person" and find.sure
        for word in _LETTERS.findall(text[find.start : find.end].lower())
    }
    return [
        find
        for find in sorted(finds, key=lambda each: each.start)
        if not (
            find.kind == "person"
            and not find.sure
            and not any(
                word in full or knows(word)
                for word in _LETTERS.findall(text[find.start : find.end].lower())
            )
        )
        and not (
            find.kind in _OF_PROGRAMS
            and not _SPELT_OUT.search(text[find.start : find.end])
            and code.meet(*page.folded.place(find.start, find.end))
        )
        and not (find.kind in _OF_PROGRAMS and links.meet(find.start, find.end))
    ]


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text with its edits, which are in order; made from the end, so that places stay valid."""
    pieces: list[str] = []
    rest = len(text)
    for edit in reversed(edits):
        pieces += [text[edit.end : rest], edit.text]
        rest = edit.start
    return text[:rest] + "".join(reversed(pieces))


def _as_written(writing: str, value: float) -> str:
    """A computed value with as many decimals as the number that it stands for."""
    decimals = len(writing.rpartition(".")[2]) if "." in writing else 0
    return f"{value:.{min(decimals, _MOST_DECIMALS)}f}"


def _has_few_digits(text: str) -> bool:
    digits = sum(map(str.isdigit, text))
    return digits < _MANY_DIGITS and not any(map(str.isalpha, text)) and not text.startswith("[")


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """A stretch without what is neither letter nor digit at its ends."""
    end = min(end, len(text))  # a detector that others wrote may say more than there is
    while start < end and not text[start].isalnum() and text[start] != "+":
        start += 1
    while start < end and not text[end - 1].isalnum():
        end -= 1
    return start, end
