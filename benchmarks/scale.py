"""What ten million people would need: measured unit costs, arithmetic, and a simulated minute.

`python -m benchmarks.scale --measure` measures the unit costs on this machine and writes them to
benchmarks/scale.json; `python -m benchmarks.scale` writes docs/scale.md from that file. Nothing
here runs a thousand gateways: what is measured is one person's work, what is assumed is said to
be, and the rest is arithmetic, with a seeded simulation where arithmetic is not enough (how uneven
shards are, how long a request waits at the busiest, what the busiest person does to one row).
"""

import json
import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.measure import Contender, figure
from benchmarks.records import machine

UNITS = Path(__file__).parent / "scale.json"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
_KEY = bytes(range(32))
_PROSE = "The appointment was moved again because the form had not come in time. "
_MEASURED_PEOPLE = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumptions:
    """What is chosen, not measured."""

    people: int = 10_000_000
    gateways: int = 1_000
    shards: int = 64
    replicas: int = 3
    active_share: float = 0.5
    """Of the people, on a day."""
    conversations: float = 20.0
    """Of an active person, on a day."""
    turns: float = 10.0
    """Of a conversation; each is a request, which sends the earlier turns again."""
    turn_kib: float = 2.0
    reply_kib: float = 2.0
    peak: float = 4.0
    """The busiest minute's rate over the day's mean."""
    spread: float = 1.5
    """Of people's activity: the deviation of its logarithm."""
    server_seconds: float = 150e-6
    """A database server's processor time for one statement by primary key."""
    write_seconds: float = 400e-6
    """The same for a transaction that commits."""
    lock_seconds: float = 5e-3
    """How long a person's row is locked by a writer, with its round trips."""
    processors: int = 8
    """Of a database server."""
    pool: int = 4
    """Connections of a gateway's process to a shard that it uses."""
    pooled: int = 200
    """Connections that a shard's pooler keeps to its server."""
    dollars: float = 0.04
    """For a processor for an hour."""
    values_changed: float = 12.0
    """New values of a person in a year: each is a commit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Units:
    """What one of each takes: seconds of a processor, and bytes. Measured."""

    text_kib: float
    again_kib: float
    restore_kib: float
    release: float
    resume: float
    open: float
    rewrap: float
    person_bytes: float
    entry_bytes: float


def measured() -> Units:
    """The unit costs on this machine."""
    from rootguard import Guard, MemoryStore, Person, load_template, open_store
    from rootguard.channels.detection import Rules
    from rootguard.channels.text.channel import TextChannel
    from rootguard.session.profile import parse_profile
    from rootguard.store.sql import SqlStore

    fib4 = load_template("fib4")
    values = {"age": 54.0, "ast": 23.0, "alt": 30.0, "plt": 220.0}
    listed = "\n".join(f"{name} = {value}" for name, value in values.items())
    profile = parse_profile(
        f'templates = ["fib4"]\nbudget = "0.9"\n[values]\n{listed}', file="profile.toml"
    )
    person = Person.open(profile, store=MemoryStore(), on_clamp=lambda _: None)
    channel = TextChannel(person, detectors=[Rules()], near_private="redact")
    text = ("My AST is 23 U/L. " + _PROSE * 14)[:1024]
    numbers = count()

    def new() -> object:
        return channel.sanitize(f"{_letters(next(numbers))} {text}")

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "vault.sqlite3"
        store = open_store(f"sqlite:///{path}", key=_KEY, create=True)
        assert isinstance(store, SqlStore)

        def arrive() -> object:
            name = f"newcomer {next(numbers)}"
            return Guard.open(fib4, values=values, budget="0.9", store=store, principal=name)

        arrive()
        before = path.stat().st_size
        for _ in range(_MEASURED_PEOPLE):
            arrive()
        store.flush()
        person_bytes = (path.stat().st_size - before) / _MEASURED_PEOPLE
        session = Guard.open(fib4, values=values, budget="0.9", store=store, principal="one")
        store.flush()
        before = path.stat().st_size
        for _ in range(5_000):
            session.release("ast")
        store.flush()
        entry_bytes = (path.stat().st_size - before) / 5_000
        calls: Mapping[str, Any] = {
            "text_kib": new,
            "again_kib": partial(channel.sanitize, text),
            "restore_kib": partial(channel.restore, text),
            "release": partial(session.release, "ast"),
            "resume": partial(Guard.resume, fib4, store=store, principal="one"),
            "open": arrive,
        }
        seconds = {
            name: figure(Contender(name=name, call=call), unit="one", rounds=5).seconds
            for name, call in calls.items()
        }
        everybody = store.population()
        began = time.process_time()
        store.rotate_key(bytes(reversed(_KEY)))
        seconds["rewrap"] = (time.process_time() - began) / everybody
        store.close()
    return Units(**seconds, person_bytes=person_bytes, entry_bytes=entry_bytes)


def _letters(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


@dataclass(frozen=True, kw_only=True, slots=True)
class Minute:
    """What the simulation of the busiest minute found."""

    requests: int
    busiest_shard: float
    """Its requests over the mean of the shards."""
    wait: float
    """The mean wait at the busiest shard before a statement is worked on, in seconds."""
    late: float
    """The wait that one in a thousand passes."""
    busiest_person: int
    """Requests of the busiest person in that minute."""


def simulated(assumed: Assumptions, seed: int = 1) -> Minute:
    """A minute at the peak: who asks when, at which shard, and how long they wait there."""
    source = np.random.default_rng(seed)
    rate = requests_a_day(assumed) / 86_400 * assumed.peak
    requests = int(source.poisson(60 * rate))
    active = int(assumed.people * assumed.active_share)
    weights = source.lognormal(0.0, assumed.spread, active)
    asking = np.searchsorted(np.cumsum(weights), source.uniform(0, weights.sum(), requests))
    # A person's shard is a hash of the key that stands for the name: as good as drawn.
    shards = source.integers(0, assumed.shards, active)[asking]
    loads = np.bincount(shards, minlength=assumed.shards)
    busiest = int(loads.max())
    arrivals = np.sort(source.uniform(0, 60, busiest))
    waits = _waits(arrivals, assumed.server_seconds * statements(assumed), assumed.processors)
    return Minute(
        requests=requests,
        busiest_shard=busiest / float(loads.mean()),
        wait=float(waits.mean()),
        late=float(np.quantile(waits, 0.999)),
        busiest_person=int(np.bincount(asking).max()),
    )


def _waits(arrivals: np.ndarray[Any, np.dtype[np.float64]], service: float, servers: int) -> Any:  # noqa: ANN401
    """How long each waits for one of so many servers, first come, first served."""
    free = [0.0] * servers
    waits = np.empty(len(arrivals))
    for place, arrival in enumerate(arrivals.tolist()):
        first = min(range(servers), key=free.__getitem__)
        begin = max(arrival, free[first])
        free[first] = begin + service
        waits[place] = begin - arrival
    return waits


def requests_a_day(assumed: Assumptions) -> float:
    """Requests of all people on a day."""
    return assumed.people * assumed.active_share * assumed.conversations * assumed.turns


def statements(assumed: Assumptions) -> float:
    """Statements of a request: whether the person was erased, and a first turn's resumption."""
    return 2.0 + 3.0 / assumed.turns


