"""What a formula can be, and how steep, when each name may be anything within its bounds.

`bounds` is the natural interval extension, `derivative_bounds` interval forward mode: both walk
the tree once and treat every occurrence of a name as unrelated to the others, so they are safe but
not tight (`x - x` is not 0). Boxes are the declared, public bounds of names, never a person's
values; an error here may show them.
"""

import math
from collections.abc import Callable, Mapping
from typing import assert_never

from rootguard.errors import FormulaError, FormulaNameError, FormulaUndefinedError
from rootguard.expressions.evaluation import LN_2, LN_10, absent_name, holds, outcome_of
from rootguard.expressions.interval_arithmetic import (
    ONE,
    UNSURE,
    WHOLE,
    ZERO,
    Interval,
    add,
    divide,
    exponential,
    fixed_power,
    hull,
    logarithm,
    magnitude,
    multiply,
    negate,
    square_root,
    step,
    varied_power,
)
from rootguard.expressions.nodes import (
    MAX_EXPONENT,
    Arithmetic,
    Choose,
    Compare,
    CompareOperator,
    FunctionCall,
    Logic,
    Negate,
    Node,
    Not,
    NumberLiteral,
    Variable,
)

__all__ = ["Interval", "bounds", "derivative_bounds"]

Slopes = tuple[Interval, dict[str, Interval]]

_LOGARITHMS = {"ln": math.log, "log": math.log, "log10": math.log10, "log2": math.log2}
_STEPS: Mapping[str, Callable[[float], int]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "round": round,
}


def bounds(node: Node, box: Mapping[str, Interval]) -> Interval:
    """An interval that holds `evaluate` at every point of the box where it has a value.

    Raises `FormulaUndefinedError` if it has one nowhere, `FormulaNameError` for a missing name.
    """
    error = absent_name(node, box)
    if error:
        raise error
    result = _bounds(node, box)
    if result is None:
        raise FormulaUndefinedError("nowhere defined within these bounds")
    return result


def derivative_bounds(
    node: Node, box: Mapping[str, Interval]
) -> tuple[Interval, dict[str, Interval]]:
    """The bounds, and for each free name an interval that holds its partial derivative.

    At a kink it holds the slopes of both sides. Where the box can cross a jump (a step function, a
    comparison or a condition that is not decided) the slope along the names that cause the jump is
    unbounded, so width times slope never understates a difference. Raises as `bounds` does.
    """
    error = absent_name(node, box)
    if error:
        raise error
    result = _slopes(node, box)
    if result is None:
        raise FormulaUndefinedError("nowhere defined within these bounds")
    value, partials = result
    return value, {name: partials.get(name, ZERO) for name in sorted(node.free)}


def _fixed(node: Node) -> Interval | None:
    """The one value of a formula without names, as `evaluate` has it."""
    outcome = outcome_of(node, {})
    return None if isinstance(outcome, FormulaError) else Interval(outcome, outcome)


def _bounds(node: Node, box: Mapping[str, Interval]) -> Interval | None:
    if not node.free:
        return _fixed(node)
    match node:
        case NumberLiteral():
            return Interval(node.value, node.value)
        case Variable(name):
            return box[name]
        case Negate(operand):
            inner = _bounds(operand, box)
            return None if inner is None else negate(inner)
        case Not(operand):
            inner = _bounds(operand, box)
            return None if inner is None else add(ONE, negate(_truth(inner)))
        case Compare(relation, left, right):
            first, second = _bounds(left, box), _bounds(right, box)
            if first is None or second is None:
                return None
            return _compare(relation, first, second)
        case Logic("and", left, right):
            return _both(_bounds(left, box), _bounds(right, box))
        case Logic(_, left, right):
            # a or b is not (not a and not b), where the right side is asked in the same cases.
            neither = _both(_opposite(_bounds(left, box)), _opposite(_bounds(right, box)))
            return _opposite(neither)
        case Choose(condition, then, otherwise):
            decision = _bounds(condition, box)
            if decision is None:
                return None
            branches = []
            if decision != ZERO:
                branches.append(_bounds(then, box))
            if 0.0 in decision:
                branches.append(_bounds(otherwise, box))
            defined = [branch for branch in branches if branch is not None]
            return hull(defined) if defined else None
        case Arithmetic(_, left, right):
            first, second = _bounds(left, box), _bounds(right, box)
            if first is None or second is None:
                return None
            return _arithmetic(node, first, second)
        case FunctionCall(function, parts):
            arguments: list[Interval] = []
            for part in parts:
                argument = _bounds(part, box)
                if argument is None:
                    return None
                arguments.append(argument)
            return _call(function, arguments)
        case _:
            assert_never(node)


