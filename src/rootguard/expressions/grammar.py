"""The formula language: text to nodes, nodes to one canonical text, names to formulas.

::

    formula := either [ "if" either "else" formula ]
    either  := both { "or" both }
    both    := inverse { "and" inverse }
    inverse := "not" inverse | sum { ("<" | "<=" | ">" | ">=" | "==" | "!=") sum }
    sum     := product { ("+" | "-") product }
    product := signed { ("*" | "/") signed }
    signed  := ("-" | "+") signed | power
    power   := atom [ "**" signed ]
    atom    := number | name | function "(" formula { "," formula } ")" | "(" formula ")"

The levels are Python's. `18 <= age < 65` means `18 <= age and age < 65`. The parser reads by
binding strength with two frames per level, never calls Python's own parser, and refuses a text
by its length before it reads a character of it. Text is public; values never come here.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, assert_never, cast

from rootguard.errors import (
    FormulaError,
    FormulaLimitError,
    FormulaNameError,
    FormulaSyntaxError,
)
from rootguard.expressions import nodes
from rootguard.expressions.evaluation import outcome_of
from rootguard.values import days_of, normalised

_CHOOSE, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGNED, _POWER, _ATOM = range(1, 11)

_BINDING: Final[Mapping[str, int]] = {
    "if": _CHOOSE,
    "or": _OR,
    "and": _AND,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), _COMPARE),
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "**": _POWER,
}

# One node costs at most two nested readings: its operand, and a bracket around that operand.
_MAX_READINGS: Final = 2 * nodes.MAX_DEPTH + 2

_TOKEN: Final = re.compile(
    r"[ \t\r\n]*(?:"
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/<>(),])"
    r"|(?P<end>\Z)"
    r"|(?P<other>.))",
    re.DOTALL,
)
# Every other token makes at least one node, but for a plus sign in front of its operand.
_UNCOUNTED: Final = frozenset({",", "else"})
_HINTS: Final[Mapping[str, str]] = {
    "^": "a power is written **, not ^",
    "=": "equality is written ==",
    "!": "inequality is written !=, negation is written not",
    "&": "write and",
    "|": "write or",
    "%": "there is no % in a formula; write the division out",
    ";": "a formula is one expression",
    "'": "text stands in double quotes, and only an answer of a category or a date does",
    '"': "a text in quotes is a date, or an answer compared with its category",
}


_Token = tuple[str, str, int]
"""Kind (number, name, sign or end), text, position."""


def parse(text: str) -> nodes.Node:
    """Read a formula.

    Raises `FormulaSyntaxError` with the position, `FormulaLimitError` with the limit passed, or
    `FormulaNameError` for an unknown function or a name that cannot be one.
    """
    if len(text) > nodes.MAX_LENGTH:
        raise FormulaLimitError("text length", nodes.MAX_LENGTH)
    node = _Reader(_tokens(text)).formula()
    if node.size > nodes.MAX_NODES:  # a chain of comparisons counts its middle parts twice
        raise FormulaLimitError("number of parts", nodes.MAX_NODES)
    if node.depth > nodes.MAX_DEPTH and _nesting(node) > nodes.MAX_DEPTH:
        raise FormulaLimitError("depth", nodes.MAX_DEPTH)
    if "**" in text:
        _check_exponents(node)
    return node


_QUOTED: Final = re.compile(
    r'''(?P<left>[A-Za-z_][A-Za-z0-9_]*)[ \t]*(?P<sign>==|!=|<=|>=|<|>)[ \t]*"(?P<word>[^"]*)"'''
    r'''|"(?P<day>\d{4}-\d{2}-\d{2})"'''
)


def spelled_out(text: str, words: Mapping[str, Sequence[str]]) -> str:
    """A formula with the answers and dates that it has in quotes written as numbers.

    `region == "north"` compares a category with the place of one of its answers, which `words`
    lists by name; a date is its days since 1970. Other quotes stay, and `parse` refuses them.
    """
    if '"' not in text or len(text) > nodes.MAX_LENGTH:
        return text

    def number(match: re.Match[str]) -> str:
        day = match["day"] or match["word"] or ""
        if (name := match["left"]) and words.get(name):
            known = {normalised(word): place for place, word in enumerate(words[name])}
            place = known.get(normalised(match["word"]))
            if place is None:
                reason = f"{name} has no such answer; use one of {', '.join(words[name])[:200]}"
                raise FormulaSyntaxError(reason, match.start("word"))
            return f"{name} {match['sign']} {place}"
        try:
            days = days_of(date.fromisoformat(day))
        except ValueError:
            return match[0]
        return f"{name} {match['sign']} {days}" if name else f"({days})"

    return _QUOTED.sub(number, text)


def to_text(node: nodes.Node) -> str:
    """The canonical text, with the fewest brackets; reading it gives an equal node.

    The exception is a tree that could not have been read: one whose text is over `MAX_LENGTH`, or
    one built by hand around a fixed exponent over `MAX_EXPONENT`.
    """
    return _write(node)


def substitute(node: nodes.Node, replacements: Mapping[str, nodes.Node]) -> nodes.Node:
    """Put formulas in the place of names, all at once; names without a replacement stay.

    The result is held to the limits of `parse`. Replacing `pi` or `e` is refused.
    """
    for name in replacements:
        if name in nodes.CONSTANTS:
            raise FormulaNameError(name)
    for replacement in replacements.values():
        _check_exponents(replacement)
    return put_in(node, replacements)


def put_in(node: nodes.Node, replacements: Mapping[str, nodes.Node]) -> nodes.Node:
    """The same of replacements that were made here, or parsed: they need no further look.

    So a chain of formulas is put together in as many steps as it has parts.
    """
    made: list[nodes.Node] = []
    for each, places in nodes.steps(node):
        if each.free.isdisjoint(replacements):
            made.append(each)
        elif isinstance(each, nodes.Variable):
            made.append(replacements.get(each.name, each))
        else:
            made.append(nodes.rebuild(each, [made[place] for place in places]))
            _check_exponent(made[-1])
    return made[-1]


def _nesting(node: nodes.Node) -> int:
    """Levels of a formula, where the terms of one sum, product or chain of `and` are one level."""
    levels: list[int] = []
    for each, places in nodes.steps(node):
        below = [levels[place] for place in places]
        if isinstance(each, nodes.Arithmetic | nodes.Logic):
            levels.append(max(below[0], 1 + below[1]))
        else:
            levels.append(1 + max(below, default=0))
    return levels[-1]


def check_unfolded(formulas: Mapping[str, nodes.Node]) -> None:
    """Refuse formulas that pass the limits once each other's names are put in, down to the rest.

    They come in an order in which each follows those that it names. By their measures alone:
    nothing is put together.
    """
    measures: dict[str, tuple[int, int]] = {}
    for name, node in formulas.items():
        measures[name] = _unfolded(node, measures)


def _unfolded(node: nodes.Node, measures: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Levels and parts of a formula with names of these measures put in."""
    found: list[tuple[int, int]] = []
    for each, places in nodes.steps(node):
        if isinstance(each, nodes.Variable) and each.name in measures:
            found.append(measures[each.name])
            continue
        below = [found[place] for place in places]
        levels = 1 + max((depth for depth, _ in below), default=0)
        size = 1 + sum(size for _, size in below)
        if levels > nodes.MAX_LEVELS:
            raise FormulaLimitError("levels", nodes.MAX_LEVELS)
        if size > nodes.MAX_PARTS:
            raise FormulaLimitError(nodes.UNFOLDED_PARTS, nodes.MAX_PARTS)
        found.append((levels, size))
    return found[-1]


