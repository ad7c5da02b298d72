"""A formula's value at one point, and how fast it changes there.

Inside, a failure is data: an error is made where something is undefined, handed up unraised, and
raised once, from a frame that has let go of the values. So neither its message nor its context
nor its traceback holds a number. (Not by `shielded`: this is the hot path of every answer, and
columns, bounds and the parser want the outcome as data.) There is no fallback value of any kind.

Logarithms, exponentials and powers go through NumPy's scalar path, so that one row evaluated here
and a million rows evaluated by `evaluate_many` are computed by the same code.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar, assert_never

import numpy as np

from rootguard.errors import (
    FormulaError,
    FormulaLimitError,
    FormulaNameError,
    FormulaUndefinedError,
)
from rootguard.expressions.nodes import (
    CONSTANTS,
    MAX_EXPONENT,
    MAX_MAGNITUDE,
    Arithmetic,
    ArithmeticOperator,
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
    fold,
    steps,
)

Outcome = float | FormulaError
"""A value, or the error that says why there is none; not raised yet."""
Partials = dict[str, float]
_T = TypeVar("_T")

LN_10: Final = math.log(10.0)
LN_2: Final = math.log(2.0)


def evaluate(node: Node, values: Mapping[str, float]) -> float:
    """The value of a formula at one point.

    Raises `FormulaNameError` for a name without a value, used or not; `FormulaUndefinedError`
    where the formula has no value; `FormulaLimitError` where a result is over `MAX_MAGNITUDE` or
    an exponent over `MAX_EXPONENT`. An input that is not finite has no value either.
    """
    outcome = absent_name(node, values) or outcome_of(node, values)
    del values
    if isinstance(outcome, FormulaError):
        raise outcome
    return outcome


def gradient(node: Node, values: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """The value and the partial derivative for each free name (forward mode).

    At kinks: abs'(0) = 0; `min` and `max` follow the first argument that attains the value; `clip`
    follows x inside its edges and on them; round, floor, ceil, comparisons and logic have slope 0;
    a conditional follows the branch taken. With a name in y, x**y is differentiated for x > 0
    only. The square root has no slope at 0: `FormulaUndefinedError`.
    """
    error = absent_name(node, values)
    if error is None:
        with np.errstate(all="ignore"):
            result = _slope(node, values)
    else:
        result = error
    del values
    if isinstance(result, FormulaError):
        raise result
    value, partials = result
    return value, {name: partials.get(name, 0.0) for name in sorted(node.free)}


def absent_name(node: Node, given: Iterable[str]) -> FormulaNameError | None:
    """The error for the first free name that is not given, if there is one."""
    known = frozenset(given)
    for name in sorted(node.free - known):
        return FormulaNameError(name, tuple(sorted(known)))
    return None


def outcome_of(node: Node, values: Mapping[str, float]) -> Outcome:
    """The value, or the error to raise, where every free name is given."""
    if isinstance(node, NumberLiteral):
        return node.value
    with np.errstate(all="ignore"):
        return _value(node, values)


def _value(node: Node, values: Mapping[str, float]) -> Outcome:
    found: list[Outcome] = []
    for each, places in steps(node):
        if type(each) is Arithmetic:  # most of them; this is the hot path of every answer
            left, right = found[places[0]], found[places[1]]
            if isinstance(left, FormulaError):
                found.append(left)
            elif isinstance(right, FormulaError):
                found.append(right)
            else:
                found.append(_arithmetic(each.operator, left, right))
        else:
            found.append(_value_of(each, [found[place] for place in places], values))
    return found[-1]


def _value_of(node: Node, below: list[Outcome], values: Mapping[str, float]) -> Outcome:
    """A node's value from those of its parts. Of a branch that is not taken no failure counts."""
    match node:
        case NumberLiteral(value):
            return value
        case Variable(name):
            return CONSTANTS[name] if name in CONSTANTS else _given(values[name])
        case Logic(connective):
            first, second = below
            if isinstance(first, FormulaError):
                return first
            if (first != 0.0) == (connective == "or"):
                return float(first != 0.0)
            return second if isinstance(second, FormulaError) else float(second != 0.0)
        case Choose():
            decision, then, otherwise = below
            if isinstance(decision, FormulaError):
                return decision
            return then if decision != 0.0 else otherwise
        case _:
            operands = _defined(below)
    if isinstance(operands, FormulaError):
        return operands
    match node:
        case Negate():
            return -operands[0]
        case Not():
            return float(operands[0] == 0.0)
        case Arithmetic(operator):
            return _arithmetic(operator, *operands)
        case Compare(relation):
            return float(holds(relation, *operands))
        case FunctionCall(function):
            return _call(function, operands)
        case _:
            assert_never(node)


