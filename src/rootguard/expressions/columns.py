"""A formula's value in every row of some columns: NaN where one row alone would be refused.

Rows are taken in blocks that stay in the processor's cache. A block is first computed plainly,
with NumPy told to raise at a division by zero, an invalid operation or an overflow, while a bound
on the magnitude of every intermediate result is carried along: if the bound stays below the limit
and nothing raised, no row can have been refused. Otherwise the block is computed again with a mask
of the refused rows carried through every node, so NaN never turns into a number on its way through
a comparison, and a branch that is not taken cannot spoil a row.
"""

import math
from collections.abc import Mapping
from functools import reduce
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from rootguard.errors import FormulaError, FormulaNameError
from rootguard.expressions import nodes
from rootguard.expressions.evaluation import absent_name, outcome_of

Column = NDArray[np.float64]
Mask = NDArray[np.bool_]

# A block's column has 256 KiB, so that a handful of intermediate results stay in a core's cache.
_ROWS: Final = 32_768
# Short enough that BLAS sums a stretch in the calling thread (see `_size`).
_STRETCH: Final = 1_024
# Bounds are themselves rounded; a factor of ten below the limit is far more than they can lose.
_TRUSTED: Final = nodes.MAX_MAGNITUDE / 10.0

_LOGARITHMS: Final = {"ln": np.log, "log": np.log, "log10": np.log10, "log2": np.log2}
_STEPS: Final = {"ceil": np.ceil, "floor": np.floor, "round": np.rint}
_RELATIONS: Final = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


class _NeedsCareError(Exception):
    """The plain computation cannot vouch for this block. Never leaves this module."""


def evaluate_many(node: nodes.Node, columns: Mapping[str, Column]) -> Column:
    """The value in each row; NaN in the rows where `evaluate` has none.

    A formula without names is repeated to the length of the columns. Columns of different
    lengths, no columns at all, or a column that is not a row of numbers are a `ValueError`; a name
    without a column is a `FormulaNameError`.
    """
    error = absent_name(node, columns)
    arrays = {} if error else _arrays(columns)
    lengths = {array.shape for array in arrays.values() if array is not None}
    unusable = [name for name, array in arrays.items() if array is None]
    del columns
    if error:
        raise error
    if unusable or len(lengths) != 1 or len(next(iter(lengths))) != 1:
        del arrays
        raise ValueError("the columns must be rows of numbers, all of one length")
    ((length,),) = lengths
    result = np.empty(length)
    for start in range(0, length, _ROWS):
        rows = slice(start, start + _ROWS)
        block = {name: array[rows] for name, array in arrays.items() if array is not None}
        result[rows] = _block(node, block, len(result[rows]))
    return result


def _arrays(columns: Mapping[str, Column]) -> dict[str, Column | None]:
    arrays: dict[str, Column | None] = {}
    for name, column in columns.items():
        try:
            arrays[name] = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            arrays[name] = None
    return arrays


def _block(node: nodes.Node, block: Mapping[str, Column], rows: int) -> Column | float:
    try:
        with np.errstate(divide="raise", invalid="raise", over="raise", under="ignore"):
            value, size = _plain(node, block, {})
        if size <= _TRUSTED:
            return value
    except (FloatingPointError, _NeedsCareError):
        pass
    with np.errstate(all="ignore"):
        careful, refused = _careful(node, block, rows)
    careful[refused] = np.nan
    return careful


def _size(column: Column) -> float:
    """An upper bound of the magnitudes in a column; NaN or infinite if an entry is.

    The root of a sum of squares, which takes one pass where a minimum and a maximum take two. It
    is summed in short stretches: given a whole block, BLAS starts threads and waits for them.
    """
    whole = len(column) - len(column) % _STRETCH
    stretches = column[:whole].reshape(-1, _STRETCH)
    squares = float(np.add.reduce(np.vecdot(stretches, stretches)))
    if whole < len(column):
        rest = column[whole:]
        squares += float(np.vecdot(rest, rest))
    return math.sqrt(squares)


def _spare(*operands: Column | float) -> Column | None:
    """An operand that may be overwritten: an intermediate result, not a view of a column.

    Every block is a slice, so a column has a base and an array that was made here has none.
    """
    for operand in operands:
        if isinstance(operand, np.ndarray) and operand.base is None:
            return operand
    return None


