"""From noised roots to released ones: posterior medians, moved until the target is one too.

Given the noised index s of each root, the posterior of root i alone is prior_i(t) * P(s_i | t), and
its median is what minimises the expected absolute error of that root. The target's median needs
the roots jointly. It is taken over points of two kinds: half from the product of the single
posteriors, which is right where little noise leaves little doubt, half from the population's joint
prior, which is right where the noise says little. Each point is weighted by posterior over
proposal, with the balance heuristic for the mixture (Veach & Guibas 1995):

    weight = 1 / (1 / L + 1 / c),  L = product of P(s_i | t_i) / P(s_i),

with c the joint prior's density against that of independent roots: the copula's for most people,
1 for a share of them whose roots are not tied.

A root that is alone needs no sample: every grid point is weighted by its posterior probability.

A public root is known to the service as it is, so all of this is done among people who have the
person's own public values: their prior of the other roots, their classes, and the target with the
public values in it. That costs nothing, because nothing of the private values is looked at.

A median favours the common classes, so an alarm on a worrying class is kept where it is worth its
cost (`Alarms`). The released roots are those nearest to the single medians, in units of each
posterior's own spread, at which the target has that value. The points are fixed, so the same noised
roots always give the same release.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rootguard.allocation import Plan
from rootguard.calibration.priors import (
    UNTIED as UNTIED,
)
from rootguard.calibration.priors import (
    JointPrior,
    Marginal,
    has_figures,
    marginal,
    prior_given,
    scored_indices,
    spread_points,
    spread_scores,
)
from rootguard.calibration.rough import BLOCK, STRETCH, Rough, RoughRows, RoughWeights
from rootguard.expressions import Node, evaluate_many, names
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.mechanisms.base import Floats, Indices, Mechanism
from rootguard.template import Template
from rootguard.values import (
    NUMBER,
    Distances,
    Domain,
    MechanismName,
    RootName,
    RootType,
    Sanitized,
)

POINTS = 256
"""Points per person, half of each kind. A working choice; what it costs against the exact joint
posterior is in docs/calibration.md."""
ALARM_PRICE = 2.5
"""What an alarm must find for its cost: so many times its class's share of the population, for each
mean deviation of the population's target that the release is then expected to be farther off.
Found, with `ALARM_EVIDENCE`, by trying values on synthetic people and on the development cohort;
docs/calibration.md says what choices that see no judging patient give."""
ALARM_EVIDENCE = 0.9
"""An alarm is left where the noised roots speak against its class: where they make it less than
this many times as likely as it is in the population. Only a close call is kept even then."""
_CLOSE_CALL = 0.02
"""Mean deviations of the population's target that no reader of a target would miss."""
_RAREST = 0.01
"""A class that is rarer than this in the population counts as this rare: figures of a few thousand
people say no more of it."""
_WHOLE = 2048
"""A root that is alone is weighed on its whole grid up to this many points."""
_BLOCK = 256
"""People whose points are weighed together: few enough for the CPU's cache."""
_FEW = 64
"""Fewer people than this are weighed once: a first look would cost more than it saves."""
_STRETCH = 32
"""Weights that are summed together on the way to the median; about the root of their number."""
_ROWS = 64
"""Rows of a grid that are worked on together: the same."""
_PEOPLE = 1 << 13
"""People who are released together: bounds the memory that a long table takes."""
_CENSUS = 4096
"""Points of the population from which the shares of the worrying classes are taken: to a few
tenths of a percent."""
_GROUPS = 8
"""People with the same public values share what is computed of them; so many such groups are kept.
One of them may hold some megabytes."""
_STEPS = 12
"""Steps to the wanted target; who has not settled by then is released at the sampled point."""
_CLOSE = 1e-9
"""Relative; far below what any service is shown, far above the rounding of a formula."""
_LEAST_WEIGHT = 690.0
"""Minus the log of the smallest weight that a point may have, near the smallest float's: no sum of
weights is zero."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorryingClass:
    """Targets from `low` to `high`, both included, and the share of the population there."""

    low: float
    high: float
    share: float

    def holds(self, targets: Floats) -> NDArray[np.bool_]:
        """Which targets lie in the class; none that has no value."""
        return (targets >= self.low) & (targets <= self.high)


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """How one root was noised: all of it public."""

    domain: Domain
    mechanism: MechanismName
    epsilon: Fraction
    distances: Distances | None = None

    @classmethod
    def of(cls, sanitized: Sanitized, kind: RootType = NUMBER) -> "Level":
        """The level that a noised value was drawn at."""
        return cls(
            domain=sanitized.domain,
            mechanism=sanitized.mechanism,
            epsilon=sanitized.epsilon,
            distances=kind.distances,
        )

    @classmethod
    def of_plan(cls, plan: Plan) -> "dict[RootName, Level]":
        """The level of each root under a plan."""
        return {
            share.root: cls(
                domain=share.domain,
                mechanism=plan.noise(share.root).name,
                epsilon=share.epsilon,
                distances=share.type.distances,
            )
            for share in plan.shares
        }

    def noise(self) -> Mechanism:
        """The mechanism itself."""
        return mechanism(self.mechanism, self.epsilon, self.domain.size, self.distances)


class _Posterior:
    """One root's posterior for each noised index that was met, as rows of the points."""

    def __init__(
        self,
        prior: Marginal,
        noise: Mechanism,
        shares: Floats,
        fixed: Indices,
        most_doubt: float,
        *,
        on_a_line: bool = True,
    ) -> None:
        self.prior = prior
        self._on_a_line = on_a_line
        self._most_doubt = most_doubt
        self._noise = noise
        self._order = np.argsort(shares)
        self._shares = shares[self._order]
        self.fixed = fixed
        self._row = np.full(noise.size, -1, dtype=np.int64)
        self._met = 0
        self.values, self.scores = np.empty((0, shares.size)), np.empty((0, shares.size))
        # Of the own points and of the shared ones apart: what lies together is read faster.
        self.doubt, self.shared_doubt = np.empty((0, shares.size)), np.empty((0, fixed.size))
        self.medians, self.spreads = np.empty(0), np.empty(0)
        self._rough_scores: Rough = np.empty((0, shares.size), np.float32)
        self._rough_doubt: Rough = np.empty((0, shares.size + fixed.size), np.float32)
        self._reach, self._least = np.empty(0), 1.0

    def rows(self, noised: Indices) -> Indices:
        """Where the rows of these noised indices are; computes those that are not there yet."""
        rows = self._row[noised]
        if (rows < 0).any():
            fresh = np.unique(noised[rows < 0])
            self._make_room(fresh.size)
            for start in range(0, fresh.size, _ROWS):
                self._add(fresh[start : start + _ROWS])
            rows = self._row[noised]
        return rows

    def _make_room(self, count: int) -> None:
        """Arrays that hold so many rows more; twice as many as before, so that few are copied."""
        held = len(self.medians)
        if self._met + count <= held:
            return
        room = min(max(self._met + count, 2 * held), self._noise.size)
        for name in (
            *("values", "scores", "doubt", "shared_doubt", "medians", "spreads"),
            *("_rough_scores", "_rough_doubt", "_reach"),
        ):
            before: Floats = getattr(self, name)
            after = np.empty((room, *before.shape[1:]), before.dtype)
            after[: self._met] = before[: self._met]
            setattr(self, name, after)

    def _add(self, noised: Indices) -> None:
        size, count = self._noise.size, noised.size
        new = slice(self._met, self._met + count)
        likelihood = self._noise.likelihoods(noised)
        believed = self.prior.mass * likelihood
        below = np.cumsum(believed, axis=1)
        total = below[:, -1:].copy()
        below /= total
        # The median, and one standard deviation on either side if it were a normal distribution.
        wanted = np.concatenate([self._shares, (0.16, 0.5, 0.84)])
        # Row by row, so that no row depends on which others are computed with it.
        found = np.minimum([row.searchsorted(wanted) for row in below], size - 1)
        drawn = np.empty((count, self._shares.size), dtype=np.int64)
        drawn[:, self._order] = found[:, :-3]
        if self._shares.size == 0:  # the fixed points are the whole grid, each once
            likelihood *= self.prior.mass
        for doubt, evidence in (
            (self.doubt, likelihood.take(drawn + size * np.arange(count)[:, None])),
            (self.shared_doubt, likelihood.take(self.fixed, axis=1)),
        ):
            evidence /= total
            np.maximum(evidence, math.exp(-self._most_doubt), out=evidence)
            np.divide(1, evidence, out=doubt[new])
        points = self.prior.points
        self.values[new], self.scores[new] = points[drawn], self.prior.scores[drawn]
        self._add_rough(new)
        low, middle, high = (points[found[:, i]] for i in (-3, -2, -1))
        if not self._on_a_line:  # answers without an order have no median, but a likeliest one
            middle = points[np.argmax(believed, axis=1)]
        self.medians[new] = middle
        step = points[1] - points[0]
        # An answer stays one: between two of them there is nothing to move to.
        moves = size > 2 and self._on_a_line
        self.spreads[new] = np.maximum(high - low, step) if moves else 0
        self._row[noised] = self._met + np.arange(count)
        self._met += count

    def _add_rough(self, new: slice) -> None:
        own = self._shares.size
        self._rough_scores[new] = self.scores[new]
        self._reach[new] = np.abs(self.scores[new]).max(axis=1, initial=0)
        with np.errstate(over="ignore"):  # a doubt that is too large leaves no weight
            self._rough_doubt[new, :own] = self.doubt[new]
            self._rough_doubt[new, own:] = self.shared_doubt[new]
        self._least = min(self._least, float(self._rough_doubt[new].min()))

    @property
    def rough(self) -> RoughRows:
        """What is there of the rows in single precision."""
        return RoughRows(
            scores=self._rough_scores,
            doubt=self._rough_doubt,
            reach=self._reach,
            least=self._least,
        )


