"""Rows and what they mean: encrypted when written, checked when read, and counted.

A person has one row in `people`: the person's key, wrapped; the name, under that key; and the
summary, sealed with everything else in the row. All other rows of the person are encrypted under
the person's key and bound to their place, so a row that was altered or put elsewhere does not open,
and one that is gone is missed, because the summary says how many there are. The audit log and the
identifier tokens have counts of their own, sealed as well, and one count says how many people there
are. All of it is written in the transaction that writes the rows.
"""

import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, Final, Generic, TypeVar, cast

from rootguard.errors import RootGuardError, StoreDamagedError, StoreError
from rootguard.events import (
    Charge,
    Event,
    RequestRefused,
    TokenRefused,
    ValueReleased,
    from_record,
    to_record,
)
from rootguard.identifiers import IssuedToken, Kind
from rootguard.store.base import (
    LOG_SIZE,
    Cell,
    LogEntry,
    Record,
    Row,
    Statement,
    Transaction,
    UnnumberedEntry,
    unstorable_name,
)
from rootguard.store.envelope import (
    PERSON_KEY_BYTES,
    Integrity,
    PersonCipher,
    Secrets,
)
from rootguard.store.summary import PersonSummary
from rootguard.values import (
    MICRO,
    UNKNOWN_UNIT,
    Domain,
    RootName,
    RootQuantity,
    Sanitized,
    Unserializable,
)

T = TypeVar("T")

# PostgreSQL's BIGINT and SQLite's INTEGER have 64 bits with a sign.
_LARGEST: Final = 2**63 - 1


def storable(*cells: Cell) -> None:
    """Refuse names and numbers that no database keeps exactly."""
    for cell in cells:
        if isinstance(cell, int) and abs(cell) > _LARGEST:
            raise StoreError("a number is too large to be stored")
        if isinstance(cell, str) and (
            "\x00" in cell or (not cell.isascii() and any("\ud800" <= c <= "\udfff" for c in cell))
        ):
            raise unstorable_name()


class PersonRow(Unserializable):
    """A person's row in `people`, as a transaction sees it; `there` says whether it is written.

    The key is the keyed hash that stands for the name in every table.
    """

    __slots__ = ("cipher", "epoch", "key", "name", "revision", "secret", "summary", "there")

    def __init__(
        self,
        key: str,
        secret: bytes,
        *,
        cipher: PersonCipher | None = None,
        name: str = "",
        summary: PersonSummary | None = None,
    ) -> None:
        self.key = key
        self.secret = secret
        self.cipher = PersonCipher(secret, key) if cipher is None else cipher
        self.name = name
        self.epoch = 0
        self.revision = 0
        self.summary = PersonSummary() if summary is None else summary
        self.there = False

    @classmethod
    def new(cls, key: str, name: str) -> "PersonRow":
        """Somebody of whom nothing is kept yet."""
        return cls(key, os.urandom(PERSON_KEY_BYTES), name=name)

    def begin_anew(self) -> None:
        """Forget name and key, as after an erasure."""
        self.epoch += 1
        self.name = ""
        self.secret = os.urandom(PERSON_KEY_BYTES)
        self.cipher = PersonCipher(self.secret, self.key)


_PEOPLE: Final = "SELECT principal, epoch, revision, person_key, name, summary FROM people"
EPOCH: Final = "SELECT epoch FROM main.people WHERE principal = ?"
_PUT_PERSON: Final = (
    "INSERT INTO people (principal, epoch, revision, person_key, name, summary)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (principal) DO UPDATE SET epoch = excluded.epoch,"
    " revision = excluded.revision, person_key = excluded.person_key, name = excluded.name,"
    " summary = excluded.summary"
)


def person_query(key: str) -> Statement:
    """What reads a person's row."""
    return f"{_PEOPLE} WHERE principal = ?", (key,)


def people_query() -> Statement:
    """What reads everybody's."""
    return f"{_PEOPLE} ORDER BY principal", ()


