"""The graph: parents first, rings refused, computed roots cost nothing, drawings well-formed."""

import dataclasses
import json
import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard import graph as graphs
from rootguard.allocation import make_plan
from rootguard.errors import CycleError, FormulaNameError, NameTakenError, UnknownNameError
from rootguard.expressions import Variable, evaluate, names, parse, to_text
from rootguard.graph import (
    Graph,
    GraphNode,
    NodeKind,
    Recognised,
    _declared,
    _known_formulas,
    recognise,
    shared_quantities,
)
from rootguard.template import Template, catalog, load_template, parse_template
from rootguard.values import RootName

CATALOG = catalog()


def node(name: str, formula: str | None = None, kind: NodeKind = "derived") -> GraphNode:
    if formula is None:
        return GraphNode(name=name, kind="root")
    return GraphNode(name=name, kind=kind, formula=parse(formula))


def template(*roots: str, target: str, derived: str = "") -> Template:
    """A template from lines such as `ht (m) = formula | alias, alias`."""
    text = 'name = "mine"\ntitle = "Mine"\n'
    for line in roots:
        found = re.fullmatch(r"(\w+) \((.*?)\)(?: = (.*?))?(?: \| (.*))?", line)
        assert found is not None, line
        name, unit, formula, aliases = found.groups()
        text += f'[roots.{name}]\nlower = 1\nupper = 200\nunit = "{unit}"\n'
        text += f'formula = "{formula}"\n' if formula else ""
        text += f"aliases = {json.dumps(aliases.split(', '))}\n" if aliases else ""
    text += f'{derived}\n[target]\nname = "result"\nformula = "{target}"\n'
    return parse_template(text, file="mine.toml")


@pytest.mark.parametrize("name", CATALOG)
def test_every_catalog_value_follows_its_parents(name: str) -> None:
    graph = Graph.of(load_template(name))
    seen: set[str] = set()
    for entry in graph.order:
        assert set(entry.parents) <= seen
        assert entry.name not in seen
        seen.add(entry.name)
    declared = load_template(name)
    assert seen == {*declared.roots, *declared.derived, declared.target.name}


@settings(deadline=None)
@given(st.data())
def test_nodes_given_in_any_order_come_out_parents_first(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    nodes = [node("n0")]
    for number in range(1, size):
        parents = data.draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=3))
        nodes.append(node(f"n{number}", " + ".join(f"n{parent}" for parent in parents)))
    order = [entry.name for entry in Graph(data.draw(st.permutations(nodes))).order]
    assert sorted(order) == sorted(entry.name for entry in nodes)
    for entry in nodes:
        assert all(order.index(parent) < order.index(entry.name) for parent in entry.parents)


def test_roots_keep_the_order_they_were_declared_in_whatever_uses_them() -> None:
    graph = Graph([node("sum", "c + a"), node("b"), node("a"), node("c"), node("half", "b / 2")])
    assert [entry.name for entry in graph.order] == ["b", "a", "c", "sum", "half"]
    assert graph.roots == ("b", "a", "c")
    assert graph.rests_on(Variable("sum")) == ("a", "c")


@pytest.mark.parametrize(
    ("formulas", "ring"),
    [
        ({"a": "a + 1"}, ("a", "a")),
        ({"a": "b", "b": "a"}, ("a", "b", "a")),
        ({"start": "a", "a": "b", "b": "c", "c": "a"}, ("a", "b", "c", "a")),
    ],
)
def test_a_ring_is_refused_with_the_names_in_it(
    formulas: dict[str, str], ring: tuple[str, ...]
) -> None:
    with pytest.raises(CycleError) as caught:
        Graph(node(name, formula) for name, formula in formulas.items())
    assert caught.value.ring == ring
    assert " -> ".join(ring) in str(caught.value)


