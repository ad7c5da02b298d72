"""Guarded sessions: they answer anything, from values that were noised once.

`Answers` does so over one template or several. It is built from what a store keeps, as one
recipient gets it, and holds no raw number, so no formula, error or caller can get one out of it.
For a service, the policy says what it may ask. Roots that were never noised are refused by name
until they are. `Guard` opens a `Session`, which is on one template; a profile opens a `Person`, who
may have several. A name goes to the first template that has it, and a formula to the first that
has all its names; one that goes across templates is computed from each name's own.

However many formulas are asked, one costs what the first did. A formula without a name is no node
of the graph: it is remembered as long as the transcript keeps its release, and computed again
after that, to the same value. A value that was given a name is kept, up to `MAX_NAMED` of them.

A calibrated template answers from roots that were moved towards what the population makes likely
(see `calibration`). It needs every root, and a recipient who may have every root: a calibrated
value tells of all of them. Otherwise the roots are answered as they were noised.

A `Transcript` has what was released and refused, in order, an `AuditTrail` writes the same to the
store's audit log. The store's ledger is the lasting record of what was spent and to whom it was
disclosed; a transcript is for looking at a conversation, and keeps the latest events only.

Events hold released values and no others, with one exception that is dealt with here: a formula is
kept as whoever asked wrote it, and an agent that knows a private number can write it there. So in
the audit log a number of a formula is kept only if it stands in a formula of the templates or is a
plain scale (1, 2, 10, 100, 1000); any other becomes "#". The value of such a formula follows from
the number, so it is left out too, unless it can only be yes or no.
"""

import re
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeVar

from rootguard.accounting import Guarantee, Ledger, RootGuarantee
from rootguard.calibration import Calibration, Level
from rootguard.errors import (
    AccessError,
    FormulaLimitError,
    FormulaNameError,
    NameLimitError,
    NameTakenError,
    PrivateValueError,
    RootGuardError,
    UnknownNameError,
)
from rootguard.events import ChangedPlace, Event, PlacesRefused, RequestRefused, ValueReleased
from rootguard.expressions import (
    CONSTANTS,
    MAX_LENGTH,
    Compare,
    Logic,
    Node,
    Not,
    NumberLiteral,
    Variable,
    evaluate,
    names,
    parse,
    spelled_out,
    to_text,
)
from rootguard.graph import Graph, GraphNode
from rootguard.identifiers import Identifiers
from rootguard.session.draws import current, kept_formulas, levels_at, mappings, tested
from rootguard.session.policy import Access
from rootguard.session.questions.answers import answer
from rootguard.session.questions.wording import Vocabulary
from rootguard.store import (
    Disclosure,
    Record,
    Snapshot,
    Store,
    erased_meanwhile,
    tier_exhausted,
)
from rootguard.store.base import RECIPIENT, Recipient
from rootguard.template import Root, Template
from rootguard.values import (
    UNKNOWN_UNIT,
    Form,
    Principal,
    RootName,
    RootType,
    Sanitized,
    to_micro,
    written,
)

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


@lru_cache(maxsize=1024)  # a service and its tools are named with every call
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


_Value = TypeVar("_Value", float, str)

MAX_NAMED: Final = 10_000
"""Values that a session keeps under names given in `derive`, about two kilobytes each: whoever
names formulas for ever must not fill the memory."""


@lru_cache(maxsize=4096)  # formulas come from services and are public; an agent repeats its own
def parsed(formula: str) -> tuple[Node, str]:
    """A formula and its canonical text, which is no longer than a formula may be."""
    node = parse(formula)
    text = to_text(node)
    if len(text) > MAX_LENGTH:  # spaces were left out; the audit log could not read it again
        raise FormulaLimitError("text length", MAX_LENGTH)
    return node, text


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """A person's identifiers: what they are called, what is released, and who can restore it."""

    issued: Mapping[str, str]
    identifiers: Identifiers


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """A service's access, and the level of each root that is left to it, at the most.

    `budget` is what it may hold in all, over every template and version, in micro-epsilon.
    """

    access: Access
    epsilons: Mapping[RootName, Fraction]
    budget: int


