"""The kernel inside other engines: Spark's and Dask's tasks, and a DuckDB query's rows."""
