"""Opening a store by its URL. Above the core, because this is where drivers and keys come in.

A session asks its store for what `store.base` promises and needs none of this, so the core can be
used with a store of one's own and without any driver. What a kind of store needs is imported when
a store of that kind is opened.
"""

import os
from pathlib import Path

from rootguard.errors import StoreError
from rootguard.store import MemoryStore, Store


def open_store(url: str, *, key: bytes | None = None) -> Store:
    """The store at a URL: `memory:`, `sqlite:///path`, or `postgresql://user@host/name`.

    Without a key, it comes from ROOTGUARD_KEY, the system's keyring or a key file.
    """
    scheme, _, rest = url.partition(":")
    if url == "memory:":
        return MemoryStore()
    if scheme == "sqlite":
        if not rest.startswith("///") or len(rest) == 3:
            raise StoreError("write sqlite:///path/to/file, or sqlite:////path for an absolute one")
        from rootguard.store.sqlite import open_sqlite

        try:
            os.lstat(rest[3:])
        except (FileNotFoundError, NotADirectoryError):
            pass  # where it is made, if it can be
        except (OSError, ValueError):
            raise StoreError("the store's path cannot be used; choose another one") from None
        return open_sqlite(Path(rest[3:]), key)
    if scheme in {"postgresql", "postgres"}:
        try:
            from rootguard.store.postgres import open_postgres
        except ImportError:
            raise StoreError(
                "PostgreSQL needs a driver; run: pip install 'rootguard[postgres]'"
            ) from None
        return open_postgres(url, key)
    raise StoreError(
        "unknown kind of store; write memory:, sqlite:///path or postgresql://user@host/name"
    )


def default_url() -> str:
    """The store in the user's own data directory."""
    from rootguard.store.keys import data_directory

    return f"sqlite:///{data_directory() / 'vault.sqlite3'}"
