"""Rows copied out of a database and put back later, as somebody would who can write to it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rootguard.store.backup import TABLES
from rootguard.store.base import Row, Transaction
from tests.support.store_contents import KEY, database_of, sql

OF_A_PERSON = ("people", "draws", "events", "log", "tokens", "heads")

Copied = dict[str, list[Row]]


@contextmanager
def _writing(url: str, key: bytes = KEY) -> Iterator[Transaction]:
    store = sql(url, key)
    try:
        with database_of(store).exclusive() as db:
            yield db
    finally:
        store.close()


def copy_out(url: str, tables: Sequence[str] = tuple(TABLES), person: str = "") -> Copied:
    """Rows of tables; of one person only, if one is named by key."""
    with _writing(url) as db:
        return {
            table: sorted(db.execute(*_where(f"SELECT {_columns(table)}", table, person)))
            for table in tables
        }


def put_back(url: str, copied: Copied, person: str = "", *, key: bytes = KEY) -> None:
    """Those rows, and no others."""
    with _writing(url, key) as db:
        for table, rows in copied.items():
            db.execute(*_where("DELETE", table, person))
            cells = ", ".join("?" * len(TABLES[table].columns))
            for row in rows:
                db.execute(f"INSERT INTO {table} ({_columns(table)}) VALUES ({cells})", *row)


def _columns(table: str) -> str:
    return ", ".join(TABLES[table].columns)


def _where(what: str, table: str, person: str) -> tuple[str, ...]:
    if person:
        return f"{what} FROM {table} WHERE principal = ?", person
    return (f"{what} FROM {table}",)
