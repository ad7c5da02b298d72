"""One person's guarded values over one or several templates: what a channel speaks to.

A `Person` is opened from a profile and a store. Each template has its session, all of them on the
same kept roots and with one transcript. A root that has no value yet may be *sighted* in a text:
it is noised then, once for this principal, whoever sights it first and wherever; every later number
for it is ignored. Numbers and identifiers go in and do not come out again.
"""

import threading
from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from types import MappingProxyType
from typing import Self

from rootguard.accounting import Guarantee, Ledger
from rootguard.allocation import Plan
from rootguard.calibration import make_plan
from rootguard.errors import (
    AccessError,
    FormulaError,
    FormulaNameError,
    PrivateValueError,
    RootGuardError,
    UnknownNameError,
    shielded,
)
from rootguard.events import Event, RequestRefused, TokenRefused, ValueReleased
from rootguard.expressions import Variable, evaluate, names, to_text
from rootguard.graph import Graph
from rootguard.identifiers import Kind
from rootguard.identifiers.streaming import StreamRestorer
from rootguard.session.declared import Declarations, Replacement, issue_tokens
from rootguard.session.draws import noise_once, sight_once
from rootguard.session.guard import Notice, warn_owner
from rootguard.session.journal import Journal
from rootguard.session.kept import Kept, Tier
from rootguard.session.profile import Profile
from rootguard.session.questions.answers import answer
from rootguard.session.questions.wording import Vocabulary
from rootguard.session.session import Session, Tokens, parsed
from rootguard.session.transcript import KEPT, Transcript
from rootguard.store import Store
from rootguard.template import Root, Template
from rootguard.values import Principal, Raw, RootName, to_micro

__all__ = ["Person", "Replacement"]


