"""A table released with Arrow, pandas, Polars and DuckDB.

Run it with `python examples/table.py`. Each person's values are noised once, and the score is
computed from the noised values. With the same key all four give the same rows, because the noise
depends only on key, id and value. DuckDB exchanges its rows as Arrow tables. The people are
synthetic.
"""

import importlib.util
import secrets
from fractions import Fraction
from typing import Any

import pyarrow as pa

from rootguard import load_template
from rootguard.advice.people import synthetic_cohort
from rootguard.batch import sanitize
from rootguard.calibration import make_plan


def main() -> None:
    """Release the same table with each library that is installed."""
    template = load_template("fib4")
    plan = make_plan(template, Fraction("0.9"))
    cohort = synthetic_cohort(template, size=8)
    ids = [f"P-{4_400_000_000_000 + place}" for place in range(len(cohort.ids))]
    columns = {name: [float(v) for v in cohort.columns[name]] for name in template.roots}
    raw = pa.table({"mrn": ids, **columns})
    key = secrets.token_bytes(32)

    def released(frame: Any) -> Any:  # noqa: ANN401 - whatever kind it was given
        return sanitize(
            frame, plan, template=template, id_column="mrn", key=key, identifiers={"mrn": "code"}
        ).table

    tables = {"Arrow": released(raw)}
    if importlib.util.find_spec("pandas"):
        tables["pandas"] = pa.Table.from_pandas(released(raw.to_pandas()), preserve_index=False)
    if importlib.util.find_spec("polars"):
        import polars

        tables["Polars"] = released(polars.from_arrow(raw)).to_arrow()
    if importlib.util.find_spec("duckdb"):
        import duckdb

        with duckdb.connect() as database:
            database.register("raw", raw)
            made = released(database.sql("SELECT * FROM raw").to_arrow_table())
            database.register("released", made)
            tables["DuckDB"] = database.sql("SELECT * FROM released").to_arrow_table()
    first = tables["Arrow"].to_pylist()
    for name, table in tables.items():
        assert table.to_pylist() == first, name
        print(f"{name:8} {table.num_rows} rows, the same as with the others")
    assert not set(tables["Arrow"]["mrn"].to_pylist()) & set(ids)  # tokens, no record numbers
    print("the first row:", first[0])


if __name__ == "__main__":
    main()
