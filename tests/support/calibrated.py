"""What the calibration tests share: small templates, levels, and people who were noised."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from rootguard.advice.people import synthetic_cohort
from rootguard.advice.seeds import generator
from rootguard.allocation import Plan
from rootguard.calibration import Level
from rootguard.calibration.priors import UNTIED, latent_correlation, marginal
from rootguard.expressions import evaluate_many
from rootguard.graph import Graph
from rootguard.mechanisms import MECHANISMS, mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Template, parse_template
from rootguard.values import Domain, MechanismName, RootName

NAMES: tuple[MechanismName, ...] = tuple(MECHANISMS)
Columns = Mapping[RootName, Floats]
Noised = dict[RootName, Indices]


def toy(
    roots: Mapping[str, str],
    formula: str,
    *,
    grid: int = 6,
    bounds: tuple[float, float] = (1.0, 6.0),
    limit: float | None = None,
    covariance: str = "",
) -> Template:
    """A template whose roots share bounds and grid; each root's figures are given as TOML lines."""
    lines = ['name = "toy"', 'title = "Toy"', ""]
    for name, figures in roots.items():
        lines += [f"[roots.{name}]", f"lower = {bounds[0]}", f"upper = {bounds[1]}"]
        lines += [f"grid = {grid}", figures, ""]
    lines += ["[target]", 'name = "out"', f'formula = "{formula}"', ""]
    if limit is not None:
        lines += ["[[risk]]", 'label = "low"', f"below = {limit}", ""]
        lines += ["[[risk]]", 'label = "high"', ""]
    if covariance:
        lines += ["[population]", f"roots = {list(roots)}", f"covariance = {covariance}"]
        lines += ['source = "made up"']
    return parse_template("\n".join(lines), file="toy.toml")


NORMAL = 'mean = 3.0\nsd = 1.2\nshape = "normal"'
LOGNORMAL = 'mean = 2.5\nsd = 1.3\nshape = "lognormal"'
UNIFORM = 'mean = 3.5\nsd = 1.4\nshape = "uniform"'


def levels_at(template: Template, name: MechanismName, *epsilons: str) -> dict[RootName, Level]:
    """The same mechanism for every root; one epsilon for all, or one each."""
    roots = Graph.of(template).roots
    each = epsilons * len(roots) if len(epsilons) == 1 else epsilons
    return {
        root: Level(domain=template.roots[root].domain, mechanism=name, epsilon=Fraction(epsilon))
        for root, epsilon in zip(roots, each, strict=True)
    }


def levels_of(plan: Plan) -> dict[RootName, Level]:
    return {
        share.root: Level(domain=share.domain, mechanism=plan.mechanism, epsilon=share.epsilon)
        for share in plan.shares
    }


def every_output(template: Template) -> Noised:
    """All combinations of indices, the last root fastest."""
    roots = Graph.of(template).roots
    sizes = [template.roots[root].domain.size for root in roots]
    return dict(zip(roots, np.indices(sizes).reshape(len(sizes), -1), strict=True))


def joint_noise(levels: Mapping[RootName, Level]) -> Floats:
    """P(noised | true) for every combination of true indices by every one of noised indices."""
    table: Floats = np.ones((1, 1))
    for level in levels.values():
        noise = mechanism(level.mechanism, level.epsilon, level.domain.size)
        points = np.arange(noise.size)
        own = np.exp(noise.log_pmf(points[:, None], points[None, :]))
        table = np.asarray(np.kron(table, own), float)
    return table


def grid_points(domain: Domain) -> Floats:
    return np.array([domain.value(i) for i in range(domain.size)])


def snapped(template: Template, columns: Columns) -> Noised:
    return {
        root: np.array([template.roots[root].domain.nearest(v) for v in column.tolist()])
        for root, column in columns.items()
    }


def drawn(levels: Mapping[RootName, Level], true: Noised, *address: str | int) -> Noised:
    """One seeded draw per person and root, from a stream of this test's own."""
    return {
        root: mechanism(level.mechanism, level.epsilon, level.domain.size).draw_many(
            true[root], generator(6, root, *address)
        )
        for root, level in levels.items()
    }


def synthetic(template: Template, size: int, seed: int) -> Noised:
    """Grid indices of synthetic people, who do not come from the calibration's own prior."""
    return snapped(template, synthetic_cohort(template, size=size, seed=seed).columns)


def values_of(levels: Mapping[RootName, Level], indices: Noised) -> dict[RootName, Floats]:
    return {root: grid_points(level.domain)[indices[root]] for root, level in levels.items()}


def targets(template: Template, columns: Columns) -> Floats:
    formula = Graph.of(template).in_roots(template.target.formula)
    return evaluate_many(formula, {str(root): column for root, column in columns.items()})


def error(found: Floats, truth: Floats) -> float:
    """The mean absolute error where both have a value."""
    return float(np.nanmean(np.abs(found - truth)))


EPSILONS = ("0.4", "0.7")
PRODUCT = toy(
    {"a": NORMAL, "b": LOGNORMAL},
    "a * b",
    limit=12.0,
    covariance="[[1.44, 0.7], [0.7, 1.69]]",
)


SMALL = {
    "product": toy(
        {"a": NORMAL, "b": LOGNORMAL}, "a * b", grid=40, covariance="[[1.44, 0.9], [0.9, 1.69]]"
    ),
    "ratio": toy({"a": UNIFORM, "b": NORMAL}, "a / b", grid=40),
    "difference": toy(
        {"a": NORMAL, "b": NORMAL}, "a - b", grid=40, covariance="[[1.44, -0.9], [-0.9, 1.44]]"
    ),
}
"""Two roots on small grids, tied or not."""


def joint_prior(template: Template) -> Floats:
    """The copula's probability of every cell of a two-root grid, by rectangles of its normal."""
    from scipy.stats import multivariate_normal  # half a second, which few tests need

    roots = Graph.of(template).roots
    masses = [marginal(template.roots[root], template.roots[root].domain).mass for root in roots]
    latent = latent_correlation(template, roots)
    if latent[0, 1] == 0:
        return np.outer(*masses).ravel()
    edges = [
        np.concatenate([[-9.0], ndtri(np.clip(np.cumsum(mass)[:-1], 0, 1 - 1e-15)), [9.0]])
        for mass in masses
    ]
    corners = np.stack(np.meshgrid(*edges, indexing="ij"), axis=-1)
    below = multivariate_normal(np.zeros(2), latent).cdf(corners.reshape(-1, 2))
    cells = np.diff(np.diff(below.reshape(corners.shape[:2]), axis=0), axis=1)
    cells /= cells.sum()
    return np.asarray((1 - UNTIED) * cells.ravel() + UNTIED * np.outer(*masses).ravel(), float)
