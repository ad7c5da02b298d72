"""The catalog computes what the literature says, and its templates agree with each other."""

import itertools
import json
import math
import re
from datetime import date
from pathlib import Path

import pytest

from rootguard.errors import UnknownNameError
from rootguard.expressions import evaluate, to_text
from rootguard.template import catalog, load_template, parse_template
from rootguard.values import RootName, days_of
from tests.support.liver_template import compute

POPULATION = Path(__file__).parents[3] / "shared" / "data" / "population.json"
TABLE = Path(__file__).parents[2] / "docs" / "templates.md"
PAPER = ("aip", "anemia", "conicity", "fib4", "homa", "nlr", "tyg", "vascular")


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


# Answers by their places; the figures of the worked examples are those that the sources print.
_HEART: dict[str, float] = {
    "age": 55,
    "tc": 213,
    "hdl": 50,
    "sbp": 120,
    "bp_treated": 0,
    "smoker": 0,
}
_HEART |= {"diabetes_dx": 0}
_PHQ = ("interest", "mood", "sleep", "energy", "appetite", "worth", "focus", "pace", "harm")
TYPED: dict[str, tuple[dict[str, float], float, str | None]] = {
    "ascvd": ({**_HEART, "female": 1, "equation_group": 0}, 2.05223, "low"),
    "audit_c": ({"drink_days": 3, "drinks_a_day": 1, "heavy_days": 0}, 4, "positive"),
    "cha2ds2_vasc": (
        {
            "heart_failure": 0,
            "hypertension": 1,
            "age": 76,
            "diabetes_dx": 0,
            "prior_stroke": 1,
            "vascular_disease": 0,
            "female": 1,
        },
        6,
        "high",
    ),
    "due_date": (
        {"last_period": days_of(date(2024, 1, 1)), "cycle_days": 28},
        days_of(date(2024, 10, 7)),
        None,
    ),
    "findrisc": (
        {
            "age": 50,
            "wt": 81,
            "ht": 1.8,
            "waist": 0.96,
            "female": 0,
            "active_daily": 0,
            "vegetables_daily": 1,
            "bp_medication_ever": 1,
            "high_glucose_ever": 0,
            "diabetes_family": 2,
        },
        2 + 1 + 3 + 2 + 2 + 5,
        "high",
    ),
    "framingham": (
        {
            "age": 61,
            "tc": 180,
            "hdl": 47,
            "sbp": 124,
            "bp_treated": 0,
            "smoker": 1,
            "diabetes_dx": 0,
            "female": 1,
        },
        10.48418,  # the source prints 10.48
        "intermediate",
    ),
    "insurance_band": (
        {"age": 40, "postcode_band": 2, "claim_free_years": 4, "young_driver": 0},
        420 * 1.3 * 0.8,
        None,
    ),
    "mortgage": (
        {
            "income": 6000,
            "credit_score": 600,
            "down_payment": 1,
            "housing_cost": 1800,
            "other_debts": 500,
            "owner_occupied": 1,
        },
        1,
        "eligible",
    ),
    "pack_years": ({"cigarettes": 30, "smoked_years": 20}, 30, "screening range"),
    "parental_leave": (
        {"children_at_once": 2, "leave_taken": 60, "child_born": days_of(date(2024, 1, 1))},
        600,
        None,
    ),
    "phq9": (
        dict.fromkeys((f"phq_{item}" for item in _PHQ), 2.0) | {"phq_harm": 0.0},
        16,
        "moderately severe",
    ),
    "student_aid": (
        {"family_income": 52500, "family_size": 4, "single_parent": 0},
        100,  # 175 % of 30,000
        "maximum grant",
    ),
}
EXAMPLES = dict(sorted({**EXAMPLES, **TYPED}.items()))


