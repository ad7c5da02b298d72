"""A formula's value in every row of some columns: NaN where one row alone would be refused.

Rows are taken in blocks that stay in the processor's cache. A block is first computed plainly,
with NumPy told to raise at a division by zero, an invalid operation or an overflow, while a bound
on the magnitude of every intermediate result is carried along: if the bound stays below the limit
and nothing raised, no row can have been refused. Otherwise the block is computed again with a mask
of the refused rows carried through every node, so NaN never turns into a number on its way through
a comparison, and a branch that is not taken cannot spoil a row.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial, reduce
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn, assert_never, cast

import numpy as np
from numpy.typing import NDArray

from rootguard.errors import FormulaError, FormulaNameError
from rootguard.expressions import nodes
from rootguard.expressions.evaluation import absent_name, outcome_of

Column = NDArray[np.float64]
Mask = NDArray[np.bool_]

# A block's column has 1 MiB: a handful of intermediate results stay in a cache, and what a call of
# NumPy costs by itself is small beside its work (with 256 KiB it was a third of it).
_ROWS: Final = 131_072
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


def evaluate_many(
    node: nodes.Node,
    columns: Mapping[str, Column],
    *,
    sizes: Mapping[str, float] = MappingProxyType({}),
) -> Column:
    """The value in each row; NaN in the rows where `evaluate` has none.

    A formula without names is repeated to the length of the columns. Columns of different
    lengths, no columns at all, or a column that is not a row of numbers are a `ValueError`; a name
    without a column is a `FormulaNameError`. Who knows that no number of a column has a greater
    magnitude than some `sizes` says so and saves a look at each.
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
        _block(node, block, result[rows], sizes)
    return result


def _arrays(columns: Mapping[str, Column]) -> dict[str, Column | None]:
    arrays: dict[str, Column | None] = {}
    for name, column in columns.items():
        try:
            arrays[name] = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            arrays[name] = None
    return arrays


def _block(
    node: nodes.Node, block: Mapping[str, Column], result: Column, sizes: Mapping[str, float]
) -> None:
    """Fill the result's rows."""
    try:
        with np.errstate(divide="raise", invalid="raise", over="raise", under="ignore"):
            value, size = _plain(node, block, result, sizes)
        if size <= _TRUSTED:
            if value is not result:
                result[:] = value
            return
    except (FloatingPointError, _NeedsCareError):
        pass
    with np.errstate(all="ignore"):
        careful, refused = _careful(node, block, len(result))
    careful[refused] = np.nan
    result[:] = careful


def _size(column: Column) -> float:
    """An upper bound of the magnitudes in a column; NaN or infinite if an entry is.

    The root of a sum of squares, which takes one pass where a minimum and a maximum take two. It
    is summed in short stretches: given a whole block, BLAS starts threads and waits for them.
    """
    whole = len(column) - len(column) % _STRETCH
    if not whole:
        return math.sqrt(np.vecdot(column, column))
    stretches = column[:whole].reshape(-1, _STRETCH)
    squares = float(np.add.reduce(np.vecdot(stretches, stretches)))
    if whole < len(column):
        rest = column[whole:]
        squares += float(np.vecdot(rest, rest))
    return math.sqrt(squares)


_Sized = tuple[Column | float, float]
"""A value in each row, or the same in all, and a bound on its magnitude."""


def _plain(
    node: nodes.Node,
    block: Mapping[str, Column],
    result: Column,
    sizes: Mapping[str, float] = MappingProxyType({}),
) -> _Sized:
    """The values, and a bound on their magnitude that must stay below the limit.

    The last step may write them into the result, which saves a copy.
    """
    program = _program(node)
    end = len(program) - 1
    found: list[_Sized | None] = [None] * len(program)
    for at, step in enumerate(program):
        if step.fixed is not None:
            found[at] = step.fixed
            continue
        made: _Sized
        if step.named in sizes:
            made = block[step.named], sizes[step.named]
        else:
            below = [found[place] for place in step.places]
            out = result if at == end else _spare(below, step.spare)
            made = step.way(cast("list[_Sized]", below), block, out)
        if not made[1] <= _TRUSTED:
            raise _NeedsCareError
        found[at] = made
        for place in step.last:
            found[place] = None  # what nobody wants any more makes room in the cache
    return cast("_Sized", found[-1])