class RecipientView:
    """What is kept of one principal's roots, as one recipient gets it: looked up once, then fixed.

    The finest level there is or, for a service, its tier's. Holds sanitized records only.
    """

    def __init__(
        self,
        store: Store,
        person: Snapshot,
        records: Mapping[RootName, Record] | None = None,
        *,
        tier: Tier | None = None,
    ) -> None:
        self.store = store
        self.person = person
        self.principal = person.name
        self.access = None if tier is None else tier.access
        self._tier = tier
        self._finest: dict[RootName, Record] = dict(records or {})
        self._records: dict[RootName, Record] = {}
        # Of its own: whether a root is known is asked without the session's lock. Who holds both
        # took the session's first: nothing in here calls one. Re-entrant: `find` asks `holds`.
        self._lock = threading.RLock()

    def holds(self, root: RootName) -> bool:
        """Whether the root was ever noised, here or by anyone else who shares the store."""
        with self._lock:
            if root not in self._finest:
                if root not in self.person.levels:  # noised since, perhaps
                    self.person = current(self.store, self.principal, self.person.epoch)
                if levels := self.person.levels.get(root):
                    self._finest[root] = max(levels, key=lambda record: record.sanitized.epsilon)
            return root in self._finest

    def find(self, root: RootName) -> Sanitized | None:
        """The root as this recipient gets it; None if it was never noised or none is left to it."""
        with self._lock:
            if root not in self._records:
                self.fix([root])
            return self._records[root].sanitized if root in self._records else None

    def fix(self, roots: Sequence[RootName]) -> None:
        """Settle what this recipient gets of these roots, as far as they were noised."""
        with self._lock:
            new = [
                root
                for root in roots
                if root not in self._records and self.holds(root) and not self._exhausted(root)
            ]
            if self._tier is None:
                self._records |= {root: self._finest[root] for root in new}
            elif new:
                levels = {
                    root: min(self._tier.epsilons[root], self._finest[root].sanitized.epsilon)
                    for root in new
                }
                self._records |= levels_at(self.store, self.person, levels)

    def check(self) -> None:
        """Refuse to go on for a profile that was erased since this began."""
        if self.store.epoch(self.principal) != self.person.epoch:
            raise erased_meanwhile()

    def _exhausted(self, root: RootName) -> bool:
        return self._tier is not None and root not in self._tier.epsilons

    def require(self, roots: Sequence[RootName]) -> None:
        """Refuse if a root was never noised, or if nothing of it is left to this recipient."""
        missing = tuple(root for root in roots if not self.holds(root))
        if missing:
            problem = "never noised for this principal, so open with a value"
            raise PrivateValueError(problem, missing)
        if self.access is not None and any(self._exhausted(root) for root in roots):
            raise tier_exhausted(self.access.service)

    def disclose(self, roots: Sequence[RootName]) -> None:
        """Write down in the store that this recipient was given these roots."""
        with self._lock:
            limit = None if self._tier is None else self._tier.budget
            self.store.disclose(
                self.principal,
                [
                    Disclosure(
                        service="" if self.access is None else self.access.service,
                        tier="" if self.access is None else self.access.tier,
                        root=root,
                        version=self._records[root].sanitized.version,
                        position=self._records[root].position,
                    )
                    for root in roots
                ],
                limit,
                epoch=self.person.epoch,
            )

    def disclose_draw(self, record: Record) -> None:
        """Write down that this recipient, who is in no tier, was given a draw of another time."""
        drawn = record.sanitized
        given = Disclosure(
            service="", tier="", root=drawn.root, version=drawn.version, position=record.position
        )
        self.store.disclose(self.principal, [given], None, epoch=self.person.epoch)


