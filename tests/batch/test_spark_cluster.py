"""Two executor processes: duplicates and kills change no row; independent draws would show."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pq = pytest.importorskip("pyarrow.parquet")

from tests.support.spark_tables import needs_spark, one_machine, runs, same  # noqa: E402

pytestmark = [needs_spark, pytest.mark.slow, pytest.mark.timeout(600)]

Notes = dict[int, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs("cluster", tmp_path_factory.mktemp("cluster"))


def seen(cluster: Path, run: str) -> Notes:
    """What each attempt of each task wrote down, by partition."""
    found: Notes = defaultdict(list)
    for path in sorted((cluster / "seen" / run).glob("*/*.json")):
        note = json.loads(path.read_text())
        found[note["partition"]].append(note)
    return found


@pytest.mark.parametrize("accident", ["nothing", "slow", "killed"])
def test_the_table_is_that_of_one_machine_whatever_happens_to_tasks(
    cluster: Path, accident: str
) -> None:
    expected = one_machine()
    assert same(pq.read_table(cluster / f"released-{accident}.parquet"), expected.table)
    control = pq.read_table(cluster / f"control-{accident}.parquet")
    assert control.num_rows == expected.table.num_rows
    assert not same(control, expected.table)


def test_rows_left_out_are_those_of_one_machine(cluster: Path) -> None:
    told = pq.read_table(cluster / "rejects.parquet").sort_by("row")
    assert told.to_pylist() == one_machine().rejects.to_pylist()


def test_the_work_was_done_by_two_executor_processes(cluster: Path) -> None:
    notes = [note for each in seen(cluster, "released-slow").values() for note in each]
    assert all("CoarseGrainedExecutorBackend" in note["command"] for note in notes)
    assert len({note["executor"] for note in notes}) == 2


@pytest.mark.parametrize("accident", ["slow", "killed"])
def test_a_second_attempt_makes_what_the_first_one_made(cluster: Path, accident: str) -> None:
    first, *more = seen(cluster, f"released-{accident}")[0]
    assert more  # it did run twice, and came as far as making its rows both times
    # The first attempt did not fail: the second ran beside it, or after its executor had died.
    assert not list((cluster / "seen").glob("*/*/gave up"))
    assert {note["executor"] for note in more} - {first["executor"]}
    assert {note["made"] for note in more} == {first["made"]}


@pytest.mark.parametrize("accident", ["slow", "killed"])
def test_a_task_that_draws_by_itself_is_told_apart(cluster: Path, accident: str) -> None:
    """The control: independent draws make other rows in each attempt."""
    first, *more = seen(cluster, f"control-{accident}")[0]
    assert more
    assert first["made"] not in {note["made"] for note in more}