def _spare(below: Sequence[_Sized | None], unused: tuple[bool, ...]) -> Column | None:
    """A part that may be overwritten: an intermediate result, not a view of a column.

    Every block is a slice, so a column has a base and an array that was made here has none.
    """
    for part, free in zip(below, unused, strict=True):
        if free and part is not None:
            value = part[0]
            if isinstance(value, np.ndarray) and value.base is None:
                return value
    return None


_Way = Callable[[list[_Sized], Mapping[str, Column], Column | None], _Sized]
"""How a node is computed plainly, from its parts and the columns, perhaps into an array."""


class _Step(NamedTuple):
    """One node of a formula, and where its parts are among the steps before."""

    node: nodes.Node
    places: tuple[int, ...]
    spare: tuple[bool, ...]
    """Which parts may be overwritten: one that is wanted again must not be by its first user."""
    last: tuple[int, ...]
    """Parts that no later step wants."""
    fixed: tuple[float, float] | None
    """The value of a part without names, and its magnitude."""
    named: str
    """The column that this is, or empty."""
    way: _Way


@lru_cache(maxsize=4096)
def _program(node: nodes.Node) -> tuple[_Step, ...]:
    """The steps of a formula: parts that are equal are computed once, constants not again."""
    where: dict[nodes.Node, int] = {}
    made: list[tuple[nodes.Node, tuple[int, ...]]] = []
    moved: list[int] = []
    for each, places in nodes.steps(node):
        at = where.setdefault(each, len(made))
        if at == len(made):
            made.append((each, tuple(moved[place] for place in places)))
        moved.append(at)
    uses = Counter(place for _, places in made for place in places)
    last = {place: at for at, (_, places) in enumerate(made) for place in places}
    return tuple(
        _Step(
            node=each,
            places=places,
            spare=tuple(uses[place] == 1 for place in places),
            last=tuple({place for place in places if last[place] == at}),
            fixed=None if each.free else _fixed(each),
            named=each.name if isinstance(each, nodes.Variable) else "",
            way=_way(each, reused=bool(places) and uses[places[0]] > 1),
        )
        for at, (each, places) in enumerate(made)
    )


def _fixed(node: nodes.Node) -> tuple[float, float] | None:
    """The value of a formula without names; None if it has none that can be trusted."""
    value = outcome_of(node, {})
    if isinstance(value, FormulaError) or not abs(value) <= _TRUSTED:
        return None
    return value, abs(value)


def _way(node: nodes.Node, *, reused: bool) -> _Way:
    """How to compute a node plainly; `reused` says that its first part is wanted again.

    Chosen once for a formula, because to choose for each block would take longer than to compute a
    short one.
    """
    if not node.free:  # a constant that `_fixed` does not vouch for
        return _without_trust
    match node:
        case nodes.Variable(name):
            return lambda _below, block, _out: (block[name], _size(block[name]))
        case nodes.Negate():
            return lambda below, _, out: (np.negative(below[0][0], out=out), below[0][1])
        case nodes.Arithmetic(operator):
            return partial(_plain_power, reused=reused) if operator == "**" else _WAYS[operator]
        case nodes.Compare(relation):
            compare = _RELATIONS[relation]
            return lambda below, *_: (_truth(compare(below[0][0], below[1][0])), 1.0)
        case nodes.Not():
            return lambda below, *_: (_truth(np.equal(below[0][0], 0.0)), 1.0)
        case nodes.Logic(connective):
            decide = np.logical_and if connective == "and" else np.logical_or
            return lambda below, *_: (
                _truth(decide(*(np.not_equal(value, 0.0) for value, _ in below))),
                1.0,
            )
        case nodes.Choose():
            return _plain_choice
        case nodes.FunctionCall("sqrt"):
            return lambda below, _, out: (np.sqrt(below[0][0], out=out), math.sqrt(below[0][1]))
        case nodes.FunctionCall(function):
            return partial(_plain_call, function)
        case nodes.NumberLiteral(value):
            return lambda *_: (value, value)
        case _:
            assert_never(node)


def _without_trust(*_: object) -> NoReturn:
    raise _NeedsCareError


def _truth(decided: Mask) -> Column:
    return np.asarray(decided).astype(np.float64)


