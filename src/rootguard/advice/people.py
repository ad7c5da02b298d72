"""Who a measurement is about: one column of values per root, one row per person.

People can be drawn from the public population figures in a template, so that everything runs
offline on a fresh machine. They are synthetic, and every cohort says which kind it is.

A cohort holds true values in the open: published or synthetic people only, never a user's.
"""

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import NormalDist
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rootguard.errors import CohortError
from rootguard.graph import Graph
from rootguard.template import Root, Template
from rootguard.values import RootName

Column = NDArray[np.float64]

PAPER_TEMPLATES = ("anemia", "aip", "conicity", "vascular", "fib4", "tyg", "homa", "nlr")
SYNTHETIC = "synthetic, from the template's population figures"
MAX_PEOPLE = 1_000_000
"""Values go through a quantile function one by one: a million people of four roots take 15 s."""
FORMAT = "rootguard-cohort-1"
"""Goes into digests and files, so that neither is mistaken for one of another making."""
_MAX_LATENT = 0.995
"""A correlation of 1 would make two roots one, and the matrix of them singular."""
_DIGITS = 6
"""Significant digits of a drawn value: more than any survey has."""
_STANDARD = NormalDist()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cohort:
    """People for one template. `digest` tells two cohorts apart; the columns are read-only."""

    template: str
    columns: Mapping[RootName, Column]
    synthetic: bool
    source: str
    digest: str
    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        columns = {name: np.array(column, dtype=float) for name, column in self.columns.items()}
        for column in columns.values():
            column.flags.writeable = False
        object.__setattr__(self, "columns", MappingProxyType(columns))

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[object, ...]:  # a mapping proxy cannot be pickled
        content = {f.name: getattr(self, f.name) for f in fields(self)}
        return functools.partial(Cohort, **content | {"columns": dict(self.columns)}), ()


def synthetic_cohort(template: Template, *, size: int = 200, seed: int = 0) -> Cohort:
    """People drawn from a template's population figures; the same for the same name, size and seed.

    Each root follows its shape, cut to its bounds: log-normal or normal with the template's mean
    and sd as the moments before the cut, else uniform. Roots move together by a Gaussian copula
    whose correlations are the latent ones that give the population's Pearson correlations exactly
    before the cut (see `latent_correlation`). Values keep six significant digits. A longer cohort
    begins with the shorter one.
    """
    if not 1 <= size <= MAX_PEOPLE or seed < 0:
        place, remedy = "size and seed", f"ask for 1 to {MAX_PEOPLE} people and a seed of 0 or more"
        raise CohortError(template.name, place, "these make no cohort", remedy)
    roots = [template.roots[name] for name in Graph.of(template).roots]
    key = hashlib.sha256(f"{FORMAT} {template.name.lower()}".encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(key[:8], "big")])
    latent = rng.standard_normal((size, len(roots))) @ _mixing(template, roots).T
    columns = {root.name: _through_margin(root, latent[:, i]) for i, root in enumerate(roots)}
    ids = tuple(str(i) for i in range(1, size + 1))
    return make_cohort(template, columns, ids, synthetic=True, source=SYNTHETIC)


def latent_correlation(one: Root, other: Root, pearson: float) -> float:
    """The correlation rho of two standard normals whose images have the Pearson correlation r.

    Exact for margins before they are cut to bounds, with s² = ln(1 + (sd/mean)²) of a log-normal
    and w = sqrt(exp(s²) - 1); held within ±0.995, since no rho gives an r out of reach:

    - normal, normal: rho = r
    - normal, log-normal: rho = r w / s
    - log-normal, log-normal: rho = ln(1 + r w1 w2) / (s1 s2)
    - uniform, normal: rho = r sqrt(pi / 3)
    - uniform, uniform: rho = 2 sin(pi r / 6)
    - uniform, log-normal: rho = sqrt(2)/s · quantile(1/2 + r w / sqrt(12))

    The second and fourth follow from Stein's lemma, the third from the moments of a bivariate
    log-normal, the fifth is Pearson's (1907), the last from E[e^(sZ) Φ(Y)] = e^(s²/2) Φ(rho s/√2).
    """
    first, second = sorted((one, other), key=lambda root: root.shape)  # lognormal, normal, uniform
    match first.shape, second.shape:
        case "lognormal", "lognormal":
            (s1, w1), (s2, w2) = _spread(first), _spread(second)
            rho = math.log(max(1 + pearson * w1 * w2, 1e-300)) / (s1 * s2)
        case "lognormal", "normal":
            s, w = _spread(first)
            rho = pearson * w / s
        case "lognormal", "uniform":
            s, w = _spread(first)
            p = min(max(0.5 + pearson * w / math.sqrt(12), 1e-12), 1 - 1e-12)
            rho = math.sqrt(2) / s * _STANDARD.inv_cdf(p)
        case "normal", "uniform":
            rho = pearson * math.sqrt(math.pi / 3)
        case "uniform", "uniform":
            rho = 2 * math.sin(math.pi * pearson / 6)
        case _:
            rho = pearson
    return min(max(rho, -_MAX_LATENT), _MAX_LATENT)


