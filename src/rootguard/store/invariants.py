"""What must be true of a store's content, checked from the content alone.

One draw per version and level, the ledger equal to the draws, levels that nest, nothing that
belongs to nothing. A store hands over all it holds of a principal; sentences come back that name
what is wrong, without any value.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import assert_never

from rootguard.events import Charge, LevelDerived, ProfileErased, RootNoised, RootRefined
from rootguard.store.base import Disclosure, Record
from rootguard.values import MICRO, Principal

_Version = tuple[str, int]
_Drawn = RootNoised | RootRefined | LevelDerived


def problems(
    principal: Principal,
    records: Sequence[Record],
    events: Sequence[Charge],
    disclosures: Sequence[Disclosure],
) -> Iterator[str]:
    """Everything that is wrong with one principal's content."""
    drawn: defaultdict[_Version, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.position):
        drawn[record.sanitized.root, record.sanitized.version].append(record)
    charged: defaultdict[_Version, list[_Drawn]] = defaultdict(list)
    alive: set[_Version] = set()
    for event in events:
        if event.principal != principal:
            yield f"{principal}: an event belongs to somebody else"
        if isinstance(event, ProfileErased):
            alive.clear()
            continue
        charged[event.root, event.version].append(event)
        alive.add((event.root, event.version))
    for version in sorted(set(drawn) | set(charged)):
        where = f"{principal}: {version[0]} version {version[1]}"
        if version not in charged:
            yield f"{where}: a draw without an event"
        elif version in alive or version in drawn:
            yield from _levels(where, drawn[version], charged[version])
    kept = {(r.sanitized.root, r.sanitized.version, r.position) for r in records}
    for disclosure in disclosures:
        if (disclosure.root, disclosure.version, disclosure.position) not in kept:
            yield f"{principal}: {disclosure.root} was disclosed from a draw that is not there"


def _levels(where: str, records: Sequence[Record], events: Sequence[_Drawn]) -> Iterator[str]:
    """One version: positions without gaps, an event for each, and levels that make sense."""
    if [record.position for record in records] != list(range(len(records))):
        yield f"{where}: levels are missing or doubled"
    if [record.event for record in records] != list(events):
        yield f"{where}: the ledger does not match the draws"
        return
    levels: set[int] = set()
    for record in records:
        sanitized = record.sanitized
        level = int(sanitized.epsilon * MICRO)
        if not 0 <= sanitized.index < sanitized.domain.size:
            yield f"{where}: a value lies outside its grid"
        if level in levels:
            yield f"{where}: the same level was drawn twice"
        if records[0].sanitized.domain != sanitized.domain:
            yield f"{where}: levels on different grids"
        if records[0].fingerprint != record.fingerprint:
            yield f"{where}: levels of different values"
        yield from _price(where, record.position, record.event, level, max(levels, default=0))
        levels.add(level)


def _price(where: str, position: int, event: Charge, level: int, top: int) -> Iterator[str]:
    """Whether a level was charged what it costs beside those before it."""
    match event:
        case RootNoised():
            if position != 0 or event.micro_epsilon != level:
                yield f"{where}: noised more than once, or at another price"
        case RootRefined():
            if event.level != level or event.micro_epsilon != level - top:
                yield f"{where}: a refinement was not charged the difference"
        case LevelDerived():
            if event.level != level or level >= top:
                yield f"{where}: a derived level is not below the finest"
        case ProfileErased():
            yield f"{where}: a draw without a price"
        case _:
            assert_never(event)
