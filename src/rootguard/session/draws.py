"""Exactly once: what the store holds is used, what it does not hold is drawn, committed, then used.

Draw, commit, release: nothing is shown that was not committed. When another writer commits first,
its draw is the one that counts, and a draw that a table has shown is made again. Costs are checked
against the caps before anything is drawn, and once more by the store when it commits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from rootguard.accounting import Ledger
from rootguard.allocation import Plan
from rootguard.errors import BudgetError, PrivateValueError, StoreError
from rootguard.events import LevelDerived, ProfileErased, RootNoised, RootRefined
from rootguard.sanitizer import coarsen, refine, repeat, sanitize
from rootguard.store import Record, Store, TableRun, check_caps, table_number, tables
from rootguard.values import MICRO, Principal, Raw, RootName, Sanitized, to_micro

# Each lost race means that another writer kept a value; more in a row is a fault, not bad luck.
_MAX_RACES = 100


def noise_once(
    store: Store, principal: Principal, plan: Plan, raws: Mapping[RootName, Raw]
) -> dict[RootName, Record]:
    """The finest kept level of each root; what was never noised, or has changed, is noised now.

    If a racing writer noised another value of the same root, ours is the next version.
    """
    prints = _fingerprints(store, principal, raws)
    kept: dict[RootName, Record] = {}
    for _ in range(_MAX_RACES):
        versions: dict[RootName, int] = {}
        for root in raws:
            if root in kept:
                continue
            # The version first: if a writer commits in between, ours loses and looks again.
            version = store.version(principal, root)
            finest = _finest(store.levels(principal, root))
            if finest is not None and finest.fingerprint == prints[root]:
                kept[root] = finest
            else:
                versions[root] = version + 1
        if not versions:
            return {root: kept[root] for root in raws}
        shown = _shown_in_tables(store, principal, plan, {root: raws[root] for root in versions})
        prices = {
            str(root): to_micro((shown[root] if root in shown else plan[root]).epsilon)
            for root in versions
        }
        _check_price(store, principal, prices)
        fresh = {root: raws[root] for root in versions if root not in shown}
        drawn = sanitize(plan, fresh, versions)
        drawn |= {root: replace(value, version=versions[root]) for root, value in shown.items()}
        store.commit(principal, [noised_record(principal, v, prints[r]) for r, v in drawn.items()])
    raise _contended()


def sight_once(store: Store, principal: Principal, plan: Plan, root: RootName, raw: Raw) -> Record:
    """What is kept of a root; only if nothing is, this value is noised now.

    Unlike in `noise_once` another value is never a new version: it is ignored. Of racing writers
    the first one's draw stands, and only that is charged.
    """
    version = store.version(principal, root)  # first, for the reason given in `noise_once`
    kept = _finest(store.levels(principal, root))
    if kept is None:
        shown = _shown_in_tables(store, principal, plan, {root: raw})
        epsilon = (shown[root] if root in shown else plan[root]).epsilon
        _check_price(store, principal, {str(root): to_micro(epsilon)})
        if root in shown:
            value = replace(shown[root], version=version + 1)
        else:
            value = sanitize(plan, {root: raw}, {root: version + 1})[root]
        fingerprint = _fingerprints(store, principal, {root: raw})[root]
        (kept,) = store.commit(principal, [noised_record(principal, value, fingerprint)])
    return kept


def refine_once(
    store: Store, principal: Principal, plan: Plan, raws: Mapping[RootName, Raw]
) -> dict[RootName, Record]:
    """Each root raised to the plan's level for it, if that is finer than what is kept."""
    prints = _fingerprints(store, principal, raws)
    for _ in range(_MAX_RACES):
        levels = {root: store.levels(principal, root) for root in raws}
        tops = {root: top for root, kept in levels.items() if (top := _finest(kept)) is not None}
        changed = tuple(r for r in raws if r not in tops or tops[r].fingerprint != prints[r])
        if changed:
            raise PrivateValueError("never noised or changed since, so open with a value", changed)
        held = {root: to_micro(top.sanitized.epsilon) for root, top in tops.items()}
        wanted = _affordable(held, plan)
        prices = {str(root): wanted[root] - held[root] for root in wanted}
        if not prices:
            return tops
        _check_price(store, principal, prices)
        store.commit(
            principal,
            [
                Record(
                    sanitized=refine(raws[root], tops[root].sanitized, Fraction(micro, MICRO)),
                    position=len(levels[root]),
                    fingerprint=prints[root],
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
        )
    raise _contended()


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


def level_at(store: Store, principal: Principal, root: RootName, epsilon: Fraction) -> Record:
    """A root at exactly this level, derived from finer ones if it is not kept yet."""
    for _ in range(_MAX_RACES):
        levels = store.levels(principal, root)
        for record in levels:
            if record.sanitized.epsilon == epsilon:
                return record
        value = coarsen([record.sanitized for record in levels], epsilon)
        store.commit(
            principal,
            [
                Record(
                    sanitized=value,
                    position=len(levels),
                    fingerprint=levels[0].fingerprint,
                    event=LevelDerived(
                        principal=principal,
                        root=root,
                        version=value.version,
                        level=to_micro(epsilon),
                    ),
                )
            ],
        )
    raise _contended()


def _shown_in_tables(
    store: Store, principal: Principal, plan: Plan, raws: Mapping[RootName, Raw]
) -> dict[RootName, Sanitized]:
    """Those roots whose value a table has shown of this person, as it showed them; finest first.

    A table keeps no draw. It keeps keyed fingerprints of who was in it with which values, and the
    secret under which the same row gives the same noise. So whoever was in a table and comes by
    name later is given the draw that the table showed. An erased profile is not: its entries are
    gone.
    """
    runs = store.tables()
    if not runs or any(isinstance(event, ProfileErased) for event in store.events(principal)):
        return {}
    prf = tables.table_prf(store.fingerprint_key)
    person = prf.person(principal)
    tag = int(prf.tags(person)[0])
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
        shown = repeat(
            raws[run.root],
            streams,
            person,
            known[:, roots.index(run.root)],
            Sanitized(
                root=run.root,
                index=0,
                domain=run.domain,
                epsilon=epsilon,
                mechanism=run.mechanism,
            ),
        )
        if shown is not None:
            found[run.root] = shown
    return found


def _standing(runs: tuple[TableRun, ...]) -> list[TableRun]:
    """One run of each root and table: the others are drawn alike."""
    return list({(run.table, run.root): run for run in runs}.values())


def noised_record(principal: Principal, value: Sanitized, fingerprint: bytes) -> Record:
    """A first draw of a version, with its charge."""
    return Record(
        sanitized=value,
        fingerprint=fingerprint,
        event=RootNoised(
            principal=principal,
            root=value.root,
            version=value.version,
            micro_epsilon=to_micro(value.epsilon),
            mechanism=value.mechanism,
        ),
    )


def _finest(levels: Iterable[Record]) -> Record | None:
    return max(levels, key=lambda record: record.sanitized.epsilon, default=None)


def _fingerprints(
    store: Store, principal: Principal, raws: Mapping[RootName, Raw]
) -> dict[RootName, bytes]:
    key = store.fingerprint_key
    return {root: raw.fingerprint(key, f"{principal}\x00{root}") for root, raw in raws.items()}


def _check_price(store: Store, principal: Principal, prices: dict[str, int]) -> None:
    check_caps(Ledger(store.events(principal)).micro, prices, store.caps(principal))


def _contended() -> StoreError:
    return StoreError("too many writers at once to keep a value; nothing was released, try again")
