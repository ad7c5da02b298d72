"""A store checked from what is in it: every seal, every count, and every invariant.

One draw per version and level, the ledger equal to the draws, levels that nest, nothing that
belongs to nothing. Sentences come back that name what is wrong, without any value.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

from rootguard.errors import RootGuardError, StoreDamagedError
from rootguard.events import (
    Charge,
    Draw,
    LevelDerived,
    RootNoised,
    RootRefined,
    RootReturned,
    TableDrawKept,
)
from rootguard.store import rows
from rootguard.store.base import Record, Statement, Transaction
from rootguard.store.envelope import Secrets
from rootguard.store.rows import PersonRow
from rootguard.store.summary import PersonSummary, level_of
from rootguard.values import MICRO, Principal, RootName, normalised

_DRAWS: Final = "SELECT principal, place, mark, content FROM draws"
_NUMBERED: Final = {
    "events": "SELECT principal, sequence, content FROM events ORDER BY principal, sequence",
    "log": "SELECT principal, sequence, content FROM log ORDER BY principal, sequence",
}
_TOKENS: Final = (
    "SELECT principal, token_key, sequence, content FROM tokens ORDER BY principal, sequence"
)


def audit(db: Transaction, secrets: Secrets) -> Iterator[str]:
    """Sentences naming everything that is wrong with a database; none if nothing is."""
    people: dict[str, PersonRow] = {}
    found = db.execute(*_flat(rows.people_query()))
    for row in found:
        try:
            people[row[0]] = rows.read_person(secrets, row)
        except (RootGuardError, ValueError, TypeError, KeyError):
            yield f"{row[0]}: the row of a person was altered"
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for row in db.execute("SELECT principal, shelf, length, mac FROM heads"):
        if not secrets.integrity.holds("heads", *row):
            yield f"{row[0]}: the count of {row[1]} was altered"
        counts[str(row[0])][str(row[1])] = row[2]
    whole = counts.pop(rows.NOBODY, {})
    if whole.get("people") != len(found):
        yield "profiles are missing or added"
    try:
        rows.read_quantities(secrets.integrity, db.execute(*_flat(rows.quantities_query())), whole)
    except (StoreDamagedError, ValueError, TypeError):
        yield "quantities were altered, or are missing or added"
    records: defaultdict[str, list[Record]] = defaultdict(list)
    events: defaultdict[str, list[Charge]] = defaultdict(list)
    yield from _draws(db, people, records)
    for table in _NUMBERED:
        yield from _numbered(db, table, people, counts, events)
    yield from _tokens(db, people, counts)
    for key, person in people.items():
        name = Principal(person.name or key)
        yield from problems(name, records[key], events[key], person.summary)


def _flat(statement: Statement) -> tuple[Any, ...]:
    return statement[0], *statement[1]


def _told(people: Mapping[str, PersonRow], key: object) -> str:
    person = people.get(str(key))
    return str(key) if person is None or not person.name else person.name


def _nobodys(key: object, table: str) -> str:
    return f"{key}: rows of {table} belong to nobody this store knows"


def _draws(
    db: Transaction, people: Mapping[str, PersonRow], records: dict[str, list[Record]]
) -> Iterator[str]:
    """Read everybody's draws; each has to open, and to stand in its own place."""
    for key, place, mark, content in db.execute(_DRAWS):
        person = people.get(key)
        if person is None:
            yield _nobodys(key, "draws")
            continue
        try:
            record = rows.DRAWS.open(person, bytes(place), content)
        except (RootGuardError, ValueError, TypeError):
            yield f"{_told(people, key)}: a row of draws was altered"
            continue
        value = record.sanitized
        own = rows.draw_place(person, value.root, value.version, record.position)
        found_by = (
            b"" if record.position else rows.draw_mark(person, value.root, record.fingerprint)
        )
        if own != bytes(place) or found_by != bytes(mark):
            yield f"{_told(people, key)}: a row of draws stands in another's place"
            continue
        records[key].append(record)


