"""Calibrated releases: one profile beside opening its session, and batches beside a plain loop.

One profile is what a session does once, when it is opened: a `Calibration` of its own and one
release; what is public about the population has been read before. A batch is many people at the
same levels, with what their noised values have in common looked up. The plain loop is what one
would write first: for each record the whole joint posterior on a coarser grid, and the weighted
median of the target. It is spared the released roots.
"""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from functools import cache, partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.answers import PATIENT
from benchmarks.measure import Case, Contender
from rootguard import Guard, MemoryStore, Store, load_template, open_store
from rootguard.advice.people import synthetic_cohort
from rootguard.advice.seeds import generator
from rootguard.calibration import Calibration, Level, make_plan
from rootguard.calibration.priors import latent_correlation, marginal
from rootguard.expressions import evaluate_many
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.values import RootName, Sanitized

_EPSILON = Fraction("0.05")
_RECORDS = 8192
_COARSE = {"homa": 8, "fib4": 50}
"""The loop takes every so many-th grid point of each root: 15,625 and 160,000 joint points."""
_PROCESSES = 2


def calibration() -> Iterator[Case]:
    yield from _one_profile()
    for name in _COARSE:
        calibrated, noised = _prepared(name)
        batch = Contender(
            name=f"release_many, {name}, one process",
            call=partial(calibrated.release_many, noised),
            units=_RECORDS,
        )
        loop = Contender(name=f"a loop over joint posteriors, {name}", call=_loop(name))
        yield Case(ours=batch, theirs=loop, rate=True, aim=50)
        with ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn")) as pool:
            both = Contender(
                name=f"release_many, {name}, {_PROCESSES} processes",
                call=partial(_in_parallel, pool, name),
                units=_PROCESSES * _RECORDS,
            )
            yield Case(ours=both, theirs=batch, rate=True, clock="wall")


def _one_profile() -> Iterator[Case]:
    template = load_template("fib4")
    noised = {
        share.root: Sanitized(
            root=share.root,
            index=share.domain.nearest(PATIENT[share.root]),
            domain=share.domain,
            epsilon=share.epsilon,
            mechanism="geometric",
        )
        for share in make_plan(template, Fraction("0.9")).shares
    }
    levels = {root: Level.of(value) for root, value in noised.items()}
    ours = Contender(
        name="calibrating one profile, fib4",
        call=lambda: Calibration(template, levels).release(noised),
    )
    people = count()

    def opening(store: Store) -> Callable[[], object]:
        return lambda: Guard.open(
            template, values=PATIENT, budget="0.9", store=store, principal=f"p{next(people)}"
        )

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = open_store(f"sqlite:///{folder / 'vault.sqlite3'}", key=bytes(32), create=True)
        stack.callback(file.close)
        for where, store in (("memory", MemoryStore()), ("SQLite", file)):
            theirs = Contender(name=f"opening its session, {where}", call=opening(store))
            yield Case(ours=ours, theirs=theirs)


@cache
def _prepared(name: str) -> tuple[Calibration, dict[RootName, Indices]]:
    """A calibration that has met its people, and the people."""
    template = load_template(name)
    plan = make_plan(template, _EPSILON * (2 * len(Graph.of(template).roots) + 1))
    people = synthetic_cohort(template, size=_RECORDS, seed=1).columns
    levels, noised = {}, {}
    for share in plan.shares:
        level = Level(domain=share.domain, mechanism=plan.mechanism, epsilon=share.epsilon)
        true = np.array([share.domain.nearest(value) for value in people[share.root].tolist()])
        noise = mechanism(level.mechanism, level.epsilon, level.domain.size)
        levels[share.root] = level
        noised[share.root] = noise.draw_many(true, generator(0, name, share.root))
    made = Calibration(template, levels)
    made.release_many(noised)
    return made, noised


def _release_all(name: str) -> float:
    made, noised = _prepared(name)
    return float(next(iter(made.release_many(noised).values()))[0])


def _in_parallel(pool: ProcessPoolExecutor, name: str) -> list[float]:
    """Each process has read its records; results stay there but for one number."""
    return list(pool.map(_release_all, [name] * _PROCESSES))


def _loop(name: str) -> Callable[[], float]:
    """Calibrates one record after another, each call the next."""
    calibrated, noised = _prepared(name)
    template, every = calibrated.template, _COARSE[name]
    roots = calibrated.roots
    plan = make_plan(template, _EPSILON * (2 * len(roots) + 1))
    priors = [marginal(template.roots[root], template.roots[root].domain) for root in roots]
    ties = np.linalg.inv(latent_correlation(template, roots)) - np.eye(len(roots))
    indices = [np.arange(0, prior.mass.size, every) for prior in priors]
    formula = Graph.of(template).in_roots(template.target.formula)
    turns = count()

    def once() -> float:
        person = next(turns) % _RECORDS
        beliefs: list[Floats] = []
        for root, prior, index in zip(roots, priors, indices, strict=True):
            share = plan[root]
            noise = mechanism(plan.mechanism, share.epsilon, share.domain.size)
            seen = np.exp(noise.log_pmf(index, noised[root][person]))
            beliefs.append(prior.mass[index] * seen)
        meshes = [m.ravel() for m in np.meshgrid(*indices, indexing="ij")]
        scores = np.array([p.scores[m] for p, m in zip(priors, meshes, strict=True)])
        weights = np.exp(-0.5 * (scores * (ties @ scores)).sum(axis=0))
        for belief, mesh in zip(beliefs, meshes, strict=True):
            weights *= belief[mesh // every]
        columns = {
            str(root): prior.points[mesh]
            for root, prior, mesh in zip(roots, priors, meshes, strict=True)
        }
        targets = evaluate_many(formula, columns)
        order = np.argsort(targets)
        below = np.cumsum(weights[order])
        return float(targets[order][np.searchsorted(below, below[-1] / 2)])

    return once
