"""The identifier registry in a database, encrypted: no token and no entry can be read there."""

from collections.abc import Callable, Iterator

from rootguard.identifiers import IssuedToken
from rootguard.store.database import Database
from rootguard.store.envelope import Secrets
from rootguard.store.shelves import Shelves

_FIND = "SELECT token_key, sequence, entry FROM tokens WHERE principal = ? AND token_key = ?"
_SINCE = (
    "SELECT token_key, sequence, entry FROM tokens"
    " WHERE principal = ? AND sequence >= ? ORDER BY sequence"
)
_ADD = (
    "INSERT INTO tokens (principal, token_key, sequence, entry) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING"
)


class SqlTokens:
    """One principal's issued tokens."""

    def __init__(self, database: Database, secrets: Callable[[], Secrets], principal: str) -> None:
        self._database = database
        self._secrets = secrets
        self._principal = principal

    def add(self, entry: IssuedToken) -> IssuedToken:
        """Keep an entry unless its token is taken; give back the one that now stands."""
        with self._database.writing(self._principal) as db:
            secrets = self._secrets()
            cipher = secrets.current_registry(db)
            shelves = Shelves(db, secrets.integrity)
            length = shelves.length(self._principal, "tokens")
            key = cipher.row_key(self._principal, entry.token)
            for row in db.execute(_FIND, self._principal, key):
                return cipher.decrypt(self._principal, *row)
            sealed = cipher.encrypt(self._principal, length + 1, entry)
            db.execute(_ADD, self._principal, key, length + 1, sealed)
            shelves.add(self._principal, "tokens", 1)
            return entry

    def find(self, token: str) -> IssuedToken | None:
        """The entry of a token, if there is one."""
        with self._database.reading() as db:
            secrets = self._secrets()
            cipher = secrets.current_registry(db)
            Shelves(db, secrets.integrity).length(self._principal, "tokens")
            for row in db.execute(_FIND, self._principal, cipher.row_key(self._principal, token)):
                return cipher.decrypt(self._principal, *row)
            return None

    def __iter__(self) -> Iterator[IssuedToken]:
        return self.since(0)

    def since(self, count: int) -> Iterator[IssuedToken]:
        """The entries from the one with this number on, counted from 1, in order of issue."""
        with self._database.reading() as db:
            secrets = self._secrets()
            cipher = secrets.current_registry(db)
            Shelves(db, secrets.integrity).length(self._principal, "tokens")
            rows = db.execute(_SINCE, self._principal, count)
            return iter([cipher.decrypt(self._principal, *row) for row in rows])

    def __len__(self) -> int:
        with self._database.reading() as db:
            return Shelves(db, self._secrets().integrity).length(self._principal, "tokens")

    def __repr__(self) -> str:
        return "<issued tokens in a database>"
