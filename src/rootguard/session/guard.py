"""Opening sessions: raw values go in, are sealed, noised and committed, and do not come further.

`Guard.open` noises what the store does not hold yet. `Guard.refine` raises the accuracy of what it
holds, for the difference in price. `Guard.resume` and `Guard.serve` need no raw value: they open
sessions on what was kept, for the owner and for a service that the policy lists. A profile's values
go the same way (`take_values`), and so does a service that asks for a profile (`tier_of`).
"""

import math
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from fractions import Fraction
from types import MappingProxyType
from typing import get_args

from rootguard.accounting import Guarantee, RootGuarantee
from rootguard.allocation import Objective, Plan, read_budget
from rootguard.calibration import make_plan
from rootguard.errors import (
    BudgetError,
    ClampedWarning,
    IdentifierError,
    PrivateValueError,
    UnknownNameError,
    shielded,
)
from rootguard.expressions import Variable
from rootguard.goals import ADVANTAGE, Distance, hiding_plan
from rootguard.graph import Graph
from rootguard.sanitizer import seal, select
from rootguard.session.declared import issue_tokens
from rootguard.session.draws import (
    PrivateValues,
    current,
    kept_formulas,
    mappings,
    noise_once,
    on_grid,
    refine_once,
)
from rootguard.session.policy import Policy
from rootguard.session.profile import OnChange
from rootguard.session.series import follow, refuse_changes
from rootguard.session.session import RecipientView, Session, Tier
from rootguard.store import MemoryStore, Record, Snapshot, Store, held_levels
from rootguard.template import Root, Template, load_template
from rootguard.values import (
    MICRO,
    AllocationName,
    Amount,
    Form,
    MechanismName,
    Principal,
    Raw,
    RootName,
    mechanism_named,
    to_micro,
)

Notice = Callable[[tuple[RootName, ...]], None]


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
                mechanism=plan.noise(share.root).name,
                type=share.type,
                title=template.roots[share.root].label,
            )
            for share in plan.shares
        ),
        computed=tuple(n.name for n in Graph.of(template).order if n.kind != "root"),
        identifiers=0,
    )


def take_values(
    store: Store,
    person: Snapshot,
    plans: Mapping[RootName, Plan],
    roots: Mapping[RootName, Root],
    raws: Mapping[RootName, Raw],
    notice: Notice | None,
    *,
    on_change: OnChange | None,
    when: date | None = None,
) -> dict[RootName, Record]:
    """Noise each value under its root's plan, as far as the store does not hold it.

    The owner is told of values outside the public bounds; a service never is. Without a choice, a
    root that is a series is not noised anew before its owner was asked.
    """
    mapped = mappings(person.quantities, [roots[root] for root in raws])
    clamped = tuple(
        root
        for root, raw in raws.items()
        if raw.outside(roots[root].domain)
        or mapped[root].raw(raw).outside(mapped[root].kept.domain)
    )
    if clamped:
        (notice or warn_owner)(clamped)
    records: dict[RootName, Record] = {}
    for place, plan in enumerate(dict.fromkeys(plans[root] for root in raws)):
        mine = {root: raw for root, raw in raws.items() if plans[root] is plan}
        if place:  # what the last plan drew counts towards the caps
            person = current(store, person.name, person.epoch)
        values = PrivateValues(store=store, person=person, plan=plan, roots=roots, raws=mine)
        records |= _take(values, on_change, when)
    return {root: records[root] for root in raws}


def _take(
    values: PrivateValues, on_change: OnChange | None, when: date | None
) -> dict[RootName, Record]:
    """The values of one plan, each by what is to be done with one that changed."""
    by_choice: dict[OnChange, dict[RootName, Raw]] = {}
    for root, raw in values.raws.items():
        series = values.roots[root].series
        choice = on_change or ("ask" if series else "draw")
        if choice in ("drift", "daily") and not (series or when is not None):
            choice = "draw"  # in a profile it is said of all, and some of them are no series
        by_choice.setdefault(choice, {})[root] = raw
    asked = by_choice.get("ask", {})
    if asked:
        refuse_changes(replace(values, raws=asked))  # before anything is drawn
    records: dict[RootName, Record] = {}
    for choice, mine in by_choice.items():
        person = values.person
        if records:  # what was drawn counts towards the caps
            person = current(values.store, person.name, person.epoch)
        chosen = replace(values, person=person, raws=mine)
        if choice == "drift" or choice == "daily":
            records |= follow(chosen, choice, when)
        else:
            records |= noise_once(chosen, keep=choice == "keep")
    return records


