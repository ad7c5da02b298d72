"""Exactly once: what the store holds is used, what it does not hold is drawn, committed, then used.

A value is known by its principal, its root and its grid point, in the unit and on the grid under
which the store keeps the root (`RootMapping`). One that was drawn before is found again among all
versions of the root, whatever came between. Draw, commit, release: nothing is shown that was not
committed. When another writer commits first, its draw is the one that counts, and a draw that a
table has shown is made again. Costs are checked against the caps before anything is drawn, and once
more by the store when it commits.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from rootguard.allocation import Plan, Share
from rootguard.errors import BudgetError, DomainError, PrivateValueError, StoreError
from rootguard.events import LevelDerived, RootNoised, RootRefined, TableDrawKept
from rootguard.expressions import evaluate, parse, to_text
from rootguard.graph import Graph, GraphNode
from rootguard.language.units import Affine, conversion, substance_of
from rootguard.mechanisms.base import MAX_EPSILON
from rootguard.sanitizer import coarsen, refine, repeat, sanitize
from rootguard.store import (
    Record,
    Snapshot,
    Store,
    TableRun,
    check_caps,
    erased_meanwhile,
    table_number,
    tables,
)
from rootguard.template import KeptFormula, Root, Template
from rootguard.values import (
    MICRO,
    UNKNOWN_UNIT,
    Domain,
    Principal,
    Raw,
    RootName,
    RootQuantity,
    Sanitized,
    to_micro,
)

# Each lost race means that another writer kept a value; more in a row is a fault, not bad luck.
MAX_RACES = 100
_WHOLE = Fraction(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class RootMapping:
    """How a template's root stands on the quantity that the store keeps under its name.

    The store's unit and grid are those of the first template that brought the root; they stand for
    everybody. A template in another unit is converted. One whose bounds or grid differ is served
    from the store's grid: a value is clamped to the store's bounds, a release to the template's,
    and an epsilon per step of the template becomes the one that hides as much of the quantity per
    step of the store.
    """

    kept: RootQuantity
    inward: Affine | None
    """From the template's unit into the store's; None where they are one."""
    ratio: Fraction
    """A step of the store's grid in steps of the template's."""

    @classmethod
    def of(cls, root: Root, kept: RootQuantity) -> "RootMapping":
        """How the root stands on a quantity; refuses one that it cannot share."""
        own = root.domain
        if kept.domain == own and kept.unit in (unit_of(root), UNKNOWN_UNIT):
            return cls(kept=kept, inward=None, ratio=_WHOLE)
        inward = _conversion(root, kept)
        lower, upper = (
            (own.lower, own.upper) if inward is None else map(inward, (own.lower, own.upper))
        )
        if upper < kept.domain.lower or lower > kept.domain.upper:
            raise _unlike(root, kept)
        step = (upper - lower) / (own.size - 1)
        same = math.isclose(step, kept.domain.step, rel_tol=1e-9)  # but for rounding
        ratio = Fraction(1) if same else Fraction(kept.domain.step) / Fraction(step)
        return cls(kept=kept, inward=inward, ratio=ratio)

    def raw(self, raw: Raw) -> Raw:
        """A private number in the store's unit."""
        return raw if self.inward is None else raw.converted(self.inward)

    def share(self, share: Share) -> Share:
        """A plan's share on the store's grid; in whole micro-epsilon, rounded down."""
        if share.domain == self.kept.domain and self.ratio == 1:
            return share
        if share.public:
            return replace(share, domain=self.kept.domain)
        micro = math.floor(min(share.epsilon * self.ratio, Fraction(MAX_EPSILON)) * MICRO)
        if micro < 1:
            raise BudgetError(
                f"{share.root} is kept on a grid of {self.kept}, for which its part of the budget "
                "is too small; nothing was drawn"
            )
        return replace(share, domain=self.kept.domain, epsilon=Fraction(micro, MICRO))

    def shown(self, value: Sanitized) -> Sanitized:
        """A kept value in the template's unit: the same point of the same grid."""
        if self.inward is None:
            return value
        back, grid = self.inward.back(), value.domain
        domain = Domain(lower=back(grid.lower), upper=back(grid.upper), size=grid.size)
        return replace(value, domain=domain)


