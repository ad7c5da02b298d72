"""Spark: row for row the table of one machine, however it is cut; refusals that say no value."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from rootguard import load_template, open_store
from rootguard.calibration import make_plan
from rootguard.errors import ConflictError, PrivateValueError, StoreKeyError, UnknownNameError

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

from rootguard.batch import sanitize, sanitize_spark  # noqa: E402
from tests.support.spark_tables import (  # noqa: E402
    FIB4,
    KEY,
    PLAN,
    ROWS,
    SENTINEL,
    needs_spark,
    one_machine,
    people,
    runs,
    same,
    typed_people,
)

pytestmark = pytest.mark.timeout(600)  # a JVM on a busy machine


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs("local", tmp_path_factory.mktemp("spark"))


@needs_spark
class TestLocal:
    @pytest.mark.parametrize("cuts", [1, 5])
    def test_the_table_is_that_of_one_machine_however_it_is_cut(
        self, local: Path, cuts: int
    ) -> None:
        expected = one_machine()
        assert same(pq.read_table(local / f"rows-{cuts}.parquet"), expected.table)
        told = pq.read_table(local / f"rejects-{cuts}.parquet").sort_by("row")
        assert told.to_pylist() == expected.rejects.to_pylist()
        assert told["row"].to_pylist() == [7, 11]

    def test_columns_of_every_type_are_those_of_one_machine(self, local: Path) -> None:
        template = load_template(local / "typed.toml")
        plan = make_plan(template, Fraction(6), allocation="uniform")
        expected = sanitize(typed_people(), plan, template=template, id_column="mrn", key=KEY)
        made = pq.read_table(local / "typed.parquet")
        kinds = {field.name: field.type for field in made.schema}
        assert kinds["diabetes"] == kinds["female"] == pa.bool_()
        assert kinds["region"] == pa.string()
        assert kinds["kids"] == pa.int64()
        assert kinds["born"] == kinds["grown"] == pa.date32()
        assert same(made, expected.table)
        told = pq.read_table(local / "rejects-typed.parquet").sort_by("row")
        assert told.to_pylist() == expected.rejects.to_pylist()
        assert told["column"].to_pylist() == ["region"]
        assert "east" not in json.dumps(told.to_pylist())

    def test_tokens_calibration_and_a_key_in_a_file_are_those_of_one_machine(
        self, local: Path
    ) -> None:
        expected = one_machine(identifiers={"mrn": "code"}, calibrate=True)
        assert same(pq.read_table(local / "tokens.parquet"), expected.table)

    def test_a_store_serves_whom_it_knows_and_keeps_the_run_once(self, local: Path) -> None:
        store = open_store(f"sqlite:///{local / 'vault.sqlite3'}")
        first, second = (pq.read_table(local / f"kept-{turn}.parquet") for turn in "ab")
        expected = sanitize(
            people(), PLAN, template=FIB4, id_column="mrn", store=store, on_conflict="charge"
        )
        assert same(first, expected.table)
        assert same(second, expected.table)
        told = pq.read_table(local / "rejects-kept.parquet").sort_by("row")
        assert told.to_pylist() == expected.rejects.to_pylist()
        runs = store.tables()
        assert [run.rows for run in runs] == [ROWS - 2] * 12
        ast = [run.drawn for run in runs if run.root == "ast"]
        # One row has no value, one belongs to somebody whom the store knows.
        assert ast == [ROWS - 2 - 2, 0, 0]
        assert {run.most for run in runs if run.root == "ast"} == {2}  # one id is there twice
        assert not store.verify()
        store.close()

    def test_rows_without_a_number_are_told_without_one(self, local: Path) -> None:
        told = pq.read_table(local / "unnumbered.parquet")
        assert told["row"].to_pylist() == [None, None]
        assert set(told["column"].to_pylist()) == {"ast", "mrn"}

    def test_without_a_key_one_call_is_one_draw_and_two_calls_are_two(self, local: Path) -> None:
        first, again, other = (pq.read_table(local / f"fresh-{n}.parquet") for n in range(3))
        assert same(first, again.set_column(8, "risk", again["risk"]))
        assert not first.sort_by("number")["ast"].equals(other.sort_by("number")["ast"])

    def test_an_empty_table_stays_one(self, local: Path) -> None:
        made = pq.read_table(local / "empty.parquet")
        assert made.num_rows == 0
        assert made.column_names[-2:] == ["fib4", "risk"]

    def test_a_task_that_fails_says_why_and_no_value(self, local: Path) -> None:
        told = json.loads((local / "told.json").read_text())
        assert "a column of numbers is needed for: ast" in told["column"]
        assert "holds another key than the driver's" in told["key"]
        assert str(SENTINEL) not in json.dumps(told)

    def test_different_values_under_one_id_are_refused_as_on_one_machine(self, local: Path) -> None:
        told = json.loads((local / "told.json").read_text())
        with pytest.raises(ConflictError) as refused:
            one_machine(on_conflict="refuse")
        assert refused.value.rows == (20, 21)
        assert refused.value.ids == dict.fromkeys(("age", "alt", "ast", "plt"), 1)
        assert told["conflict"] == told["conflict, store"] == str(refused.value)
        unnumbered = ConflictError(refused.value.ids, ())
        assert told["conflict, rows without numbers"] == str(unnumbered)

    def test_equal_rows_under_one_id_are_no_conflict(self, local: Path) -> None:
        made = pq.read_table(local / "no-conflict.parquet")
        expected = one_machine().table
        assert same(made, expected.filter(pc.less(expected["number"], 20)))

    def test_a_change_draws_everybody_anew_as_on_one_machine(self, local: Path) -> None:
        told = json.loads((local / "told.json").read_text())
        assert told["changes"] == [[1, False], [2, True], [2, False]]
        first, second, third = (
            pq.read_table(local / f"changing-{turn}.parquet") for turn in range(3)
        )
        assert third.sort_by("number") == second.sort_by("number")
        apart = pc.equal(first.sort_by("number")["age"], second.sort_by("number")["age"])
        assert pc.sum(apart).as_py() < 100  # of 301: chance gives nine
        moved = people().slice(100, 301)
        ages = [age + 5 if row == 50 else age for row, age in enumerate(moved["age"].to_pylist())]
        moved = moved.set_column(2, "age", pa.array(ages))
        store = open_store(f"sqlite:///{local / 'changing.sqlite3'}")
        expected = sanitize(
            moved, PLAN, template=FIB4, id_column="mrn", store=store, fresh="changed"
        )
        assert (expected.version, expected.fresh) == (2, False)
        assert same(second, expected.table)
        store.close()


class _Conf:
    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings

    def get(self, name: str, default: str) -> str:
        return self._settings.get(name, default)


class _Field:
    def __init__(self, kind: str) -> None:
        self.dataType = self
        self.typeName = lambda: kind


class _Frame:
    """As much of a data frame as is looked at before anything runs."""

    columns = ("number", "mrn", "age", "ast", "alt", "plt")

    def __init__(self, **settings: str) -> None:
        self.schema = {"mrn": _Field("string"), "ast": _Field("double")}
        self.sparkSession = self
        self.conf = _Conf({name.replace("_", "."): text for name, text in settings.items()})


def refused(frame: _Frame, **options: Any) -> None:  # noqa: ANN401 - options of every type
    sanitize_spark(frame, PLAN, template=FIB4, id_column="mrn", **options)


def test_a_key_is_not_sent_in_clear() -> None:
    with pytest.raises(StoreKeyError, match=r"spark\.network\.crypto\.enabled.*key_file"):
        refused(_Frame(spark_master="spark://a-host:7077"), key=KEY)
    encrypted = _Frame(spark_master="yarn", spark_network_crypto_enabled="true")
    with pytest.raises(AttributeError, match="mapInArrow"):  # it went on to what a stub has not
        refused(encrypted, key=KEY)


def test_what_makes_no_sense_is_refused_before_spark_is_asked(tmp_path: Path) -> None:
    frame = _Frame(spark_master="local[2]")
    with pytest.raises(StoreKeyError, match="not two of them"):
        refused(frame, key=KEY, key_file=str(tmp_path / "key"))
    with pytest.raises(UnknownNameError, match="column"):
        refused(frame, key=KEY, row_column="line")
    with pytest.raises(PrivateValueError, match="whole numbers"):
        refused(frame, key=KEY, row_column="ast")
    with pytest.raises(PrivateValueError, match="whole numbers"):
        refused(frame, key=KEY, row_column="mrn")