def read_person(secrets: Secrets, row: Row) -> PersonRow:
    """The person that a row tells of."""
    [(text, secret, aead, name)] = secrets.people.open_rows([row])
    person = PersonRow(
        row[0],
        secret,
        cipher=PersonCipher(secret, row[0], aead),
        name=name_of(name),
        summary=PersonSummary.from_text(text),
    )
    person.epoch, person.revision, person.there = row[1], row[2], True
    return person


_SCAN: Final = json.JSONDecoder().raw_decode


def json_of(text: bytes) -> Any:  # noqa: ANN401 - whatever was kept
    """What a row's text says: ours begins at once and has blanks behind it alone."""
    return _SCAN(text.decode())[0]


def name_of(text: bytes) -> str:
    """A person's name from its text; nothing of whom was erased."""
    if not text:
        return ""
    if b"\\" in text:  # what is not plain ASCII is escaped
        return cast("str", json_of(text))
    return text.rstrip()[1:-1].decode()


def put_person(secrets: Secrets, person: PersonRow) -> Statement:
    """What writes a person's row, changed."""
    key, epoch = person.key, person.epoch
    person.revision += 1
    wrapped = secrets.people.encrypt(person.secret, "key", key, epoch)
    name = b""
    if person.name:
        name = person.cipher.encrypt("people", epoch, text=json.dumps(person.name).encode())
    bound = ("summary", key, epoch, person.revision, wrapped, name)
    sealed = secrets.people.encrypt(person.summary.to_text().encode(), *bound)
    return _PUT_PERSON, (key, epoch, person.revision, wrapped, name, sealed)


class PersonTable(Generic[T]):
    """A table of things of one kind, each in a row of its person's, encrypted."""

    def __init__(
        self, name: str, *, pack: Callable[[T], list[Any]], unpack: Callable[[list[Any]], T]
    ) -> None:
        self.name = name
        self._pack = pack
        self._unpack = unpack

    def seal(self, person: PersonRow, place: Cell, thing: T) -> bytes:
        """A thing as it is kept in its place."""
        cells = self._pack(thing)
        storable(*(cell for cell in cells if isinstance(cell, str | int)))
        text = json.dumps(cells, separators=(",", ":")).encode()
        return person.cipher.encrypt(self.name, place, text=text)

    def open(self, person: PersonRow, place: Cell, content: object) -> T:
        """The thing that was kept in this place."""
        text = person.cipher.decrypt(self.name, place, content=content)
        return self._unpack(json_of(text))


def _pack_draw(draw: Record) -> list[Any]:
    sanitized = draw.sanitized
    micro = sanitized.epsilon * MICRO
    if micro.denominator != 1:
        raise StoreError(f"the epsilon of {sanitized.root} is not whole in micro-epsilon")
    return [
        sanitized.root,
        sanitized.version,
        draw.position,
        sanitized.index,
        sanitized.domain.lower.hex(),
        sanitized.domain.upper.hex(),
        sanitized.domain.size,
        micro.numerator,
        sanitized.mechanism,
        draw.fingerprint.hex(),
        _event_text(draw.event),
    ]


def _unpack_draw(cells: list[Any]) -> Record:
    root, version, position, index, lower, upper, size, micro, mechanism, mark, event = cells
    domain = Domain(lower=float.fromhex(lower), upper=float.fromhex(upper), size=size)
    return Record(
        sanitized=Sanitized(
            root=root,
            index=index,
            domain=domain,
            epsilon=Fraction(micro, MICRO),
            mechanism=mechanism,
            version=version,
        ),
        position=position,
        fingerprint=bytes.fromhex(mark),
        event=charge(event),
    )


def _pack_entry(entry: UnnumberedEntry) -> list[Any]:
    micros, recipient, event = entry
    return [micros, recipient.service, recipient.route, _event_text(event)]


def _unpack_entry(cells: list[Any]) -> LogEntry:
    micros, service, route, text = cells
    # The number is the row's, which the caller knows.
    return LogEntry(sequence=0, micros=micros, service=service, route=route, event=event_of(text))


def _event_text(event: Event) -> str:
    """An event as JSON, always the same for the same event."""
    return json.dumps(to_record(event), sort_keys=True, separators=(",", ":"))


