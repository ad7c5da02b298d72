"""Where sanitized values are kept, so that each root is noised exactly once."""

from rootguard.store.base import Record, Store
from rootguard.store.memory import MemoryStore

__all__ = ["MemoryStore", "Record", "Store"]
