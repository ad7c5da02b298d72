"""What a formula can be, and how steep, when each name may be anything within its bounds.

`bounds` is the natural interval extension, `derivative_bounds` interval forward mode: both walk
the tree once and treat every occurrence of a name as unrelated to the others, so they are safe but
not tight (`x - x` is not 0). Boxes are the declared, public bounds of names, never a person's
values; an error here may show them.

Arithmetic on intervals is rounded outwards: each operation returns an interval that holds every
result of the same operation in floating point on numbers of its arguments, wherever that has a
value; None if it has one nowhere. An end point is moved one float outwards (several for logarithms,
exponentials and powers, which are not correctly rounded), except where the result is known to be
exact. An end of 0 times an unbounded end is 0: every member of an interval is a real number.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, assert_never

from rootguard.errors import FormulaError, FormulaNameError, FormulaUndefinedError
from rootguard.expressions import nodes
from rootguard.expressions.evaluation import LN_2, LN_10, absent_name, holds, outcome_of

# Whole numbers below it, their sums and products are floats: nothing was rounded.
_EXACT_BELOW: Final = 2.0**53
# SVML, which NumPy may use, promises 4 units in the last place; the C library about 1. Twice that.
_LOOSE: Final = 8.0 * 2.0**-52


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `lower` to `upper`, either of which may be infinite."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ValueError("an interval's lower end must not be above its upper end, nor NaN")

    def __contains__(self, number: float) -> bool:
        return self.lower <= number <= self.upper

    @property
    def single(self) -> bool:
        """Whether there is one number in it."""
        return self.lower == self.upper


ZERO: Final = Interval(0.0, 0.0)
ONE: Final = Interval(1.0, 1.0)
UNSURE: Final = Interval(0.0, 1.0)
WHOLE: Final = Interval(-math.inf, math.inf)


def hull(intervals: Iterable[Interval]) -> Interval:
    """The smallest interval around some intervals."""
    several = tuple(intervals)
    return Interval(min(i.lower for i in several), max(i.upper for i in several))


def negate(x: Interval) -> Interval:
    """-x, exactly."""
    return Interval(-x.upper, -x.lower)


def add(x: Interval, y: Interval) -> Interval:
    """The sum x + y."""
    return Interval(_sum(x.lower, y.lower, -math.inf), _sum(x.upper, y.upper, math.inf))


def multiply(x: Interval, y: Interval) -> Interval:
    """The product x * y, treating the two as unrelated."""
    if x.lower >= 0.0 and y.lower >= 0.0:  # most of them, and four times as quick
        lower = _product(x.lower, y.lower, -math.inf)
        return Interval(lower, _product(x.upper, y.upper, math.inf))
    corners = [(a, b) for a in (x.lower, x.upper) for b in (y.lower, y.upper)]
    return Interval(
        min(_product(a, b, -math.inf) for a, b in corners),
        max(_product(a, b, math.inf) for a, b in corners),
    )


def divide(x: Interval, y: Interval) -> Interval | None:
    """The quotient x / y where y is not 0; unbounded if y comes near 0, None if y is 0 only."""
    if y == ZERO:
        return None
    if x == ZERO:
        return ZERO
    if y.lower < 0.0 < y.upper:
        return WHOLE
    if x.lower >= 0.0 and y.lower > 0.0:
        lower = _quotient(x.lower, y.upper, 1.0, -math.inf)
        return Interval(lower, _quotient(x.upper, y.lower, 1.0, math.inf))
    corners = [(a, b) for a in (x.lower, x.upper) for b in (y.lower, y.upper)]
    side = 1.0 if y.upper > 0.0 else -1.0
    return Interval(
        min(_quotient(a, b, side, -math.inf) for a, b in corners),
        max(_quotient(a, b, side, math.inf) for a, b in corners),
    )


def square_root(x: Interval) -> Interval | None:
    """The square root of the part of x that is not negative."""
    if x.upper < 0.0:
        return None
    lower, upper = math.sqrt(max(x.lower, 0.0)), math.sqrt(x.upper)
    if not (lower.is_integer() and lower * lower == x.lower):
        lower = max(0.0, math.nextafter(lower, -math.inf))
    if not (upper.is_integer() and upper * upper == x.upper):
        upper = math.nextafter(upper, math.inf)
    return Interval(lower, upper)


def logarithm(x: Interval, function: Callable[[float], float]) -> Interval | None:
    """The logarithm of the positive part of x; minus infinity is its end if x reaches 0."""
    if x.upper <= 0.0:
        return None
    lower = _down(function(x.lower)) if x.lower > 0.0 else -math.inf
    return Interval(lower, _up(function(x.upper)))


def exponential(x: Interval) -> Interval:
    """The exponential e ** x."""
    return Interval(max(0.0, _down(_exp(x.lower))), _up(_exp(x.upper)))


def magnitude(x: Interval) -> Interval:
    """|x|, exactly."""
    lowest = max(x.lower, -x.upper, 0.0)
    return Interval(lowest, max(-x.lower, x.upper))


def step(x: Interval, function: Callable[[float], int]) -> Interval:
    """floor, ceil or round of x: rising, so the ends decide."""
    lower, upper = (
        float(function(end)) if math.isfinite(end) else end for end in (x.lower, x.upper)
    )
    return Interval(lower, upper)


def fixed_power(x: Interval, exponent: float) -> Interval | None:
    """The power x ** exponent for one exponent, tight for even and odd whole exponents."""
    if exponent == 0.0:
        return ONE
    if exponent == 1.0:
        return x
    if exponent.is_integer():
        if exponent < 0.0:
            raised = fixed_power(x, -exponent)
            return None if raised is None else loosened(divide(ONE, raised))
        base = magnitude(x) if exponent % 2.0 == 0.0 else x
        if exponent == 2.0:
            return _square(base)
        return Interval(_end(base.lower, exponent, _down), _end(base.upper, exponent, _up))
    if x.upper < 0.0 or (exponent < 0.0 and x.upper == 0.0):
        return None
    ends = max(x.lower, 0.0), x.upper
    lower, upper = ends if exponent > 0.0 else ends[::-1]
    return Interval(max(0.0, _end(lower, exponent, _down)), _end(upper, exponent, _up))


def varied_power(x: Interval, exponents: Interval) -> Interval | None:
    """The power x ** y for y in an interval: any y where x > 0, whole y where x < 0.

    x ** y is monotone in each of x > 0 and y, so its extremes are at the corners.
    """
    pieces: list[Interval] = []
    if x.upper >= 0.0:
        pieces.append(_corners(Interval(max(x.lower, 0.0), x.upper), exponents))
    if x.lower < 0.0 and math.floor(exponents.upper) >= exponents.lower:
        largest = _corners(magnitude(Interval(x.lower, min(x.upper, 0.0))), exponents)
        pieces += [largest, negate(largest)]
    return hull(pieces) if pieces else None


def _corners(x: Interval, exponents: Interval) -> Interval:
    corners = [(a, b) for a in (x.lower, x.upper) for b in (exponents.lower, exponents.upper)]
    return Interval(
        max(0.0, min(_end(a, b, _down) for a, b in corners)),
        max(_end(a, b, _up) for a, b in corners),
    )


def _square(x: Interval) -> Interval:
    return Interval(
        max(0.0, _product(x.lower, x.lower, -math.inf)), _product(x.upper, x.upper, math.inf)
    )


def _end(base: float, exponent: float, away: Callable[[float], float]) -> float:
    if base == 0.0:
        return 0.0 if exponent > 0.0 else 1.0 if exponent == 0.0 else math.inf
    try:
        return away(math.pow(base, exponent))
    except OverflowError:
        return away(math.copysign(math.inf, base))  # whose even powers are of its magnitude


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _sum(a: float, b: float, towards: float) -> float:
    if a == 0.0 or b == 0.0:
        return a + b
    total = a + b
    if math.isnan(total):  # opposite infinities: nothing is known at this end
        return towards
    return total if _whole(a, b, total) else math.nextafter(total, towards)


def _product(a: float, b: float, towards: float) -> float:
    if a == 0.0 or b == 0.0:
        return 0.0
    product = a * b
    if _whole(a, b, product) or 1.0 in (a, b) or -1.0 in (a, b):
        return product
    return math.nextafter(product, towards)


def _quotient(a: float, b: float, side: float, towards: float) -> float:
    """The quotient a / b, where b = 0 stands for the numbers beside 0 on the given side."""
    if a == 0.0 or (math.isinf(a) and math.isinf(b)):
        return 0.0
    if b == 0.0:
        return math.copysign(math.inf, a * side)
    quotient = a / b
    if _whole(a, b, quotient) and quotient * b == a:
        return quotient
    return math.nextafter(quotient, towards)


def _whole(a: float, b: float, result: float) -> bool:
    return (a.is_integer() and b.is_integer() and result.is_integer()) and max(
        abs(a), abs(b), abs(result)
    ) < _EXACT_BELOW


def loosened(x: Interval | None) -> Interval | None:
    """Wider by what a library's functions may be off."""
    return None if x is None else Interval(_down(x.lower), _up(x.upper))


