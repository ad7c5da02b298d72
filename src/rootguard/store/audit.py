"""A store checked from what is in it: every seal, every count, and every invariant.

One draw per version and level, the ledger equal to the draws, levels that nest, nothing that
belongs to nothing. Sentences come back that name what is wrong, without any value.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, assert_never

from rootguard.errors import RootGuardError
from rootguard.events import (
    Charge,
    Draw,
    LevelDerived,
    ProfileErased,
    RootNoised,
    RootRefined,
    RootReturned,
    ServiceCharged,
    TableCharged,
    TableDrawKept,
)
from rootguard.store.base import Disclosure, Record, Transaction
from rootguard.store.envelope import RegistryCipher, Secrets
from rootguard.store.rows import CAPS, DISCLOSURES, DRAWS, EVENTS, LOG, Rows, SealedTable
from rootguard.values import MICRO, Principal

# The second column is a root or a sequence; the ledger has to be read in its order.
_ORDER: Final = "ORDER BY principal, 2"
_TOKENS: Final = "SELECT principal, token_key, sequence, entry FROM tokens"


def audit(db: Transaction, secrets: Secrets) -> Iterator[str]:
    """Sentences naming everything that is wrong with a database; none if nothing is."""
    rows = Rows(db, secrets.integrity)
    counted: Counter[tuple[str, str]] = Counter()
    sequences: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    things: dict[str, defaultdict[str, list[Any]]] = {}
    tables: tuple[SealedTable[Any, Any], ...] = (DRAWS, EVENTS, CAPS, DISCLOSURES, LOG)
    for table in tables:
        things[table.name] = defaultdict(list)
        for row in db.execute(f"{table.select} {_ORDER}"):
            counted[str(row[0]), table.name] += 1  # an altered name may have become a number
            try:  # until its seal holds, a row's name is anybody's
                thing = table.read(secrets.integrity, row)
            except (RootGuardError, ValueError, TypeError):
                yield f"{row[0]}: a row of {table.name} was altered"
                continue
            things[table.name][row[0]].append(thing)
            if table in (EVENTS, DISCLOSURES, LOG):
                sequences[row[0], table.name].append(row[1])
    cipher = secrets.current_registry(db)
    for row in db.execute(_TOKENS):
        counted[str(row[0]), "tokens"] += 1
        if _token_holds(cipher, row):
            sequences[row[0], "tokens"].append(row[2])
        else:
            yield f"{row[0]}: a row of tokens was altered"
    yield from rows.problems(counted)
    for (principal, name), found in sorted(sequences.items()):
        last = rows.latest_entry(principal) if name == LOG.name else len(found)
        if sorted(found) != list(range(last - len(found) + 1, last + 1)):
            yield f"{principal}: {name} are not numbered without gaps"
    draws, events, disclosures = (things[t.name] for t in (DRAWS, EVENTS, DISCLOSURES))
    for principal in sorted({*draws, *events, *disclosures}):
        yield from problems(
            Principal(principal), draws[principal], events[principal], disclosures[principal]
        )


def _token_holds(cipher: RegistryCipher, row: tuple[Any, ...]) -> bool:
    """Whether a token's row can be opened and stands under its own key."""
    try:
        entry = cipher.decrypt(*row)
        return bool(cipher.row_key(row[0], entry.token) == row[1])
    except (RootGuardError, ValueError, TypeError):
        return False


_Version = tuple[str, int]


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
    charged: defaultdict[_Version, list[Draw]] = defaultdict(list)
    alive: set[_Version] = set()
    for event in events:
        if event.principal != principal:
            yield f"{principal}: an event belongs to somebody else"
        if isinstance(event, ProfileErased):
            alive.clear()
            continue
        if isinstance(event, TableCharged | ServiceCharged):
            continue
        if isinstance(event, RootReturned):
            if (event.root, event.version) not in alive:
                yield f"{principal}: {event.root} returned to a version that is not there"
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


def _levels(where: str, records: Sequence[Record], events: Sequence[Draw]) -> Iterator[str]:
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
        case TableDrawKept():
            if position != 0 or event.level != level:
                yield f"{where}: kept from a table more than once, or at another level"
        case RootRefined():
            if event.level != level or event.micro_epsilon != level - top:
                yield f"{where}: a refinement was not charged the difference"
        case LevelDerived():
            if event.level != level or level >= top:
                yield f"{where}: a derived level is not below the finest"
        case RootReturned() | TableCharged() | ServiceCharged() | ProfileErased():
            yield f"{where}: a draw without a price"
        case _:
            assert_never(event)
