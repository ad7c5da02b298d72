"""Where sanitized values are kept, so that each root is noised exactly once."""

from rootguard.store.base import (
    Crossing,
    Disclosure,
    Record,
    Store,
    Tabled,
    check_caps,
    table_number,
)
from rootguard.store.memory import MemoryStore

__all__ = [
    "Crossing",
    "Disclosure",
    "MemoryStore",
    "Record",
    "Store",
    "Tabled",
    "check_caps",
    "table_number",
]
