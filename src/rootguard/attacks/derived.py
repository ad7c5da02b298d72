"""Derived questions: nonlinear functions of one root, each noised on its own range.

By Theorem 2 fresh noise on y = f(x) protects x only at eps * |f'(x)| * D_x / D_y where x is. The
textbook functions 1/x, log x and x**2 are steep in one part of the domain and flat in another. The
searched family is steep where people are: Hill curves 1 / (1 + (c/x)**n), logistic curves
1 / (1 + exp((c-x)/w)), and folds |x - c| and ||x - c| - h|, which are steep everywhere and leave
it to the other answers which side was meant. They are picked greedily for the population. Neither
the search nor the questions depend on answers; `zoom` is the adversary that adapts.
"""

from collections.abc import Iterator, Sequence
from statistics import NormalDist

import numpy as np

from rootguard.accounting import slopes
from rootguard.attacks.oracle import Question, Transcript, direct, grid, parsed
from rootguard.attacks.posterior import believe
from rootguard.errors import DomainError
from rootguard.expressions import evaluate_many
from rootguard.mechanisms.base import Floats
from rootguard.template import Root
from rootguard.values import Domain, RootName

TEXTBOOK = ("1 / {x}", "log({x})", "{x}**2")
"""What any service might ask for."""
_STEEPNESSES = (2, 4, 8)
_WIDTHS = (0.25, 0.5, 1.0)
_CENTRES = (0.1, 0.3, 0.5, 0.7, 0.9)
_FOLDS = (0.36, 0.43, 0.5, 0.57, 0.64)
_QUANTILES = tuple((i + 0.5) / 40 for i in range(40))


def repeat(transcript: Transcript, root: RootName, queries: int) -> Iterator[Floats]:
    """The estimates after each query of an adversary that asks for the root itself each time."""
    yield from interrogate(transcript, root, [direct(root, transcript.terms.domain(root))], queries)


def derived(transcript: Transcript, root: RootName, queries: int) -> Iterator[Floats]:
    """The root itself once, then the searched functions of it in turn."""
    searched = search(transcript.terms.template.roots[root], count=max(min(queries - 1, 6), 1))
    yield from interrogate(transcript, root, searched, queries)


def interrogate(
    transcript: Transcript, root: RootName, questions: Sequence[Question], queries: int
) -> Iterator[Floats]:
    """The posterior median after the root itself and after each of the questions, in turn."""
    transcript.ask(direct(root, transcript.terms.domain(root)))
    yield believe(transcript, root).median
    for number in range(queries - 1):
        transcript.ask(questions[number % len(questions)])
        yield believe(transcript, root).median


def function_of(root: Root, formula: str) -> Question | None:
    """A function of a root with its range as a public domain; None where it has no finite one."""
    values = evaluate_many(parsed(formula), {root.name: grid(root.domain)})
    if not np.isfinite(values).all():
        return None
    try:
        domain = Domain(lower=float(values.min()), upper=float(values.max()), size=root.domain.size)
    except DomainError:
        return None
    return Question(formula=formula, domain=domain)


def textbook(root: Root) -> list[Question]:
    """1/x, log x and x**2, those of them that are defined on the whole domain."""
    found = (function_of(root, form.format(x=root.name)) for form in TEXTBOOK)
    return [question for question in found if question is not None]


def amplification(root: Root, question: Question) -> float:
    """Theorem 2's factor: the largest slope over the domain, in grid steps per grid step."""
    return max(
        (s.amplification for s in slopes(parsed(question.formula), {root.name: root.domain})),
        default=0.0,
    )


def local_amplification(root: Root, question: Question, at: Floats) -> Floats:
    """The slope at given values, in grid steps per grid step, by central differences."""
    step = root.domain.width / 1e5
    low = np.clip(at - step, root.domain.lower, root.domain.upper)
    high = np.clip(at + step, root.domain.lower, root.domain.upper)
    below, above = (evaluate_many(parsed(question.formula), {root.name: v}) for v in (low, high))
    rise = np.abs(above - below) / question.domain.width
    found: Floats = rise / ((high - low) / root.domain.width)
    return found


def search(root: Root, *, count: int) -> list[Question]:
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
    chosen: list[Question] = []
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
