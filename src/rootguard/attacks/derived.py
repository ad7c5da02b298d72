"""Attacks by functions of one root, each noised on its own range: derived, pooled, and zooming.

**Derived.** By Theorem 2 fresh noise on y = f(x) protects x only at eps * |f'(x)| * D_x / D_y. The
textbook functions 1/x, log x and x**2 are steep in one part of the domain and flat in another. The
searched family is steep where people are: Hill curves 1 / (1 + (c/x)**n), logistic curves
1 / (1 + exp((c-x)/w)), and folds |x - c| and ||x - c| - h|, which are steep everywhere and leave
it to the other answers which side was meant. They are picked greedily for the population. Neither
the search nor the questions depend on answers.

**Collusion.** Several services, on several days, pool what they were told. Each asks for the root
and for a function of its own each day, so that to a stateless guard no question is a repeat within
a service's day. Fresh answers are independent: the pool holds as many factors as there were
questions. A vault answers all services on all days from one draw, and the pool holds that one.

**Zoom.** Ask where the value lies in a window around the best guess, and narrow the window.
clip((x - a) / (b - a), 0, 1) is noised on its own range [0, 1]. Its amplification (Theorem 2) is
D_x / (b - a): fresh noise of so many grid steps is that much smaller in the root's unit. Windows
follow the posterior: from its 0.5 % to its 99.5 % quantile, so that each is a few times narrower
than the one before, and an answer at an end of its window widens the next. Cached answers all
follow from one noised root, so the window moves onto that root and stays there.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice
from statistics import NormalDist

import numpy as np

from rootguard.accounting import slopes
from rootguard.attacks.belief import Belief, believe, candidates
from rootguard.attacks.oracle import Oracle, Query, QueryLog, direct, grid, parsed
from rootguard.errors import DomainError
from rootguard.expressions import evaluate_many
from rootguard.mechanisms.base import Floats
from rootguard.template import Root
from rootguard.values import Domain, RootName

TEXTBOOK = ("1 / {x}", "log({x})", "{x}**2")
"""What any service might ask for."""
# The searched family, gentle to steep, at places across the population; the search picks among
# them. Folds stay near the middle of the domain, where either side is long.
_STEEPNESSES = (2, 4, 8)
_WIDTHS = (0.25, 0.5, 1.0)
_CENTRES = (0.1, 0.3, 0.5, 0.7, 0.9)
_FOLDS = (0.36, 0.43, 0.5, 0.57, 0.64)
_QUANTILES = tuple((i + 0.5) / 40 for i in range(40))

SERVICES = 3
"""How many services collude unless told otherwise."""

TAIL = 0.005
"""Probability left out at either side of a window."""
# The mesh of a zoom: coarse over the domain, then after each answer finer where the posterior is.
# It reaches further out than a window, so that an answer at a window's end still finds candidates.
_COARSE = 257
_REFINED = 64  # points of the finer mesh
_REACH = 1e-4  # probability left out at either side of it, a fiftieth of a window's `TAIL`
_NARROWEST = 1e-9
"""No window below this share of the domain: floats near the bounds could not resolve its grid."""


def repeat(log: QueryLog, root: RootName, queries: int) -> Iterator[Floats]:
    """The estimates after each query of an adversary that asks for the root itself each time."""
    yield from interrogate(log, root, [direct(root, log.terms.domain(root))], queries)


def average(log: QueryLog, root: RootName, queries: int) -> Iterator[Floats]:
    """The likeliest answer after each query, of who asks for a root with answers each time.

    There is no window to close in on, and no function of it that says more than the answer.
    """
    for _ in range(queries):
        log.ask(direct(root, log.terms.domain(root)))
        yield believe(log, root).mode


def derived(log: QueryLog, root: RootName, queries: int) -> Iterator[Floats]:
    """The root itself once, then the searched functions of it in turn."""
    searched = search(log.terms.template.roots[root], count=max(min(queries - 1, 6), 1))
    yield from interrogate(log, root, searched, queries)


def interrogate(
    log: QueryLog, root: RootName, questions: Sequence[Query], queries: int
) -> Iterator[Floats]:
    """The posterior median after the root itself and after each of the questions, in turn."""
    log.ask(direct(root, log.terms.domain(root)))
    yield believe(log, root).median
    for number in range(queries - 1):
        log.ask(questions[number % len(questions)])
        yield believe(log, root).median


def function_of(root: Root, formula: str) -> Query | None:
    """A function of a root with its range as a public domain; None where it has no finite one."""
    values = evaluate_many(parsed(formula), {root.name: grid(root.domain)})
    if not np.isfinite(values).all():
        return None
    try:
        domain = Domain(lower=float(values.min()), upper=float(values.max()), size=root.domain.size)
    except DomainError:
        return None
    return Query(formula=formula, domain=domain)


def textbook(root: Root) -> list[Query]:
    """1/x, log x and x**2, those of them that are defined on the whole domain."""
    found = (function_of(root, form.format(x=root.name)) for form in TEXTBOOK)
    return [question for question in found if question is not None]


def amplification(root: Root, question: Query) -> float:
    """Theorem 2's factor: the largest slope over the domain, in grid steps per grid step."""
    return max(
        (s.amplification for s in slopes(parsed(question.formula), {root.name: root.domain})),
        default=0.0,
    )