def _conversion(root: Root, kept: RootQuantity) -> Affine | None:
    if unit_of(root) == kept.unit:
        return None
    found = conversion(unit_of(root), kept.unit, substance_of((root.name, *root.aliases)))
    if found is None:
        raise _unlike(root, kept)
    return found


def _unlike(root: Root, kept: RootQuantity) -> DomainError:
    own = _quantity(root)
    remedy = "rename the root in the template, or use that unit"
    if kept.unit == UNKNOWN_UNIT:
        remedy = "first open somebody with a template that has those bounds, which tells the unit"
    return DomainError(
        f"this store keeps {root.name} as {kept}, and the template has it as {own}, which cannot "
        f"be converted; {remedy}. Nothing was drawn"
    )


def mappings(
    kept: Mapping[RootName, RootQuantity], roots: Iterable[Root]
) -> dict[RootName, RootMapping]:
    """How roots stand on what a store keeps under their names; new names are not fixed yet."""
    return {
        root.name: RootMapping.of(root, kept.get(root.name) or _quantity(root)) for root in roots
    }


def define(
    store: Store, kept: Mapping[RootName, RootQuantity], roots: Iterable[Root]
) -> dict[RootName, RootMapping]:
    """The same, and new names are fixed in the store."""
    roots = tuple(roots)
    mapped = mappings(kept, roots)  # nothing is fixed if a root is refused
    known = {name for name, each in kept.items() if each.unit != UNKNOWN_UNIT}
    new = [_quantity(root) for root in roots if root.name not in known]
    if not new:
        return mapped
    return mappings(store.define(new), roots)  # as another writer fixed them, if one was quicker


def _quantity(root: Root) -> RootQuantity:
    return RootQuantity(name=root.name, unit=unit_of(root), domain=root.domain)


def unit_of(root: Root) -> str:
    """The unit under which a store keeps a root: of a category, what its points mean as well."""
    return root.type.unit(root.unit)


def on_grid(plan: Plan, mapped: Mapping[RootName, RootMapping]) -> Plan:
    """The plan on the store's grids; the same plan where they are the template's."""
    shares = tuple(mapped[s.root].share(s) if s.root in mapped else s for s in plan.shares)
    if shares == plan.shares:
        return plan
    spent = sum((share.epsilon for share in shares), Fraction(0))
    return replace(plan, shares=shares, budget=max(plan.budget, spent))


def kept_formulas(person: Snapshot, template: Template) -> tuple[Graph, dict[RootName, Root]]:
    """The template's graph and its roots, where some may be computed from values kept elsewhere.

    Such a root is a formula of roots of other templates. If all of them are kept for this person
    and it is not, it is computed, and they are roots of the graph in its place.
    """
    roots = dict(template.roots)
    graph = Graph.of(template)
    formulas = {name: kept for name in graph.roots if (kept := roots[name].kept) is not None}
    if not formulas:
        return graph, roots
    nodes = {node.name: node for node in graph.order}
    for computed, kept in formulas.items():
        inputs = _kept_inputs(person, kept)
        if inputs is None:
            continue
        if computed in person.levels:  # it was drawn before: what was released stays
            continue
        low, high = roots[computed].domain.lower, roots[computed].domain.upper
        formula = parse(f"min(max({to_text(kept.formula)}, {low!r}), {high!r})")
        nodes[computed] = replace(nodes[computed], kind="derived", formula=formula)
        for name, each in inputs.items():
            roots[name] = each
            nodes[name] = GraphNode(name=name, kind="root", unit=each.unit)
    return Graph(nodes.values()), roots