def _numbered(
    db: Transaction,
    table: str,
    people: Mapping[str, PersonRow],
    counts: Mapping[str, Mapping[str, int]],
    events: dict[str, list[Charge]],
) -> Iterator[str]:
    """Read everybody's ledger or log: rows that open, numbered without gaps up to the last."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for key, sequence, content in db.execute(_NUMBERED[table]):
        person = people.get(key)
        if person is None:
            yield _nobodys(key, table)
            continue
        try:
            if table == "events":
                events[key].append(rows.EVENTS.open(person, sequence, content))
            else:
                rows.log_entry(person, sequence, content)
        except (RootGuardError, ValueError, TypeError):
            yield f"{_told(people, key)}: a row of {table} was altered"
            continue
        numbers[key].append(sequence)
    for key, person in people.items():
        last = length = person.summary.events
        if table == "log":
            length, last = (counts[key].get(each, 0) for each in (rows.LOG_ROWS, rows.LATEST))
        if numbers[key] != list(range(last - length + 1, last + 1)):
            yield f"{_told(people, key)}: rows of {table} are missing or added"


def _tokens(
    db: Transaction, people: Mapping[str, PersonRow], counts: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    """Read everybody's tokens; each has to open, and to stand under its own key."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for key, token_key, sequence, content in db.execute(_TOKENS):
        person = people.get(key)
        if person is None:
            yield _nobodys(key, "tokens")
            continue
        try:
            entry = rows.read_token(person, token_key, sequence, content)
            sound = rows.token_key(person, entry.token) == bytes(token_key)
        except (RootGuardError, ValueError, TypeError, OverflowError):
            sound = False
        if not sound:
            yield f"{_told(people, key)}: a row of tokens was altered"
            continue
        numbers[key].append(sequence)
    for key in people:
        if numbers[key] != list(range(1, counts[key].get(rows.TOKEN_ROWS, 0) + 1)):
            yield f"{_told(people, key)}: rows of tokens are missing or added"


_Version = tuple[str, int]


def problems(
    principal: Principal,
    records: Sequence[Record],
    events: Sequence[Charge],
    summary: PersonSummary,
) -> Iterator[str]:
    """Everything that is wrong with one person's content."""
    drawn: defaultdict[_Version, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.position):
        drawn[record.sanitized.root, record.sanitized.version].append(record)
    charged: defaultdict[_Version, list[Draw]] = defaultdict(list)
    for event in events:
        if event.principal and normalised(event.principal) != normalised(principal):
            yield f"{principal}: an event belongs to somebody else"
        if isinstance(event, RootReturned):
            if (event.root, event.version) not in charged:
                yield f"{principal}: {event.root} returned to a version that is not there"
        elif isinstance(event, Draw):
            charged[event.root, event.version].append(event)
    for version in sorted(set(drawn) | set(charged)):
        where = f"{principal}: {version[0]} version {version[1]}"
        if version not in charged:
            yield f"{where}: a draw without an event"
        else:
            yield from _levels(where, drawn[version], charged[version])
    for problem in summary.problems(PersonSummary.of(events)):
        yield f"{principal}: {problem}"
    kept = {(r.sanitized.root, r.sanitized.version, r.position): r for r in records}
    for each, level in summary.given.items():
        shown = kept.get((RootName(each.root), each.version, each.position))
        if shown is None:
            yield f"{principal}: {each.root} was disclosed from a draw that is not there"
        elif level_of(shown) != level:
            yield f"{principal}: {each.root} was disclosed at another level than it was drawn at"


def _levels(where: str, records: Sequence[Record], events: Sequence[Draw]) -> Iterator[str]:
    """One version: positions without gaps, an event for each, and levels that make sense."""
    if [record.position for record in records] != list(range(len(records))):
        yield f"{where}: levels are missing or doubled"
    if [record.event for record in records] != list(events):
        yield f"{where}: the ledger does not match the draws"
        return
    levels: set[int] = set()
    for record, event in zip(records, events, strict=True):
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
        yield from _price(where, record.position, event, level, max(levels, default=0))
        levels.add(level)


def _price(where: str, position: int, event: Draw, level: int, top: int) -> Iterator[str]:
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
        case _:
            assert_never(event)