class Person:
    """Answers for one person, to one recipient. Safe to share by threads; made by `open`."""

    def __init__(
        self,
        *,
        principal: Principal,
        store: Store,
        plans: Mapping[RootName, Plan],
        templates: tuple[Template, ...],
        tier: Tier | None,
        calibrated: Container[str],
        tokens: Tokens,
        declarations: Declarations,
        on_clamp: Notice,
    ) -> None:
        self.principal = principal
        self.templates = templates
        self._store = store
        self._plans = plans
        self._access = None if tier is None else tier.access
        self._identifiers = tokens.identifiers
        self._tokens = tuple(tokens.issued)
        self._declarations = declarations
        self._on_clamp = on_clamp
        self._kept = Kept(store, principal, tier=tier)
        service = "" if tier is None else tier.access.service
        journal = Journal(store, principal, templates, service=service)
        self._transcript = Transcript(KEPT, note=journal.note)
        self._lock = threading.RLock()
        self._sessions = tuple(
            self._kept.session(
                template,
                tokens=None if place else tokens,
                transcript=self._transcript,
                calibrate=template.name in calibrated,
            )
            for place, template in enumerate(templates)
        )
        self._roots = MappingProxyType(
            {root: self._home(root).template.roots[root] for root in plans}
        )

    @classmethod
    @shielded
    def open(
        cls,
        profile: Profile,
        *,
        store: Store,
        service: str | None = None,
        on_clamp: Notice | None = None,
    ) -> Self:
        """Noise the profile's values, as far as the store does not hold them, and speak for it.

        A root that two templates share is noised once, under the plan of the first. Given a
        service, what it is told is at its tier and within what the profile's policy allows it.
        """
        if service is not None and profile.policy is None:
            raise AccessError(service)
        tier = None if service is None else _tier(profile, service)
        plans: dict[RootName, Plan] = {}
        for template in profile.templates:
            plan = make_plan(
                template,
                profile.budgets[template.name],
                mechanism_name=profile.mechanism,
                allocation=profile.allocation,
            )
            for share in plan.shares:
                plans.setdefault(share.root, plan)
        tokens = issue_tokens(profile.identifiers.open(), None, store, profile.principal)
        notice = on_clamp or warn_owner
        clamped = tuple(r for r, raw in profile.values.items() if raw.outside(plans[r][r].domain))
        if clamped:
            notice(clamped)
        for plan in dict.fromkeys(plans.values()):
            raws = {root: raw for root, raw in profile.values.items() if plans[root] is plan}
            noise_once(store, profile.principal, plan, raws)
        return cls(
            principal=profile.principal,
            store=store,
            plans=MappingProxyType(plans),
            templates=profile.templates,
            tier=tier,
            calibrated=_calibrated(profile),
            tokens=tokens,
            declarations=Declarations(profile.identifiers.open().values(), tokens.identifiers),
            on_clamp=notice,
        )

    def __repr__(self) -> str:
        return f"<Person: {', '.join(template.name for template in self.templates)}>"

    @property
    def roots(self) -> Mapping[RootName, Root]:
        """The roots that are noised, of all templates: unit, aliases, bounds. Public."""
        return self._roots

    @property
    def names(self) -> tuple[str, ...]:
        """What may be asked by name: roots, derived values, targets and identifiers."""
        nodes = {node.name: session for session in self._sessions for node in session.graph.order}
        asked = [name for name, s in nodes.items() if s.graph[name].kind != "request"]
        return tuple(name for name in (*asked, *self._tokens) if self._allowed(name))

    @shielded
    def sight(self, root: str, number: float) -> None:
        """A private number was seen for this root, in the root's own unit.

        Noised and kept if this root of this person never was, by anyone who shares the store;
        ignored otherwise: the value that is kept stands. Nothing of it is given back.
        """
        raw = Raw(number) if Raw.accepts(number) else None
        del number  # a foreign error of the store would pass with this frame
        name = RootName(root)
        if name not in self._plans:
            raise UnknownNameError("root", root, tuple(self._plans))
        if raw is None:
            raise PrivateValueError("a finite number is needed for", (name,))
        with self._lock:
            if self._kept.holds(name):
                return
            sight_once(self._store, self.principal, self._plans[name], name, raw)
            if raw.outside(self._roots[name].domain):
                self._on_clamp((name,))

    def known(self, root: str) -> bool:
        """Whether this root has a released value."""
        return root in self._plans and self._kept.holds(RootName(root))

    def release(self, name: str) -> float | str:
        """A root, a derived value, a target or an identifier's token, by name. For ever the same.

        A name goes to the first template that has it.
        """
        with self._lock:
            if name not in self._tokens and not self._has(name):
                raise self._refused(UnknownNameError("value", name, self.names))
            return self._home(name).release(name)

    def derive(self, formula: str) -> float:
        """The value of any formula of named values, of one template or of several."""
        with self._lock:
            try:
                wanted = names(parsed(formula)[0])
            except FormulaError as problem:
                raise self._refused(problem) from None
            for session in self._sessions:
                if all(name in session.graph for name in wanted):
                    return session.derive(formula)
            try:
                return self._derive_across(formula)
            except RootGuardError as problem:
                raise self._refused(problem) from None

    def target(self, template: str | None = None) -> float:
        """A template's target, by default the first one's."""
        with self._lock:
            return self._session(template).target()

    def risk(self, template: str | None = None) -> str | None:
        """The label of a target's risk class; None where the template defines no classes."""
        with self._lock:
            return self._session(template).risk()

    def assess(self, template: str) -> dict[str, object]:
        """What a template comes to: its target by name, value and unit, and the risk class."""
        with self._lock:
            session = self._session(template)
            value = session.target()
            found = session.template.classify(value)
            return {
                "template": session.template.name,
                "target": session.template.target.name,
                "value": value,
                "unit": session.template.target.unit,
                "risk": None if found is None else found.label,
            }

    def unit(self, name: str) -> str:
        """The unit of a named value; an identifier has none."""
        with self._lock:
            if name in self._tokens:
                return ""
            if not self._has(name):
                raise UnknownNameError("value", name, self.names)
            return self._home(name).graph[name].unit

    @shielded
    def protect(self, kind: Kind, text: str) -> str:
        """The token of an identifier found in a text, issued for this person."""
        return self._identifiers.protect(kind, text)

    @shielded
    def declared(self, text: str) -> list[Replacement]:
        """Where identifiers of the profile stand in a text, however spelled, and their tokens."""
        return self._declarations.find(text)

    @shielded
    def issued(self, text: str) -> list[tuple[int, int]]:
        """Where tokens that were issued for this person stand in a text."""
        return self._identifiers.spans(text)

    def one_look(self) -> AbstractContextManager[None]:
        """What this thread asks of the registry inside is answered from one look at it."""
        return self._identifiers.one_look()

    def issued_mark(self) -> tuple[int, int]:
        """How far the registry of tokens goes now, for `issued_since`."""
        return self._identifiers.cursor()

    def issued_since(self, mark: tuple[int, int]) -> list[str] | None:
        """The tokens that were issued since then; None if the registry has begun anew."""
        return self._identifiers.since(mark)

    def restore(self, text: str) -> str:
        """A text with issued tokens put back; everything else stays. For the owner's eyes."""
        return self._identifiers.restore_text(text)

    def restorer(self) -> StreamRestorer:
        """Restores a text that arrives in pieces."""
        return self._identifiers.stream()

    def answer(self, question: str) -> str:
        """A question in words, answered in words from released values."""
        with self._lock:
            return answer(question, self, Vocabulary.of(self.templates, self._tokens))

    def refuse_tokens(self, found: Mapping[str, int]) -> None:
        """Write down that a reply held identifiers which were never issued: how many, by kind."""
        with self._lock:
            for kind, times in found.items():
                self._transcript.append(
                    TokenRefused(turn=self._transcript.next_turn, identifier=kind, times=times)
                )

    def note_refusal(self, problem: Exception) -> None:
        """Write down that a request was refused before anything was asked here: why, by class."""
        with self._lock:
            reason = type(problem).__name__
            self._transcript.append(RequestRefused(turn=self._transcript.next_turn, reason=reason))

    def transcript(self) -> tuple[Event, ...]:
        """What crossed the boundary lately, in order over all templates, and what was refused."""
        with self._lock:
            return tuple(self._transcript)

    def spent(self) -> dict[str, Fraction]:
        """What this person has spent on each root until now, wherever it was spent."""
        return Ledger(self._store.events(self.principal)).spent

    def guarantee(self) -> dict[str, Guarantee]:
        """What is promised for each template, in which unit, and what is not."""
        with self._lock:
            return {session.template.name: session.guarantee() for session in self._sessions}

    def describe(self) -> dict[str, object]:
        """Everything a service may know, without asking for anything: public, JSON-ready."""
        computed: dict[str, str] = {}
        for node in (node for each in self.templates for node in Graph.of(each).order):
            if node.formula is not None:
                computed.setdefault(node.name, to_text(node.formula))
        return {
            "templates": [
                {"name": each.name, "title": each.title, "target": each.target.name}
                for each in self.templates
            ],
            "roots": {
                name: {
                    "unit": root.unit,
                    "bounds": [root.domain.lower, root.domain.upper],
                    "aliases": list(root.aliases),
                }
                for name, root in self._roots.items()
            },
            "computed": computed,
            "identifiers": sorted(self._tokens),
        }

    def _derive_across(self, formula: str) -> float:
        """A formula over several templates; each name is computed in its own session."""
        node, text = parsed(formula)
        wanted = sorted(names(node))
        for name in wanted:
            if not self._has(name):
                raise FormulaNameError(name, self.names)
        homes = {name: self._home(name) for name in wanted}
        behind = {root for n, home in homes.items() for root in home._behind(Variable(n))}
        rests_on = tuple(root for root in self._plans if root in behind)
        if self._access is not None:
            self._access.check("", text, rests_on)
        value = evaluate(node, {name: home._peek(name) for name, home in homes.items()})
        self._kept.disclose(rests_on)
        self._transcript.append(
            ValueReleased(
                turn=self._transcript.next_turn,
                name="",
                formula=text,
                value=value,
                rests_on=rests_on,
                levels=self._levels(rests_on),
                recipient="" if self._access is None else self._access.service,
                tier="" if self._access is None else self._access.tier,
            )
        )
        return value

    def _levels(self, roots: Sequence[RootName]) -> tuple[int, ...]:
        found = [self._kept.find(root) for root in roots]
        return tuple(to_micro(value.epsilon) for value in found if value is not None)

    def _has(self, name: str) -> bool:
        return any(name in session.graph for session in self._sessions)

    def _home(self, name: str) -> Session:
        """The first session that has a name; identifiers are in the first of all."""
        return next((s for s in self._sessions if name in s.graph), self._sessions[0])

    def _session(self, template: str | None) -> Session:
        for session in self._sessions:
            if template in (None, session.template.name):
                return session
        known = tuple(each.name for each in self.templates)
        raise self._refused(UnknownNameError("template", str(template), known))

    def _allowed(self, name: str) -> bool:
        if self._access is None:
            return True
        try:
            if name in self._tokens:
                self._access.check(name, "", ())
            else:
                graph = self._home(name).graph
                formula = graph[name].formula
                written = "" if formula is None else to_text(formula)
                self._access.check(name, written, graph.rests_on(Variable(name)))
        except AccessError:
            return False
        return True

    def _refused(self, refusal: RootGuardError) -> RootGuardError:
        """Write down a refusal, and give it back to be raised."""
        self._transcript.append(
            RequestRefused(turn=self._transcript.next_turn, reason=type(refusal).__name__)
        )
        return refusal


def _calibrated(profile: Profile) -> tuple[str, ...]:
    """Templates whose every root has a value in the profile.

    A root that is sighted later would move the others, and what was released must stay.
    """
    return tuple(
        template.name
        for template in profile.templates
        if profile.calibrate and all(root in profile.values for root in Graph.of(template).roots)
    )


def _tier(profile: Profile, service: str) -> Tier:
    """A service's tier: of a root that templates share, the level that the first gives it."""
    if profile.policy is None:
        raise AccessError(service)
    access = profile.policy.access(service)
    epsilons: dict[RootName, Fraction] = {}
    for template in profile.templates:
        budget = profile.policy.tiers[access.tier]
        for share in make_plan(template, budget, allocation=profile.allocation).shares:
            epsilons.setdefault(share.root, share.epsilon)
    return Tier(access=access, epsilons=MappingProxyType(epsilons))
