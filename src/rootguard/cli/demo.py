"""`rootguard demo`: a hostile service questions a patient, guarded in two ways, side by side.

The patient is synthetic. The service is the strongest adversary of `rootguard attack`: it asks for
each value and then where in an ever smaller window around its best guess the value lies. Both sides
put the same noise on an answer, as much as the template's goals ask for. Independent noising draws
it anew for each answer; RootGuard drew it once, before the first question.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rootguard.cli.options import json_option
from rootguard.cli.output import EXIT_CODES, Cell, console, number, table, write_json
from rootguard.values import RootName

if TYPE_CHECKING:
    from rich.text import Text

    from rootguard.attacks.oracle import Oracle
    from rootguard.session import Session
    from rootguard.template import Template

PATIENT = {"age": 61.0, "ast": 88.0, "alt": 52.0, "plt": 140.0}
"""FIB-4 is 5.3 and the class high: who computes it from noised values must still say so."""
QUESTIONS = 12  # about each value; by then independent noising is known to a decimal
_SHOWN = (1, 2, 3, 4, 6, 8, 12)  # of them: close together at first, where an average gains most


@dataclass(frozen=True, kw_only=True, slots=True)
class Pursuit:
    """What a service believes of one value: its best guess after each question, and in the end."""

    guesses: tuple[float, ...]
    low: float
    high: float

    @property
    def guess(self) -> float:
        return self.guesses[-1]


class Demonstration:
    """One patient, guarded in two ways, and what the service makes of the answers."""

    def __init__(self, template: "Template", session: "Session") -> None:
        from rootguard.advice.crowds import IndependentNoising, noising_oracle, session_oracle
        from rootguard.graph import Graph

        self.template = template
        self.session = session
        self.roots = Graph.of(template).roots
        self.independent: dict[RootName, Pursuit] = {}
        self.guarded: dict[RootName, Pursuit] = {}
        first: dict[str, float] = {}
        promised = session.guarantee()
        for root in self.roots:
            noising = IndependentNoising(PATIENT, promised.epsilon_of(root))
            domain = template.roots[root].domain
            first[root] = domain.value(noising.release(root, domain))
            fresh = noising_oracle(noising, template, "geometric")
            self.independent[root] = _pursue(fresh, root)
            self.guarded[root] = _pursue(session_oracle(session, template), root)
        from rootguard.expressions import evaluate

        formula = Graph.of(template).in_roots(template.target.formula)
        self.targets = {
            "truth": evaluate(formula, PATIENT),
            "independent noising": evaluate(formula, first),
            "RootGuard": session.target(),
        }

    def label(self, target: float) -> str:
        """The risk class of a target value."""
        found = self.template.classify(target)
        return "" if found is None else found.label


def _pursue(oracle: "Oracle", root: RootName) -> Pursuit:
    """Zoom in on one value, and say between which values it lies nine times in ten."""
    import numpy as np

    from rootguard.attacks.belief import Belief
    from rootguard.attacks.derived import zoom
    from rootguard.attacks.oracle import QueryLog, grid

    log = QueryLog(oracle)
    guesses = tuple(float(each[0]) for each in zoom(log, root, QUESTIONS))
    domain = log.terms.domain(root)
    if log.terms.cached:
        mesh = grid(domain)
    else:  # fine where it counts: the first guesses are a few grid steps off, the last far less
        near = min(abs(guesses[-1] - guesses[-3]) * 20 + domain.step / 10, domain.width)
        mesh = np.linspace(guesses[-1] - near, guesses[-1] + near, 4001)
    belief = Belief.from_scores(mesh[None, :], log.log_likelihood({root: mesh[None, :]}))
    low, high = (float(belief.quantile(share)[0]) for share in (0.05, 0.95))
    return Pursuit(guesses=guesses, low=low, high=high)


@click.command("demo", epilog=EXIT_CODES)
@json_option
def command(*, as_json: bool) -> None:
    """Watch a hostile service question a patient, with and without RootGuard.

    Both sides put the same noise on an answer. Independent noising draws it anew each time;
    RootGuard drew it once.

    \b
    Example:
      rootguard demo
    """
    from rootguard.session import Guard
    from rootguard.template import load_template

    template = load_template("fib4")
    shown = Demonstration(template, Guard.open(template, values=PATIENT, hide={}))
    if as_json:
        write_json(_as_json(shown))
    else:
        _print(shown)


def _as_json(shown: Demonstration) -> dict[str, object]:
    promised = shown.session.guarantee()
    return {
        "patient": "synthetic",
        "template": shown.template.name,
        "adversary": "MAP, zoom",
        "questions_per_value": QUESTIONS,
        "values": {
            root: {
                "title": shown.template.roots[root].label,
                "unit": shown.template.roots[root].unit,
                "truth": PATIENT[root],
                "hide": shown.template.roots[root].hide,
                "epsilon": float(promised.epsilon_of(root)),
                **{
                    name: {
                        "guess": each[root].guess,
                        "low": each[root].low,
                        "high": each[root].high,
                        "guesses": list(each[root].guesses),
                    }
                    for name, each in (
                        ("independent", shown.independent),
                        ("rootguard", shown.guarded),
                    )
                },
            }
            for root in shown.roots
        },
        "target": {
            name: {"value": value, "risk": shown.label(value)}
            for name, value in shown.targets.items()
        },
    }


def _print(shown: Demonstration) -> None:
    out = console()
    template = shown.template
    first = template.roots[shown.roots[0]]
    out.print(
        f"{template.title}. A hostile service questions a (synthetic) patient: {QUESTIONS} "
        f"questions about each value, ever closer. Both sides put the same noise on an answer; "
        f"independent noising draws it anew each time, RootGuard drew it once.\n",
        markup=False,
    )
    held = shown.guarded[first.name]
    steps: list[tuple[Cell, ...]] = [
        (
            str(turn),
            _plain(shown.independent[first.name].guesses[turn - 1]),
            f"{_plain(held.guesses[turn - 1])} ({held.low:.3g} to {held.high:.3g})",
        )
        for turn in _SHOWN
    ]
    truth = _plain(PATIENT[first.name])
    title = f"{first.label} is {truth} {first.unit}. The service's guesses:"
    out.print(table(title, (">questions", ">independent noising", ">RootGuard"), steps))
    rows: list[tuple[Cell, ...]] = []
    for root in shown.roots:
        each, unit = template.roots[root], template.roots[root].unit
        left, right = shown.independent[root], shown.guarded[root]
        rows.append(
            (
                f"{each.label}, {unit}",
                _plain(PATIENT[root]),
                _red(f"{_verdict(left.guess, root, each.hide)}: {left.guess:.2f}"),
                _green(f"HIDDEN: {right.low:.3g} to {right.high:.3g}"),
            )
        )
    columns = ("value", ">truth", "independent noising", "RootGuard")
    out.print(table(f"What it knows after {QUESTIONS} questions about each", columns, rows))
    values = [
        (name, number(value), shown.label(value), _kept(shown, name))
        for name, value in shown.targets.items()
    ]
    out.print(table("The diagnosis", ("", f">{template.target.name}", "class", ""), values))
    out.print(
        "A range holds nine times in ten. More questions bring independent noising closer to the "
        "truth. RootGuard's range cannot move: "
        "every answer is computed from values that were noised once. Try your own: "
        "rootguard plan fib4 --hide age=5",
        markup=False,
    )


def _verdict(guess: float, root: str, hide: float | None) -> str:
    """Found: to a tenth of what was to be hidden."""
    return "FOUND" if abs(guess - PATIENT[root]) <= (hide or 0) / 10 else "NEARLY"


def _kept(shown: Demonstration, name: str) -> str:
    if name == "truth":
        return ""
    same = shown.label(shown.targets[name]) == shown.label(shown.targets["truth"])
    return "diagnosis kept" if same else "diagnosis CHANGED"


def _plain(value: float) -> str:
    """With a decimal, where there is one."""
    return f"{value:.1f}".removesuffix(".0")


def _red(text: str) -> "Text":
    from rich.text import Text

    return Text(text, style="red")


def _green(text: str) -> "Text":
    from rich.text import Text

    return Text(text, style="green")