def gateway_seconds(assumed: Assumptions, units: Units) -> float:
    """A gateway's processor time for a request: a new turn, the earlier ones again, the reply."""
    earlier = (assumed.turns - 1) / 2 * (assumed.turn_kib + assumed.reply_kib)
    return (
        assumed.turn_kib * units.text_kib
        + earlier * units.again_kib
        + assumed.reply_kib * units.restore_kib
        + 2 * units.release
        + units.resume / assumed.turns
    )


def figures(assumed: Assumptions, units: Units) -> dict[str, float]:
    """Everything that the page says, by name."""
    a = assumed
    day = requests_a_day(a)
    peak = day / 86_400 * a.peak
    each = gateway_seconds(a, units)
    reads = statements(a)
    writes = a.people * a.values_changed / (365 * 86_400) * a.peak
    database = peak * reads * a.server_seconds + writes * a.write_seconds
    minute = simulated(a)
    vault = a.people * units.person_bytes
    log = day * 2 * units.entry_bytes
    processors = peak * each + database
    return {
        "requests a second at the peak": peak,
        "requests a second at each gateway": peak / a.gateways,
        "processors that all gateways keep busy": peak * each,
        "processors that a gateway keeps busy": peak * each / a.gateways,
        "database statements a second at the peak": peak * reads,
        "database statements a second at each shard": peak * reads / a.shards,
        "commits of new values a second at the peak": writes,
        "processors that all shards keep busy": database,
        "processors that a shard keeps busy": database / a.shards,
        "load of the busiest shard, times the mean": minute.busiest_shard,
        "mean wait at the busiest shard, microseconds": minute.wait * 1e6,
        "wait there that one request in a thousand exceeds, microseconds": minute.late * 1e6,
        "requests of the busiest person in that minute": minute.busiest_person,
        "writes a second that one person's row can take": 1 / a.lock_seconds,
        "all vaults, gigabytes": vault / 1e9,
        "vault of a shard, gigabytes": vault / a.shards / 1e9,
        "all vaults with their copies, gigabytes": vault * a.replicas / 1e9,
        "audit log, gigabytes a day": log / 1e9,
        "connections of a shard without a pooler": a.gateways * a.pool,
        "connections of a shard with a pooler": min(a.gateways * a.pool, a.pooled),
        "connections of a gateway": a.shards * a.pool,
        "people in one shard": a.people / a.shards,
        "people in one shard, percent": 100 / a.shards,
        "hours to open everybody once on one processor": a.people * units.open / 3600,
        "hours to wrap everybody's key anew on one processor": a.people * units.rewrap / 3600,
        "dollars for a million requests": processors / peak * 1e6 / 3600 * a.dollars,
    }


