"""How to choose epsilon: what a budget buys a person, and what it leaves an adversary.

For one template and each epsilon: the expected error of the target and of its risk class, how many
people of each class are found, and the error of an adversary who knows the mechanism and the
population and has asked in every turn. Everything is computed on synthetic people drawn from the
template's public figures, with the same code as the studies; nobody's own values are needed, and
none could be given.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import log2
from pathlib import Path
from typing import Any

import numpy as np

from rootguard import __version__
from rootguard.accounting import advantage_bound, bound_with_misses
from rootguard.advice.drawing import COLOURS, LABELS, MARKERS, PAGE, legend_above, new_figure, style
from rootguard.advice.people import Cohort, synthetic_cohort
from rootguard.advice.seeds import generator
from rootguard.advice.utility import (
    CALIBRATED,
    CONFIGURATIONS,
    TURNS,
    Configuration,
    Trial,
    Turns,
    UtilityCell,
    class_error,
    class_recalls,
    has_plan,
    target_error,
    wrong_class_rate,
)
from rootguard.allocation import Plan
from rootguard.attacks.belief import informed_prior
from rootguard.attacks.map import map_path
from rootguard.attacks.oracle import grid, snap
from rootguard.calibration.plan_cache import keep, kept
from rootguard.errors import RootGuardError
from rootguard.graph import Graph
from rootguard.mechanisms.base import Floats
from rootguard.template import Template
from rootguard.values import MechanismName

# Calibrated releases: one draw each of so many people. A target's error deviates from seed to seed
# by 2.5 to 5.5 % of itself, as with 400 people of five draws each, which take twice as long: people
# differ more than their draws. The others are quick: a wrong-class rate of so many deviates by 0.15
# to 0.3 points.
PEOPLE, REPEATS = 1000, 1
WATCHED = 400
"""People whose roots the adversary guesses."""
CENSUS = 20_000
"""People of every release that is not calibrated."""
# More budget is worth having while doubling it improves the target by this many points.
WORTH = 1.0
# Grid steps between two people whom an adversary tries to tell apart: 1 % of a root's range.
NEAR = 10
# Those of the utility study, up to 1.
EPSILONS = tuple(
    Fraction(text) for text in ("0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1")
)
_DIGITS = 6  # decimals of percent that are kept, as in the studies


@dataclass(frozen=True, kw_only=True, slots=True)
class Tradeoff:
    """What one configuration gives at one epsilon. Errors in percent."""

    config: Configuration
    epsilon: Fraction
    budget: Fraction
    target_error: float
    risk_error: float | None
    """RCE: wrong classes, each weighted by how far off it is."""
    wrong_class_rate: float | None
    """Of all people, how many are put in another class: a plain count."""
    adversary_error: float
    """How far an adversary's best guesses are from the roots, on average over roots: MAP, after
    `answers` answers about each root."""
    answers: int
    """How many independent answers it has about each root: one under RootGuard, whatever is
    asked."""
    advantage: float
    """The most any adversary can gain in telling apart two people who differ by 1 % in each root;
    for independent noise, after all turns."""
    found: Mapping[str, float | None]
    """By risk class: of the people truly in it, the percent released in it; None if nobody is."""

    def record(self) -> dict[str, object]:
        """For a program."""
        exact = {f.name: getattr(self, f.name) for f in fields(self)}
        return exact | {"epsilon": float(self.epsilon), "budget": float(self.budget)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Everything that is said about a template."""

    template: Template
    mechanism: MechanismName
    turns: int
    tradeoffs: tuple[Tradeoff, ...]
    median_error: float
    """The target's error when everybody is answered with the population's median: no privacy."""

    def of(self, config: Configuration) -> tuple[Tradeoff, ...]:
        """One configuration, by rising epsilon."""
        found = [tradeoff for tradeoff in self.tradeoffs if tradeoff.config == config]
        return tuple(sorted(found, key=lambda tradeoff: tradeoff.epsilon))

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """Which there are, in the usual order."""
        present = {tradeoff.config for tradeoff in self.tradeoffs}
        return tuple(config for config in CONFIGURATIONS if config in present)

    def enough(self, config: Configuration) -> Tradeoff | None:
        """From here on, twice the budget improves the target by less than a point."""
        path = self.of(config)
        for here, there in pairwise(path):
            gain = (here.target_error - there.target_error) / log2(there.epsilon / here.epsilon)
            if gain < WORTH:
                return here
        return None


