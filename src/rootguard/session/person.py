"""One person's guarded values over one or several templates: what a channel speaks to.

A `Person` is opened from a profile and a store, and answers as any session does. A root that has no
value yet may be *sighted* in the owner's own words, or in the result of a tool that the owner's
policy trusts: it is noised then, once for this principal, whoever sights it first and wherever;
every later number for it is ignored. Numbers and identifiers go in and do not come out again.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import date, datetime
from types import MappingProxyType
from typing import Final, Self

from rootguard.accounting import Guarantee
from rootguard.allocation import Plan
from rootguard.errors import (
    AccessError,
    RootGuardError,
    StoreMissingError,
    UnknownNameError,
    shielded,
)
from rootguard.events import ChangedPlace, PlacesRefused, TokenRefused, ValueReleased
from rootguard.expressions import to_text
from rootguard.graph import Graph
from rootguard.identifiers import Conversations, Identifiers, Kind
from rootguard.identifiers.streaming import StreamRestorer
from rootguard.language.fold import key_of
from rootguard.language.names import formulas
from rootguard.sanitizer import sealed, unusable
from rootguard.session.declared import (
    Declarations,
    PersonConversation,
    Replacement,
    issue_tokens,
)
from rootguard.session.draws import current, kept_formulas, sight_once
from rootguard.session.guard import Notice, set_lifetime, take_values, tier_of, warn_owner
from rootguard.session.policy import TextRule
from rootguard.session.profile import Profile
from rootguard.session.series import drawn_on
from rootguard.session.session import Answers, RecipientView, Tokens, described
from rootguard.store import Snapshot, Store
from rootguard.template import Root, Template
from rootguard.values import Form, RootName, to_micro

__all__ = ["Person", "PersonConversation", "Replacement"]


class Person(Answers):
    """Answers for one person, to one recipient. Safe to share by threads; made by `open`."""

    _identifiers: Identifiers

    def __init__(
        self,
        profile: Profile,
        view: RecipientView,
        plans: Mapping[RootName, Plan],
        tokens: Tokens,
        notice: Notice,
        *,
        text: TextRule = "guard",
    ) -> None:
        super().__init__(
            view,
            profile.templates,
            tokens=tokens,
            calibrated=_calibrated(profile),
        )
        self._identifiers = tokens.identifiers
        self._plans = plans
        self._on_clamp = notice
        self.detection = profile.detection
        self.text: TextRule = text
        self._sources = frozenset[str]() if profile.policy is None else profile.policy.sources
        texts = profile.identifiers.open().values()
        self._declarations = Declarations(texts, tokens.identifiers)
        self._formulas = formula_names(profile.templates)
        self._conversations: Conversations[PersonConversation] = Conversations()
        self._roots = MappingProxyType(
            # By who declares it: a template that computes from kept values has them as roots, too.
            {
                root: next(each.roots[root] for each in profile.templates if root in each.roots)
                for root in plans
            }
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
        policy, owner = profile.policy, profile.principal
        if profile.vault is not None and store.vault_id != profile.vault:
            raise StoreMissingError(
                f"this is not the vault {profile.vault}, which the profile names; open that one, or"
                " every value would be noised anew"
            )
        if service is not None:
            if policy is None:
                raise AccessError(service)
            policy.access(service)  # before anything is drawn
        plans: dict[RootName, Plan] = {}
        for plan in profile.plans():
            for share in plan.shares:
                plans.setdefault(share.root, plan)
        person = store.snapshot(owner)
        tokens = issue_tokens(profile.identifiers.open(), None, store, person)
        if profile.lifetime is not None:
            person = set_lifetime(store, person, plans, profile.lifetime)
        person = _take_profile(store, person, profile, plans, on_clamp)
        tier = None
        text: TextRule = "guard"
        if service is not None and policy is not None:  # what it may have is of these versions
            tier = tier_of(policy, service, profile.templates, person, profile.plan)
            text = policy.access(service).text
        view = RecipientView(store, person, tier=tier)
        notice = on_clamp or warn_owner
        return cls(profile, view, MappingProxyType(plans), tokens, notice, text=text)

    def __repr__(self) -> str:
        return f"<Person: {', '.join(template.name for template in self.templates)}>"

    @property
    def roots(self) -> Mapping[RootName, Root]:
        """The roots that are noised, of all templates: unit, aliases, bounds. Public."""
        return self._roots

    @shielded
    def sight(self, root: str, value: Form) -> None:
        """The owner, or a source that the owner trusts, gave this root a value in its own form.

        Whoever calls this answers for that: what anybody else says must not come here.
        Noised and kept if this root of this person never was, by anyone who shares the store;
        ignored otherwise: the value that is kept stands. Nothing of it is given back.
        """
        name = RootName(root)
        raw = sealed(value, self._roots.get(name))
        del value  # a foreign error of the store would pass with this frame
        if name not in self._plans:
            raise UnknownNameError("root", root, tuple(self._plans))
        if raw is None:
            raise unusable(self._roots, (name,))
        with self._lock:
            if self.known(name):
                return
            # Before the draw, as in `take_values`: a notice that raises leaves nothing charged.
            if raw.outside(self._roots[name].domain):
                self._on_clamp((name,))
            plan, store = self._plans[name], self._view.store
            epoch = self._view.person.epoch
            sight_once(store, self.principal, epoch, plan, self._roots, name, raw)

    def check(self) -> None:
        """Refuse to go on for a profile that was erased since this began."""
        self._view.check()

    def trusts(self, *tools: str) -> bool:
        """Whether the owner's policy trusts a tool, by any of its names, to teach values."""
        return not self._sources.isdisjoint(tools)

    def number_on(self, root: str, day: date) -> float | None:
        """A root's draw of a date, if draws are kept by their date (`daily`) and one was made then.

        None for a service in a tier: its level is made of what stands now.
        """
        name = RootName(root)
        with self._lock:
            if name not in self._plans or self._view.access is not None:
                return None
            record = drawn_on(self._view.store, self.principal, name, day)
            if record is None:
                return None
            self._view.disclose_draw(record)
            value = self._home(root).shown(record.sanitized)
            self._transcript.append(
                ValueReleased(
                    turn=self._transcript.next_turn,
                    name=f"{root} on {day.isoformat()}",
                    formula="",
                    value=value,
                    rests_on=(name,),
                    levels=(to_micro(record.sanitized.epsilon),),
                    recipient="",
                    tier="",
                )
            )
            return value

    def known(self, root: str) -> bool:
        """Whether this root has a released value."""
        if root not in self._plans:
            return False
        return self._view.holds(RootName(root)) or self._home(root).graph[root].kind != "root"

    @property
    def formulas(self) -> tuple[tuple[str, tuple[RootName, ...]], ...]:
        """What the templates' calculations are called, and their roots in order. Public."""
        return self._formulas

    def computed(self, template: str) -> float | None:
        """A template's target, if the profile has the template and every root of it a value."""
        for each in self.templates:
            if each.name == template and all(map(self.known, each.roots)):
                return self.target(template)
        return None

    def assess(self, template: str) -> dict[str, object]:
        """What a template comes to: its target by name, value and unit, and the risk class."""
        with self._lock:
            value = self.target(template)
            assessed = self._part(template).template
            found = assessed.classify(value)
            return {
                "template": assessed.name,
                "target": assessed.target.name,
                "value": value,
                "unit": assessed.target.unit,
                "risk": None if found is None else found.label,
            }

    def unit(self, name: str) -> str:
        """The unit of a named value; an identifier has none."""
        with self._lock:
            return "" if name in self._tokens else self._home(name).graph[name].unit

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

    def conversation(self, continues: str | None = None) -> PersonConversation:
        """Tokens for one conversation: a new one, or the one that is known by an id.

        If the id is not known (any more, or in this process), what was issued for this person in
        any conversation counts as issued in it.
        """
        known = None if continues is None else self._conversations.find(continues)
        if known is not None:
            return known
        return PersonConversation(
            self._identifiers.issuer(),
            self._declarations,
            self._tokens.values(),
            whole_registry=continues is not None,
        )

    def keep_conversation(self, name: str, conversation: PersonConversation) -> None:
        """Know a conversation by an id that a service gave, for `conversation`; in memory."""
        self._conversations.keep(name, conversation)

    def one_look(self) -> AbstractContextManager[None]:
        """What this thread asks of the registry inside is answered from one look at it."""
        return self._identifiers.one_look()

    def issued_mark(self) -> tuple[int, int]:
        """How far the registry of tokens goes now, for `issued_since`."""
        return self._identifiers.cursor()

    def issued_since(self, mark: tuple[int, int]) -> list[str] | None:
        """The tokens that were issued since then; None if the registry has begun anew."""
        return self._identifiers.since(mark)

    def restorer(self) -> StreamRestorer:
        """Restores a text that arrives in pieces."""
        return self._identifiers.stream()

    def refuse_tokens(self, found: Mapping[str, int]) -> None:
        """Write down that a reply held identifiers which were never issued: how many, by kind."""
        with self._lock:
            for kind, times in found.items():
                self._transcript.append(
                    TokenRefused(turn=self._transcript.next_turn, identifier=kind, times=times)
                )

    def note_changes(self, places: Sequence[ChangedPlace]) -> None:
        """Write down what of a request did not leave as it was written. Public words only."""
        if places:
            self._note_places("", "", places)

    def note_refusal(
        self, problem: Exception, *, rule: str, places: Sequence[ChangedPlace] = ()
    ) -> None:
        """Write down that a request was refused, why and where, unless asking here logged it."""
        if isinstance(problem, RootGuardError) and problem.logged:
            return
        self._note_places(type(problem).__name__, rule, places)

    def _note_places(self, reason: str, rule: str, places: Sequence[ChangedPlace]) -> None:
        with self._lock:
            turn, few = self._transcript.next_turn, few_places(places)
            self._transcript.append(PlacesRefused(turn=turn, reason=reason, rule=rule, places=few))

    def guarantee(self) -> dict[str, Guarantee]:
        """What is promised for each template, in which unit, and what is not."""
        with self._lock:
            return {
                part.template.name: part.guarantee(0 if place else len(self._tokens))
                for place, part in enumerate(self._parts)
            }

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
                    **described(root),
                }
                for name, root in self._roots.items()
            },
            "computed": computed,
            "identifiers": sorted(self._tokens),
        }