def _truth(x: Interval) -> Interval:
    if x == ZERO:
        return ZERO
    return UNSURE if 0.0 in x else ONE


def _opposite(x: Interval | None) -> Interval | None:
    return None if x is None else add(ONE, negate(_truth(x)))


def _both(left: Interval | None, right: Interval | None) -> Interval | None:
    if left is None or left == ZERO:
        return left
    if right is None:  # a value only where the left side is false
        return ZERO if 0.0 in left else None
    return Interval(
        min(_truth(left).lower, _truth(right).lower), min(_truth(left).upper, _truth(right).upper)
    )


def _compare(operator: CompareOperator, left: Interval, right: Interval) -> Interval:
    if operator in ("==", "!="):
        if left.upper < right.lower or right.upper < left.lower:
            equal = ZERO
        else:
            equal = ONE if left.single and left == right else UNSURE
        return equal if operator == "==" else add(ONE, negate(equal))
    # An order holds most easily with one side at its lowest and the other at its highest.
    first = holds(operator, left.lower, right.upper)
    second = holds(operator, left.upper, right.lower)
    return Interval(float(first and second), float(first or second))


def _arithmetic(node: Arithmetic, left: Interval, right: Interval) -> Interval | None:
    match node.operator:
        case "+":
            return add(left, right)
        case "-":
            return add(left, negate(right))
        case "*":
            return multiply(left, right)
        case "/":
            return divide(left, right)
        case "**":
            lower, upper = max(right.lower, -MAX_EXPONENT), min(right.upper, MAX_EXPONENT)
            if lower > upper:
                return None
            if right.single:
                return fixed_power(left, lower)
            return varied_power(left, Interval(lower, upper))
        case _:
            assert_never(node.operator)


def _call(function: str, arguments: list[Interval]) -> Interval | None:
    x = arguments[0]
    if function in _LOGARITHMS:
        return logarithm(x, _LOGARITHMS[function])
    if function in _STEPS:
        return step(x, _STEPS[function])
    match function:
        case "sqrt":
            return square_root(x)
        case "exp":
            return exponential(x)
        case "abs":
            return magnitude(x)
        case "min":
            return Interval(min(a.lower for a in arguments), min(a.upper for a in arguments))
        case "max":
            return Interval(max(a.lower for a in arguments), max(a.upper for a in arguments))
        case "clip":
            return _call("min", [_highest(x, arguments[1]), arguments[2]])
        case _:
            raise FormulaNameError(function)


def _highest(x: Interval, y: Interval) -> Interval:
    return Interval(max(x.lower, y.lower), max(x.upper, y.upper))


def _slopes(node: Node, box: Mapping[str, Interval]) -> Slopes | None:
    """Bounds and partials; a name that does not occur has no entry."""
    if not node.free:
        fixed = _fixed(node)
        return None if fixed is None else (fixed, {})
    match node:
        case NumberLiteral():
            return Interval(node.value, node.value), {}
        case Variable(name):
            return box[name], {name: ONE}
        case Compare() | Logic() | Not():
            value = _bounds(node, box)
            if value is None:
                return None
            return value, {} if value.single else dict.fromkeys(node.free, WHOLE)
        case Negate(operand):
            inner = _slopes(operand, box)
            if inner is None:
                return None
            return negate(inner[0]), {name: negate(slope) for name, slope in inner[1].items()}
        case Choose():
            return _choose_slopes(node, box)
        case Arithmetic(_, left, right):
            first, second = _slopes(left, box), _slopes(right, box)
            if first is None or second is None:
                return None
            value = _arithmetic(node, first[0], second[0])
            if value is None:
                return None
            slopes = _arithmetic_slopes(node, first[0], second[0], value)
            return value, _chain(slopes, [first, second])
        case FunctionCall(function, parts):
            inputs: list[Slopes] = []
            for part in parts:
                result = _slopes(part, box)
                if result is None:
                    return None
                inputs.append(result)
            return _call_slopes(function, inputs)
        case _:
            assert_never(node)


