"""How many rows each principal has in each table, sealed, so that a deleted row is missed.

A row's seal shows that it was altered, but a row that is gone has no seal. So each principal has a
head per table that says how many rows there are, and one head says how many principals there are.
Heads are written in the transaction that writes the rows.
"""

from collections.abc import Iterator
from typing import Literal

from rootguard.errors import StoreDamagedError
from rootguard.store.database import Transaction
from rootguard.store.envelope import Integrity

Shelf = Literal["draws", "events", "caps", "disclosures", "tokens", "crossings"]

_COUNT: dict[Shelf, str] = {
    "draws": "SELECT COUNT(*) FROM draws WHERE principal = ?",
    "events": "SELECT COUNT(*) FROM events WHERE principal = ?",
    "caps": "SELECT COUNT(*) FROM caps WHERE principal = ?",
    "disclosures": "SELECT COUNT(*) FROM disclosures WHERE principal = ?",
    "tokens": "SELECT COUNT(*) FROM tokens WHERE principal = ?",
    "crossings": "SELECT COUNT(*) FROM crossings WHERE principal = ?",
}
SHELVES = tuple(_COUNT)
EVERYONE = ("", "principals")
LATEST = "crossed"
"""The head that counts a principal's crossings with those that are gone: not how many there are."""
_READ = "SELECT principal, shelf, length, mac FROM heads WHERE principal = ? AND shelf = ?"
_EVERY = "SELECT principal, shelf, length, mac FROM heads WHERE shelf = ?"
_WRITE = "UPDATE heads SET length = ?, mac = ? WHERE principal = ? AND shelf = ?"
_ADD = "INSERT INTO heads (principal, shelf, length, mac) VALUES (?, ?, ?, ?)"


class Shelves:
    """The heads, inside one transaction."""

    def __init__(self, db: Transaction, integrity: Integrity) -> None:
        self._db = db
        self._integrity = integrity

    def open(self) -> None:
        """Write the first head of a new store: nobody is in it."""
        self._db.execute(_ADD, *EVERYONE, 0, self._integrity.seal("heads", *EVERYONE, 0))

    def length(self, principal: str, shelf: Shelf) -> int:
        """How many rows a principal has; refuses a table that has more or fewer."""
        expected = self._head(principal, shelf) or 0
        if self._db.execute(_COUNT[shelf], principal) != [(expected,)]:
            raise StoreDamagedError(f"rows of {shelf} are missing or added; restore the backup")
        return expected

    def add(self, principal: str, shelf: Shelf, rows: int) -> None:
        """Count rows that were added, or (below zero) removed."""
        if self._head(principal, "events") is None:
            self._welcome(principal)
        length = self._head(principal, shelf)
        if length is None:
            self._insert(principal, shelf, rows)
        else:
            self._update(principal, shelf, length + rows)

    def latest(self, principal: str) -> int:
        """The sequence of a principal's latest crossing, whether it is still kept or not."""
        return self._head(principal, LATEST) or 0

    def set_latest(self, principal: str, sequence: int) -> None:
        """Count crossings; to be called after `add`."""
        if self._head(principal, LATEST) is None:
            self._insert(principal, LATEST, sequence)
        else:
            self._update(principal, LATEST, sequence)

    def principals(self) -> list[str]:
        """Everyone there is; refuses a store that lost somebody."""
        found: list[str] = []
        for row in self._db.execute(_EVERY, "events"):
            self._integrity.check("heads", *row)
            found.append(row[0])
        if self._head(*EVERYONE) != len(found):
            raise StoreDamagedError("profiles are missing or added; restore the backup")
        return sorted(found)

    def problems(self, counted: dict[tuple[str, str], int]) -> Iterator[str]:
        """What is wrong with the heads, given how many rows were found for whom."""
        heads: dict[tuple[str, str], int] = {}
        for row in self._db.execute("SELECT principal, shelf, length, mac FROM heads"):
            if not self._integrity.holds("heads", *row):
                yield f"{row[0]}: the count of {row[1]} was altered"
            heads[str(row[0]), str(row[1])] = row[2]
        known = {principal for principal, shelf in heads if shelf == "events"}
        if heads.pop(EVERYONE, None) != len(known):
            yield "profiles are missing or added"
        for principal, shelf in sorted(set(heads) | set(counted)):
            if principal not in known:
                yield f"{principal}: rows of {shelf} belong to nobody this store knows"
            elif shelf != LATEST and (
                heads.get((principal, shelf), 0) != counted.get((principal, shelf), 0)
            ):
                yield f"{principal}: rows of {shelf} are missing or added"

    def _welcome(self, principal: str) -> None:
        """Count a new principal. The idle update locks the row, where locks are per row."""
        self._db.execute(
            "UPDATE heads SET length = length WHERE principal = ? AND shelf = ?", *EVERYONE
        )
        everyone = self._head(*EVERYONE)
        if everyone is None:
            raise StoreDamagedError("the count of profiles is missing; restore the backup")
        self._update(*EVERYONE, everyone + 1)
        self._insert(principal, "events", 0)

    def _head(self, principal: str, shelf: str) -> int | None:
        for row in self._db.execute(_READ, principal, shelf):
            self._integrity.check("heads", *row)
            return int(row[2])
        return None

    def _insert(self, principal: str, shelf: str, length: int) -> None:
        seal = self._integrity.seal("heads", principal, shelf, length)
        self._db.execute(_ADD, principal, shelf, length, seal)

    def _update(self, principal: str, shelf: str, length: int) -> None:
        seal = self._integrity.seal("heads", principal, shelf, length)
        self._db.execute(_WRITE, length, seal, principal, shelf)