def test_a_formula_of_nobody_knows_what_is_refused() -> None:
    with pytest.raises(FormulaNameError) as caught:
        Graph([node("x"), node("y", "x + ghost")])
    assert caught.value.name == "ghost"
    assert "x" in caught.value.known


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(NameTakenError):
        Graph([node("x"), node("x", "1 + 1")])


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    graph = Graph([node("x")])
    assert "x" in graph
    assert "y" not in graph
    assert graph["x"].kind == "root"
    with pytest.raises(UnknownNameError) as caught:
        graph["y"]
    assert caught.value.known == ("x",)


def test_added_nodes_may_rest_on_what_is_there_and_on_nothing_else() -> None:
    graph = Graph([node("x"), node("y", "x * 2")])
    graph.add(node("z", "y + x", kind="request"))
    assert graph.order[-1].name == "z"
    assert graph.rests_on(Variable("z")) == ("x",)
    with pytest.raises(FormulaNameError):
        graph.add(node("w", "ghost + x"))
    with pytest.raises(FormulaNameError):
        graph.add(node("loop", "loop + x"))
    for taken in ("x", "y", "z"):
        with pytest.raises(NameTakenError):
            graph.add(node(taken, "x"))
    assert [entry.name for entry in graph.order] == ["x", "y", "z"]  # refusals changed nothing
    assert graph["y"].formula == parse("x * 2")


def test_a_value_rests_on_the_roots_behind_all_its_names_in_declared_order() -> None:
    graph = Graph(
        [node("b"), node("a"), node("c"), node("f", "a / 2"), node("g", "f + b"), node("k", "3")]
    )
    assert graph.rests_on(parse("g")) == ("b", "a")
    assert graph.rests_on(parse("g + c")) == ("b", "a", "c")
    assert graph.rests_on(parse("f * f")) == ("a",)
    assert graph.rests_on(parse("k + pi")) == ()
    with pytest.raises(FormulaNameError):
        graph.rests_on(parse("a + ghost"))


@pytest.mark.parametrize("name", CATALOG)
def test_a_formula_in_roots_has_the_same_value_and_names_only_roots(name: str) -> None:
    declared = load_template(name)
    graph = Graph.of(declared)
    centre = declared.centre()
    values: dict[str, float] = {root: centre[root] for root in graph.roots}
    for entry in graph.order:
        if entry.formula is not None:
            values[entry.name] = evaluate(entry.formula, values)
    for entry in graph.order:
        expanded = graph.in_roots(Variable(entry.name))
        assert names(expanded) == set(graph.rests_on(Variable(entry.name)))
        assert names(expanded) <= set(graph.roots)
        assert evaluate(expanded, values) == pytest.approx(values[entry.name], rel=1e-12)


def test_a_declared_root_with_a_formula_is_computed_and_gets_no_budget() -> None:
    nafld = load_template("nafld")
    graph = Graph.of(nafld)
    assert graph["bmi"].kind == "derived"
    assert graph["bmi"].parents == ("ht", "wt")
    assert "bmi" not in graph.roots
    assert len(graph.roots) == len(nafld.roots) - 1
    plan = make_plan(nafld, Fraction(1))
    assert {share.root for share in plan.shares} == set(nafld.roots) - {"bmi"}
    assert sum(share.epsilon for share in plan.shares) == 1
    with pytest.raises(UnknownNameError):
        plan["bmi"]
    assert plan["wt"].sensitivity > 0  # reached through bmi alone


@pytest.mark.parametrize("name", [n for n in CATALOG if n not in ("nafld", "findrisc")])
def test_without_formulas_every_declared_root_is_noised(name: str) -> None:
    declared = load_template(name)
    assert Graph.of(declared).roots == tuple(declared.roots)


def edges(graph: Graph) -> set[tuple[str, str]]:
    return {(parent, entry.name) for entry in graph.order for parent in entry.parents}


def drawn() -> list[Graph]:
    graphs = [Graph.of(load_template(name)) for name in CATALOG]
    asked = Graph.of(load_template("fib4"))
    asked.add(node("q1", "1 if age < 50 and ast >= 3 else -2", kind="request"))
    return [*graphs, asked]