_PLACES: Final = 32
"""Places of one request that are written down; the others are counted by kind and root."""
_LONGEST: Final = 200  # characters of a path


def few_places(places: Iterable[ChangedPlace]) -> tuple[ChangedPlace, ...]:
    """Equal places counted together, and as many as a log should hold of one request."""
    listed = tuple(places)
    short = len(listed) <= _PLACES and all(len(each.path) <= _LONGEST for each in listed)
    if short and len(set(listed)) == len(listed):
        return listed
    counts: dict[ChangedPlace, int] = {}
    for each in listed:
        path = each.path[:_LONGEST]
        one = replace(each, path=path, times=1)
        if one not in counts and len(counts) >= _PLACES:
            one = replace(one, path="")
        counts[one] = counts.get(one, 0) + each.times
    return tuple(replace(each, times=times) for each, times in counts.items())


def _take_profile(
    store: Store,
    person: Snapshot,
    profile: Profile,
    plans: Mapping[RootName, Plan],
    notice: Notice | None,
) -> Snapshot:
    """Noise a profile's values; a root that is a formula of kept ones after those, if need be."""
    roots: dict[RootName, Root] = {}
    for template in profile.templates:
        roots = {**template.roots, **roots}
    how, when = profile.on_change, datetime.now().astimezone().date()
    given = profile.values
    first = {root: raw for root, raw in given.items() if roots[root].kept is None}
    take_values(store, person, plans, roots, first, notice, on_change=how, when=when)
    person = current(store, person.name, person.epoch)
    drawn = [kept_formulas(person, each)[0].roots for each in profile.templates]
    rest = {
        root: raw
        for root, raw in given.items()
        if root not in first and any(root in each for each in drawn)
    }
    if rest:
        take_values(store, person, plans, roots, rest, notice, on_change=how, when=when)
        person = current(store, person.name, person.epoch)
    return person


def formula_names(
    templates: Iterable[Template],
) -> tuple[tuple[str, tuple[RootName, ...]], ...]:
    """What the calculations of templates are called, and their roots in order. Public."""
    return tuple(
        (key_of(called), tuple(each.roots))
        for each in templates
        for called in (each.name, each.target.name, *formulas().get(each.name, ()))
    )


def _calibrated(profile: Profile) -> tuple[str, ...]:
    """Templates whose every root has a value in the profile.

    A root that is sighted later would move the others, and what was released must stay.
    """
    return tuple(
        template.name
        for template in profile.templates
        if profile.calibrate and all(root in profile.values for root in Graph.of(template).roots)
    )