class Calibration:
    """Calibrates releases of one template at given levels. Deterministic; draws nothing.

    A template without population figures is released as it was noised.
    """

    def __init__(
        self,
        template: Template,
        levels: Mapping[RootName, Level],
        *,
        points: int = POINTS,
        given: Mapping[RootName, int] | None = None,
    ) -> None:
        """Without `given`, people are told apart by their public values.

        With it, all have these grid points of public roots, and `roots` lacks them.
        """
        self.template = template
        self._all_levels = {root: levels[root] for root in Graph.of(template).roots}
        self._given = dict(given or {})
        self._constants = {
            str(root): levels[root].domain.value(index) for root, index in self._given.items()
        }
        self._levels = {r: level for r, level in self._all_levels.items() if r not in self._given}
        self.roots = tuple(self._levels)
        self.public = tuple(r for r, level in self._levels.items() if level.mechanism == "public")
        self._groups: dict[tuple[int, ...], Calibration] = {}
        self._formula = _target_of(template)
        self._points = points
        self.active = any(
            has_figures(template.roots[r]) for r in self.roots if r not in self.public
        )

    @property
    def _whole(self) -> bool:
        sizes = [level.domain.size for level in self._levels.values()]
        return len(sizes) == 1 and sizes[0] <= _WHOLE

    @cached_property
    def _prior(self) -> JointPrior:
        grids = tuple((root, level.domain) for root, level in self._all_levels.items())
        return prior_given(self.template, grids, tuple(self._given.items()))

    @cached_property
    def _posteriors(self) -> list[_Posterior]:
        half, count = self._points // 2, len(self.roots)
        priors = self._prior.marginals
        if self._whole:
            fixed = [np.arange(prior.mass.size) for prior in priors]
            shares = np.empty((0, count))
        else:
            spread = spread_scores(self._points - half, count)
            fixed = scored_indices(priors, self._prior.latent, spread, untied=UNTIED)
            shares = spread_points(half, count, start=self._points)
        return [
            _Posterior(
                prior,
                level.noise(),
                shares[:, i],
                fixed[i],
                _LEAST_WEIGHT / count,
                on_a_line=self.template.roots[root].type.on_a_line,
            )
            for i, (root, prior, level) in enumerate(
                zip(self.roots, priors, self._levels.values(), strict=True)
            )
        ]

    @cached_property
    def _shared(self) -> tuple[list[Floats], Floats, Floats]:
        """Values, targets and copula density (one over it) of the points that all people share."""
        values = [p.prior.points[p.fixed] for p in self._posteriors]
        scores = [p.prior.scores[p.fixed] for p in self._posteriors]
        return values, self._target(values), self._rarity(scores)

    @cached_property
    def _ties(self) -> tuple[Floats, float]:
        """The matrix and the constant of the log of one over the copula's density."""
        latent = self._prior.latent
        ties = np.linalg.inv(latent) - np.eye(len(self.roots))
        return ties, float(np.linalg.slogdet(latent)[1]) / 2

    def release(self, noised: Mapping[RootName, Sanitized]) -> dict[RootName, float]:
        """What a service receives for one person's noised roots."""
        if not self.active:
            return {root: noised[root].value for root in self.roots}
        columns = {root: np.array([noised[root].index]) for root in self.roots}
        released = self.release_many(columns)
        return {
            root: noised[root].value if root in self.public else float(column[0])
            for root, column in released.items()
        }

    def release_many(self, noised: Mapping[RootName, Indices]) -> dict[RootName, Floats]:
        """What a service receives for many people, given the noised index of each root."""
        size = len(noised[self.roots[0]])
        released = {root: np.empty(size) for root in self.roots}
        if self.public and self.active:
            released |= {root: self._grid(root)[noised[root]] for root in self.public}
            for alike, people in self._alike(noised):
                own = {root: noised[root][people] for root in alike.roots}
                for root, column in alike.release_many(own).items():
                    released[root][people] = column
            return released
        for start in range(0, size, _PEOPLE):
            part = {root: noised[root][start : start + _PEOPLE] for root in self.roots}
            # Who has the same noised root reads the same rows, while they are in the CPU's cache.
            people = np.argsort(part[self.roots[0]], kind="stable")
            columns = self._released([part[root][people] for root in self.roots])
            for root, column in zip(self.roots, columns, strict=True):
                released[root][start + people] = column
        return released

    def targets_many(self, noised: Mapping[RootName, Indices]) -> Floats:
        """The target that the released roots have, without finding the roots."""
        indices = [noised[root] for root in self.roots]
        if not self.active:
            return self._target(
                [self._grid(r)[i] for r, i in zip(self.roots, indices, strict=True)]
            )
        if self.public:
            targets = np.empty(len(indices[0]))
            for alike, people in self._alike(noised):
                part = {root: noised[root][people] for root in alike.roots}
                targets[people] = alike.targets_many(part)
            return targets
        rows = [p.rows(i) for p, i in zip(self._posteriors, indices, strict=True)]
        plain = [p.prior.points[i] for p, i in zip(self._posteriors, indices, strict=True)]
        return self._target_medians(rows, self._target(plain))[0]

    def medians_many(self, noised: Mapping[RootName, Indices]) -> dict[RootName, Floats]:
        """Each root's own posterior median, without regard to the target."""
        if not self.active:
            return {root: self._grid(root)[noised[root]] for root in self.roots}
        if self.public:
            medians = {root: self._grid(root)[noised[root]] for root in self.roots}
            for alike, people in self._alike(noised):
                part = {root: noised[root][people] for root in alike.roots}
                for root, column in alike.medians_many(part).items():
                    medians[root][people] = column
            return medians
        found = {}
        for root, posterior in zip(self.roots, self._posteriors, strict=True):
            rows = posterior.rows(noised[root])  # first: new rows make new arrays
            found[root] = posterior.medians[rows]
        return found

    def _alike(self, noised: Mapping[RootName, Indices]) -> "Iterator[tuple[Calibration, Indices]]":
        """Who has the same public values, and the calibration among people who have them."""
        columns = np.stack([noised[root] for root in self.public], axis=1)
        found, group = np.unique(columns, axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        stops = np.cumsum(np.bincount(group.ravel(), minlength=len(found)))
        for values, people in zip(found.tolist(), np.split(order, stops[:-1]), strict=True):
            yield self._among(tuple(values)), people

    def _among(self, values: tuple[int, ...]) -> "Calibration":
        if values not in self._groups:
            made = Calibration(
                self.template,
                self._all_levels,
                points=self._points,
                given=dict(zip(self.public, values, strict=True)),
            )
            other = next(iter(self._groups.values()), None)
            if other is not None and made._is_like(other):
                made._posteriors = other._posteriors
            if len(self._groups) >= _GROUPS:
                del self._groups[next(iter(self._groups))]
            self._groups[values] = made
        return self._groups[values]

    def _is_like(self, other: "Calibration") -> bool:
        """Whether other public values say nothing else of the hidden roots: no tie to them."""
        pairs = zip(self._prior.marginals, other._prior.marginals, strict=True)
        return all(one is another for one, another in pairs)

    def _grid(self, root: RootName) -> Floats:
        return marginal(self.template.roots[root], self._levels[root].domain).points

    def _released(self, indices: Sequence[Indices]) -> list[Floats]:
        if not self.active:
            return [self._grid(r)[i] for r, i in zip(self.roots, indices, strict=True)]
        rows = [p.rows(i) for p, i in zip(self._posteriors, indices, strict=True)]
        medians = [p.medians[r] for p, r in zip(self._posteriors, rows, strict=True)]
        spreads = [p.spreads[r] for p, r in zip(self._posteriors, rows, strict=True)]
        plain = self._target(
            [p.prior.points[i] for p, i in zip(self._posteriors, indices, strict=True)]
        )
        wanted, place = self._target_medians(rows, plain)
        moved = self._nearest(medians, spreads, wanted, self._points_at(rows, place))
        known = np.isfinite(wanted)
        return [np.where(known, r, m) for r, m in zip(moved, medians, strict=True)]

    def _target_medians(self, rows: Sequence[Indices], plain: Floats) -> tuple[Floats, Indices]:
        """The target to release for each person, NaN where none has a value, and its point."""
        wanted, place = np.empty(plain.size), np.empty(plain.size, dtype=np.int64)
        shared_targets = self._shared[1]
        left = self._first_look(rows, plain, wanted, place)
        for start in range(0, left.size, _BLOCK):
            people = left[start : start + _BLOCK]
            part = [row[people] for row in rows]
            own_targets = self._own_targets(part)
            own = own_targets.shape[1]
            targets = np.empty((people.size, own + shared_targets.size))
            targets[:, :own], targets[:, own:] = own_targets, shared_targets
            found = self._middle(targets, self._weights(part), plain[people])
            wanted[people], place[people] = targets[np.arange(people.size), found], found
        return wanted, place

    def _first_look(
        self, rows: Sequence[Indices], plain: Floats, wanted: Floats, place: Indices
    ) -> Indices:
        """Fill in whose median is sure by rough weights and keeps no alarm; the others are left."""
        shared_targets = self._shared[1]
        rough = self._rough if plain.size >= _FEW else None
        if rough is None:
            return np.arange(plain.size)
        error = rough.error(rows)
        for start in range(0, plain.size, BLOCK):
            block = slice(start, start + BLOCK)
            part = [row[block] for row in rows]
            targets = self._own_targets(part)
            if math.isnan(targets.sum()):  # takes less than to look at each
                place[block] = -1
                continue
            own = targets.shape[1]
            found = rough.places(part, targets, error[block])
            place[block] = found
            wanted[block] = shared_targets.take(found - own, mode="clip")
            drawn = np.flatnonzero(found < own)
            wanted[start + drawn] = targets[drawn, found[drawn]]
        left = place < 0
        for alarm in self._alarms.classes:
            left |= alarm.holds(plain) & ~alarm.holds(wanted)
        return np.flatnonzero(left)

    @property
    def _rough(self) -> RoughWeights | None:
        """Rough weights of the points, where there are enough of them and all have a target."""
        _, shared_targets, rarity = self._shared
        if self._whole or self._points % STRETCH or np.isnan(shared_targets).any():
            return None
        tables = [posterior.rough for posterior in self._posteriors]
        return RoughWeights(tables, *self._ties, UNTIED, rarity, shared_targets)

    def _own_targets(self, rows: Sequence[Indices]) -> Floats:
        values = [p.values.take(row, axis=0) for p, row in zip(self._posteriors, rows, strict=True)]
        return self._target(values, sizes=self._sizes)

    def _points_at(self, rows: Sequence[Indices], place: Indices) -> list[Floats]:
        """The roots of one point of each person."""
        found = []
        for posterior, row, shared in zip(self._posteriors, rows, self._shared[0], strict=True):
            own = posterior.values.shape[1]
            values = shared[place - own]
            drawn = np.flatnonzero(place < own)
            values[drawn] = posterior.values[row[drawn], place[drawn]]
            found.append(values)
        return found

    def _target(
        self, columns: Sequence[Floats], *, sizes: Mapping[str, float] = MappingProxyType({})
    ) -> Floats:
        shape = columns[0].shape
        flat = {str(r): column.ravel() for r, column in zip(self.roots, columns, strict=True)}
        flat |= {name: np.full(columns[0].size, value) for name, value in self._constants.items()}
        used = {name: flat[name] for name in names(self._formula)} or flat
        return evaluate_many(self._formula, used, sizes=sizes).reshape(shape)

    @cached_property
    def _sizes(self) -> dict[str, float]:
        """No point of a grid is beyond its bounds."""
        domains = {str(root): level.domain for root, level in self._all_levels.items()}
        return {name: max(abs(each.lower), abs(each.upper)) for name, each in domains.items()}

    def _middle(self, targets: Floats, weights: Floats, plain: Floats) -> Indices:
        """The place of each person's weighted median, or of the alarm that is kept."""
        ranked = targets
        if math.isnan(targets.sum()):  # takes less than to look at each
            undefined = np.isnan(targets)
            weights[undefined] = 0
            ranked = np.where(undefined, np.finfo(np.float64).max, targets)  # they come last
        order = _order(ranked)
        person = np.arange(len(targets))
        first = person * targets.shape[1]
        # Quicker than by brackets; clipped, because what is checked is copied once more.
        sorted_weights = weights.ravel().take(order + first[:, None], mode="clip")
        middle = _halfway(sorted_weights)
        if self._alarms.classes:
            median = targets[person, order[person, middle]]
            for alarm in self._alarms.classes:
                asked = np.flatnonzero(alarm.holds(plain) & ~alarm.holds(median))
                if asked.size:
                    ordered = np.take_along_axis(targets[asked], order[asked], axis=1)
                    weighed = self._alarms.weigh(
                        alarm, asked, ordered, sorted_weights[asked], middle[asked]
                    )
                    kept = self._keeps(weighed)
                    middle[asked] = np.where(kept, weighed.place, middle[asked])
        place: Indices = order[person, middle]
        return place

    def _keeps(self, weighed: "Weighed") -> NDArray[np.bool_]:
        """Which of the people who were noised into a class stay there."""
        return weighed.is_worth_it()

    @cached_property
    def _alarms(self) -> "Alarms":
        domains = tuple(level.domain for level in self._all_levels.values())
        return _alarms_of(self.template, domains, tuple(self._given.items()))

    def _weights(self, rows: Sequence[Indices]) -> Floats:
        """Posterior over proposal of every point of every person."""
        if self._whole:
            return np.divide(1, self._posteriors[0].shared_doubt[rows[0]])
        posteriors = self._posteriors
        scores = [p.scores.take(r, axis=0) for p, r in zip(posteriors, rows, strict=True)]
        people, own = scores[0].shape
        weights = np.empty((people, own + self._shared[2].size))
        for tables, rarity, part in (
            ([p.doubt for p in posteriors], self._rarity(scores), weights[:, :own]),
            ([p.shared_doubt for p in posteriors], self._shared[2], weights[:, own:]),
        ):
            doubt = tables[0].take(rows[0], axis=0)
            factor = np.empty_like(doubt)  # one for all roots: new memory costs more than a product
            for table, row in zip(tables[1:], rows[1:], strict=True):
                doubt *= table.take(row, axis=0, out=factor, mode="clip")
            doubt += rarity
            np.divide(1, doubt, out=part)
        return weights

    def _rarity(self, scores: Sequence[Floats]) -> Floats:
        """One over the joint density at these normal scores, against that of independent roots."""
        ties, constant = self._ties
        exponent = np.full(scores[0].shape, constant)
        pull, part = np.empty_like(exponent), np.empty_like(exponent)
        for i, first in enumerate(scores):
            np.multiply(ties[i, i] / 2, first, out=pull)
            for j in range(i):
                pull += np.multiply(ties[i, j], scores[j], out=part)
            pull *= first
            exponent += pull
        # One over (1 - u) c + u: a point that the ties forbid keeps the weight of an untied person.
        np.exp(np.negative(exponent, out=exponent), out=exponent)
        exponent *= 1 - UNTIED
        exponent += UNTIED
        np.divide(1, exponent, out=exponent)
        return exponent

    def _nearest(
        self,
        medians: Sequence[Floats],
        spreads: Sequence[Floats],
        wanted: Floats,
        anchors: Sequence[Floats],
    ) -> list[Floats]:
        """Roots nearest to the medians at which the target has the wanted value.

        The target is made a line at the last roots found, step by step. Where this does not
        settle, the point that has the wanted target is taken: it is farther, but exact.
        """
        found = [median.copy() for median in medians]
        value = self._target(found)
        close = _CLOSE * np.maximum(np.abs(wanted), 1e-3 * np.abs(value))  # near zero as well
        settled = np.abs(value - wanted) <= close
        for _ in range(_STEPS):
            todo = np.flatnonzero(~settled)
            if todo.size == 0:
                return found
            at = [column[todo] for column in found]
            now = value[todo]
            moved = self._step(
                np.array(at),
                np.array([median[todo] for median in medians]),
                np.array([spread[todo] for spread in spreads]) ** 2,
                np.array(self._slopes(at, now)),
                wanted[todo] - now,
            )
            for column, new in zip(found, moved, strict=True):
                column[todo] = new
            value[todo] = self._target(list(moved))
            settled[todo] = np.abs(value[todo] - wanted[todo]) <= close[todo]
        return [np.where(settled, f, a) for f, a in zip(found, anchors, strict=True)]

    def _step(
        self, at: Floats, medians: Floats, freedom: Floats, slopes: Floats, missing: Floats
    ) -> Floats:
        """Minimise sum (r - m)^2 / d^2 where g (r - at) = missing: r = m + d^2 g k for one k.

        Roots that would leave their bounds are held there, and the others move again.
        """
        low = np.array([[self._levels[root].domain.lower] for root in self.roots])
        high = np.array([[self._levels[root].domain.upper] for root in self.roots])
        moved = medians
        for _ in range(len(at)):
            held = freedom == 0
            reach = _total(freedom * slopes**2)
            start = np.where(held, moved, medians)
            short = missing - _total(slopes * (start - at))
            gain = np.divide(short, reach, out=np.zeros_like(short), where=reach > 0)
            aim = start + freedom * slopes * gain
            moved = np.clip(aim, low, high)
            over = moved != aim
            if not over.any():
                break
            freedom = np.where(over, 0, freedom)
        return moved

    def _slopes(self, columns: Sequence[Floats], value: Floats) -> list[Floats]:
        """The target's partial derivatives, by differences towards the inside of the bounds."""
        used = names(self._formula)
        slopes = []
        for i, root in enumerate(self.roots):
            if root not in used:
                slopes.append(np.zeros_like(value))
                continue
            domain = self._levels[root].domain
            # Far below a step of the grid, far above what rounding makes of a difference.
            step = np.where(columns[i] - domain.lower > domain.width / 2, -1, 1) * domain.step / 1e4
            shifted = [c + step if j == i else c for j, c in enumerate(columns)]
            slopes.append(np.nan_to_num((self._target(shifted) - value) / step))
        return slopes


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Weighed:
    """What one alarm finds and costs each of the people who were noised into its class."""

    alarm: WorryingClass
    people: Indices
    """Who they are in their block."""
    place: Indices
    """Among the ordered targets, the class's nearest to the median."""
    target: Floats
    likely: Floats
    """The class's posterior probability."""
    cost: Floats
    """How much farther from the truth the release is expected to be, in mean deviations of the
    population's target; infinite where the class has no point."""

    def is_worth_it(self) -> NDArray[np.bool_]:
        """Whether to keep the alarm."""
        found = self.likely / self.alarm.share
        close = self.cost <= _CLOSE_CALL
        return (found - ALARM_EVIDENCE >= ALARM_PRICE * self.cost) | close


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarms:
    """The classes whose people must not be missed. A median favours the common classes.

    Where the noised roots alone put a person in a worrying class and the median does not, releasing
    the target of that class nearest to the median finds p / P of an average person of the class,
    with p its posterior probability and P its share of the population. It costs
    E|edge - target| - E|median - target|, in mean absolute deviations of the population's target.
    The alarm is kept where p / P exceeds `ALARM_EVIDENCE` by `ALARM_PRICE` times the cost: a close
    call unless the evidence is against it, a distant class only as far as the evidence is for it.
    """

    classes: tuple[WorryingClass, ...]
    deviation: float

    def weigh(
        self,
        alarm: WorryingClass,
        people: Indices,
        targets: Floats,
        weights: Floats,
        middle: Indices,
    ) -> Weighed:
        """Weigh an alarm for people who were noised into its class; targets are ordered."""
        person = np.arange(len(targets))
        below = np.cumsum(weights, axis=1)
        start = (targets < alarm.low).sum(axis=1)
        stop = (targets <= alarm.high).sum(axis=1)  # what has no value is in neither
        possible = stop > start
        edge = np.clip(middle, np.minimum(start, targets.shape[1] - 1), np.maximum(stop - 1, 0))
        total = below[:, -1]
        inside = below[person, np.maximum(stop - 1, 0)] - np.where(
            start > 0, below[person, np.maximum(start - 1, 0)], 0
        )
        at, median = targets[person, edge], targets[person, middle]
        known = np.where(weights > 0, targets, 0)  # what has no value has no weight
        cost = (np.abs(known - at[:, None]) - np.abs(known - median[:, None])) * weights
        # Summed in the order of the points, whoever else is in the batch.
        dearer = np.cumsum(cost, axis=1)[:, -1] / total / self.deviation
        return Weighed(
            alarm=alarm,
            people=people,
            place=edge,
            target=at,
            likely=inside / total,
            cost=np.where(possible, dearer, np.inf),
        )


@lru_cache(maxsize=256)
def _target_of(template: Template) -> Node:
    """The target in roots: one object, which is known again without being compared."""
    return Graph.of(template).in_roots(template.target.formula)


@lru_cache(maxsize=256)
def _alarms_of(
    template: Template,
    domains: tuple[Domain, ...],
    given: tuple[tuple[RootName, int], ...] = (),
) -> Alarms:
    """The worrying classes of a template, with what its population says of them."""
    graph = Graph.of(template)
    grids = dict(zip(graph.roots, domains, strict=True))
    prior = prior_given(template, tuple(grids.items()), given)
    hidden = [root for root in graph.roots if root not in dict(given)]
    spread = spread_scores(_CENSUS, len(hidden))
    found = scored_indices(prior.marginals, prior.latent, spread)
    values = {
        str(root): each.points[index]
        for root, each, index in zip(hidden, prior.marginals, found, strict=True)
    }
    values |= {str(root): np.full(_CENSUS, grids[root].value(index)) for root, index in given}
    targets = evaluate_many(graph.in_roots(template.target.formula), values)
    targets = targets[np.isfinite(targets)]
    deviation = float(np.mean(np.abs(targets - np.median(targets)))) if targets.size else 0.0
    if deviation == 0:  # everybody has the same target: no class can be missed
        return Alarms(classes=(), deviation=1.0)
    classes = []
    low = -math.inf
    for risk in template.risk:
        high, following = math.inf, math.inf
        if risk.limit is not None:
            high = risk.limit if risk.inclusive else math.nextafter(risk.limit, -math.inf)
            following = math.nextafter(high, math.inf)
        if risk.worrying:
            share = float(np.mean((targets >= low) & (targets <= high)))
            classes.append(WorryingClass(low=low, high=high, share=max(share, _RAREST)))
        low = following
    return Alarms(classes=tuple(classes), deviation=deviation)


def _order(numbers: Floats) -> Indices:
    """The places of each row's numbers, from the lowest to the highest; none may be NaN.

    Numbers are sorted in a third of the time that it takes to sort their places. So each carries
    its place in its last bits, which tell less than the rounding of a formula leaves.
    """
    size = numbers.shape[1]
    bits = (1 << (size - 1).bit_length()) - 1
    places: Indices = numbers.view(np.int64) & ~bits
    places |= np.arange(size)
    places.view(np.float64).sort(axis=1)
    places &= bits
    return places


def _halfway(weights: Floats) -> Indices:
    """Where each row's sum, from its first weight on, comes to half of all.

    Stretches are summed first: to add up one by one takes long, and one stretch needs it.
    """
    people, size = weights.shape
    starts = np.arange(0, size, _STRETCH)
    sums = np.zeros((people, starts.size + 1))
    np.cumsum(np.add.reduceat(weights, starts, axis=1), axis=1, out=sums[:, 1:])
    half = sums[:, -1] / 2
    stretch = (sums[:, 1:] < half[:, None]).sum(axis=1)
    person = np.arange(people)
    missing = half - sums[person, stretch]
    # Not the last of a stretch: that it passes the half is known, though rounding may deny it.
    inside = (person * size + starts[stretch])[:, None] + np.arange(_STRETCH - 1)
    passed = np.cumsum(weights.ravel().take(inside, mode="clip"), axis=1)
    found: Indices = starts[stretch] + (passed < missing[:, None]).sum(axis=1)
    np.minimum(found, size - 1, out=found)
    return found


def _total(terms: Floats) -> Floats:
    """The sum over roots, added in their order: NumPy's own order depends on how many people."""
    total: Floats = terms[0].copy()
    for term in terms[1:]:
        total += term
    return total
