"""One person's side of the gateway: text out, replies in, and which channels are open.

A `PersonChannel` is a text channel with what a gateway needs beside it. A `ReplyAudit` restores one
reply through it and looks, when the reply is over, for identifiers that nobody issued.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Final, Generic, Protocol, TypeVar

from rootguard.channels.detection import Detector, merge
from rootguard.channels.faults import rule_of
from rootguard.channels.text.arbiter import Arbitration
from rootguard.channels.text.channel import NumberPolicy, OtherNumberPolicy, TextChannel
from rootguard.channels.text.documents import changed_place
from rootguard.channels.text.edits import Change, JsonSanitization, Sanitization
from rootguard.errors import PrivateValueError
from rootguard.events import ChangedPlace
from rootguard.reading.claims import NOTHING, Expectation, Source
from rootguard.session.declared import PersonConversation
from rootguard.session.person import Person
from rootguard.session.profile import OnDoubt, UnknownFields
from rootguard.values import RootName

Opened = TypeVar("Opened")

_AUDITED: Final = 64 * 1024
"""Characters of a reply that are kept to be audited. What is found is a count for the owner, so a
reply that is longer than models write may go uncounted, and must not hold memory."""
_LABELS: Final = 4096
"""Ids known to be public. An agent repeats the same few model and tool names in every request."""


class Restorer(Protocol):
    """Restores a text that arrives in pieces."""

    def feed(self, chunk: str) -> str:
        """What can be shown now, restored."""
        ...

    def close(self) -> str:
        """What was held back because a token might have begun there."""
        ...


class PersonChannel:
    """A person's text channel as the gateway uses it. Safe to share by threads."""

    __slots__ = (
        *("_arbitration", "_detectors", "_others", "_person", "_policies", "_public", "_text"),
        "_tokens",
    )

    def __init__(
        self,
        person: Person,
        *,
        detectors: Sequence[Detector] = (),
        near_private: NumberPolicy = "redact",
        elsewhere: OtherNumberPolicy = "pass",
        unknown_fields: UnknownFields = "refuse",
        arbitration: Arbitration | None = None,
    ) -> None:
        self._person = person
        self._detectors = tuple(detectors)
        self._public: set[str] = set()
        self._policies = (near_private, elsewhere, unknown_fields)
        self._others: dict[OnDoubt, PersonChannel] = {}
        self._tokens: PersonConversation | None = None
        self._arbitration = arbitration
        self._text = TextChannel(
            person,
            detectors=detectors,
            near_private=near_private,
            elsewhere=elsewhere,
            arbitration=arbitration,
        )

    @property
    def unknown_fields(self) -> UnknownFields:
        """What becomes of fields of a request that are not known here."""
        return self._policies[2]

    def on_doubt(self, choice: OnDoubt) -> "PersonChannel":
        """The same person's channel with another decision about numbers in doubt."""
        if choice not in self._others:
            near, elsewhere, unknown_fields = self._policies
            near = "block" if choice == "refuse" else "redact"
            if choice == "redact" and elsewhere == "block":
                elsewhere = "redact"
            # Two threads may make two of them, which differ in nothing but what they remember.
            self._others[choice] = PersonChannel(
                self._person,
                detectors=self._detectors,
                near_private=near,
                elsewhere=elsewhere,
                unknown_fields=unknown_fields,
                arbitration=self._arbitration,
            )
        return self._others[choice]

    def conversation(self, earlier: str | None, texts: Sequence[str]) -> "PersonChannel":
        """The same channel for one conversation, whose every text is given.

        `earlier` is the id of a reply that it goes on from, if the service keeps the history.
        """
        made = copy(self)
        made._tokens = self._person.conversation(earlier)
        made._tokens.apart_from(*texts)
        made._text = self._text.for_request()
        return made

    def keep_conversation(self, reply: str) -> None:
        """Let a later request go on from a reply that the service keeps."""
        if self._tokens is not None:
            self._person.keep_conversation(reply, self._tokens)

    def sanitize(
        self, text: str, *, source: Source, expectation: Expectation = NOTHING
    ) -> Sanitization:
        """The text as it may leave, and how often what was replaced."""
        made = self._text.sanitize(
            text, source=source, expectation=expectation, tokens=self._tokens
        )
        if self._tokens is not None:
            self._tokens.sent(made.text)
        return made

    def sanitize_json(
        self, value: object, *, source: Source, expectation: Expectation = NOTHING
    ) -> JsonSanitization:
        """The JSON value as it may leave, and how often what was replaced."""
        return self._text.sanitize_json(
            value, source=source, expectation=expectation, tokens=self._tokens
        )

    def named_in(self, tool: str, arguments: str) -> tuple[RootName, ...]:
        """The quantities that a tool's result is about, by its name or its arguments."""
        return self._text.names_in(f"{tool}: {arguments}")

    def roots_of(self, formula: str) -> tuple[RootName, ...]:
        """The roots of a calculation that goes by this name, in order."""
        return self._text.roots_of(formula)

    def trusts(self, tool: str) -> bool:
        """Whether the owner's policy lets a tool's results teach values."""
        return self._person.trusts(tool)

    def is_private(self, label: str) -> bool:
        """Whether a declared identifier stands in an id."""
        if label in self._public:
            return False
        found = bool(self._person.declared(label))
        if not found and len(self._public) < _LABELS:
            self._public.add(label)
        return found

    def restore(self, text: str) -> str:
        """Issued tokens put back; everything else stays."""
        return (self._text.restore if self._tokens is None else self._tokens.restore_text)(text)

    def restorer(self) -> Restorer:
        """Restores a reply piece by piece; holds back at most the longest token, so close it."""
        return self._text.restorer() if self._tokens is None else self._tokens.stream()

    def unissued(self, text: str) -> Mapping[str, int]:
        """Identifiers in a reply that were never issued to this person, by kind."""
        issued = (self._person.issued if self._tokens is None else self._tokens.spans)(text)
        found = merge(each for detector in self._detectors for each in detector.find(text))
        strange: Counter[str] = Counter(
            each.kind
            for each in found
            if not any(start < each.end and each.start < end for start, end in issued)
        )
        self._person.refuse_tokens(strange)
        return strange

    def note_changes(self, places: Sequence[ChangedPlace]) -> None:
        """Write down for the owner what of a request did not leave as it was written."""
        self._person.note_changes(places)

    def note_refusal(self, problem: Exception, *, source: str = "", path: str = "") -> None:
        """Write down for the owner why a request was refused, and where the reason stands."""
        rule = rule_of(problem)
        roots = problem.roots if isinstance(problem, PrivateValueError) else ()
        at = (path,) if path else ()
        places = [
            changed_place(Change(path=at, kind="refused", root=root or None), source, at)
            for root in (roots or ("",))
        ]
        self._person.note_refusal(problem, rule=rule, places=places if path or roots else ())


