"""Templates: the catalog computes what the literature says, and every mistake names its remedy."""

import itertools
import json
import math
import os
import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from rootguard.errors import TemplateError, UnknownNameError
from rootguard.expressions import evaluate, names, parse, to_text
from rootguard.template import (
    MAX_BYTES,
    MAX_ROOTS,
    RiskClass,
    Template,
    catalog,
    load_template,
    parse_template,
)
from rootguard.values import RootName

POPULATION = Path(__file__).parents[3] / "shared" / "data" / "population.json"
TABLE = Path(__file__).parents[2] / "docs" / "templates.md"
PAPER = ("aip", "anemia", "conicity", "fib4", "homa", "nlr", "tyg", "vascular")

BASE = """\
name = "liver"
title = "A liver score"
field = "medicine"
sources = ["Somebody 2006"]

[roots.age]
lower = 18
upper = 80
unit = "years"
aliases = ["years old"]
mean = 50
sd = 19

[roots.ast]
lower = 7.0
upper = 272.0
unit = "U/L"
aliases = ["SGOT"]
mean = 23.6
sd = 13.4
shape = "lognormal"

[roots.decades]
lower = 1.8
upper = 8.0
formula = "age / 10"

[derived.half]
formula = "ast / 2"
unit = "U/L"
description = "Half of it."

[derived.quarter]
formula = "half / 2"

[target]
name = "score"
formula = "decades * quarter"
unit = "points"

[[risk]]
label = "low"
below = 10

[[risk]]
label = "middle"
at_most = 20

[[risk]]
label = "high"

[population]
roots = ["age", "ast"]
covariance = [[361.0, 20.0], [20.0, 179.56]]
source = "A survey"
"""


def changed(old: str, new: str) -> str:
    assert BASE.count(old) == 1, old
    return BASE.replace(old, new)


def refusal(text: str) -> TemplateError:
    with pytest.raises(TemplateError) as caught:
        parse_template(text, file="liver.toml")
    return caught.value


def compute(template: Template, roots: dict[str, float]) -> float:
    """The target, by the plainest way: compute whatever can be computed until it can."""
    values = dict(roots)
    formulas = {n: d.formula for n, d in template.derived.items()}
    formulas |= {n: r.formula for n, r in template.roots.items() if r.formula is not None}
    for _ in formulas:
        for name, formula in formulas.items():
            if names(formula) <= values.keys():
                values[name] = evaluate(formula, values)
    return evaluate(template.target.formula, values)