def event_of(text: str) -> Event:
    """The event that was written so."""
    event = None
    with suppress(ValueError, RootGuardError):
        event = from_record(json.loads(text))
    if event is None:
        raise StoreDamagedError("a stored event is not one this version of RootGuard knows")
    return event


@functools.lru_cache(maxsize=4096)  # levels of a person are read again and again
def charge(text: str) -> Charge:
    """The same, of a ledger."""
    event = event_of(text)
    if isinstance(event, ValueReleased | RequestRefused | TokenRefused):
        raise StoreDamagedError("a stored event is not one this version of RootGuard knows")
    return event


DRAWS: Final = PersonTable[Record]("draws", pack=_pack_draw, unpack=_unpack_draw)
EVENTS: Final = PersonTable[Charge](
    "events", pack=lambda event: [_event_text(event)], unpack=lambda cells: charge(cells[0])
)
LOG: Final = PersonTable[Any]("log", pack=_pack_entry, unpack=_unpack_entry)
TOKENS: Final = PersonTable[IssuedToken](
    "tokens",
    pack=lambda entry: [entry.kind, entry.token, entry.sealed.hex()],
    unpack=lambda cells: IssuedToken(
        kind=cast("Kind", cells[0]), token=cells[1], sealed=bytes.fromhex(cells[2])
    ),
)

_ADD_DRAW: Final = "INSERT INTO draws (principal, place, mark, content) VALUES (?, ?, ?, ?)"
_ADD_EVENT: Final = "INSERT INTO events (principal, sequence, content) VALUES (?, ?, ?)"


def draw_place(person: PersonRow, root: str, version: int, position: int) -> bytes:
    """Where a draw's row is."""
    return person.cipher.place("draw", root, version, position)


def draw_mark(person: PersonRow, root: str, fingerprint: bytes) -> bytes:
    """By what the first draw of a version is found, given its value's fingerprint."""
    return person.cipher.place("mark", root, fingerprint)


def add_draws(person: PersonRow, draws: Iterable[Record]) -> Iterator[Statement]:
    """What writes draws that the summary has counted."""
    for draw in draws:
        root, version = draw.sanitized.root, draw.sanitized.version
        place = draw_place(person, root, version, draw.position)
        mark = b"" if draw.position else draw_mark(person, root, draw.fingerprint)
        yield _ADD_DRAW, (person.key, place, mark, DRAWS.seal(person, place, draw))


def add_events(person: PersonRow, events: Sequence[Charge]) -> Iterator[Statement]:
    """What writes events that the summary has counted: the last ones of the ledger."""
    first = person.summary.events - len(events) + 1
    for sequence, event in enumerate(events, start=first):
        yield _ADD_EVENT, (person.key, sequence, EVENTS.seal(person, sequence, event))


def read_draws(
    db: Transaction, person: PersonRow, wanted: Sequence[tuple[str, int, int]]
) -> list[Record]:
    """Draws that the summary says are kept, by root, version and position; refuses a lost one."""
    places = [draw_place(person, *each) for each in wanted]
    found: dict[bytes, Record] = {}
    for start in range(0, len(places), _AT_ONCE):
        some = places[start : start + _AT_ONCE]
        asked = ", ".join("?" * len(some))
        # Put together from question marks alone.
        query = f"SELECT place, content FROM draws WHERE principal = ? AND place IN ({asked})"  # noqa: S608
        for place, content in db.execute(query, person.key, *some):
            found[bytes(place)] = DRAWS.open(person, bytes(place), content)
    if len(found) < len(set(places)):
        raise StoreDamagedError("the ledger and the draws do not match; restore the store's backup")
    return [found[place] for place in places]


def misplaced() -> StoreDamagedError:
    """The refusal of draws that are not found by what they are marked with."""
    return StoreDamagedError("a row of draws stands in another's place; restore the store's backup")


_AT_ONCE: Final = 500  # far below the number of cells that either database takes in a statement