def _tokens(text: str) -> list[_Token]:
    """Cut the text up; a flood of parts or of brackets is refused before a node is built."""
    tokens: list[_Token] = []
    counted = open_brackets = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "end"
        word = match[kind]
        if kind == "other":
            reason = _HINTS.get(word, "this character is not part of a formula")
            raise FormulaSyntaxError(reason, match.start(kind))
        if kind == "name":
            if word in nodes.KEYWORDS:
                kind = "sign"
            elif word.startswith("__"):
                nodes.check_name(word)
        tokens.append((kind, word, match.end() - len(word)))
        if kind == "end":
            break
        if word == "(":
            open_brackets += 1
            if open_brackets > nodes.MAX_DEPTH:
                raise FormulaLimitError("depth", nodes.MAX_DEPTH)
        elif word == ")":
            open_brackets -= 1
        elif word not in _UNCOUNTED:
            counted += 1
            if counted > nodes.MAX_NODES:
                raise FormulaLimitError("number of parts", nodes.MAX_NODES)
    return tokens


class _Reader:
    """Reads tokens by binding strength: a reading takes every operator at or above its floor."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._readings = 0

    def formula(self) -> nodes.Node:
        if self._tokens[0][0] == "end":
            raise FormulaSyntaxError("the formula is empty", 0)
        node = self._read(_CHOOSE)
        kind, _, position = self._tokens[self._next]
        if kind != "end":
            raise FormulaSyntaxError("expected an operator or the end", position)
        return node

    def _read(self, floor: int) -> nodes.Node:
        self._readings += 1
        if self._readings > _MAX_READINGS:
            raise FormulaLimitError("depth", nodes.MAX_DEPTH)
        left = self._operand(floor)
        while True:
            kind, sign, _ = self._tokens[self._next]
            level = _BINDING.get(sign, 0) if kind == "sign" else 0
            if level < floor:
                break
            if level == _COMPARE:
                left = self._chain(left)
                continue
            self._next += 1
            if level == _CHOOSE:
                condition = self._read(_OR)
                self._expect("else")
                left = nodes.Choose(condition, left, self._read(_CHOOSE))
            elif level in (_OR, _AND):
                left = nodes.Logic(cast("nodes.LogicOperator", sign), left, self._read(level + 1))
            else:
                right = self._read(_SIGNED if level == _POWER else level + 1)
                left = nodes.Arithmetic(cast("nodes.ArithmeticOperator", sign), left, right)
        self._readings -= 1
        return left

    def _chain(self, left: nodes.Node) -> nodes.Node:
        chain: nodes.Node | None = None
        while _BINDING.get(self._tokens[self._next][1]) == _COMPARE:
            sign = cast("nodes.CompareOperator", self._tokens[self._next][1])
            self._next += 1
            right = self._read(_SUM)
            link = nodes.Compare(sign, left, right)
            chain = link if chain is None else nodes.Logic("and", chain, link)
            left = right
        return left if chain is None else chain

    def _operand(self, floor: int) -> nodes.Node:
        kind, text, position = self._tokens[self._next]
        self._next += 1
        if kind == "number":
            return nodes.NumberLiteral(float(text))
        if kind == "name":
            if self._tokens[self._next][1] == "(":
                return self._call(text, position)
            if text in nodes.FUNCTIONS:
                raise FormulaSyntaxError(f"{text} is a function; call it with (...)", position)
            return nodes.Variable(text)
        match text:
            case "(":
                inside = self._read(_CHOOSE)
                self._expect(")")
                return inside
            case "-":
                return nodes.Negate(self._read(_SIGNED))
            case "+":
                return self._read(_SIGNED)
            case "not" if floor <= _NOT:
                return nodes.Not(self._read(_NOT))
            case "not":
                raise FormulaSyntaxError("put brackets around this not", position)
            case _:
                raise FormulaSyntaxError("expected a number, a name or a bracket", position)

    def _call(self, function: str, position: int) -> nodes.Node:
        if function not in nodes.FUNCTIONS:
            nodes.check_name(function)
            raise FormulaNameError(function, tuple(nodes.FUNCTIONS))
        self._next += 1
        fewest, most = nodes.FUNCTIONS[function]
        arguments: list[nodes.Node] = []
        if self._tokens[self._next][1] != ")":
            arguments.append(self._read(_CHOOSE))
            while self._tokens[self._next][1] == "," and len(arguments) <= most:
                self._next += 1
                arguments.append(self._read(_CHOOSE))
        if not fewest <= len(arguments) <= most:
            raise FormulaSyntaxError(f"{function} takes {nodes.arity(function)}", position)
        self._expect(")")
        return nodes.FunctionCall(function, tuple(arguments))

    def _expect(self, text: str) -> None:
        _, found, position = self._tokens[self._next]
        if found != text:
            raise FormulaSyntaxError(f"expected {text}", position)
        self._next += 1


def _check_exponents(node: nodes.Node) -> None:
    """Refuse a fixed exponent over the limit now, not at its first use.

    An exponent without names is evaluated whole, which checks every power inside it too. One that
    has no value is left for evaluation, which may never reach it.
    """
    seen: set[nodes.Node] = set()
    stack = [node]
    while stack:
        each = stack.pop()
        if each in seen:
            continue
        seen.add(each)
        if not isinstance(each, nodes.Arithmetic) or each.operator != "**" or each.right.free:
            stack += nodes.parts(each)
            continue
        stack.append(each.left)
        _check_exponent(each)


def _check_exponent(node: nodes.Node) -> None:
    """The same of one node."""
    if not isinstance(node, nodes.Arithmetic) or node.operator != "**" or node.right.free:
        return
    outcome = outcome_of(node.right, {})
    if isinstance(outcome, FormulaLimitError):
        raise outcome
    if not isinstance(outcome, FormulaError) and abs(outcome) > nodes.MAX_EXPONENT:
        raise FormulaLimitError("exponent", nodes.MAX_EXPONENT)


def _write(node: nodes.Node) -> str:
    """The text of a node; each part in brackets where it binds less than its place asks for."""
    written: list[tuple[int, str]] = []
    for each, places in nodes.steps(node):
        written.append(_written(each, [written[place] for place in places]))
    return written[-1][1]


def _written(node: nodes.Node, below: list[tuple[int, str]]) -> tuple[int, str]:
    """How strongly a node binds, and its text, from those of its parts."""

    def part(place: int, floor: int) -> str:
        level, text = below[place]
        return text if level >= floor else f"({text})"

    match node:
        case nodes.NumberLiteral(value):
            return _ATOM, f"{value:.0f}" if value.is_integer() and value < 1e15 else repr(value)
        case nodes.Variable(name):
            return _ATOM, name
        case nodes.FunctionCall(function):
            arguments = ", ".join(part(place, _CHOOSE) for place in range(len(below)))
            return _ATOM, f"{function}({arguments})"
        case nodes.Negate():
            return _SIGNED, f"-{part(0, _SIGNED)}"
        case nodes.Not():
            return _NOT, f"not {part(0, _NOT)}"
        case nodes.Arithmetic("**"):
            return _POWER, f"{part(0, _ATOM)}**{part(1, _SIGNED)}"
        case nodes.Arithmetic() | nodes.Logic():
            level = _BINDING[node.operator]
            return level, f"{part(0, level)} {node.operator} {part(1, level + 1)}"
        case nodes.Compare(operator):
            return _COMPARE, f"{part(0, _SUM)} {operator} {part(1, _SUM)}"
        case nodes.Choose():
            return _CHOOSE, f"{part(1, _OR)} if {part(0, _OR)} else {part(2, _CHOOSE)}"
        case _:
            assert_never(node)