def test_json_holds_every_node_and_every_edge() -> None:
    for graph in drawn():
        nodes = json.loads(graph.to_json())["nodes"]
        assert {(p, entry["name"]) for entry in nodes for p in entry["parents"]} == edges(graph)
        for entry, original in zip(nodes, graph.order, strict=True):
            assert entry["name"] == original.name
            assert entry["kind"] == original.kind
            assert entry["unit"] == original.unit
            formula = None if entry["formula"] is None else parse(entry["formula"])
            assert formula == original.formula


_MERMAID_NODE = re.compile(
    r'  (n\d+)(?:\(\["([^"]*)"\]\)|\["([^"]*)"\]|\{\{"([^"]*)"\}\}|\[/"([^"]*)"/\])'
)
_DOT_NODE = re.compile(
    r'  "(\w+)" \[shape=(ellipse|box|hexagon|parallelogram), label="([^"\\\n]*)"\];'
)


def test_mermaid_is_well_formed_and_holds_every_node_and_every_edge() -> None:
    for graph in drawn():
        first, *lines = graph.to_mermaid().splitlines()
        assert first == "flowchart LR"
        labels: dict[str, str] = {}
        found: set[tuple[str, str]] = set()
        for line in lines:
            if edge := re.fullmatch(r"  (n\d+) --> (n\d+)", line):
                found.add((labels[edge[1]], labels[edge[2]]))
                continue
            entry = _MERMAID_NODE.fullmatch(line)
            assert entry is not None, line
            label = next(text for text in entry.groups()[1:] if text is not None)
            assert not set("<>") & set(label)  # Mermaid reads labels as HTML
            labels[entry[1]] = label.split(" = ")[0]
            text = label.replace("#lt;", "<").replace("#gt;", ">").partition(" = ")[2]
            formula = graph[labels[entry[1]]].formula
            assert text == ("" if formula is None else to_text(formula))
        assert list(labels.values()) == [entry.name for entry in graph.order]
        assert found == edges(graph)


def test_dot_is_well_formed_and_holds_every_node_and_every_edge() -> None:
    for graph in drawn():
        lines = graph.to_dot().splitlines()
        assert lines[:2] == ["digraph rootguard {", "  rankdir=LR;"]
        assert lines[-1] == "}"
        shapes: dict[str, str] = {}
        found: set[tuple[str, str]] = set()
        for line in lines[2:-1]:
            if edge := re.fullmatch(r'  "(\w+)" -> "(\w+)";', line):
                assert edge[1] in shapes
                found.add((edge[1], edge[2]))
                continue
            entry = _DOT_NODE.fullmatch(line)
            assert entry is not None, line
            shapes[entry[1]] = entry[2]
            assert entry[3].split(" = ")[0] == entry[1]
        assert list(shapes) == [entry.name for entry in graph.order]
        assert {name for name, shape in shapes.items() if shape == "ellipse"} == set(graph.roots)
        assert list(shapes.values()).count("hexagon") == 1
        assert found == edges(graph)


def test_a_root_that_the_catalog_computes_is_recognised() -> None:
    mine = template("bmi (kg/m2)", "wt (kg)", "ht (m)", target="bmi * 2")
    (hit,) = recognise(mine)
    assert isinstance(hit, Recognised)
    assert (hit.root, hit.formula) == ("bmi", "wt / ht**2")
    assert parse(hit.formula) == parse("wt / ht ** 2")
    assert hit.source in CATALOG
    assert 'formula = "wt / ht**2"' in str(hit)


def test_a_root_is_recognised_behind_one_that_is_computed() -> None:
    mine = template("twice (kg) = 2 * wt", "bmi (kg/m2)", "wt (kg)", "ht (m)", target="bmi + twice")
    assert [hit.root for hit in recognise(mine)] == ["bmi"]