def make_cohort(
    template: Template,
    columns: Mapping[RootName, Column],
    ids: tuple[str, ...],
    *,
    synthetic: bool,
    source: str,
) -> Cohort:
    """A cohort of columns already checked."""
    name = template.name.lower()
    content = hashlib.sha256(json.dumps([FORMAT, name, list(columns), list(ids)]).encode())
    for column in columns.values():
        content.update((column + 0.0).astype("<f8").tobytes())  # -0.0 and 0.0 are one value
    return Cohort(
        template=name,
        columns=columns,
        synthetic=synthetic,
        source=source,
        digest=content.hexdigest(),
        ids=ids,
    )


def _spread(root: Root) -> tuple[float, float]:
    """(s, w) of a log-normal root: s² = ln(1 + (sd/mean)²), w² = exp(s²) - 1 = (sd/mean)²."""
    ratio = (root.sd or 0.0) / (root.mean or 1.0)
    return math.sqrt(math.log1p(ratio**2)), ratio


def _mixing(template: Template, roots: Sequence[Root]) -> NDArray[np.float64]:
    """L with L·Lᵀ = the latent correlations, shrunk towards none until it exists."""
    latent = np.eye(len(roots))
    population = template.population
    listed = () if population is None else population.roots
    covariance = np.array(population.covariance) if population is not None else np.zeros((0, 0))
    for i, one in enumerate(roots):
        for j, other in enumerate(roots[:i]):
            if one.name not in listed or other.name not in listed:
                continue
            a, b = listed.index(one.name), listed.index(other.name)
            scale = math.sqrt(covariance[a, a] * covariance[b, b])  # its own variances, same people
            if scale > 0:
                pearson = min(max(covariance[a, b] / scale, -1.0), 1.0)
                latent[i, j] = latent[j, i] = latent_correlation(one, other, pearson)
    # Margins of different shapes can ask for correlations that no three normals have together.
    lowest = float(np.linalg.eigvalsh(latent)[0])
    if lowest < (floor := 1e-6):
        keep = (1 - floor) / (1 - lowest)  # eigenvalues of kR + (1-k)I are k·e + 1 - k
        latent = keep * latent + (1 - keep) * np.eye(len(roots))
    return np.linalg.cholesky(latent).astype(np.float64)


def _through_margin(root: Root, latent: Column) -> Column:
    """Standard normal draws through the root's quantile function, cut to its bounds exactly.

    u = Φ(z) is uniform, so F⁻¹(F(lower) + u (F(upper) - F(lower))) has the margin F given that it
    lies within the bounds.
    """
    lower, upper = root.domain.lower, root.domain.upper
    uniform = [_STANDARD.cdf(z) for z in latent.tolist()]
    if root.shape == "uniform" or root.mean is None or root.sd is None:
        drawn = [lower + u * (upper - lower) for u in uniform]
    elif root.shape == "normal":
        drawn = _cut(uniform, NormalDist(root.mean, root.sd), lower, upper)
    else:
        s, _ = _spread(root)
        logs = NormalDist(math.log(root.mean) - s * s / 2, s)
        lowest = math.log(lower) if lower > 0 else -math.inf
        drawn = [math.exp(x) for x in _cut(uniform, logs, lowest, math.log(upper))]
    rounded = [float(f"{x:.{_DIGITS}g}") for x in drawn]
    return np.asarray(np.clip(rounded, lower, upper), dtype=np.float64)


def _cut(uniform: list[float], law: NormalDist, lower: float, upper: float) -> list[float]:
    low, high = law.cdf(lower), law.cdf(upper)
    # The quantile has no value at 0 and 1, which only a draw beyond 8 sd reaches.
    inside = (min(max(low + u * (high - low), 1e-300), 1 - 1e-16) for u in uniform)
    return [min(max(law.inv_cdf(p), lower), upper) for p in inside]
