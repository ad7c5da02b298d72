"""`rootguard demo`: a hostile service questions a patient, guarded in two ways, side by side.

The patient is synthetic. The service asks every root, then zooms in: it asks where the value lies
in an ever smaller window around its best guess, and at last takes all roots for the diagnosis.
Independent noising gives each answer fresh noise on the answer's own scale, so each window makes
the noise smaller in the patient's units. RootGuard computes all answers from values noised once.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from rootguard.cli.options import json_option
from rootguard.cli.output import EXIT_CODES, Cell, console, number, table, write_json
from rootguard.values import Domain, RootName

if TYPE_CHECKING:
    from rich.text import Text

    from rootguard.attacks import Observation
    from rootguard.mechanisms.base import Floats
    from rootguard.session import Session
    from rootguard.template import Template

PATIENT = {"age": 54.0, "ast": 23.0, "alt": 30.0, "plt": 220.0}
EPSILON = Fraction(1, 10)  # the paper's main figure
ZOOMS = 2  # with four roots 13 turns, which fit on a screen; a third would show nothing new
# The second window is a hundredth of the range and has 1,000 grid points. Twice as fine as these,
# so that the guess is limited by the noise and not by the candidates.
_CANDIDATES = 200_001
_SIDES = ("turn", "question", ">independent noising", ">RootGuard")
_UNIT = Domain(lower=0.0, upper=1.0, size=1000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One question and the two answers to it."""

    number: int
    question: str
    independent: float
    guarded: float


class HostileService:
    """Asks, remembers, and guesses each root from everything it was told."""

    def __init__(self, template: "Template", patient: dict[str, float], session: "Session") -> None:
        from rootguard.advice.crowds import IndependentNoising
        from rootguard.graph import Graph

        self.template = template
        self.roots = Graph.of(template).roots
        self.session = session
        self.noising = IndependentNoising(patient, EPSILON)
        self.turns: list[Turn] = []
        self._answers: dict[RootName, list[Observation]] = {root: [] for root in self.roots}
        self._formulas: dict[RootName, list[str]] = {root: [] for root in self.roots}

    def interrogate(self) -> None:
        """Every root, then windows around the best guess, then all roots for the diagnosis."""
        from rootguard.expressions import evaluate

        for root in self.roots:
            self._ask(root, f"What is your {root}?", root, self._domain(root))
        for zoom in range(1, ZOOMS + 1):
            for root in self.roots:
                low, high = self._window(root, zoom)
                unit = self.template.roots[root].unit
                question = f"Where between {low:.4g} and {high:.4g} {unit} is {root}?"
                formula = f"clip(({root} - {low!r}) / {high - low!r}, 0, 1)"
                self._ask(root, question, formula, _UNIT)
        for root in self.roots:
            self._observe(root, root, self._domain(root))
        last = {str(root): self._last(root) for root in self.roots}
        fib4 = self.session.graph.in_roots(self.template.target.formula)
        self.turns.append(
            Turn(
                number=len(self.turns) + 1,
                question=f"All {len(self.roots)} values, for the diagnosis",
                independent=evaluate(fib4, last),
                guarded=self.session.target(),
            )
        )

    def _domain(self, root: RootName) -> Domain:
        return self.template.roots[root].domain

    def _ask(self, root: RootName, question: str, formula: str, domain: Domain) -> None:
        index = self._observe(root, formula, domain)
        guarded = self.session.number(root) if formula == root else self.session.derive(formula)
        self.turns.append(
            Turn(
                number=len(self.turns) + 1,
                question=question,
                independent=domain.value(index),
                guarded=guarded,
            )
        )

    def _observe(self, root: RootName, formula: str, domain: Domain) -> int:
        """Get an independently noised answer and note what each candidate would have given."""
        import numpy as np

        from rootguard.attacks import Observation
        from rootguard.expressions import evaluate_many, parse
        from rootguard.mechanisms import mechanism

        received = self.noising.release(formula, domain)
        exact = evaluate_many(parse(formula), {root: self._candidates(root)})
        expected = np.rint((exact - domain.lower) / domain.step).astype(np.int64)
        noise = mechanism("geometric", EPSILON, domain.size)
        self._answers[root].append(Observation(received=received, expected=expected, noise=noise))
        self._formulas[root].append(formula)
        return received

    def _candidates(self, root: RootName) -> "Floats":
        import numpy as np

        domain = self._domain(root)
        return np.linspace(domain.lower, domain.upper, _CANDIDATES)

    def _last(self, root: RootName) -> float:
        return self._domain(root).value(self._answers[root][-1].received)

    def _window(self, root: RootName, zoom: int) -> tuple[float, float]:
        """Ten times narrower at each zoom: five noise scales to either side of the guess."""
        domain = self._domain(root)
        width = domain.width * 10.0**-zoom
        low = min(max(self.guess_independent(root) - width / 2, domain.lower), domain.upper - width)
        return low, low + width

    def guess_independent(self, root: RootName) -> float:
        """The MAP estimate from all independently noised answers."""
        from rootguard.attacks import map_estimate

        return float(self._candidates(root)[map_estimate(self._answers[root])])

    def guess_guarded(self, root: RootName) -> float:
        """The MAP estimate from RootGuard's answers: they all follow from one noised value."""
        import numpy as np

        from rootguard.attacks import Observation, map_estimate
        from rootguard.mechanisms import mechanism

        value = self.session.number(root)
        domain = self._domain(root)
        epsilon = self.session.guarantee().epsilon_of(root)
        observation = Observation(
            received=domain.nearest(value),
            expected=np.arange(domain.size),
            noise=mechanism("geometric", epsilon, domain.size),
        )
        return domain.value(map_estimate([observation]))

    def level_independent(self, root: RootName) -> float:
        """Epsilon per grid step that independent noising has spent on a root (Theorem 2)."""
        from rootguard.accounting import accumulated_level, slopes
        from rootguard.expressions import parse

        domains = {str(root): self._domain(root)}
        asked = self._formulas[root]
        amplified = [
            slopes(parse(formula), domains)[0].amplification for formula in asked if formula != root
        ]
        return accumulated_level(EPSILON, repeats=asked.count(root), amplifications=amplified)


