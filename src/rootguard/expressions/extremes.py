"""How large a formula and its slopes become over a box: met at points, and bounded from above.

`intervals` takes every occurrence of a name as unrelated to the others, so that its bounds are safe
but wide where occurrences cancel. Here three things bring the bounds near what is met:

- Beside slopes, elasticities x f'(x) / f(x) are bounded. They add under products and subtract under
  quotients, and the logarithm of a ratio has the slopes of its parts: nothing is left to cancel.
- A part that depends on the rest through one number alone (a logistic function of a score) is
  bounded along that number, in one dimension.
- Cells are cut, best first, until bound and met value agree or the allowance is used up.

Bounds hold for the real function; `gradient` may differ from it by its own rounding.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, islice, product
from typing import Final

from rootguard.errors import FormulaError
from rootguard.expressions import nodes
from rootguard.expressions.evaluation import LN_2, LN_10, gradient
from rootguard.expressions.intervals import (
    ONE,
    WHOLE,
    ZERO,
    Interval,
    add,
    arithmetic,
    arithmetic_slopes,
    call,
    call_slope,
    chained,
    constant,
    derivative_bounds,
    divide,
    hull,
    loosened,
    multiply,
    negate,
)

# The work is bounded: where cells run out, the wider bound is given, which is still one.
_MAX_CUTS: Final = 100
_FEW_CUTS: Final = 20  # for the gentler side of a slope, and before the tolerance is widened
_MAX_CORNERS: Final = 256  # all of them for eight names
_TOLERANCE: Final = 0.02  # a bound that is 2 % too wide misleads nobody
_WIDER: Final = 0.05  # nor one that is 5 % too wide where 2 % would take many cuts
_INNER: Final = nodes.Variable("inner")
_MAX_STEPS: Final = 1000  # points that a climb looks at, over all names
_MAX_WORK: Final = 400_000  # nodes times names, over all measures: a few seconds at most
_SCALES: Final = {"ln": 1.0, "log": 1.0, "log10": LN_10, "log2": LN_2}

Box = Mapping[str, Interval]
_Partials = dict[str, Interval]


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Bounds of a formula's value, slopes and elasticities; no elasticities where it may be 0."""

    value: Interval
    slopes: _Partials
    elasticities: _Partials | None


Measure = Callable[[Enclosure], float]
"""What is to be bounded from above: an upper end, or minus a lower one."""


