"""A session's answers, against a stateless sanitizer that noises every release on its own."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import count

from benchmarks.measure import Case, Contender
from rootguard import Guard, load_template
from rootguard.mechanisms import mechanism
from rootguard.rng import SECURE

PATIENT = {"age": 52.0, "ast": 31.0, "alt": 28.0, "plt": 214.0}
"""Nobody: plain numbers inside the template's bounds."""


def answers() -> Iterator[Case]:
    template = load_template("fib4")
    session = Guard.open(template, values=PATIENT, budget="0.9")
    domain = next(root.domain for root in template.roots.values() if root.name == "age")
    noise = mechanism("geometric", Fraction("0.1"), domain.size)
    index = domain.nearest(PATIENT["age"])
    alternative = Contender(
        name="a fresh secure draw of a root", call=lambda: domain.value(noise.draw(index, SECURE))
    )
    fresh = count(1)
    for name, call in (
        ("release of a root", lambda: session.release("age")),
        ("release of the target", lambda: session.release("fib4")),
        ("derive, a formula asked before", lambda: session.derive("age * ast / plt")),
        ("derive, a new formula each time", lambda: session.derive(f"age * ast + {next(fresh)}")),
    ):
        yield Case(ours=Contender(name=name, call=call), theirs=alternative, rate=True)