# Computed by hand from the published formula, or read from the source named beside the line.
EXAMPLES: dict[str, tuple[dict[str, float], float, str | None]] = {
    "aip": ({"tc": 200, "hdl": 50, "tg": 150}, 0.47712, "high"),
    "anemia": ({"hb": 15, "hct": 45, "rbc": 5}, 33.3333, "normochromic"),
    "anion_gap": ({"na": 140, "cl": 104, "hco3": 24}, 12, "high"),
    "apri": ({"ast": 80, "plt": 100}, 2.0, "significant fibrosis likely"),
    "bmi": ({"wt": 70, "ht": 1.75}, 22.8571, "normal weight"),
    "body_roundness": ({"ht": 1.7, "waist": 0.85}, 3.35880, None),
    "bsa": ({"wt": 90, "ht": 1.6}, 2.0, None),
    "cockcroft_gault": ({"age": 60, "wt": 72, "scr": 1, "female": 1}, 68, "mild impairment"),
    "conicity": ({"wt": 64, "ht": 1.6, "waist": 0.9}, 1.30552, "central obesity"),
    "corrected_calcium": ({"ca": 8, "alb": 2}, 9.6, "normal"),
    "credit_utilization": ({"card_balance": 3000, "credit_limit": 10000}, 30, "advised"),
    "debt_to_income": ({"income": 6000, "debt_payment": 2160}, 36, "manageable"),
    "eag": ({"a1c": 7}, 154.2, "diabetes"),  # Nathan 2008, table 2: 154
    "egfr": ({"age": 50, "scr": 1.0, "female": 0}, 91.69, "G1 normal or high"),
    "emergency_fund": ({"savings": 12000, "spending": 4000}, 3, "advised"),
    "fib4": ({"age": 54, "ast": 23, "alt": 30, "plt": 220}, 1.03071, "low"),
    "fli": ({"wt": 85.75, "ht": 1.75, "waist": 0.95, "tg": 150, "ggt": 45}, 66.6038, None),
    "homa": ({"glu": 90, "ins": 9}, 2.0, "normal"),
    "housing_burden": ({"income": 5000, "housing_cost": 1500}, 30, "not burdened"),
    "ldl": ({"tc": 200, "hdl": 50, "tg": 150}, 120, "near optimal"),
    "loan_payment": ({"loan": 200000, "rate": 6, "years": 30}, 1199.10, None),
    "loan_to_value": ({"loan": 200000, "home_value": 250000}, 80, "conventional"),
    "map": ({"sbp": 120, "dbp": 80}, 93.3333, "at or above the perfusion target"),
    "meld": ({"bili": 2, "inr": 1.5, "scr": 1.2}, 15.3362, "10 to 19"),
    "mentzer": ({"hct": 30, "rbc": 5}, 12, "suggests thalassemia trait"),
    "mifflin": ({"age": 30, "wt": 80, "ht": 1.8, "female": 0}, 1780, None),
    "nafld": (
        {"age": 50, "wt": 86.7, "ht": 1.7, "diabetes": 1}
        | {"ast": 40, "alt": 40, "plt": 200, "alb": 4},
        -0.125,
        "indeterminate",
    ),
    "nlr": ({"neu": 6, "lym": 2}, 3.0, "inflammation or stress"),
    "non_hdl": ({"tc": 200, "hdl": 50}, 150, "above desirable"),
    "osmolality": ({"na": 140, "glu": 90, "bun": 14}, 290, "normal"),
    "plr": ({"plt": 250, "lym": 2}, 125, None),
    "qtc": ({"qt": 400, "hr": 75}, 447.2136, "normal"),
    "quicki": ({"glu": 100, "ins": 10}, 0.33333, "insulin resistant"),
    "savings_rate": ({"net_income": 5000, "spending": 4000}, 20, "at or over the 20 % rule"),
    "shock_index": ({"hr": 70, "sbp": 100}, 0.7, "usual"),
    "tg_hdl": ({"hdl": 50, "tg": 150}, 3.0, "usual"),
    "transferrin_saturation": ({"iron": 100, "tibc": 400}, 25, "normal"),
    "tyg": ({"tg": 150, "glu": 100}, 8.92266, "insulin resistant"),
    "vascular": ({"sbp": 120, "dbp": 80}, 0.33333, "normal"),
    "waist_to_height": ({"ht": 1.8, "waist": 0.9}, 0.5, "increased risk"),
}


def test_every_catalog_template_has_a_worked_example() -> None:
    assert tuple(EXAMPLES) == catalog()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_catalog_template_computes_its_worked_example(name: str) -> None:
    roots, expected, label = EXAMPLES[name]
    template = load_template(name)
    assert set(roots) == {n for n, root in template.roots.items() if root.formula is None}
    assert compute(template, roots) == pytest.approx(expected, rel=2e-5)
    if label is not None:
        found = template.classify(expected)
        assert found is not None
        assert found.label == label


@pytest.mark.parametrize(
    ("female", "scr", "age", "rounded"),
    [(0, 1.0, 50, 92), (1, 1.0, 50, 69), (0, 0.8, 30, 122), (1, 0.5, 40, 122), (0, 4.0, 70, 15)],
)
def test_egfr_takes_the_branch_of_each_sex_and_of_each_creatinine_range(
    female: float, scr: float, age: float, rounded: int
) -> None:
    sex = "f" if female else "m"
    kappa, alpha, factor = {"f": (0.7, -0.241, 1.012), "m": (0.9, -0.302, 1.0)}[sex]
    ratio = scr / kappa
    direct = 142 * min(ratio, 1) ** alpha * max(ratio, 1) ** -1.2 * 0.9938**age * factor
    found = compute(load_template("egfr"), {"female": female, "scr": scr, "age": age})
    assert found == pytest.approx(direct, rel=1e-12)
    assert round(found) == rounded


def test_meld_counts_values_below_one_as_one_and_stops_at_forty() -> None:
    meld = load_template("meld")
    assert compute(meld, {"bili": 0.3, "inr": 0.9, "scr": 0.6}) == pytest.approx(6.43)
    at_four = compute(meld, {"bili": 1, "inr": 1, "scr": 4})
    assert compute(meld, {"bili": 1, "inr": 1, "scr": 7}) == at_four
    assert compute(meld, {"bili": 30, "inr": 6, "scr": 7}) == 40


@pytest.mark.parametrize("name", catalog())
def test_the_target_is_finite_at_the_centre_and_has_a_class_there(name: str) -> None:
    template = load_template(name)
    centre = template.centre()
    assert list(centre) == list(template.roots)
    for root in template.roots.values():
        assert root.domain.lower <= centre[root.name] <= root.domain.upper
    value = compute(template, {str(n): v for n, v in centre.items()})
    assert math.isfinite(value)
    assert (template.classify(value) is None) == (not template.risk)