def _down(x: float) -> float:
    return math.nextafter(x - abs(x) * _LOOSE if math.isfinite(x) else x, -math.inf)


def _up(x: float) -> float:
    return math.nextafter(x + abs(x) * _LOOSE if math.isfinite(x) else x, math.inf)


Slopes = tuple[Interval, dict[str, Interval]]
_T = TypeVar("_T")

_LOGARITHMS = {"ln": math.log, "log": math.log, "log10": math.log10, "log2": math.log2}
_STEPS: Mapping[str, Callable[[float], int]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "round": round,
}


def bounds(node: nodes.Node, box: Mapping[str, Interval]) -> Interval:
    """An interval that holds `evaluate` at every point of the box where it has a value.

    Raises `FormulaUndefinedError` if it has one nowhere, `FormulaNameError` for a missing name.
    """
    return _over(node, box, _bounds_of)


def derivative_bounds(
    node: nodes.Node, box: Mapping[str, Interval]
) -> tuple[Interval, dict[str, Interval]]:
    """The bounds, and for each free name an interval that holds its partial derivative.

    At a kink it holds the slopes of both sides. Where the box can cross a jump (a step function, a
    comparison or a condition that is not decided) the slope along the names that cause the jump is
    unbounded, so width times slope never understates a difference. Raises as `bounds` does.
    """
    value, partials = _over(node, box, _slopes_of)
    return value, {name: partials.get(name, ZERO) for name in sorted(node.free)}


