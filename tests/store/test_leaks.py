"""No file of a store holds anything private, and a search that finds nothing can find something."""

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from rootguard.identifiers import Identifiers
from rootguard.store import Store
from rootguard.values import Raw
from rootguard.vault import open_store
from tests.support.postgres import own_server
from tests.support.store_contents import ANA, KEY, at, draw, fill, sql

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
    store.commit(ANA, [draw("age", 3, fingerprint=mark)])
    identifiers = Identifiers(store.identifier_key, store.tokens(ANA))
    token = identifiers.protect("person", "Zebulon Quixote")
    assert Identifiers(store.identifier_key, store.tokens(ANA)).restore("person", token)
    words = (b"Zebulon", b"Quixote", *token.encode().split())
    keys = (KEY, store.fingerprint_key, store.identifier_key)
    return (*FORMS, *words, *keys, *(key.hex().encode() for key in keys))


def test_no_byte_of_file_log_or_export_holds_anything_private(file: Path, tmp_path: Path) -> None:
    store = sql(at(file))
    private = keep_private_things(store)
    assert file.with_name("vault.db-wal").stat().st_size > 0
    assert found_in(tmp_path, *private, b"geometric") == {b"geometric"}  # it does look inside
    store.close()
    with closing(sqlite3.connect(file)) as raw:
        (tmp_path / "export.sql").write_text("\n".join(raw.iterdump()))
    assert found_in(tmp_path, *private, b"geometric") == {b"geometric"}
    (tmp_path / "leak").write_bytes(b"..." + FORMS[3] + b"...")
    assert found_in(tmp_path, *private) == {FORMS[3]}


def test_no_byte_of_a_server_holds_anything_private() -> None:
    with own_server() as server:
        with closing(sql(server.url("postgres"))) as store:
            private = keep_private_things(store)
        assert found_in(server.directory, *private, b"geometric") == {b"geometric"}
        server.stop()
        server.start()
        assert found_in(server.directory, *private, b"geometric") == {b"geometric"}


def test_erased_values_are_gone_from_the_file(file: Path, tmp_path: Path) -> None:
    with closing(sql(at(file))) as store:
        store.commit(ANA, [draw("age", 3, fingerprint=b"the fingerprint of an erased value")])
        assert found_in(tmp_path, b"the fingerprint of an erased value")
        store.erase(ANA)
        assert not found_in(tmp_path, b"the fingerprint of an erased value")


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/new/vault.db")) as store:
        fill(store)
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
        modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "new").iterdir()}
    assert set(modes) == {"vault.db", "vault.db-wal", "vault.db-shm", "vault.db.key"}
    assert set(modes.values()) == {0o600}
