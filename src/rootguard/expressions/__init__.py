"""The formula language: what a template may compute from roots, and nothing else.

A formula is text of a small grammar (`grammar`), read into frozen nodes (`nodes`) under limits
that hold for every tree. It is evaluated at a point (`evaluation`), in a million rows (`columns`)
or over a box (`intervals`), with derivatives. It cannot call out, loop, or name anything but
numbers.
"""

from rootguard.expressions.columns import evaluate_many
from rootguard.expressions.evaluation import evaluate, gradient
from rootguard.expressions.extremes import Extremes
from rootguard.expressions.grammar import (
    check_unfolded,
    parse,
    put_in,
    spelled_out,
    substitute,
    to_text,
)
from rootguard.expressions.intervals import Interval, bounds, derivative_bounds
from rootguard.expressions.nodes import (
    CONSTANTS,
    FUNCTIONS,
    MAX_ARGUMENTS,
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_LENGTH,
    MAX_LEVELS,
    MAX_MAGNITUDE,
    MAX_NAME_LENGTH,
    MAX_NODES,
    MAX_PARTS,
    Arithmetic,
    Choose,
    Compare,
    FunctionCall,
    Logic,
    Negate,
    Node,
    Not,
    NumberLiteral,
    Variable,
    names,
)

__all__ = [
    "CONSTANTS",
    "FUNCTIONS",
    "MAX_ARGUMENTS",
    "MAX_DEPTH",
    "MAX_EXPONENT",
    "MAX_LENGTH",
    "MAX_LEVELS",
    "MAX_MAGNITUDE",
    "MAX_NAME_LENGTH",
    "MAX_NODES",
    "MAX_PARTS",
    "Arithmetic",
    "Choose",
    "Compare",
    "Extremes",
    "FunctionCall",
    "Interval",
    "Logic",
    "Negate",
    "Node",
    "Not",
    "NumberLiteral",
    "Variable",
    "bounds",
    "check_unfolded",
    "derivative_bounds",
    "evaluate",
    "evaluate_many",
    "gradient",
    "names",
    "parse",
    "put_in",
    "spelled_out",
    "substitute",
    "to_text",
]
