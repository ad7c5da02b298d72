"""What the transcripts of the agent evaluation come to: a row per cell, and means over templates.

The adversary computes the target from what it read in the final turn; a root that it could not read
there it takes from the latest turn in which it could. A session in which some root was never read
has no target: it is counted as `missing`, and figures are over the others. Beside wMAPE and the
risk class error stands the plain rate of wrong classes, which is what the published RQ4 tables call
RCE: a class that is two off counts like one that is one off.

`map_wmape` is how far the adversary's MAP estimate of the roots is off, the mean over roots, under
the informed prior: from every fetch for `all`, from the one value that is replayed otherwise. A
calibrated value is read as if it were a noised one.

How well agents kept to their task is told one beside another: over all sessions of a backend, and
again over those that every backend held, which is the fair comparison. `fetched` counts the values
asked for that the agent asked a tool for in that turn: whether it chose the right tool and name,
whatever it said afterwards.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rootguard import __version__
from rootguard.advice.seeds import generator
from rootguard.advice.utility import class_numbers
from rootguard.attacks.belief import prior
from rootguard.attacks.map import map_estimates
from rootguard.attacks.oracle import grid
from rootguard.evaluation.metrics import Bootstrap
from rootguard.evaluation.rq1_utility.study import DIGITS, Subject
from rootguard.evaluation.rq4_agent.patients import AgentCell, PatientGroup
from rootguard.evaluation.rq4_agent.study import Faith, Grid, run_digest
from rootguard.evaluation.study.tables import Sheet
from rootguard.expressions import evaluate_many
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.mechanisms.base import Floats
from rootguard.values import RootName

RQ1_REPEATS = 20
"""Draws of the utility study: its mean is then known to a fifth of the spread of one draw."""
FAITHS: tuple[Faith, ...] = (
    "exact", "remembered", "rounded", "invented", "refused", "unparsed",
)  # fmt: skip
UNREAD: tuple[Faith, ...] = ("refused", "unparsed")
"""What the published tables would count as parse failures."""
EXAMPLES = 2
"""Failures that are shown, per backend and kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentRow:
    """What became of a cell. Figures are in percent; None where there is nothing to measure.

    `rq1` is the same cell in the utility study on the same patients, the mean of 20 draws, and
    `rq1_sd` the spread of a single draw, which is what a run of sessions is.
    """

    cell: AgentCell
    backend: str
    wmape: float | None = None
    wmape_se: float | None = None
    rce: float | None = None
    rce_se: float | None = None
    misclassified: float | None = None
    misclassified_se: float | None = None
    map_wmape: float | None = None
    map_wmape_se: float | None = None
    rq1: float | None = None
    rq1_sd: float | None = None
    sessions: int
    missing: int
    failed_sessions: int
    observations: int
    # What became of the observations: a field for each of FAITHS.
    exact: int = 0
    remembered: int = 0
    rounded: int = 0
    invented: int = 0
    refused: int = 0
    unparsed: int = 0
    roots: int
    template_hash: str
    plan_hash: str
    cohort: str
    synthetic: bool
    seed: int
    version: str = __version__


@dataclass(slots=True)
class _Readings:
    """What the adversary holds of a cell, by patient."""

    reads: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    faith: Counter[str] = field(default_factory=Counter)
    failed: int = 0


def agent_rows(
    plan: Grid, groups: Sequence[PatientGroup], backend: str, records: Iterable[Mapping[str, Any]]
) -> list[AgentRow]:
    """A row per cell from transcripts; sessions of other runs among them are passed over."""
    wanted = {
        (run_digest(group, cell, backend), cell.key(patient)): (cell, patient)
        for group in groups
        for cell in plan.cells(group)
        for patient in range(group.patients)
    }
    heard: dict[AgentCell, _Readings] = {}
    for record in records:
        found = wanted.get((record["run"], record["session"]))
        if found is not None:
            cell, patient = found
            _hear(heard.setdefault(cell, _Readings()), patient, record["turns"])
    rows: list[AgentRow] = []
    for group in groups:
        known = [cell for cell in plan.cells(group) if cell in heard]
        beside = _rq1(group, known)
        measures = _Measures(group)
        rows += [measures.row(cell, heard[cell], backend, beside.get(cell)) for cell in known]
    return rows


