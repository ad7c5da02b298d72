"""Stores on a database, filled with a little of everything, and all that can be read from one."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from rootguard.events import RootNoised
from rootguard.identifiers import IssuedToken
from rootguard.store import Disclosure, Record, Store, TableRun, rows
from rootguard.store.base import Cell, Database
from rootguard.store.rows import PersonRow
from rootguard.store.sql import SqlStore
from rootguard.store.tables import PARTITIONS
from rootguard.values import Domain, Principal, RootName, Sanitized
from rootguard.vault import open_store

ANA, EVE = Principal("ana"), Principal("eve")
AGE, AST = RootName("age"), RootName("ast")
KEY, OTHER_KEY = b"k" * 32, b"o" * 32
SEED = 20261115


def at(file: Path) -> str:
    return f"sqlite:///{file}"


def draw(
    root: str,
    index: int,
    *,
    version: int = 1,
    principal: str = ANA,
    micro: int = 5,
    fingerprint: bytes = b"f" * 32,
) -> Record:
    return Record(
        sanitized=Sanitized(
            root=RootName(root),
            index=index,
            domain=Domain(lower=0, upper=999),
            epsilon=Fraction(micro, 10**6),
            mechanism="geometric",
            version=version,
        ),
        fingerprint=fingerprint,
        event=RootNoised(
            principal=principal,
            root=root,
            version=version,
            micro_epsilon=micro,
            mechanism="geometric",
        ),
    )


def sql(url: str, key: bytes | None = KEY) -> SqlStore:
    store = open_store(url, key=key, create=True)
    assert isinstance(store, SqlStore)
    return store


def database_of(store: SqlStore) -> Database:
    return store._database._database


def person_of(store: SqlStore, principal: Principal) -> PersonRow:
    """A person's row, opened."""
    with database_of(store).reading() as db:
        return store._read(db, principal)


def damage(store: SqlStore, statement: str) -> None:
    """Run SQL on a store behind its back.

    A word in braces stands for a cell: a person's name for its hash, `{age 2}` for where ana's
    draw of that root and version is.
    """
    cells: list[Cell] = []
    parts = statement.replace("}", "{").split("{")
    for word in parts[1::2]:
        if " " in word:
            root, version = word.split()
            cells.append(rows.draw_place(person_of(store, ANA), root, int(version), 0))
        else:
            cells.append(person_of(store, Principal(word)).key)
    with database_of(store).exclusive() as db:
        db.execute("?".join(parts[::2]), *cells)


def fill(store: Store) -> None:
    store.commit(ANA, [draw("age", 3), draw("ast", 7)])
    store.commit(ANA, [draw("age", 5, version=2)])
    store.commit(EVE, [draw("age", 4, principal=EVE)])
    store.set_cap(ANA, "age", 500)
    store.disclose(ANA, [Disclosure(service="lab", tier="t", root="ast", version=1, position=0)])
    for name in ("Bob Ray", "Al Oz"):
        store.tokens(ANA).add(IssuedToken(kind="person", token=name, sealed=name.encode()))
    entry = (3 << 56 | 1).to_bytes(8, "little") + bytes(range(4))
    run = TableRun(
        table="all",
        root=AGE,
        version=1,
        micro_epsilon=7,
        mechanism="geometric",
        domain=Domain(lower=0.0, upper=999.0, size=1000),
        rows=1,
        drawn=1,
        most=1,
    )
    store.keep_table("all", lambda shelf, *_: entry if shelf == 3 else None, lambda: [run])


def content(store: Store, places: Iterable[int] = (0, 3, PARTITIONS - 1)) -> list[object]:
    """All that can be read from a store that `fill` filled.

    Of the table's partitions the one that holds something and two empty ones, as each is a
    transaction; `places` names others.
    """
    return [
        store.principals(),
        *(
            (store.levels(who, root), store.version(who, root))
            for who in (ANA, EVE)
            for root in (AGE, AST)
        ),
        *((store.events(who), store.caps(who), store.disclosures(who)) for who in (ANA, EVE)),
        *((store.records(who), store.held(who, "lab"), store.epoch(who)) for who in (ANA, EVE)),
        *(list(store.tokens(who)) for who in (ANA, EVE)),
        *((store.log_size(who), store.log(who)) for who in (ANA, EVE)),
        (store.tables(), [store.fingerprints(place) for place in places]),
        store.fingerprint_key,
        store.identifier_key,
    ]
