"""What an owner changes on the page: a value, at a price that is approved first, or the goals.

Only here does the console write, and only for who has a key to a profile. A typed value is sealed
at once, noised and dropped; it is in no answer, and a refusal names the root alone. Before the
price is approved nothing is looked up that follows from the value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rootguard.advice.costs import PEOPLE, plan_cost
from rootguard.console.people import Viewer
from rootguard.errors import AccessError, BudgetError, PrivateValueError, RootGuardError, shielded
from rootguard.goals import hiding_plan, joint_advantage, read_goals
from rootguard.session import load_profile
from rootguard.session.changes import ChangeOffer, change, offers, unseen
from rootguard.session.profile import save_goals
from rootguard.template import Root, Template
from rootguard.values import MICRO

READ_ONLY: Final = (
    "This page can only read: it was opened without a profile, or by a gateway without keys. "
    "Start rootguard console --profile me.toml to change a value."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedChange:
    """Why nothing was changed, in words that name roots and no values."""

    message: str


def changes_json(viewer: Viewer) -> dict[str, object]:
    """What may be entered, and what each would cost."""
    if viewer.profile is None:
        return {"allowed": False, "why": READ_ONLY, "unseen": False, "values": []}
    profile = load_profile(viewer.profile)
    return {
        "allowed": True,
        "why": "",
        "unseen": unseen(viewer.store, viewer.principal),
        "values": [_offer(each) for each in offers(profile, viewer.store)],
    }


def _offer(offer: ChangeOffer) -> dict[str, object]:
    root = offer.root
    return {
        "name": root.name,
        "title": root.label,
        "unit": root.unit,
        "type": root.type.name,
        "wanted": root.wanted,
        "answers": list(root.type.answers),
        "lower": _bound(root, root.domain.lower),
        "upper": _bound(root, root.domain.upper),
        "public": root.public,
        "noised": offer.noised,
        "in_profile": offer.in_profile,
        "price": offer.price / MICRO,
        "spent": offer.spent / MICRO,
        "cap": None if offer.cap is None else offer.cap / MICRO,
        "affordable": offer.affordable,
    }


def _bound(root: Root, bound: float) -> float | str:
    return root.type.written(bound) if root.type.name == "date" else bound


@shielded
def apply_change(viewer: Viewer, values: Mapping[str, object]) -> dict[str, object] | RefusedChange:
    """Noise what the owner entered and approved; what it cost."""
    if viewer.profile is None:
        raise AccessError("console")
    replaced = unseen(viewer.store, viewer.principal)
    try:
        charged = change(load_profile(viewer.profile), viewer.store, values)
    except (BudgetError, PrivateValueError) as problem:  # both name roots and prices alone
        return RefusedChange(message=_titled(viewer, problem))
    return {"charged": charged, "total": sum(charged.values()), "replaced": replaced}


def _titled(viewer: Viewer, problem: RootGuardError) -> str:
    """The refusal, with roots as people call them."""
    if isinstance(problem, PrivateValueError):
        titles = {str(name): r.label for t in viewer.templates for name, r in t.roots.items()}
        listed = ", ".join(titles.get(name, name) for name in problem.roots)
        return f"{problem.problem[:1].upper()}{problem.problem[1:]}: {listed}."
    text = str(problem)
    return f"{text[:1].upper()}{text[1:]}."


def goal_cost_json(
    viewer: Viewer, template: Template, hide: Mapping[str, float]
) -> dict[str, object] | RefusedChange:
    """What hiding each value so far costs, and whether it can be saved; goals are public."""
    try:
        found = _cost(template, tuple(sorted(hide.items())), viewer.advantage)
    except BudgetError as problem:
        return RefusedChange(message=_titled(viewer, problem))
    return {**found, "can_save": viewer.profile is not None}


@lru_cache(maxsize=256)
def _cost(
    template: Template, hide: tuple[tuple[str, float], ...], advantage: str
) -> dict[str, object]:
    goals = read_goals(template, dict(hide), advantage=advantage)
    plan = hiding_plan(template, dict(hide), advantage=advantage)
    cost = plan_cost(template, plan, people=PEOPLE)
    roots = template.roots
    return {
        "template": template.name,
        "target": template.target.name,
        "target_error": cost.target_error,
        "median_error": cost.median_error,
        "wrong_class_rate": cost.wrong_class_rate,
        "budget": float(plan.budget),
        "advantage": float(advantage),
        "joint": joint_advantage(goals),
        "values": [
            {
                "name": goal.root,
                "title": roots[goal.root].label,
                "unit": roots[goal.root].unit,
                "hide": goal.distance,
                "because": goal.because,
                "least": roots[goal.root].domain.step,
                "most": roots[goal.root].domain.width,
                "advised": roots[goal.root].hide,
                "error": plan[goal.root].expected_error,
                "adversary": cost.adversary[goal.root],
            }
            for goal in goals
        ],
    }


def own_goals(viewer: Viewer, template: Template) -> dict[str, float]:
    """How far each value of a template is hidden by the profile, or should be as it advises."""
    own = {name: far for name, far in viewer.hide.items() if name in template.roots}
    return {str(goal.root): goal.distance for goal in read_goals(template, own)}


def save(viewer: Viewer, hide: Mapping[str, float]) -> dict[str, object] | RefusedChange:
    """Write goals into the profile; those of its other templates stay as they are."""
    if viewer.profile is None:
        raise AccessError("console")
    try:
        kept = {
            root: far
            for template in viewer.templates
            for root, far in own_goals(viewer, template).items()
        }
        save_goals(viewer.profile, {**kept, **hide})
    except RootGuardError as problem:  # a profile's error names its file and key, never a value
        return RefusedChange(message=_titled(viewer, problem))
    return {"saved": True, "noised": bool(viewer.store.records(viewer.principal))}
