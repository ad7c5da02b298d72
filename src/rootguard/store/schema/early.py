"""Stores as earlier versions wrote them: read once, checked, and put under each person's own key.

Rows were sealed one by one and named their person in clear; a count for each table told how many
there were. What is read here is written by `rows` and dropped, in the migration's transaction. An
erased profile had left its whole ledger; here it becomes totals, as an erasure leaves them now.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Final

from rootguard.errors import RootGuardError, StoreDamagedError
from rootguard.events import Charge, Event, ProfileErased
from rootguard.identifiers import IssuedToken
from rootguard.store import rows
from rootguard.store.base import Disclosure, Recipient, Record, Row, Statement, Transaction
from rootguard.store.envelope import Secrets
from rootguard.store.summary import PersonSummary, level_of
from rootguard.store.tables import table_prf
from rootguard.values import (
    MICRO,
    UNKNOWN_UNIT,
    Domain,
    RootName,
    RootQuantity,
    Sanitized,
    normalised,
)

_TABLES: Final = {
    "draws": (
        "principal, root, version, position, grid_index, lower_bound, upper_bound, size,"
        " micro_epsilon, mechanism, fingerprint, event, mac"
    ),
    "events": "principal, sequence, event, mac",
    "caps": "principal, root, micro_epsilon, mac",
    "disclosures": "principal, sequence, service, tier, root, version, position, mac",
    "crossings": "principal, sequence, micros, service, route, event, mac",
    "heads": "principal, shelf, length, mac",
}
_UNSEALED: Final = ("tokens",)
AMBIGUOUS: Final = "ambiguous"
"""The row of `meta` that says which names an early store had in several spellings."""


def convert(db: Transaction, secrets: Secrets) -> None:
    """Bring an early store's people, and the grids of its roots, into the tables of today."""
    found = {table: _read(db, secrets, table) for table in _TABLES}
    tokens = _tokens(db, secrets)
    _check_counts(found, tokens)
    people: defaultdict[str, _EarlyPerson] = defaultdict(_EarlyPerson)
    for principal, _, text, _ in found["events"]:
        people[principal].events.append(rows.charge(text))
    for row in found["draws"]:
        people[row[0]].draws.append(_draw(row))
    for principal, root, micro, _ in found["caps"]:
        people[principal].caps[root] = micro
    for row in found["disclosures"]:
        people[row[0]].given.append(_disclosure(row))
    for row in found["crossings"]:
        people[row[0]].log.append(row)
    for principal, sequence, entry in tokens:
        people[principal].tokens.append((sequence, entry))
    for principal, shelf, length, _ in found["heads"]:
        if shelf == "crossed":
            people[principal].latest = length
    keys, ambiguous = _keys(secrets, list(people))
    counts = {
        "people": len(people),
        AMBIGUOUS: len(ambiguous),
        rows.EXACT_IDS: int(bool(db.execute("SELECT sequence FROM table_runs"))),
    }
    statements: list[Statement] = [
        rows.put_count(secrets.integrity, rows.NOBODY, name, count)
        for name, count in counts.items()
    ]
    if ambiguous:
        text = secrets.people.encrypt(json.dumps(ambiguous).encode(), AMBIGUOUS)
        statements.append(("INSERT INTO meta (name, value) VALUES (?, ?)", (AMBIGUOUS, text)))
    for name, early in people.items():
        statements += early.rows(secrets, rows.PersonRow.new(keys[name], name))
    statements += _grids(db, secrets, found)
    db.batch(statements)
    for table in (*_TABLES, *_UNSEALED):
        db.execute(f"DROP TABLE early_{table}")  # a name of our own


class _EarlyPerson:
    """What an early store kept of a person."""

    def __init__(self) -> None:
        self.events: list[Charge] = []
        self.draws: list[Record] = []
        self.caps: dict[str, int] = {}
        self.given: list[Disclosure] = []
        self.log: list[Row] = []
        self.latest = 0
        self.tokens: list[tuple[int, IssuedToken]] = []

    def rows(self, secrets: Secrets, person: rows.PersonRow) -> Iterator[Statement]:
        """The person's rows of today."""
        integrity = secrets.integrity
        erasures = [n for n, event in enumerate(self.events) if isinstance(event, ProfileErased)]
        events = self.events
        if erasures:
            last = erasures[-1] + 1
            until = PersonSummary.of(events[:last])
            events = [*until.erasure({}), *events[last:]]
        person.epoch = len(erasures)
        person.summary = PersonSummary.of(events)
        if len(self.draws) != person.summary.draws or {
            (each.sanitized.root, each.sanitized.version, each.position) for each in self.draws
        } != set(person.summary.kept()):
            raise _damaged("draws")
        person.summary.caps = self.caps
        levels = {(d.sanitized.root, d.sanitized.version, d.position): d for d in self.draws}
        for each in self.given:
            record = levels.get((RootName(each.root), each.version, each.position))
            if record is not None:
                person.summary.given[each] = level_of(record)
        if erasures:
            prf = table_prf(secrets.fingerprint, exact=True)
            person.summary.tags = [int(prf.tags(prf.person(person.name))[0])]
        if erasures and not self.draws and not self.tokens:
            person.name = ""
        yield rows.put_person(secrets, person)
        yield from rows.add_draws(person, self.draws)
        yield from rows.add_events(person, events)
        for sequence, entry in self.tokens:
            yield rows.add_token(person, sequence, entry)
        if self.tokens:
            yield rows.put_count(integrity, person.key, rows.TOKEN_ROWS, len(self.tokens))
        if self.latest:
            counts = {rows.LATEST: self.latest - len(self.log)}
            entries = [
                (micros, Recipient(service=service, route=route), _nameless(rows.event_of(text)))
                for _, _, micros, service, route, text, _ in self.log
            ]
            yield from rows.add_entries(integrity, person, counts, entries)


