"""DuckDB and Dask run the same kernel: row for row what one machine makes."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from rootguard.batch import sanitize, sanitize_dask, sanitize_duckdb
from rootguard.errors import ConflictError, FileError, NoiseError, StoreKeyError, UnknownNameError
from rootguard.store import MemoryStore
from tests.support.spark_tables import FIB4, KEY, PLAN, ROWS, SENTINEL, one_machine, people, same

USUAL: dict[str, Any] = {"template": FIB4, "id_column": "mrn", "key": KEY, "on_conflict": "charge"}


@pytest.fixture
def duck() -> Any:  # noqa: ANN401
    duckdb = pytest.importorskip("duckdb", reason="`make extras` installs DuckDB")
    with duckdb.connect() as connection:
        connection.register("arrow_people", people())
        connection.execute("CREATE TABLE people AS SELECT * FROM arrow_people")
        yield connection


@pytest.fixture
def frame() -> Any:  # noqa: ANN401
    dask = pytest.importorskip("dask.dataframe", reason="`make extras` installs Dask")
    import dask as settings

    with settings.config.set(scheduler="threads"):
        yield dask.from_pandas(people().to_pandas(), npartitions=5)


def told(rejects: Any) -> list[tuple[str, str]]:  # noqa: ANN401
    return sorted(zip(rejects["column"], rejects["reason"], strict=True))


def test_duckdb_gives_the_rows_of_one_machine(duck: Any) -> None:  # noqa: ANN401
    asked = {**USUAL, "identifiers": {"mrn": "code"}}
    made = sanitize_duckdb(duck, duck.sql("SELECT * FROM people"), PLAN, into="released", **asked)
    expected = one_machine(identifiers={"mrn": "code"})
    assert same(duck.sql("SELECT * FROM released").to_arrow_table(), expected.table)
    assert made.rows == expected.rows == ROWS - 2
    assert made.rejects.to_pylist() == expected.rejects.to_pylist()


def test_duckdb_accounts_before_anybody_sees_a_table(
    duck: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rootguard.batch.job import Job

    store = MemoryStore()
    asked = {**USUAL, "key": None, "store": store}

    def failing(_job: Job) -> None:
        raise NoiseError("the store could not be reached; nothing was released")

    with monkeypatch.context() as patch:
        patch.setattr(Job, "keep", failing)
        with pytest.raises(NoiseError):
            sanitize_duckdb(duck, duck.table("people"), PLAN, into="released", **asked)
    assert [name for (name,) in duck.sql("SHOW TABLES").fetchall() if name == "released"] == []
    sanitize_duckdb(duck, duck.table("people"), PLAN, into="released", **asked)
    expected = sanitize(people(), PLAN, **asked)  # the store's secret: the same rows again
    assert same(duck.table("released").to_arrow_table(), expected.table)


def test_duckdb_refuses_conflicts_and_names_that_are_none(duck: Any) -> None:  # noqa: ANN401
    asked = {**USUAL, "on_conflict": "refuse"}
    with pytest.raises(ConflictError):
        sanitize_duckdb(duck, duck.table("people"), PLAN, into="released", **asked)
    assert "released" not in str(duck.sql("SHOW TABLES").fetchall())
    with pytest.raises(FileError, match="no plain name"):
        sanitize_duckdb(duck, duck.table("people"), PLAN, into='x"; DROP TABLE people', **USUAL)


@pytest.mark.parametrize("by_file", [False, True])
def test_dask_gives_the_rows_of_one_machine(frame: Any, by_file: bool, tmp_path: Path) -> None:  # noqa: ANN401
    asked = {**USUAL, "identifiers": {"mrn": "code"}}
    if by_file:
        file = tmp_path / "key"
        file.touch(mode=0o600)
        file.write_text(KEY.hex(), encoding="ascii")
        asked |= {"key": None, "key_file": str(file)}
    made = sanitize_dask(frame, PLAN, **asked)
    expected = one_machine(identifiers={"mrn": "code"})
    table = pa.Table.from_pandas(made.table.compute(), preserve_index=False)
    assert same(table, expected.table)
    rejects = made.rejects.compute()
    assert told(rejects) == told(expected.rejects.to_pandas())
    assert str(SENTINEL) not in repr(made)


def test_dask_refuses_conflicts_and_two_keys(frame: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConflictError):
        sanitize_dask(frame, PLAN, **{**USUAL, "on_conflict": "refuse"})
    with pytest.raises(StoreKeyError, match="a batch key or a key file"):
        sanitize_dask(frame, PLAN, **USUAL, key_file="key")
    with pytest.raises(UnknownNameError):
        sanitize_dask(frame, PLAN, **{**USUAL, "id_column": "nobody"})


def test_dask_sends_no_key_in_clear(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    import sys
    from types import SimpleNamespace

    def at(address: str) -> Any:  # noqa: ANN401
        client = SimpleNamespace(scheduler=SimpleNamespace(address=address))
        return SimpleNamespace(default_client=lambda: client)

    monkeypatch.setitem(sys.modules, "distributed", at("tcp://10.0.0.7:8786"))
    with pytest.raises(StoreKeyError, match="would travel in it"):
        sanitize_dask(frame, PLAN, **USUAL)
    monkeypatch.setitem(sys.modules, "distributed", at("tls://10.0.0.7:8786"))
    sanitize_dask(frame, PLAN, **USUAL)


def test_a_delta_table_is_read_and_written_as_arrow(tmp_path: Path) -> None:
    delta = pytest.importorskip("deltalake", reason="`make extras` installs Delta's tables")
    delta.write_deltalake(str(tmp_path / "people"), people())
    read = pa.table(delta.DeltaTable(str(tmp_path / "people")).to_pyarrow_table())
    released = sanitize(read.sort_by("number"), PLAN, **USUAL).table
    delta.write_deltalake(str(tmp_path / "released"), released)
    made = delta.DeltaTable(str(tmp_path / "released")).to_pyarrow_table()
    assert same(made, one_machine().table)


def test_an_iceberg_table_is_read_and_written_as_arrow(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg", reason="`make extras` installs Iceberg's tables")
    pytest.importorskip("sqlalchemy", reason="`make extras` installs Iceberg's catalog")
    from pyiceberg.catalog.sql import SqlCatalog

    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    catalog = SqlCatalog("here", **place)
    catalog.create_namespace("clinic")
    raw = catalog.create_table("clinic.people", people().schema)
    raw.append(people())
    released = sanitize(raw.scan().to_arrow().sort_by("number"), PLAN, **USUAL).table
    risk = released.schema.get_field_index("risk")
    released = released.set_column(risk, "risk", released["risk"].cast(pa.string()))
    target = catalog.create_table("clinic.released", released.schema)
    target.append(released)
    assert same(target.scan().to_arrow(), one_machine().table)
    catalog.close()
