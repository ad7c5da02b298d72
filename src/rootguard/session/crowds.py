"""Exactly once, for many people at a time: what `noise_once` gives each, with few transactions.

People are looked up by sets. Whose value the store holds is served from it; whose value is new is
drawn, and all that was drawn is committed together before anybody sees it. What is not usual is
left to `noise_once`: an earlier value that comes back, a draw that a table has shown, a race that
was lost.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rootguard.allocation import Plan
from rootguard.errors import BudgetError, ErasedError
from rootguard.sanitizer import sanitize
from rootguard.session.draws import PrivateValues, define, noise_once, noised, on_grid
from rootguard.store import Commit, Record, Snapshot, Store, check_caps, tables
from rootguard.template import Root
from rootguard.values import (
    Domain,
    Principal,
    Raw,
    RootName,
    Sanitized,
    point_fingerprints,
    to_micro,
)

GridPoints = tuple[Domain, Sequence[int | None]]
"""A root's grid, and of each person the point at which the declared value is, if there is one."""
Outcome = dict[RootName, Record] | BudgetError
"""What is kept of each root, or that a cap forbids to draw it."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Declared:
    """A person and the values that are declared of this person."""

    person: Snapshot
    raws: Mapping[RootName, Raw]


def noise_each(
    store: Store, plan: Plan, roots: Mapping[RootName, Root], people: Sequence[Declared]
) -> list[Outcome]:
    """The finest kept level of each person's roots, noised now where never noised before.

    Nobody may be here twice. Whom a cap refuses is refused alone.
    """
    if not people:
        return []
    wanted = dict.fromkeys(root for each in people for root in each.raws)
    mapped = define(store, people[0].person.quantities, [roots[root] for root in wanted])
    crowd = _Crowd(store, on_grid(plan, mapped))
    stored = people
    if any(each.inward is not None for each in mapped.values()):
        stored = [
            Declared(
                person=each.person,
                raws={root: mapped[root].raw(raw) for root, raw in each.raws.items()},
            )
            for each in people
        ]
    outcomes = crowd.known(stored)
    new = [place for place, each in enumerate(stored) if len(outcomes[place]) < len(each.raws)]
    made = crowd.drawn([stored[place] for place in new], [outcomes[place] for place in new])
    done: list[Outcome] = [*outcomes]
    for place, outcome in zip(new, made, strict=True):
        if outcome is None:
            done[place] = _alone(store, plan, roots, people[place])
        else:
            done[place] = outcome
    return done


def _alone(store: Store, plan: Plan, roots: Mapping[RootName, Root], each: Declared) -> Outcome:
    person = store.snapshot(each.person.name)
    try:
        return noise_once(
            PrivateValues(store=store, person=person, plan=plan, roots=roots, raws=each.raws)
        )
    except BudgetError as refusal:
        return refusal


def kept_each(
    store: Store, names: Sequence[Principal], points: Mapping[RootName, GridPoints]
) -> list[dict[RootName, Sanitized] | None]:
    """Who declares what is kept already: the finest kept level of each root. None for the others.

    The same as `noise_each` would give these people, and quicker: nothing is drawn, so nothing is
    asked of their ledgers. The grids are the store's own.
    """
    key = store.fingerprint_key
    columns = [
        (root, each, point_fingerprints(key, f"\x00{root}", domain))
        for root, (domain, each) in points.items()
    ]
    found: list[dict[RootName, Sanitized] | None] = []
    for place, (name, there) in enumerate(store.finest(names)):
        written = name.encode(errors="surrogatepass")
        values: dict[RootName, Sanitized] = {}
        for root, column, fingerprint in columns:
            point = column[place]
            if point is None:
                continue
            kept = there.get(root)
            if kept is None or kept[0] != fingerprint(written, point):
                found.append(None)
                break
            values[root] = kept[1]
        else:
            found.append(values)
    return found


class _Crowd:
    """People whose values are in the store's units, under a plan on its grids."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self._store, self._plan = store, plan
        self._key = store.fingerprint_key
        self._domains = {share.root: share.domain for share in plan.shares}

    def _mark(self, each: Declared, root: RootName) -> bytes:
        context = f"{each.person.name}\x00{root}"
        return each.raws[root].fingerprint(self._key, context, self._domains[root])

    def known(self, people: Sequence[Declared]) -> list[dict[RootName, Record]]:
        """Of each person the roots whose current value is the one declared."""
        return [
            {
                root: finest
                for root, levels in each.person.levels.items()
                if root in each.raws
                and (finest := _finest(levels)).fingerprint == self._mark(each, root)
            }
            for each in people
        ]

    def drawn(
        self, people: Sequence[Declared], known: Sequence[Mapping[RootName, Record]]
    ) -> list[Outcome | None]:
        """The others drawn and committed; None for whom `noise_once` has to be asked."""
        outcomes: list[Outcome | None] = [None] * len(people)
        commits: list[Commit] = []
        places: list[int] = []
        for place in self._usual(people, known):
            each = people[place]
            new = [root for root in each.raws if root not in known[place]]
            try:
                commits.append(self._draw(each, new))
                places.append(place)
            except BudgetError as refusal:
                outcomes[place] = refusal
        for place, commit, kept in zip(
            places, commits, self._store.commit_each(commits), strict=True
        ):
            if isinstance(kept, ErasedError):
                raise kept
            if isinstance(kept, BudgetError):
                outcomes[place] = kept
            elif kept:
                drawn = {record.sanitized.root: record for record in commit.draws}
                both = {**known[place], **drawn}
                outcomes[place] = {root: both[root] for root in people[place].raws}
        return outcomes

    def _draw(self, each: Declared, new: Sequence[RootName]) -> Commit:
        person, plan = each.person, self._plan
        check_caps(
            person.ledger, {str(root): to_micro(plan[root].epsilon) for root in new}, person.caps
        )
        versions = {root: person.newest.get(root, 0) + 1 for root in new}
        made = sanitize(plan, {root: each.raws[root] for root in new}, versions)
        draws = [
            Record(
                sanitized=value,
                fingerprint=self._mark(each, root),
                event=noised(person.name, value),
            )
            for root, value in made.items()
        ]
        return Commit(principal=person.name, draws=draws, epoch=person.epoch)

    def _usual(
        self, people: Sequence[Declared], known: Sequence[Mapping[RootName, Record]]
    ) -> list[int]:
        """Whose missing values were never noised, in no version and in no table."""
        shown = self._in_tables([each.person for each in people])
        places = [place for place in range(len(people)) if not shown[place]]
        changed = [
            place
            for place in places
            if people[place].person.levels.keys() & (people[place].raws.keys() - known[place])
        ]
        kept = self._store.records_of([people[place].person.name for place in changed])
        back = {
            place
            for place, records in zip(changed, kept, strict=True)
            if self._comes_back(people[place], records)
        }
        return [place for place in places if place not in back]

    def _comes_back(self, each: Declared, records: Sequence[Record]) -> bool:
        """Whether a declared value is one of those that are kept, of any version."""
        marks = {record.fingerprint for record in records}
        name = each.person.name
        return any(
            self._mark(each, root) in marks
            or raw.number_fingerprint(self._key, f"{name}\x00{root}") in marks
            for root, raw in each.raws.items()
            if root not in self.known([each])[0]
        )

    def _in_tables(self, people: Sequence[Snapshot]) -> list[bool]:
        """Who is in a table, whose draw would stand. Of whom was erased nothing is there."""
        runs = people[0].runs if people else ()
        if not any(run.drawn for run in runs):
            return [False] * len(people)
        store = self._store
        prf = tables.table_prf(store.fingerprint_key, exact=store.exact_ids)
        read = functools.cache(store.fingerprints)
        tags = tables.tags_of(prf, [each.name for each in people])
        return [
            not each.epoch
            and any(
                len(tables.of_person(read(place), roots, tag))
                for place, roots in tables.places_of(runs, tag)
            )
            for each, tag in zip(people, tags, strict=True)
        ]


def _finest(levels: Sequence[Record]) -> Record:
    return max(levels, key=lambda record: record.sanitized.epsilon)
