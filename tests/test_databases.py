"""Databases that tests are lent: under a name of its own each, and as if nobody had had it."""

import pytest

from tests.support.postgres import Address, Databases

psycopg = pytest.importorskip("psycopg")

LEFT = [
    "CREATE SCHEMA other",
    "CREATE TYPE pair AS (one TEXT, two TEXT)",
    "CREATE FUNCTION one() RETURNS INT LANGUAGE sql AS 'SELECT 1'",
    "CREATE VIEW one AS SELECT 1",
    "SELECT lo_create(0)",
    "DROP SCHEMA public; CREATE SCHEMA public",
    "REVOKE USAGE ON SCHEMA public FROM PUBLIC",
    "GRANT CONNECT ON DATABASE {} TO PUBLIC",
    "ALTER DATABASE {} SET search_path = other",
    "ALTER DATABASE {} SET default_transaction_read_only = on",
]


def run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def oid(databases: Databases, name: str) -> int:
    """The same database has the same number under every name."""
    with psycopg.connect(databases.url(name)) as connection:
        found = connection.execute(
            "SELECT oid FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    assert found is not None
    return int(found[0])


@pytest.fixture
def databases(postgres_address: Address) -> Databases:
    return Databases(postgres_address)


def test_one_that_holds_tables_and_connections_is_lent_again_empty(databases: Databases) -> None:
    first = databases.lend()
    number = oid(databases, first)
    run(databases.url(first), "CREATE TABLE people (name TEXT PRIMARY KEY)")
    with psycopg.connect(databases.url(first)) as lasting:
        lasting.execute("SELECT FROM people")
        databases.take_back(first)
        second = databases.lend()
        with pytest.raises(psycopg.OperationalError):
            lasting.execute("SELECT 1")
    if oid(databases, second) != number:
        pytest.skip("new databases of this server are not empty, so none is lent twice")
    assert second != first
    with pytest.raises(psycopg.errors.UndefinedTable):
        run(databases.url(second), "SELECT FROM people")
    databases.take_back(second)


def test_one_in_which_something_else_is_left_is_not_lent_again(databases: Databases) -> None:
    had: list[int] = []
    for statement in LEFT:
        name = databases.lend()
        assert oid(databases, name) not in had
        had.append(oid(databases, name))
        run(databases.url(name), statement.format(name))
        databases.take_back(name)
    assert oid(databases, databases.lend()) not in had