def local_amplification(root: Root, question: Query, at: Floats) -> Floats:
    """The slope at given values, in grid steps per grid step, by central differences."""
    step = root.domain.width / 1e5
    low = np.clip(at - step, root.domain.lower, root.domain.upper)
    high = np.clip(at + step, root.domain.lower, root.domain.upper)
    below, above = (evaluate_many(parsed(question.formula), {root.name: v}) for v in (low, high))
    rise = np.abs(above - below) / question.domain.width
    found: Floats = rise / ((high - low) / root.domain.width)
    return found


def search(root: Root, *, count: int) -> list[Query]:
    """The functions that together tell most about a person of the population.

    Each in turn adds most to the mean, over the population, of log(sum of squared slopes): what
    the noise of all answers together shrinks by. The log keeps the rare person in view. None is
    taken twice: two folds at different places settle each other's sides.
    """
    people = population(root)
    family = [
        question
        for formula in _family(root)
        if (question := function_of(root, formula)) is not None
    ]
    gains = np.array([local_amplification(root, question, people) ** 2 for question in family])
    told = np.ones(len(people))  # the root itself was asked: slope 1 everywhere
    chosen: list[Query] = []
    for _ in range(count):
        best = int(np.log(told + gains).mean(axis=1).argmax())
        told = told + gains[best]
        gains[best] = 0.0
        chosen.append(family[best])
    return chosen


def population(root: Root) -> Floats:
    """Typical values: quantiles of the public shape, or of the domain without figures."""
    domain = root.domain
    if root.mean is None or root.sd is None or root.shape == "uniform":
        values = domain.lower + domain.width * np.array(_QUANTILES)
    elif root.shape == "lognormal":
        spread = float(np.sqrt(np.log1p((root.sd / root.mean) ** 2)))
        law = NormalDist(float(np.log(root.mean)) - spread**2 / 2, spread)
        values = np.exp([law.inv_cdf(q) for q in _QUANTILES])
    else:
        law = NormalDist(root.mean, root.sd)
        values = np.array([law.inv_cdf(q) for q in _QUANTILES])
    clipped: Floats = np.clip(values, domain.lower, domain.upper)
    return clipped


