"""Many people of a store in a database at once: their snapshots, their draws, their commits.

What `SqlStore` does for one person in a transaction is done here for some hundreds in one. Rows are
read by sets and checked one by one, as ever; what is the same for everybody is read once.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rootguard.accounting import TableDraws
from rootguard.errors import BudgetError, ErasedError, StoreDamagedError
from rootguard.events import Charge
from rootguard.store import rows, tables
from rootguard.store.anchor import TABLES
from rootguard.store.base import Commit, Record, Row, Snapshot, Statement, TableRun, Transaction
from rootguard.store.envelope import PersonCipher, Secrets
from rootguard.store.rows import PersonRow
from rootguard.store.summary import erased_meanwhile
from rootguard.values import MICRO, Domain, Principal, RootName, Sanitized

if TYPE_CHECKING:
    from rootguard.store.sql import SqlStore

AT_ONCE: Final = 500  # people of one transaction: no other writer waits longer than for a few
_PEOPLE: Final = (
    "SELECT principal, epoch, revision, person_key, name, summary FROM people WHERE principal IN "
)
_DRAWS: Final = "SELECT principal, place, content FROM draws WHERE principal IN "
_COUNTS: Final = "SELECT principal, shelf, length, mac FROM heads WHERE principal IN "


def snapshots(store: "SqlStore", principals: Sequence[Principal]) -> list[Snapshot]:
    """`snapshot` of many people; those of a transaction are as of one moment."""
    found: list[Snapshot] = []
    for some in _chunks(principals):
        with store._database.reading() as db:
            people = _people(store, db, some)
            records = _records(db, people)
            quantities = store._quantities(
                *db.batch([rows.quantities_query(), rows.counts_query(rows.NOBODY)])
            )
            runs = tables.runs(db, store._secrets.integrity)
            drawn = _table_draws(store, db, people, runs)
            for principal, person in zip(some, people, strict=True):
                summary = person.summary
                levels: dict[RootName, tuple[Record, ...]] = {}
                for root, state in summary.roots.items():
                    kept = range(summary.count(root, state.current))
                    if kept:
                        levels[RootName(root)] = tuple(
                            _kept(records[person.key], root, state.current, each) for each in kept
                        )
                found.append(
                    Snapshot(
                        name=Principal(person.name or principal),
                        epoch=person.epoch,
                        quantities=quantities,
                        levels=levels,
                        newest={root: state.newest for root, state in summary.roots.items()},
                        ledger=summary.ledger.with_tables(drawn(person, principal)),
                        caps=summary.caps,
                        given=summary.given,
                        before=summary.before,
                        runs=runs,
                    )
                )
    return found


def records_of(store: "SqlStore", principals: Sequence[Principal]) -> list[tuple[Record, ...]]:
    """`records` of many people."""
    found: list[tuple[Record, ...]] = []
    for some in _chunks(principals):
        with store._database.reading() as db:
            people = _people(store, db, some)
            records = _records(db, people)
            found += [
                tuple(_kept(records[each.key], *where) for where in each.summary.kept())
                for each in people
            ]
    return found


def commit_each(
    store: "SqlStore", commits: Sequence[Commit]
) -> list[tuple[Record, ...] | BudgetError | ErasedError]:
    """`commit` for many people, who are refused one by one."""
    done: list[tuple[Record, ...] | BudgetError | ErasedError] = []
    for some in _chunks(commits):
        advanced: list[PersonRow] = []
        with store._database.exclusive() as db:
            people = _people(store, db, [commit.principal for commit in some])
            runs = tables.runs(db, store._secrets.integrity)
            drawn = _table_draws(store, db, people, runs)
            counts = _counts(store, db, people)
            statements: list[Statement] = []
            newcomers = 0
            for commit, person in zip(some, people, strict=True):
                try:
                    added = _taken(commit, person, drawn(person, commit.principal))
                except (BudgetError, ErasedError) as refusal:
                    done.append(refusal)
                    continue
                done.append(tuple(commit.draws) if len(added) == len(commit.draws) else ())
                if added:
                    newcomers += not person.there
                    events = [draw.event for draw in added]
                    statements += rows.add_draws(person, added)
                    statements += store._changed(person, counts[person.key], events)
                    advanced.append(person)
            if newcomers:
                statements.insert(0, rows.count_person(db, store._secrets.integrity, newcomers))
            if statements:
                db.batch(statements)
        for person in advanced:
            store._advance(person.key, person.epoch, person.revision)
    return done


def _taken(commit: Commit, person: PersonRow, drawn: TableDraws) -> list[Record]:
    """The draws that are new; all of them, or the person is looked at again by its own."""
    if person.epoch != commit.epoch:
        raise erased_meanwhile()
    trial = person.summary.copy()  # of whom is refused, nothing may be counted
    new = trial.take(commit.draws, drawn)
    if len(new) < len(commit.draws):
        return []
    person.summary = trial
    person.name = person.name or commit.principal
    return new


def _people(store: "SqlStore", db: Transaction, principals: Sequence[Principal]) -> list[PersonRow]:
    """Everybody's row, of somebody unknown a new one."""
    keys = [store._key(principal) for principal in principals]
    found = {row[0]: row for row in _rows_of(db, _PEOPLE, keys)}
    return [
        store._person(key, principal, [found[key]] if key in found else [])
        for key, principal in zip(keys, principals, strict=True)
    ]