def _hear(cell: _Readings, patient: int, turns: Sequence[Mapping[str, Any]]) -> None:
    if patient in cell.reads:
        return
    reads: dict[str, list[float]] = {}
    faith = Counter(found for turn in turns for found in turn["faith"].values())
    for turn in turns:
        for root, value in turn["read"].items():
            reads.setdefault(root, []).append(float(value))
    cell.reads[patient] = reads
    cell.faith += faith
    cell.failed += any(faith[kind] for kind in UNREAD)


def _rq1(group: PatientGroup, cells: Sequence[AgentCell]) -> dict[AgentCell, tuple[float, float]]:
    """The utility study's mean and the spread of one draw, for the same patients."""
    subject = Subject(group.template, group.cohort, seed=group.seed, repeats=RQ1_REPEATS)
    plain = {cell.plain: cell for cell in cells}
    found = {}
    for row in subject.run(subject.outline(cell) for cell in plain):
        if row.wmape is not None and row.wmape_mc is not None:
            found[plain[row.cell]] = (row.wmape, row.wmape_mc * math.sqrt(RQ1_REPEATS))
    return found


class _Measures:
    """Turns what was read from a group's sessions into figures."""

    def __init__(self, group: PatientGroup) -> None:
        self._group = group
        self._formula = Graph.of(group.template).in_roots(group.template.target.formula)

    def row(
        self, cell: AgentCell, heard: _Readings, backend: str, beside: tuple[float, float] | None
    ) -> AgentRow:
        group = self._group
        targets = self._targets(heard)
        present = np.flatnonzero(~np.isnan(targets))
        figures = self._figures(present, targets[present]) if present.size else {}
        mapped = self._map(cell, heard)
        counts: dict[str, Any] = {kind: heard.faith[kind] for kind in FAITHS}
        return AgentRow(
            cell=cell,
            backend=backend,
            **figures,
            map_wmape=_rounded(mapped[0] if mapped else None),
            map_wmape_se=_rounded(mapped[1] if mapped else None),
            rq1=beside[0] if beside else None,
            rq1_sd=_rounded(beside[1]) if beside else None,
            sessions=len(heard.reads),
            missing=len(heard.reads) - int(present.size),
            failed_sessions=heard.failed,
            observations=heard.faith.total(),
            **counts,
            roots=len(group.roots),
            template_hash=group.template.digest,
            plan_hash=group.plan(cell).hash,
            cohort=group.cohort.digest,
            synthetic=group.cohort.synthetic,
            seed=group.seed,
        )

    def _targets(self, heard: _Readings) -> Floats:
        """Each patient's target as the adversary computes it; NaN where it cannot."""
        columns = {str(root): np.full(self._group.patients, np.nan) for root in self._group.roots}
        for patient, reads in heard.reads.items():
            for root, column in columns.items():
                if reads.get(root):
                    column[patient] = reads[root][-1]
        missing = np.isnan(np.stack(list(columns.values()))).any(axis=0)
        whole = {root: np.where(missing, 1.0, column) for root, column in columns.items()}
        return np.where(missing, np.nan, evaluate_many(self._formula, whole))

    def _figures(self, present: np.ndarray[Any, Any], targets: Floats) -> dict[str, Any]:
        group = self._group
        truth, risks = group.truth[present], group.template.risk
        bootstrap = Bootstrap(truth, generator(group.seed, "bootstrap", group.template.name))
        ((error, risk),) = bootstrap.measure(targets[None, None], risks)
        found = {"wmape": error.value, "wmape_se": error.se}
        if risk is not None:
            wrong = (class_numbers(risks, targets) != class_numbers(risks, truth)).astype(float)
            again = bootstrap.counts @ wrong / len(wrong)
            found |= {
                "rce": risk.value,
                "rce_se": risk.se,
                "misclassified": 100 * float(wrong.mean()),
                "misclassified_se": 100 * float(again.std(ddof=1)),
            }
        return {name: _rounded(value) for name, value in found.items()}

    def _map(self, cell: AgentCell, heard: _Readings) -> tuple[float, float] | None:
        """The MAP estimate's error, the mean over roots, and its standard error."""
        group = self._group
        everyone = [p for p in heard.reads if all(heard.reads[p].get(r) for r in group.roots)]
        if not everyone:
            return None
        ones = np.ones(len(everyone))
        source = generator(group.seed, "bootstrap", group.template.name)
        counts = Bootstrap(ones, source).counts
        values, again = [], []
        for root in group.roots:
            truth = group.column(root)[everyone]
            off = np.abs(self._estimates(cell, heard, root, everyone) - truth)
            sizes = np.abs(truth)
            values.append(100 * float(off.sum() / sizes.sum()))
            again.append(100 * (counts @ off) / (counts @ sizes))
        return float(np.mean(values)), float(np.mean(again, axis=0).std(ddof=1))

    def _estimates(
        self, cell: AgentCell, heard: _Readings, root: RootName, patients: Sequence[int]
    ) -> Floats:
        domain = self._group.template.roots[root].domain
        fresh = cell.config == "all"
        epsilon = cell.epsilon if fresh else self._group.plan(cell)[root].epsilon
        noise = mechanism(cell.mechanism, epsilon, domain.size)
        belief = prior("informed", self._group.template.roots[root]).log_density
        seen = [heard.reads[p][root] if fresh else heard.reads[p][root][-1:] for p in patients]
        found = np.empty(len(patients))
        for length in {len(each) for each in seen}:
            chosen = [i for i, each in enumerate(seen) if len(each) == length]
            indices = np.array([[domain.nearest(v) for v in seen[i]] for i in chosen])
            found[chosen] = grid(domain)[map_estimates(noise, indices, belief)]
        return found


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, DIGITS)