class Extremes:
    """The search for extremes of one formula over one box; cells and points are shared by all."""

    def __init__(self, formula: nodes.Node, box: Box) -> None:
        self._formula, self._box = formula, box
        self._repeats = _occurrences(formula) > len(formula.free)
        measures = 2 + 2 * len(box)
        self._allowance = max(2, _MAX_WORK // (formula.size * len(box) * measures))
        self._by_part: _Partials | None = None
        self._highest: tuple[Interval, ...] | None = None
        self._cells: dict[tuple[Interval, ...], Enclosure | None] = {}
        self._points: dict[tuple[float, ...], Enclosure | None] = {}
        for corner in islice(product(*({s.lower, s.upper} for s in box.values())), _MAX_CORNERS):
            self._at(corner)

    def width(self) -> tuple[float, float]:
        """The width of the formula's range, from below and from above."""
        spread = self._spread() / 2  # each end has half of what the width may be off
        top = self.supremum(lambda each: each.value.upper, scale=spread)
        bottom = self.supremum(lambda each: -each.value.lower, scale=spread)
        return top[0] + bottom[0], top[1] + bottom[1]

    def _spread(self) -> float:
        """The width of the range that was met so far."""
        values = [point.value.lower for point in self.points()]
        return max(values, default=0.0) - min(values, default=0.0)

    def slope(self, name: str) -> tuple[tuple[float, float], tuple[float, float]]:
        """The largest slope along a name and minus the smallest, each from below and above."""
        if self._by_part is None:
            self._by_part = self._composed()
        composed = self._by_part.get(name, WHOLE)
        measures = (
            (lambda each: each.slopes.get(name, ZERO).upper, composed.upper),
            (lambda each: -each.slopes.get(name, ZERO).lower, -composed.lower),
        )
        met = [self._met(measure) for measure, _ in measures]
        found = []
        for (measure, known), here in zip(measures, met, strict=True):
            cuts = _MAX_CUTS if here >= max(met) else _FEW_CUTS
            below, above = self.supremum(measure, known=known, cuts=cuts)
            found.append((max(below, self._jump(name)) if above == math.inf else below, above))
        return found[0], found[1]

    def _jump(self, name: str) -> float:
        """How steep the formula is between the two ends of the cell where no bound was found."""
        if self._highest is None:
            return 0.0
        cell = dict(zip(self._box, self._highest, strict=True))
        ends = [
            self._at(tuple(end if each == name else _middle(s) for each, s in cell.items()))
            for end in (cell[name].lower, cell[name].upper)
        ]
        if ends[0] is None or ends[1] is None or cell[name].single:
            return 0.0
        change = abs(ends[1].value.lower - ends[0].value.lower)
        return change / (cell[name].upper - cell[name].lower)

    def _composed(self) -> _Partials:
        """Slopes of a formula that is a function of one part: the function's times the part's.

        As if the two were steepest at the same point, which is so where the part is a sum that
        reaches the function's steepest place in many ways.
        """
        parts = _outer_and_inner(self._formula)
        whole = None if parts is None else _enclosed(parts[1], self._box, repeats=True)
        if parts is None or whole is None or not math.isfinite(_width(whole.value)):
            return {}
        outer = Extremes(parts[0], {_INNER.name: whole.value})
        (_, rise), (_, fall) = outer.slope(_INNER.name)
        inner = Extremes(parts[1], self._box)
        found = {}
        for name in self._box:
            (_, up), (_, down) = inner.slope(name)
            if -fall <= rise and -down <= up:
                found[name] = multiply(Interval(-fall, rise), Interval(-down, up))
        return found

    def points(self) -> list[Enclosure]:
        """Value and slopes at the points that were met so far."""
        return [point for point in self._points.values() if point is not None]

    def supremum(
        self,
        measure: Measure,
        *,
        scale: float | None = None,
        known: float = math.inf,
        cuts: int = _MAX_CUTS,
    ) -> tuple[float, float]:
        """The supremum of a measure, from below (met) and from above (bounded).

        Best first: the cell with the largest bound is cut across the side that widens it most,
        until the bound is within 2 % (of the met value, or of a scale) of a value that was met at
        a point, or the cells run out. Cells in which the formula is nowhere defined hold nothing.
        """
        cells: list[tuple[float, int, tuple[Interval, ...]]] = []
        number = count(0, -1)  # of equal bounds the newest is cut: a jump is followed to its place

        def push(cell: tuple[Interval, ...]) -> None:
            if (bound := self._bound(cell, measure)) is not None:
                heappush(cells, (-bound, next(number), cell))

        def unsettled(tolerance: float) -> bool:
            bound = min(-cells[0][0], known) if cells else met
            return bound > met + tolerance * (abs(met) if scale is None else scale)

        push(tuple(self._box.values()))
        met = self._met(measure)
        if unsettled(_TOLERANCE):
            met = max(met, self._climb(measure))
        before = len(self._cells)
        for done in range(cuts):
            if not unsettled(_TOLERANCE if done < _FEW_CUTS else _WIDER):
                break
            if len(self._cells) - before > self._allowance:
                break
            _, _, cell = heappop(cells)
            halves = list(self._halves(cell, measure))
            if not halves:  # as small as numbers are: a jump, or a slope without limit
                push(cell)
                break
            for half in halves:
                push(half)
                if (middle := self._at(tuple(map(_middle, half)))) is not None:
                    met = max(met, measure(middle))
        if unsettled(_TOLERANCE):
            met = max(met, self._climb(measure))
        self._highest = cells[0][2] if cells else None
        return met, max(min(-cells[0][0], known), met) if cells else met

    def _bound(self, cell: tuple[Interval, ...], measure: Measure) -> float | None:
        if cell not in self._cells:
            box = dict(zip(self._box, cell, strict=True))
            self._cells[cell] = _enclosed(self._formula, box, repeats=self._repeats)
        enclosure = self._cells[cell]
        return None if enclosure is None else measure(enclosure)

    def _at(self, point: tuple[float, ...]) -> Enclosure | None:
        """Value and slopes at a point; None where either is undefined."""
        if point not in self._points:
            values = dict(zip(self._box, point, strict=True))
            try:
                value, partials = gradient(self._formula, values)
            except FormulaError:
                self._points[point] = None
            else:
                slopes = {name: Interval(slope, slope) for name, slope in partials.items()}
                found = Interval(value, value)
                self._points[point] = Enclosure(found, slopes, _natural(values, found, slopes))
        return self._points[point]

    def _met(self, measure: Measure) -> float:
        return max(map(measure, self.points()), default=-math.inf)

    def _climb(self, measure: Measure) -> float:
        """Uphill from the best point that is known, along one name at a time."""
        known = {p: measure(found) for p, found in self._points.items() if found is not None}
        if not known:
            return -math.inf
        best = max(known, key=known.__getitem__)
        met, step = known[best], 0.25  # of a side; a quarter of that where nothing leads uphill
        for _ in range(_MAX_STEPS // (2 * len(self._box))):
            beside = (
                _moved(best, place, side, way * step)
                for place, side in enumerate(self._box.values())
                for way in (1.0, -1.0)
            )
            tried = [(measure(found), p) for p in beside if (found := self._at(p)) is not None]
            highest, point = max(tried, default=(met, best))
            if highest > met:
                met, best = highest, point
            elif step < 1e-6:  # of a side: a tenth of the finest grid's step
                break
            else:
                step /= 4
        return met

    def _halves(
        self, cell: tuple[Interval, ...], measure: Measure
    ) -> Iterator[tuple[Interval, ...]]:
        """The two halves of a cell, cut across the side without which its bound would be least.

        Where no side is better, as with infinite bounds, or where trying each would use up the
        allowance, across the relatively widest.
        """
        found = []
        for place, (side, whole) in enumerate(zip(cell, self._box.values(), strict=True)):
            cut = _middle(side)
            if side.lower < cut < side.upper:
                flat = (*cell[:place], Interval(cut, cut), *cell[place + 1 :])
                bound = self._bound(flat, measure) if 1 < len(cell) <= self._allowance else None
                bound = -math.inf if bound is None else bound
                found.append((bound, -_width(side) / _width(whole), place, cut))
        if not found:
            return
        _, _, place, cut = min(found)
        for part in (Interval(cell[place].lower, cut), Interval(cut, cell[place].upper)):
            yield (*cell[:place], part, *cell[place + 1 :])


def _occurrences(node: nodes.Node) -> int:
    """How often names and constants stand in a formula."""
    return nodes.fold(node, lambda each, below: isinstance(each, nodes.Variable) + sum(below))


def _moved(point: tuple[float, ...], place: int, side: Interval, step: float) -> tuple[float, ...]:
    moved = point[place] + step * (side.upper - side.lower)
    return (*point[:place], min(max(moved, side.lower), side.upper), *point[place + 1 :])


def _middle(side: Interval) -> float:
    """Where to cut: formulas of positive quantities mostly change by ratio, the others by sum."""
    if side.lower > 0:
        ratio = math.sqrt(side.lower) * math.sqrt(side.upper)
        return min(max(ratio, side.lower), side.upper)  # rounding leaves a side of one last bit
    if side.upper < 0:
        return -_middle(negate(side))
    return side.lower + (side.upper - side.lower) / 2


def _width(side: Interval) -> float:
    return math.log(side.upper / side.lower) if side.lower > 0 else side.upper - side.lower


def _enclosed(node: nodes.Node, box: Box, *, repeats: bool) -> Enclosure | None:
    """An enclosure of a whole formula, whose value may be at ends of sides that it only follows.

    A bounded slope of one sign says that the formula rises or falls all along that side. One that
    is undefined at the end of such a side keeps the wider bounds. Where no name `repeats`, the
    bounds are exact already.
    """
    found = _enclose(node, box)
    if found is None or not repeats:
        return found
    signs = {name: _sign(slope) for name, slope in found.slopes.items()}
    if not any(signs.values()):
        return found
    ends = []
    for way in (-1, 1):
        cell = {n: _end(s, way * signs.get(n, 0)) for n, s in box.items()}
        reached = _enclose(node, cell)
        if reached is None:
            return found
        ends.append(reached.value)
    value = _meet(found.value, Interval(ends[0].lower, ends[1].upper))
    return _agreed(box, value, found.slopes, found.elasticities)


def _sign(slope: Interval) -> int:
    if slope.lower >= 0.0 and slope.upper < math.inf:
        return 1
    return -1 if slope.upper <= 0.0 and slope.lower > -math.inf else 0


def _end(side: Interval, way: int) -> Interval:
    if way == 0:
        return side
    end = side.upper if way > 0 else side.lower
    return Interval(end, end)


def _enclose(node: nodes.Node, box: Box) -> Enclosure | None:
    """Bounds of value, slopes and elasticities; None where the formula has a value nowhere."""
    walk = nodes.steps(node)
    places = {id(each): place for place, (each, _) in enumerate(walk)}
    found: list[Enclosure | None] = []
    for each, below in walk:
        found.append(_enclose_of(each, [found[place] for place in below], box, found, places))
    return found[-1]


def _enclose_of(
    node: nodes.Node,
    below: list[Enclosure | None],
    box: Box,
    found: list[Enclosure | None],
    places: Mapping[int, int],
) -> Enclosure | None:
    """A node's enclosure from those of its parts; `found` has all that come before it."""
    if not node.free:
        fixed = constant(node)
        return None if fixed is None else Enclosure(fixed, {}, None if 0.0 in fixed else {})
    if (cancelling := _cancelling(node)) is not None:
        function, opposite, argument = cancelling
        inner = found[places[id(argument)]]
        if inner is not None and (function == "expm1" or inner.value.lower > -1.0):
            return _grown(function, inner, box, opposite=opposite)
    known = [each for each in below if each is not None]
    match node:
        case nodes.Variable(name):
            side = box[name]
            return Enclosure(side, {name: ONE}, None if 0.0 in side else {name: ONE})
        case nodes.Negate() | nodes.Arithmetic() | nodes.FunctionCall() if len(known) < len(below):
            return None
        case nodes.Negate():
            (part,) = known
            slopes = {name: negate(slope) for name, slope in part.slopes.items()}
            return Enclosure(negate(part.value), slopes, part.elasticities)
        case nodes.Arithmetic():
            return _operation(node, known[0], known[1], box)
        case nodes.FunctionCall():
            return _function(node, known, box)
        case _:
            try:
                value, slopes = derivative_bounds(node, box)
            except FormulaError:
                return None
            return _agreed(box, value, slopes, None)


def _agreed(
    box: Box, value: Interval, slopes: _Partials, elasticities: _Partials | None
) -> Enclosure:
    """Slopes and elasticities, each as narrow as the other makes it."""
    by_slope = _natural(box, value, slopes)
    if by_slope is None:
        return Enclosure(value, slopes, None)
    if elasticities is not None:
        by_slope = {n: _meet(elasticities.get(n, ZERO), e) for n, e in by_slope.items()}
    narrow = {
        name: _meet(slope, divide(multiply(by_slope[name], value), box[name]))
        if 0.0 not in box[name]
        else slope
        for name, slope in slopes.items()
    }
    return Enclosure(value, narrow, by_slope)


def _natural(
    box: Mapping[str, Interval | float], value: Interval, slopes: _Partials
) -> _Partials | None:
    """Elasticities by their definition, from slopes."""
    if 0.0 in value:
        return None
    found = {}
    for name, slope in slopes.items():
        side = box[name]
        side = side if isinstance(side, Interval) else Interval(side, side)
        quotient = divide(multiply(side, slope), value)
        if quotient is None:
            return None
        found[name] = quotient
    return found


def _meet(one: Interval, other: Interval | None) -> Interval:
    """What lies in both; the first one where rounding leaves nothing."""
    if other is None:
        return one
    lower, upper = max(one.lower, other.lower), min(one.upper, other.upper)
    return Interval(lower, upper) if lower <= upper else one


def _operation(
    node: nodes.Arithmetic, left: Enclosure, right: Enclosure, box: Box
) -> Enclosure | None:
    value = arithmetic(node, left.value, right.value)
    if value is None:
        return None
    partial = arithmetic_slopes(node, left.value, right.value, value)
    slopes = chained(partial, [(left.value, left.slopes), (right.value, right.slopes)])
    elasticities = None
    if left.elasticities is not None and right.elasticities is not None:
        elasticities = _elasticities(node, left, right, left.elasticities, right.elasticities)
    return _agreed(box, value, slopes, elasticities)


def _elasticities(
    node: nodes.Arithmetic, left: Enclosure, right: Enclosure, one: _Partials, two: _Partials
) -> _Partials | None:
    """Of sums of one sign, products, quotients and powers, from those of the two sides."""
    names = sorted(one.keys() | two.keys())
    pairs = {name: (one.get(name, ZERO), two.get(name, ZERO)) for name in names}
    match node.operator:
        case "*":
            return {name: add(a, b) for name, (a, b) in pairs.items()}
        case "/":
            return {name: add(a, negate(b)) for name, (a, b) in pairs.items()}
        case "**" if not node.right.free:
            return {name: multiply(right.value, a) for name, (a, _) in pairs.items()}
        case "**":
            logs = call("ln", [left.value])  # none of a negative base; one that may be 0 has none
            if logs is None:
                return None
            grown = multiply(right.value, logs)
            return {
                name: add(multiply(right.value, a), multiply(grown, b))
                for name, (a, b) in pairs.items()
            }
        case _:
            other = right.value if node.operator == "+" else negate(right.value)
            # Neither side may be 0, or it would have no elasticities.
            if (left.value.lower > 0.0) != (other.lower > 0.0):
                return None
            # A mean of the two, weighted by the sides: the share of the left one is 1/(1 + b/a).
            ratio = divide(other, left.value)
            share = None if ratio is None else divide(ONE, add(ONE, ratio))
            if share is None:
                return None
            return {
                name: _meet(hull((a, b)), add(b, multiply(share, add(a, negate(b)))))
                for name, (a, b) in pairs.items()
            }


def _function(node: nodes.FunctionCall, inputs: list[Enclosure], box: Box) -> Enclosure | None:
    match node.function:
        case "min" | "max":
            return _extreme(node.function, inputs, box)
        case "clip":
            return _extreme("min", [_extreme("max", inputs[:2], box), inputs[2]], box)
        case function:
            argument = inputs[0]
            value = call(function, [argument.value])
            if value is None:
                return None
            slope = call_slope(function, argument.value, value)
            slopes = chained([slope], [(argument.value, argument.slopes)])
            return _called(function, argument, value, slopes, box)


def _called(
    function: str, argument: Enclosure, value: Interval, slopes: _Partials, box: Box
) -> Enclosure:
    """A function of one argument, by the argument's elasticities where it has some."""
    known = argument.elasticities
    if known is None:
        return _agreed(box, value, slopes, None)
    match function:
        case "sqrt":
            half = Interval(0.5, 0.5)
            return _agreed(box, value, slopes, {n: multiply(half, e) for n, e in known.items()})
        case "abs":
            return _agreed(box, value, slopes, dict(known))
        case "exp":
            grown = {name: multiply(argument.value, e) for name, e in known.items()}
            return _agreed(box, value, slopes, grown)
        case "ln" | "log" | "log10" | "log2":
            scale = Interval(_SCALES[function], _SCALES[function])
            for name, e in known.items():
                if 0.0 not in box[name]:
                    slopes[name] = _meet(slopes[name], divide(e, multiply(scale, box[name])))
    return _agreed(box, value, slopes, None)


def _extreme(function: str, inputs: list[Enclosure], box: Box) -> Enclosure:
    """`min` or `max`: the hull over every argument that can attain the value."""
    value = call(function, [each.value for each in inputs])
    if value is None:
        raise AssertionError("the least of bounds is one")
    attaining = [
        each
        for each in inputs
        if each.value.lower <= value.upper and each.value.upper >= value.lower
    ]
    names = sorted({name for each in attaining for name in each.slopes})
    slopes = {n: hull(each.slopes.get(n, ZERO) for each in attaining) for n in names}
    known = [each.elasticities for each in attaining if each.elasticities is not None]
    if len(known) < len(attaining):
        return _agreed(box, value, slopes, None)
    return _agreed(box, value, slopes, {n: hull(e.get(n, ZERO) for e in known) for n in names})


def _cancelling(node: nodes.Node) -> tuple[str, bool, nodes.Node] | None:
    """Whether it is e**a - 1, its opposite, or ln(1 + a): which, whether the opposite, and a.

    Near a = 0 both sides of the operation are nearly equal, and no cut of a cell is fine enough:
    interest at a low rate. Their elasticities along a are monotone, so their ends are exact.
    """
    one = nodes.NumberLiteral(1.0)
    match node:
        case nodes.Arithmetic("-", left, nodes.FunctionCall("exp", (argument,))) if left == one:
            return "expm1", True, argument
        case nodes.Arithmetic("-", nodes.FunctionCall("exp", (argument,)), right) if right == one:
            return "expm1", False, argument
        case nodes.FunctionCall("ln" | "log", (nodes.Arithmetic("+", left, right),)):
            if one in (left, right):
                return "log1p", False, right if left == one else left
    return None


def _expm1(a: float) -> float:
    try:
        return math.expm1(a)
    except OverflowError:
        return math.inf


def _grown(function: str, argument: Enclosure, box: Box, *, opposite: bool) -> Enclosure | None:
    """The functions of `_cancelling`: value, slope and elasticity at the ends of the argument."""
    ends = argument.value.lower, argument.value.upper
    if function == "expm1":
        values = [_expm1(a) for a in ends]
        elastic = [a / -_expm1(-a) if a else 1.0 for a in ends]
        slope = call("exp", [argument.value])
    else:
        values = [math.log1p(a) for a in ends]
        elastic = [(a / math.log1p(a) if a else 1.0) / (1.0 + a) for a in ends]
        slope = divide(ONE, add(ONE, argument.value))
    value, factor = loosened(Interval(*values)), loosened(Interval(min(elastic), max(elastic)))
    if value is None or factor is None or slope is None:
        return None
    if opposite:
        value, slope = negate(value), negate(slope)
    slopes = {name: multiply(slope, p) for name, p in argument.slopes.items()}
    known = argument.elasticities
    elasticities = known and {name: multiply(factor, e) for name, e in known.items()}
    return _agreed(box, value, slopes, elasticities)


def _outer_and_inner(node: nodes.Node) -> tuple[nodes.Node, nodes.Node] | None:
    """A formula as a function of one part, if at least two operations lie between the two.

    With one operation there is nothing to cancel.
    """
    steps, inner = 0, node
    while (part := _only_part(inner)) is not None:
        steps, inner = steps + 1, part
    if steps < 2 or isinstance(inner, nodes.Variable):
        return None
    return _with_inner(node, inner), inner


def _only_part(node: nodes.Node) -> nodes.Node | None:
    """The one part that has names, of an operation or a function."""
    if not isinstance(node, nodes.Negate | nodes.Arithmetic | nodes.FunctionCall):
        return None
    free = [part for part in nodes.parts(node) if part.free]
    return free[0] if len(free) == 1 else None


def _with_inner(node: nodes.Node, inner: nodes.Node) -> nodes.Node:
    """The formula with a name in the place of one part."""

    def made(each: nodes.Node, below: list[nodes.Node]) -> nodes.Node:
        return _INNER if each == inner else nodes.rebuild(each, below)

    return nodes.fold(node, made)
