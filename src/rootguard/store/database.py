"""What `SqlStore` asks of a database, so that one store serves every dialect.

SQL is written once, with `?` for a cell, in the part of the language that SQLite and PostgreSQL
share. A dialect brings transactions, locks and the border where its driver's errors become ours.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Cell = str | int | bytes
Row = tuple[Any, ...]


class Transaction(Protocol):
    """One open transaction. An error inside undoes all of it."""

    def execute(self, sql: str, *cells: Cell) -> list[Row]:
        """Run one statement with `?` placeholders; its rows, if it gives any."""
        ...

    def execute_all(self, sql: str, rows: Sequence[tuple[Cell, ...]]) -> None:
        """Run one statement that gives no rows, once for each of these."""
        ...

    def tables(self) -> set[str]:
        """The names of the tables there are."""
        ...


class Database(Protocol):
    """Where a store's tables are. Safe to use from any thread, not across a fork."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one moment of the store."""
        ...

    def writing(self, principal: str) -> AbstractContextManager[Transaction]:
        """A transaction that nobody else writing for this principal runs beside."""
        ...

    def noting(self, principal: str) -> AbstractContextManager[Transaction]:
        """The same for what may be lost in a power cut, and so need not wait for the disk."""
        ...

    def exclusive(self) -> AbstractContextManager[Transaction]:
        """A transaction that no other writer runs beside."""
        ...

    def check(self) -> tuple[str, ...]:
        """The database's own opinion of its files: sentences naming damage, or none."""
        ...

    def scrub(self) -> None:
        """Remove what deleted rows left behind, as far as the database lets us."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
