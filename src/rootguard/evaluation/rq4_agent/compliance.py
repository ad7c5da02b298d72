"""How well agents kept to their task, one beside another, from the transcripts alone.

A directory may hold sessions of several backends, models and ways of decoding. Each has a line
here: over all of its sessions, and again over those sessions that every backend held, which is the
fair comparison. `fetched` counts the values asked for that the agent asked a tool for in that turn:
whether it chose the right tool and name, whatever it said afterwards. Failures are shown as they
were, the first ones of each kind.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rootguard.evaluation.rq4_agent.figures import FAITHS, UNREAD
from rootguard.evaluation.study.tables import Sheet

EXAMPLES = 2
"""Failures that are shown, per backend and kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What became of the values of a session, or of several."""

    backend: str
    session: str
    fetched: int
    faith: Counter[str]

    @property
    def exact(self) -> bool:
        """Whether every value was said as a tool gave it."""
        return self.faith["exact"] == self.faith.total()


def kept(record: Mapping[str, Any]) -> Kept:
    """A session's counts."""
    return Kept(
        backend=record["backend"],
        session=record["session"],
        fetched=sum(len(given(turn).keys() & set(turn["asked"])) for turn in record["turns"]),
        faith=Counter(kind for turn in record["turns"] for kind in turn["faith"].values()),
    )


def given(turn: Mapping[str, Any]) -> dict[str, list[float]]:
    """The values that tools gave in a turn, by name."""
    found: dict[str, list[float]] = {}
    for call in turn["calls"]:
        for value in call["result"].get("values", ()):
            if isinstance(value.get("value"), int | float):
                found.setdefault(value["name"], []).append(value["value"])
    return found


def common(sessions: Sequence[Kept]) -> list[Kept]:
    """Those sessions that every backend held."""
    by_backend: dict[str, set[str]] = {}
    for one in sessions:
        by_backend.setdefault(one.backend, set()).add(one.session)
    shared = set.intersection(*by_backend.values()) if by_backend else set()
    return [one for one in sessions if one.session in shared]


def compliance_sheets(records: Iterable[Mapping[str, Any]]) -> tuple[Sheet, ...]:
    """Backends beside each other, where there are several, and failures as they were."""
    sessions: list[Kept] = []
    failures: list[tuple[str, ...]] = []
    shown: Counter[tuple[str, str]] = Counter()
    for record in records:
        sessions.append(kept(record))
        if not sessions[-1].exact:
            failures += _failures(record, shown)
    sheets = []
    if len({one.backend for one in sessions}) > 1:
        sheets.append(_beside("Compliance by backend, every session held", sessions))
        if fair := common(sessions):
            sheets.append(
                _beside("Compliance by backend, the sessions that all of them held", fair)
            )
    if failures:
        sheets.append(
            Sheet(
                title="Failures, the first of each kind",
                header=("backend", "kind", "question", "tools gave", "reply"),
                lines=tuple(sorted(failures)),
                note="Numbers are noised values, or what a model made of them.",
                labels=5,
            )
        )
    return tuple(sheets)


def _beside(title: str, sessions: Iterable[Kept]) -> Sheet:
    groups: dict[str, list[Kept]] = {}
    for one in sessions:
        groups.setdefault(one.backend, []).append(one)
    lines = []
    for backend, held in sorted(groups.items()):
        faith = sum((one.faith for one in held), Counter[str]())
        failed = sum(any(one.faith[kind] for kind in UNREAD) for one in held)
        shares = (sum(one.fetched for one in held), *(faith[kind] for kind in FAITHS))
        lines.append(
            (
                backend, f"{len(held):,}", f"{failed:,}", f"{sum(one.exact for one in held):,}",
                f"{faith.total():,}", *(f"{100 * n / faith.total():.1f} %" for n in shares),
            )
        )  # fmt: skip
    header = ("sessions", "failed sessions", "all exact", "observations", "fetched", *FAITHS)
    return Sheet(
        title=title,
        header=("backend", *header),
        lines=tuple(lines),
        note="Shares are of observations. Failed sessions: some value was refused or not to be "
        "read. All exact: sessions without any fault.",
    )


def _failures(
    record: Mapping[str, Any], shown: Counter[tuple[str, str]]
) -> Iterator[tuple[str, ...]]:
    for turn in record["turns"]:
        for root, kind in turn["faith"].items():
            place = (record["backend"], kind)
            if kind == "exact" or shown[place] >= EXAMPLES:
                continue
            shown[place] += 1
            wire = ", ".join(
                f"{name} {value!r}" for name, values in given(turn).items() for value in values
            )
            asked, reply = turn["question"], _short(turn["reply"])
            yield (record["backend"], f"{root} {kind}", asked, wire or "nothing", reply)


def _short(text: str, length: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[: length - 1]}…"