def computed_values(person: Snapshot, template: Template) -> dict[RootName, float]:
    """The template's roots that are computed from values kept elsewhere, for this person."""
    graph, roots = kept_formulas(person, template)
    found: dict[RootName, float] = {}
    for name in template.roots:
        formula = graph[name].formula
        if formula is None or template.roots[name].formula is not None:
            continue
        inputs = [roots[each] for each in graph.rests_on(formula)]
        mapped = mappings(person.quantities, inputs)
        values: dict[str, float] = {
            each.name: each.domain.clamp(mapped[each.name].shown(finest.sanitized).value)
            for each in inputs
            if (finest := finest_of(person.levels.get(each.name, ()))) is not None
        }
        found[name] = evaluate(formula, values)
    return found


def _kept_inputs(person: Snapshot, formula: KeptFormula) -> dict[RootName, Root] | None:
    """The roots that a formula of kept values rests on, in the units it wants, if all are kept."""
    kept = person.quantities
    inputs: dict[RootName, Root] = {}
    for each, unit in formula.units:
        name = RootName(each)
        if name not in kept or name not in person.levels:
            return None
        grid = kept[name].domain
        wanted = conversion(kept[name].unit, unit, substance_of((name,)))
        if kept[name].unit != unit:
            if wanted is None:
                return None
            grid = Domain(lower=wanted(grid.lower), upper=wanted(grid.upper), size=grid.size)
        inputs[name] = Root(
            name=name,
            domain=grid,
            unit=unit,
            aliases=(),
            mean=None,
            sd=None,
            shape="normal",
            formula=None,
        )
    return inputs


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class PrivateValues:
    """A person's values, sealed, with the plan to noise them under and the store to keep them in.

    `person` is what the store held when they came; a race is noticed by it.
    """

    store: Store
    person: Snapshot
    plan: Plan
    roots: Mapping[RootName, Root]
    raws: Mapping[RootName, Raw]

    def mapped(self) -> dict[RootName, RootMapping]:
        """How their roots stand on what the store keeps; new names are not fixed yet."""
        return mappings(self.person.quantities, self._roots())

    def defined(self) -> dict[RootName, RootMapping]:
        """The same, and new names are fixed in the store."""
        return define(self.store, self.person.quantities, self._roots())

    def _roots(self) -> list[Root]:
        return [self.roots[root] for root in self.raws]

    def as_kept(self, mapped: Mapping[RootName, RootMapping]) -> "PrivateValues":
        """Plan and values in the store's units and on its grids."""
        kept = {root: mapped[root].raw(raw) for root, raw in self.raws.items()}
        return replace(self, plan=on_grid(self.plan, mapped), raws=kept)

    def fingerprints(self) -> dict[RootName, "_Fingerprints"]:
        """By what values are known in the store; of values as they are kept."""
        return {
            root: _Fingerprints.of(self.store, self.person.name, root, self.plan, raw)
            for root, raw in self.raws.items()
        }


def never_noised(values: PrivateValues) -> list[RootName]:
    """The roots whose value was never noised, in any version: drawing them would cost."""
    prints = values.as_kept(values.mapped()).fingerprints()
    marks = {root: (each.point, each.number) for root, each in prints.items()}
    known = values.store.find(values.person.name, marks)
    return [root for root in values.raws if root not in known]