def _plain(
    node: nodes.Node, block: Mapping[str, Column], sizes: dict[str, float]
) -> tuple[Column | float, float]:
    """The values, and a bound on their magnitude that must stay below the limit."""
    value, size = _plain_node(node, block, sizes)
    if not size <= _TRUSTED:
        raise _NeedsCareError
    return value, size


def _plain_node(
    node: nodes.Node, block: Mapping[str, Column], sizes: dict[str, float]
) -> tuple[Column | float, float]:
    if not node.free:
        fixed = outcome_of(node, {})
        if isinstance(fixed, FormulaError):
            raise _NeedsCareError
        return fixed, abs(fixed)
    match node:
        case nodes.Variable(name):
            if name not in sizes:
                sizes[name] = _size(block[name])
            return block[name], sizes[name]
        case nodes.Negate(operand):
            inner, size = _plain(operand, block, sizes)
            return np.negative(inner, out=_spare(inner)), size
        case nodes.Arithmetic(operator, left, right):
            first, first_size = _plain(left, block, sizes)
            second, second_size = _plain(right, block, sizes)
            match operator:
                case "+":
                    return np.add(
                        first, second, out=_spare(first, second)
                    ), first_size + second_size
                case "-":
                    return np.subtract(
                        first, second, out=_spare(first, second)
                    ), first_size + second_size
                case "*":
                    return np.multiply(
                        first, second, out=_spare(first, second)
                    ), first_size * second_size
                case "/":
                    quotient = np.divide(first, second, out=_spare(first, second))
                    return quotient, _size(quotient)
                case "**":
                    if second_size > nodes.MAX_EXPONENT and np.any(
                        np.abs(second) > nodes.MAX_EXPONENT
                    ):
                        raise _NeedsCareError
                    power = _power(first, second)
                    if isinstance(second, float) and second in (0.5, 1.0, 2.0):
                        return power, first_size**second
                    return power, _size(power)
                case _:
                    assert_never(operator)
        case nodes.Compare() | nodes.Logic() | nodes.Not():
            return _truth(node, block, sizes).astype(np.float64), 1.0
        case nodes.Choose(condition, then, otherwise):
            decision = _truth(condition, block, sizes)
            yes, yes_size = _plain(then, block, sizes)
            no, no_size = _plain(otherwise, block, sizes)
            return np.where(decision, yes, no), max(yes_size, no_size)
        case nodes.FunctionCall(function, parts):
            arguments = [_plain(part, block, sizes) for part in parts]
            return _plain_call(
                function, [value for value, _ in arguments], max(size for _, size in arguments)
            )
        case nodes.NumberLiteral():
            return node.value, node.value
        case _:
            assert_never(node)


def _truth(node: nodes.Node, block: Mapping[str, Column], sizes: dict[str, float]) -> Mask:
    """Where the plain values are not 0, without the detour over 1.0 and 0.0."""
    match node:
        case nodes.Not(operand):
            return np.logical_not(_truth(operand, block, sizes))
        case nodes.Compare(relation, left, right):
            pair = _plain(left, block, sizes)[0], _plain(right, block, sizes)[0]
            return np.asarray(_RELATIONS[relation](*pair))
        case nodes.Logic(connective, left, right):
            truths = _truth(left, block, sizes), _truth(right, block, sizes)
            return np.logical_and(*truths) if connective == "and" else np.logical_or(*truths)
        case _:
            return np.asarray(np.not_equal(_plain(node, block, sizes)[0], 0.0))


def _plain_call(
    function: str, arguments: list[Column | float], size: float
) -> tuple[Column | float, float]:
    if function == "sqrt":
        return np.sqrt(arguments[0], out=_spare(arguments[0])), math.sqrt(size)
    value = _apply(function, [np.asarray(argument) for argument in arguments])
    if function in _LOGARITHMS or function == "exp":
        return value, _size(value)
    return value, size + 1.0 if function in _STEPS else size


def _apply(function: str, arguments: list[Column]) -> Column:
    """The function on arguments where it is defined."""
    x = arguments[0]
    if function in _LOGARITHMS:
        return np.asarray(_LOGARITHMS[function](x))
    if function in _STEPS:
        return np.asarray(_STEPS[function](x))
    match function:
        case "sqrt":
            return np.asarray(np.sqrt(x))
        case "exp":
            return np.asarray(np.exp(x))
        case "abs":
            return np.asarray(np.abs(x))
        case "min":
            return reduce(np.minimum, arguments)
        case "max":
            return reduce(np.maximum, arguments)
        case "clip":
            return np.asarray(np.minimum(np.maximum(x, arguments[1]), arguments[2]))
        case _:
            raise FormulaNameError(function)


