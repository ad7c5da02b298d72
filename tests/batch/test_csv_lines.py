"""Lines of CSV, which are Arrow's to the byte."""

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
arrow_csv = pytest.importorskip("pyarrow.csv")

from rootguard.batch import columns  # noqa: E402
from rootguard.batch.columns import Table  # noqa: E402
from rootguard.batch.csv_lines import CsvLines  # noqa: E402


def by_arrow(table: Table) -> bytes:
    out = io.BytesIO()
    arrow_csv.write_csv(table, out)
    return out.getvalue()


def by_lines(table: Table, piece: int) -> bytes:
    lines = CsvLines.of(table.schema)
    assert lines is not None
    pieces = [lines.lines(table.slice(at, piece)) for at in range(0, len(table), piece)]
    return lines.header() + b"".join(b"".join(each) for each in pieces)


cells = st.none() | st.text(alphabet='ab",\n\r é', max_size=4)
numbers = st.none() | st.floats() | st.sampled_from([0.5, 1.5, 2.5])


@given(
    rows=st.lists(st.tuples(cells, numbers, numbers, st.none() | st.integers(-9, 9)), max_size=30),
    piece=st.integers(1, 12),
)
def test_any_table_is_written_as_arrow_writes_it(
    rows: list[tuple[str | None, float | None, float | None, int | None]], piece: int
) -> None:
    table = pa.table(
        {
            "text": pa.array([row[0] for row in rows], pa.string()),
            "x": pa.array([row[1] for row in rows], pa.float64()),
            'the "y"': pa.array([row[2] for row in rows], pa.float64()),
            "n": pa.array([row[3] for row in rows], pa.int64()),
            "sure": pa.array([row[3] == 1 for row in rows], pa.bool_()),
        }
    )
    assert by_lines(table, piece) == by_arrow(table)
    for name in table.schema.names:
        assert by_lines(table.select([name]), piece) == by_arrow(table.select([name]))


def test_categories_are_written_as_their_texts() -> None:
    texts = pa.table({"risk": pa.array(["low", None, 'a "high"', "low"] * 5)})
    lines = CsvLines.of(texts.schema)
    assert lines is not None
    coded = pa.table({"risk": texts.column("risk").dictionary_encode()})
    assert b"".join(lines.lines(coded)) == by_arrow(texts)[len(lines.header()) :]


def test_categories_of_numbers_are_written_as_the_numbers_though_they_change() -> None:
    """Values are remembered from piece to piece; -0 equals 0 and is written otherwise."""
    numbers = pa.schema({"x": pa.float64(), "n": pa.int64()})
    lines = CsvLines.of(numbers)
    assert lines is not None
    grid = pa.array([0.1, 2.0, 1e300])
    for points in (grid, grid, pa.array([0.0, -1.5]), pa.array([-0.0, -1.5]), grid):
        places = pa.array([0, 1, None, 1, 0])
        coded = pa.DictionaryArray.from_arrays(places, points)
        table = pa.table({"x": coded, "n": pa.array([1, None, 3, 4, 5])})
        expected = by_arrow(table.cast(numbers))[len(lines.header()) :]
        assert b"".join(lines.lines(table)) == expected


def test_a_type_that_is_not_known_is_left_to_arrow() -> None:
    assert CsvLines.of(pa.schema([("day", pa.date32())])) is None


WRITTEN = (
    *("1", "-2.5", "+3", "1e5", ".5", "5.", ".", "inf", "-inf", "nan", "NA", "null", "0x10"),
    *("1_0", "1,5", "1e999", "e5", "1e", "--1", "abc", "１２", "infinit", "nan(1)", "N/A"),
    *("00012", "-0", "1.2.3"),
)


@given(st.lists(st.none() | st.sampled_from([*WRITTEN, "", " 7", "7 ", "\t3"]), max_size=6))
def test_a_column_of_numbers_is_read_as_each_cell_looks(texts: list[str | None]) -> None:
    column = pa.array(texts, pa.string())
    quick, searched = columns._read(column), columns._searched(column)
    for name in ("values", "missing", "endless", "other"):
        assert getattr(quick, name).tolist() == getattr(searched, name).tolist(), name


@pytest.mark.parametrize("written", WRITTEN)
def test_what_is_read_quickly_is_a_finite_number(written: str) -> None:
    found = columns._plain(pa.array([written]))
    assert found is None or found.missing[0] or math.isfinite(found.values[0])