def _records(
    db: Transaction, people: Sequence[PersonRow]
) -> dict[str, dict[tuple[str, int, int], Record]]:
    """All draws of people, by root, version and position.

    A row opens only in the place that it was written to, which its root, version and position
    have made, so these are what it says of itself.
    """
    by_key = {person.key: person for person in people}
    records: dict[str, dict[tuple[str, int, int], Record]] = {key: {} for key in by_key}
    there = [person.key for person in people if person.summary.draws]
    for key, place, content in _rows_of(db, _DRAWS, there):
        record = _DRAW_ROWS.open(by_key[key], bytes(place), content)
        sanitized = record.sanitized
        records[key][sanitized.root, sanitized.version, record.position] = record
    return records


def _unpacked(cells: list[Any]) -> Record:
    """A draw from its cells, as `rows` has it; what many draws have in common is made once."""
    root, version, position, index, lower, upper, size, micro, mechanism, mark, event = cells
    return Record(
        sanitized=Sanitized(
            root=root,
            index=index,
            domain=_domain(lower, upper, size),
            epsilon=_epsilon(micro),
            mechanism=mechanism,
            version=version,
        ),
        position=position,
        fingerprint=bytes.fromhex(mark),
        event=_charge(event),
    )


_DRAW_ROWS: Final = rows.PersonTable[Record]("draws", pack=lambda _: [], unpack=_unpacked)


@functools.lru_cache(maxsize=1024)
def _domain(lower: str, upper: str, size: int) -> Domain:
    return Domain(lower=float.fromhex(lower), upper=float.fromhex(upper), size=size)


@functools.lru_cache(maxsize=1024)
def _epsilon(micro: int) -> Fraction:
    return Fraction(micro, MICRO)


def _charge(text: str) -> Charge:
    """An event from its text. Most differ in the person's name alone, so it is read without."""
    found = _PRINCIPAL.search(text)
    if found is None:
        return rows.charge(text)
    nobody = rows.charge(f'{text[: found.start()]}"principal":""{text[found.end() :]}')
    return replace(nobody, principal=json.loads(found[1]))


# As `rows` writes events: keys in order, no blanks. A text inside a text has its quotes escaped.
_PRINCIPAL: Final = re.compile(r'"principal":("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """What `tags` asks of a person."""

    key: str
    epoch: int
    revision: int
    name: str
    tags: tuple[int, ...]


def known_tags(store: "SqlStore") -> dict[int, bool]:
    """`tags` of a store: everyone's row is opened and checked, and no more made of it."""
    prf, secrets = store._table_prf(), store._secrets
    with store._database.reading(whole=True) as db:
        found, counts = db.batch([rows.people_query(), rows.counts_query(rows.NOBODY)])
        if rows.read_counts(secrets.integrity, counts).get("people") != len(found):
            raise StoreDamagedError("profiles are missing or added; restore the backup")
        everyone = [_known(secrets, row) for row in found]
        store._check_everyone(everyone)
    named = [each for each in everyone if each.name]
    tags = tables.tags_of(prf, [each.name for each in named])
    erased = {tag: True for each in everyone for tag in each.tags}
    return erased | {tag: each.epoch > 0 for tag, each in zip(tags, named, strict=True)}


def _known(secrets: Secrets, row: Row) -> _Known:
    key, epoch, revision, wrapped, sealed_name, sealed = row
    bound = ("summary", key, epoch, revision, wrapped, sealed_name)
    summary = json.loads(secrets.people.decrypt(sealed, *bound))
    name = ""
    if sealed_name:
        cipher = PersonCipher(secrets.people.decrypt(wrapped, "key", key, epoch), key)
        name = json.loads(cipher.decrypt("people", epoch, content=sealed_name))
    return _Known(key=key, epoch=epoch, revision=revision, name=name, tags=tuple(summary["tags"]))


def _kept(
    records: dict[tuple[str, int, int], Record], root: str, version: int, position: int
) -> Record:
    if (root, version, position) not in records:
        raise StoreDamagedError("the ledger and the draws do not match; restore the store's backup")
    return records[root, version, position]


def _counts(
    store: "SqlStore", db: Transaction, people: Sequence[PersonRow]
) -> dict[str, dict[str, int]]:
    """Everybody's counts of log entries and tokens."""
    found: dict[str, list[Row]] = {person.key: [] for person in people}
    for row in _rows_of(db, _COUNTS, [person.key for person in people if person.there]):
        found[row[0]].append(row)
    integrity = store._secrets.integrity
    return {key: rows.read_counts(integrity, each) for key, each in found.items()}


def _table_draws(
    store: "SqlStore", db: Transaction, people: Sequence[PersonRow], runs: Sequence[TableRun]
) -> Callable[[PersonRow, Principal], TableDraws]:
    """What tables drew for each of these people; a partition is read once for all of them."""
    store._check(TABLES, 0, len(runs))
    if not any(run.drawn for run in runs):
        return lambda _person, _principal: {}
    prf = store._table_prf()
    read = functools.cache(functools.partial(tables.partition, db, store._secrets.integrity))
    names = [person.name for person in people if person.name]
    tags = dict(zip(names, tables.tags_of(prf, names), strict=True))

    def drawn(person: PersonRow, principal: Principal) -> TableDraws:
        tag = tags.get(person.name)
        places = () if tag is None else tables.places_of(runs, tag)
        if tag is not None and not any(
            len(tables.of_person(read(place), roots, tag)) for place, roots in places
        ):
            return {}
        return tables.drawn_for(runs, read, prf, person.name or principal)

    return drawn


def _rows_of(db: Transaction, query: str, keys: Sequence[str]) -> list[Row]:
    unique = list(dict.fromkeys(keys))
    if not unique:
        return []
    return db.execute(f"{query}({', '.join('?' * len(unique))})", *unique)


_Item = TypeVar("_Item")


def _chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