def _nameless(event: Event) -> Event:
    """An erasure of nobody by name, as it is written down now."""
    return ProfileErased(principal="") if isinstance(event, ProfileErased) else event


def _read(db: Transaction, secrets: Secrets, table: str) -> list[Row]:
    """All rows of a table, in order, none of them altered."""
    # Put together from constants of this module.
    found = db.execute(f"SELECT {_TABLES[table]} FROM early_{table} ORDER BY principal, 2")  # noqa: S608
    for row in found:
        secrets.integrity.check(table, *row)
    return found


def _tokens(db: Transaction, secrets: Secrets) -> list[tuple[str, int, IssuedToken]]:
    found = db.execute(
        "SELECT principal, token_key, sequence, entry FROM early_tokens ORDER BY principal, 3"
    )
    return [
        (principal, sequence, secrets.registry.decrypt(principal, key, sequence, entry))
        for principal, key, sequence, entry in found
    ]


def _check_counts(found: dict[str, list[Row]], tokens: list[tuple[str, int, IssuedToken]]) -> None:
    """Refuse a store that lost rows: an early one is brought up to date whole, or left alone."""
    there = Counter((str(row[0]), table) for table in found for row in found[table])
    there.update((principal, "tokens") for principal, _, _ in tokens)
    counted = {(row[0], row[1]): row[2] for row in found["heads"]}
    everyone = sum(table == "events" for _, table in counted)
    for table in ("draws", "events", "caps", "disclosures", "crossings", "tokens"):
        people = {who for who, name in {*counted, *there} if name == table}
        if any(counted.get((who, table), 0) != there[who, table] for who in people):
            raise _damaged(table)
    if found["heads"] and counted.get(("", "principals")) != everyone:
        raise _damaged("profiles")


def _damaged(table: str) -> StoreDamagedError:
    return StoreDamagedError(f"rows of {table} are missing or added; restore the backup")


def _draw(row: Row) -> Record:
    _, root, version, position, index, lower, upper, size, micro, mechanism, mark, event, _ = row
    return Record(
        sanitized=Sanitized(
            root=root,
            index=index,
            domain=Domain(lower=float.fromhex(lower), upper=float.fromhex(upper), size=size),
            epsilon=Fraction(micro, MICRO),
            mechanism=mechanism,
            version=version,
        ),
        position=position,
        fingerprint=mark,
        event=rows.charge(event),
    )


def _disclosure(row: Row) -> Disclosure:
    _, _, service, tier, root, version, position, _ = row
    return Disclosure(service=service, tier=tier, root=root, version=version, position=position)


def _keys(secrets: Secrets, names: list[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """What stands for each name. Of names that differ only in spelling, each keeps its own.

    Any other spelling of such a name is refused from now on, because it could mean either.
    """
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        alike[normalised(name)].append(name)
    keys: dict[str, str] = {}
    ambiguous: dict[str, list[str]] = {}
    for name, spellings in alike.items():
        if len(spellings) == 1 and name:
            keys[spellings[0]] = secrets.hash(name)
            continue
        exact = {spelling: secrets.hash("exactly", spelling) for spelling in spellings}
        keys |= exact
        ambiguous[secrets.hash(name)] = list(exact.values())
    return keys, ambiguous


def _grids(db: Transaction, secrets: Secrets, found: dict[str, list[Row]]) -> list[Statement]:
    """What an early store tells of its roots: the grid that most draws of each are on."""
    grids: dict[RootName, Counter[Domain]] = {}
    for row in found["draws"]:
        with suppress(RootGuardError, ValueError, TypeError):
            value = _draw(row).sanitized
            grids.setdefault(value.root, Counter())[value.domain] += 1
    counts = {row[1]: row[2] for row in found["heads"] if row[0] == ""}
    query, cells = rows.quantities_query()
    there = rows.read_quantities(secrets.integrity, db.execute(query, *cells), counts)
    known = len(there)
    statements = rows.define(
        secrets.integrity,
        there,
        [
            RootQuantity(name=root, unit=UNKNOWN_UNIT, domain=each.most_common(1)[0][0])
            for root, each in grids.items()
            if root not in there
        ],
    )
    if known and not statements:
        statements = [rows.put_count(secrets.integrity, rows.NOBODY, "quantities", known)]
    return statements