def set_lifetime(
    store: Store, person: Snapshot, plans: Mapping[RootName, Plan], lifetime: int
) -> Snapshot:
    """Cap what each root may cost in all at a multiple of its first price; what is kept then.

    A cap that stands is left alone: the owner may have raised it.
    """
    if type(lifetime) is not int or lifetime < 1:
        raise BudgetError("a lifetime is a whole number of first prices, 1 or more")
    first = person.ledger.first_prices
    new = {
        str(root): lifetime * first.get(root, to_micro(plan[root].epsilon))
        for root, plan in plans.items()
        if root not in person.caps and not plan[root].public
    }
    if new:
        store.set_caps(person.name, new, epoch=person.epoch)
    return replace(person, caps={**person.caps, **new})


def tier_of(
    policy: Policy,
    service: str,
    templates: Sequence[Template],
    person: Snapshot,
    plan_of: Callable[[Template, Fraction], Plan] = make_plan,
) -> Tier:
    """What a service may have of these templates' roots: its tier, less what it was given before.

    The tier's budget bounds all that one service ever gets, over templates, versions and erasures.
    A value that it was given under this tier stays as it was given, whatever else it asks for.
    """
    access = policy.access(service)
    budget = policy.tiers[access.tier]
    shares: dict[RootName, int] = {}
    public = {name for each in templates for name, root in each.roots.items() if root.public}
    for template in templates:
        plan = plan_of(template, budget)
        own = [template.roots[share.root] for share in plan.shares]
        mapped = mappings(person.quantities, own)
        graph, _ = kept_formulas(person, template)
        for share in on_grid(plan, mapped).shares:
            behind = graph.rests_on(Variable(share.root))
            for root in behind:  # more than itself, if it is computed from values kept elsewhere
                shares.setdefault(root, to_micro(share.epsilon) // len(behind))
    whole = math.floor(budget * MICRO)
    held = held_levels(service, person.given, person.before)
    now = {
        root: (str(root), person.levels[root][0].sanitized.version if root in person.levels else 0)
        for root in shares
    }
    had = {root: held.get(now[root], 0) if now[root][1] else 0 for root in shares}
    given = {
        (each.root, each.version)
        for each in person.given
        if (each.service, each.tier) == (service, access.tier)
    }
    stay = frozenset(root for root in shares if now[root] in given)
    levels = _within(whole, shares, had, whole - sum(held.values()), stay)
    return Tier(
        access=access,
        epsilons=MappingProxyType(
            {
                root: Fraction(level, MICRO)
                for root, level in levels.items()
                if level or root in public
            }
        ),
        budget=whole,
    )


def _within(
    budget: int,
    shares: Mapping[RootName, int],
    had: Mapping[RootName, int],
    left: int,
    stay: Container[RootName],
) -> dict[RootName, int]:
    """The levels that a tier gives of some roots, given what it gave before; in micro-epsilon.

    Several templates share the budget in proportion to their plans, but for roots that are to stay
    as they are. If what is left does not reach for that, all roots that were given do, and the
    others share the rest.
    """
    fair = min(Fraction(1), Fraction(budget, max(1, sum(shares.values()))))
    full = {
        root: had[root] if root in stay else max(had[root], math.floor(share * fair))
        for root, share in shares.items()
    }
    if sum(full.values()) - sum(had.values()) <= left:
        return full
    new = {root: level for root, level in full.items() if not had[root]}
    part = min(Fraction(1), Fraction(max(0, left), max(1, sum(new.values()))))
    return {**had, **{root: math.floor(level * part) for root, level in new.items()}}


class Guard:
    """Opens sessions. The raw values it is given live only while it works."""

    @staticmethod
    @shielded
    def open(
        template: Template | str,
        *,
        values: Mapping[str, Form],
        hide: Mapping[str, Distance] | None = None,
        advantage: str | float | Fraction = ADVANTAGE,
        budget: Amount | None = None,
        epsilon: Amount | None = None,
        turns: int | None = None,
        mechanism: str = "geometric",
        allocation: AllocationName = "optimal",
        objective: Objective | None = None,
        calibrate: bool = False,
        identifiers: Mapping[str, str] | None = None,
        key: bytes | None = None,
        store: Store | None = None,
        principal: str = "owner",
        on_change: OnChange | None = None,
        when: date | None = None,
        lifetime: int | None = None,
        on_clamp: Notice | None = None,
    ) -> Session:
        """Noise a person's values once, keep them, and open a session on what was kept.

        Say what to hide, `hide={"age": 5}`, and each root gets the largest epsilon under which
        nobody tells two values that far apart with more than the `advantage` (see `goals`); a root
        that is not named is hidden as far as its template advises. Or give a budget: a total, or
        `epsilon` times `turns`. Templates go by their names too, roots by titles and aliases.

        A value that the store ever noised for this principal and root is used again, at the epsilon
        it was drawn with, for nothing: equal is what snaps to the same grid point. Another value is
        a new version with its own cost; with `on_change="keep"` it is ignored, and what was noised
        stands. A root may cost ten times its first price in all, or `lifetime` times; past that
        another value is refused.

        Of a root that is a series (docs/changing-values.md) a changed value is refused with its
        price until `on_change` says what to do; "drift" and "daily" follow values of dates, `when`.

        A value is given in its root's own form: a number, true or "yes", a category's word, a date
        or "2024-05-31". One of another form is refused by name, and nothing is drawn.

        Without a store the session's values last as long as the session: opened again, it would
        draw again, and an adversary who sees both learns more. Pass a store to prevent that.

        With `calibrate` the answers are moved towards what the template's population makes likely:
        more accurate on average, at no cost to privacy.
        """
        template = _template(template)
        sealed = seal(values, template.root_called)
        store = MemoryStore() if store is None else store
        owner = Principal(principal)
        person = store.snapshot(owner)
        tokens = None
        if identifiers is not None:
            tokens = issue_tokens(identifiers, key, store, person)
        # A store may be a stranger's, and `shielded` lets a foreign error pass with its frames:
        # this one holds nothing private from here on.
        del values, identifiers, key
        graph = Graph.of(template)
        for name in () if tokens is None else tokens.issued:
            if name in graph:
                raise IdentifierError(f"{name} is both a root and an identifier; rename one")
        raws = select(
            _by_root(sealed, template),
            graph,
            template.roots,
            unneeded=_computed(person, template),
        )
        plan = _chosen_plan(
            template,
            mechanism_named(mechanism),
            allocation,
            objective,
            hide=hide,
            advantage=advantage,
            amounts=(budget, epsilon, turns),
        )
        plans = dict.fromkeys(raws, plan)
        if lifetime is not None:
            person = set_lifetime(store, person, plans, lifetime)
        choice = _known_choice(on_change)
        roots = template.roots
        records = take_values(
            store, person, plans, roots, raws, on_clamp, on_change=choice, when=when
        )
        view = RecipientView(store, current(store, person.name, person.epoch), records)
        return Session(view, template, tokens=tokens, calibrate=calibrate)

    @staticmethod
    @shielded
    def refine(
        template: Template | str,
        *,
        values: Mapping[str, Form],
        hide: Mapping[str, Distance] | None = None,
        advantage: str | float | Fraction = ADVANTAGE,
        budget: Amount | None = None,
        epsilon: Amount | None = None,
        turns: int | None = None,
        allocation: AllocationName = "optimal",
        objective: Objective | None = None,
        calibrate: bool = False,
        store: Store,
        principal: str = "owner",
    ) -> Session:
        """Raise roots that were noised before to a larger budget, paying the difference only.

        The budget may be said by what is still to be hidden, as in `open`. Needs the raw values
        again, the same ones: a value that changed is for `open`. A root that has its share of the
        new budget already is left alone.
        """
        template = _template(template)
        sealed = seal(values, template.root_called)
        del values
        person = store.snapshot(Principal(principal))
        raws = select(
            _by_root(sealed, template),
            Graph.of(template),
            template.roots,
            unneeded=_computed(person, template),
        )
        plan = _chosen_plan(
            template,
            "geometric",
            allocation,
            objective,
            hide=hide,
            advantage=advantage,
            amounts=(budget, epsilon, turns),
        )
        records = refine_once(
            PrivateValues(store=store, person=person, plan=plan, roots=template.roots, raws=raws)
        )
        view = RecipientView(store, person, records)
        return Session(view, template, calibrate=calibrate)

    @staticmethod
    def resume(
        template: Template | str, *, store: Store, principal: str = "owner", calibrate: bool = False
    ) -> Session:
        """A session on values that were noised before: needs no raw value and draws nothing."""
        template = _template(template)
        view = RecipientView(store, store.snapshot(Principal(principal)))
        return _whole(view, template, calibrate=calibrate)

    @staticmethod
    def serve(
        template: Template | str,
        *,
        store: Store,
        policy: Policy,
        service: str,
        principal: str = "owner",
        calibrate: bool = False,
    ) -> Session:
        """A session for a service, at its tier and within what the policy allows it.

        Needs no raw value. A tier's level of a root is derived, once, from the finer levels that
        are kept; services that pool what they got learn no more than the finest of them tells. The
        tier's budget bounds all that the service ever gets: what it was given before counts.
        """
        template = _template(template)
        person = store.snapshot(Principal(principal))
        view = RecipientView(store, person, tier=tier_of(policy, service, (template,), person))
        return _whole(view, template, calibrate=calibrate)


def _template(given: Template | str) -> Template:
    """A template, or the one of that name or path."""
    return given if isinstance(given, Template) else load_template(given)


def _by_root(
    sealed: Mapping[str, Raw | None] | None, template: Template
) -> dict[str, Raw | None] | None:
    """Sealed values under the roots' own names, where titles or aliases were given."""
    if sealed is None:
        return None
    found: dict[str, Raw | None] = {}
    for called, raw in sealed.items():
        name = called
        if called not in template.roots:
            with suppress(UnknownNameError):  # `select` refuses it
                name = str(template.root(called).name)
        if name in found:
            raise PrivateValueError("two values were given for", (name,))
        found[name] = raw
    return found


def _chosen_plan(
    template: Template,
    mechanism: MechanismName,
    allocation: AllocationName,
    objective: Objective | None,
    *,
    hide: Mapping[str, Distance] | None,
    advantage: str | float | Fraction,
    amounts: tuple[Amount | None, Amount | None, int | None],
) -> Plan:
    """By what is to be hidden, or by a budget: a total, or epsilon and turns."""
    total, epsilon, turns = amounts
    if hide is None:
        return make_plan(
            template,
            read_budget(total=total, epsilon=epsilon, turns=turns),
            mechanism_name=mechanism,
            allocation=allocation,
            objective=objective,
        )
    if amounts != (None, None, None):
        raise BudgetError("say what to hide or give a budget, not both")
    return hiding_plan(
        template, hide, advantage=advantage, mechanism_name=mechanism, objective=objective
    )


def _computed(person: Snapshot, template: Template) -> frozenset[RootName]:
    """Roots that are computed from values kept elsewhere: they need no value and are not drawn."""
    graph, _ = kept_formulas(person, template)
    return frozenset(root for root in template.roots if graph[root].kind != "root")


def _whole(view: RecipientView, template: Template, *, calibrate: bool) -> Session:
    """A session on every root of a template, all of which must be kept."""
    view.require(kept_formulas(view.person, template)[0].roots)
    return Session(view, template, calibrate=calibrate)


def warn_owner(roots: tuple[RootName, ...]) -> None:
    """The notice that is given when nobody asked for another.

    Python shows a warning with the line of source that it points at, and whoever calls may have
    written the values there; so it points at no file. A registry of its own, because from a shared
    one Python shows each text once, and the next person's root is another person's news.
    """
    warnings.warn_explicit(
        ClampedWarning(roots), None, "<rootguard>", 0, module="rootguard", registry={}
    )


def _known_choice(on_change: OnChange | None) -> OnChange | None:
    if on_change is not None and on_change not in get_args(OnChange):
        raise UnknownNameError("choice for on_change", on_change, get_args(OnChange))
    return on_change
