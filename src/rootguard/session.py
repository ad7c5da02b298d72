"""A guarded session: answers anything, from values that were noised once.

`Guard.open` is the door: raw values go in, are sealed, noised and committed, and do not come
further. A `Session` is built from what the store kept; it holds no raw number, so no formula, error
or caller can get one out of it.
"""

import threading
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

from rootguard.accounting import Guarantee, Ledger, RootGuarantee
from rootguard.allocation import Objective, Plan, make_plan, read_budget
from rootguard.errors import (
    ClampedWarning,
    FormulaNameError,
    IdentifierError,
    NameTakenError,
    PrivateValueError,
    RootGuardError,
    StoreError,
)
from rootguard.events import Event, RequestRefused, RootNoised, ValueReleased
from rootguard.expressions import CONSTANTS, Name, Node, evaluate, names, parse, to_text
from rootguard.graph import Graph, GraphNode
from rootguard.identifiers import Identifiers, kind_of, new_key
from rootguard.mechanisms import mechanism_named
from rootguard.sanitizer import sanitize, seal, select
from rootguard.store import MemoryStore, Record, Store
from rootguard.template import Template
from rootguard.values import AllocationName, Principal, Raw, RootName, Sanitized, to_micro

Amount = str | float | Fraction
_Value = TypeVar("_Value", float, str)


@lru_cache(maxsize=4096)
def _parsed(formula: str) -> tuple[Node, str]:
    """A formula and its canonical text. Formulas come from services and are public."""
    node = parse(formula)
    return node, to_text(node)


