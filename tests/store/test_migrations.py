"""Every schema there has been is brought up to date; a newer or altered one is refused."""

from contextlib import closing
from pathlib import Path

import pytest

from rootguard.errors import RootGuardError, StoreDamagedError, StoreError, StoreKeyError
from rootguard.store import migrations
from rootguard.store.base import Database, Transaction
from rootguard.store.envelope import Secrets
from rootguard.store.migrations import MIGRATIONS, migrate
from rootguard.store.rows import DRAWS, EVENTS, Rows
from rootguard.store.sql import create
from rootguard.store.sqlite import SqliteDatabase
from rootguard.vault import open_store
from tests.support.store_contents import AGE, ANA, KEY, OTHER_KEY, database_of, draw, fill, sql


def first_schema(db: Transaction) -> None:
    """A store as the first version left it, with a draw in it."""
    create(db, KEY, MIGRATIONS[:1])
    integrity = Secrets.read(db, KEY).integrity
    content = Rows(db, integrity)
    content.write(DRAWS, ANA, thing=draw("age", 3))
    content.write(EVENTS, ANA, 1, thing=draw("age", 3).event)
    content.add(ANA, "draws", 1)
    content.add(ANA, "events", 1)


def blank(url: str) -> Database:
    """A database without any table of ours."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        path.touch()
        return SqliteDatabase(path, new=True)
    from rootguard.store.postgres import PostgresDatabase

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
                shelves = {"draws", "events", "tokens", "disclosures", "crossings"}
                assert shelves <= db.tables()


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
