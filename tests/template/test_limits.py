"""Every limit that docs/templates.md names: reached here, or refused by name when it is passed."""

from fractions import Fraction

import pytest

from rootguard import Guard, MemoryStore, make_plan
from rootguard.allocation import Plan
from rootguard.errors import TemplateError
from rootguard.expressions import MAX_NODES, MAX_PARTS
from rootguard.expressions.nodes import MAX_DEPTH, MAX_LENGTH, MAX_LEVELS
from rootguard.graph import Graph
from rootguard.template import Template, parse_template
from rootguard.template.reading import MAX_BYTES, MAX_DERIVED, MAX_ROOTS
from rootguard.values import RootName

CHAIN = 200


def written(roots: int, formulas: list[str], target: str) -> str:
    lines = ['name = "large"', 'title = "Large"', 'field = "test"', 'description = "Large."']
    lines += [
        f'[roots.r{number}]\nunit = "kg"\nlower = 1\nupper = 10\nmean = 5\nsd = 1\ngrid = 50'
        for number in range(roots)
    ]
    lines += [f'[derived.d{n}]\nformula = "{formula}"' for n, formula in enumerate(formulas)]
    return "\n".join([*lines, f'[target]\nname = "t"\nunit = "kg"\nformula = "{target}"'])


def large() -> Template:
    """As many roots and derived values as there may be, 200 of which are a chain."""
    chain = ["r0", *(f"d{n - 1} + r{n % MAX_ROOTS}" for n in range(1, CHAIN))]
    others = [f"2 * r{n % MAX_ROOTS}" for n in range(MAX_DERIVED - CHAIN)]
    text = written(MAX_ROOTS, [*chain, *others], f"d{CHAIN - 1} / {CHAIN}")
    return parse_template(text, file="large.toml")


def test_a_template_at_all_limits_loads_plans_opens_releases_and_derives() -> None:
    template = large()
    assert (len(template.roots), len(template.derived)) == (MAX_ROOTS, MAX_DERIVED)
    plan = make_plan(template, Fraction(MAX_ROOTS))
    assert isinstance(plan, Plan)
    assert len(plan.shares) == MAX_ROOTS
    session = Guard.open(
        template,
        values={str(root): 5.0 for root in template.roots},
        budget=str(MAX_ROOTS),
        store=MemoryStore(),
    )
    noised = {str(root): session.number(root) for root in template.roots}
    total = sum(noised[f"r{number % MAX_ROOTS}"] for number in range(CHAIN))
    assert session.target() == pytest.approx(total / CHAIN)
    assert session.derive(f"d{CHAIN - 1} + d{MAX_DERIVED - 1}") == pytest.approx(
        total + 2 * noised[f"r{(MAX_DERIVED - CHAIN - 1) % MAX_ROOTS}"]
    )


def test_a_chain_is_calibrated_too() -> None:
    template = large()
    values = {str(root): 5.0 for root in template.roots}
    session = Guard.open(template, values=values, budget="64", store=MemoryStore(), calibrate=True)
    assert 1 <= session.target() <= 10


def test_a_sum_may_have_all_roots() -> None:
    total = " + ".join(f"r{number}" for number in range(MAX_ROOTS))
    template = parse_template(written(MAX_ROOTS, [], total), file="sum.toml")
    assert len(make_plan(template, Fraction(MAX_ROOTS)).shares) == MAX_ROOTS
    assert Graph.of(template).rests_on(template.target.formula) == tuple(
        RootName(f"r{number}") for number in range(MAX_ROOTS)
    )


def nested(inner: str, levels: int) -> str:
    return "abs(" * (levels - 1) + inner + ")" * (levels - 1)


def deep(levels: int) -> str:
    """A chain whose last value has so many levels, 50 in each formula."""
    whole, rest = divmod(levels - 1, 50)
    formulas = [nested("r0", rest + 1), *(nested(f"d{n}", 51) for n in range(whole))]
    return written(1, formulas, f"d{whole}")


@pytest.mark.parametrize(
    "text",
    [
        written(1, [], nested("r0", MAX_DEPTH)),
        written(1, [], "r0" + " " * (MAX_LENGTH - 5) + "+ 0"),
        deep(MAX_LEVELS),
    ],
    ids=["levels of a formula", "characters", "levels of formulas of formulas"],
)
def test_a_formula_at_a_limit_loads_plans_and_gives_its_value(text: str) -> None:
    template = parse_template(text, file="at.toml")
    session = Guard.open(template, values={"r0": 5.0}, budget="1", store=MemoryStore())
    assert session.target() == session.number("r0")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (written(MAX_ROOTS + 1, [], "r0"), str(MAX_ROOTS)),
        (written(1, ["r0"] * (MAX_DERIVED + 1), "r0"), str(MAX_DERIVED)),
        (written(1, [], "+".join(["r0"] * (MAX_NODES // 2 + 1))), str(MAX_NODES)),
        (
            written(1, ["r0", *(f"d{n} * d{n}" for n in range(20))], "d20"),
            f"computed values put in is over the limit of {MAX_PARTS}",
        ),
        (written(1, [], "r0") + "\n#" + "x" * MAX_BYTES, f"{MAX_BYTES // 1024} KiB"),
        (written(1, [], nested("r0", MAX_DEPTH + 1)), f"limit of {MAX_DEPTH}"),
        (written(1, [], "r0" + " " * (MAX_LENGTH - 4) + "+ 0"), f"limit of {MAX_LENGTH}"),
        (deep(MAX_LEVELS + 1), f"limit of {MAX_LEVELS}"),
    ],
    ids=[
        *("roots", "derived values", "parts", "parts of formulas of formulas", "bytes"),
        *("levels of a formula", "characters", "levels of formulas of formulas"),
    ],
)
def test_what_passes_a_limit_is_refused_when_it_is_loaded(text: str, said: str) -> None:
    with pytest.raises(TemplateError, match=said):
        parse_template(text, file="over.toml")
