"""From what a person wants to hide to a plan: "nobody shall tell my age within five years".

A goal names a root, a distance in its unit and an advantage. Its promise is the bound that all of
RootGuard's promises come from: of two people who differ in that root alone, by that distance, an
adversary with any number of answers picks the right one with an advantage over chance of at most
tanh(epsilon * d / 2), d being the distance in grid steps. An advantage of one half is a right guess
three times in four. Each root gets the largest epsilon that keeps its promise. Errors only fall as
an epsilon rises, so this is also the plan with the least error among those that keep all promises.

Two people who differ in every hidden root at once are told apart more easily: `joint_advantage`
says how much more.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from rootguard.accounting import advantage_bound
from rootguard.allocation import Objective, Plan, plan_at
from rootguard.errors import BudgetError
from rootguard.graph import Graph
from rootguard.mechanisms.base import MAX_EPSILON
from rootguard.template import Root, Template, load_template
from rootguard.values import MICRO, MechanismName, RootName

Distance = str | float
"""In the root's unit, or as text in percent of its typical value: 5, "5", "10%"."""

GoalSource = Literal["owner", "template", "usual"]

ADVANTAGE = Fraction(1, 2)
"""What is promised unless another is asked for: a right guess three times in four."""
USUAL_SHARE = Fraction(1, 20)
"""How much of its bounds hides a root of which neither its owner nor its template says anything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """One root's goal, and the largest epsilon that keeps it."""

    root: RootName
    distance: float
    steps: int
    advantage: float
    epsilon: Fraction
    source: GoalSource
    because: str

    @property
    def bound(self) -> float:
        """What is promised at that epsilon: the goal's advantage, or a little less."""
        return advantage_bound({self.root: self.steps}, {self.root: self.epsilon})


def read_goals(
    template: Template,
    hide: Mapping[str, Distance],
    *,
    advantage: str | float | Fraction = ADVANTAGE,
) -> tuple[Goal, ...]:
    """A goal for every root that is noised: the owner's, else the template's, else the usual one.

    Roots go by name, title or alias.
    """
    most = _advantage(advantage)
    noised = tuple(r for r in Graph.of(template).roots if not template.roots[r].public)
    wanted: dict[RootName, Distance] = {}
    for called, distance in hide.items():
        root = template.root(called)
        if root.name not in noised:
            shown = "public" if root.public else "computed from others"
            raise BudgetError(f"{root.name} is {shown}; hide those: {_listed(noised)}")
        if root.name in wanted:
            raise BudgetError(f"{root.name} has two goals; keep one")
        wanted[root.name] = distance
    return tuple(_goal(template, root, wanted.get(root), most) for root in noised)


def hiding_plan(
    template: Template | str,
    hide: Mapping[str, Distance],
    *,
    advantage: str | float | Fraction = ADVANTAGE,
    mechanism_name: MechanismName = "geometric",
    objective: Objective | None = None,
) -> Plan:
    """The plan of least error that keeps every goal; its budget is what that comes to."""
    template = load_template(template) if isinstance(template, str) else template
    goals = read_goals(template, hide, advantage=advantage)
    return plan_at(
        template,
        {goal.root: goal.epsilon for goal in goals},
        mechanism_name=mechanism_name,
        objective=objective,
    )


def joint_advantage(goals: tuple[Goal, ...]) -> float:
    """The bound for two people who differ by its distance in every one of these roots."""
    return advantage_bound(
        {goal.root: goal.steps for goal in goals}, {goal.root: goal.epsilon for goal in goals}
    )


def public_error(root: Root) -> float:
    """How far the best guess from public figures alone is from a value, on average.

    A release that is no nearer than that is of no use. The guess is the population's median: E|X-m|
    is sd * sqrt(2/pi) of a normal root, m * exp(s^2/2) * (2 Phi(s) - 1) of a lognormal one whose
    logarithm deviates by s, and a quarter of the width of an even spread over many points.
    """
    if root.sd is None or root.mean is None:
        points = root.domain.size  # two of them: every second guess of yes or no is wrong
        return root.domain.width * points / (4 * (points - 1))
    match root.shape:
        case "normal":
            return root.sd * math.sqrt(2 / math.pi)
        case "uniform":
            return root.sd * math.sqrt(12) / 4
        case "lognormal":
            log_sd = root.log_sd or math.sqrt(math.log1p((root.sd / root.mean) ** 2))
            median = root.median or root.mean / math.exp(log_sd**2 / 2)
            return median * math.exp(log_sd**2 / 2) * math.erf(log_sd / math.sqrt(2))


def _goal(template: Template, name: RootName, wanted: Distance | None, most: float) -> Goal:
    root = template.roots[name]
    if wanted is not None:
        distance, source, because = _distance(template, root, wanted), "owner", "you chose it"
    elif root.hide is not None:
        distance, source, because = root.hide, "template", root.hide_because or ""
    else:
        distance, source = float(root.domain.width * USUAL_SHARE), "usual"
        because = "a twentieth of the bounds, because nothing else is said"
    # Snapping can set two values apart by the next whole number of steps. An even number of steps
    # comes out of the division with rounding errors.
    steps = max(1, math.ceil(distance / root.domain.step - 1e-9))
    if not root.type.on_a_line and root.type.distances is None:
        steps = 1  # any two answers are told apart alike
    return Goal(
        root=name,
        distance=distance,
        steps=steps,
        advantage=most,
        epsilon=_largest(name, steps, most),
        source=source,  # type: ignore[arg-type]  # one of the three, as set above
        because=because,
    )


def _largest(name: RootName, steps: int, most: float) -> Fraction:
    """The largest whole number of micro-epsilon with tanh(epsilon * steps / 2) <= most."""
    units = min(math.floor(2 * math.atanh(most) / steps * MICRO), MAX_EPSILON * MICRO)
    while units and advantage_bound({name: steps}, {name: Fraction(units, MICRO)}) > most:
        units -= 1  # the last digit of a float
    if not units:
        raise BudgetError(f"{name} cannot be hidden so far so well; ask for a larger advantage")
    return Fraction(units, MICRO)


def _advantage(advantage: str | float | Fraction) -> float:
    try:
        most = float(Fraction(str(advantage)))
    except (ValueError, ZeroDivisionError):
        most = math.nan
    if not 0 < most < 1:
        raise BudgetError("an advantage lies between 0 and 1, such as 0.5")
    return most


def _distance(template: Template, root: Root, wanted: Distance) -> float:
    """In the root's unit. Percent are of the public typical value, never of the person's own."""
    text = str(wanted).strip()
    try:
        number = math.nan if isinstance(wanted, bool) else float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    unit = f" {root.unit}" if root.unit else ""
    if not (math.isfinite(number) and number > 0):
        raise BudgetError(
            f"how far to hide {root.name} must be a number above 0: in{unit or ' its unit'}, "
            "such as 5, or as 10% of a typical value"
        )
    if text.endswith("%"):
        number *= abs(template.centre()[root.name]) / 100
    width = root.domain.width
    if number > width * (1 + 1e-9):
        raise BudgetError(
            f"no two values of {root.name} are {number:.3g}{unit} apart: it lies between "
            f"{root.domain.lower:g} and {root.domain.upper:g}; hide at most {width:.3g}{unit}"
        )
    return min(number, width)


def _listed(names: tuple[RootName, ...]) -> str:
    return ", ".join(names)