_ABOUT = """\
# Scale: ten million people

What would RootGuard need for ten million people? Nobody has run it for so many. This page
calculates it from measured costs of single operations and from assumptions, both listed below. The
figures come from `python -m benchmarks.scale`, and `benchmarks/scale.py` has the formulas. For what
averages hide, it simulates the busiest minute of a day with a fixed seed. The costs were measured
on a vault in SQLite; those of a database server are assumed.

People are divided among *shards*: database servers with one vault each. RootGuard does not do this
by itself today; whoever runs the gateways decides which person is in which vault.

## What is stored for each person, and what is shared

For each person there is a row with the wrapped key and a summary, a row for each draw and charge,
the issued tokens and the audit log. Answering one person reads nothing of another, and a release
costs the same however many people there are ([measured](speed.md#growth)). So people can be divided
by the keyed hash that stands for the name in every table, and a gateway can find the shard from the
name.

Little is shared: the unit and grid of each root, which are written once and then only read; the
templates, which are files; and the number of people, which changes when somebody is added. The
fingerprints of a released table are shared and large. They would be in one shard.

## Rows that many processes write

The number of people is one row, which is locked whenever a person is added. Each shard has its own.
A person's row is locked only by those who write for that person. Even if every request of the
busiest person were a write, the row could take many times more.

## Connections

Every gateway may need every shard. Without a pooler, a shard would have connections from every
gateway. A pooler in transaction mode in front of each shard keeps the number small, and the store
[works with one](vault.md#postgresql).

## When something fails

If a shard is down, releases to its own people are refused and nobody else notices. When it is back,
nothing is drawn twice, because a draw that was not committed was not shown. If a gateway is down,
nothing is lost: it holds nothing that it cannot read again. A region that is cut off from its shard
must not draw, because two draws of the same value reveal more than one. So each shard may have only
one writer, and a replica may take over only when the old writer has lost its lock.

## Keys

Each shard would have its own master key in a key service. A process asks for it once when it opens
the shard, not for each request. The master key protects the shard's secrets, and these protect each
person's key. A new master key changes only the rows of these secrets; new secrets mean that every
person's key is wrapped anew. An erasure destroys one person's key. Without the key service, nobody
can read a backup.

## The figures
"""
_UNITS = {
    "text_kib": ("sanitize 1 KiB of new text, milliseconds", 1e3),
    "again_kib": ("sanitize 1 KiB that was sent before, milliseconds", 1e3),
    "restore_kib": ("restore 1 KiB of a reply, milliseconds", 1e3),
    "release": ("release a value, milliseconds", 1e3),
    "resume": ("resume a session, milliseconds", 1e3),
    "open": ("open a session for a new person, milliseconds", 1e3),
    "rewrap": ("wrap a person's key anew, milliseconds", 1e3),
    "person_bytes": ("vault, bytes per person", 1),
    "entry_bytes": ("audit log, bytes per entry", 1),
}
_ASSUMED = {
    "people": ("people", 1),
    "gateways": ("gateways", 1),
    "shards": ("shards", 1),
    "replicas": ("copies of each vault", 1),
    "active_share": ("people who are active on a day, percent", 100),
    "conversations": ("conversations of an active person a day", 1),
    "turns": ("requests of a conversation; each sends the earlier turns again", 1),
    "turn_kib": ("what a person writes in a turn, KiB", 1),
    "reply_kib": ("a reply, KiB", 1),
    "peak": ("requests in the busiest minute, times the mean of the day", 1),
    "spread": ("how unequal people's activity is: standard deviation of its logarithm", 1),
    "server_seconds": ("database server, a statement by primary key, milliseconds", 1e3),
    "write_seconds": ("database server, a transaction that commits, milliseconds", 1e3),
    "lock_seconds": ("how long a writer locks a person's row, milliseconds", 1e3),
    "processors": ("processors of a database server", 1),
    "pool": ("connections of a gateway to a shard", 1),
    "pooled": ("connections of a pooler to its shard", 1),
    "dollars": ("price of a processor, dollars an hour", 1),
    "values_changed": ("new values of a person in a year", 1),
}


