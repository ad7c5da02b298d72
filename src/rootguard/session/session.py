"""A guarded session: answers anything, from values that were noised once.

A `Session` is built from what a store kept; it holds no raw number, so no formula, error or caller
can get one out of it. If it was opened for a service, the policy says what that service may ask.
Roots that were never noised are refused by name until they are.

A calibrated session answers from roots that were moved towards what the population makes likely
(see `calibration`). It needs every root, and a recipient who may have every root: a calibrated
value tells of all of them. Otherwise the roots are answered as they were noised.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

from rootguard.accounting import Guarantee, Ledger, RootGuarantee
from rootguard.calibration import Calibration, Level
from rootguard.errors import (
    FormulaNameError,
    NameTakenError,
    PrivateValueError,
    RootGuardError,
)
from rootguard.events import Event, RequestRefused, ValueReleased
from rootguard.expressions import CONSTANTS, Node, Variable, evaluate, names, parse, to_text
from rootguard.graph import Graph, GraphNode
from rootguard.identifiers import Identifiers
from rootguard.session.policy import Access
from rootguard.session.questions.answers import answer
from rootguard.session.questions.wording import Vocabulary
from rootguard.session.transcript import Transcript
from rootguard.template import Template
from rootguard.values import Principal, RootName, Sanitized, to_micro

_Value = TypeVar("_Value", float, str)


@lru_cache(maxsize=4096)
def parsed(formula: str) -> tuple[Node, str]:
    """A formula and its canonical text. Formulas come from services and are public."""
    node = parse(formula)
    return node, to_text(node)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """A session's identifiers: what they are called, what is released, and who can restore it."""

    issued: Mapping[str, str]
    identifiers: Identifiers


class Session:
    """What a service may talk to. Every answer is a function of the noised roots."""

    def __init__(
        self,
        *,
        template: Template,
        principal: Principal,
        sanitized: Mapping[RootName, Sanitized],
        ledger: Ledger,
        tokens: Tokens | None = None,
        access: Access | None = None,
        on_release: Callable[[tuple[RootName, ...]], None] | None = None,
        find: Callable[[RootName], Sanitized | None] | None = None,
        transcript: Transcript | None = None,
        calibrate: bool = False,
    ) -> None:
        self.template = template
        self.principal = principal
        self.graph = Graph.of(template)
        self._sanitized: dict[RootName, Sanitized] = {}
        self._levels: dict[RootName, int] = {}
        self._values: dict[str, float] = {}
        self._find = find
        self._ledger = ledger
        self._identifiers = None if tokens is None else tokens.identifiers
        self._tokens = {} if tokens is None else dict(tokens.issued)
        self._access = access
        self._recipient = "" if access is None else access.service
        self._tier = "" if access is None else access.tier
        self._on_release = on_release
        self._disclosed: set[RootName] = set()
        self._requests: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._roots_behind: dict[str, tuple[RootName, ...]] = {}
        self._transcript = Transcript() if transcript is None else transcript
        self._lock = threading.RLock()
        for root, value in sanitized.items():
            self._hold(root, value)
        self.calibrated = calibrate and self._may_calibrate()
        if self.calibrated:
            levels = {root: Level.of(value) for root, value in self._sanitized.items()}
            for root, released in Calibration(template, levels).release(self._sanitized).items():
                self._values[root] = template.roots[root].domain.clamp(released)

    def __repr__(self) -> str:
        return f"<Session {self.template.name}: {', '.join(self._sanitized)} noised once>"

    def release(self, name: str) -> float | str:
        """A root, a derived value, the target or an identifier, by name. The same for ever."""
        with self._lock:
            try:
                if name in self._tokens:
                    self._allow(name, "", ())
                    return self._cross(name, "", self._tokens[name], ())
                node = self.graph[name]
                self._allow(name, self._text_of(node), self._rests_on(name))
                value = self._peek(name)
            except RootGuardError as refusal:
                self._refuse(refusal)
                raise
            return self._cross(name, self._text_of(node), value, self._rests_on(name))

    def derive(self, formula: str, *, name: str | None = None) -> float:
        """The value of any formula of named values. Given a name, later formulas may use it."""
        with self._lock:
            try:
                node, text = parsed(formula)
                if name is None and text in self._requests:  # allowed and computed before
                    called = self._requests[text]
                    return self._cross(called, text, self._values[called], self._rests_on(called))
                rests_on = self._behind(node)
                self._allow("", text, rests_on)
                self._need(rests_on)
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

    def answer(self, question: str) -> str:
        """A question in words, answered in sentences made of released values."""
        vocabulary = Vocabulary.of((self.template,), tuple(self._tokens))
        return answer(question, self, vocabulary)

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
            "calibrated": self.calibrated,
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

    def _may_calibrate(self) -> bool:
        """Whether every root is there, and this recipient may have every one."""
        allowed = None if self._access is None else self._access.roots
        return all(
            root in self._sanitized and (allowed is None or root in allowed)
            for root in self.graph.roots
        )

    def _hold(self, root: RootName, value: Sanitized) -> None:
        """Take up a root's noised value."""
        self._sanitized[root] = value
        self._levels[root] = to_micro(value.epsilon)
        # A root noised on another template's grid keeps its value; the bounds here may cut it.
        self._values[root] = self.template.roots[root].domain.clamp(value.value)

    def _need(self, roots: tuple[RootName, ...]) -> None:
        """Refuse roots that were never noised; one that was noised meanwhile is taken up."""
        missing: tuple[RootName, ...] = ()
        for root in roots:
            if root not in self._sanitized:
                found = None if self._find is None else self._find(root)
                if found is None:
                    missing += (root,)
                else:
                    self._hold(root, found)
        if missing:
            raise PrivateValueError(
                "never noised for this principal, so open with a value", missing
            )

    def _peek(self, name: str) -> float:
        """A named value that does not cross the boundary here."""
        self._need(self._rests_on(name))
        return self._value(name)

    def _value(self, name: str) -> float:
        """A named value, computed from its parents when first needed."""
        if name not in self._values:
            if name not in self.graph:
                raise FormulaNameError(name, tuple(node.name for node in self.graph.order))
            formula = self.graph[name].formula or Variable(name)  # a root's value is always there
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
            if parse(name) != Variable(name) or name in CONSTANTS:
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
            self._roots_behind[name] = self._behind(Variable(name))
        return self._roots_behind[name]

    def _behind(self, node: Node) -> tuple[RootName, ...]:
        """The roots that a value tells of; a calibrated one tells of all of them."""
        rests_on = self.graph.rests_on(node)
        return self.graph.roots if self.calibrated and rests_on else rests_on

    def _allow(self, name: str, formula: str, rests_on: tuple[RootName, ...]) -> None:
        if self._access is not None:
            self._access.check(name, formula, rests_on)

    def _cross(
        self, name: str, formula: str, value: _Value, rests_on: tuple[RootName, ...]
    ) -> _Value:
        """Write down what crosses the boundary, then let it."""
        if self._on_release is not None and not self._disclosed.issuperset(rests_on):
            self._on_release(tuple(root for root in rests_on if root not in self._disclosed))
            self._disclosed.update(rests_on)
        self._transcript.append(
            ValueReleased(
                turn=self._transcript.next_turn,
                name=name,
                formula=formula,
                value=value,
                rests_on=rests_on,
                levels=tuple([self._levels[root] for root in rests_on]),
                recipient=self._recipient,
                tier=self._tier,
            )
        )
        return value

    def _refuse(self, refusal: RootGuardError) -> None:
        self._transcript.append(
            RequestRefused(turn=self._transcript.next_turn, reason=type(refusal).__name__)
        )
