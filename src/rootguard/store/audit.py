"""A database store checked from what is in it: every seal, every count, and every invariant."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from rootguard.errors import RootGuardError, StoreDamagedError
from rootguard.events import Charge
from rootguard.store import rows
from rootguard.store.base import Disclosure, Record
from rootguard.store.database import Row, Transaction
from rootguard.store.envelope import Secrets
from rootguard.store.invariants import problems
from rootguard.store.shelves import Shelves
from rootguard.values import Principal


def audit(db: Transaction, secrets: Secrets) -> Iterator[str]:
    """Sentences naming everything that is wrong; none if nothing is."""
    integrity = secrets.integrity
    cipher = secrets.current_registry(db)
    counted: Counter[tuple[str, str]] = Counter()
    sequences: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    draws: defaultdict[str, list[Record]] = defaultdict(list)
    events: defaultdict[str, list[Charge]] = defaultdict(list)
    disclosures: defaultdict[str, list[Disclosure]] = defaultdict(list)
    crossings: defaultdict[str, list[int]] = defaultdict(list)

    def read(shelf: str, sql: str, decode: Callable[[Row], Any]) -> Iterator[str]:
        for row in db.execute(sql):
            counted[str(row[0]), shelf] += 1  # an altered name may have become a number
            try:
                decode(row)
            except (RootGuardError, ValueError, TypeError):
                yield f"{row[0]}: a row of {shelf} was altered"

    # Read first: until its seal holds, a row's name is anybody's.
    def keep_draw(row: Row) -> None:
        draw = rows.read_draw(integrity, row)
        draws[row[0]].append(draw)

    def keep_event(row: Row) -> None:
        event = rows.read_event(integrity, row)
        events[row[0]].append(event)
        sequences[row[0], "events"].append(row[1])

    def keep_disclosure(row: Row) -> None:
        disclosure = rows.read_disclosure(integrity, row)
        disclosures[row[0]].append(disclosure)
        sequences[row[0], "disclosures"].append(row[1])

    def keep_crossing(row: Row) -> None:
        rows.read_crossing(integrity, row)
        crossings[row[0]].append(row[1])

    def keep_token(row: Row) -> None:
        entry = cipher.decrypt(*row)
        if cipher.row_key(row[0], entry.token) != row[1]:
            raise StoreDamagedError("a token is kept under another's key")
        sequences[row[0], "tokens"].append(row[2])

    yield from read(
        "draws",
        f"SELECT {rows.DRAW} FROM draws",  # noqa: S608 - a constant list of columns
        keep_draw,
    )
    yield from read(
        "events",
        f"SELECT {rows.EVENT} FROM events ORDER BY principal, sequence",  # noqa: S608
        keep_event,
    )
    yield from read(
        "caps",
        f"SELECT {rows.CAP} FROM caps",  # noqa: S608
        lambda row: integrity.check("caps", *row),
    )
    yield from read(
        "disclosures",
        f"SELECT {rows.DISCLOSURE} FROM disclosures ORDER BY principal, sequence",  # noqa: S608
        keep_disclosure,
    )
    yield from read(
        "tokens", "SELECT principal, token_key, sequence, entry FROM tokens", keep_token
    )
    yield from read(
        "crossings",
        f"SELECT {rows.CROSSING} FROM crossings",  # noqa: S608
        keep_crossing,
    )
    yield from Shelves(db, integrity).problems(counted)
    for (principal, shelf), found in sorted(sequences.items()):
        if sorted(found) != list(range(1, len(found) + 1)):
            yield f"{principal}: {shelf} are not numbered without gaps"
    for principal, found in sorted(crossings.items()):
        latest = Shelves(db, integrity).latest(principal)
        if sorted(found) != list(range(latest - len(found) + 1, latest + 1)):
            yield f"{principal}: crossings are not numbered without gaps"
    for principal in sorted({*draws, *events, *disclosures}):
        yield from problems(
            Principal(principal), draws[principal], events[principal], disclosures[principal]
        )
