"""The formula language: reading, refusing, printing, substituting."""

import math
import pickle

import numpy as np
import pytest

import rootguard.expressions as expressions
from rootguard.errors import (
    FormulaLimitError,
    FormulaNameError,
    FormulaSyntaxError,
)
from rootguard.expressions import (
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
    Extremes,
    FunctionCall,
    Interval,
    Logic,
    Negate,
    Node,
    Not,
    NumberLiteral,
    Variable,
    bounds,
    derivative_bounds,
    evaluate,
    evaluate_many,
    gradient,
    grammar,
    names,
    nodes,
    parse,
    substitute,
    to_text,
)
from rootguard.expressions.nodes import steps


def at(text: str, **values: float) -> float:
    return evaluate(parse(text), values)


def test_the_public_names_are_sorted_and_exist() -> None:
    public = expressions.__all__
    upper = [name for name in public if name.isupper()]
    rest = [name for name in public if not name.isupper()]
    assert public == sorted(upper) + sorted(rest)
    assert all(hasattr(expressions, name) for name in public)


# Reading


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("2 ** 3 ** 2", 512.0),
        ("-2 ** 2", -4.0),
        ("(-2) ** 2", 4.0),
        ("2 ** -1", 0.5),
        ("2 ** - + 1", 0.5),
        ("2 * -3", -6.0),
        ("- - 2", 2.0),
        ("+2", 2.0),
        ("7 - 2 - 1", 4.0),
        ("8 / 4 / 2", 1.0),
        ("1 + 1 < 3", 1.0),
        ("not 1 == 2", 1.0),
        ("not 0 and 0", 0.0),
        ("1 or 0 and 0", 1.0),
        ("(1 or 0) and 0", 0.0),
        ("1 if 0 else 2 if 0 else 3", 3.0),
        ("5 if 1 or 0 else 6", 5.0),
        ("1 + 2 if 0 else 3 + 4", 7.0),
        ("7 and 8", 1.0),
        ("1 < 2 < 3", 1.0),
        ("3 > 2 > 2", 0.0),
        ("(3 > 2) > 0.5", 1.0),
        ("1e-3 + .5 + 1.", 1.501),
        ("sqrt(16) + abs(-2) + exp(0)", 7.0),
        ("log(e) + ln(e) + log10(1000) + log2(8)", 8.0),
        ("min(3, 1, 2) + max(3, 1, 2)", 4.0),
        ("round(0.5) + round(1.5) + round(2.5)", 4.0),
        ("floor(-0.5) + ceil(0.5)", 0.0),
        ("clip(5, 0, 3) + clip(-5, 0, 3) + clip(2, 0, 3)", 5.0),
        ("floor(pi)", 3.0),
        ("\t1\n+ 1 \r\n", 2.0),
    ],
)
def test_operators_bind_as_they_do_in_python(text: str, value: float) -> None:
    assert at(text) == pytest.approx(value, abs=1e-15)


def test_a_chain_of_comparisons_is_read_as_and() -> None:
    age = Variable("age")
    assert parse("18 <= age < 65") == Logic(
        "and", Compare("<=", NumberLiteral(18), age), Compare("<", age, NumberLiteral(65))
    )


def test_every_kind_of_node_can_be_written_by_place_or_by_name() -> None:
    assert parse("-a if not b else a + 1") == Choose(
        condition=Not(operand=Variable(name="b")),
        then=Negate(operand=Variable("a")),
        otherwise=Arithmetic(operator="+", left=Variable("a"), right=NumberLiteral(value=1)),
    )
    assert parse("sqrt(a)") == FunctionCall(function="sqrt", arguments=(Variable("a"),))