def _over(
    node: nodes.Node,
    box: Mapping[str, Interval],
    made: Callable[[nodes.Node, list[_T | None], Mapping[str, Interval]], _T | None],
) -> _T:
    """What is made of a formula from its parts up; refused if there is nothing anywhere."""
    error = absent_name(node, box)
    if error:
        raise error
    result = nodes.fold(node, lambda each, below: made(each, below, box))
    if result is None:
        raise FormulaUndefinedError("nowhere defined within these bounds")
    return result


def constant(node: nodes.Node) -> Interval | None:
    """The one value of a formula without names, as `evaluate` has it."""
    outcome = outcome_of(node, {})
    return None if isinstance(outcome, FormulaError) else Interval(outcome, outcome)


def _bounds_of(
    node: nodes.Node, below: list[Interval | None], box: Mapping[str, Interval]
) -> Interval | None:
    """A node's bounds from those of its parts."""
    if not node.free:
        return constant(node)
    match node:
        case nodes.NumberLiteral():
            return Interval(node.value, node.value)
        case nodes.Variable(name):
            return box[name]
        case nodes.Logic("and"):
            return _both(*below)
        case nodes.Logic():
            # a or b is not (not a and not b), where the right side is asked in the same cases.
            left, right = below
            return _opposite(_both(_opposite(left), _opposite(right)))
        case nodes.Choose():
            decision, then, otherwise = below
            if decision is None:
                return None
            branches = [then] if decision != ZERO else []
            if 0.0 in decision:
                branches.append(otherwise)
            defined = [branch for branch in branches if branch is not None]
            return hull(defined) if defined else None
        case _:
            known = _defined(below)
    if known is None:
        return None
    match node:
        case nodes.Negate():
            (value,) = known
            return negate(value)
        case nodes.Not():
            (value,) = known
            return add(ONE, negate(_truth(value)))
        case nodes.Compare(relation):
            return _compare(relation, known[0], known[1])
        case nodes.Arithmetic():
            return arithmetic(node, known[0], known[1])
        case nodes.FunctionCall(function):
            return call(function, known)
        case _:
            assert_never(node)


def _defined(results: Iterable[_T | None]) -> list[_T] | None:
    """All of them; None from the first that has a value nowhere."""
    found = []
    for result in results:
        if result is None:
            return None
        found.append(result)
    return found


def _truth(x: Interval) -> Interval:
    if x == ZERO:
        return ZERO
    return UNSURE if 0.0 in x else ONE


def _opposite(x: Interval | None) -> Interval | None:
    return None if x is None else add(ONE, negate(_truth(x)))


