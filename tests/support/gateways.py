"""A gateway running before a recording upstream, and a synthetic person who uses it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from benchmarks.unguarded import Unguarded

from rootguard.channels.detection import Rules
from rootguard.channels.gateway.app import GatewaySettings, build_app
from rootguard.channels.gateway.channel import PersonChannel
from rootguard.channels.http_server import make_server
from rootguard.session import Person, parse_profile
from rootguard.store import Store
from rootguard.vault import open_store
from tests.support.upstream import Recording, recording_upstream, serving

GIVEN, FAMILY = "Marguerite", "Oyelaran"
NAME = f"{GIVEN} {FAMILY}"
EMAIL = "m.oyelaran@quillmail.example"
RECORD = "KZ-8841730"
AST = "61.375"
STRANGER = "Bartholomew Quenby-Strand"
PHONE = "+1 212-555-0147"
SENTINELS = (GIVEN, FAMILY, EMAIL, RECORD, "8841730", AST, STRANGER, "Quenby", PHONE)
TELLING = (
    f"I am {NAME} ({EMAIL}), record {RECORD}. My AST is {AST} U/L. "
    f"My doctor is Dr. {STRANGER}, phone {PHONE}. What now?"
)
"""Declared identifiers, a root's value, and two identifiers that only a detector finds."""

PROFILE = f"""
templates = ["fib4"]
budget = "0.9"
principal = "%s"

[identifiers]
name = "{NAME}"
mail = "{EMAIL}"
record = "{RECORD}"
"""


def open_person(principal: str = "owner", *, store: Store | None = None) -> Person:
    """The synthetic person."""
    profile = parse_profile(PROFILE % principal, file="me.toml")
    return Person.open(
        profile,
        store=open_store("memory:") if store is None else store,
        on_clamp=lambda roots: None,
    )


def channel_of(person: Person) -> PersonChannel:
    """The person's channel with the default detector."""
    return PersonChannel(person, detectors=(Rules(),))


def leaked(recording: Recording) -> list[str]:
    """Which sentinels stand anywhere in what the upstream was sent, in any case."""
    everything = recording.everything.lower()
    return [each for each in SENTINELS if each.lower().encode() in everything]


@dataclass(frozen=True, kw_only=True)
class Running:
    """A gateway under test."""

    address: str
    upstream: Recording
    person: Person

    @property
    def base(self) -> str:
        """What OPENAI_BASE_URL would be."""
        return f"{self.address}/v1"


@contextmanager
def gateway(
    *,
    guarded: bool = True,
    azure: bool = False,
    open_channel: Callable[[str], PersonChannel] | None = None,
    **settings: object,
) -> Iterator[Running]:
    """A gateway on loopback before a recording upstream."""
    person = open_person()
    opened = channel_of(person) if guarded else Unguarded()
    with recording_upstream() as (base, recording):
        base = base.removesuffix("/v1") + "/openai" if azure else base
        defaults = GatewaySettings(upstream=base, per_minute=1_000_000)
        made = replace(defaults, **settings)  # type: ignore[arg-type]
        app = build_app(made, open_channel=open_channel or (lambda _profile: opened))
        with serving(make_server(app, shutdown_timeout=20)) as address:
            yield Running(address=address, upstream=recording, person=person)


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Start something; its result, or what it raised, is in the list when the thread is done."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as problem:  # noqa: BLE001 - the test looks at it
            results.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, results