@pytest.mark.parametrize(
    "text",
    [
        "a - (b - c)",
        "(a - b)**2",
        "(-a)**b",
        "-a**b",
        "a**-b**c",
        "(a**b)**c",
        "a / (b * c)",
        "a and (b or c)",
        "(a < b) < c",
        "not (a and b)",
        "not a and b",
        "-(not a)",
        "(a if b else c) if d else e",
        "a if (b if c else d) else e",
        "a if b else c if d else e",
        "(a if b else c) + 1",
        "min(a if b else c, 0.001)",
        "1e+20 + 1e-07 + 123456",
        "--a - -b",
    ],
)
def test_canonical_text_stays_as_it_is(text: str) -> None:
    assert to_text(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((a))+((b*c))", "a + b * c"),
        ("(a**(b**c))", "a**b**c"),
        ("+a", "a"),
        ("1.50*(x)", "1.5 * x"),
        ("18<=age<65", "18 <= age and age < 65"),
        ("((a and b)) and c", "a and b and c"),
    ],
)
def test_needless_brackets_and_signs_are_not_written(text: str, canonical: str) -> None:
    assert to_text(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("   ", 0),
        ("1 +", 3),
        ("a b", 2),
        ("2x", 1),
        ("1_000", 1),
        ("0x10", 1),
        ("1e", 1),
        ("1..2", 2),
        ("(1", 2),
        ("1)", 1),
        ("()", 1),
        ("a if b", 6),
        ("a if b else", 11),
        ("else", 0),
        ("1 + not 2", 4),
        ("- not 2", 2),
        ("a == not b", 5),
        ("sqrt", 0),
        ("sqrt + 1", 0),
        ("sqrt()", 0),
        ("sqrt(1, 2)", 0),
        ("clip(1, 2)", 0),
        ("min(1)", 0),
        ("sqrt(1,)", 7),
        ("a, b", 1),
        ("a.b", 1),
        ("a[0]", 1),
        ("x := 1", 2),
        ("lambda: 1", 6),
        ("a // b", 3),
        ("a <> b", 3),
        ("1 2", 2),
        ("\x00", 0),
        ("a\x00", 1),
        ("a + \x00b", 4),
        ("\u0430ge", 0),
        ("\u0661 + 1", 0),
        ("1\u0661", 1),
        ("\uff11", 0),
        ("a\u00a0+ 1", 1),
        ("a \u2212 b", 2),
    ],
)
def test_text_outside_the_grammar_is_refused_at_its_position(text: str, position: int) -> None:
    with pytest.raises(FormulaSyntaxError) as caught:
        parse(text)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("text", "hint"),
    [("2 ^ 3", "**"), ("a = 1", "=="), ("a & b", "and"), ("a | b", "or"), ("'a'", "double quotes")],
)
def test_a_common_slip_is_answered_with_the_right_spelling(text: str, hint: str) -> None:
    with pytest.raises(FormulaSyntaxError) as caught:
        parse(text)
    assert hint in caught.value.reason


# Hostile formulas


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9",
        "2**129",
        "a**(16*9)",
        "a**-129",
        "a**(1e60*1e60)",
        "1e999",
        "1e101",
        "9" * 400,
        "(" * 10_000,
        "(" * 900 + "1" + ")" * 900,
        "(" * 61 + "1" + ")" * 61,
        "-" * 1_900 + "1",
        "-" * 60 + "1",
        "+" * 1_900 + "1",
        "+" * 390 + "1",
        "not " * 400 + "1",
        "not " * 60 + "1",
        "2**" * 500 + "2",
        "1**" * 60 + "1",
        "1**" * 130 + "1",
        "sqrt(" * 61 + "1" + ")" * 61,
        "1" + "+1" * 200,
        "1" + "+1" * 900,
        "1" + "-(1" * 60 + ")" * 60,
        "1" + "<1" * 300,
        "max(" + "1," * 900 + "1)",
        "1 if 1 else " * 61 + "1",
        "-".join(["max(a,a,a,a,a,a,a,a)"] * 50),
        "x" * 65,
        "x" * 2_001,
        " " * 2_001,
    ],
)
def test_a_formula_over_a_limit_is_refused(text: str) -> None:
    with pytest.raises(FormulaLimitError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "__import__", "__x", "open(a)", "eval(1)", "sin(1)", "a.__class__"],
)
def test_a_name_that_reaches_outside_is_refused(text: str) -> None:
    with pytest.raises((FormulaNameError, FormulaSyntaxError)):
        parse(text)


