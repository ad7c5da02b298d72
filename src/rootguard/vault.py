"""Opening a store by its URL. Above the core, because this is where drivers and keys come in.

A session asks its store for what `store.base` promises and needs none of this, so the core can be
used with a store of one's own and without any driver. What a kind of store needs is imported when
a store of that kind is opened.
"""

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from rootguard.errors import StoreError, StoreMissingError, StoreUnavailableError
from rootguard.store import MemoryStore, Store

if TYPE_CHECKING:
    from rootguard.store.backup import NewPlace, Progress
    from rootguard.store.sql import SqlStore

_REMEDY = "check the address, or restore its backup"
_COMMAND = "run `rootguard vault init` with this --store, or open it with create=True"


def open_store(
    url: str,
    *,
    key: bytes | None = None,
    create: bool | None = None,
    vault_id: str | None = None,
    anchor: str | os.PathLike[str] | None = None,
) -> Store:
    """The store at a URL: `memory:`, `sqlite:///path`, or `postgresql://user@host/name`.

    Without a key, it comes from ROOTGUARD_KEY, the system's keyring or a key file.

    Where there is no store, `create=True` makes one, `create=False` never does, and by default one
    is made only if nothing hints at an earlier one: a new store draws everybody anew. A key is such
    a hint, wherever it comes from. With a `vault_id`, as a profile names it, none is made and no
    other is opened.

    With an `anchor`, the path of a file outside of the database, a store or a person that was put
    back to an earlier state is refused. `create=True` makes the file, if there is none.
    """
    store = _open(url, key, create, vault_id)
    if anchor is not None:
        try:
            new = create is True and not Path(anchor).exists()
            anchor_store(store, Path(anchor), create=new)
            if new:
                advance_anchor(store)
        except BaseException:
            store.close()
            raise
    return store


def anchor_store(store: Store, path: Path, *, create: bool = False) -> None:
    """Check whatever a store reads against an anchor from now on."""
    _in_database(store).anchor_in(path, create=create)


def advance_anchor(store: Store) -> None:
    """Bring a store's anchor up to everything that is there."""
    _in_database(store).advance_anchor()


def key_location(store: Store) -> str:
    """Where a store's master key is, in words."""
    return _in_database(store).key_location()


def _open(url: str, key: bytes | None, create: bool | None, vault_id: str | None) -> Store:
    if url == "memory:":
        if vault_id is not None:
            raise StoreMissingError(
                f"the profile names the vault {vault_id}, which is not in memory; give its address"
            )
        return MemoryStore()
    path = _file(url)
    objection = _objection(key, create, vault_id)
    if path is not None:
        from rootguard.store.dialects.sqlite import open_sqlite

        return open_sqlite(path, key, objection=objection, vault_id=vault_id)
    try:
        from rootguard.store.dialects.postgres import open_postgres
    except ImportError:
        raise _no_driver() from None
    return open_postgres(url, key, asked=create is True, objection=objection, vault_id=vault_id)


def _file(url: str) -> Path | None:
    """The file that a URL names; None if it names a server."""
    scheme, _, rest = url.partition(":")
    if scheme in {"postgresql", "postgres"}:
        return None
    if scheme != "sqlite":
        raise StoreError(
            "unknown kind of store; write memory:, sqlite:///path or postgresql://user@host/name"
        )
    if not rest.startswith("///") or len(rest) == 3:
        raise StoreError("write sqlite:///path/to/file, or sqlite:////path for an absolute one")
    try:
        os.lstat(rest[3:])
    except (FileNotFoundError, NotADirectoryError):
        pass  # where it is made, if it can be
    except PermissionError:
        raise StoreUnavailableError(
            f"this user may not enter the folder of {rest[3:]}; change its owner or mode, or"
            " choose another path"
        ) from None
    except (OSError, ValueError):
        raise StoreError("the store's path cannot be used; choose another one") from None
    return Path(rest[3:])


def _no_driver() -> StoreError:
    return StoreError("PostgreSQL needs a driver; run: pip install 'rootguard[postgres]'")


def backup_store(store: Store, path: Path, *, progress: "Progress | None" = None) -> int:
    """Write all that a store holds into a file, which is a store under the same key itself."""
    from rootguard.store.backup import copy_into
    from rootguard.store.dialects.sqlite import NewFile

    return copy_into(_in_database(store), NewFile(path), None, progress)


def restore_store(
    path: Path,
    url: str,
    *,
    key: bytes | None = None,
    anchor: Path | None = None,
    progress: "Progress | None" = None,
) -> int:
    """Put a backup in a place where there is no store; how many rows it has.

    Without a key, the one that is kept for that place opens the backup, or one that is kept beside
    the backup, which is put there then.
    """
    from rootguard.store.backup import copy_into
    from rootguard.store.dialects.sqlite import open_backup
    from rootguard.store.keys import KeyPlace, given_key

    if not path.is_file():
        raise StoreMissingError(f"there is no backup at {path}; check the path")
    with closing(_new_place(url)) as target:
        given = given_key(key)
        places = () if given else (target.place, KeyPlace.beside(path))
        store, found = open_backup(path, given, places)
        with closing(store):
            if anchor is not None:
                store.anchor_in(anchor)
            return copy_into(store, target, None if given else found, progress)


def copy_store(store: Store, url: str, *, progress: "Progress | None" = None) -> int:
    """Copy a store to a URL where there is none; a key that we keep is kept there, too.

    It is the same vault then, under the same id. Only one of the two may be used: each would noise
    the same values on its own.
    """
    from rootguard.store.backup import copy_into

    source = _in_database(store)
    with closing(_new_place(url)) as target:
        return copy_into(source, target, source.kept_key(), progress)


def _new_place(url: str) -> "NewPlace":
    if url == "memory:":
        raise StoreError("a copy in memory would be gone at once; give a file or a server")
    path = _file(url)
    if path is not None:
        from rootguard.store.dialects.sqlite import NewFile

        return NewFile(path)
    try:
        from rootguard.store.dialects.postgres import NewSchema
    except ImportError:
        raise _no_driver() from None
    return NewSchema(url)


def _in_database(store: Store) -> "SqlStore":
    from rootguard.store.sql import SqlStore

    if not isinstance(store, SqlStore):
        raise StoreError("a store in memory cannot be copied, and has no anchor; use a file")
    return store


def _objection(key: bytes | None, create: bool | None, vault_id: str | None) -> str:
    """Why no store is made where there is none, and what to do; empty if one may be made."""
    from rootguard.store.keys import VARIABLE, given_key

    if vault_id is not None:
        return (
            f"the profile names the vault {vault_id}, so none is made in its place; {_REMEDY}, or,"
            ' to begin anew with new noise, remove the line vault = "…" from the profile and'
            f" {_COMMAND}"
        )
    if create:
        return ""
    if create is False:
        return f"none is made by reading; {_REMEDY}; to make a new one, {_COMMAND}"
    if given_key(key) is not None:
        source = f"{VARIABLE} is set" if key is None else "its key was given"
        return (
            f"{source}, so there was one, and none is made in its place; {_REMEDY}; to make a new"
            f" one, {_COMMAND}"
        )
    return ""


def default_url() -> str:
    """The store in the user's own data directory."""
    from rootguard.store.keys import data_directory

    return f"sqlite:///{data_directory() / 'vault.sqlite3'}"