def test_the_pooled_cohort_equations_give_the_published_examples() -> None:
    """Goff et al. 2014, table A: one person in the four groups, printed to a tenth."""
    ascvd = load_template("ascvd")
    for female, group, printed in ((1, 0, 2.1), (1, 1, 3.0), (0, 0, 5.3), (0, 1, 6.1)):
        person: dict[str, float] = {**_HEART, "female": female, "equation_group": group}
        assert compute(ascvd, person) == pytest.approx(printed, abs=0.1)


def test_framingham_gives_the_second_published_example() -> None:
    person: dict[str, float] = {
        "age": 53,
        "tc": 161,
        "hdl": 55,
        "sbp": 125,
        "bp_treated": 1,
        "smoker": 0,
    }
    person |= {"diabetes_dx": 1, "female": 0}
    assert compute(load_template("framingham"), person) == pytest.approx(15.62, abs=0.01)


@pytest.mark.parametrize(
    ("changed", "eligible"),
    [
        ({}, 1),
        ({"credit_score": 579}, 0),
        ({"credit_score": 579, "down_payment": 2}, 1),
        ({"credit_score": 499, "down_payment": 2}, 0),
        ({"down_payment": 0}, 0),
        ({"housing_cost": 1861}, 0),
        ({"other_debts": 781}, 0),
        ({"owner_occupied": 0}, 0),
    ],
)
def test_each_condition_of_a_mortgage_counts(changed: dict[str, float], eligible: int) -> None:
    assert compute(load_template("mortgage"), {**TYPED["mortgage"][0], **changed}) == eligible


@pytest.mark.parametrize(
    ("changed", "points"),
    [
        ({"age": 44, "diabetes_family": 0}, 8),
        ({"age": 55}, 16),
        ({"age": 65}, 17),
        ({"waist": 1.03}, 16),
        ({"female": 1, "waist": 0.9}, 16),
        ({"female": 1, "waist": 0.79}, 12),
        ({"wt": 31 * 1.8**2}, 17),
        ({"diabetes_family": 1, "high_glucose_ever": 1, "vegetables_daily": 0}, 19),
    ],
)
def test_findrisc_counts_each_answer(changed: dict[str, float], points: int) -> None:
    assert compute(load_template("findrisc"), {**TYPED["findrisc"][0], **changed}) == points


@pytest.mark.parametrize(
    ("size", "single", "limit"),
    [(2, 1, 44_370), (3, 1, 55_935), (2, 0, 34_510), (3, 0, 43_505)],
)
def test_student_aid_has_the_published_limits_of_2025(size: int, single: int, limit: int) -> None:
    """Of colleges' tables for 48 states: 225 or 175 per cent of the guidelines of 2023."""
    person: dict[str, float] = {
        "family_income": limit,
        "family_size": size,
        "single_parent": single,
    }
    assert compute(load_template("student_aid"), person) == pytest.approx(100, abs=1e-9)


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


def test_every_noised_root_of_the_catalog_says_how_far_to_hide_it_and_why() -> None:
    said: dict[str, set[tuple[object, ...]]] = {}
    for name in catalog():
        for root in load_template(name).roots.values():
            assert root.title, (name, root.name)
            assert (root.formula is None) == (root.hide is not None), (name, root.name)
            assert (root.hide is None) == (root.hide_because is None), (name, root.name)
            said.setdefault(root.name, set()).add((root.title, root.hide, root.hide_because))
    assert all(len(each) == 1 for each in said.values())


def test_every_root_of_the_catalog_says_how_many_decimals_people_give_it() -> None:
    """The same wherever it appears, and as many as tell thirty values of it apart."""
    given: dict[str, set[int]] = {}
    for name in catalog():
        for root in load_template(name).roots.values():
            given.setdefault(root.name, set()).add(root.places)
            assert root.decimals is not None or not root.type.plain, (name, root.name)
            assert root.decimals is None or root.decimals <= 2, (name, root.name)
            if not root.type.plain:  # answers, days and whole numbers
                continue
            assert root.domain.width * 10**root.places >= 30, (name, root.name)
    assert all(len(decimals) == 1 for decimals in given.values())
    usual = {"age": 0, "ast": 0, "plt": 0, "glu": 0, "a1c": 1, "scr": 2, "wt": 1, "ht": 2}
    assert {name: given[name] for name in usual} == {n: {d} for n, d in usual.items()}


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