def explain(
    template: Template,
    *,
    mechanism_name: MechanismName = "geometric",
    turns: Turns = "2k+1",
    epsilons: Sequence[Fraction] = EPSILONS,
    configurations: Sequence[Configuration] = CONFIGURATIONS,
    people: int = PEOPLE,
    repeats: int = REPEATS,
    census: int = CENSUS,
    seed: int = 0,
    progress: Callable[[], None] = lambda: None,
) -> Explanation:
    """Measure every configuration at every epsilon on synthetic people."""
    cohort = synthetic_cohort(template, size=people, seed=seed)
    trial = Trial(template, cohort, seed=seed, repeats=repeats)
    whole = synthetic_cohort(template, size=census, seed=seed)
    counted = Trial(template, whole, seed=seed, repeats=1)
    watched = synthetic_cohort(template, size=min(people, WATCHED), seed=seed)
    adversary = _Adversary(template, watched, seed)
    found = []
    for epsilon, config in product(epsilons, configurations):
        if not has_plan(config, mechanism_name):
            continue
        cell = UtilityCell(
            budget=turns,
            epsilon=epsilon,
            template=template.name,
            mechanism=mechanism_name,
            config=config,
        )
        one = _tradeoff(trial if config in CALIBRATED else counted, cell, adversary)
        progress()
        if one is not None:
            found.append(one)
    return Explanation(
        template=template,
        mechanism=mechanism_name,
        turns=TURNS[turns] * len(trial.roots) + 1,
        tradeoffs=tuple(found),
        median_error=_median_error(counted.truth),
    )


def explained(
    template: Template,
    *,
    mechanism_name: MechanismName = "geometric",
    turns: Turns = "2k+1",
    configurations: Sequence[Configuration] = CONFIGURATIONS,
    progress: Callable[[], None] = lambda: None,
) -> Explanation:
    """`explain` as it was found before by the same program, or found now and kept.

    Nobody's value is in it. See `plan_cache` for where it is kept, and how not to.
    """
    facts = [_program(), template.digest, mechanism_name, turns, list(configurations)]
    name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    found = _read(template, kept(_KIND, name))
    if found is None:
        found = explain(
            template,
            mechanism_name=mechanism_name,
            turns=turns,
            configurations=configurations,
            progress=progress,
        )
        keep(_KIND, name, _written(found))
    return found


_KIND = "explanations"
_EXACT = ("epsilon", "budget")


@cache
def _program() -> str:
    """What tells this program from another, or from itself before it was changed."""
    folder = Path(__file__).parents[1]
    files = sorted(each for each in folder.rglob("*.py"))
    stamps = [(str(each.relative_to(folder)), each.stat().st_mtime_ns) for each in files]
    return hashlib.sha256(json.dumps([__version__, np.__version__, stamps]).encode()).hexdigest()


def _written(found: Explanation) -> dict[str, object]:
    rows = [
        {f.name: getattr(each, f.name) for f in fields(each)}
        | {name: str(getattr(each, name)) for name in _EXACT}
        for each in found.tradeoffs
    ]
    whole = {f.name: getattr(found, f.name) for f in fields(found) if f.name != "template"}
    return whole | {"tradeoffs": rows}


def _read(template: Template, content: object) -> Explanation | None:
    """What was kept; None if it is not of this making."""
    try:
        given: dict[str, Any] = dict(content)  # type: ignore[call-overload]
        rows = [
            Tradeoff(**row | {name: Fraction(row[name]) for name in _EXACT})
            for row in given.pop("tradeoffs")
        ]
        return Explanation(template=template, tradeoffs=tuple(rows), **given)
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def _median_error(truth: Floats) -> float:
    return 100 * float(np.abs(truth - np.median(truth)).sum() / np.abs(truth).sum())


