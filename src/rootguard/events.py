"""What happened, for the accountant: frozen records of what was spent, released and refused.

The law of compatibility: an event kind is never removed and its meaning never changes; a new
meaning is a new class. Events are read back through the closed table below, so data can name only
the kinds written here, and an unknown kind is refused, not skipped.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rootguard.errors import EventError


@dataclass(frozen=True, kw_only=True, slots=True)
class _OfVersion:
    principal: str
    root: str
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RootNoised(_OfVersion):
    """A root's version was noised for the first time, at `micro_epsilon`."""

    micro_epsilon: int
    mechanism: str

    def __post_init__(self) -> None:
        if self.micro_epsilon < 0:  # zero is a public root, which is kept as it was given
            raise EventError("a root-noised event cannot give budget back")


@dataclass(frozen=True, kw_only=True, slots=True)
class RootRefined(_OfVersion):
    """A version was raised to `level` micro-epsilon; the difference is what it cost."""

    micro_epsilon: int
    level: int

    def __post_init__(self) -> None:
        if not 0 < self.micro_epsilon < self.level:
            raise EventError("a refinement costs less than the level it reaches, and not nothing")


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelDerived(_OfVersion):
    """A coarser level of a version was derived from a finer one. It costs nothing."""

    level: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TableDrawKept(_OfVersion):
    """A draw that a table had shown is kept as a version. The table's run paid for it."""

    level: int
    mechanism: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RootReturned(_OfVersion):
    """A root's value is that of an earlier version again. It costs nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableCharged:
    """What tables had cost a person on a root when their entries of that person were deleted."""

    principal: str
    root: str
    draws: int
    micro_epsilon: int

    def __post_init__(self) -> None:
        if self.draws < 1 or self.micro_epsilon < 1:
            raise EventError("a table-charged event counts one draw or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class RootCharged(_OfVersion):
    """What a root had cost in all when the profile was erased, by name and in tables.

    `version` is the highest there was, `first` what the first draw cost, and `mechanism` that of
    the latest draw by name.
    """

    draws: int
    micro_epsilon: int
    first: int
    mechanism: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceCharged:
    """What a service had been given of a root when the profile was erased: its tier's budget."""

    principal: str
    root: str
    service: str
    level: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileErased:
    """A profile's values were deleted. What was spent on them stays spent."""

    principal: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _OfTurn:
    turn: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueReleased(_OfTurn):
    """A value computed from noised roots was released. It costs nothing.

    Its provenance travels with it: the roots it rests on, at which level (micro-epsilon) each,
    and who received it in which tier.
    """

    name: str
    formula: str
    value: float | str
    rests_on: tuple[str, ...]
    levels: tuple[int, ...]
    recipient: str
    tier: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRefused(_OfTurn):
    """A request was refused. `reason` is the name of an error class: fixed words, no content."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRefused(_OfTurn):
    """A reply held identifiers that were never issued to this person; they were left as they are.

    `identifier` is their kind and `times` how many there were: no content.
    """

    identifier: str
    times: int

    def __post_init__(self) -> None:
        if self.times < 1:
            raise EventError("a token-refused event counts one token or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedPlace:
    """A place of a request that is not what its sender wrote: the same as the sender is told.

    `path` leads to it, `change` is what stands there now ("value" for a released value, "answer"
    for one to a question about it, "number" for a number that was taken out, the kind of an
    identifier for a token, "refused" for what kept the request from being sent), `root` whose value
    it is or "", `times` how often, `source` who wrote it. No content of the place, before or after.
    """

    path: str
    change: str
    root: str
    times: int
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacesRefused(RequestRefused):
    """What stood at some places of a request was refused.

    Without a `reason` the request was sent, and its places say what left instead. With one it was
    not sent, `rule` is the code of the fault or of the text rule, and the places are where it
    stood, as far as that is known. Fixed words and names, no content.
    """

    rule: str
    places: tuple[ChangedPlace, ...]

    @property
    def sent(self) -> bool:
        """Whether the request was sent, with something else at these places."""
        return not self.reason


Draw = RootNoised | TableDrawKept | RootRefined | LevelDerived
"""What was drawn and is kept: each has its record in the store until an erasure."""

Charge = Draw | RootReturned | TableCharged | RootCharged | ServiceCharged | ProfileErased
"""What a ledger is made of."""

Event = Charge | ValueReleased | RequestRefused | TokenRefused | PlacesRefused

# Stores and logs hold these words, so the law above is about them too: none is ever renamed.
_KINDS: dict[str, type[Event]] = {
    "root-noised": RootNoised,
    "root-refined": RootRefined,
    "level-derived": LevelDerived,
    "table-draw-kept": TableDrawKept,
    "root-returned": RootReturned,
    "table-charged": TableCharged,
    "root-charged": RootCharged,
    "service-charged": ServiceCharged,
    "profile-erased": ProfileErased,
    "value-released": ValueReleased,
    "request-refused": RequestRefused,
    "token-refused": TokenRefused,
    "places-refused": PlacesRefused,
}
# By the very class, not by isinstance: a `PlacesRefused` is a `RequestRefused` as well.
_NAMES = {cls: kind for kind, cls in _KINDS.items()}
# Asked for once: an event is written at every release, and `fields` looks through its class anew.
_FIELDS = {cls: tuple(field.name for field in fields(cls)) for cls in _NAMES}
_WHOLE = ("version", "micro_epsilon", "turn", "level", "times", "draws", "first")


def cost(event: Event) -> int:
    """What an event cost, in micro-epsilon."""
    charges = RootNoised | RootRefined | TableCharged | RootCharged
    return event.micro_epsilon if isinstance(event, charges) else 0


def to_record(event: Event) -> dict[str, object]:
    """A JSON-ready record of an event."""
    kind = type(event)
    record: dict[str, object] = {"kind": _NAMES[kind]}
    for name in _FIELDS[kind]:
        content = getattr(event, name)
        record[name] = tuple(map(asdict, content)) if name == "places" else content
    return record


def from_record(record: Mapping[str, object]) -> Event:
    """The event a record describes; anything else is refused."""
    content = dict(record)
    kind = content.pop("kind", None)
    cls = _KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise EventError("unknown kind of event; this version of RootGuard may be too old for it")
    expected = {field.name for field in fields(cls)}
    if set(content) != expected or not all(_fits(*field) for field in content.items()):
        raise EventError(f"a {kind} event does not have the fields it should")
    for field in ("rests_on", "levels"):  # JSON has no tuples, and a frozen event holds no list
        if isinstance(items := content.get(field), list):
            content[field] = tuple(items)
    if isinstance(places := content.get("places"), list | tuple):
        content["places"] = tuple(map(_changed_place, places))
    return cls(**content)  # type: ignore[arg-type]


def _changed_place(content: Mapping[str, Any]) -> ChangedPlace:
    """A place that is read back. Whoever makes one counts from 1, many times in a request."""
    place = ChangedPlace(**content)
    if place.times < 1:
        raise EventError("a changed place was changed once or more")
    return place


def _fits(field: str, value: object) -> bool:
    """Whether a field read back holds the type it was written with."""
    if field == "rests_on":
        return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    if field == "levels":
        return isinstance(value, list | tuple) and all(type(micro) is int for micro in value)
    if field == "places":
        return isinstance(value, list | tuple) and all(map(_is_place, value))
    if isinstance(value, bool):  # which Python takes for a whole number
        return False
    if field in _WHOLE:
        return isinstance(value, int)
    return isinstance(value, str) or (field == "value" and isinstance(value, int | float))


def _is_place(record: object) -> bool:
    names = {field.name for field in fields(ChangedPlace)}
    return (
        isinstance(record, Mapping)
        and set(record) == names
        and all(_fits(*field) for field in record.items())
    )