def noise_once(values: PrivateValues, *, keep: bool = False) -> dict[RootName, Record]:
    """The finest kept level of each root; a value that was never noised is noised now.

    A value is looked for among all versions of its root. With `keep`, a root that has a value
    keeps it, whatever is given. If a racing writer noised another value of the same root, ours is
    the next version. If the profile was erased since the snapshot, all of it is refused.
    """
    values = values.as_kept(values.defined())
    store, person, raws, prints = values.store, values.person, values.raws, values.fingerprints()
    epoch, found = person.epoch, dict[RootName, Record]()
    for _ in range(MAX_RACES):
        wanted = {root: prints[root] for root in raws if root not in found}
        found |= _known(store, person, wanted, keep=keep)
        versions = {root: person.newest.get(root, 0) + 1 for root in raws if root not in found}
        if not versions:
            return {root: found[root] for root in raws}
        wanted_now = {root: raws[root] for root in versions}
        drawn = _draw(replace(values, person=person, raws=wanted_now), versions)
        ours = [_record(*each, prints[root].point) for root, each in drawn.items()]
        kept = store.commit(person.name, ours, epoch=epoch)
        for record, there in zip(ours, kept, strict=True):
            if there == record:  # else another writer's, which is looked at as all that is kept
                found[record.sanitized.root] = record
        if len(found) == len(raws):
            return {root: found[root] for root in raws}
        person = current(store, person.name, epoch)
    raise contended()


def current(store: Store, principal: Principal, epoch: int) -> Snapshot:
    """What is kept now, if nothing was erased since this epoch."""
    person = store.snapshot(principal)
    if person.epoch != epoch:
        raise erased_meanwhile()
    return person


def _known(
    store: Store, person: Snapshot, wanted: Mapping[RootName, "_Fingerprints"], *, keep: bool
) -> dict[RootName, Record]:
    """Of each root the finest level of the version with this value, which is the current one now.

    Roots whose value was never noised are left out.
    """
    found: dict[RootName, Record] = {}
    others: dict[RootName, tuple[bytes, bytes]] = {}
    for root, prints in wanted.items():
        finest = finest_of(person.levels.get(root, ()))
        if finest is None:  # then no version is kept
            continue
        # What is hidden is never taken from what was public before, even if it is kept.
        exposed = finest.sanitized.mechanism == "public" and not prints.public
        if (keep and not exposed) or prints.know(finest):
            found[root] = finest
        else:
            others[root] = prints.point, prints.number
    if not others:
        return found
    earlier = store.find(person.name, others)
    versions = {root: record.sanitized.version for root, record in earlier.items()}
    if versions:
        # As they were returned to: another writer may have gone on to other values by now.
        returned = store.return_to(person.name, versions, epoch=person.epoch)
        tops = {root: finest_of(levels) for root, levels in returned.items()}
        found |= {root: record for root, record in tops.items() if record is not None}
    return found


def sight_once(
    store: Store,
    principal: Principal,
    epoch: int,
    plan: Plan,
    roots: Mapping[RootName, Root],
    root: RootName,
    raw: Raw,
) -> Record:
    """What is kept of a root; only if nothing is, this value is noised now.

    Another value is never a new version: it is ignored. Of racing writers the first one's draw
    stands, and only that is charged.
    """
    person = current(store, principal, epoch)
    value = PrivateValues(store=store, person=person, plan=plan, roots=roots, raws={root: raw})
    return noise_once(value, keep=True)[root]


_Draw = tuple[Sanitized, RootNoised | TableDrawKept]


def _draw(values: PrivateValues, versions: Mapping[RootName, int]) -> dict[RootName, _Draw]:
    """New versions of roots: as a table showed them, else drawn; with what is to be charged."""
    person, plan, raws = values.person, values.plan, values.raws
    principal = person.name
    shown = _shown_in_tables(values)
    prices = {str(root): to_micro(plan[root].epsilon) for root in raws if root not in shown}
    check_caps(person.ledger, prices, person.caps)
    fresh = {root: raw for root, raw in raws.items() if root not in shown}
    drawn: dict[RootName, _Draw] = {}
    for root, value in sanitize(plan, fresh, versions).items():
        drawn[root] = value, noised(principal, value)
    for root, value in shown.items():
        kept = replace(value, version=versions[root])
        drawn[root] = (
            kept,
            TableDrawKept(
                principal=principal,
                root=root,
                version=kept.version,
                level=to_micro(kept.epsilon),
                mechanism=kept.mechanism,
            ),
        )
    return drawn


