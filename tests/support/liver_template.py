"""A small template that uses every part of the format, and ways to change and compute it."""

import pytest

from rootguard.errors import TemplateError
from rootguard.expressions import evaluate, names
from rootguard.template import Template, parse_template

BASE = """\
name = "liver"
title = "A liver score"
field = "medicine"
sources = ["Somebody 2006"]

[roots.age]
lower = 18
upper = 80
unit = "years"
aliases = ["years old"]
mean = 50
sd = 19

[roots.ast]
lower = 7.0
upper = 272.0
unit = "U/L"
aliases = ["SGOT"]
mean = 23.6
sd = 13.4
shape = "lognormal"

[roots.decades]
lower = 1.8
upper = 8.0
formula = "age / 10"

[derived.half]
formula = "ast / 2"
unit = "U/L"
description = "Half of it."

[derived.quarter]
formula = "half / 2"

[target]
name = "score"
formula = "decades * quarter"
unit = "points"

[[risk]]
label = "low"
below = 10

[[risk]]
label = "middle"
at_most = 20

[[risk]]
label = "high"

[population]
roots = ["age", "ast"]
covariance = [[361.0, 20.0], [20.0, 179.56]]
source = "A survey"
"""


def changed(old: str, new: str) -> str:
    assert BASE.count(old) == 1, old
    return BASE.replace(old, new)


def refusal(text: str) -> TemplateError:
    with pytest.raises(TemplateError) as caught:
        parse_template(text, file="liver.toml")
    return caught.value


def compute(template: Template, roots: dict[str, float]) -> float:
    """The target, by the plainest way: compute whatever can be computed until it can."""
    values = dict(roots)
    formulas = {n: d.formula for n, d in template.derived.items()}
    formulas |= {n: r.formula for n, r in template.roots.items() if r.formula is not None}
    for _ in formulas:
        for name, formula in formulas.items():
            if names(formula) <= values.keys():
                values[name] = evaluate(formula, values)
    return evaluate(template.target.formula, values)


MATRIX = "[[361.0, 20.0], [20.0, 179.56]]"
