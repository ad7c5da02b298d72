"""Where sanitized values are kept, so that each root is noised exactly once."""

from rootguard.store.base import (
    Disclosure,
    LogEntry,
    Record,
    Store,
    TableRun,
    check_caps,
    table_number,
)
from rootguard.store.memory import MemoryStore

__all__ = [
    "Disclosure",
    "LogEntry",
    "MemoryStore",
    "Record",
    "Store",
    "TableRun",
    "check_caps",
    "table_number",
]