_COUNTS: Final = "SELECT principal, shelf, length, mac FROM heads"
_PUT_COUNT: Final = (
    "INSERT INTO heads (principal, shelf, length, mac) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (principal, shelf) DO UPDATE SET length = excluded.length, mac = excluded.mac"
)
_LOCK_COUNT: Final = (
    "UPDATE heads SET length = length WHERE principal = ? AND shelf = ?"
    " RETURNING principal, shelf, length, mac"
)
NOBODY: Final = ""
"""Whose counts are those of the store: how many people there are, and quantities."""


def counts_query(principal: str) -> Statement:
    """What reads somebody's counts."""
    return f"{_COUNTS} WHERE principal = ?", (principal,)


def read_counts(integrity: Integrity, found: Iterable[Row]) -> dict[str, int]:
    """Counts by their names; refuses one that was altered."""
    counts: dict[str, int] = {}
    for row in found:
        integrity.check("heads", *row)
        counts[row[1]] = int(row[2])
    return counts


def put_count(integrity: Integrity, principal: str, name: str, length: int) -> Statement:
    """What writes a count."""
    seal = integrity.seal("heads", principal, name, length)
    return _PUT_COUNT, (principal, name, length, seal)


def count_person(db: Transaction, integrity: Integrity, newcomers: int = 1) -> Statement:
    """What counts one more person, or several.

    The idle update takes the row's lock where locks are per row: two newcomers who read the count
    at once would both write it one higher. Everybody takes it after a person's own lock
    (`Database.writing`), never before, so that no two wait for each other.
    """
    counts = read_counts(integrity, db.execute(_LOCK_COUNT, NOBODY, "people"))
    if "people" not in counts:
        raise StoreDamagedError("the count of people is missing; restore the backup")
    return put_count(integrity, NOBODY, "people", counts["people"] + newcomers)


QUANTITIES_LOCK: Final = "(quantities)"
"""The name under which writers of quantities wait for each other."""
_QUANTITIES: Final = (
    "SELECT root, unit, lower_bound, upper_bound, size, mac FROM quantities ORDER BY root"
)
_PUT_QUANTITY: Final = (
    "INSERT INTO quantities (root, unit, lower_bound, upper_bound, size, mac)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (root) DO UPDATE SET unit = excluded.unit,"
    " mac = excluded.mac"
)


def quantities_query() -> Statement:
    """What reads the unit and grid of each root."""
    return _QUANTITIES, ()


def read_quantities(
    integrity: Integrity, found: Sequence[Row], counts: dict[str, int]
) -> dict[RootName, RootQuantity]:
    """The unit and grid of each root; refuses a store that lost one."""
    for row in found:
        integrity.check("quantities", *row)
    if counts.get("quantities", 0) != len(found):
        raise StoreDamagedError("quantities are missing or added; restore the backup")
    return {
        RootName(root): RootQuantity(
            name=RootName(root),
            unit=unit,
            domain=Domain(lower=float.fromhex(lower), upper=float.fromhex(upper), size=size),
        )
        for root, unit, lower, upper, size, _ in found
    }


def define(
    integrity: Integrity,
    there: dict[RootName, RootQuantity],
    quantities: Sequence[RootQuantity],
) -> list[Statement]:
    """What adds quantities that are not there yet, to `there` too; units not known are fixed."""
    statements: list[Statement] = []
    for each in quantities:
        known = there.get(each.name)
        if known is not None and (known.unit != UNKNOWN_UNIT or known.domain != each.domain):
            continue
        there[each.name] = each
        grid = (each.domain.lower.hex(), each.domain.upper.hex(), each.domain.size)
        cells: tuple[Cell, ...] = (each.name, each.unit, *grid)
        statements.append((_PUT_QUANTITY, (*cells, integrity.seal("quantities", *cells))))
    if statements:
        statements.append(put_count(integrity, NOBODY, "quantities", len(there)))
    return statements


# How many rows of the log there are, and the sequence of the latest entry there ever was.
LOG_ROWS: Final = "log"
LATEST: Final = "latest"
# Whether a store has tables of an early version and compares ids in them exactly: 1, or 0.
EXACT_IDS: Final = "exact_ids"
TOKEN_ROWS: Final = "tokens"  # noqa: S105
_ADD_ENTRY: Final = "INSERT INTO log (principal, sequence, content) VALUES (?, ?, ?)"
_TRIM: Final = "DELETE FROM log WHERE principal = ? AND sequence <= ?"
_AFTER: Final = (
    "SELECT sequence, content FROM log WHERE principal = ? AND sequence > ?"
    " ORDER BY sequence LIMIT ?"
)
_BEFORE: Final = (
    "SELECT sequence, content FROM log WHERE principal = ? AND sequence < ?"
    " ORDER BY sequence DESC LIMIT ?"
)