@pytest.mark.parametrize("name", catalog())
def test_no_corner_of_the_bounds_leaves_the_target_without_a_value(name: str) -> None:
    template = load_template(name)
    free = [root for root in template.roots.values() if root.formula is None]
    for corner in itertools.product(*((r.domain.lower, r.domain.upper) for r in free)):
        values = {str(root.name): value for root, value in zip(free, corner, strict=True)}
        assert math.isfinite(compute(template, values))


@pytest.mark.parametrize("name", catalog())
def test_a_catalog_template_is_named_as_its_file_and_names_its_sources(name: str) -> None:
    template = load_template(name)
    assert template.name == name
    assert template.title
    assert template.description
    assert template.sources
    assert template.field in {"medicine", "nutrition", "finance"}
    assert all(root.aliases for root in template.roots.values())


def test_a_root_means_the_same_in_every_catalog_template() -> None:
    meanings: dict[str, object] = {}
    for name in catalog():
        for root in load_template(name).roots.values():
            meaning = (root.domain, root.unit, root.aliases, root.shape)
            assert meanings.setdefault(root.name, meaning) == meaning, f"{name}: {root.name}"


def test_a_derived_value_has_the_same_formula_in_every_catalog_template() -> None:
    formulas: dict[str, object] = {}
    for name in catalog():
        for derived in load_template(name).derived.values():
            meaning = (to_text(derived.formula), derived.unit)
            assert formulas.setdefault(derived.name, meaning) == meaning, f"{name}: {derived.name}"


def test_no_two_roots_of_the_catalog_answer_to_one_alias() -> None:
    owners: dict[str, str] = {}
    for name in catalog():
        for root in load_template(name).roots.values():
            for word in (root.name, *root.aliases):
                assert owners.setdefault(word.casefold(), root.name) == root.name, word


def test_the_catalog_is_sorted_and_holds_the_papers_eight_among_forty() -> None:
    assert list(catalog()) == sorted(catalog())
    assert set(PAPER) <= set(catalog())
    assert len(catalog()) == 40


def test_the_documented_table_lists_the_catalog() -> None:
    rows = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("| `")]
    listed = [tuple(cell.strip() for cell in row.strip("|").split("|")[:3]) for row in rows]
    assert listed == [
        (f"`{name}`", ", ".join(load_template(name).roots), load_template(name).target.name)
        for name in catalog()
    ]


def test_the_documented_example_loads() -> None:
    example = TABLE.read_text("utf-8").split("```toml\n")[1].split("```")[0]
    template = parse_template(example, file="templates.md")
    assert compute(template, {"age": 50, "ast": 24}) == 60.0


@pytest.mark.skipif(not POPULATION.exists(), reason="the shared population figures are not here")
@pytest.mark.parametrize("name", PAPER)
def test_the_papers_templates_carry_the_population_figures_exactly(name: str) -> None:
    figures = json.loads(POPULATION.read_text("utf-8"))[name.upper()]
    template = load_template(name)
    assert list(template.roots) == figures["roots"]
    for root in template.roots.values():
        assert [root.domain.lower, root.domain.upper] == figures["bounds"][root.name]
        assert root.domain.size == 1000
        assert root.mean == figures["mean"][root.name]
        assert root.sd == figures["sd"][root.name]
    assert template.population is not None
    assert list(template.population.roots) == figures["roots"]
    assert [list(row) for row in template.population.covariance] == figures["covariance"]


@pytest.mark.skipif(not POPULATION.exists(), reason="the shared population figures are not here")
def test_other_templates_reuse_the_bounds_of_the_papers_roots() -> None:
    figures = json.loads(POPULATION.read_text("utf-8")).values()
    bounds = {root: pair for entry in figures for root, pair in entry["bounds"].items()}
    seen = set()
    for name in catalog():
        for root in load_template(name).roots.values():
            if root.name in bounds:
                assert [root.domain.lower, root.domain.upper] == bounds[root.name]
                seen.add(root.name)
    assert seen == set(bounds)