def test_a_recognised_formula_can_be_pasted_into_the_template() -> None:
    (hit,) = recognise(template("bmi (kg/m2)", "wt (kg)", "ht (m)", target="bmi"))
    pasted = template(f"bmi (kg/m2) = {hit.formula}", "wt (kg)", "ht (m)", target="bmi")
    assert Graph.of(pasted).roots == ("wt", "ht")
    assert recognise(pasted) == ()  # it carries its formula now


@pytest.mark.parametrize(
    "roots",
    [
        ("bmi (kg/m2)", "wt (kg)", "ht (cm)"),
        ("bmi (kg/m2)", "wt (lb)", "ht (m)"),
        ("bmi (lb/in2)", "wt (kg)", "ht (m)"),
        ("bmi ()", "wt (kg)", "ht (m)"),
        ("bmi (kg/m2)", "wt (kg)"),
        ("bmi (kg/m2)", "wt (kg)", "tallness (m)"),
    ],
)
def test_a_formula_for_other_units_or_missing_values_is_not_offered(roots: tuple[str, ...]) -> None:
    assert recognise(template(*roots, target="bmi")) == ()


def test_aliases_match_on_both_sides_whatever_their_case() -> None:
    mine = template(
        "quetelet (kg/m2) | Body Mass Index",
        "mass (kg) | Weight",
        "tallness (m) | BODY HEIGHT",
        target="quetelet",
    )
    (hit,) = recognise(mine)
    assert (hit.root, hit.formula) == ("quetelet", "mass / tallness**2")


def test_names_that_change_places_are_renamed_at_once() -> None:
    mine = template("bmi (kg/m2)", "ht (kg) | weight", "wt (m) | height", target="bmi")
    (hit,) = recognise(mine)
    assert hit.formula == "ht / wt**2"


def test_derived_values_and_targets_of_the_catalog_are_known_too() -> None:
    lipids = template(
        "tc (mg/dL)", "hdl (mg/dL)", "tg (mg/dL)", "vldl (mg/dL)", "ldl (mg/dL)", target="ldl"
    )
    found = {hit.root: hit.formula for hit in recognise(lipids)}
    assert found == {"vldl": "tg / 5", "ldl": "tc - hdl - tg / 5"}


@pytest.mark.parametrize("source", CATALOG)
def test_every_catalog_formula_is_recognised_and_never_contains_its_own_root(source: str) -> None:
    declared = load_template(source)
    graph = Graph.of(declared)
    roots = [
        f"{entry.name} ({declared.roots[entry.name].unit})"  # type: ignore[index]
        if entry.kind == "root"
        else f"{entry.name} ({entry.unit})"
        for entry in graph.order
    ]
    mine = template(*roots, target=declared.target.name)
    hits = recognise(mine)
    computed = {
        entry.name
        for entry in graph.order
        if entry.formula is not None and graph.rests_on(entry.formula)
    }
    assert {hit.root for hit in hits} == computed
    for hit in hits:
        assert hit.root not in names(parse(hit.formula))
        assert names(parse(hit.formula)) <= set(mine.roots)
    found = {str(hit.root): hit.formula for hit in hits}
    pasted = [f"{line} = {found[n]}" if (n := line.split()[0]) in found else line for line in roots]
    applied = Graph.of(template(*pasted, target=declared.target.name))  # all at once: no ring
    assert set(applied.roots) == set(graph.roots)


def test_a_root_is_not_explained_by_one_that_rests_on_it() -> None:
    mine = template("bmi (kg/m2)", "wt (kg) = bmi * ht ** 2", "ht (m)", target="wt")
    assert recognise(mine) == ()


def test_one_root_does_not_stand_for_two_inputs() -> None:
    mine = template("non_hdl (mg/dL)", "fat (mg/dL) | tc, hdl", target="non_hdl")
    assert recognise(mine) == ()


