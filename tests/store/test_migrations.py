"""Every schema there has been is brought up to date; a newer or altered one is refused."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from rootguard.errors import RootGuardError, StoreDamagedError, StoreError, StoreKeyError
from rootguard.events import to_record
from rootguard.store.base import Cell, Database, Transaction
from rootguard.store.dialects.sqlite import SqliteDatabase
from rootguard.store.envelope import Secrets
from rootguard.store.schema import migrations
from rootguard.store.schema.migrations import MIGRATIONS, migrate
from rootguard.vault import open_store
from tests.support.store_contents import AGE, ANA, KEY, OTHER_KEY, database_of, draw, fill, sql


def first_schema(db: Transaction) -> None:
    """A store as the first version left it, with a draw in it: rows in clear, sealed one by one."""
    migrate(db, MIGRATIONS[:1])
    Secrets.create(db, KEY, b"i" * 16)
    integrity = Secrets.read(db, KEY).integrity
    event = json.dumps(to_record(draw("age", 3).event), sort_keys=True, separators=(",", ":"))
    grid = ((0.0).hex(), (999.0).hex(), 1000)
    written: dict[str, tuple[Cell, ...]] = {
        "draws": (ANA, "age", 1, 0, 3, *grid, 5, "geometric", b"f" * 32, event),
        "events": (ANA, 1, event),
        "heads": (ANA, "draws", 1),
    }
    for table, cells in written.items():
        marks = ", ".join("?" * (len(cells) + 1))
        db.execute(f"INSERT INTO {table} VALUES ({marks})", *cells, integrity.seal(table, *cells))
    for count in ((ANA, "events", 1), ("", "principals", 1)):
        seal = integrity.seal("heads", *count)
        db.execute("INSERT INTO heads VALUES (?, ?, ?, ?)", *count, seal)


def blank(url: str) -> Database:
    """A database without any table of ours."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        path.touch()
        return SqliteDatabase(path, new=True)
    from rootguard.store.dialects.postgres import PostgresDatabase

    return PostgresDatabase(url)


def applied(db: Transaction) -> list[str]:
    return sorted(row[0] for row in db.execute("SELECT name FROM migrations"))


NAMES = [step.__name__ for step in MIGRATIONS]


def test_migrations_are_numbered_in_order() -> None:
    assert [name[:4] for name in NAMES] == [f"m{n:03}" for n in range(1, len(NAMES) + 1)]


def test_a_blank_database_gets_every_migration_once(url: str) -> None:
    with closing(blank(url)) as database:
        for _ in range(2):
            with database.exclusive() as db:
                migrate(db)
                assert applied(db) == NAMES
                assert {"people", "draws", "events", "tokens", "log", "heads"} <= db.tables()


def test_a_store_of_the_first_schema_is_brought_up_to_date(url: str) -> None:
    with closing(blank(url)) as database, database.exclusive() as db:
        first_schema(db)
        assert applied(db) == NAMES[:1]
        assert "tokens" not in db.tables()
    with pytest.raises(StoreKeyError):  # the wrong key changes nothing
        open_store(url, key=OTHER_KEY)
    with closing(sql(url)) as store:
        with database_of(store).reading() as db:
            assert applied(db) == NAMES
        assert store.levels(ANA, AGE) == (draw("age", 3),)
        assert store.principals() == (ANA,)
        assert store.verify() == ()
        fill(store)
        assert store.verify() == ()


def test_a_store_of_a_newer_rootguard_is_refused(url: str) -> None:
    with closing(sql(url)) as store, database_of(store).exclusive() as db:
        db.execute("INSERT INTO migrations (name) VALUES (?)", "m999_from_the_future")
    with pytest.raises(StoreError, match="upgrade rootguard"):
        open_store(url, key=KEY)


@pytest.mark.parametrize(
    "statement", ["DELETE FROM migrations", "UPDATE migrations SET name = 'x' WHERE name < 'm002'"]
)
def test_an_altered_list_of_migrations_is_damage(url: str, statement: str) -> None:
    with closing(sql(url)) as store, database_of(store).exclusive() as db:
        db.execute(statement)
    with pytest.raises(StoreDamagedError):
        open_store(url, key=KEY)


def test_a_migration_that_fails_leaves_the_store_as_it_was(url: str) -> None:
    def m003_fails(db: Transaction) -> None:
        db.execute("CREATE TABLE half (a TEXT)")
        raise RootGuardError("no")

    with closing(sql(url)) as store:
        with pytest.raises(RootGuardError), database_of(store).exclusive() as db:
            migrate(db, (*migrations.MIGRATIONS, m003_fails))
        with database_of(store).reading() as db:
            assert "half" not in db.tables()
            assert applied(db) == NAMES