def _both(left: Interval | None, right: Interval | None) -> Interval | None:
    if left is None:
        return None
    if right is None:  # a value only where the left side is false
        return ZERO if 0.0 in left else None
    return Interval(
        min(_truth(left).lower, _truth(right).lower), min(_truth(left).upper, _truth(right).upper)
    )


def _compare(operator: nodes.CompareOperator, left: Interval, right: Interval) -> Interval:
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


def arithmetic(node: nodes.Arithmetic, left: Interval, right: Interval) -> Interval | None:
    """The bounds of an operation's result from those of its sides; None if it has none."""
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
            lower, upper = (
                max(right.lower, -nodes.MAX_EXPONENT),
                min(right.upper, nodes.MAX_EXPONENT),
            )
            if lower > upper:
                return None
            if right.single:
                return fixed_power(left, lower)
            return varied_power(left, Interval(lower, upper))
        case _:
            assert_never(node.operator)


def call(function: str, arguments: list[Interval]) -> Interval | None:
    """The bounds of a function's result from those of its arguments; None if it has none."""
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
            return call("min", [_highest(x, arguments[1]), arguments[2]])
        case _:
            raise FormulaNameError(function)


def _highest(x: Interval, y: Interval) -> Interval:
    return Interval(max(x.lower, y.lower), max(x.upper, y.upper))


def _slopes_of(
    node: nodes.Node, below: list[Slopes | None], box: Mapping[str, Interval]
) -> Slopes | None:
    """Bounds and partials, from those of its parts; a name that does not occur has no entry."""
    if not node.free:
        fixed = constant(node)
        return None if fixed is None else (fixed, {})
    match node:
        case nodes.NumberLiteral():
            return Interval(node.value, node.value), {}
        case nodes.Variable(name):
            return box[name], {name: ONE}
        case nodes.Compare() | nodes.Logic() | nodes.Not():
            bounded = _bounds_of(node, [None if each is None else each[0] for each in below], box)
            if bounded is None:
                return None
            return bounded, {} if bounded.single else dict.fromkeys(node.free, WHOLE)
        case nodes.Choose():
            return _choose_slopes(node, *below)
        case _:
            known = _defined(below)
    if known is None:
        return None
    match node:
        case nodes.Negate():
            ((inner, partials),) = known
            return negate(inner), {name: negate(slope) for name, slope in partials.items()}
        case nodes.Arithmetic():
            first, second = known
            value = arithmetic(node, first[0], second[0])
            if value is None:
                return None
            slopes = arithmetic_slopes(node, first[0], second[0], value)
            return value, chained(slopes, known)
        case nodes.FunctionCall(function):
            return _call_slopes(function, known)
        case _:
            assert_never(node)


def chained(slopes: list[Interval], inputs: list[Slopes]) -> dict[str, Interval]:
    """The chain rule, in the order of operations of `gradient`, so that it holds its result."""
    total: dict[str, Interval] = {}
    for slope, (_, partials) in zip(slopes, inputs, strict=True):
        for name, partial in partials.items():
            total[name] = add(total.get(name, ZERO), multiply(slope, partial))
    return total


def _choose_slopes(
    node: nodes.Choose, condition: Slopes | None, then: Slopes | None, otherwise: Slopes | None
) -> Slopes | None:
    if condition is None:
        return None
    decision = condition[0]
    then = None if decision == ZERO else then
    otherwise = otherwise if 0.0 in decision else None
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
    value = call(function, [argument for argument, _ in inputs]) or WHOLE
    attaining = [
        partials
        for argument, partials in inputs
        if argument.lower <= value.upper and argument.upper >= value.lower
    ]
    names = sorted({name for partials in attaining for name in partials})
    return value, {name: hull(partials.get(name, ZERO) for partials in attaining) for name in names}


def arithmetic_slopes(
    node: nodes.Arithmetic, left: Interval, right: Interval, value: Interval
) -> list[Interval]:
    """The slopes of an operation's result along its two sides."""
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
            exponents = Interval(
                max(right.lower, -nodes.MAX_EXPONENT), min(right.upper, nodes.MAX_EXPONENT)
            )
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
    ((x, _),) = inputs
    value = call(function, [x])
    if value is None:
        return None
    return value, chained([call_slope(function, x, value)], inputs)


def call_slope(function: str, x: Interval, value: Interval) -> Interval:
    """The slope of a function of one argument."""
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