def _defined(below: list[_T | FormulaError]) -> list[_T] | FormulaError:
    """What the parts of a node came to, or the first failure among them."""
    found: list[_T] = []
    for part in below:
        if isinstance(part, FormulaError):
            return part
        found.append(part)
    return found


def _given(value: float) -> Outcome:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    return _checked(number)


def _checked(number: float) -> Outcome:
    if abs(number) <= MAX_MAGNITUDE:
        return number
    if math.isfinite(number):
        return FormulaLimitError("result", MAX_MAGNITUDE)
    return FormulaUndefinedError("not a number" if math.isnan(number) else "overflow")


def _arithmetic(operator: ArithmeticOperator, left: float, right: float) -> Outcome:
    match operator:
        case "+":
            return _checked(left + right)
        case "-":
            return _checked(left - right)
        case "*":
            return _checked(left * right)
        case "/":
            if right == 0.0:
                return FormulaUndefinedError("division by zero")
            return _checked(left / right)
        case "**":
            if abs(right) > MAX_EXPONENT:
                return FormulaLimitError("exponent", MAX_EXPONENT)
            if (left == 0.0 and right < 0.0) or (left < 0.0 and not right.is_integer()):
                return FormulaUndefinedError("power")
            return _checked(_power(left, right))
        case _:
            assert_never(operator)


def _power(base: float, exponent: float) -> float:
    """A power that is defined; the easy exponents are the ones `evaluate_many` takes apart."""
    if exponent == 1.0:
        return base
    if exponent == 2.0:
        return base * base
    if exponent == 0.5:
        return math.sqrt(base)
    return float(np.power(base, exponent))


def holds(operator: CompareOperator, left: float, right: float) -> bool:
    """Whether the comparison is true."""
    match operator:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case "==":
            return left == right
        case "!=":
            return left != right
        case _:
            assert_never(operator)


def _call(function: str, arguments: list[float]) -> Outcome:
    x = arguments[0]
    match function:
        case "sqrt":
            if x < 0.0:
                return FormulaUndefinedError("square root of a negative number")
            return math.sqrt(x)
        case "log" | "ln" | "log10" | "log2":
            if x <= 0.0:
                return FormulaUndefinedError("logarithm of a number that is not positive")
            if function == "log10":
                return float(np.log10(x))
            return float(np.log2(x) if function == "log2" else np.log(x))
        case "exp":
            return _checked(float(np.exp(x)))
        case "abs":
            return abs(x)
        case "min":
            return min(arguments)
        case "max":
            return max(arguments)
        case "clip":
            return min(max(x, arguments[1]), arguments[2])
        case "round":
            return math.copysign(round(x), x)
        case "floor":
            return math.copysign(math.floor(x), x)
        case "ceil":
            return math.copysign(math.ceil(x), x)
        case _:
            raise FormulaNameError(function)


_Slope = tuple[float, Partials]


def _slope(node: Node, values: Mapping[str, float]) -> _Slope | FormulaError:
    """Value and partials; a name that does not occur has no entry."""
    return fold(node, lambda each, below: _slope_of(each, below, values))


