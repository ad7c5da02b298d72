"""The parts a formula is made of, and the limits no formula may pass.

A node measures itself when it is made, so a tree over the limits cannot exist. A node shared by two
parents counts twice, so a small graph cannot unfold into a large formula. Every later walk
(printing, evaluating, bounding) goes along `steps`. Nodes are values: frozen, comparable, hashable,
and free of any number but the literals that were written.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar, Final, Literal, TypeVar, assert_never, cast, get_args
from zlib import crc32

from rootguard.errors import FormulaLimitError, FormulaNameError

# The largest formula of the catalog, in roots alone, has 169 characters, 51 nodes and 12 levels.
# The limits leave a learned or hand-written one room, and bound what a service that may send
# formulas can make a session do.
MAX_LENGTH: Final = 2_000
"""Characters in the text of a formula; checked before anything else looks at it."""
MAX_DEPTH: Final = 60
"""Levels of a formula as it is written, brackets included, where all terms of a sum are one level;
keeps the parser, which calls itself, far from Python's recursion limit."""
MAX_NODES: Final = 400
"""Nodes of a formula as it is written, each counted as often as it is used."""
MAX_PARTS: Final = 20_000
"""The same of a formula with computed names put in, down to roots: a fraction of a second for
everything that is computed of it. A chain of values that each use the one before twice would pass
any limit soon."""
UNFOLDED_PARTS: Final = "number of parts, with computed values put in"
"""What the limit above is called in a refusal."""
MAX_LEVELS: Final = 2_000
"""Levels of nodes of such a formula. Walks along it do not call themselves."""
MAX_EXPONENT: Final = 128.0
"""Largest magnitude of the right side of `**`. A power of powers is bounded by it at every level,
so that no short text makes a number that takes long to compute."""
MAX_MAGNITUDE: Final = 1e100
"""Largest magnitude of a literal, of an input and of every intermediate result. The product of any
two is still finite (1e200), so that a result over the limit is seen before it overflows."""
MAX_ARGUMENTS: Final = 8
"""Most arguments of `min` and `max`."""
MAX_NAME_LENGTH: Final = 64
"""Characters in one name, as in a template; also what an error quotes of one."""

CONSTANTS: Final[Mapping[str, float]] = MappingProxyType({"e": math.e, "pi": math.pi})
"""Names that always mean the same number; no value given under such a name is looked at."""

FUNCTIONS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "abs": (1, 1),
        "ceil": (1, 1),
        "clip": (3, 3),
        "exp": (1, 1),
        "floor": (1, 1),
        "ln": (1, 1),
        "log": (1, 1),
        "log10": (1, 1),
        "log2": (1, 1),
        "max": (2, MAX_ARGUMENTS),
        "min": (2, MAX_ARGUMENTS),
        "round": (1, 1),
        "sqrt": (1, 1),
    }
)
"""Every function, with the fewest and the most arguments it takes. `log` and `ln` are the same."""

KEYWORDS: Final = frozenset({"and", "else", "if", "not", "or"})

ArithmeticOperator = Literal["+", "-", "*", "/", "**"]
CompareOperator = Literal["<", "<=", ">", ">=", "==", "!="]
LogicOperator = Literal["and", "or"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Measured:
    """What every node knows of the tree below it; no part of its identity.

    Nodes are equal if they are written alike. Neither comparing nor hashing calls itself: a formula
    with computed names put in may be deeper than Python's stack.
    """

    depth: int = field(init=False, repr=False)
    size: int = field(init=False, repr=False)
    free: frozenset[str] = field(init=False, repr=False)
    mark: int = field(init=False, repr=False)
    """The same for nodes that are written alike, in every process."""

    def _measure(self, own: str, *parts: "Node", free: frozenset[str] = _NO_NAMES) -> None:
        depth = size = 1
        marks = [crc32((type(self).__name__ + own).encode())]
        for part in parts:
            depth = max(depth, 1 + part.depth)
            size += part.size
            free |= part.free
            marks.append(part.mark)
        if depth > MAX_LEVELS:
            raise FormulaLimitError("levels", MAX_LEVELS)
        if size > MAX_PARTS:
            raise FormulaLimitError(UNFOLDED_PARTS, MAX_PARTS)
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "free", free)
        object.__setattr__(self, "mark", hash(tuple(marks)))

    def __hash__(self) -> int:
        return self.mark

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Measured):
            return NotImplemented
        pairs: list[tuple[_Measured, _Measured]] = [(self, other)]
        while pairs:
            one, two = pairs.pop()
            if one is two:
                continue
            if type(one) is not type(two) or one.mark != two.mark:
                return False
            if _own(cast("Node", one)) != _own(cast("Node", two)):
                return False
            pairs += zip(parts(cast("Node", one)), parts(cast("Node", two)), strict=False)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class NumberLiteral(_Measured):
    """A literal, never below zero: a negative number is written with `Negate`."""

    value: float

    def __post_init__(self) -> None:
        if not self.value >= 0.0 or math.copysign(1.0, self.value) < 0.0:
            raise ValueError("a literal is not negative; put Negate around it")
        if self.value > MAX_MAGNITUDE:
            raise FormulaLimitError("number", MAX_MAGNITUDE)
        object.__setattr__(self, "value", float(self.value))
        self._measure(repr(self.value))