def refine_once(values: PrivateValues) -> dict[RootName, Record]:
    """Each root raised to the plan's level for it, if that is finer than what is kept."""
    values = values.as_kept(values.mapped())
    store, person, raws, prints = values.store, values.person, values.raws, values.fingerprints()
    principal, epoch = person.name, person.epoch
    for _ in range(MAX_RACES):
        levels = {root: person.levels.get(root, ()) for root in raws}
        tops = {root: top for root, kept in levels.items() if (top := finest_of(kept)) is not None}
        changed = tuple(r for r in raws if r not in tops or not prints[r].know(tops[r]))
        if changed:
            raise PrivateValueError("never noised or changed since, so open with a value", changed)
        held = {root: to_micro(top.sanitized.epsilon) for root, top in tops.items()}
        wanted = _affordable(held, values.plan)
        prices = {str(root): wanted[root] - held[root] for root in wanted}
        if not prices:
            return tops
        check_caps(person.ledger, prices, person.caps)
        store.commit(
            principal,
            [
                Record(
                    sanitized=refine(raws[root], tops[root].sanitized, Fraction(micro, MICRO)),
                    position=len(levels[root]),
                    fingerprint=levels[root][0].fingerprint,
                    event=RootRefined(
                        principal=principal,
                        root=root,
                        version=tops[root].sanitized.version,
                        micro_epsilon=prices[root],
                        level=micro,
                    ),
                )
                for root, micro in wanted.items()
            ],
            epoch=epoch,
        )
        person = current(store, principal, epoch)
    raise contended()


def _affordable(held: Mapping[RootName, int], plan: Plan) -> dict[RootName, int]:
    """The levels to raise roots to, so that all roots together stay within the plan's budget.

    A root may hold more than its share already (drawn under another plan, or by rounding); what
    that takes is given up by the roots that would gain most. Roots to be left alone are left out.
    """
    raised = {root: max(to_micro(plan[root].epsilon), micro) for root, micro in held.items()}
    over = sum(raised.values()) - int(plan.budget * MICRO)
    if sum(held.values()) > plan.budget * MICRO:
        raise BudgetError(
            f"these roots hold epsilon {sum(held.values()) / MICRO:g} already; a refinement needs "
            "a larger budget"
        )
    while over > 0:
        root = max(raised, key=lambda name: raised[name] - held[name])
        given = min(over, raised[root] - held[root])
        raised[root] -= given
        over -= given
    return {root: micro for root, micro in raised.items() if micro > held[root]}


def levels_at(
    store: Store, person: Snapshot, epsilons: Mapping[RootName, Fraction]
) -> dict[RootName, Record]:
    """Roots, each at this level at the most, derived from finer ones where it is not kept yet."""
    principal, epoch = person.name, person.epoch
    for _ in range(MAX_RACES):
        found: dict[RootName, Record] = {}
        derived: list[Record] = []
        for root, epsilon in epsilons.items():
            levels = person.levels.get(root, ())
            finest = finest_of(levels)
            if finest is None:
                raise PrivateValueError(
                    "never noised for this principal, so open with a value", (root,)
                )
            at = [record for record in levels if record.sanitized.epsilon == epsilon]
            if finest.sanitized.epsilon <= epsilon:
                found[root] = finest
            elif at:
                found[root] = at[0]
            else:
                derived.append(_coarser(principal, levels, epsilon))
        if not derived:
            return found
        kept = store.commit(principal, derived, epoch=epoch)
        if list(kept) == derived:
            return found | {record.sanitized.root: record for record in derived}
        person = current(store, principal, epoch)
    raise contended()


def _coarser(principal: Principal, levels: Sequence[Record], epsilon: Fraction) -> Record:
    value = coarsen([record.sanitized for record in levels], epsilon)
    return Record(
        sanitized=value,
        position=len(levels),
        fingerprint=levels[0].fingerprint,
        event=LevelDerived(
            principal=principal,
            root=value.root,
            version=value.version,
            level=to_micro(epsilon),
        ),
    )