class ReplyAudit:
    """Restores one reply, and keeps what came in, up to a bound, to look for unissued identifiers.

    They are looked for when the reply is over, because a detector needs whole texts and a stream
    must not wait for it.
    """

    __slots__ = ("_channel", "_left", "_texts")

    def __init__(self, channel: PersonChannel) -> None:
        self._channel = channel
        self._texts: list[list[str]] = []
        self._left = _AUDITED

    def replied(self, reply: str) -> None:
        """The id of a reply that the service keeps."""
        self._channel.keep_conversation(reply)

    def restore(self, text: str) -> str:
        """Issued tokens put back; everything else stays."""
        self.keep(self.open(), text)
        return self._channel.restore(text)

    def restorer(self) -> Restorer:
        return _AuditedRestorer(self, self._channel.restorer())

    def open(self) -> list[str]:
        """A new text to keep pieces of."""
        pieces: list[str] = []
        self._texts.append(pieces)
        return pieces

    def keep(self, pieces: list[str], piece: str) -> None:
        """Keep a piece while there is room."""
        if piece and self._left > 0:
            pieces.append(piece[: self._left])
            self._left -= len(piece)

    def unissued(self) -> Mapping[str, int]:
        """Identifiers that were never issued, in all that was kept; forgets it."""
        found: Counter[str] = Counter()
        for pieces in self._texts:
            if pieces:
                found.update(self._channel.unissued("".join(pieces)))
        self._texts.clear()
        return found


class _AuditedRestorer:
    __slots__ = ("_audit", "_inner", "_pieces")

    def __init__(self, audit: ReplyAudit, inner: Restorer) -> None:
        self._audit = audit
        self._inner = inner
        self._pieces = audit.open()

    def feed(self, chunk: str) -> str:
        self._audit.keep(self._pieces, chunk)
        return self._inner.feed(chunk)

    def close(self) -> str:
        return self._inner.close()


class OpenedLately(Generic[Opened]):
    """What was opened for those who called lately; the one unused longest makes room."""

    def __init__(self, opened: Callable[[str], Opened], *, most: int) -> None:
        self._open = opened
        self._most = most
        self._kept: OrderedDict[str, Opened] = OrderedDict()
        # `_lock` guards both tables and is never held while a store is waited for. A lock for each
        # key is: two first calls of one person must not open twice, and one person's slow store
        # must not hold up the others.
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: str) -> Opened:
        """What this key stands for, opened now if it is not open. May wait for a store."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            opening = self._opening.setdefault(key, threading.Lock())
        with opening:
            with self._lock:  # whoever had the lock before may have opened it
                if key in self._kept:
                    return self._kept[key]
            made = self._open(key)
            with self._lock:
                self._kept[key] = made
                self._opening.pop(key, None)
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
            return made