@pytest.mark.parametrize(
    ("name", "value", "label"),
    [
        ("fib4", math.nextafter(1.3, 0), "low"),
        ("fib4", 1.3, "indeterminate"),
        ("fib4", 2.67, "indeterminate"),
        ("fib4", math.nextafter(2.67, 3), "high"),
        ("anemia", 32.0, "normochromic"),
        ("anemia", 36.0, "normochromic"),
        ("anemia", 36.1, "hyperchromic"),
        ("homa", 0.99, "insulin sensitive"),
        ("homa", 1.0, "normal"),
        ("homa", 2.5, "insulin resistant"),
        ("vascular", 0.60, "normal"),
        ("nlr", 3.0, "inflammation or stress"),
        ("bmi", 25.0, "overweight"),
        ("savings_rate", -0.1, "spends more than comes in"),
        ("savings_rate", 0.0, "under the 20 % rule"),
        ("fib4", math.inf, "high"),
        ("fib4", -math.inf, "low"),
    ],
)
def test_a_limit_belongs_to_the_class_that_the_source_gives_it_to(
    name: str, value: float, label: str
) -> None:
    found = load_template(name).classify(value)
    assert found is not None
    assert found.label == label


def test_there_is_no_class_for_not_a_number_or_without_classes() -> None:
    assert load_template("fib4").classify(math.nan) is None
    assert load_template("bsa").classify(2.0) is None


def test_a_written_template_reads_back_as_written() -> None:
    template = parse_template(BASE, file="liver.toml")
    assert list(template.roots) == ["age", "ast", "decades"]
    assert list(template.derived) == ["half", "quarter"]
    age, ast, decades = template.roots.values()
    assert (age.domain.lower, age.domain.upper, age.domain.size) == (18.0, 80.0, 1000)
    assert (age.shape, ast.shape, decades.shape) == ("normal", "lognormal", "uniform")
    assert decades.formula == parse("age / 10")
    assert (age.formula, decades.mean, decades.sd, decades.unit) == (None, None, None, "")
    assert template.derived["half"].description == "Half of it."
    assert template.risk == (
        RiskClass(label="low", limit=10.0, inclusive=False),
        RiskClass(label="middle", limit=20.0, inclusive=True),
        RiskClass(label="high", limit=None, inclusive=False),
    )
    assert template.population is not None
    assert template.population.covariance == ((361.0, 20.0), (20.0, 179.56))


def test_only_name_title_roots_and_target_are_needed() -> None:
    least = """
        name = "double"
        title = "Twice"
        roots.x = { lower = 0, upper = 1 }
        target = { name = "y", formula = "2 * x" }
    """
    template = parse_template(least, file="double.toml")
    assert (template.field, template.description, template.sources) == ("general", "", ())
    assert (template.derived, template.risk, template.population) == ({}, (), None)


def test_the_centre_is_the_mean_else_the_middle_and_a_formulas_value_within_bounds() -> None:
    centre = parse_template(BASE, file="liver.toml").centre()
    assert centre == {"age": 50.0, "ast": 23.6, "decades": 5.0}
    clamped = parse_template(changed("upper = 8.0", "upper = 4.0"), file="liver.toml").centre()
    assert clamped[RootName("decades")] == 4.0
    undefined = changed('formula = "age / 10"', 'formula = "age / (age - 50)"')
    middle = parse_template(undefined, file="liver.toml").centre()
    assert middle[RootName("decades")] == pytest.approx(4.9)


def test_the_digest_is_known_and_ignores_how_the_file_is_written() -> None:
    plain = parse_template(BASE, file="liver.toml")
    assert plain.digest == "fb8f18957ba3e22b45b90d28d1febca06ca27bb6ad3c00f3e38dd1b1f5220974"
    respaced = BASE.replace("age / 10", "(age)/10").replace("lower = 18\n", "lower = 18.0  # x\n")
    assert parse_template(respaced, file="elsewhere.toml").digest == plain.digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lower = 18\n", "lower = 17\n"),
        ('aliases = ["SGOT"]', 'aliases = ["GOT"]'),
        ("sd = 19", "sd = 18"),
        ('shape = "lognormal"', 'shape = "normal"'),
        ("decades * quarter", "quarter * decades"),
        ("at_most = 20", "below = 20"),
        ("361.0", "362.0"),
        ("Somebody 2006", "Somebody 2007"),
        ("upper = 80\n", "upper = 80\ngrid = 999\n"),
    ],
)
def test_the_digest_changes_with_the_content(old: str, new: str) -> None:
    before = parse_template(BASE, file="liver.toml")
    after = parse_template(changed(old, new), file="liver.toml")
    assert after.digest != before.digest
    assert after != before