def test_the_catalog_is_sorted_and_holds_the_papers_eight_among_fifty_two() -> None:
    assert list(catalog()) == sorted(catalog())
    assert set(PAPER) <= set(catalog())
    assert len(catalog()) == 52


def test_the_documented_table_lists_the_catalog() -> None:
    rows = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("| `")]
    listed = [tuple(cell.strip() for cell in row.strip("|").split("|")[:3]) for row in rows]
    assert listed == [
        (f"`{name}`", ", ".join(load_template(name).roots), load_template(name).target.name)
        for name in catalog()
    ]


def test_every_template_with_classes_marks_worrying_ones_and_says_why() -> None:
    for name in catalog():
        template = load_template(name)
        marked = [risk.label for risk in template.risk if risk.worrying]
        assert bool(marked) == bool(template.risk), name
        assert len(marked) < max(len(template.risk), 1), f"{name}: every class is worrying"
        reasons = [source for source in template.sources if source.startswith("Worrying class")]
        assert len(reasons) == bool(marked), name
        assert all(label in reason for label in marked for reason in reasons), name


def test_the_documented_table_prints_worrying_classes_in_bold() -> None:
    rows = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("| `")]
    for name, row in zip(catalog(), rows, strict=True):
        marked = [risk.label for risk in load_template(name).risk if risk.worrying]
        assert re.findall(r"\*\*(.+?)\*\*", row) == marked, name


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


def test_another_form_stands_beside_the_papers() -> None:
    paper, published = load_template("aip"), load_template("aip@mmol")
    assert (published.name, published.target.name) == ("aip_mmol", "aip_mmol")
    assert published.roots == paper.roots
    assert paper.digest != published.digest
    # 150 and 50 mg/dL are 1.694 and 1.293 mmol/L.
    values = {"tc": 190.0, "hdl": 50.0, "tg": 150.0}
    assert evaluate(paper.target.formula, values) == pytest.approx(0.4771, abs=1e-4)
    assert evaluate(published.target.formula, values) == pytest.approx(0.1173, abs=1e-4)
    assert paper.classify(0.4771).label == "high"  # type: ignore[union-attr]
    assert published.classify(0.1173).label == "intermediate"  # type: ignore[union-attr]
    with pytest.raises(UnknownNameError, match="mol"):
        load_template("aip@mol")


@pytest.mark.parametrize(
    ("age", "index", "label"),
    [
        *((64, 1.29, "low"), (64, 1.31, "indeterminate"), (64, 2.68, "high")),
        *((65, 1.31, "low"), (65, 1.99, "low"), (65, 2.01, "indeterminate")),
        *((65, 2.66, "indeterminate"), (65, 2.68, "high"), (92, 1.9, "low")),
    ],
)
def test_from_65_years_on_the_lower_limit_of_fib4_is_two(
    age: float, index: float, label: str
) -> None:
    template = load_template("fib4@age65")
    ast, alt = 30.0, 25.0
    values = {"age": age, "ast": ast, "alt": alt, "plt": age * ast / (index * 5)}
    found = template.classify(evaluate(template.target.formula, values))
    assert found is not None
    assert found.label == label
    assert template.roots[RootName("age")].domain.upper == 100
    assert load_template("fib4").roots[RootName("age")].domain.upper == 80


def test_every_source_has_a_doi_or_says_that_it_has_none() -> None:
    cited = re.compile(r"\b(?:1[89]|20)\d\d;")  # a journal's year and volume
    for name in catalog():
        template = load_template(name)
        for source in template.sources:
            if cited.search(source) and "as above" not in source:
                assert "doi:10." in source or "no DOI" in source, (name, source)
