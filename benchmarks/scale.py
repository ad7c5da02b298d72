"""Ten million people on paper: what the measured unit costs come to, and a simulation of a minute.

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
        "requests of a gateway a second": peak / a.gateways,
        "processors busy in all gateways": peak * each,
        "processors busy in a gateway": peak * each / a.gateways,
        "statements a second at the peak": peak * reads,
        "statements of a shard a second": peak * reads / a.shards,
        "commits of new values a second at the peak": writes,
        "processors busy in all shards": database,
        "processors busy in a shard": database / a.shards,
        "the busiest shard over the mean": minute.busiest_shard,
        "mean wait at the busiest shard, microseconds": minute.wait * 1e6,
        "wait there that one in a thousand passes, microseconds": minute.late * 1e6,
        "requests of the busiest person in the minute": minute.busiest_person,
        "writes of one person a second before they queue": 1 / a.lock_seconds,
        "vault, gigabytes": vault / 1e9,
        "vault of a shard, gigabytes": vault / a.shards / 1e9,
        "vault with its replicas, gigabytes": vault * a.replicas / 1e9,
        "audit log, gigabytes a day": log / 1e9,
        "connections without a pooler, of a shard": a.gateways * a.pool,
        "connections with a pooler, of a shard": min(a.gateways * a.pool, a.pooled),
        "connections of a gateway": a.shards * a.pool,
        "people behind one shard": a.people / a.shards,
        "share of the people behind one shard, percent": 100 / a.shards,
        "hours to open everybody once on one processor": a.people * units.open / 3600,
        "hours to wrap everybody's key anew on one processor": a.people * units.rewrap / 3600,
        "dollars for a million requests": processors / peak * 1e6 / 3600 * a.dollars,
    }


_ABOUT = """\
# Internet scale, on paper

What would ten million people need? This page is arithmetic from measured unit costs; it is written
by `python -m benchmarks.scale` and holds no number that was typed by hand. Nobody has run a
thousand gateways for it, and the vault has no shards of its own today: each shard below is a vault
as it is, and which person is in which is for whoever runs them to say. `benchmarks/scale.py` has
the formulas, and a seeded simulation of the busiest minute for what averages hide. The unit costs
are of a vault in SQLite; what a database server takes is assumed.

## What is per person, and what is shared

Per person: a row with the person's wrapped key and summary, a row for each draw and event, the
tokens, the audit log. Nothing of one person is read to answer another, and a release costs the same
however many there are ([speed](speed.md#growth)). So people are spread over shards by the keyed
hash that stands for the name in every table, and a gateway would find the shard from the name.

Shared, and small: the unit and grid of each root, which are fixed once and then only read; the
templates, which are files; the count of people, which every newcomer raises.

Shared, and large: the fingerprints of released tables. A table would be kept in one shard.

## Hot rows

The count of people is one row, and each newcomer locks it for a commit. With shards there is one
for each. A person's own row is locked by that person's writers alone: the busiest person of the
minute is far from the rate at which they would queue.

## Connections

Every gateway may speak to every shard, so without a pooler a shard would hold a connection for each
process and its pool. A pooler in transaction mode in front of each shard keeps the number small;
the store prepares no statement across transactions, so it works through one.

## Failure domains

A shard that is down stops its own people and nobody else: releases are refused, never passed
through, and nothing is drawn twice when it is back, because a draw that was not committed was not
shown. A gateway that is down loses nothing: it holds no state but what it can read again. A region
that is cut off must not draw: a second draw of the same value would average the noise away. So a
shard needs one writer, and a replica may take over only when the old one has lost its lock.

## Keys

Each shard would have a master key of its own, in a key service; a process unwraps it once when it
opens the shard, so the service is asked once for each process and shard, not for each request.
Under it are the shard's secrets, and under those each person's key. To change a master key is one
row; to change a shard's secrets, every person's key is wrapped anew, person by person. An erasure
destroys one person's key. A backup without the key service is noise.

## The figures
"""


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
        f"On {where['date']}: {told['processor']}, {told['python']}. Seconds of a processor.",
        "",
        "| unit | |",
        "| --- | ---: |",
        *_listed(asdict(units)),
        "",
        "## What was assumed",
        "",
        "Change them in `Assumptions` and write the page again.",
        "",
        "| assumption | |",
        "| --- | ---: |",
        *_listed(asdict(assumed)),
        "",
    ]
    return "\n".join(lines)


def _listed(named: Mapping[str, float]) -> Iterator[str]:
    for name, value in named.items():
        yield f"| {name.replace('_', ' ')} | {_written(value)} |"


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