def test_a_constant_explains_no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_known_formulas", lambda: {"age": [("t", "y", parse("30"), ())]})
    assert recognise(template("age (y)", "wt (kg)", target="age")) == ()


@pytest.mark.parametrize("name", CATALOG)
def test_the_catalog_itself_declares_no_root_it_could_compute(name: str) -> None:
    assert recognise(load_template(name)) == ()


def test_what_a_template_declares_is_put_in_order_once() -> None:
    fib4 = load_template("fib4")
    assert _declared(fib4) is _declared(fib4)
    assert _known_formulas() is _known_formulas()


def test_json_is_indented_by_two_and_leaves_units_as_they_are_written() -> None:
    text = Graph([GraphNode(name="dose", kind="root", unit="µg")]).to_json()
    assert text.startswith('{\n  "nodes": [\n    {\n      "name": "dose"')
    assert '"unit": "µg"' in text


def test_nodes_and_findings_cannot_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        node("x").name = "y"  # type: ignore[misc]
    found = Recognised(root=RootName("bmi"), formula="x", source="nafld")
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.formula = "y"  # type: ignore[misc]


def test_the_catalog_noises_no_quantity_under_two_names() -> None:
    assert shared_quantities(map(load_template, CATALOG)) == ()


@pytest.mark.parametrize(
    ("root", "beside", "other", "called"),
    [
        ("mass (lb) | Body-Weight", "bmi", "wt", "Body-Weight"),  # an alias of both
        ("weight (kg)", "bmi", "wt", "weight"),  # a name that is an alias of the other
        ("gewicht (kg)", "bmi", "wt", "wt"),  # by the index alone
        ("annual (USD/year) | annual income", "debt_to_income", "income", "income"),
    ],
)
def test_two_roots_that_are_one_quantity_are_found(
    root: str, beside: str, other: str, called: str
) -> None:
    mine = template(root, target=root.split()[0])
    (shared,) = shared_quantities((mine, load_template(beside)))
    assert (shared.root, shared.template) == (root.split()[0], "mine")
    assert (shared.other, shared.other_template, shared.called) == (other, beside, called)
    assert f"{shared.root} of mine and {other} of {beside} are both called {called!r}" in str(
        shared
    )
    assert "by kept" in str(shared)


def test_a_root_that_another_template_computes_is_found_with_the_formula() -> None:
    mine = template("quetelet (kg/m2) | body mass index", target="quetelet")
    for templates in ((mine, load_template("bmi")), (load_template("bmi"), mine)):
        (shared,) = shared_quantities(templates)
        assert (shared.root, shared.other, shared.formula) == ("quetelet", "bmi", "wt / ht**2")
        assert "by kept, as wt / ht**2" in str(shared)


def test_two_roots_of_one_template_are_told_to_become_one() -> None:
    mine = template("weight (kg)", "wt (lb)", target="weight + wt")
    (shared,) = shared_quantities((mine,))
    assert str(shared).startswith("weight and wt are both called 'wt'")
    assert "kept" not in str(shared)


def test_what_is_computed_or_has_the_same_name_is_no_second_noise() -> None:
    declared = template("weight (kg)", "wt (lb) = weight * 2.2", target="weight + wt")
    assert shared_quantities((declared,)) == ()
    same = template("wt (kg)", target="wt")
    assert shared_quantities((same, load_template("bmi"))) == ()
    half = template(
        "glu (mg/dL)",
        target="glucose_level * 2",
        derived='[derived.glucose_level]\nformula = "glu / 18"',
    )
    assert shared_quantities((half, load_template("homa"))) == ()
    kept = parse_template(
        """
        name = "mine"
        title = "Mine"
        target = { name = "result", formula = "weight" }
        [roots.weight]
        lower = 60
        upper = 500
        kept = { formula = "wt", units = { wt = "lb" } }
        """,
        file="mine.toml",
    )
    assert shared_quantities((kept, load_template("bmi"))) == ()
