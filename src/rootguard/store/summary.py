"""One summary for each person: what replaying the ledger would tell, kept beside it.

It says what was spent, which versions and levels of each root are kept, the caps, and what each
service was given. A store writes it in the transaction that writes the rows, so that opening,
releasing and refining read one row, however long the ledger is. `verify` replays the ledger and
compares. An erasure leaves totals: what each root had cost, what each service had been given.
"""

import functools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from rootguard.accounting import Ledger, RootTotals, TableDraws
from rootguard.errors import BudgetError, ErasedError
from rootguard.events import (
    Charge,
    LevelDerived,
    ProfileErased,
    RootCharged,
    RootNoised,
    RootRefined,
    RootReturned,
    ServiceCharged,
    TableCharged,
    TableDrawKept,
    cost,
)
from rootguard.store.base import Disclosure, Record
from rootguard.values import MICRO, RootName, to_micro

# Enough for a value that is measured again every month of a year but two; the hidden distance is
# then a tenth of what it was, which the owner should be asked about.
LIFETIME: Final = 10
"""What a root may cost a person in all, as a multiple of its first price, unless a cap is set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RootState:
    """Which versions of a root there are. Those up to `erased` are gone, with all their levels."""

    newest: int = 0
    erased: int = 0
    current: int = 0
    levels: Mapping[int, int] = field(default_factory=dict)
    """How many levels a version has, where it is more than one."""


class PersonSummary:
    """A person's ledger and draws in short. Changed by whoever holds the person's lock, alone.

    `given` says who was given what, in order, and at which level, in micro-epsilon; `before`, what
    a service had been given of a root until the last erasure. By `tags` tables know a person whose
    name is gone.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.roots: dict[str, RootState] = {}
        self.caps: dict[str, int] = {}
        self.given: dict[Disclosure, int] = {}
        self.before: dict[tuple[str, str], int] = {}
        self.events = 0
        self.draws = 0
        self.tags: list[int] = []

    @classmethod
    def of(cls, events: Iterable[Charge]) -> "PersonSummary":
        """What a ledger comes to; caps and disclosures are not in it."""
        made = cls()
        for event in events:
            made.record(event)
        return made

    def record(self, event: Charge) -> None:
        """Count one event of the ledger."""
        self.events += 1
        self.ledger.record(event)
        match event:
            case RootNoised() | TableDrawKept():
                self.draws += 1
                there = self._root(event.root)
                self.roots[event.root] = replace(there, newest=event.version, current=event.version)
            case RootRefined() | LevelDerived():
                self.draws += 1
                there = self._root(event.root)
                more = {event.version: there.levels.get(event.version, 1) + 1}
                self.roots[event.root] = replace(there, levels={**there.levels, **more})
            case RootReturned():
                there = self._root(event.root)
                self.roots[event.root] = replace(there, current=event.version)
            case RootCharged():
                there = self._root(event.root)
                self.roots[event.root] = replace(there, newest=event.version, erased=event.version)
            case ServiceCharged():
                where = (event.service, event.root)
                self.before[where] = self.before.get(where, 0) + event.level
            case ProfileErased():
                self.draws = 0
                self.roots = {
                    name: RootState(newest=root.newest, erased=root.newest)
                    for name, root in self.roots.items()
                }
            case TableCharged():
                pass

    def _root(self, name: str) -> RootState:
        return self.roots.get(name, RootState())

    def newest(self, root: str) -> int:
        """The highest version of a root that was ever noised, erased ones included; or 0."""
        return self.roots[root].newest if root in self.roots else 0

    def current(self, root: str) -> int:
        """The version that was noised or returned to last; 0 if none is kept."""
        return self.roots[root].current if root in self.roots else 0

    def count(self, root: str, version: int) -> int:
        """How many levels of a version are kept."""
        state = self.roots.get(root)
        if state is None or not state.erased < version <= state.newest:
            return 0
        return state.levels.get(version, 1)

    def kept(self) -> list[tuple[str, int, int]]:
        """Root, version and position of every draw that is kept."""
        return [
            (root, version, position)
            for root, state in self.roots.items()
            for version in range(state.erased + 1, state.newest + 1)
            for position in range(self.count(root, version))
        ]

    def take(self, draws: Sequence[Record], tables: TableDraws) -> list[Record]:
        """Count those draws whose place is free, and give them back; refuse what passes a cap.

        A place is free if it is the next level of a version that is kept, or the first of the next
        version. One that lies beyond was made before an erasure.
        """
        before = self.ledger.with_tables(tables)
        new: list[Record] = []
        price: Counter[str] = Counter()
        for draw in draws:
            root, version = draw.sanitized.root, draw.sanitized.version
            there = self.count(root, version)
            if draw.position < there:
                continue
            if draw.position > there or (not there and version != self.newest(root) + 1):
                raise erased_meanwhile()
            self.record(draw.event)
            price[root] += cost(draw.event)
            new.append(draw)
        check_caps(before, price, self.caps)
        return new

    def cap(self, caps: Mapping[str, int | None]) -> None:
        """Set or (with None) lift caps."""
        for root, micro in caps.items():
            if micro is None:
                self.caps.pop(root, None)
            else:
                self.caps[root] = micro

    def held(self, service: str) -> dict[tuple[str, int], int]:
        """The finest level that a service was given of each version; see `Store.held`."""
        return held_levels(service, self.given, self.before)

    def give(self, new: Mapping[Disclosure, int], limit: int | None) -> None:
        """Write down disclosures; refuse those by which a service would get more than the limit.

        What it holds already may be disclosed again, though its tier is a poorer one by now.
        """
        for service in dict.fromkeys(each.service for each in new):
            before = sum(self.held(service).values())
            self.given |= {each: level for each, level in new.items() if each.service == service}
            if limit is not None and sum(self.held(service).values()) > max(limit, before):
                raise tier_exhausted(service)

    def erasure(self, tables: TableDraws, *, forget_unseen: bool = False) -> list[Charge]:
        """What is left of a ledger when its profile is erased: totals, of nobody by name.

        A root that was never disclosed may be left out: not if a table has it, nor if it was
        erased before, since what was disclosed until then is not known by version any more.
        """
        seen = {each.root for each in self.given} | {root for _, root in self.before} | {*tables}
        unseen = {
            root
            for root, state in self.roots.items()
            if forget_unseen and root not in seen and not state.erased
        }
        totals = self.ledger.with_tables(tables).totals
        charges: list[Charge] = [
            RootCharged(
                principal="",
                root=root,
                version=self.newest(root),
                draws=each.draws,
                micro_epsilon=each.micro,
                first=each.first,
                mechanism=each.mechanism,
            )
            for root, each in totals.items()
            if root not in unseen
        ]
        given = Counter[tuple[str, str]]()
        services = [*(to for to, _ in self.before), *(each.service for each in self.given)]
        for service in dict.fromkeys(services):
            if service:
                for (root, _), level in self.held(service).items():
                    given[service, root] += level
        charges += [
            ServiceCharged(principal="", root=root, service=service, level=level)
            for (service, root), level in given.items()
        ]
        return [*charges, ProfileErased(principal="")]

    def problems(self, replayed: "PersonSummary") -> list[str]:
        """Where it does not agree with its ledger, replayed."""
        found = []
        if self.ledger.totals != replayed.ledger.totals:
            found.append("what was spent is not what the ledger says")
        if self.roots != replayed.roots or self.draws != replayed.draws:
            found.append("versions and levels are not what the ledger says")
        if self.before != replayed.before:
            found.append("what services were given is not what the ledger says")
        if self.events != replayed.events:
            found.append("events are missing or added")
        return found

    def to_text(self) -> str:
        """As it is kept."""
        return json.dumps(
            {
                "totals": {
                    root: [each.micro, each.draws, each.first, each.mechanism]
                    for root, each in self.ledger.totals.items()
                },
                "roots": {
                    root: [each.newest, each.erased, each.current, list(each.levels.items())]
                    for root, each in self.roots.items()
                },
                "caps": self.caps,
                "given": [[*_cells(each), level] for each, level in self.given.items()],
                "before": [[*where, level] for where, level in self.before.items()],
                "events": self.events,
                "draws": self.draws,
                "tags": self.tags,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_text(cls, text: str | bytes) -> "PersonSummary":
        """What was kept."""
        # Most people of a store were noised alike: their texts are the same, word for word.
        return (_parsed_once if len(text) <= _SHORT else _parsed)(text).copy()

    def copy(self) -> "PersonSummary":
        """One that can be changed by itself; what it is made of never changes."""
        made = PersonSummary()
        made.ledger = Ledger(totals=self.ledger.totals)
        made.roots, made.caps = dict(self.roots), dict(self.caps)
        made.given, made.before = dict(self.given), dict(self.before)
        made.events, made.draws, made.tags = self.events, self.draws, list(self.tags)
        return made


_SHORT: Final = 2048  # bytes: longer ones are of people who were given much, each their own


def _parsed(text: str | bytes) -> PersonSummary:
    content, made = json.loads(text), PersonSummary()
    made.ledger = Ledger(
        totals={root: RootTotals(*each) for root, each in content["totals"].items()}
    )
    made.roots = {
        root: RootState(newest=newest, erased=erased, current=current, levels=dict(levels))
        for root, (newest, erased, current, levels) in content["roots"].items()
    }
    made.caps = content["caps"]
    made.given = {
        Disclosure(service=service, tier=tier, root=root, version=version, position=position): level
        for service, tier, root, version, position, level in content["given"]
    }
    made.before = {(service, root): level for service, root, level in content["before"]}
    made.events, made.draws, made.tags = content["events"], content["draws"], content["tags"]
    return made


# People who were noised alike have the same summary; so many short ones are 2 MiB at the most.
_parsed_once = functools.lru_cache(maxsize=1024)(_parsed)


_Places = tuple[tuple[RootName, tuple[tuple[str, int, int], ...]], ...]


def current_places(text: bytes) -> _Places:
    """Of each root that a summary says is kept: where all levels of the current version are."""
    return (_current_once if len(text) <= _SHORT else _current)(text)


def _current(text: bytes) -> _Places:
    made = _parsed(text)
    counted = {root: made.count(root, each.current) for root, each in made.roots.items()}
    return tuple(
        (RootName(root), tuple((root, made.roots[root].current, each) for each in range(levels)))
        for root, levels in counted.items()
        if levels
    )


_current_once = functools.lru_cache(maxsize=1024)(_current)


def _cells(each: Disclosure) -> tuple[str | int, ...]:
    return each.service, each.tier, each.root, each.version, each.position


def held_levels(
    service: str, given: Mapping[Disclosure, int], before: Mapping[tuple[str, str], int]
) -> dict[tuple[str, int], int]:
    """What a service was given: see `Store.held`."""
    found = {(root, 0): level for (to, root), level in before.items() if to == service}
    for each, level in given.items():
        if each.service == service:
            where = (each.root, each.version)
            found[where] = max(found.get(where, 0), level)
    return found


def level_of(record: Record) -> int:
    """A draw's level, in micro-epsilon."""
    return to_micro(record.sanitized.epsilon)


def erased_meanwhile() -> ErasedError:
    """The refusal of whoever still works with what an erasure has deleted."""
    return ErasedError(
        "the profile was erased meanwhile; nothing was released. Open it again with its values to "
        "go on"
    )


def lifetime_cap(ledger: Ledger, caps: Mapping[str, int], root: str) -> int | None:
    """What a root may cost in all: its own cap, else `LIFETIME` times its first price, if any."""
    first = ledger.first_prices.get(root)
    return caps.get(root, None if first is None else LIFETIME * first)


def check_caps(ledger: Ledger, cost: Mapping[str, int], caps: Mapping[str, int]) -> None:
    """Refuse a cost per root, in micro-epsilon, that would pass a cap."""
    spent = ledger.micro
    for root, micro in cost.items():
        cap = lifetime_cap(ledger, caps, root)
        after = spent.get(root, 0) + micro
        if micro and cap is not None and after > cap:
            basis = "" if root in caps else f", {LIFETIME} times what its first draw cost"
            raise BudgetError(
                f"this would bring {root} to epsilon {after / MICRO:g}, over its cap of "
                f"{cap / MICRO:g}{basis}; nothing was drawn. Keep the value that was noised before "
                '(on_change="keep"), or raise the cap (rootguard vault spend --cap '
                f"{root}=EPSILON)"
            )
    total = sum(spent.values()) + sum(cost.values())
    if any(cost.values()) and "" in caps and total > caps[""]:
        raise BudgetError(
            f"this would bring the total to epsilon {total / MICRO:g}, over its cap of "
            f"{caps[''] / MICRO:g}; nothing was drawn"
        )


def tier_exhausted(service: str) -> BudgetError:
    """The refusal of a service that was given all that its tier allows."""
    return BudgetError(
        f"{service} was given all that its tier's budget allows; nothing more was given. Put it "
        "into a richer tier to give it more"
    )
