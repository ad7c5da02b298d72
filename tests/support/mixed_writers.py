"""Processes that do a little of everything to a few people at once, for as long as they are let."""

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from rootguard import Guard, Session, load_template
from rootguard.errors import ErasedError, RootGuardError, StoreDamagedError, StoreKeyError
from rootguard.session.policy import parse_policy
from rootguard.store.sql import SqlStore
from rootguard.values import Principal
from tests.support.store_contents import sql

FIB4 = load_template("fib4")
PEOPLE = tuple(Principal(f"person {number}") for number in range(5))
PLENTY = 10**12
"""A cap that no race reaches: totals outlive erasures, and soon nothing more would be drawn."""
_VALUES = [{"age": 52.0, "ast": 61.0 + step, "alt": 40.0, "plt": 180.0} for step in (0.0, 4.0, 8.0)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What one process did, and when: by a clock that all processes share."""

    work: Counter[str] = field(default_factory=Counter)
    """What succeeded."""
    refused: Counter[str] = field(default_factory=Counter)
    """What did not, and why: `_open BudgetError`."""
    problems: list[str] = field(default_factory=list)
    releases: list[tuple[str, int, int]] = field(default_factory=list)
    """Of whom, under which epoch, and when the release was asked for."""
    erasures: list[tuple[str, int]] = field(default_factory=list)
    """Of whom, and when the erasure was done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """How long a race lasts: so many steps of each thread, and until so many seconds are over."""

    steps: int = 0
    seconds: float = 0


class _Worker:
    """One thread: keeps sessions for a while, so that some of them outlive an erasure."""

    def __init__(self, store: SqlStore, seed: int, seen: Seen) -> None:
        self._store = store
        self._random = random.Random(seed)
        self._seen = seen
        self._sessions: list[tuple[Principal, Session]] = []
        self._opened: dict[Principal, dict[str, float]] = {}

    def step(self) -> None:
        who = self._random.choice(PEOPLE)
        work: list[tuple[Callable[[Principal], None], int]] = [
            (self._open, 6),
            (self._resume, 4),
            (self._refine, 5),  # refused, most often, since another thread has changed the values
            (self._serve, 4),
            (self._release, 8),
            (self._cap, 1),
            (self._tokens, 2),
            (self._erase, 1),
        ]
        [chosen] = self._random.choices([each for each, _ in work], [often for _, often in work])
        try:
            chosen(who)
        except (StoreDamagedError, StoreKeyError):  # nobody damages anything here
            self._seen.problems.append(traceback.format_exc(limit=-4))
        except RootGuardError as refusal:
            self._seen.refused[f"{chosen.__name__} {type(refusal).__name__}"] += 1
        except Exception:  # noqa: BLE001 - this is what is looked for
            self._seen.problems.append(traceback.format_exc(limit=-4))
        else:
            self._seen.work[chosen.__name__] += 1

    def _keep(self, who: Principal, session: Session) -> None:
        self._sessions = [*self._sessions[-3:], (who, session)]

    def _open(self, who: Principal) -> None:
        values = self._opened[who] = self._random.choice(_VALUES)
        made = Guard.open(
            FIB4,
            values=values,
            budget="0.4",
            store=self._store,
            principal=who,
            identifiers={"mrn": "4415-8820"},
        )
        self._keep(who, made)

    def _resume(self, who: Principal) -> None:
        self._keep(who, Guard.resume(FIB4, store=self._store, principal=who))

    def _refine(self, who: Principal) -> None:
        values = self._opened.get(who, _VALUES[0])  # another thread may have changed them since
        budget = self._random.choice(("0.5", "0.6"))
        Guard.refine(FIB4, values=values, budget=budget, store=self._store, principal=who)

    def _serve(self, who: Principal) -> None:
        # A service of each epoch: what one was given outlives erasures, and it would soon have all.
        name = f"app{self._store.epoch(who)}"
        policy = parse_policy(
            f'[tiers.low]\nbudget = "0.1"\n[services.{name}]\ntier = "low"\nroots = "*"\n',
            file="policy.toml",
        )
        made = Guard.serve(FIB4, store=self._store, policy=policy, service=name, principal=who)
        self._keep(who, made)

    def _release(self, _: Principal) -> None:
        for who, session in self._sessions:
            asked, epoch = time.monotonic_ns(), session._view.person.epoch
            with suppress(ErasedError):
                session.release("ast")
                self._seen.releases.append((who, epoch, asked))

    def _cap(self, who: Principal) -> None:
        self._store.set_cap(who, "ast", self._random.choice((2_000_000, *3 * (PLENTY,))))

    def _tokens(self, who: Principal) -> None:
        list(self._store.tokens(who))

    def _erase(self, who: Principal) -> None:
        self._store.erase(who)
        self._seen.erasures.append((who, time.monotonic_ns()))


def work_until(
    url: str, number: int, threads: int, amount: Amount, report: "Connection[Any, Any]"
) -> None:  # pragma: no cover - runs in a process of its own
    """Work in several threads, then tell what was seen."""
    seen = [Seen() for _ in range(threads)]
    with closing(sql(url)) as store:
        end = time.monotonic() + amount.seconds

        def run(place: int) -> None:
            worker = _Worker(store, 1000 * number + place, seen[place])
            for _ in range(amount.steps):
                worker.step()
            while time.monotonic() < end:
                worker.step()

        running = [threading.Thread(target=run, args=(place,)) for place in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    report.send(seen)
    report.close()