def test_the_digest_changes_with_the_order_of_roots() -> None:
    one = "[roots.a]\nlower = 0\nupper = 1\n"
    two = "[roots.b]\nlower = 0\nupper = 1\n"
    head, tail = 'name = "t"\ntitle = "T"\n', '[target]\nname = "y"\nformula = "a + b"\n'
    forth, back = (parse_template(head + x + tail, file="t") for x in (one + two, two + one))
    assert forth.digest != back.digest


def test_a_template_cannot_be_changed_and_can_be_copied_and_hashed() -> None:
    template = load_template("nafld")
    with pytest.raises(TypeError):
        template.roots[RootName("age")] = template.roots[RootName("ast")]  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        template.name = "other"  # type: ignore[misc]
    copy = pickle.loads(pickle.dumps(template))
    assert copy == template
    assert hash(copy) == hash(template)
    assert copy.digest == template.digest


def test_a_catalog_template_is_read_once() -> None:
    assert load_template("fib4") is load_template("fib4")


def test_a_path_is_read_as_a_file_and_a_bare_name_from_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fib4"
    file.write_text(BASE, "utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load_template("fib4").name == "fib4"
    assert load_template(Path("fib4")).name == "liver"
    assert load_template(f".{os.sep}fib4").name == "liver"
    assert load_template("own.toml").digest == load_template(file).digest


@pytest.mark.parametrize("name", ["fib5", "../pyproject", "", "FIB4", "zzzz"])
def test_a_name_that_is_not_in_the_catalog_is_refused(name: str) -> None:
    if "/" in name:
        with pytest.raises(TemplateError):
            load_template(name)
        return
    with pytest.raises(UnknownNameError) as caught:
        load_template(name)
    assert caught.value.kind == "template"
    assert set(caught.value.known) <= set(catalog())
    assert caught.value.known


def test_a_near_miss_of_a_catalog_name_is_told_the_near_name() -> None:
    with pytest.raises(UnknownNameError, match="no template is called 'cockroft_gault'") as caught:
        load_template("cockroft_gault")
    assert caught.value.known[0] == "cockcroft_gault"


@pytest.mark.parametrize("path", ["absent.toml", ".", "a\x00b.toml"])
def test_an_unreadable_file_is_told_with_its_path(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TemplateError, match="cannot be read") as caught:
        load_template(Path(path))
    assert (caught.value.file, caught.value.key) == (path, "file")
    assert "check the path" in caught.value.remedy


def test_a_file_that_is_not_utf8_is_told_the_byte(tmp_path: Path) -> None:
    file = tmp_path / "latin.toml"
    file.write_bytes('title = "\xe4"'.encode("latin-1"))
    with pytest.raises(TemplateError, match="byte 10 is not UTF-8; save it as UTF-8"):
        load_template(file)


def test_a_file_over_the_limit_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    file.write_text(BASE + "#" + "é" * MAX_BYTES, "utf-8")
    with pytest.raises(TemplateError, match="over 256 KiB") as caught:
        load_template(file)
    assert (caught.value.file, caught.value.key) == (str(file), "file")
    assert "256 KiB" in refusal("[" * (MAX_BYTES + 1)).problem
    exact = BASE + "#" * (MAX_BYTES - len(BASE))
    assert parse_template(exact, file="f").name == "liver"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('name = "a"\ntitle = \n', "line 2"),
        ('name = "a"\nname = "b"\n', "line 2"),
        ("\n\n[roots", "line 3"),
        (f"x = {'9' * 5000}", "file"),
        ("x = " + "[" * 5000, "file"),
        ('name = "\ud800"', "file"),
    ],
)
def test_what_is_not_toml_is_told_with_its_line(text: str, key: str) -> None:
    error = refusal(text)
    assert (error.file, error.key) == ("liver.toml", key)


AGE_LINES = 'lower = 18\nupper = 80\nunit = "years"'
MATRIX = "[[361.0, 20.0], [20.0, 179.56]]"

