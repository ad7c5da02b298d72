"""Whole tables under the same rule: each person's roots noised once, the rest computed from them.

`tables` takes data frames and `files` takes files larger than memory; both hand Arrow record
batches to one `kernel`. `mechanisms.keyed` makes the noise: exact, cryptographic, and the same
again for the same row under the same key. `keys` says where that key comes from, `register`
what a store keeps of a run. `engines` runs the kernel in Spark, Dask and DuckDB. Nothing imports
this package but the command line.
"""

from rootguard.errors import FileError

# First, so that whoever lacks the extra is told how to get it instead of which module is missing.
try:
    import pyarrow  # noqa: F401
except ImportError:
    raise FileError(
        "rootguard.batch", "", "needs pyarrow", "run: pip install 'rootguard[batch]'"
    ) from None

from rootguard.batch.engines.dask import DaskRelease, sanitize_dask
from rootguard.batch.engines.duckdb import DuckRelease, sanitize_duckdb
from rootguard.batch.engines.spark import SparkRelease, sanitize_spark
from rootguard.batch.restore import restore_ids
from rootguard.batch.tables import TableRelease, sanitize

__all__ = [
    "DaskRelease",
    "DuckRelease",
    "SparkRelease",
    "TableRelease",
    "restore_ids",
    "sanitize",
    "sanitize_dask",
    "sanitize_duckdb",
    "sanitize_spark",
]
