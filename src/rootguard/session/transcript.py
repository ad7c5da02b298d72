"""What was released and what was refused, in order; and the same in the store's audit log.

The store's ledger is the lasting record of what was spent and to whom it was disclosed; a
transcript is for looking at a conversation, and keeps the latest events only.

Events hold released values and no others, with one exception that is dealt with here: a formula is
kept as whoever asked wrote it, and an agent that knows a private number can write it there. So in
the audit log a number of a formula is kept only if it stands in a formula of the templates or is a
plain scale (1, 2, 10, 100, 1000); any other becomes "#". The value of such a formula follows from
the number, so it is left out too, unless it can only be yes or no.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from rootguard.events import Event, ValueReleased
from rootguard.expressions import Compare, Logic, Not, NumberLiteral, names, parse, to_text
from rootguard.graph import Graph
from rootguard.store.base import RECIPIENT, Recipient, Store
from rootguard.template import Template
from rootguard.values import Principal

REMEMBERED: Final = 10_000  # about as much as the audit log keeps
"""Events that a transcript keeps, and formulas that a session remembers with their values."""
NUMBERED: Final = re.compile(r"q[0-9]+")
"""What a formula without a name is called here. No formula can use it."""


class Transcript:
    """Events with their turns, counted from 1 also when early ones are gone."""

    __slots__ = ("_count", "_events", "_note")

    def __init__(
        self, limit: int = REMEMBERED, *, note: Callable[[Event], None] | None = None
    ) -> None:
        self._events: deque[Event] = deque(maxlen=limit)
        self._note = note
        self._count = 0

    @property
    def next_turn(self) -> int:
        """The turn of the event that comes next."""
        return self._count + 1

    def append(self, event: Event) -> None:
        """Write down what happened, here first: the log may be away, and is never waited for."""
        self._events.append(event)
        self._count += 1
        if self._note is not None:
            self._note(event)

    def __iter__(self) -> Iterator[Event]:
        return iter(tuple(self._events))

    def __len__(self) -> int:
        return len(self._events)


HIDDEN: Final = "#"
# Numbers that scale a formula and tell nothing of a person.
_SCALES: Final = frozenset(("1", "2", "10", "100", "1000"))
_NUMBER: Final = re.compile(r"(?<![A-Za-z0-9_.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_PLAIN: Final = re.compile(r"[^\w .:/+@-]")
_LONGEST: Final = 80  # what the console shows in one line
_KNOWN: Final = 4096  # formulas; a service that makes up new ones for ever must not fill the memory


def speak_to(service: str, route: str = "") -> None:
    """Say, for the rest of this task or thread, whom answers go to and by which way.

    For the timeline only: what a service may have is the policy's to say. The names are cut to 80
    plain characters.
    """
    RECIPIENT.set(Recipient(service=_plain(service), route=_plain(route)))


def _plain(text: str) -> str:
    return _PLAIN.sub("", text)[:_LONGEST].strip()


class AuditTrail:
    """Takes a transcript's events to one principal's audit log. Safe to share by threads."""

    __slots__ = (
        "_epoch",
        "_hidden",
        "_known",
        "_lock",
        "_principal",
        "_service",
        "_store",
        "_templates",
    )

    def __init__(
        self,
        store: Store,
        principal: Principal,
        templates: Iterable[Template],
        *,
        service: str = "",
        epoch: int | None = None,
    ) -> None:
        self._store = store
        self._principal = principal
        self._epoch = epoch
        self._service = service
        self._templates = tuple(templates)
        self._known: dict[str, tuple[str, bool]] = {}
        self._hidden: set[str] = set()
        # Over `_known` and `_hidden`: a formula that uses a hidden request is hidden, too.
        self._lock = threading.Lock()

    def note(self, event: Event) -> None:
        """Write an event down soon, without waiting."""
        if isinstance(event, ValueReleased) and event.formula:
            event = self._shown(event)
        toward = RECIPIENT.get()
        if self._service and toward.service != self._service:
            toward = Recipient(service=self._service, route=toward.route)
        self._store.note(self._principal, event, toward, epoch=self._epoch)

    def _shown(self, event: ValueReleased) -> ValueReleased:
        """The event without numbers that only its asker knows."""
        known = self._known.get(event.formula)
        if known is None:
            with self._lock:
                known = self._read(event.formula)
                if len(self._known) >= _KNOWN:
                    self._known.clear()
                self._known[event.formula] = known
        formula, whole = known
        if not whole and not NUMBERED.fullmatch(event.name):  # what later formulas may use
            with self._lock:
                self._hidden.add(event.name)
        if whole and formula == event.formula:
            return event
        return replace(event, formula=formula, value=event.value if whole else "")

    def _read(self, formula: str) -> tuple[str, bool]:
        """A formula as it is kept, and whether its value may be kept with it."""
        public = _SCALES.union(*(_numbers_of(template) for template in self._templates))
        kept = _NUMBER.sub(lambda m: m[0] if m[0] in public else HIDDEN, formula)
        node = parse(formula)
        whole = kept == formula and names(node).isdisjoint(self._hidden)
        return kept, whole or isinstance(node, Compare | Logic | Not)


@lru_cache(maxsize=256)
def _numbers_of(template: Template) -> frozenset[str]:
    """The numbers in a template's formulas, as formulas are written."""
    formulas = (node.formula for node in Graph.of(template).order if node.formula is not None)
    written = (each for formula in formulas for each in _NUMBER.findall(to_text(formula)))
    return frozenset(to_text(NumberLiteral(float(each))) for each in written)