def test_an_unknown_function_is_answered_with_the_known_ones() -> None:
    with pytest.raises(FormulaNameError) as caught:
        parse("sin(1)")
    assert caught.value.name == "sin"
    assert "sqrt" in caught.value.known


def test_a_long_argument_list_is_refused_without_reading_it_all() -> None:
    with pytest.raises(FormulaSyntaxError, match="2 to 8"):
        parse("max(" + "1," * 20 + "1)")


def test_formulas_just_within_the_limits_are_accepted() -> None:
    assert at("2**128") == 2.0**128
    assert at("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH) == 1.0
    assert at("-" * (MAX_DEPTH - 1) + "1") == -1.0
    assert at("1" + "+1" * 199) == 200.0
    assert at("1" + " and 1" * 199) == 1.0
    assert at("1**" * (MAX_DEPTH - 1) + "1") == 1.0
    assert at("max(1,2,3,4,5,6,7,8)") == 8.0
    assert at("1" + " " * (MAX_LENGTH - 1)) == 1.0
    assert at("1e100") == 1e100
    assert at("x" * 64, **{"x" * 64: 2.0}) == 2.0


def test_length_is_checked_before_a_character_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(text: str) -> None:
        raise AssertionError("the text was read")

    monkeypatch.setattr(grammar, "_tokens", read)
    with pytest.raises(FormulaLimitError):
        parse("(" * (MAX_LENGTH + 1))
    with pytest.raises(AssertionError):
        parse("1")


def deepest(right: bool, levels: int = MAX_DEPTH) -> Node:
    node: Node = Variable("a")
    while node.depth < levels:
        node = Arithmetic("-", *((NumberLiteral(1), node) if right else (node, NumberLiteral(1))))
    return node


@pytest.mark.parametrize("right", [True, False])
def test_the_deepest_tree_can_go_through_every_operation(right: bool) -> None:
    node = deepest(right)
    assert parse(to_text(node)) == node
    assert substitute(node, {"a": Variable("b")}) != node
    assert pickle.loads(pickle.dumps(node)) == node
    assert len({node, deepest(right)}) == 1
    assert evaluate(node, {"a": 0.0}) == gradient(node, {"a": 0.0})[0]
    assert evaluate_many(node, {"a": np.zeros(1)})[0] == evaluate(node, {"a": 0.0})
    box = {"a": Interval(0.0, 0.0)}
    assert bounds(node, box) == derivative_bounds(node, box)[0]
    assert evaluate(node, {"a": 0.0}) in bounds(node, box)
    assert "Variable" in repr(node)


@pytest.mark.parametrize("right", [True, False])
def test_a_formula_deeper_than_the_stack_goes_through_every_operation(right: bool) -> None:
    """Of formulas that were put together, which have as many levels as a chain has values."""
    node, again = deepest(right, MAX_LEVELS), deepest(right, MAX_LEVELS)
    assert node == again
    assert len({node, again}) == 1
    assert node != deepest(right, MAX_LEVELS - 2)
    assert to_text(node).count("1") == MAX_LEVELS - 1
    assert substitute(node, {"a": Variable("b")}).free == {"b"}
    value, slopes = gradient(node, {"a": 3.0})
    assert evaluate(node, {"a": 3.0}) == value
    assert abs(slopes["a"]) == 1.0
    assert evaluate_many(node, {"a": np.full(2, 3.0)}).tolist() == [value, value]
    assert evaluate_many(node, {"a": np.array([math.nan])})[0] != value  # the careful way
    box = {"a": Interval(3.0, 4.0)}
    assert value in bounds(node, box)
    assert value in derivative_bounds(node, box)[0]
    low, high = Extremes(node, box).width()
    assert low <= 1.0 <= high


def test_a_part_that_occurs_twice_is_computed_once() -> None:
    part = parse("exp(x / y)")
    wide: Node = part
    for _ in range(8):
        wide = Arithmetic("*", wide, wide)
    assert len(steps(wide)) == len(steps(part)) + 8
    point = {"x": 0.5, "y": 100.0}
    columns = {name: np.full(3, value) for name, value in point.items()}
    assert evaluate_many(wide, columns).tolist() == [evaluate(wide, point)] * 3
    assert columns["x"].tolist() == [0.5] * 3  # what is given is never overwritten


def test_a_tree_over_the_limits_cannot_be_built_by_hand_either() -> None:
    with pytest.raises(FormulaLimitError):
        Negate(deepest(right=True, levels=MAX_LEVELS))
    wide: Node = Variable("a")
    while 2 * wide.size + 1 <= MAX_PARTS:
        wide = Arithmetic("+", wide, wide)
    with pytest.raises(FormulaLimitError):
        Arithmetic("+", wide, wide)


@pytest.mark.parametrize("value", [-1.0, -0.0, math.nan])
def test_a_literal_is_never_negative_nor_nan(value: float) -> None:
    with pytest.raises(ValueError, match="literal"):
        NumberLiteral(value)


@pytest.mark.parametrize("name", ["", "1a", "a b", "if", "sqrt", "__a", "a-b", "é", "a\n"])
def test_a_name_node_holds_a_name_of_the_grammar(name: str) -> None:
    with pytest.raises(FormulaNameError):
        Variable(name)


def test_a_call_node_knows_its_function_and_arity() -> None:
    with pytest.raises(FormulaNameError):
        FunctionCall("system", (Variable("a"),))
    with pytest.raises(ValueError, match="2 to 8"):
        FunctionCall("min", (Variable("a"),))
    with pytest.raises(ValueError, match="no such operator"):
        Arithmetic("%", Variable("a"), Variable("b"))  # type: ignore[arg-type]


# Names and substitution


def test_constants_and_functions_are_not_names() -> None:
    assert names(parse("pi * r**2 + e + sqrt(h if k > 0 else 1)")) == {"r", "h", "k"}


def test_substitution_is_simultaneous() -> None:
    node = parse("a - b")
    assert substitute(node, {"a": Variable("b"), "b": Variable("a")}) == parse("b - a")


def test_substitution_keeps_the_structure_without_brackets() -> None:
    node = substitute(parse("weight / height**2"), {"height": parse("cm / 100")})
    assert to_text(node) == "weight / (cm / 100)**2"


def test_substitution_is_held_to_the_limits() -> None:
    with pytest.raises(FormulaLimitError):
        substitute(parse("2**x"), {"x": NumberLiteral(129)})
    with pytest.raises(FormulaLimitError):
        substitute(parse("x"), {"x": Arithmetic("**", Variable("y"), NumberLiteral(129))})
    with pytest.raises(FormulaLimitError):
        substitute(parse("x + 1"), {"x": deepest(right=True, levels=MAX_LEVELS)})
    with pytest.raises(FormulaNameError):
        substitute(parse("pi"), {"pi": NumberLiteral(3)})


def test_a_formula_shows_what_it_says_and_nothing_that_was_counted() -> None:
    shown = repr(parse("a + 1"))
    assert "'a'" in shown
    assert not any(word in shown for word in ("depth", "size", "free"))


def test_the_limits_are_part_of_the_language() -> None:
    """A template that is read today is read tomorrow, and a service is held to the same."""
    assert (MAX_LENGTH, MAX_DEPTH, MAX_NODES, MAX_ARGUMENTS) == (2_000, 60, 400, 8)
    assert (MAX_LEVELS, MAX_PARTS) == (2_000, 20_000)
    assert (MAX_EXPONENT, MAX_MAGNITUDE, MAX_NAME_LENGTH) == (128.0, 1e100, 64)


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_a_function_takes_as_many_arguments_as_it_says(function: str) -> None:
    fewest, most = {"clip": (3, 3), "max": (2, 8), "min": (2, 8)}.get(function, (1, 1))
    for count in (fewest, most):
        assert to_text(parse(f"{function}({', '.join(['x'] * count)})")).startswith(function)
    for count in (fewest - 1, most + 1):
        with pytest.raises(FormulaSyntaxError, match=f"{function} takes {fewest}"):
            parse(f"{function}({', '.join(['x'] * count)})")
        with pytest.raises(ValueError, match=f"{function} takes {fewest}") as caught:
            FunctionCall(function, (Variable("x"),) * count)
        assert str(caught.value).endswith("arguments" if most > 1 else "argument")


def test_four_hundred_parts_are_a_formula_and_one_more_is_none() -> None:
    arguments = ["-x" + "+x" * 24] * 7 + ["x" + "+x" * 24]
    node = parse(f"max({', '.join(arguments)})")
    assert node.size == 400
    with pytest.raises(FormulaLimitError, match="400"):
        parse(f"max({', '.join([*arguments[:7], '-' + arguments[7]])})")


def test_literals_exponents_and_names_may_reach_their_limits_and_not_pass_them() -> None:
    assert NumberLiteral(1e100).value == at("x", x=1e100) == 1e100
    assert at("2**128") == 2.0**128
    assert at("x**-128", x=2.0) == 2.0**-128
    assert Variable("n" * 64).free == {"n" * 64}
    for text in ("1.0000001e100", "2**128.5", "n" * 65):
        with pytest.raises(FormulaLimitError):
            parse(text)


@pytest.mark.parametrize("text", ["1", "x", "-x", "x + 1", "x < 1", "not x", "x and 1", "abs(x)"])
def test_a_node_holds_its_fields_and_no_others(text: str) -> None:
    """Thousands are kept; and what a node holds decides whether two are equal."""
    node = parse(text)
    assert not hasattr(node, "__dict__")
    assert node == parse(text)
    with pytest.raises(AttributeError):
        node.depth = 7  # type: ignore[misc]


def test_brackets_that_are_closed_count_no_more() -> None:
    eight = f"max({', '.join(['(x)'] * 8)})"
    assert at(f"max({', '.join([eight] * 8)})", x=3.0) == 3.0
    with pytest.raises(FormulaLimitError, match="60"):
        parse("(x) + " + "(" * 61 + "x" + ")" * 61)


def test_signs_and_brackets_nest_as_deep_as_the_deepest_formula_needs() -> None:
    assert at("(" + "-(" * 59 + "x" + ")" * 60, x=3.0) == -3.0
    assert at("+" * 121 + "x", x=3.0) == 3.0
    for before in ("", "x + x + x + x + x + "):
        with pytest.raises(FormulaLimitError, match="60"):
            parse(before + "+" * 122 + "x")


def test_formulas_with_the_same_mark_are_equal_only_part_by_part() -> None:
    """A mark is a short number: two different formulas may have the same one."""
    a, b, c = Variable("a"), Variable("b"), Variable("c")
    again = Variable("a")
    same, other = Negate(a), Negate(again)
    formulas: list[Node] = [
        *(a, b, same, Not(a), Negate(b), NumberLiteral(1.0), NumberLiteral(2.0)),
        *(Arithmetic("+", a, c), Arithmetic("+", b, c), Arithmetic("-", a, c)),
        *(Arithmetic("+", c, a), Arithmetic("+", c, b)),
    ]
    for each in (*formulas, c, again, other):
        object.__setattr__(each, "mark", 7)
    assert same == other
    equal = [(one, two) for one in formulas for two in formulas if one == two]
    assert equal == [(each, each) for each in formulas]
    assert a != "a"


def test_the_terms_of_a_sum_are_one_level_however_many_they_are() -> None:
    signs = "-" * (MAX_DEPTH - 1)
    assert at(f"{signs}x + 1 + 1", x=3.0) == -1.0
    assert parse(f"{signs}x + 1 + 1").depth == MAX_DEPTH + 2
    with pytest.raises(FormulaLimitError, match="depth"):
        parse(f"-{signs}x + 1 + 1")


def test_answers_and_dates_are_spelled_out_up_to_the_longest_text() -> None:
    words = {"region": ("north", "South")}
    said = grammar.spelled_out('region == "SOUTH" and born < "1970-01-11"', words)
    assert said == "region == 1 and born < 10"
    assert grammar.spelled_out('"1970-01-11" - 3', {}) == "(10) - 3"
    assert grammar.spelled_out('born < "1970-13-11"', {}) == 'born < "1970-13-11"'
    assert grammar.spelled_out("region == 1", words) == "region == 1"
    longest = 'region == "north"'.ljust(MAX_LENGTH)
    assert grammar.spelled_out(longest, words) == longest.replace('"north"', "0")
    assert grammar.spelled_out(longest + " ", words) == longest + " "
    with pytest.raises(FormulaSyntaxError, match="region has no such answer; use one of north"):
        grammar.spelled_out('region == "west"', words)
    with pytest.raises(FormulaSyntaxError) as many:
        grammar.spelled_out('region == "west"', {"region": ["x" * 60] * 9})
    assert str(many.value).count("x") == 200 - 3 * 2


def unfolded(formulas: dict[str, Node]) -> dict[str, Node]:
    """Each formula with those before it put in."""
    found: dict[str, Node] = {}
    for name, node in formulas.items():
        found[name] = grammar.put_in(node, found)
    return found


def test_what_formulas_come_to_is_counted_without_putting_them_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {"a": "x * x + 1", "b": "a - x / a", "c": "max(b, 3, a) if b > a else -x", "d": "c"}
    formulas = {name: parse(text) for name, text in texts.items()}
    whole = unfolded(formulas)
    levels, parts = whole["c"].depth, whole["c"].size
    assert (levels, parts) == (7, 42)
    for limit, reached, word in (("LEVELS", levels, "levels"), ("PARTS", parts, "number of parts")):
        with monkeypatch.context() as patched:
            patched.setattr(nodes, f"MAX_{limit}", reached)
            expressions.check_unfolded(formulas)
            patched.setattr(nodes, f"MAX_{limit}", reached - 1)
            with pytest.raises(FormulaLimitError, match=word) as refused:
                expressions.check_unfolded(formulas)
            assert refused.value.limit == reached - 1


@pytest.mark.parametrize(
    "text", ["y**129 + (x + x)", "x + 2**129", "(y**129 + 1) * 2", "y**(x**129)", "2**(y**129)"]
)
def test_a_fixed_exponent_over_the_limit_is_refused_wherever_it_stands(text: str) -> None:
    parse(text.replace("129", "128"))
    with pytest.raises(FormulaLimitError, match="exponent"):
        parse(text)


def test_numbers_that_are_no_exponents_may_be_greater_than_those() -> None:
    assert substitute(parse("y + 200"), {"y": Variable("x")}) == parse("x + 200")
    assert substitute(parse("y**x + 200**2"), {"y": Variable("x")}) == parse("x**x + 200**2")


def test_whole_numbers_have_no_point_below_a_thousand_billions() -> None:
    written = {999_999_999_999_999.0: "999999999999999", 1e15: "1000000000000000.0", 1e16: "1e+16"}
    assert {number: to_text(NumberLiteral(number)) for number in written} == written