def compliance(rows: Iterable[AgentRow]) -> Iterator[tuple[str, Counter[str]]]:
    """Counts by configuration, then over all: sessions, observations and what became of them."""
    whole: Counter[str] = Counter()
    by_config: dict[str, Counter[str]] = {}
    for row in rows:
        names = ("sessions", "missing", "failed_sessions", "observations", *FAITHS)
        counts = Counter({name: getattr(row, name) for name in names})
        by_config.setdefault(row.cell.config, Counter()).update(counts)
        whole.update(counts)
    yield from by_config.items()
    yield "together", whole


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionCompliance:
    """What became of the values of a session, or of several."""

    backend: str
    session: str
    fetched: int
    faith: Counter[str]

    @property
    def exact(self) -> bool:
        """Whether every value was said as a tool gave it."""
        return self.faith["exact"] == self.faith.total()


def session_compliance(record: Mapping[str, Any]) -> SessionCompliance:
    """A session's counts."""
    return SessionCompliance(
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


def common(sessions: Sequence[SessionCompliance]) -> list[SessionCompliance]:
    """Those sessions that every backend held."""
    by_backend: dict[str, set[str]] = {}
    for one in sessions:
        by_backend.setdefault(one.backend, set()).add(one.session)
    shared = set.intersection(*by_backend.values()) if by_backend else set()
    return [one for one in sessions if one.session in shared]


def compliance_sheets(records: Iterable[Mapping[str, Any]]) -> tuple[Sheet, ...]:
    """Backends beside each other, where there are several, and failures as they were."""
    sessions: list[SessionCompliance] = []
    failures: list[tuple[str, ...]] = []
    shown: Counter[tuple[str, str]] = Counter()
    for record in records:
        sessions.append(session_compliance(record))
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


def _beside(title: str, sessions: Iterable[SessionCompliance]) -> Sheet:
    groups: dict[str, list[SessionCompliance]] = {}
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
