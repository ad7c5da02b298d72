"""The tables, as the ordered steps that made them.

A step that was shipped is never edited: a change is a new function at the end. The names of the
steps that ran are kept in a table; a name that is not known here means a newer RootGuard wrote the
store, and it is refused, not guessed at.
"""

from collections.abc import Callable, Sequence

from rootguard.errors import StoreDamagedError, StoreError
from rootguard.store.base import Transaction

Migration = Callable[[Transaction], None]


def m001_draws_and_ledger(db: Transaction) -> None:
    """Draws, the ledger, caps, and the secrets that protect them.

    Bounds are text (hexadecimal floats), so that every bit comes back. `heads` holds how many rows
    each principal has in each table, so that a deleted row is missed.
    """
    db.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL)")
    db.execute("CREATE TABLE secrets (name TEXT PRIMARY KEY, wrapped BLOB NOT NULL)")
    db.execute(
        "CREATE TABLE draws (principal TEXT NOT NULL, root TEXT NOT NULL, version INTEGER NOT NULL,"
        " position INTEGER NOT NULL, grid_index INTEGER NOT NULL, lower_bound TEXT NOT NULL,"
        " upper_bound TEXT NOT NULL, size INTEGER NOT NULL, micro_epsilon INTEGER NOT NULL,"
        " mechanism TEXT NOT NULL, fingerprint BLOB NOT NULL, event TEXT NOT NULL,"
        " mac BLOB NOT NULL, PRIMARY KEY (principal, root, version, position))"
    )
    db.execute(
        "CREATE TABLE events (principal TEXT NOT NULL, sequence INTEGER NOT NULL,"
        " event TEXT NOT NULL, mac BLOB NOT NULL, PRIMARY KEY (principal, sequence))"
    )
    db.execute(
        "CREATE TABLE caps (principal TEXT NOT NULL, root TEXT NOT NULL,"
        " micro_epsilon INTEGER NOT NULL, mac BLOB NOT NULL, PRIMARY KEY (principal, root))"
    )
    db.execute(
        "CREATE TABLE heads (principal TEXT NOT NULL, shelf TEXT NOT NULL, length INTEGER NOT NULL,"
        " mac BLOB NOT NULL, PRIMARY KEY (principal, shelf))"
    )


def m002_disclosures_and_tokens(db: Transaction) -> None:
    """Who was given what, and the encrypted registry of identifier tokens."""
    db.execute(
        "CREATE TABLE disclosures (principal TEXT NOT NULL, sequence INTEGER NOT NULL,"
        " service TEXT NOT NULL, tier TEXT NOT NULL, root TEXT NOT NULL, version INTEGER NOT NULL,"
        " position INTEGER NOT NULL, mac BLOB NOT NULL, PRIMARY KEY (principal, sequence))"
    )
    db.execute(
        "CREATE TABLE tokens (principal TEXT NOT NULL, token_key BLOB NOT NULL,"
        " sequence INTEGER NOT NULL, entry BLOB NOT NULL, PRIMARY KEY (principal, token_key))"
    )


def m003_crossings(db: Transaction) -> None:
    """The audit log: the latest entries of each principal."""
    db.execute(
        "CREATE TABLE crossings (principal TEXT NOT NULL, sequence INTEGER NOT NULL,"
        " micros INTEGER NOT NULL, service TEXT NOT NULL, route TEXT NOT NULL,"
        " event TEXT NOT NULL, mac BLOB NOT NULL, PRIMARY KEY (principal, sequence))"
    )


def m004_tables(db: Transaction) -> None:
    """Released tables: what each run cost, and the keyed marks of who was in them."""
    db.execute(
        "CREATE TABLE table_runs (sequence INTEGER NOT NULL, content TEXT NOT NULL,"
        " mac BLOB NOT NULL, PRIMARY KEY (sequence))"
    )
    db.execute(
        "CREATE TABLE table_marks (place INTEGER NOT NULL, entries BLOB NOT NULL,"
        " mac BLOB NOT NULL, PRIMARY KEY (place))"
    )


def m005_quantities(db: Transaction) -> None:
    """The unit and grid of each root, which are the same for everybody in the store."""
    db.execute(
        "CREATE TABLE quantities (root TEXT PRIMARY KEY, unit TEXT NOT NULL,"
        " lower_bound TEXT NOT NULL, upper_bound TEXT NOT NULL, size INTEGER NOT NULL,"
        " mac BLOB NOT NULL)"
    )


def m006_key_versions(db: Transaction) -> None:
    """The version of the secrets that every row is sealed under, named in `meta`.

    It is sealed itself, so whoever has the secrets writes it after the steps; see `sql.complete`.
    Earlier versions do not know that a change of key renews the seals: they refuse the store.
    """


def m007_people(db: Transaction) -> None:
    """One row for each person, and all rows of a person under that person's key.

    What was there is set aside under other names, for `early.convert` to encrypt and drop.
    """
    for table in ("draws", "events", "tokens", "caps", "disclosures", "crossings", "heads"):
        # Names of our own, written here.
        db.execute(f"ALTER TABLE {table} RENAME TO early_{table}")
    db.execute(
        "CREATE TABLE people (principal TEXT PRIMARY KEY, epoch INTEGER NOT NULL,"
        " revision INTEGER NOT NULL, person_key BLOB NOT NULL, name BLOB NOT NULL,"
        " summary BLOB NOT NULL)"
    )
    db.execute(
        "CREATE TABLE draws (principal TEXT NOT NULL, place BLOB NOT NULL, mark BLOB NOT NULL,"
        " content BLOB NOT NULL, PRIMARY KEY (principal, place))"
    )
    db.execute("CREATE INDEX draws_by_mark ON draws (principal, mark)")
    for table in ("events", "log"):
        db.execute(
            f"CREATE TABLE {table} (principal TEXT NOT NULL, sequence INTEGER NOT NULL,"
            " content BLOB NOT NULL, PRIMARY KEY (principal, sequence))"
        )
    db.execute(
        "CREATE TABLE tokens (principal TEXT NOT NULL, token_key BLOB NOT NULL,"
        " sequence INTEGER NOT NULL, content BLOB NOT NULL, PRIMARY KEY (principal, token_key))"
    )
    db.execute(
        "CREATE TABLE heads (principal TEXT NOT NULL, shelf TEXT NOT NULL, length INTEGER NOT NULL,"
        " mac BLOB NOT NULL, PRIMARY KEY (principal, shelf))"
    )


MIGRATIONS: tuple[Migration, ...] = (
    m001_draws_and_ledger,
    m002_disclosures_and_tokens,
    m003_crossings,
    m004_tables,
    m005_quantities,
    m006_key_versions,
    m007_people,
)


def pending(db: Transaction, migrations: Sequence[Migration] = MIGRATIONS) -> list[Migration]:
    """The steps that have not run here, in order."""
    done: list[str] = []
    if "migrations" in db.tables():
        done = [row[0] for row in db.execute("SELECT name FROM migrations")]
    missing = [step for step in migrations if step.__name__ not in done]
    unknown = set(done) - {step.__name__ for step in migrations}
    if unknown and missing:  # a newer version would have run all of ours first
        raise StoreDamagedError(
            "the list of the store's migrations was altered; restore its backup"
        )
    if unknown:
        raise StoreError("a newer RootGuard made this store; upgrade rootguard to open it")
    return missing


def migrate(db: Transaction, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Run what is pending. The caller's transaction keeps all of it or nothing."""
    db.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY)")
    for step in pending(db, migrations):
        step(db)
        db.execute("INSERT INTO migrations (name) VALUES (?)", step.__name__)
