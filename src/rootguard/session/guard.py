"""Opening sessions: raw values go in, are sealed, noised and committed, and do not come further.

`Guard.open` noises what the store does not hold yet. `Guard.refine` raises the accuracy of what it
holds, for the difference in price. `Guard.resume` and `Guard.serve` need no raw value: they open
sessions on what was kept, for the owner and for a service that the policy lists. A profile's values
go the same way (`take_values`), and so does a service that asks for a profile (`tier_of`).
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType

from rootguard.accounting import Guarantee, RootGuarantee
from rootguard.allocation import Objective, Plan, read_budget
from rootguard.calibration import make_plan
from rootguard.errors import ClampedWarning, IdentifierError, shielded
from rootguard.graph import Graph
from rootguard.sanitizer import seal, select
from rootguard.session.declared import issue_tokens
from rootguard.session.draws import noise_once, refine_once
from rootguard.session.policy import Policy
from rootguard.session.session import RecipientView, Session, Tier
from rootguard.store import MemoryStore, Record, Store
from rootguard.template import Template
from rootguard.values import AllocationName, Principal, Raw, RootName, mechanism_named

Amount = str | float | Fraction
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
                mechanism=plan.mechanism,
            )
            for share in plan.shares
        ),
        computed=tuple(n.name for n in Graph.of(template).order if n.kind != "root"),
        identifiers=0,
    )


def take_values(
    store: Store,
    owner: Principal,
    plans: Mapping[RootName, Plan],
    raws: Mapping[RootName, Raw],
    notice: Notice | None,
) -> dict[RootName, Record]:
    """Noise each value under its root's plan, as far as the store does not hold it.

    The owner is told of values outside the public bounds; a service never is.
    """
    clamped = tuple(r for r, raw in raws.items() if raw.outside(plans[r][r].domain))
    if clamped:
        (notice or warn_owner)(clamped)
    records: dict[RootName, Record] = {}
    for plan in dict.fromkeys(plans.values()):
        mine = {root: raw for root, raw in raws.items() if plans[root] is plan}
        records |= noise_once(store, owner, plan, mine)
    return records


def tier_of(
    policy: Policy,
    service: str,
    templates: Iterable[Template],
    allocation: AllocationName = "optimal",
) -> Tier:
    """A service's tier: of a root that templates share, the level that the first gives it."""
    access = policy.access(service)
    epsilons: dict[RootName, Fraction] = {}
    for template in templates:
        plan = make_plan(template, policy.tiers[access.tier], allocation=allocation)
        for share in plan.shares:
            epsilons.setdefault(share.root, share.epsilon)
    return Tier(access=access, epsilons=MappingProxyType(epsilons))


class Guard:
    """Opens sessions. The raw values it is given live only while it works."""

    @staticmethod
    @shielded
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
        calibrate: bool = False,
        identifiers: Mapping[str, str] | None = None,
        key: bytes | None = None,
        store: Store | None = None,
        principal: str = "owner",
        on_clamp: Notice | None = None,
    ) -> Session:
        """Noise a person's values once, keep them, and open a session on what was kept.

        The budget is a total, or `epsilon` times `turns`. A principal whose value for a root is
        already in the store gets that one again, at the epsilon it was drawn with, for nothing;
        another value for it is a new version with its own cost. Without a store the session's
        values last as long as the session: opened again, it would draw again, and an adversary
        who sees both learns more. Pass a store to prevent that.

        With `calibrate` the answers are moved towards what the template's population makes likely:
        more accurate on average, at no cost to privacy.
        """
        sealed = seal(values)
        store = MemoryStore() if store is None else store
        owner = Principal(principal)
        tokens = None if identifiers is None else issue_tokens(identifiers, key, store, owner)
        # A store may be a stranger's, and `shielded` lets a foreign error pass with its frames:
        # this one holds nothing private from here on.
        del values, identifiers, key
        graph = Graph.of(template)
        for name in () if tokens is None else tokens.issued:
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
        records = take_values(store, owner, dict.fromkeys(raws, plan), raws, on_clamp)
        view = RecipientView(store, owner, records)
        return Session(view, template, tokens=tokens, calibrate=calibrate)

    @staticmethod
    def refine(
        template: Template,
        *,
        values: Mapping[str, float],
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

        Needs the raw values again, the same ones: a value that changed is for `open`. A root that
        has its share of the new budget already is left alone.
        """
        sealed = seal(values)
        del values
        raws = select(sealed, Graph.of(template))
        total = read_budget(total=budget, epsilon=epsilon, turns=turns)
        plan = make_plan(template, total, allocation=allocation, objective=objective)
        owner = Principal(principal)
        view = RecipientView(store, owner, refine_once(store, owner, plan, raws))
        return Session(view, template, calibrate=calibrate)

    @staticmethod
    def resume(
        template: Template, *, store: Store, principal: str = "owner", calibrate: bool = False
    ) -> Session:
        """A session on values that were noised before: needs no raw value and draws nothing."""
        return _whole(RecipientView(store, Principal(principal)), template, calibrate=calibrate)

    @staticmethod
    def serve(
        template: Template,
        *,
        store: Store,
        policy: Policy,
        service: str,
        principal: str = "owner",
        calibrate: bool = False,
    ) -> Session:
        """A session for a service, at its tier and within what the policy allows it.

        Needs no raw value. A tier's level of a root is derived, once, from the finer levels that
        are kept; services that pool what they got learn no more than the finest of them tells.
        """
        tier = tier_of(policy, service, (template,))
        view = RecipientView(store, Principal(principal), tier=tier)
        return _whole(view, template, calibrate=calibrate)


def _whole(view: RecipientView, template: Template, *, calibrate: bool) -> Session:
    """A session on every root of a template, all of which must be kept."""
    view.require(Graph.of(template).roots)
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
