"""Arithmetic in words and signs: "age times AST", "the ratio of AST to ALT", "(age * ast) / plt".

The result is a formula of the project's own grammar, built from its nodes, so its limits hold while
it is built; and the same formula in words without a digit, to be said back. Nothing is evaluated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from rootguard.errors import FormulaLimitError
from rootguard.expressions import (
    MAX_ARGUMENTS,
    MAX_DEPTH,
    Arithmetic,
    Compare,
    FunctionCall,
    Negate,
    Node,
    NumberLiteral,
    Variable,
    names,
)
from rootguard.expressions.nodes import ArithmeticOperator, CompareOperator
from rootguard.language.numbers import named
from rootguard.session.questions.wording import Token, Vocabulary

_MAX_SAID: Final = 200  # characters; a longer formula is not said back
_OPERATORS: Final = {
    "+": "plus",
    "-": "minus",
    "*": "times",
    "/": "divided by",
    "**": "to the power of",
    ">": "greater than",
    "<": "less than",
    ">=": "at least",
    "<=": "at most",
    "==": "equal to",
}
_COMPARISONS: Final = frozenset({">", "<", ">=", "<=", "=="})
_CALLS: Final = {
    "sqrt": "square root of",
    "ln": "natural logarithm of",
    "log10": "base ten logarithm of",
    "log2": "base two logarithm of",
    "exp": "exponential of",
    "abs": "absolute value of",
    "floor": "floor of",
    "ceil": "ceiling of",
    "round": "rounded",
    "max": "largest of",
    "min": "smallest of",
}
_SCALES: Final = {
    "2": "twice",
    "3": "triple",
    "1/2": "half of",
    "1/3": "a third of",
    "1/4": "a quarter of",
    "1/10": "a tenth of",
}
_SKIPPED: Final = frozenset({"determiner", "qualifier"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """A formula that was read, how to say it, and the position after it."""

    node: Node
    says: str | None
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Term:
    """A formula in the making; `whole`: it needs no brackets inside another."""

    node: Node
    says: str | None
    whole: bool = True


class Formulas:
    """Reads formulas off tokens. A reading that fails leaves no trace."""

    def __init__(self, tokens: list[Token], vocabulary: Vocabulary) -> None:
        self._tokens = tokens
        self._kinds = vocabulary.kinds

    def at(self, position: int) -> Spoken | None:
        """The longest formula that starts here and rests on a value; None if there is none."""
        first = self._tokens[position]
        if first.kind in _SKIPPED:
            return None
        if first.kind == "operator":
            after = self._tokens[position + 1]  # an end, if nothing else
            if not (first.leads or after.kind == "number"):
                return None  # a dash
        self._next = position
        self._depth = 0
        term = self._comparison()
        if term is None or not names(term.node):
            return None
        says = term.says if term.says is not None and len(term.says) <= _MAX_SAID else None
        return Spoken(node=term.node, says=says, end=self._next)

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _takes(self, kind: str, *texts: str) -> bool:
        """Step over a token of this kind, and of one of these texts if any are given."""
        found = self._token.kind == kind and (not texts or self._token.text in texts)
        self._next += found
        return found

    def _comparison(self) -> _Term | None:
        left = self._ratio()
        mark = self._next
        if left is None or self._token.kind != "operator" or self._token.text not in _COMPARISONS:
            return left
        sign = self._token.text
        self._next += 1
        right = self._sum()
        if right is None:
            self._next = mark
            return left
        node = Compare(cast("CompareOperator", sign), left.node, right.node)
        return _Term(node=node, says=_joined(left, _OPERATORS[sign], right), whole=False)

    def _ratio(self) -> _Term | None:
        """`A to B ratio`, `A/B ratio`, or a sum."""
        left = self._sum()
        if left is None:
            return None
        mark = self._next
        self._takes("operator", "-")  # the hyphens of AST-to-ALT
        if self._token.kind == "preposition":
            self._next += 1
            self._takes("operator", "-")
            right = self._unary()
            if right is not None and self._takes("list", "/"):
                return _binary("/", left, right)
        self._next = mark
        if self._takes("list", "/") and self._token.kind == "preposition":
            self._next = mark
        return left

    def _sum(self) -> _Term | None:
        return self._left_to_right(self._product, ("+", "-", "from", "share"))

    def _product(self) -> _Term | None:
        return self._left_to_right(self._unary, ("*", "/"))

    def _left_to_right(
        self, operand: Callable[[], _Term | None], signs: tuple[str, ...]
    ) -> _Term | None:
        left = operand()
        while left is not None and self._token.kind == "operator" and self._token.text in signs:
            mark = self._next
            sign = self._token.text
            self._next += 1
            right = operand()
            if right is None:
                self._next = mark
                break
            left = _binary(sign, left, right)
        return left

    def _unary(self) -> _Term | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FormulaLimitError("depth", MAX_DEPTH)
        start = self._next
        while self._token.kind in _SKIPPED:
            self._next += 1
        if self._takes("operator", "-"):
            inner = self._unary()
            term = None if inner is None else _negated(inner)
        else:
            term = self._power()
        if term is None:
            self._next = start
        self._depth -= 1
        return term

    def _power(self) -> _Term | None:
        base = self._atom()
        while base is not None:
            mark = self._next
            while self._takes("qualifier"):  # the level of a thing is the thing
                pass
            token = self._token
            if self._takes("power"):
                said = "squared" if token.text == "2" else "cubed"
                node = Arithmetic("**", base.node, NumberLiteral(float(token.text)))
                says = None if base.says is None else f"{_bracketed(base)} {said}"
                base = _Term(node=node, says=says, whole=False)
                continue
            if self._takes("operator", "**"):
                exponent = self._unary()
                if exponent is not None:
                    return _binary("**", base, exponent)
            if token.kind != "operator" or token.text == "**":
                self._next = mark
            break
        return base

    def _atom(self) -> _Term | None:
        token = self._token
        start = self._next
        self._next += 1
        term: _Term | None = None
        match token.kind:
            case "name" if self._kinds[token.text] != "identifier":
                return _Term(node=Variable(token.text), says=token.says)
            case "number":
                term = self._number(float(token.text))
            case "open":
                term = self._comparison()
                if term is not None and not self._takes("close"):
                    term = None
            case "scale":
                term = self._scaled(token.text)
            case "call":
                self._takes("preposition")
                inner = self._unary()
                term = None if inner is None else _called(token.text, inner)
            case "list":
                term = self._listed(token.text)
            case "verb":
                term = self._ordered(token.text)
            case _:
                pass
        if term is None:
            self._next = start
        return term

    def _number(self, value: float) -> _Term | None:
        number = _Term(node=NumberLiteral(value), says=named(value))
        if not self._takes("percent"):
            return number
        self._takes("preposition")
        whole = self._unary()
        if whole is None:
            return None
        part = Arithmetic("/", number.node, NumberLiteral(100.0))
        says = _joined(number, "percent of", whole)
        return _Term(node=Arithmetic("*", part, whole.node), says=says, whole=False)

    def _scaled(self, factor: str) -> _Term | None:
        self._takes("preposition")
        inner = self._unary()
        if inner is None:
            return None
        says = None if inner.says is None else f"{_SCALES[factor]} {_bracketed(inner)}"
        one, _, divisor = factor.partition("/")
        if divisor:
            node = Arithmetic("/", inner.node, NumberLiteral(float(divisor)))
        else:
            node = Arithmetic("*", NumberLiteral(float(one)), inner.node)
        return _Term(node=node, says=says, whole=False)

    def _listed(self, kind: str) -> _Term | None:
        """The sum, ratio or maximum of several values."""
        self._takes("preposition")
        most = 2 if kind in ("-", "/") else MAX_ARGUMENTS
        mark = self._next
        items = self._in_brackets() if self._takes("open") else None
        if items is None:
            self._next = mark
            items = self._items(kind, most)
        if len(items) == 1 and kind in ("+", "*", "/", "-") and not items[0].whole:
            return items[0]  # the ratio AST/ALT, the sum AST + ALT
        if kind == "clip":
            return _several("clip", items) if len(items) == 3 else None
        if not 2 <= len(items) <= most:
            return None
        if kind in ("max", "min"):
            return _several(kind, items)
        total = items[0]
        for item in items[1:]:
            total = _binary("+" if kind == "mean" else kind, total, item)
        if kind == "mean":
            node = Arithmetic("/", total.node, NumberLiteral(float(len(items))))
            return _Term(node=node, says=_enumerated("average of", items), whole=False)
        return total

    def _in_brackets(self) -> list[_Term] | None:
        """`a, b, c)`: the arguments of a call that has its bracket open."""
        items: list[_Term] = []
        while (item := self._comparison()) is not None:
            items.append(item)
            if self._takes("close"):
                return items if len(items) > 1 else None
            if not self._takes("comma"):
                break
        return None

    def _items(self, kind: str, most: int) -> list[_Term]:
        """`a, b and c`; after a comma the first "and" ends the list."""
        first = self._sum()
        items = [] if first is None else [first]
        commas = False
        while first is not None and len(items) < most:
            mark = self._next
            comma = self._takes("comma")
            together = self._takes("and")
            if kind == "/" and not comma and not together:
                together = self._takes("preposition")
            elif kind == "/" and _divides(first.node):  # the ratio AST/ALT and something else
                self._next = mark
                break
            listed = (comma or together) and not (comma and len(items) > 1 and not commas)
            item = self._item() if listed else None
            if item is None:
                self._next = mark
                break
            items.append(item)
            commas = commas or comma
            if together and commas:
                break
        return items

    def _item(self) -> _Term | None:
        """An item after the first: only operators that touch it are part of it."""
        left = self._unary()
        while left is not None and self._token.tight and self._token.text in ("*", "/"):
            sign = self._token.text
            self._next += 1
            right = self._unary()
            if right is None:
                self._next -= 1
                break
            left = _binary(sign, left, right)
        return left

    def _ordered(self, sign: str) -> _Term | None:
        """`multiply A by B`, `subtract A from B`."""
        left = self._unary()
        if left is None or not (self._takes("preposition") or self._takes("and")):
            return None
        right = self._unary()
        if right is None:
            return None
        return _binary("from" if sign == "-" else sign, left, right)


def _binary(sign: str, left: _Term, right: _Term) -> _Term:
    if sign == "from":
        sign, left, right = "-", right, left
    if sign == "share":
        hundred = Arithmetic("*", NumberLiteral(100.0), left.node)
        says = _joined(left, "as a percentage of", right)
        return _Term(node=Arithmetic("/", hundred, right.node), says=says, whole=False)
    node = Arithmetic(cast("ArithmeticOperator", sign), left.node, right.node)
    return _Term(node=node, says=_joined(left, _OPERATORS[sign], right), whole=False)


def _called(function: str, inner: _Term) -> _Term:
    if function in ("square", "cube"):
        exponent = 2.0 if function == "square" else 3.0
        node: Node = Arithmetic("**", inner.node, NumberLiteral(exponent))
        said = f"{function} of"
    elif function == "reciprocal":
        node, said = Arithmetic("/", NumberLiteral(1.0), inner.node), "reciprocal of"
    else:
        node, said = FunctionCall(function, (inner.node,)), _CALLS[function]
    says = None if inner.says is None else f"{said} {_bracketed(inner)}"
    return _Term(node=node, says=says, whole=False)


def _several(function: str, items: list[_Term]) -> _Term:
    node = FunctionCall(function, tuple(item.node for item in items))
    said = _CALLS.get(function)
    says = None if said is None else _enumerated(said, items)
    return _Term(node=node, says=says, whole=False)


def _enumerated(word: str, items: list[_Term]) -> str | None:
    said = [_bracketed(item) for item in items if item.says is not None]
    if len(said) < len(items):
        return None
    return f"{word} {', '.join(said[:-1])} and {said[-1]}"


def _divides(node: Node) -> bool:
    return isinstance(node, Arithmetic) and node.operator == "/"


def _negated(inner: _Term) -> _Term:
    says = None if inner.says is None else f"minus {_bracketed(inner)}"
    return _Term(node=Negate(inner.node), says=says, whole=False)


def _joined(left: _Term, word: str, right: _Term) -> str | None:
    if left.says is None or right.says is None:
        return None
    return f"{_bracketed(left)} {word} {_bracketed(right)}"


def _bracketed(term: _Term) -> str:
    return f"{term.says}" if term.whole else f"({term.says})"
