"""What a choice of epsilon would mean: the tables of `rootguard explain`, made once and kept.

A table takes seconds to compute, so it is computed in a thread, one at a time, and asked for until
it is there. It rests on synthetic people and is the same for everybody with the template.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_args

from rootguard.advice.costs import choices, compare, per_root, recommended
from rootguard.advice.epsilon import EPSILONS, Explanation, Tradeoff, explained
from rootguard.advice.utility import CONFIGURATIONS, Configuration, Turns
from rootguard.template import Template
from rootguard.values import LINE_MECHANISMS, MechanismName

CHOSEN: Final[tuple[Configuration, ...]] = tuple(c for c in CONFIGURATIONS if c != "population")
MECHANISMS: Final[tuple[MechanismName, ...]] = LINE_MECHANISMS
TURNS: Final[tuple[Turns, ...]] = get_args(Turns)
# Every mechanism and number of turns of five templates, some kilobytes each.
_KEPT: Final = 64
_WAYS: Final[Mapping[str, str]] = {
    "all": "fresh noise on every answer",
    "roots": "each root noised once, all alike",
    "opt": "each root noised once, most budget where the target needs it",
    "calibrated": "each root noised once, then calibrated with population figures",
    "population": "planned for the population, then calibrated",
}

_Choice = tuple[str, MechanismName, Turns]


@dataclass(kw_only=True, slots=True)
class _Work:
    """One table, under way or done."""

    steps: int = 0
    body: Mapping[str, object] | None = None
    failed: bool = False

    @property
    def progress(self) -> float:
        return min(self.steps / (len(EPSILONS) * len(CHOSEN)), 0.99)


class Tradeoffs:
    """Tables by template, mechanism and turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what is known; never held while a table is computed
        self._turn = threading.Lock()  # one table at a time: each would take a whole core
        self._work: OrderedDict[_Choice, _Work] = OrderedDict()

    def ask(
        self, template: Template, mechanism: MechanismName, turns: Turns
    ) -> Mapping[str, object] | float:
        """The table, or how far it is; asking for it begins it."""
        choice = (template.digest, mechanism, turns)
        with self._lock:
            work = self._work.get(choice)
            if work is None or work.failed:
                work = self._work[choice] = _Work()
                threading.Thread(
                    target=self._compute, args=(work, template, mechanism, turns), daemon=True
                ).start()
                while len(self._work) > _KEPT:
                    self._work.popitem(last=False)
            self._work.move_to_end(choice)
            return work.progress if work.body is None else work.body

    def _compute(
        self, work: _Work, template: Template, mechanism: MechanismName, turns: Turns
    ) -> None:
        def step() -> None:
            work.steps += 1

        try:
            with self._turn:
                found = explained(
                    template,
                    mechanism_name=mechanism,
                    turns=turns,
                    configurations=CHOSEN,
                    progress=step,
                )
                best = recommended(choices(template, mechanism_name=mechanism))
                beside = compare(template, per_root(template, best.plan), mechanism_name=mechanism)
            work.body = tradeoffs_json(found) | {"comparison": beside.record()}
        except Exception:  # noqa: BLE001 - the next question begins anew
            work.failed = True


def tradeoffs_json(found: Explanation) -> dict[str, object]:
    """The table as the page draws it: the numbers of `rootguard explain --json`."""
    return {
        "template": found.template.name,
        "mechanism": found.mechanism,
        "turns": found.turns,
        "target": {"name": found.template.target.name, "unit": found.template.target.unit},
        "median_error": found.median_error,
        "epsilons": [float(epsilon) for epsilon in EPSILONS],
        "rows": [each.record() for each in found.tradeoffs],
        "choices": {
            "mechanisms": list(MECHANISMS),
            "turns": list(TURNS),
            "configurations": list(CHOSEN),
        },
        "sentences": {
            config: {f"{float(e.epsilon):g}": _sentence(found, e) for e in found.of(config)}
            for config in found.configurations
        },
    }


def _found(found: Explanation, each: Tradeoff) -> str:
    """Of each worrying class, how many are found; beside calibration, how many without it."""
    plain = next((one for one in found.of("opt") if one.epsilon == each.epsilon), None)
    said = ""
    for risk in found.template.risk:
        share = each.found.get(risk.label)
        if not risk.worrying or share is None:
            continue
        said += f", {share:.0f} % of the people in {risk.label!r} are found"
        before = plain.found.get(risk.label) if plain and each.config == "calibrated" else None
        said += "" if before is None else f" ({before:.0f} % without calibration)"
    return said


def _sentence(found: Explanation, each: Tradeoff) -> str:
    """What one choice means for this template."""
    classes = ""
    if each.wrong_class_rate is not None:
        classes = f", {each.wrong_class_rate:.3g} % of people are in another class"
        classes += f" (RCE {each.risk_error:.3g} %)"
    classes += _found(found, each)
    said = (
        f"Epsilon {float(each.epsilon):g} over {found.turns} turns is a budget of "
        f"{float(each.budget):.3g}. With {_WAYS[each.config]}, {found.template.target.name} is "
        f"{each.target_error:.3g} % off{classes}; an adversary's best guesses of the roots are "
        f"{each.adversary_error:.3g} % off (MAP, "
        f"{'one answer' if each.answers == 1 else f'{each.answers} answers'} about each)"
    )
    if each.config == "all":
        return f"{said}, and nearer with every turn."
    if each.target_error > found.median_error:
        return (
            f"{said}. Answering everybody with the population's median would be nearer "
            f"({found.median_error:.3g} % off) and cost nothing."
        )
    return f"{said}, however often they ask."
