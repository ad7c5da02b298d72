"""What is promised: the ledger, and the paper's theorems as functions.

Every figure is in the mechanism's own unit, epsilon per grid step: two values of a root that lie d
grid steps apart are told apart with log-odds of at most d * epsilon. Edges are written out: no
distance gives advantage 0, a formula that is flat somewhere implies nothing about its own value.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar

from rootguard.errors import FormulaNameError, UnknownNameError
from rootguard.events import (
    Event,
    RootCharged,
    RootNoised,
    RootRefined,
    TableCharged,
    TableDrawKept,
)
from rootguard.expressions import Extremes, Interval, Node, names
from rootguard.notebook import html_table
from rootguard.values import MICRO, NUMBER, Domain, RootName, RootType

TableDraws = Mapping[RootName, Sequence[tuple[int, int]]]
"""Of each root that tables drew for a person: the price of a draw, in micro-epsilon, how many."""


@dataclass(frozen=True, slots=True)
class RootTotals:
    """What a root has cost: micro-epsilon in all, for how many draws, and of the first one."""

    micro: int = 0
    draws: int = 0
    first: int = 0
    mechanism: str = ""


class Ledger:
    """What a principal has spent, per root, in whole micro-epsilon. It only ever grows.

    It is made of totals that are known, of events, and of what released tables drew for this
    person, who may never have been opened by name.
    """

    def __init__(
        self,
        events: Iterable[Event] = (),
        tables: TableDraws = MappingProxyType({}),
        *,
        totals: Mapping[str, RootTotals] = MappingProxyType({}),
    ) -> None:
        self._totals = dict(totals)
        for event in events:
            self.record(event)
        for root, drawn in tables.items():
            for micro, draws in drawn:
                self._charge(root, micro * draws, draws)

    def with_tables(self, tables: TableDraws) -> "Ledger":
        """The same with what tables drew for this person."""
        return Ledger(tables=tables, totals=self._totals)

    def record(self, event: Event) -> None:
        """Count an event; only drawing a root's value, and refining it, cost anything."""
        match event:
            case RootNoised():
                self._charge(event.root, event.micro_epsilon, 1)
            case RootRefined():
                self._charge(event.root, event.micro_epsilon, 0)
            case TableCharged():
                self._charge(event.root, event.micro_epsilon, event.draws)
            case RootCharged():
                self._charge(event.root, event.micro_epsilon, event.draws, event.first)
            case _:
                pass
        if isinstance(event, RootNoised | TableDrawKept | RootCharged) and event.mechanism:
            there = self._totals.get(event.root, RootTotals())
            self._totals[event.root] = replace(there, mechanism=event.mechanism)

    def _charge(self, root: str, micro: int, draws: int, first: int = 0) -> None:
        there = self._totals.get(root, RootTotals())
        self._totals[root] = RootTotals(
            micro=there.micro + micro,
            draws=there.draws + draws,
            first=there.first or first or (micro // draws if draws else 0),
            mechanism=there.mechanism,
        )

    @property
    def totals(self) -> dict[str, RootTotals]:
        """What each root has cost; a root that was only kept from tables costs nothing here."""
        return dict(self._totals)

    @property
    def micro(self) -> dict[str, int]:
        """Micro-epsilon spent on each root."""
        return {root: each.micro for root, each in self._charged()}

    @property
    def spent(self) -> dict[str, Fraction]:
        return {root: Fraction(each.micro, MICRO) for root, each in self._charged()}

    @property
    def total(self) -> Fraction:
        """Epsilon spent in all."""
        return Fraction(sum(each.micro for each in self._totals.values()), MICRO)

    @property
    def draws(self) -> dict[str, int]:
        """How often each root was noised: once for each of its values, and again after erasures."""
        return {root: each.draws for root, each in self._charged()}

    @property
    def first_prices(self) -> dict[str, int]:
        """What the first draw of each root cost, in micro-epsilon."""
        return {root: each.first for root, each in self._totals.items() if each.first}

    def mechanism_of(self, root: str) -> str:
        """The mechanism of a root's latest draw by name; empty if only tables drew it."""
        return self._totals[root].mechanism if root in self._totals else ""

    def _charged(self) -> list[tuple[str, RootTotals]]:
        """Roots that cost something: what was kept from a table, its run has paid."""
        return [(root, each) for root, each in self._totals.items() if each.micro or each.draws]


def advantage_bound(steps: Mapping[str, float], epsilons: Mapping[str, Fraction]) -> float:
    """The most any adversary gains in telling two root vectors apart: tanh(sum eps_i d_i / 2).

    The sum runs over the roots that differ, d_i grid steps apart. This is the bound that the
    proof of the paper's Theorem 1 supports: a likelihood ratio of at most e**x between two
    hypotheses limits the total variation distance to tanh(x / 2).
    """
    return math.tanh(sum(float(epsilons[root]) * abs(d) for root, d in steps.items()) / 2)


def bound_with_misses(advantage: float, miss_rate: float, mentions: int) -> float:
    """The advantage bound when identifiers are found by a detector that misses some.

    With n mentions, each missed with probability p independently of the others, all are protected
    with probability (1-p)**n and then Adv holds. A miss counts as a full loss:
    1 - (1-p)**n * (1 - Adv). No mentions, or no misses, leave Adv as it is.
    """
    if not (0 <= advantage <= 1 and 0 <= miss_rate <= 1 and mentions >= 0):
        raise ValueError("advantage and miss rate lie in [0, 1], mentions are not negative")
    return 1 - (1 - miss_rate) ** mentions * (1 - advantage)


def paper_advantage_bound(steps: Mapping[str, float], epsilons: Mapping[str, Fraction]) -> float:
    """Theorem 1 as printed: sum of exp(eps_i d_i). Never below 1, so it excludes nothing."""
    # A float ends at exp(709).
    return sum(math.exp(min(float(epsilons[root]) * abs(d), 700.0)) for root, d in steps.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class RootGuarantee:
    """What is promised about one root. `step` is a grid step in the root's unit.

    Epsilon is the sum over all its `draws`, one for each value it has had, each at its finest
    level.
    """

    root: str
    unit: str
    epsilon: Fraction
    step: float
    mechanism: str
    draws: int = 1
    type: RootType = NUMBER
    title: str = ""

    @property
    def label(self) -> str:
        """What people call it, with the name that formulas have for it: Platelets (plt)."""
        return f"{self.title} ({self.root})" if self.title else self.root

    @property
    def public(self) -> bool:
        """Whether nothing hides it, and nothing is promised about it."""
        return not self.epsilon

    @property
    def advantage(self) -> float:
        """The bound for two neighbouring values, or for two answers that differ."""
        return 1.0 if self.public else math.tanh(float(self.epsilon) / 2)

    @property
    def hidden_within(self) -> float:
        """Two values this far apart are told apart with an advantage of at most one half.

        In whole grid steps, since that is how far apart snapping sets them; of answers without an
        order, any two (1) or none (0).
        """
        if self.public:
            return 0.0
        steps = math.floor(2 * math.atanh(0.5) / float(self.epsilon))
        return (steps if self.type.on_a_line else min(steps, 1)) * self.step

    def steps(self, distance: float) -> float:
        """A distance in the root's own unit as epsilon counts it."""
        apart = abs(distance)
        if self.type.distances is not None:
            return apart
        return apart / self.step if self.type.on_a_line else min(apart, 1.0)

    def to_dict(self) -> dict[str, object]:
        about: dict[str, object] = {} if self.type.plain else {"type": self.type.name}
        if not self.type.on_a_line:
            about |= {"per": self.type.apart(), "advantage": self.advantage}
        if self.public:
            about["public"] = True
        return {
            "epsilon": float(self.epsilon),
            "draws": self.draws,
            "step": self.step,
            "unit": self.unit,
            "mechanism": self.mechanism,
            "hidden_within": self.hidden_within,
            **about,
        }

    def __str__(self) -> str:
        if self.public:
            return f"{self.label}: public, released as it was given; nothing of it is hidden"
        if not self.type.on_a_line:
            return self._of_answers()
        unit = f" {self.unit}" if self.unit else ""
        drawn = f", noised {self.draws} times" if self.draws > 1 else ""
        return (
            f"{self.label}: epsilon {float(self.epsilon):.3g} per step of {self.step:.3g}{unit} "
            f"({self.mechanism or 'tables'}{drawn}); "
            f"advantage at most 1/2 within {self.hidden_within:.3g}{unit}"
        )

    def _of_answers(self) -> str:
        drawn = f", noised {self.draws} times" if self.draws > 1 else ""
        said = f"{self.label}: epsilon {float(self.epsilon):.3g} {self.type.apart()} "
        said += f"({self.mechanism or 'tables'}{drawn}); of two answers that differ"
        if self.type.distances is not None:
            said += " by 1"
        return f"{said}, the true one is guessed with an advantage of at most {self.advantage:.3g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """What is promised, in which unit, and what is not.

    It composes every draw that a store ever made for the principal: of all values that a root has
    had, of erased ones, by tables. `others` are roots that were noised under other templates.
    """

    principal: str
    roots: tuple[RootGuarantee, ...]
    computed: tuple[str, ...]
    identifiers: int
    others: tuple[RootGuarantee, ...] = ()

    COVERS: ClassVar[tuple[str, ...]] = (
        "every release: repeats, formulas of any kind, other services, later conversations",
        "every draw that this store made for this person: earlier values, erased ones, tables",
        "services that pool all they received",
        "an adversary who knows the mechanism, the budget of each root and the population",
    )
    EXCLUDES: ClassVar[tuple[str, ...]] = (
        (
            "the pattern of changes: equal values give equal releases, so it shows that a value "
            'changed, or came back to an earlier one; on_change="keep" hides that'
        ),
        "values that were never declared as roots, and whatever the person types past the guard",
        "identifiers: they are encrypted, but equal ones look equal, and length and shape show",
        "facts about whole populations, which follow from public figures",
    )

    @property
    def total(self) -> Fraction:
        """The sum of epsilon over all roots: what the ledger says was spent."""
        return sum((root.epsilon for root in self._all), Fraction(0))

    @property
    def _all(self) -> tuple[RootGuarantee, ...]:
        return self.roots + self.others

    def epsilon_of(self, root: str) -> Fraction:
        """Epsilon per grid step spent on a root, over all its draws."""
        return self._of(root).epsilon

    def draws_of(self, root: str) -> int:
        """How often a root was noised: once for each of its values, and again after an erasure."""
        return self._of(root).draws

    def _of(self, root: str) -> RootGuarantee:
        for promised in self._all:
            if promised.root == root:
                return promised
        raise UnknownNameError("root", root, tuple(promised.root for promised in self._all))

    def advantage(self, distances: Mapping[str, float]) -> float:
        """The tanh bound for two people whose roots differ by these amounts, in root units.

        Snapping can set them apart by the next whole number of grid steps, so that is what counts.
        Of a root that was noised more than once, the two differ by at most this much each time,
        and their values changed at the same times.
        """
        apart, epsilons = self._in_steps(distances)
        if any(self._of(name).public and d for name, d in distances.items()):
            return 1.0  # what is public tells them apart
        # An even number of steps comes out of the division with rounding errors. A declared
        # distance is no number of steps.
        whole = {
            n: d if self._of(n).type.distances else math.ceil(d - 1e-9) for n, d in apart.items()
        }
        return advantage_bound(whole, epsilons)

    def paper_advantage(self, distances: Mapping[str, float]) -> float:
        """The paper's Theorem 1, as printed, for the same two people."""
        return paper_advantage_bound(*self._in_steps(distances))

    def _in_steps(
        self, distances: Mapping[str, float]
    ) -> tuple[dict[str, float], dict[str, Fraction]]:
        promised = {name: self._of(name) for name in distances}
        apart = {name: promised[name].steps(d) for name, d in distances.items()}
        return apart, {name: root.epsilon for name, root in promised.items()}

    def to_dict(self) -> dict[str, object]:
        return {
            "unit": "epsilon per grid step",
            "total_epsilon": float(self.total),
            "roots": {root.root: root.to_dict() for root in self.roots},
            "other_roots": {root.root: root.to_dict() for root in self.others},
            "computed_at_no_cost": list(self.computed),
            "identifiers": self.identifiers,
            "covers": list(self.COVERS),
            "does_not_cover": list(self.EXCLUDES),
        }

    def __str__(self) -> str:
        lines = [f"{self._once()} {self._bound()}", ""]
        lines += [f"  {root}" for root in self.roots]
        if self.computed:
            lines.append(f"  computed from these at no cost: {', '.join(self.computed)}")
        if self.others:
            lines += ["Noised for this person under other templates:"]
            lines += [f"  {root}" for root in self.others]
        lines += ["", "Covered:", *(f"  - {line}" for line in self.COVERS)]
        lines += ["Not covered:", *(f"  - {line}" for line in self.EXCLUDES)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (
                root.label,
                f"{float(root.epsilon):.3g}",
                f"{root.hidden_within:.3g} {root.unit}".strip(),
                root.draws,
            )
            for root in self._all
        ]
        columns = ("root", "epsilon per step", "advantage at most 1/2 within", "draws")
        return html_table(f"Guaranteed: {self._bound()}", columns, rows)

    def _once(self) -> str:
        again = [root for root in self._all if root.draws > 1]
        if not again:
            return "Each root is noised exactly once."
        counted = ", ".join(f"{root.root} {root.draws} times" for root in again)
        return (
            "Each value of a root is noised exactly once; a value that changed, or came again "
            f"after an erasure, is another one. So far noised: {counted}. What the draws of a root "
            "tell adds up, and the figures here are the sums."
        )

    def _bound(self) -> str:
        unlike = "" if all(root.type.on_a_line for root in self._all) else " (or two answers)"
        return (
            f"Total epsilon {float(self.total):.3g} per grid step{unlike}. "
            "Of two values d steps apart, an adversary who collects any number of answers guesses "
            "the true one with an advantage over chance of at most tanh(epsilon * d / 2)."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Slopes:
    """How steeply a formula follows one root over the bounds, in grid steps per grid step.

    `amplification` is L_idx = L * D_x / D_y and `flattest` is alpha * D_x / D_y, where L and alpha
    bound |df/dx| from above and below and D_y is the width of the formula's range. Both err on
    the side of more loss: L_idx is never too small, alpha never too large. `attained` is what a
    point of the bounds certainly has: the true factor lies between it and the amplification.
    """

    root: str
    amplification: float
    attained: float
    flattest: float

    @property
    def tight(self) -> bool:
        """Whether the amplification is at most 10 % above what is attained."""
        return self.amplification <= _NEAR * self.attained

    @property
    def remark(self) -> str:
        """What has to stand beside the amplification; empty if it is tight."""
        if self.tight:
            return ""
        met = f"; {self.attained:.3g} is" if self.attained > 0 else ""
        return f"upper bound, not attained{met}"


_NEAR = 1.1  # a bound this close to what is attained may be read as the figure itself
_WITHOUT_LIMIT = 1e6
"""A slope that is met and this steep, where no bound was found, counts as unbounded: a jump."""


def slopes(formula: Node, domains: Mapping[str, Domain]) -> tuple[Slopes, ...]:
    """Theorem 2's amplification for each root a formula rests on; the others range freely."""
    for name in sorted(names(formula) - domains.keys()):
        raise FormulaNameError(name, tuple(domains))
    used = [name for name in domains if name in names(formula)]
    box = {name: Interval(domains[name].lower, domains[name].upper) for name in used}
    if not box:
        return ()
    search = Extremes(formula, box)
    reached, enclosed = search.width()
    found = []
    for name in used:
        (risen, rise), (fallen, fall) = search.slope(name)
        # A slope that takes both signs is flat in between, wherever that is.
        steep, flat = max(rise, fall), max(0.0, -rise, -fall)
        width = domains[name].width
        amplification = _amplification(steep * width, reached)
        attained = _amplification(max(risen, fallen) * width, enclosed)
        if amplification == math.inf and attained > _WITHOUT_LIMIT:
            attained = math.inf
        found.append(
            Slopes(
                root=name,
                amplification=amplification,
                attained=attained,
                flattest=flat * width / enclosed if 0 < enclosed < math.inf else 0.0,
            )
        )
    return tuple(found)


def _amplification(change: float, reached: float) -> float:
    """A formula that follows a root not at all (slope 0, or nowhere defined) amplifies nothing."""
    if change <= 0:
        return 0.0
    return change / reached if reached > 0 else math.inf


def accumulated_level(epsilon: Fraction, *, repeats: int, amplifications: Sequence[float]) -> float:
    """The level at which independent noising protects a root after many releases.

    Each repeat of the root itself adds epsilon, each independently noised derived value adds
    epsilon times its amplification. RootGuard's level stays at the first draw's epsilon.
    """
    return float(epsilon) * (repeats + sum(amplifications))


def implied_epsilon(epsilon: Fraction, slope: Slopes) -> float:
    """Theorem 3: the level a derived value inherits, per step of its own range.

    A formula that is flat somewhere (alpha = 0) says nothing there about its own value: infinite.
    """
    return float(epsilon) / slope.flattest if slope.flattest > 0 else math.inf