def _slope_of(
    node: Node, below: list[_Slope | FormulaError], values: Mapping[str, float]
) -> _Slope | FormulaError:
    match node:
        case Variable(name) if node.free:
            given = _given(values[name])
            return given if isinstance(given, FormulaError) else (given, {name: 1.0})
        case NumberLiteral() | Variable() | Compare() | Logic() | Not():
            plain = [each if isinstance(each, FormulaError) else each[0] for each in below]
            flat = _value_of(node, plain, values)
            return flat if isinstance(flat, FormulaError) else (flat, {})
        case Choose():
            decision, then, otherwise = below
            if isinstance(decision, FormulaError):
                return decision
            return then if decision[0] != 0.0 else otherwise
        case _:
            inputs = _defined(below)
    if isinstance(inputs, FormulaError):
        return inputs
    arguments = [argument for argument, _ in inputs]
    match node:
        case Negate():
            return _chain(-arguments[0], [-1.0], inputs)
        case Arithmetic(operator, _, right):
            value = _arithmetic(operator, *arguments)
            if isinstance(value, FormulaError):
                return value
            first, second = arguments
            slopes = _arithmetic_slopes(operator, first, second, value, bool(right.free))
            return _chain(value, slopes, inputs)
        case FunctionCall(function):
            outcome = _call(function, arguments)
            if isinstance(outcome, FormulaError):
                return outcome
            return _chain(outcome, _call_slopes(function, arguments, outcome), inputs)
        case _:
            assert_never(node)


def _chain(
    value: float, slopes: list[float] | FormulaError, inputs: list[tuple[float, Partials]]
) -> tuple[float, Partials] | FormulaError:
    """The chain rule: each partial is the sum of local slope times inner partial."""
    if not any(partials for _, partials in inputs):
        return value, {}
    if isinstance(slopes, FormulaError):
        return slopes
    total: Partials = {}
    for slope, (_, partials) in zip(slopes, inputs, strict=True):
        for name, partial in partials.items():
            total[name] = total.get(name, 0.0) + slope * partial
    for partial in total.values():
        outcome = _checked(partial)
        if isinstance(outcome, FormulaError):
            return outcome
    return value, total


def _arithmetic_slopes(
    operator: ArithmeticOperator, left: float, right: float, value: float, bends: bool
) -> list[float] | FormulaError:
    """The local slopes to the left and to the right; `bends` where the exponent has names."""
    match operator:
        case "+":
            return [1.0, 1.0]
        case "-":
            return [1.0, -1.0]
        case "*":
            return [right, left]
        case "/":
            return [1.0 / right, -(value / right)]
        case "**" if bends:
            if left <= 0.0:
                return FormulaUndefinedError("power")
            return [right * _power(left, right - 1.0), value * float(np.log(left))]
        case "**":
            if right == 0.0:
                return [0.0, 0.0]
            if left == 0.0 and right < 1.0:
                return FormulaUndefinedError("power")
            return [right * _power(left, right - 1.0), 0.0]
        case _:
            assert_never(operator)


def _call_slopes(function: str, arguments: list[float], value: float) -> list[float] | FormulaError:
    x = arguments[0]
    match function:
        case "sqrt":
            if value == 0.0:
                return FormulaUndefinedError("slope of a square root at zero")
            return [0.5 / value]
        case "log" | "ln":
            return [1.0 / x]
        case "log10":
            return [1.0 / (x * LN_10)]
        case "log2":
            return [1.0 / (x * LN_2)]
        case "exp":
            return [value]
        case "abs":
            return [float(x > 0.0) - float(x < 0.0)]
        case "min" | "max":
            first = arguments.index(value)
            return [float(place == first) for place in range(len(arguments))]
        case "clip":
            _, lower, upper = arguments
            if max(x, lower) > upper or lower == upper:  # with no room between, it is the upper
                return [0.0, 0.0, 1.0]
            return [1.0, 0.0, 0.0] if x >= lower else [0.0, 1.0, 0.0]
        case "round" | "floor" | "ceil":
            return [0.0]
        case _:
            raise FormulaNameError(function)