def _power(base: Column | float, exponent: Column | float) -> Column:
    """A power, with the easy exponents taken apart exactly as `evaluate` takes them apart."""
    if isinstance(exponent, float):
        if exponent == 1.0:
            return np.asarray(base)
        if exponent == 2.0:
            return np.asarray(np.multiply(base, base))
        if exponent == 0.5:
            return np.asarray(np.sqrt(base))
        return np.asarray(np.power(base, exponent))
    base, exponent = np.broadcast_arrays(base, exponent)
    result = np.power(base, exponent)
    np.copyto(result, base, where=exponent == 1.0)
    np.multiply(base, base, out=result, where=exponent == 2.0)
    np.sqrt(base, out=result, where=exponent == 0.5)
    return result


def _careful(node: nodes.Node, block: Mapping[str, Column], rows: int) -> tuple[Column, Mask]:
    """The values and the rows that are refused; a refused row holds a harmless 1."""
    if not node.free:
        fixed = outcome_of(node, {})
        if isinstance(fixed, FormulaError):
            return np.ones(rows), np.ones(rows, dtype=np.bool_)
        return np.full(rows, fixed), np.zeros(rows, dtype=np.bool_)
    match node:
        case nodes.Variable(name):
            return _settle(block[name], np.zeros(rows, dtype=np.bool_))
        case nodes.Negate(operand):
            inner, refused = _careful(operand, block, rows)
            return np.negative(inner), refused
        case nodes.Not(operand):
            inner, refused = _careful(operand, block, rows)
            return (inner == 0.0).astype(np.float64), refused
        case nodes.Arithmetic(operator, left, right):
            first, first_refused = _careful(left, block, rows)
            second, second_refused = _careful(right, block, rows)
            return _careful_arithmetic(operator, first, second, first_refused | second_refused)
        case nodes.Compare(relation, left, right):
            first, first_refused = _careful(left, block, rows)
            second, second_refused = _careful(right, block, rows)
            truth = _RELATIONS[relation](first, second)
            return truth.astype(np.float64), first_refused | second_refused
        case nodes.Logic(connective, left, right):
            first, first_refused = _careful(left, block, rows)
            second, second_refused = _careful(right, block, rows)
            if connective == "and":
                truth, asked = (first != 0.0) & (second != 0.0), first != 0.0
            else:
                truth, asked = (first != 0.0) | (second != 0.0), first == 0.0
            return truth.astype(np.float64), first_refused | (asked & second_refused)
        case nodes.Choose(condition, then, otherwise):
            decision, refused = _careful(condition, block, rows)
            yes, yes_refused = _careful(then, block, rows)
            no, no_refused = _careful(otherwise, block, rows)
            taken = decision != 0.0
            return np.where(taken, yes, no), refused | np.where(taken, yes_refused, no_refused)
        case nodes.FunctionCall(function, parts):
            arguments = [_careful(part, block, rows) for part in parts]
            refused = reduce(np.logical_or, [mask for _, mask in arguments])
            values = [value for value, _ in arguments]
            if function in _LOGARITHMS:
                refused = refused | (values[0] <= 0.0)
            elif function == "sqrt":
                refused = refused | (values[0] < 0.0)
            return _settle(_apply(function, values), refused)
        case nodes.NumberLiteral():
            return np.full(rows, node.value), np.zeros(rows, dtype=np.bool_)
        case _:
            assert_never(node)


def _careful_arithmetic(
    operator: nodes.ArithmeticOperator, left: Column, right: Column, refused: Mask
) -> tuple[Column, Mask]:
    match operator:
        case "+":
            return _settle(left + right, refused)
        case "-":
            return _settle(left - right, refused)
        case "*":
            return _settle(left * right, refused)
        case "/":
            return _settle(left / right, refused | (right == 0.0))
        case "**":
            outside = np.abs(right) > nodes.MAX_EXPONENT
            undefined = ((left == 0.0) & (right < 0.0)) | ((left < 0.0) & (np.rint(right) != right))
            return _settle(_power(left, right), refused | outside | undefined)
        case _:
            assert_never(operator)


def _settle(values: Column, refused: Mask) -> tuple[Column, Mask]:
    refused = refused | ~(np.abs(values) <= nodes.MAX_MAGNITUDE)
    return np.where(refused, 1.0, values), refused
