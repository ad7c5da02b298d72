"""The journal's table: the latest crossings of each principal, numbered without gaps.

Two heads are kept: how many rows there are, and the sequence of the latest one ever. So neither
taking rows away nor putting back old ones goes unseen. After an erasure the first row says so, and
what crossed before it but arrives later (another process wrote it down) is dropped.
"""

from collections.abc import Sequence

from rootguard.errors import StoreDamagedError, StoreError
from rootguard.events import ProfileErased
from rootguard.store import rows
from rootguard.store.base import KEPT_CROSSINGS, Crossing, Noted
from rootguard.store.database import Cell, Transaction
from rootguard.store.envelope import Integrity
from rootguard.store.shelves import Shelves

# The statements are put together from a constant list of columns.
_KEEP = f"INSERT INTO crossings ({rows.CROSSING}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_AFTER = (
    f"SELECT {rows.CROSSING} FROM crossings"  # noqa: S608
    " WHERE principal = ? AND sequence > ? ORDER BY sequence LIMIT ?"
)
_BEFORE = (
    f"SELECT {rows.CROSSING} FROM crossings"  # noqa: S608
    " WHERE principal = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?"
)
_TRIM = "DELETE FROM crossings WHERE principal = ? AND sequence <= ?"


def append(
    db: Transaction,
    integrity: Integrity,
    principal: str,
    crossings: Sequence[Noted],
    given_up: int = 0,
) -> None:
    """Number crossings after those that are there, and let the oldest go.

    `given_up` more came before them and are counted only. What cannot be stored is left out.
    """
    shelves = Shelves(db, integrity)
    there = shelves.length(principal, "crossings")
    latest = shelves.latest(principal)
    first = latest - there + 1
    since = _erased_at(db, integrity, principal) if there else None
    fresh = [each for each in crossings if since is None or each[0] > since]
    sealed: list[tuple[Cell, ...]] = []
    start = latest + given_up + 1
    for crossing in fresh:
        try:
            row = rows.crossing_row(integrity, principal, start + len(sealed), crossing)
        except StoreError:
            continue
        sealed.append(row)
    if not sealed:
        return
    sealed = sealed[-KEPT_CROSSINGS:]
    db.execute_all(_KEEP, sealed)
    last = int(sealed[-1][1])
    # Whatever was given up makes a gap, and the rows before a gap go.
    gone = max(last - KEPT_CROSSINGS, int(sealed[0][1]) - 1 if given_up else 0)
    if gone >= first:
        db.execute(_TRIM, principal, gone)
    removed = min(max(gone - first + 1, 0), there)
    shelves.add(principal, "crossings", len(sealed) - removed)
    shelves.set_latest(principal, last)


def after(
    db: Transaction, integrity: Integrity, principal: str, sequence: int, limit: int
) -> tuple[Crossing, ...]:
    """The first crossings after a sequence."""
    return _checked(integrity, db.execute(_AFTER, principal, sequence, limit))


def before(
    db: Transaction, integrity: Integrity, principal: str, sequence: int, limit: int
) -> tuple[Crossing, ...]:
    """The last crossings before a sequence, oldest first."""
    return _checked(integrity, db.execute(_BEFORE, principal, sequence, limit)[::-1])


def erase(db: Transaction, integrity: Integrity, principal: str) -> None:
    """Delete every crossing; their sequences are not used again."""
    shelves = Shelves(db, integrity)
    there = shelves.length(principal, "crossings")
    db.execute("DELETE FROM crossings WHERE principal = ?", principal)
    shelves.add(principal, "crossings", -there)


def _checked(integrity: Integrity, found: Sequence[tuple[Cell, ...]]) -> tuple[Crossing, ...]:
    made = tuple(rows.read_crossing(integrity, row) for row in found)
    numbers = [each.sequence for each in made]
    if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise StoreDamagedError("crossings are missing or added; restore the store's backup")
    return made


def _erased_at(db: Transaction, integrity: Integrity, principal: str) -> int | None:
    """When the profile was last erased, as far as the journal still says so."""
    for row in db.execute(_AFTER, principal, -1, 1):
        first = rows.read_crossing(integrity, row)
        if isinstance(first.event, ProfileErased):
            return first.micros
    return None