class Session:
    """What a service may talk to. Every answer is a function of the noised roots."""

    def __init__(
        self,
        *,
        template: Template,
        principal: Principal,
        sanitized: Mapping[RootName, Sanitized],
        ledger: Ledger,
        identifiers: Identifiers | None = None,
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        self.template = template
        self.principal = principal
        self.graph = Graph.of(template)
        self._sanitized = dict(sanitized)
        self._ledger = ledger
        self._identifiers = identifiers
        self._tokens = dict(tokens or {})
        # A root noised on another template's grid keeps its value; the bounds here may cut it.
        self._values: dict[str, float] = {
            root: template.roots[root].domain.clamp(sanitized[root].value)
            for root in self.graph.roots
        }
        self._requests: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._roots_behind: dict[str, tuple[RootName, ...]] = {}
        self._transcript: list[Event] = []
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<Session {self.template.name}: {', '.join(self.graph.roots)} noised once>"

    def release(self, name: str) -> float | str:
        """A root, a derived value, the target or an identifier, by name. The same for ever."""
        with self._lock:
            if name in self._tokens:
                return self._cross(name, "", self._tokens[name], ())
            try:
                node = self.graph[name]
                value = self._value(name)
            except RootGuardError as refusal:
                self._refuse(refusal)
                raise
            return self._cross(name, self._text_of(node), value, self._rests_on(name))

    def derive(self, formula: str, *, name: str | None = None) -> float:
        """The value of any formula of named values. Given a name, later formulas may use it."""
        with self._lock:
            try:
                node, text = _parsed(formula)
                if name is None and text in self._requests:
                    called = self._requests[text]
                    return self._cross(called, text, self._values[called], self._rests_on(called))
                value = evaluate(node, {parent: self._value(parent) for parent in names(node)})
                called = self._add_request(node, text, name)
            except RootGuardError as refusal:
                self._refuse(refusal)
                raise
            self._values[called] = value
            return self._cross(called, text, value, self._rests_on(called))

    def target(self) -> float:
        """The template's target, computed from the noised roots."""
        return float(self.release(self.template.target.name))

    def risk(self) -> str | None:
        """The label of the target's risk class; None where the template defines no classes."""
        found = self.template.classify(self.target())
        return None if found is None else found.label

    def restore(self, text: str) -> str:
        """A reply with the identifiers this session issued put back. For the owner's eyes."""
        return text if self._identifiers is None else self._identifiers.restore_text(text)

    def describe(self) -> dict[str, object]:
        """Everything a service may know, without asking for anything: public, JSON-ready."""
        roots = {
            root: {
                "unit": self.template.roots[root].unit,
                "bounds": [sanitized.domain.lower, sanitized.domain.upper],
                "step": sanitized.domain.step,
                "epsilon": float(sanitized.epsilon),
                "mechanism": sanitized.mechanism,
                "version": sanitized.version,
            }
            for root, sanitized in self._sanitized.items()
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
            "identifiers": sorted(self._tokens),
        }

    def guarantee(self) -> Guarantee:
        """What is promised, in which unit, and what is not."""
        return Guarantee(
            principal=self.principal,
            roots=tuple(
                RootGuarantee(
                    root=root,
                    unit=self.template.roots[root].unit,
                    epsilon=sanitized.epsilon,
                    step=sanitized.domain.step,
                    mechanism=sanitized.mechanism,
                )
                for root, sanitized in self._sanitized.items()
            ),
            computed=tuple(n.name for n in self.graph.order if n.kind in ("derived", "target")),
            identifiers=len(self._tokens),
        )

    def spent(self) -> dict[str, Fraction]:
        """What this principal has spent on each root, over all sessions of the store."""
        return self._ledger.spent

    def transcript(self) -> tuple[Event, ...]:
        """What crossed the boundary, in order, and what was refused."""
        with self._lock:
            return tuple(self._transcript)

    def _value(self, name: str) -> float:
        """A named value, computed from its parents when first needed."""
        if name not in self._values:
            if name not in self.graph:
                raise FormulaNameError(name, tuple(node.name for node in self.graph.order))
            formula = self.graph[name].formula or Name(name)  # a root's value is always there
            parents = {parent: self._value(parent) for parent in names(formula)}
            self._values[name] = evaluate(formula, parents)
        return self._values[name]

    def _add_request(self, node: Node, text: str, name: str | None) -> str:
        """Give a request its node in the graph."""
        if name is None:
            number = len(self._requests) + 1
            while (called := f"q{number}") in self.graph:
                number += 1
        else:
            if name in self._tokens:
                raise NameTakenError(name)
            if parse(name) != Name(name) or name in CONSTANTS:
                raise FormulaNameError(name)
            called = name
        self.graph.add(GraphNode(name=called, kind="request", formula=node))
        self._requests.setdefault(text, called)
        return called

    def _text_of(self, node: GraphNode) -> str:
        if node.formula is None:
            return ""
        if node.name not in self._texts:
            self._texts[node.name] = to_text(node.formula)
        return self._texts[node.name]

    def _rests_on(self, name: str) -> tuple[RootName, ...]:
        if name not in self._roots_behind:
            self._roots_behind[name] = self.graph.rests_on(Name(name))
        return self._roots_behind[name]

    def _cross(
        self, name: str, formula: str, value: _Value, rests_on: tuple[RootName, ...]
    ) -> _Value:
        """Write down what crosses the boundary, then let it."""
        self._transcript.append(
            ValueReleased(
                turn=len(self._transcript) + 1,
                name=name,
                formula=formula,
                value=value,
                rests_on=rests_on,
            )
        )
        return value

    def _refuse(self, refusal: RootGuardError) -> None:
        self._transcript.append(
            RequestRefused(turn=len(self._transcript) + 1, reason=type(refusal).__name__)
        )


def promise(template: Template, plan: Plan) -> Guarantee:
    """What a plan will guarantee once its roots are noised."""
    return Guarantee(
        principal="",
        roots=tuple(
            RootGuarantee(
                root=share.root,
                unit=template.roots[share.root].unit,
                epsilon=share.epsilon,
                step=share.domain.step,
                mechanism=plan.mechanism,
            )
            for share in plan.shares
        ),
        computed=tuple(n.name for n in Graph.of(template).order if n.kind != "root"),
        identifiers=0,
    )


class Guard:
    """Opens sessions. The raw values it is given live only while it works."""

    @staticmethod
    def open(
        template: Template,
        *,
        values: Mapping[str, float],
        budget: Amount | None = None,
        epsilon: Amount | None = None,
        turns: int | None = None,
        mechanism: str = "geometric",
        allocation: AllocationName = "optimal",
        objective: Objective | None = None,
        identifiers: Mapping[str, str] | None = None,
        key: bytes | None = None,
        store: Store | None = None,
        principal: str = "owner",
        on_clamp: Callable[[tuple[RootName, ...]], None] | None = None,
    ) -> Session:
        """Noise a person's values once, keep them, and open a session on what was kept.

        The budget is a total, or `epsilon` times `turns`. A principal whose value for a root is
        already in the store gets that one again, at the epsilon it was drawn with, for nothing;
        another value for it is a new version with its own cost. Without a store the session's
        values last as long as the session: opened again, it would draw again, and an adversary
        who sees both learns more. Pass a store to prevent that.
        """
        sealed = seal(values)
        protector, tokens, refusal = _protect(identifiers, key)
        del values, identifiers, key  # from here on no frame of an error holds anything private
        if refusal:
            raise IdentifierError(refusal)
        graph = Graph.of(template)
        for name in tokens:
            if name in graph:
                raise IdentifierError(f"{name} is both a root and an identifier; rename one")
        raws = select(sealed, graph)
        plan = make_plan(
            template,
            read_budget(total=budget, epsilon=epsilon, turns=turns),
            mechanism_name=mechanism_named(mechanism),
            allocation=allocation,
            objective=objective,
        )
        clamped = tuple(r for r, raw in raws.items() if raw.outside(template.roots[r].domain))
        if clamped:
            (on_clamp or _warn_owner)(clamped)
        store = MemoryStore() if store is None else store
        owner = Principal(principal)
        return Session(
            template=template,
            principal=owner,
            sanitized=_noise_once(store, owner, plan, raws),
            ledger=Ledger(store.events(owner)),
            identifiers=protector,
            tokens=tokens,
        )

    @staticmethod
    def resume(template: Template, *, store: Store, principal: str = "owner") -> Session:
        """A session on values that were noised before: needs no raw value and draws nothing."""
        owner = Principal(principal)
        kept = {root: store.latest(owner, root) for root in Graph.of(template).roots}
        missing = tuple(root for root, record in kept.items() if record is None)
        if missing:
            raise PrivateValueError(
                "never noised for this principal, so open with a value", missing
            )
        return Session(
            template=template,
            principal=owner,
            sanitized={root: record.sanitized for root, record in kept.items() if record},
            ledger=Ledger(store.events(owner)),
        )


def _protect(
    identifiers: Mapping[str, str] | None, key: bytes | None
) -> tuple[Identifiers | None, dict[str, str], str]:
    """Tokens for identifiers, or what is wrong with them. Raises nothing: frames would leak."""
    if identifiers is None:
        return None, {}, ""
    try:
        protector = Identifiers(new_key() if key is None else key)
    except RootGuardError as problem:
        return None, {}, str(problem)
    tokens: dict[str, str] = {}
    refused = []
    for name, text in identifiers.items():
        try:
            tokens[name] = protector.protect(kind_of(text), text)
        except Exception:  # noqa: BLE001 - its frames hold the identifier
            refused.append(name)
    problem_with = f"these identifiers cannot be protected: {', '.join(refused)}" if refused else ""
    return protector, tokens, problem_with


def _warn_owner(roots: tuple[RootName, ...]) -> None:
    warnings.warn(
        f"outside the template's public bounds, taken as the nearest bound: {', '.join(roots)}",
        ClampedWarning,
        stacklevel=3,
    )


_MAX_RACES = 100


def _noise_once(
    store: Store, principal: Principal, plan: Plan, raws: Mapping[RootName, Raw]
) -> dict[RootName, Sanitized]:
    """Draw what the store does not hold yet, commit, and return what the store kept.

    Draw, commit, release: nothing is shown that was not committed. When another writer commits
    first, its draw is the one that counts; if it was of another value, ours is the next version.
    """
    kept: dict[RootName, Sanitized] = {}
    for _ in range(_MAX_RACES):
        prints = {
            root: raw.fingerprint(store.fingerprint_key, f"{principal}\x00{root}")
            for root, raw in raws.items()
            if root not in kept
        }
        versions: dict[RootName, int] = {}
        for root, fingerprint in prints.items():
            latest = store.latest(principal, root)
            if latest is not None and latest.fingerprint == fingerprint:
                kept[root] = latest.sanitized
            else:
                versions[root] = 1 if latest is None else latest.sanitized.version + 1
        if not versions:
            return {root: kept[root] for root in raws}
        drawn = sanitize(plan, {root: raws[root] for root in versions}, versions)
        store.commit(
            principal,
            [
                Record(
                    sanitized=value,
                    fingerprint=prints[root],
                    event=RootNoised(
                        principal=principal,
                        root=root,
                        version=value.version,
                        micro_epsilon=to_micro(value.epsilon),
                        mechanism=value.mechanism,
                    ),
                )
                for root, value in drawn.items()
            ],
        )
    raise StoreError("the store is too contended to keep a value; nothing was released, try again")