def _family(root: Root) -> Iterator[str]:
    x, domain = root.name, root.domain
    yield from (form.format(x=x) for form in TEXTBOOK)
    for share in _FOLDS:
        centre = float(f"{domain.lower + domain.width * share:.6g}")
        reach = float(f"{domain.width * max(share, 1 - share) / 2:.6g}")
        yield f"abs({x} - {centre!r})"
        yield f"abs(abs({x} - {centre!r}) - {reach!r})"
    people = population(root)
    centres = [float(f"{np.quantile(people, q):.4g}") for q in _CENTRES]
    spread = float(people.std()) or root.domain.width / 4
    for centre in centres:
        if root.domain.lower > 0:
            yield from (f"1 / (1 + ({centre!r} / {x})**{n})" for n in _STEEPNESSES)
        for share in _WIDTHS:
            # Beyond 40 widths the curve is flat in any case, and exp would leave the floats.
            width = float(f"{spread * share:.4g}")
            yield f"1 / (1 + exp(clip(({centre!r} - {x}) / {width!r}, -40, 40)))"


def pool(logs: Sequence[QueryLog]) -> QueryLog:
    """All that several services were told about the same people."""
    exchanges = chain.from_iterable(log.exchanges for log in logs)
    return QueryLog(logs[0].oracle, list(exchanges))


def visits(oracle: Oracle, root: RootName, *, services: int = SERVICES) -> list[list[Query]]:
    """What each service asks on a day: the root itself, then a function that is its own."""
    described = oracle.terms.template.roots[root]
    own = [*textbook(described), *search(described, count=services)][:services]
    return [[direct(root, described.domain), question] for question in own]


def collude(
    log: QueryLog, root: RootName, queries: int, *, services: int = SERVICES
) -> Iterator[Floats]:
    """The pool's estimate after each answer, day by day, service by service.

    Each service asks on its own; the log is the pool of what they were told.
    """
    plans = visits(log.oracle, root, services=services)
    day = [(number, question) for number, plan in enumerate(plans) for question in plan]
    told = [QueryLog(log.oracle) for _ in plans]
    for service, question in islice(cycle(day), queries):
        log.add(told[service].ask(question))
        yield believe(log, root).median


def zoom(log: QueryLog, root: RootName, queries: int) -> Iterator[Floats]:
    """The estimates after each query: the root itself first, then windows."""
    domain = log.terms.domain(root)
    log.ask(direct(root, domain))
    belief = _update(log, root, _start(log, root))
    yield belief.median
    for _ in range(queries - 1):
        log.ask(window(root, domain, belief))
        belief = _update(log, root, belief.mesh)
        yield belief.median


def window(root: RootName, domain: Domain, belief: Belief) -> Query:
    """Ask where between the belief's outer quantiles, as a share of the way."""
    low, high = belief.quantile(TAIL), belief.quantile(1 - TAIL)
    width = np.maximum(high - low, _NARROWEST * domain.width)
    return Query(
        formula=f"clip(({root} - a_) / w_, 0, 1)",
        domain=Domain(lower=0.0, upper=1.0, size=domain.size),
        parameters={"a_": low, "w_": width},
    )


def _start(log: QueryLog, root: RootName) -> Floats:
    if log.terms.cached:
        return candidates(log, root)
    domain = log.terms.domain(root)
    mesh = np.linspace(domain.lower, domain.upper, _COARSE)
    return np.tile(mesh, (log.people, 1))


def _update(log: QueryLog, root: RootName, mesh: Floats) -> Belief:
    """The posterior, on a mesh that is made finer where the posterior is."""
    belief = Belief.from_scores(mesh, log.log_likelihood({root: mesh}))
    if log.terms.cached:
        return belief
    for _ in range(2):
        low, high = belief.quantile(_REACH), belief.quantile(1 - _REACH)
        shares = np.linspace(0, 1, _REFINED)
        finer = low[:, None] + (high - low)[:, None] * shares
        mesh = np.sort(np.concatenate([mesh, finer], axis=1), axis=1)
        belief = Belief.from_scores(mesh, log.log_likelihood({root: mesh}))
    return belief