class _Part:
    """One template's values, computed from the roots as the recipient gets them. Not locked.

    A root that the template says is a formula of values kept elsewhere is computed from them, if
    they are kept and it is not: those values are then roots here, and it is none.
    """

    def __init__(self, template: Template, view: RecipientView, *, calibrate: bool) -> None:
        self.template = template
        self.graph, self.roots = kept_formulas(view.person, template)
        kept = [self.roots[root] for root in self.graph.roots]
        self._mapped = mappings(view.person.quantities, kept)
        self.declared = tuple(node.name for node in self.graph.order)
        self.sanitized: dict[RootName, Sanitized] = {}
        self._view = view
        self.values: dict[str, float] = {}
        self._texts: dict[str, str] = {}
        self._roots_behind: dict[str, tuple[RootName, ...]] = {}
        view.fix(self.graph.roots)
        for root in self.graph.roots:
            self._take_up(root)
        # Of values that are kept elsewhere the template has no population figures.
        own = all(root in template.roots for root in self.graph.roots)
        self.calibrated = calibrate and own and self._may_calibrate()
        if self.calibrated:
            levels = {
                root: Level.of(value, self.roots[root].type)
                for root, value in self.sanitized.items()
            }
            for root, released in Calibration(template, levels).release(self.sanitized).items():
                self.values[root] = self.roots[root].domain.clamp(released)

    def peek(self, name: str) -> float:
        """A named value that does not leave here; refused while a root behind it has none."""
        self.need(self.rests_on(name))
        return self._value(name)

    def compute(self, node: Node) -> float:
        """The value of a formula of names that are here."""
        return evaluate(node, {name: self._value(name) for name in names(node)})

    def keep(self, name: str, node: Node, value: float) -> None:
        """Give a formula a node in the graph, for later formulas to use."""
        self.graph.add(GraphNode(name=name, kind="request", formula=node))
        self.values[name] = value

    def need(self, roots: tuple[RootName, ...]) -> None:
        """Refuse roots that were never noised; one that was noised meanwhile is taken up."""
        for root in roots:
            if root not in self.sanitized:
                self._take_up(root)
        missing = tuple(root for root in roots if root not in self.sanitized)
        self._view.require(missing)
        if missing:  # kept as public alone
            raise PrivateValueError(
                "never noised for this principal, so open with a value", missing
            )

    def type_of(self, name: str) -> RootType:
        """The form of a named value outside."""
        root = self.roots.get(RootName(name))
        return self.template.type_of(name) if root is None else root.type

    def text_of(self, name: str) -> str:
        """The formula behind a name, as it is written; nothing for a root."""
        if name in self.sanitized:
            return ""
        if name not in self._texts:
            formula = self.graph[name].formula
            self._texts[name] = "" if formula is None else to_text(formula)
        return self._texts[name]

    def has(self, name: str) -> bool:
        """Whether it is a root with a value here, or a name of the template's graph."""
        return name in self.sanitized or name in self.graph

    def rests_on(self, name: str) -> tuple[RootName, ...]:
        """The roots that a named value tells of."""
        if name not in self._roots_behind:
            self._roots_behind[name] = self.behind(Variable(name))
        return self._roots_behind[name]

    def behind(self, node: Node) -> tuple[RootName, ...]:
        """The roots that a value tells of; a calibrated one tells of all of them."""
        rests_on = self.graph.rests_on(node)
        return self.graph.roots if self.calibrated and rests_on else rests_on

    def guarantee(self, identifiers: int) -> Guarantee:
        """Every draw that was ever made for the principal, composed; see `Guarantee`."""
        ledger = self._view.store.ledger(self._view.principal)
        return Guarantee(
            principal=self._view.principal,
            roots=tuple(
                RootGuarantee(
                    root=root,
                    unit=self.roots[root].unit,
                    epsilon=_with_tests(root, ledger, sanitized.epsilon),
                    step=sanitized.domain.step,
                    mechanism=sanitized.mechanism,
                    draws=ledger.draws.get(root, 1),
                    type=self.roots[root].type,
                    title=self.roots[root].label,
                )
                for root, sanitized in self.sanitized.items()
            ),
            others=tuple(
                self._other(root, ledger)
                for root in ledger.spent
                if root not in self.sanitized and not root.endswith(tested(""))
            ),
            computed=tuple(n for n in self.declared if self.graph[n].kind != "root"),
            identifiers=identifiers,
        )

    def _other(self, root: str, ledger: Ledger) -> RootGuarantee:
        """What is promised about a root that was noised under another template."""
        kept = self._view.store.quantities().get(RootName(root))
        # Of an erased root in an early store the unit and the grid are not known any more.
        unit, step = ("grid steps", 1.0) if kept is None else (kept.unit, kept.domain.step)
        return RootGuarantee(
            root=root,
            unit="" if unit == UNKNOWN_UNIT else unit,
            epsilon=_with_tests(root, ledger, ledger.spent[root]),
            step=step,
            mechanism=ledger.mechanism_of(root),
            draws=ledger.draws[root],
        )

    def shown(self, drawn: Sanitized) -> float:
        """A draw of one of its roots on this template's scale."""
        value = self._mapped[drawn.root].shown(drawn).value
        return self.roots[drawn.root].domain.clamp(value)

    def _take_up(self, root: RootName) -> None:
        found = self._view.find(root)
        if found is not None and found.mechanism == "public" and not self.roots[root].public:
            found = None  # kept where it was public; here it is to be hidden
        if found is not None:
            shown = self._mapped[root].shown(found)
            self.sanitized[root] = shown
            # A root noised on another template's grid keeps its value; the bounds here may cut it.
            self.values[root] = self.roots[root].domain.clamp(shown.value)

    def _may_calibrate(self) -> bool:
        """Whether every root is there, and this recipient may have every one."""
        access = self._view.access
        allowed = None if access is None else access.roots
        return all(
            root in self.sanitized and (allowed is None or root in allowed)
            for root in self.graph.roots
        )

    def _value(self, name: str) -> float:
        """A named value, computed from its parents when first needed."""
        if name not in self.values:
            formula = self.graph[name].formula or Variable(name)  # a root's value is always there
            self.values[name] = self.compute(formula)
        return self.values[name]