def _chain(slopes: list[Interval], inputs: list[Slopes]) -> dict[str, Interval]:
    """The chain rule, in the order of operations of `gradient`, so that it holds its result."""
    total: dict[str, Interval] = {}
    for slope, (_, partials) in zip(slopes, inputs, strict=True):
        for name, partial in partials.items():
            total[name] = add(total.get(name, ZERO), multiply(slope, partial))
    return total


def _choose_slopes(node: Choose, box: Mapping[str, Interval]) -> Slopes | None:
    decision = _bounds(node.condition, box)
    if decision is None:
        return None
    then = None if decision == ZERO else _slopes(node.then, box)
    otherwise = _slopes(node.otherwise, box) if 0.0 in decision else None
    if then is None or otherwise is None:
        return otherwise if then is None else then
    partials: dict[str, Interval] = {}
    for name in node.free:
        # Along a name that the condition does not read, no branch is left for the other.
        sides = then[1].get(name, ZERO), otherwise[1].get(name, ZERO)
        partials[name] = WHOLE if name in node.condition.free else hull(sides)
    return hull((then[0], otherwise[0])), partials


def _extreme(function: str, inputs: list[Slopes]) -> Slopes:
    """`min` or `max`: the hull of the slopes of every argument that can attain the value."""
    value = _call(function, [argument for argument, _ in inputs]) or WHOLE
    attaining = [
        partials
        for argument, partials in inputs
        if argument.lower <= value.upper and argument.upper >= value.lower
    ]
    names = sorted({name for partials in attaining for name in partials})
    return value, {name: hull(partials.get(name, ZERO) for partials in attaining) for name in names}


def _arithmetic_slopes(
    node: Arithmetic, left: Interval, right: Interval, value: Interval
) -> list[Interval]:
    match node.operator:
        case "+":
            return [ONE, ONE]
        case "-":
            return [ONE, negate(ONE)]
        case "*":
            return [right, left]
        case "/":
            return [divide(ONE, right) or WHOLE, negate(divide(value, right) or WHOLE)]
        case "**" if not node.right.free:
            if right == ZERO:
                return [ZERO, ZERO]
            lowered = fixed_power(left, right.lower - 1.0)
            return [WHOLE if lowered is None else multiply(right, lowered), ZERO]
        case "**":
            logs = logarithm(left, math.log)
            if left.lower < 0.0 or logs is None:
                return [WHOLE, WHOLE]
            exponents = Interval(max(right.lower, -MAX_EXPONENT), min(right.upper, MAX_EXPONENT))
            lowered = varied_power(left, add(exponents, negate(ONE)))
            return [
                WHOLE if lowered is None else multiply(exponents, lowered),
                multiply(value, logs),
            ]
        case _:
            assert_never(node.operator)


def _call_slopes(function: str, inputs: list[Slopes]) -> Slopes | None:
    if function in ("min", "max"):
        return _extreme(function, inputs)
    if function == "clip":
        return _extreme("min", [_extreme("max", inputs[:2]), inputs[2]])
    x = inputs[0][0]
    value = _call(function, [x])
    if value is None:
        return None
    return value, _chain([_call_slope(function, x, value)], inputs)


def _call_slope(function: str, x: Interval, value: Interval) -> Interval:
    match function:
        case "sqrt":
            return divide(Interval(0.5, 0.5), value) or WHOLE
        case "log" | "ln" | "log10" | "log2":
            scale = {"log10": LN_10, "log2": LN_2}.get(function, 1.0)
            positive = Interval(max(x.lower, 0.0), x.upper)
            return divide(ONE, multiply(positive, Interval(scale, scale))) or WHOLE
        case "exp":
            return value
        case "abs":
            return Interval(
                float(x.lower > 0.0) - float(x.lower < 0.0),
                float(x.upper > 0.0) - float(x.upper < 0.0),
            )
        case "ceil" | "floor" | "round":
            return ZERO if value.single else WHOLE
        case _:
            raise FormulaNameError(function)