# fmt: off
MISTAKES: dict[str, tuple[str, str, str, str, str]] = {
    # case: (text in BASE, what it becomes, key, words of the problem, words of the remedy)
    "unknown top key": ('field = "m', 'feild = "m', "feild", "not known", "'field'"),
    "unknown root key": ("mean = 50", "maen = 50", "roots.age.maen", "not known", "'mean'"),
    "unknown odd key": ("mean = 50", "zz = 50", "roots.age.zz", "not known", "one of lower, upper"),
    "unknown derived key": ("description =", "about =", "derived.half.about", "not known", "unit"),
    "unknown target key": ('unit = "points"', 'units = ""', "target.units", "not known", "'unit'"),
    "unknown risk key": ("below = 10", "bellow = 10", "risk.1.bellow", "not known", "'below'"),
    "unknown population key": ("source =", "sauce =", "population.sauce", "not known", "'source'"),
    "missing name": ('name = "liver"\n', "", "name", "missing", "add name"),
    "missing title": ('title = "A liver score"\n', "", "title", "missing", "add title"),
    "missing lower": ("lower = 18\n", "", "roots.age.lower", "missing", "add lower"),
    "missing upper": ("upper = 8.0\n", "", "roots.decades.upper", "missing", "add upper"),
    "missing formula": ('formula = "ast / 2"\n', "", "derived.half.formula", "missing", "add"),
    "missing target formula": (
        'formula = "decades * quarter"\n', "", "target.formula", "missing", "add formula",
    ),
    "missing label": ('label = "low"\n', "", "risk.1.label", "missing", "add label"),
    "missing matrix": (f"covariance = {MATRIX}\n", "", "population.covariance", "square", "2 rows"),
    "missing source": ('source = "A survey"\n', "", "population.source", "missing", "add source"),
    "number as text": ("lower = 18", 'lower = "18"', "roots.age.lower", "text, not a n", "plain"),
    "bool as number": ("lower = 18", "lower = true", "roots.age.lower", "true or false", "plain"),
    "bool as limit": ("below = 10", "below = false", "risk.1.below", "true or false", "plain"),
    "date as number": ("lower = 18", "lower = 1979-05-27", "roots.age.lower", "a date", "plain"),
    "text as number": ('"years"', "7", "roots.age.unit", "a number, not text", "quotes"),
    "list as text": ('"years"', "[]", "roots.age.unit", "a list, not text", "quotes"),
    "aliases as text": ('["SGOT"]', '"SGOT"', "roots.ast.aliases", "text, not a list", "[ ]"),
    "alias as number": ('["SGOT"]', '["a", 7]', "roots.ast.aliases.2", "a number", "quotes"),
    "empty alias": ('["SGOT"]', '[" "]', "roots.ast.aliases.1", "empty", "write something"),
    "alias with a line": ('["SGOT"]', '["a\\nb"]', "roots.ast.aliases.1", "plain line", "as one"),
    "root as number": (
        '[roots.decades]\nlower = 1.8\nupper = 8.0\nformula = "age / 10"', "[roots]\ndecades = 7",
        "roots.decades", "a number, not a table", "[roots.decades]",
    ),
    "nan": ("lower = 7.0", "lower = nan", "roots.ast.lower", "not finite", "finite"),
    "infinity": ("upper = 272.0", "upper = inf", "roots.ast.upper", "not finite", "finite"),
    "huge integer": (
        "upper = 272.0", f"upper = 1{'0' * 400}", "roots.ast.upper", "not finite", "finite",
    ),
    "infinite mean": ("mean = 50", "mean = -inf", "roots.age.mean", "not finite", "finite"),
    "equal bounds": ("lower = 18\n", "lower = 80\n", "roots.age.lower", "not below", "widen"),
    "crossed bounds": ("upper = 80\n", "upper = 1\n", "roots.age.lower", "not below", "exchange"),
    "endless width": (
        "lower = 1.8\nupper = 8.0", "lower = -1.7e308\nupper = 1.7e308", "roots.decades.lower",
        "below", "bounds",
    ),
    "grid too small": (AGE_LINES, AGE_LINES + "\ngrid = 1", "roots.age.grid", "grid", "from 2 to"),
    "grid too large": (
        AGE_LINES, AGE_LINES + "\ngrid = 100001", "roots.age.grid", "grid", "100000",
    ),
    "grid not whole": (AGE_LINES, AGE_LINES + "\ngrid = 10.0", "roots.age.grid", "grid", "whole"),
    "grid not number": (AGE_LINES, AGE_LINES + "\ngrid = true", "roots.age.grid", "grid", "whole"),
    "formula unread": ('"ast / 2"', '"ast / "', "derived.half.formula", "character", "language"),
    "formula of code": (
        '"ast / 2"', "\"__import__('os')\"", "derived.half.formula", "formula", "language",
    ),
    "formula empty": ('"ast / 2"', '""', "derived.half.formula", "empty", "write"),
    "formula too long": (
        '"ast / 2"', f'"ast{" + 1" * 900}"', "derived.half.formula", "limit", "language",
    ),
    "formula not text": ('"ast / 2"', "2", "derived.half.formula", "a number, not text", "quotes"),
    "unknown name": ('"ast / 2"', '"asd / 2"', "derived.half.formula", "asd", "use one of ast"),
    "unknown in target": ("decades * q", "lustra * q", "target.formula", "lustra", "declare it"),
    "unknown in root": ("age / 10", "agee / 10", "roots.decades.formula", "agee", "age"),
    "names the target": ('"half / 2"', '"score / 2"', "derived.quarter.formula", "score", "use"),
    "target names itself": ("decades * q", "score * q", "target.formula", "score", "use"),
    "root of itself": (
        "age / 10", "decades", "roots.decades.formula", "decades -> decades", "break the ring",
    ),
    "ring": (
        '"ast / 2"', '"quarter * 2"', "derived.half.formula", "half -> quarter -> half",
        "break the ring",
    ),
    "target of nothing": ("decades * quarter", "2 * pi", "target.formula", "no root", "one root"),
    "root of nothing": ("age / 10", "4 + 1", "roots.decades.formula", "no root", "one root"),
    "odd root name": ("[roots.decades]", '[roots."a b"]', "roots.a b", "not a name", "letters"),
    "digit name": ("[derived.half]", "[derived.2half]", "derived.2half", "not a name", "letters"),
    "accented name": (
        "[derived.half]", '[derived."hälf"]', "derived.hälf", "not a name", "letters",
    ),
    "odd target name": ('name = "score"', 'name = "a-b"', "target.name", "not a name", "letters"),
    "odd template name": ('name = "liver"', 'name = "a/b"', "name", "not a name", "letters"),
    "name of a function": ("[derived.half]", "[derived.sqrt]", "derived.sqrt", "word", "another"),
    "name of a constant": ("[roots.decades]", "[roots.pi]", "roots.pi", "word", "another"),
    "name of a keyword": ('name = "score"', 'name = "if"', "target.name", "word", "another"),
    "derived as root": ("[derived.half]", "[derived.age]", "derived.age", "roots.age", "another"),
    "target as root": ('name = "score"', 'name = "ast"', "target.name", "roots.ast", "another"),
    "target as derived": ('name = "score"', 'name = "half"', "target.name", "derived.half", "ano"),
    "names but for case": (
        "[derived.half]", "[derived.AGE]", "derived.AGE", "roots.age", "another",
    ),
    "alias twice": ('["SGOT"]', '["Years OLD"]', "roots.ast.aliases", "means roots.age", "another"),
    "alias as name": ('["SGOT"]', '["Age"]', "roots.ast.aliases", "means roots.age", "another"),
    "alias as target": ('["SGOT"]', '["score"]', "roots.ast.aliases", "target.name", "another"),
    "mean outside": ("mean = 50", "mean = 81", "roots.age.mean", "outside", "correct"),
    "sd zero": ("sd = 19", "sd = 0", "roots.age.sd", "above zero", "drop"),
    "sd negative": ("sd = 19", "sd = -1", "roots.age.sd", "above zero", "drop"),
    "sd alone": ("mean = 50\n", "", "roots.age.mean", "no mean", "add mean"),
    "unknown shape": ('"lognormal"', '"gaussian"', "roots.ast.shape", "no shape", "one of normal"),
    "shape without sd": ("sd = 13.4\n", "", "roots.ast.shape", "needs mean and sd", "drop shape"),
    "lognormal below zero": (
        "lower = 7.0", "lower = -7.0", "roots.ast.shape", "below zero", "raise",
    ),
    "limits equal": ("at_most = 20", "at_most = 10", "risk.2.at_most", "increase", "order"),
    "limits falling": ("at_most = 20", "below = -1", "risk.2.below", "increase", "order"),
    "limit on the last": ('"high"', '"high"\nbelow = 30', "risk.3.below", "last", "drop"),
    "no limit earlier": ("below = 10\n", "", "risk.1.below", "only the last", "add below"),
    "two limits": (
        "below = 10", "below = 10\nat_most = 9", "risk.1.at_most", "as well", "keep one",
    ),
    "limit not finite": ("below = 10", "below = nan", "risk.1.below", "finite", "finite"),
    "matrix short": (MATRIX, "[[361.0, 20.0]]", "population.covariance", "square", "2 rows of 2"),
    "matrix ragged": (MATRIX, "[[361.0], [20.0, 1]]", "population.covariance", "square", "2 rows"),
    "matrix of text": (MATRIX, '[["a", 1], [1, 1]]', "population.covariance.1.1", "text", "plain"),
    "matrix flat": (MATRIX, "[1, 2]", "population.covariance.1", "a number, not a list", "[ ]"),
    "matrix with nan": (
        MATRIX, "[[1, 0], [0, nan]]", "population.covariance.2.2", "not finite", "finite",
    ),
    "matrix one-sided": (
        MATRIX, "[[361.0, 20.0], [21.0, 179.56]]", "population.covariance", "symmetric", "copy",
    ),
    "matrix indefinite": (
        MATRIX, "[[1.0, 2.0], [2.0, 1.0]]", "population.covariance", "semi-definite", "copy",
    ),
    "matrix negative": (
        MATRIX, "[[-1.0, 0.0], [0.0, 1.0]]", "population.covariance", "semi-definite", "copy",
    ),
    "matrix zero beside": (
        MATRIX, "[[0.0, 1.0], [1.0, 1.0]]", "population.covariance", "semi-definite", "copy",
    ),
    "population of strangers": (
        '["age", "ast"]', '["age", "alt"]', "population.roots", "alt", "age",
    ),
    "population twice": ('["age", "ast"]', '["age", "age"]', "population.roots", "twice", "once"),
    "population of none": ('["age", "ast"]', "[]", "population.roots", "none", "once"),
    "population without mean": (
        '["age", "ast"]', '["age", "decades"]', "population.roots", "no mean", "give",
    ),
    "long title": ("A liver score", "x" * 401, "title", "over 400", "shorten"),
    "title with a line": ("A liver score", "a\\tb", "title", "plain line", "as one"),
}
# fmt: on


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_with_its_file_key_problem_and_remedy(case: str) -> None:
    old, new, key, problem, remedy = MISTAKES[case]
    error = refusal(changed(old, new))
    assert error.file == "liver.toml"
    assert error.key == key
    assert problem in error.problem
    assert remedy in error.remedy
    assert str(error) == f"liver.toml: {key}: {error.problem}; {error.remedy}"


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ('name = "a"\ntitle = "A"\ntarget = {name = "t", formula = "1"}', "roots", "no root"),
        ('name = "a"\ntitle = "A"\n[roots.x]\nlower = 0\nupper = 1', "target", "missing"),
        ('name = "a"\ntitle = "A"\nroots = 7', "roots", "a number, not a table"),
        (BASE.split("[[risk]]")[0].replace("field", "risk = 7\nfield"), "risk", "not a list"),
        (BASE.split("[[risk]]")[0].replace("field", "risk = [7]\nfield"), "risk.1", "not a table"),
    ],
)
def test_a_template_with_parts_missing_or_misshapen_is_told_which(
    text: str, key: str, problem: str
) -> None:
    error = refusal(text)
    assert error.key == key
    assert problem in error.problem