@dataclass(frozen=True, slots=True, eq=False)
class Variable(_Measured):
    """A value that is given later, or one of the constants."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name)
        free = _NO_NAMES if self.name in CONSTANTS else frozenset({self.name})
        self._measure(self.name, free=free)


@dataclass(frozen=True, slots=True, eq=False)
class _Unary(_Measured):
    operand: "Node"

    def __post_init__(self) -> None:
        self._measure("", self.operand)


@dataclass(frozen=True, slots=True, eq=False)
class Negate(_Unary):
    """`-operand`."""


@dataclass(frozen=True, slots=True, eq=False)
class _Binary(_Measured):
    """`left operator right`."""

    operators: ClassVar[tuple[str, ...]]

    operator: str
    left: "Node"
    right: "Node"

    def __post_init__(self) -> None:
        if self.operator not in self.operators:
            raise ValueError(f"no such operator here; there is {' '.join(self.operators)}")
        self._measure(self.operator, self.left, self.right)


@dataclass(frozen=True, slots=True, eq=False)
class Arithmetic(_Binary):
    """`left operator right`, one of `+ - * / **`."""

    operators = get_args(ArithmeticOperator)
    operator: ArithmeticOperator


@dataclass(frozen=True, slots=True, eq=False)
class Compare(_Binary):
    """`left operator right`, which is 1 or 0. A chain of comparisons is a `Logic` of these."""

    operators = get_args(CompareOperator)
    operator: CompareOperator


@dataclass(frozen=True, slots=True, eq=False)
class Logic(_Binary):
    """`left and right`, `left or right`: 1 or 0; the right side counts only where it decides."""

    operators = get_args(LogicOperator)
    operator: LogicOperator


@dataclass(frozen=True, slots=True, eq=False)
class Not(_Unary):
    """`not operand`: 1 where the operand is 0, else 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Choose(_Measured):
    """`then if condition else otherwise`; the branch not taken need not have a value."""

    condition: "Node"
    then: "Node"
    otherwise: "Node"

    def __post_init__(self) -> None:
        self._measure("", self.condition, self.then, self.otherwise)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCall(_Measured):
    """`function(arguments)`."""

    function: str
    arguments: tuple["Node", ...]

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise FormulaNameError(self.function, tuple(FUNCTIONS))
        fewest, most = FUNCTIONS[self.function]
        if not fewest <= len(self.arguments) <= most:
            raise ValueError(f"{self.function} takes {arity(self.function)}")
        self._measure(self.function, *self.arguments)


Node = (
    NumberLiteral | Variable | Negate | Arithmetic | Compare | Logic | Not | Choose | FunctionCall
)


def names(node: Node) -> frozenset[str]:
    """The names whose values the formula needs; `pi` and `e` are constants, not names."""
    return node.free


def parts(node: Node) -> tuple[Node, ...]:
    """The nodes directly below this one, in the order they are written in the class."""
    match node:
        case NumberLiteral() | Variable():
            return ()
        case Negate(operand) | Not(operand):
            return (operand,)
        case Arithmetic() | Compare() | Logic():
            return (node.left, node.right)
        case Choose(condition, then, otherwise):
            return (condition, then, otherwise)
        case FunctionCall(_, arguments):
            return arguments
        case _:
            assert_never(node)


def _own(node: Node) -> str | float:
    """What a node has beside its parts."""
    match node:
        case NumberLiteral(value):
            return value
        case Variable(name):
            return name
        case Arithmetic() | Compare() | Logic():
            return node.operator
        case FunctionCall(function, arguments):
            return f"{function} {len(arguments)}"
        case _:
            return ""


T = TypeVar("T")
Step = tuple[Node, tuple[int, ...]]
"""A node, and the places of its parts among the steps before it."""


@lru_cache(maxsize=4096)  # a formula is asked for again and again
def steps(node: Node) -> tuple[Step, ...]:
    """The nodes of a formula, each once and after its parts; the formula itself is the last.

    What every evaluation walks along: it needs no stack, however deep the formula is, and a node
    that stands in two places, as one that was put in for a name, is computed once.
    """
    places: dict[int, int] = {}
    found: list[Step] = []
    stack = [node]
    while stack:
        here = stack[-1]
        below = parts(here)
        waiting = [part for part in below if id(part) not in places]
        if waiting:
            stack += reversed(waiting)
            continue
        stack.pop()
        if id(here) not in places:
            places[id(here)] = len(found)
            found.append((here, tuple([places[id(part)] for part in below])))
    return tuple(found)


def fold(node: Node, made: Callable[[Node, list[T]], T]) -> T:
    """What `made` makes of a formula, given each node and what it made of the node's parts."""
    found: list[T] = []
    for each, places in steps(node):
        found.append(made(each, [found[place] for place in places]))
    return found[-1]


def rebuild(node: Node, below: Sequence[Node]) -> Node:
    """The same node over other parts, given in the order of `parts`."""
    match node:
        case NumberLiteral() | Variable():
            return node
        case FunctionCall(function, _):
            return FunctionCall(function, tuple(below))
        case Negate() | Not() | Choose():
            return type(node)(*below)
        case Arithmetic(operator):
            return Arithmetic(operator, *below)
        case Compare(relation):
            return Compare(relation, *below)
        case Logic(connective):
            return Logic(connective, *below)
        case _:
            assert_never(node)


def arity(function: str) -> str:
    """How many arguments a function takes, in words for a message."""
    fewest, most = FUNCTIONS[function]
    if fewest == most:
        return f"{most} argument{'s' if most > 1 else ''}"
    return f"{fewest} to {most} arguments"


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a value."""
    if len(name) > MAX_NAME_LENGTH:
        raise FormulaLimitError("longest name", MAX_NAME_LENGTH)
    if not _NAME.fullmatch(name) or name.startswith("__") or name in KEYWORDS or name in FUNCTIONS:
        raise FormulaNameError(name)