def _with_tests(root: str, ledger: Ledger, drawn: Fraction) -> Fraction:
    """What a root has cost: its draws, and the tests whether it moved."""
    spent = ledger.spent
    return spent.get(root, drawn) + spent.get(tested(root), Fraction(0))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Request:
    """A formula that was allowed and computed: the name it goes by in the transcript, its value."""

    name: str
    value: float
    rests_on: tuple[RootName, ...]


class Answers:
    """Answers for one person, to one recipient. Safe to share by threads."""

    def __init__(
        self,
        view: RecipientView,
        templates: tuple[Template, ...],
        *,
        tokens: Tokens | None = None,
        calibrated: Container[str] = (),
        remembered: int = REMEMBERED,
    ) -> None:
        self.principal = view.principal
        self.templates = templates
        self._view = view
        self._access = view.access
        self._identifiers = None if tokens is None else tokens.identifiers
        self._tokens = {} if tokens is None else dict(tokens.issued)
        self._disclosed: set[RootName] = set()
        self._levels: dict[RootName, int] = {}
        self._recipient = "" if view.access is None else view.access.service
        self._tier = "" if view.access is None else view.access.tier
        trail = AuditTrail(
            view.store,
            view.principal,
            templates,
            service=self._recipient,
            epoch=view.person.epoch,
        )
        self._transcript = Transcript(remembered, note=trail.note)
        # By text, the latest last, as many as the transcript keeps events: a number that stands in
        # the transcript means one formula.
        self._requests: OrderedDict[str, _Request] = OrderedDict()
        self._remembered = remembered
        self._number = 0
        self._named = 0
        # One lock for all templates: a turn's number, its values and its entry belong together.
        # Re-entrant: `answer` and `risk` release values with the lock held.
        self._lock = threading.RLock()
        self._words = {name: each for t in templates for name, each in t.words.items() if each}
        self._parts = tuple(
            _Part(template, view, calibrate=template.name in calibrated) for template in templates
        )

    def spelled(self, formula: str) -> str:
        """A formula with the answers and dates that it has in quotes as numbers."""
        return spelled_out(formula, self._words)

    def written(self, name: str) -> str:
        """A named value, released, as it is written in a text: yes, 2024-05-31, a word, 1.5."""
        return written(self.release(name))

    def number(self, name: str) -> float:
        """A root, a derived value or a target by name, as formulas see it: 0 or 1, days, a place.

        The same release as `release`, in another form.
        """
        with self._lock:
            try:
                return self._release(self._home(name), name)
            except RootGuardError as refusal:
                self._refuse(refusal, (name,))
                raise

    @property
    def names(self) -> tuple[str, ...]:
        """What may be asked by name: roots, derived values, targets and identifiers."""
        asked = dict.fromkeys(name for part in self._parts for name in part.declared)
        return tuple(name for name in (*asked, *self._tokens) if self._allowed(name))

    def release(self, name: str) -> Form:
        """A root, a derived value, a target or an identifier, by name. For ever the same.

        In its own form: a yes or no is a truth value, a date a date, a category one of its words.
        """
        with self._lock:
            try:
                if name in self._tokens:
                    self._allow(name, "", ())
                    return self._give(name, "", self._tokens[name], ())
                part = self._home(name)
                return part.type_of(name).outside(self._release(part, name))
            except RootGuardError as refusal:
                self._refuse(refusal, (name,))
                raise

    def derive(self, formula: str, *, name: str | None = None) -> float:
        """The value of any formula of named values. Given a name, later formulas may use it.

        Without one it is numbered in the transcript (q1, q2, ...). A number is for reading only:
        formulas cannot use it, and it cannot be given as a name.
        """
        with self._lock:
            asked: tuple[str, ...] = ()
            try:
                node, text = parsed(self.spelled(formula))
                asked = tuple(sorted(names(node)))
                known = None if name is not None else self._requests.get(text)
                if known is not None:  # allowed and computed before
                    self._requests.move_to_end(text)
                    return self._give(known.name, text, known.value, known.rests_on)
                having = self._having(names(node))
                if having is None and name is None:
                    return self._derive_across(node, text)
                return self._derive(having or self._parts[0], node, text, name)
            except RootGuardError as refusal:
                self._refuse(refusal, asked)
                raise

    def target(self, template: str | None = None) -> float:
        """A template's target, by default the first one's, computed from the noised roots."""
        with self._lock:
            asked: tuple[str, ...] = ()
            try:
                part = self._part(template)
                asked = (part.template.target.name,)
                return float(self._release(part, asked[0]))
            except RootGuardError as refusal:
                self._refuse(refusal, asked)
                raise

    def risk(self, template: str | None = None) -> str | None:
        """The label of a target's risk class; None where the template defines no classes."""
        with self._lock:
            value = self.target(template)
            found = self._part(template).template.classify(value)
            return None if found is None else found.label

    def answer(self, question: str) -> str:
        """A question in words, answered in sentences made of released values."""
        with self._lock:
            return answer(question, self, Vocabulary.of(self.templates, tuple(self._tokens)))

    def restore(self, text: str) -> str:
        """A text with issued tokens put back; everything else stays. For the owner's eyes."""
        return text if self._identifiers is None else self._identifiers.restore_text(text)

    def spent(self) -> dict[str, Fraction]:
        """What this principal has spent on each root until now, wherever it was spent."""
        return self._view.store.ledger(self.principal).spent

    def transcript(self) -> tuple[Event, ...]:
        """What was released, in order over all templates, and what was refused."""
        with self._lock:
            return tuple(self._transcript)

    def _release(self, part: _Part, name: str) -> float:
        rests_on = part.rests_on(name)
        self._allow(name, part.text_of(name), rests_on)
        return self._give(name, part.text_of(name), part.peek(name), rests_on)

    def _derive(self, part: _Part, node: Node, text: str, name: str | None) -> float:
        if unknown := sorted(each for each in names(node) if each not in part.graph):
            raise FormulaNameError(unknown[0], self.names)
        rests_on = part.behind(node)
        # Access first: whether a root was ever noised is not for who may not have it.
        self._allow("", text, rests_on)
        part.need(rests_on)
        if name is not None:
            self._check_name(name)
        value = part.compute(node)
        called = self._free_number() if name is None else name
        given = self._give(called, text, value, rests_on)
        # After the release: one that fails leaves the name free for another attempt.
        if name is not None:
            part.keep(name, node, value)
            self._named += 1
        self._requests.setdefault(text, _Request(name=called, value=value, rests_on=rests_on))
        self._requests.move_to_end(text)
        if len(self._requests) > self._remembered:
            self._requests.popitem(last=False)
        return given

    def _check_name(self, name: str) -> None:
        """Refuse a name that is taken in any template, is no name, or is one too many."""
        if name in self._tokens or self._has(name) or NUMBERED.fullmatch(name):
            raise NameTakenError(name)
        if parse(name) != Variable(name) or name in CONSTANTS:
            raise FormulaNameError(name)
        if self._named >= MAX_NAMED:
            raise NameLimitError(MAX_NAMED)

    def _free_number(self) -> str:
        self._number += 1
        while self._has(called := f"q{self._number}"):  # a template may have such a name
            self._number += 1
        return called

    def _derive_across(self, node: Node, text: str) -> float:
        """A formula over several templates; each name is computed in its own."""
        wanted = sorted(names(node))
        for name in wanted:
            if not self._has(name):
                raise FormulaNameError(name, self.names)
        homes = {name: self._home(name) for name in wanted}
        behind = {root for name, home in homes.items() for root in home.rests_on(name)}
        ordered = dict.fromkeys(root for part in self._parts for root in part.graph.roots)
        rests_on = tuple(root for root in ordered if root in behind)
        self._allow("", text, rests_on)
        value = evaluate(node, {name: home.peek(name) for name, home in homes.items()})
        return self._give("", text, value, rests_on)

    def _has(self, name: str) -> bool:
        return any(part.has(name) for part in self._parts)

    def _having(self, wanted: frozenset[str]) -> _Part | None:
        """The first template that has all of these names."""
        return next((p for p in self._parts if all(name in p.graph for name in wanted)), None)

    def _home(self, name: str) -> _Part:
        """The first template that has a name."""
        for part in self._parts:
            if part.has(name):
                return part
        raise UnknownNameError("value", name, self.names)

    def _part(self, template: str | None) -> _Part:
        for part in self._parts:
            if template in (None, part.template.name):
                return part
        known = tuple(each.name for each in self.templates)
        raise UnknownNameError("template", str(template), known)

    def _allow(self, name: str, formula: str, rests_on: tuple[RootName, ...]) -> None:
        if self._access is not None:
            self._access.check(name, formula, rests_on)

    def _allowed(self, name: str) -> bool:
        if self._access is None:
            return True
        try:
            if name in self._tokens:
                self._allow(name, "", ())
            else:
                part = self._home(name)
                self._allow(name, part.text_of(name), part.graph.rests_on(Variable(name)))
        except AccessError:
            return False
        return True

    def _give(
        self, name: str, formula: str, value: _Value, rests_on: tuple[RootName, ...]
    ) -> _Value:
        """Write down what is released, then let it out: nothing leaves that was not noted."""
        if not self._disclosed.issuperset(rests_on):
            self._view.disclose([root for root in rests_on if root not in self._disclosed])
            self._disclosed.update(rests_on)
        else:
            self._view.check()
        self._transcript.append(
            ValueReleased(
                turn=self._transcript.next_turn,
                name=name,
                formula=formula,
                value=value,
                rests_on=rests_on,
                levels=tuple([self._level(root) for root in rests_on]),
                recipient=self._recipient,
                tier=self._tier,
            )
        )
        return value

    def _level(self, root: RootName) -> int:
        if root not in self._levels:
            found = self._view.find(root)
            self._levels[root] = 0 if found is None else to_micro(found.epsilon)
        return self._levels[root]

    def _refuse(self, refusal: RootGuardError, asked: Iterable[str] = ()) -> None:
        """Write down why, and which declared names were asked for: any other may be content."""
        refusal.logged = True
        turn, reason = self._transcript.next_turn, type(refusal).__name__
        declared = {name for part in self._parts for name in part.declared}.union(self._tokens)
        found = tuple(
            ChangedPlace(path="", change="refused", root=name, times=1, source="service")
            for name in dict.fromkeys(asked)
            if name in declared
        )
        if found:
            rule = "policy" if isinstance(refusal, AccessError) else ""
            self._transcript.append(
                PlacesRefused(turn=turn, reason=reason, rule=rule, places=found)
            )
        else:
            self._transcript.append(RequestRefused(turn=turn, reason=reason))