@click.command("demo", epilog=EXIT_CODES)
@json_option
def command(*, as_json: bool) -> None:
    """Watch a hostile service question a patient for 13 turns.

    Left, every answer is noised independently; right, RootGuard. Both get epsilon 0.1 per turn.

    \b
    Example:
      rootguard demo
    """
    from rootguard.session import Guard
    from rootguard.template import load_template

    template = load_template("fib4")
    turns = len(PATIENT) * (1 + ZOOMS) + 1
    session = Guard.open(template, values=PATIENT, epsilon=EPSILON, turns=turns)
    service = HostileService(template, PATIENT, session)
    service.interrogate()
    if as_json:
        write_json(_as_json(service))
    else:
        _print(service)


def _as_json(service: HostileService) -> dict[str, object]:
    target = _truth(service.template)
    risk = service.template.classify
    last = service.turns[-1]
    return {
        "patient": "synthetic",
        "template": service.template.name,
        "epsilon_per_turn": float(EPSILON),
        "turns": [
            {
                "turn": t.number,
                "question": t.question,
                "independent": t.independent,
                "rootguard": t.guarded,
            }
            for t in service.turns
        ],
        "adversary": {
            root: {
                "truth": PATIENT[root],
                "independent": service.guess_independent(root),
                "rootguard": service.guess_guarded(root),
            }
            for root in service.roots
        },
        "target": {"truth": target, "independent": last.independent, "rootguard": last.guarded},
        "risk": {
            name: None if (found := risk(value)) is None else found.label
            for name, value in (
                ("truth", target),
                ("independent", last.independent),
                ("rootguard", last.guarded),
            )
        },
        "epsilon_spent": {
            root: {
                "independent": service.level_independent(root),
                "rootguard": float(service.session.guarantee().epsilon_of(root)),
            }
            for root in service.roots
        },
    }


def _truth(template: "Template") -> float:
    from rootguard.expressions import evaluate
    from rootguard.graph import Graph

    return evaluate(Graph.of(template).in_roots(template.target.formula), PATIENT)


def _print(service: HostileService) -> None:
    out = console()
    template = service.template
    out.print(
        f"[bold]{template.title}[/]: a hostile service questions a (synthetic) patient for "
        f"{len(service.turns)} turns, at epsilon {float(EPSILON):g} per turn.\n"
    )
    asked = [
        (str(t.number), t.question, _red(number(t.independent)), _green(number(t.guarded)))
        for t in service.turns
    ]
    out.print(table("what each answered", _SIDES, asked))
    columns = ("root", ">truth", ">from independent noising", ">from RootGuard")
    out.print(table("what a MAP adversary concludes", columns, _conclusions(service)))
    last = service.turns[-1]
    values = {
        "truth": _truth(template),
        "independent noising": last.independent,
        "RootGuard": last.guarded,
    }
    rows = [
        (label, number(value), "" if (found := template.classify(value)) is None else found.label)
        for label, value in values.items()
    ]
    out.print(table("the diagnosis", ("", f">{template.target.name}", "risk"), rows))
    spent = ("root", *_SIDES[-2:])
    out.print(table("privacy spent, epsilon per grid step", spent, _spending(service)))
    out.print(
        "More questions bring the red column closer to the truth. The green one cannot move: every "
        "answer in it is computed from values noised once."
    )


def _conclusions(service: HostileService) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for root in service.roots:
        truth, unit = PATIENT[root], service.template.roots[root].unit
        left, right = service.guess_independent(root), service.guess_guarded(root)
        rows.append(
            (
                f"{root} [{unit}]",
                number(truth),
                _red(f"{number(left)}  ({abs(left - truth) / truth:.2%} off)"),
                _green(f"{number(right)}  ({abs(right - truth) / truth:.2%} off)"),
            )
        )
    return rows


def _spending(service: HostileService) -> list[tuple[Cell, ...]]:
    guarantee = service.session.guarantee()
    left = {root: service.level_independent(root) for root in service.roots}
    right = {root: float(guarantee.epsilon_of(root)) for root in service.roots}
    rows: list[tuple[Cell, ...]] = [
        (root, _red(number(left[root])), _green(number(right[root]))) for root in service.roots
    ]
    rows.append(("all", _red(number(sum(left.values()))), _green(number(float(guarantee.total)))))
    return rows


def _red(text: str) -> "Text":
    from rich.text import Text

    return Text(text, style="red")


def _green(text: str) -> "Text":
    from rich.text import Text

    return Text(text, style="green")