def add_entries(
    integrity: Integrity,
    person: PersonRow,
    counts: dict[str, int],
    entries: Sequence[UnnumberedEntry],
    given_up: int = 0,
) -> list[Statement]:
    """What numbers log entries after those that are there, and lets the oldest go.

    `given_up` more came before them and are counted only. What cannot be stored is left out. Two
    counts are kept, so neither taking rows away nor putting back old ones goes unseen.
    """
    there, latest = counts.get(LOG_ROWS, 0), counts.get(LATEST, 0)
    first = latest - there + 1
    start = latest + given_up + 1
    sealed: list[tuple[Cell, ...]] = []
    for entry in entries:
        with suppress(StoreError):
            number = start + len(sealed)
            sealed.append((person.key, number, LOG.seal(person, number, entry)))
    if not sealed:
        return []
    sealed = sealed[-LOG_SIZE:]
    last = int(sealed[-1][1])
    # Whatever was given up makes a gap, and the rows before a gap go.
    gone = max(last - LOG_SIZE, int(sealed[0][1]) - 1 if given_up else 0)
    statements: list[Statement] = [(_ADD_ENTRY, row) for row in sealed]
    if gone >= first:
        statements.append((_TRIM, (person.key, gone)))
    removed = min(max(gone - first + 1, 0), there)
    counts[LOG_ROWS], counts[LATEST] = there + len(sealed) - removed, last
    return [
        *statements,
        put_count(integrity, person.key, LOG_ROWS, counts[LOG_ROWS]),
        put_count(integrity, person.key, LATEST, last),
    ]


def read_log(
    db: Transaction,
    person: PersonRow,
    counts: dict[str, int],
    *,
    after: int,
    before: int | None,
    limit: int,
) -> tuple[LogEntry, ...]:
    """The first entries after a sequence, or the last before one; refuses a log that lost any."""
    last = counts.get(LATEST, 0)
    first = last - counts.get(LOG_ROWS, 0) + 1
    if before is None:
        found = db.execute(_AFTER, person.key, after, limit)
        there = range(max(first, after + 1), last + 1)[:limit]
    else:
        found = db.execute(_BEFORE, person.key, before, limit)[::-1]
        end = max(first, min(before, last + 1))
        there = range(max(first, end - limit), end)
    if [row[0] for row in found] != list(there):
        raise StoreDamagedError("rows of the log are missing or added; restore the backup")
    return tuple(log_entry(person, *row) for row in found)


def log_entry(person: PersonRow, sequence: int, content: object) -> LogEntry:
    """An entry of the log, with its number."""
    entry: LogEntry = LOG.open(person, sequence, content)
    return LogEntry(
        sequence=sequence,
        micros=entry.micros,
        service=entry.service,
        route=entry.route,
        event=entry.event,
    )


_ADD_TOKEN: Final = (
    "INSERT INTO tokens (principal, token_key, sequence, content) VALUES (?, ?, ?, ?)"  # noqa: S105
)


def token_key(person: PersonRow, token: str) -> bytes:
    """Where a token's row is, without its text being there."""
    return person.cipher.place("token", token)


def add_token(person: PersonRow, sequence: int, entry: IssuedToken) -> Statement:
    """What writes a token's entry, bound to its place and number."""
    key = token_key(person, entry.token)
    content = TOKENS.seal(person, key + sequence.to_bytes(8, "big"), entry)
    return _ADD_TOKEN, (person.key, key, sequence, content)


def read_token(person: PersonRow, key: bytes, sequence: int, content: object) -> IssuedToken:
    """The entry that was kept in this very row."""
    return TOKENS.open(person, bytes(key) + sequence.to_bytes(8, "big"), content)