def described(root: Root) -> dict[str, object]:
    """What a service has to know of a root that is not a plain, hidden number. Public."""
    about: dict[str, object] = {}
    if not root.type.plain:
        about["type"] = root.type.name
    if root.type.answers:
        about["values"] = list(root.type.answers)
    if root.type.name == "date":
        ends = (root.domain.lower, root.domain.upper)
        about["bounds"] = [root.type.written(end) for end in ends]
    if root.public:
        about["public"] = True
    return about


class Session(Answers):
    """What a service may talk to: one template, every answer a function of the noised roots."""

    def __init__(
        self,
        view: RecipientView,
        template: Template,
        *,
        tokens: Tokens | None = None,
        calibrate: bool = False,
    ) -> None:
        calibrated = (template.name,) if calibrate else ()
        super().__init__(view, (template,), tokens=tokens, calibrated=calibrated)
        self.template = template
        self.graph = self._parts[0].graph
        self.calibrated = self._parts[0].calibrated

    def __repr__(self) -> str:
        return f"<Session {self.template.name}: {', '.join(self._parts[0].sanitized)} noised once>"

    def _repr_html_(self) -> str:
        """What is promised; no value: who looks at a session has not asked for one."""
        return self.guarantee()._repr_html_()

    def to_prompt(self) -> str:
        """What a model may be told: every root as it is released, in words and units. Released."""
        parts = []
        for name in self._parts[0].sanitized:
            root, value = self._parts[0].roots[name], self.release(name)
            shown = f"{value:.{root.places}f}" if isinstance(value, float) else str(value)
            parts.append(f"{root.label}: {shown} {root.unit}".rstrip())
        return "\n".join(["My values (noised once, for privacy):", *parts])

    def describe(self) -> dict[str, object]:
        """Everything a service may know, without asking for anything: public, JSON-ready."""
        roots = {
            root: {
                "unit": self._parts[0].roots[root].unit,
                "bounds": [sanitized.domain.lower, sanitized.domain.upper],
                "step": sanitized.domain.step,
                "epsilon": float(sanitized.epsilon),
                "mechanism": sanitized.mechanism,
                "version": sanitized.version,
                **described(self._parts[0].roots[root]),
            }
            for root, sanitized in self._parts[0].sanitized.items()
        }
        computed = {
            node.name: to_text(node.formula)
            for node in self.graph.order
            if node.formula is not None and node.kind != "request"
        }
        return {
            "template": self.template.name,
            "title": self.template.title,
            "roots": roots,
            "computed": computed,
            "target": self.template.target.name,
            "calibrated": self.calibrated,
            "identifiers": sorted(self._tokens),
        }

    def guarantee(self) -> Guarantee:
        """What is promised, in which unit, and what is not."""
        return self._parts[0].guarantee(len(self._tokens))
