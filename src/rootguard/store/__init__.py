"""The store of sanitized values, which makes sure that each root is noised exactly once."""

from rootguard.store.base import (
    Disclosure,
    LogEntry,
    Record,
    Store,
    TableRun,
    check_caps,
    current_version,
    lifetime_cap,
    newest_version,
    table_number,
    tier_exhausted,
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
    "current_version",
    "lifetime_cap",
    "newest_version",
    "table_number",
    "tier_exhausted",
]
