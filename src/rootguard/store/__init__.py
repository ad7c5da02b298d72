"""Where sanitized values are kept, so that each root is noised exactly once."""

import importlib
from pathlib import Path
from typing import cast

from rootguard.errors import StoreError
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
    "default_url",
    "open_store",
    "table_number",
]


def open_store(url: str, *, key: bytes | None = None) -> Store:
    """The store at a URL: `memory:`, `sqlite:///path`, or `postgresql://user@host/name`.

    Without a key, it comes from ROOTGUARD_KEY, the system's keyring or a key file. The parts that
    need a driver or a key are imported when they are asked for.
    """
    scheme, _, rest = url.partition(":")
    if url == "memory:":
        return MemoryStore()
    if scheme == "sqlite":
        if not rest.startswith("///") or len(rest) == 3:
            raise StoreError("write sqlite:///path/to/file, or sqlite:////path for an absolute one")
        sqlite = importlib.import_module("rootguard.store.sqlite")
        return cast("Store", sqlite.open_sqlite(Path(rest[3:]), key))
    if scheme in {"postgresql", "postgres"}:
        try:
            postgres = importlib.import_module("rootguard.store.postgres")
        except ImportError:
            raise StoreError(
                "PostgreSQL needs a driver; run: pip install 'rootguard[postgres]'"
            ) from None
        return cast("Store", postgres.open_postgres(url, key))
    raise StoreError(
        "unknown kind of store; write memory:, sqlite:///path or postgresql://user@host/name"
    )


def default_url() -> str:
    """The store in the user's own data directory."""
    keys = importlib.import_module("rootguard.store.keys")
    return f"sqlite:///{keys.data_directory() / 'vault.sqlite3'}"
