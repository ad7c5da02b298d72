"""Rows and what they mean. Every row is sealed when written and checked when read."""

import functools
import json
from contextlib import suppress
from fractions import Fraction

from rootguard.errors import RootGuardError, StoreDamagedError, StoreError
from rootguard.events import (
    Charge,
    Event,
    RequestRefused,
    TokenRefused,
    ValueReleased,
    from_record,
    to_record,
)
from rootguard.store.base import Crossing, Disclosure, Noted, Record
from rootguard.store.database import Cell, Row
from rootguard.store.envelope import Integrity
from rootguard.values import MICRO, Domain, Sanitized

_LARGEST = 2**63 - 1

DRAW = (
    "principal, root, version, position, grid_index, lower_bound, upper_bound, size,"
    " micro_epsilon, mechanism, fingerprint, event, mac"
)
EVENT = "principal, sequence, event, mac"
CAP = "principal, root, micro_epsilon, mac"
DISCLOSURE = "principal, sequence, service, tier, root, version, position, mac"
CROSSING = "principal, sequence, micros, service, route, event, mac"


def storable(*cells: Cell) -> None:
    """Refuse names and numbers that no database keeps exactly."""
    for cell in cells:
        if isinstance(cell, int) and abs(cell) > _LARGEST:
            raise StoreError("a number is too large to be stored")
        if isinstance(cell, str) and (
            "\x00" in cell or any("\ud800" <= c <= "\udfff" for c in cell)
        ):
            raise StoreError("a name holds a character that cannot be stored; choose another name")


def draw_row(integrity: Integrity, principal: str, draw: Record) -> tuple[Cell, ...]:
    """A draw as it is stored."""
    sanitized = draw.sanitized
    micro = sanitized.epsilon * MICRO
    if micro.denominator != 1:
        raise StoreError(f"the epsilon of {sanitized.root} is not whole in micro-epsilon")
    cells = (
        principal,
        sanitized.root,
        sanitized.version,
        draw.position,
        sanitized.index,
        sanitized.domain.lower.hex(),
        sanitized.domain.upper.hex(),
        sanitized.domain.size,
        micro.numerator,
        sanitized.mechanism,
        draw.fingerprint,
        event_text(draw.event),
    )
    storable(*cells)
    return *cells, integrity.seal("draws", *cells)


def read_draw(integrity: Integrity, row: Row) -> Record:
    """The draw a row holds."""
    integrity.check("draws", *row)
    _, root, version, position, index, lower, upper, size, micro, mechanism, mark, event, _ = row
    domain = Domain(lower=float.fromhex(lower), upper=float.fromhex(upper), size=size)
    return Record(
        sanitized=Sanitized(
            root=root,
            index=index,
            domain=domain,
            epsilon=Fraction(micro, MICRO),
            mechanism=mechanism,
            version=version,
        ),
        position=position,
        fingerprint=mark,
        event=read_event_text(event),
    )


def event_row(
    integrity: Integrity, principal: str, sequence: int, event: Charge
) -> tuple[Cell, ...]:
    """An event as it is stored, at its place in the principal's ledger."""
    cells = (principal, sequence, event_text(event))
    return *cells, integrity.seal("events", *cells)


def read_event(integrity: Integrity, row: Row) -> Charge:
    """The event a row holds."""
    integrity.check("events", *row)
    return read_event_text(row[2])


def disclosure_row(
    integrity: Integrity, principal: str, sequence: int, disclosure: Disclosure
) -> tuple[Cell, ...]:
    """A disclosure as it is stored."""
    cells = (
        principal,
        sequence,
        disclosure.service,
        disclosure.tier,
        disclosure.root,
        disclosure.version,
        disclosure.position,
    )
    storable(*cells)
    return *cells, integrity.seal("disclosures", *cells)


def read_disclosure(integrity: Integrity, row: Row) -> Disclosure:
    """The disclosure a row holds."""
    integrity.check("disclosures", *row)
    _, _, service, tier, root, version, position, _ = row
    return Disclosure(service=service, tier=tier, root=root, version=version, position=position)


def crossing_row(
    integrity: Integrity, principal: str, sequence: int, crossing: Noted
) -> tuple[Cell, ...]:
    """A crossing as it is stored."""
    micros, toward, event = crossing
    cells = (principal, sequence, micros, toward.service, toward.route, event_text(event))
    storable(*cells)
    return *cells, integrity.seal("crossings", *cells)


def read_crossing(integrity: Integrity, row: Row) -> Crossing:
    """The crossing a row holds."""
    integrity.check("crossings", *row)
    _, sequence, micros, service, route, text, _ = row
    event = _event(text)
    return Crossing(sequence=sequence, micros=micros, service=service, route=route, event=event)


def event_text(event: Event) -> str:
    """An event as JSON, always the same for the same event."""
    return json.dumps(to_record(event), sort_keys=True, separators=(",", ":"))


@functools.lru_cache(maxsize=4096)
def read_event_text(text: str) -> Charge:
    """The charge that JSON describes."""
    event = _event(text)
    if isinstance(event, ValueReleased | RequestRefused | TokenRefused):
        raise StoreDamagedError("a stored event is not one this version of RootGuard knows")
    return event


def _event(text: str) -> Event:
    event = None
    with suppress(ValueError, RootGuardError):
        event = from_record(json.loads(text))
    if event is None:
        raise StoreDamagedError("a stored event is not one this version of RootGuard knows")
    return event