def _plain_sum(below: list[_Sized], _: object, out: Column | None) -> _Sized:
    (first, first_size), (second, second_size) = below
    return np.add(first, second, out=out), first_size + second_size


def _plain_difference(below: list[_Sized], _: object, out: Column | None) -> _Sized:
    (first, first_size), (second, second_size) = below
    return np.subtract(first, second, out=out), first_size + second_size


def _plain_product(below: list[_Sized], _: object, out: Column | None) -> _Sized:
    (first, first_size), (second, second_size) = below
    return np.multiply(first, second, out=out), first_size * second_size


def _plain_quotient(below: list[_Sized], _: object, out: Column | None) -> _Sized:
    quotient = np.divide(below[0][0], below[1][0], out=out)
    return quotient, _size(quotient)


_WAYS: Final[Mapping[str, _Way]] = {
    "+": _plain_sum,
    "-": _plain_difference,
    "*": _plain_product,
    "/": _plain_quotient,
}


def _plain_power(below: list[_Sized], *_: object, reused: bool) -> _Sized:
    (base, size), (exponent, exponent_size) = below
    if exponent_size > nodes.MAX_EXPONENT and np.any(np.abs(exponent) > nodes.MAX_EXPONENT):
        raise _NeedsCareError
    power = _power(base, exponent)
    if power is base and reused:
        power = power.copy()  # else who overwrites it overwrites both
    if isinstance(exponent, float) and exponent in (0.5, 1.0, 2.0):
        return power, size**exponent
    return power, _size(power)


def _plain_choice(below: list[_Sized], *_: object) -> _Sized:
    (decision, _size), (yes, yes_size), (no, no_size) = below
    return np.where(np.not_equal(decision, 0.0), yes, no), max(yes_size, no_size)


def _plain_call(function: str, below: list[_Sized], *_: object) -> _Sized:
    value = _apply(function, [np.asarray(argument) for argument, _ in below])
    if function in _LOGARITHMS or function == "exp":
        return value, _size(value)
    size = max(size for _, size in below)
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


_Judged = tuple[Column, Mask]


def _careful(node: nodes.Node, block: Mapping[str, Column], rows: int) -> _Judged:
    """The values and the rows that are refused; a refused row holds a harmless 1."""
    found: list[_Judged | None] = []
    for step in _program(node):
        below = [cast("_Judged", found[place]) for place in step.places]
        found.append(_careful_node(step.node, below, block, rows))
        for place in step.last:
            found[place] = None
    return cast("_Judged", found[-1])


def _careful_node(
    node: nodes.Node, below: list[_Judged], block: Mapping[str, Column], rows: int
) -> _Judged:
    if not node.free:
        fixed = outcome_of(node, {})
        if isinstance(fixed, FormulaError):
            return np.ones(rows), np.ones(rows, dtype=np.bool_)
        return np.full(rows, fixed), np.zeros(rows, dtype=np.bool_)
    values = [value for value, _ in below]
    match node:
        case nodes.Variable(name):
            return _settle(block[name], np.zeros(rows, dtype=np.bool_))
        case nodes.Negate():
            return np.negative(values[0]), below[0][1]
        case nodes.Not():
            return (values[0] == 0.0).astype(np.float64), below[0][1]
        case nodes.Arithmetic(operator):
            (first, first_refused), (second, second_refused) = below
            return _careful_arithmetic(operator, first, second, first_refused | second_refused)
        case nodes.Compare(relation):
            truth = _RELATIONS[relation](*values)
            return truth.astype(np.float64), below[0][1] | below[1][1]
        case nodes.Logic(connective):
            (first, first_refused), (second, second_refused) = below
            if connective == "and":
                truth, asked = (first != 0.0) & (second != 0.0), first != 0.0
            else:
                truth, asked = (first != 0.0) | (second != 0.0), first == 0.0
            return truth.astype(np.float64), first_refused | (asked & second_refused)
        case nodes.Choose():
            (decision, refused), (yes, yes_refused), (no, no_refused) = below
            taken = decision != 0.0
            return np.where(taken, yes, no), refused | np.where(taken, yes_refused, no_refused)
        case nodes.FunctionCall(function):
            refused = reduce(np.logical_or, [mask for _, mask in below])
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