def _shown_in_tables(values: PrivateValues) -> dict[RootName, Sanitized]:
    """Those roots whose value a table has shown of this person, as it showed them; finest first.

    A table keeps no draw. It keeps keyed fingerprints of who was in it with which values, and the
    secret under which the same row gives the same noise. So whoever was in a table and comes by
    name later is given the draw that the table showed. An erased profile is not: its entries are
    gone.
    """
    store, person, plan, raws = values.store, values.person, values.plan, values.raws
    runs = person.runs
    if not runs or person.epoch:
        return {}
    prf = tables.table_prf(store.fingerprint_key, exact=store.exact_ids)
    known_as = prf.person(person.name)
    tag = int(prf.tags(known_as)[0])
    found: dict[RootName, Sanitized] = {}
    for run in sorted(_standing(runs), key=lambda run: -run.micro_epsilon):
        if run.root not in raws or run.root in found or run.domain != plan[run.root].domain:
            continue
        roots = sorted({other.root for other in runs if other.table == run.table})
        place = table_number(runs, run.table) * tables.PARTITIONS + tables.partition_of(tag)
        known = tables.of_person(store.fingerprints(place), len(roots), tag)
        if not len(known):
            continue
        epsilon = Fraction(run.micro_epsilon, MICRO)
        streams = prf.root(run.root, run.domain, epsilon, run.mechanism, run.version)
        if plan[run.root].public != (run.mechanism == "public"):
            continue
        shown = repeat(
            raws[run.root],
            streams,
            known_as,
            known[:, roots.index(run.root)],
            Sanitized(
                root=run.root,
                index=0,
                domain=run.domain,
                epsilon=epsilon,
                mechanism=run.mechanism,
            ),
            plan[run.root].type.distances,
        )
        if shown is not None:
            found[run.root] = shown
    return found


def _standing(runs: tuple[TableRun, ...]) -> list[TableRun]:
    """One run of each root and table: the others are drawn alike."""
    return list({(run.table, run.root): run for run in runs}.values())


def noised(principal: Principal, value: Sanitized) -> RootNoised:
    """The charge of a first draw of a version."""
    return RootNoised(
        principal=principal,
        root=value.root,
        version=value.version,
        micro_epsilon=to_micro(value.epsilon),
        mechanism=value.mechanism,
    )


def _record(value: Sanitized, event: RootNoised | TableDrawKept, fingerprint: bytes) -> Record:
    return Record(sanitized=value, fingerprint=fingerprint, event=event)


def tested(root: str) -> RootName:
    """Under what the ledger counts the tests whether a series moved (`series`)."""
    return RootName(f"{root}:moved")


def finest_of(levels: Iterable[Record]) -> Record | None:
    """The level with the highest epsilon; None if there is none."""
    return max(levels, key=lambda record: record.sanitized.epsilon, default=None)


@dataclass(frozen=True, slots=True)
class _Fingerprints:
    """By what a value is known again: its grid point or, in an early store, its number."""

    point: bytes
    number: bytes
    public: bool = False

    @classmethod
    def of(
        cls, store: Store, principal: Principal, root: RootName, plan: Plan, raw: Raw
    ) -> "_Fingerprints":
        share = plan[root]
        # A public value and a noised one are never taken for each other.
        key, context = store.fingerprint_key, f"{principal}\x00{root}{chr(0) * share.public}"
        return cls(
            raw.fingerprint(key, context, share.domain),
            raw.number_fingerprint(key, context),
            share.public,
        )

    def know(self, record: Record) -> bool:
        return record.fingerprint in (self.point, self.number)


def contended() -> StoreError:
    """The refusal after as many lost races."""
    return StoreError("too many writers at once to keep a value; nothing was released, try again")
