"""No file of a store holds anything private, and a search that finds nothing can find something."""

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from rootguard.identifiers import Identifiers
from rootguard.store import Store
from rootguard.store.sql import SqlStore
from rootguard.values import Principal, Raw
from rootguard.vault import open_store
from tests.support.postgres import own_server
from tests.support.store_contents import KEY, at, database_of, draw, fill, sql

WHO = Principal("anastasia.roe")
SECRET = 8675309.4242
FORMS = (
    str(SECRET).encode(),
    b"8675309",
    SECRET.hex().encode(),
    struct.pack("<d", SECRET),
    struct.pack(">d", SECRET),
)


def found_in(directory: Path, *needles: bytes) -> set[bytes]:
    """Which of the byte strings occur in any file of a directory."""
    files = [file.read_bytes() for file in directory.rglob("*") if file.is_file()]
    return {needle for needle in needles if any(needle in held for held in files)}


def keep_private_things(store: Store) -> tuple[bytes, ...]:
    """Fingerprint a private value, protect an identifier; the texts that may be nowhere."""
    mark = Raw(SECRET).number_fingerprint(store.fingerprint_key, "age")
    drawn = draw("age", 3, principal=WHO, fingerprint=mark)
    store.commit(WHO, [drawn])
    identifiers = Identifiers(store.identifier_key, store.tokens(WHO))
    token = identifiers.protect("person", "Zebulon Quixote")
    assert Identifiers(store.identifier_key, store.tokens(WHO)).restore("person", token)
    words = (b"Zebulon", b"Quixote", *token.encode().split())
    own = (WHO.encode(), WHO.upper().encode(), b"root-noised")
    keys = (KEY, store.fingerprint_key, store.identifier_key, mark)
    return (*FORMS, *words, *own, *keys, *(key.hex().encode() for key in keys))


def rows_of(store: SqlStore, principal: Principal) -> dict[str, set[bytes]]:
    """Every cell that tells of a person, by table: ciphertexts, the wrapped key, digests."""
    key = store._key(principal)
    cells: dict[str, set[bytes]] = {}
    with database_of(store).reading() as db:
        for table, columns in (
            ("people", "person_key, name, summary"),
            ("draws", "place, mark, content"),
            ("events", "content"),
            ("tokens", "token_key, content"),
            ("log", "content"),
        ):
            found = db.execute(f"SELECT {columns} FROM {table} WHERE principal = ?", key)
            cells[table] = {bytes(cell) for row in found for cell in row if cell}
            assert cells[table], f"nothing is kept in {table}"
    return cells


def test_no_byte_of_file_log_or_export_holds_anything_private(file: Path, tmp_path: Path) -> None:
    store = sql(at(file))
    private = keep_private_things(store)
    kept = set.union(*rows_of(store, WHO).values())
    assert file.with_name("vault.db-wal").stat().st_size > 0
    assert found_in(tmp_path, *private, *kept) == kept  # it does look inside
    store.close()
    with closing(sqlite3.connect(file)) as raw:
        (tmp_path / "export.sql").write_text("\n".join(raw.iterdump()))
    assert found_in(tmp_path, *private, *kept) == kept
    (tmp_path / "leak").write_bytes(b"..." + FORMS[3] + b"...")
    assert found_in(tmp_path, *private) == {FORMS[3]}


def test_no_byte_of_a_server_holds_anything_private() -> None:
    with own_server() as server:
        with closing(sql(server.url("postgres"))) as store:
            private = keep_private_things(store)
            kept = set.union(*rows_of(store, WHO).values())
        server.stop()  # what is in its memory goes to its files
        server.start()
        assert found_in(server.directory, *private, *kept) == kept


def test_erased_rows_are_gone_from_the_file_and_its_log(file: Path, tmp_path: Path) -> None:
    with closing(sql(at(file))) as store:
        keep_private_things(store)
        kept = rows_of(store, WHO)
        everything = set.union(*kept.values())
        assert file.with_name("vault.db-wal").stat().st_size > 0
        assert found_in(tmp_path, *everything) == everything
        store.erase(WHO)
        assert not found_in(tmp_path, *everything)
        assert found_in(tmp_path, store._key(WHO).encode())  # the hash stays, with the totals
        totals = rows_of_erased(store, WHO)
        assert found_in(tmp_path, *totals) == totals
    assert not found_in(tmp_path, *everything)


def rows_of_erased(store: SqlStore, principal: Principal) -> set[bytes]:
    """What is left of a person: the row with its totals, and the events that say so."""
    key = store._key(principal)
    with database_of(store).reading() as db:
        [(name, secret, summary)] = db.execute(
            "SELECT name, person_key, summary FROM people WHERE principal = ?", key
        )
        assert not name
        for table in ("draws", "tokens"):
            assert not db.execute(f"SELECT 1 FROM {table} WHERE principal = ?", key)
        left = db.execute("SELECT content FROM events WHERE principal = ?", key)
    return {secret, summary, *(content for (content,) in left)}


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/new/vault.db")) as store:
        fill(store)
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
        modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "new").iterdir()}
    assert set(modes) == {"vault.db", "vault.db-wal", "vault.db-shm", "vault.db.key"}
    assert set(modes.values()) == {0o600}