def _tradeoff(trial: Trial, cell: UtilityCell, adversary: "_Adversary") -> Tradeoff | None:
    """One configuration at one epsilon; None where it cannot be planned or has no target."""
    try:
        plan = trial.plan(cell)
        released = trial.released_targets(cell)
    except (RootGuardError, ArithmeticError, ValueError):
        return None
    if trial.fault or np.isnan(released).any():
        return None
    turns = TURNS[cell.budget] * len(plan.shares) + 1
    seen = TURNS[cell.budget] + 1 if cell.config == "all" else 1
    epsilons = {str(share.root): share.epsilon * seen for share in plan.shares}
    risk = class_error(released, trial.truth, trial.template.risk)
    return Tradeoff(
        config=cell.config,
        epsilon=cell.epsilon,
        budget=cell.epsilon * turns,
        target_error=round(target_error(released, trial.truth), _DIGITS),
        risk_error=None if risk is None else round(risk, _DIGITS),
        wrong_class_rate=wrong_class_rate(released, trial.truth, trial.template.risk),
        adversary_error=adversary.error(cell, plan, seen),
        answers=seen,
        advantage=advantage_bound(dict.fromkeys(epsilons, NEAR), epsilons),
        found={
            label: None if share is None else round(share, _DIGITS)
            for label, share in class_recalls(released, trial.truth, trial.template.risk).items()
        },
    )


class _Adversary:
    """Who watches these people and guesses their roots: the paper's MAP with its prior."""

    def __init__(self, template: Template, cohort: Cohort, seed: int) -> None:
        self._template = template
        self._seed = seed
        self._found: dict[tuple[Fraction, str], float] = {}
        self._truth = {r: np.asarray(cohort.columns[r], float) for r in Graph.of(template).roots}

    def error(self, cell: UtilityCell, plan: Plan, seen: int) -> float:
        """The mean error over roots, in percent, after so many answers about each root."""
        # Who inverts the calibration has the noised roots back: no more, so the same draws.
        drawn = "opt" if cell.config == "calibrated" else cell.config
        if (cell.epsilon, drawn) not in self._found:
            self._found[cell.epsilon, drawn] = self._error(cell.epsilon, drawn, plan, seen)
        return self._found[cell.epsilon, drawn]

    def _error(self, epsilon: Fraction, drawn: str, plan: Plan, seen: int) -> float:
        errors = []
        for share in plan.shares:
            root = self._template.roots[share.root]
            truth = self._truth[share.root]
            source = generator(self._seed, "explain", epsilon, drawn, share.root)
            noise = plan.noise(share.root)
            snapped = snap(share.domain, truth)
            answers = np.column_stack([noise.draw_many(snapped, source) for _ in range(seen)])
            belief = [informed_prior(root).log_density]
            guessed = grid(share.domain)[map_path(noise, answers, (seen,), belief)[0, 0]]
            errors.append(100 * float(np.abs(guessed - truth).sum() / np.abs(truth).sum()))
        return sum(errors) / len(errors)


def with_misses(
    tradeoffs: Iterable[Tradeoff], *, miss_rate: float, mentions: int
) -> Mapping[Fraction, float]:
    """The advantage bound by epsilon when a detector misses mentions at this rate."""
    return {
        tradeoff.epsilon: bound_with_misses(tradeoff.advantage, miss_rate, mentions)
        for tradeoff in tradeoffs
    }


def draw(found: Explanation, path: Path) -> None:
    """Three panels over epsilon, a line per configuration; the file's ending says the format."""
    panels = [
        ("target error, %", "target_error"),
        ("adversary's error on roots, %", "adversary_error"),
    ]
    if found.template.risk:
        panels.insert(1, ("risk-class error, %", "risk_error"))
    with style():
        figure, axes = new_figure(PAGE, 2.6, (1, len(panels)), synthetic=True)
        for axis, (label, field) in zip(axes, panels, strict=True):
            for config in found.configurations:
                path_of = found.of(config)
                axis.plot(
                    [float(each.epsilon) for each in path_of],
                    [getattr(each, field) for each in path_of],
                    color=COLOURS[config],
                    marker=MARKERS[config],
                    label=LABELS[config],
                )
            axis.set_xscale("log")
            axis.set_xlabel("epsilon per turn")
            axis.set_ylabel(label)
            if field == "target_error":
                axis.axhline(found.median_error, color="#888888", linestyle=":", linewidth=0.9)
                axis.set_yscale("log")
        legend_above(figure, axes[0], len(found.configurations))
        figure.set_layout_engine("constrained")
        figure.savefig(path, dpi=200)
