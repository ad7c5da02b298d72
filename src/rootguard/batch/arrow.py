"""Arrow, imported in one place. Its Python package carries no types, so they are named here."""

from importlib import import_module
from typing import Any

from rootguard.errors import FileError

try:
    pa: Any = import_module("pyarrow")
    pc: Any = import_module("pyarrow.compute")
except ImportError:
    raise FileError(
        "rootguard.batch", "", "needs pyarrow", "run: pip install 'rootguard[batch]'"
    ) from None

Array = Any
"""A `pyarrow.Array`."""
RecordBatch = Any
"""A `pyarrow.RecordBatch`."""
Schema = Any
"""A `pyarrow.Schema`."""
Table = Any
"""A `pyarrow.Table`, a pandas or a Polars data frame."""