def page(units: Units, where: Mapping[str, Any], assumed: Assumptions | None = None) -> str:
    """The whole page."""
    assumed = assumed or Assumptions()
    told = where["machine"]
    lines = [_ABOUT, "| what | |", "| --- | ---: |"]
    lines += [f"| {name} | {_written(value)} |" for name, value in figures(assumed, units).items()]
    lines += [
        "",
        "## What was measured",
        "",
        f"On {where['date']}: {told['processor']}, {told['python']}. Times are processor time.",
        "",
        "| operation | |",
        "| --- | ---: |",
        *_listed(asdict(units), _UNITS),
        "",
        "## What was assumed",
        "",
        "To try others, change `Assumptions` in `benchmarks/scale.py` and run the command again.",
        "",
        "| assumption | |",
        "| --- | ---: |",
        *_listed(asdict(assumed), _ASSUMED),
        "",
    ]
    return "\n".join(lines)


def _listed(named: Mapping[str, float], titles: Mapping[str, tuple[str, float]]) -> Iterator[str]:
    for name, value in named.items():
        title, scale = titles[name]
        yield f"| {title} | {_written(value * scale)} |"


def _written(value: float) -> str:
    """Three digits, as people write them."""
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        digits = 2 - math.floor(math.log10(abs(value)))
        return f"{round(value, digits):,.0f}"
    return f"{value:.3g}"


@click.command()
@click.option("--measure", "anew", is_flag=True, help="Measure the unit costs here first.")
def main(*, anew: bool) -> None:
    """Write docs/scale.md from the unit costs that were measured."""
    if anew:
        content = {**machine(), "units": asdict(measured())}
        UNITS.write_text(json.dumps(content, indent=2) + os.linesep, encoding="utf-8")
    content = json.loads(UNITS.read_text(encoding="utf-8"))
    PAGE.write_text(page(Units(**content["units"]), content), encoding="utf-8")


if __name__ == "__main__":
    main()
