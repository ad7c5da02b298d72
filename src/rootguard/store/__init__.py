"""The store of sanitized values, which makes sure that each root is noised exactly once."""

from rootguard.store.base import (
    Commit,
    Disclosure,
    LogEntry,
    Record,
    Snapshot,
    Store,
    TableRun,
    table_number,
)
from rootguard.store.memory import MemoryStore
from rootguard.store.summary import (
    check_caps,
    erased_meanwhile,
    held_levels,
    lifetime_cap,
    tier_exhausted,
)

__all__ = [
    "Commit",
    "Disclosure",
    "LogEntry",
    "MemoryStore",
    "Record",
    "Snapshot",
    "Store",
    "TableRun",
    "check_caps",
    "erased_meanwhile",
    "held_levels",
    "lifetime_cap",
    "table_number",
    "tier_exhausted",
]