def test_a_ring_through_roots_and_derived_values_is_named() -> None:
    ring = """
        name = "r"
        title = "R"
        roots.x = { lower = 0, upper = 1 }
        roots.a = { lower = 0, upper = 1, formula = "b + x" }
        roots.b = { lower = 0, upper = 1, formula = "c" }
        derived.c = { formula = "a" }
        target = { name = "y", formula = "x" }
    """
    error = refusal(ring)
    assert error.key == "roots.a.formula"
    assert "a -> b -> c -> a" in error.problem


def test_more_roots_than_the_limit_are_refused() -> None:
    def wide(count: int) -> str:
        roots = "".join(f"[roots.r{i}]\nlower = 0\nupper = 1\n" for i in range(count))
        return f'name = "w"\ntitle = "W"\n{roots}[target]\nname = "y"\nformula = "r0"\n'

    assert len(parse_template(wide(MAX_ROOTS), file="w").roots) == MAX_ROOTS == 64
    error = refusal(wide(MAX_ROOTS + 1))
    assert error.key == "roots"
    assert "over 64" in error.problem
    assert "split" in error.remedy


@pytest.mark.parametrize(
    "matrix",
    [
        "[[1.0, 1.0], [1.0, 1.0]]",  # one value twice
        "[[0.0, 0.0], [0.0, 4.0]]",  # a value that does not vary
        "[[361.0, 20.0], [20.000000000001, 179.56]]",  # rounded
        "[[1e-12, 1e-3], [1e-3, 1e7]]",  # very different scales
    ],
)
def test_a_singular_or_rounded_covariance_is_accepted(matrix: str) -> None:
    assert parse_template(changed(MATRIX, matrix), file="f").population is not None


def test_a_derived_constant_and_an_alias_in_the_roots_own_name_are_accepted() -> None:
    constant = parse_template(changed('"ast / 2"', '"pi / 2"'), file="f")
    assert names(constant.derived["half"].formula) == frozenset()
    named = parse_template(changed('["SGOT"]', '["AST", "SGOT"]'), file="f")
    assert named.roots[RootName("ast")].aliases == ("AST", "SGOT")
