"""A template as written: its parts, its centre, its digest, and that it cannot be changed."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from rootguard.errors import TemplateError, UnknownNameError
from rootguard.expressions import parse
from rootguard.template import RiskClass, load_template, parse_template
from rootguard.values import RootName
from tests.support.liver_template import BASE, changed


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


def test_any_class_may_be_worrying_and_a_class_that_is_not_leaves_the_digest_alone() -> None:
    plain = parse_template(BASE, file="liver.toml")
    first = changed('label = "low"', 'label = "low"\nworrying = true')
    marked = parse_template(first, file="liver.toml")
    assert [risk.worrying for risk in marked.risk] == [True, False, False]
    assert marked.digest != plain.digest
    spelt_out = changed('label = "low"', 'label = "low"\nworrying = false')
    assert parse_template(spelt_out, file="liver.toml").digest == plain.digest


def test_a_worrying_that_is_no_flag_is_refused_by_its_place() -> None:
    wrong = changed('label = "low"', 'label = "low"\nworrying = "yes"')
    with pytest.raises(TemplateError, match=r"risk\.1\.worrying: .*write true or false"):
        parse_template(wrong, file="liver.toml")


KEPT = """kept = { formula = "mass / height ** 2", units = { mass = "kg", height = "m" } }"""
BMI = f'roots.bmi = {{ lower = 10, upper = 60, unit = "kg/m2", {KEPT} }}'
OTHERS = f"""
    name = "risk"
    title = "A risk of the body mass index"
    {BMI}
    target = {{ name = "score", formula = "bmi / 2" }}
"""


def test_a_root_may_be_a_formula_of_what_other_templates_keep() -> None:
    template = parse_template(OTHERS, file="risk.toml")
    root = template.roots[RootName("bmi")]
    assert root.kept is not None
    assert root.kept.formula == parse("mass / height ** 2")
    assert dict(root.kept.units) == {"mass": "kg", "height": "m"}
    assert root.formula is None
    copy = pickle.loads(pickle.dumps(template))
    assert (copy, hash(copy)) == (template, hash(template))
    plain = OTHERS.replace('"m" }', '"" }')
    assert dict(parse_template(plain, file="p").roots[RootName("bmi")].kept.units)["height"] == ""  # type: ignore[union-attr]


def test_the_digest_changes_with_the_formula_of_kept_values_and_with_its_units() -> None:
    forms = [
        OTHERS,
        OTHERS.replace(f", {KEPT}", ""),
        OTHERS.replace("height ** 2", "height ** 3"),
        OTHERS.replace('height = "m"', 'height = "cm"'),
    ]
    digests = {parse_template(form, file="risk.toml").digest for form in forms}
    assert len(digests) == len(forms)
    turned = OTHERS.replace('mass = "kg", height = "m"', 'height = "m", mass = "kg"')
    assert parse_template(turned, file="risk.toml").digest in digests


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


CLINIC = """
[populations.clinic]
roots.ast = { mean = 80.0, sd = 50.0 }
source = "A made-up clinic"
"""


def test_another_population_replaces_the_figures_that_it_has_and_makes_another_template() -> None:
    template = parse_template(BASE + CLINIC, file="liver.toml")
    assert template.population_names == ("general", "clinic")
    assert template.of_population("general") is template
    clinic = template.of_population("clinic")
    ast, age = clinic.roots[RootName("ast")], clinic.roots[RootName("age")]
    assert (ast.mean, ast.sd, ast.domain) == (80.0, 50.0, template.roots[RootName("ast")].domain)
    assert age == template.roots[RootName("age")]
    assert clinic.digest != template.digest
    assert clinic.sources[-1] == "A made-up clinic"
    with pytest.raises(UnknownNameError, match="general, clinic"):
        template.of_population("hospital")


def test_a_catalog_name_may_say_its_population() -> None:
    assert load_template("homa@clinic") == load_template("homa").of_population("clinic")
    with pytest.raises(UnknownNameError, match="population"):
        load_template("homa@nowhere")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("roots.ast", "roots.decades", r"populations\.clinic\.roots\.decades: this is not a root"),
        ("mean = 80.0", "mean = 800.0", r"populations\.clinic\.roots\.ast\.mean: it is outside"),
        ("sd = 50.0", "sd = 0", r"populations\.clinic\.roots\.ast\.sd: it is not above zero"),
        ("[populations.clinic]", "[populations.general]", r"populations\.general: 'general' is"),
    ],
)
def test_a_population_that_cannot_be_is_refused_by_its_place(
    old: str, new: str, place: str
) -> None:
    with pytest.raises(TemplateError, match=place):
        parse_template(BASE + CLINIC.replace(old, new), file="liver.toml")


def test_log_figures_come_together_and_for_a_lognormal_root() -> None:
    both = changed('shape = "lognormal"', 'shape = "lognormal"\nmedian = 21.0\nlog_sd = 0.4')
    root = parse_template(both, file="liver.toml").roots[RootName("ast")]
    assert (root.median, root.log_sd) == (21.0, 0.4)
    for lines, place in (
        ("median = 21.0", r"roots\.ast\.log_sd: this key is missing"),
        ("median = 2000.0\nlog_sd = 0.4", r"roots\.ast\.median: it is outside"),
        ("median = 21.0\nlog_sd = -1", r"roots\.ast\.log_sd: it is not above zero"),
    ):
        wrong = changed('shape = "lognormal"', f'shape = "lognormal"\n{lines}')
        with pytest.raises(TemplateError, match=place):
            parse_template(wrong, file="liver.toml")


@pytest.mark.parametrize(
    ("lower", "upper", "grid", "places"),
    [
        (18, 80, 1000, 2),
        (0, 999, 1000, 0),
        (0, 9990, 1000, 0),
        (0, 99.9, 1000, 1),
        (0, 100, 1000, 1),
        (0, 1, 2, 0),
        (1.48, 1.98, 1000, 2),
        (0, 0.01, 1000, 3),
        (0, 1e-9, 1000, 6),
    ],
)
def test_without_decimals_a_root_has_as_many_as_tell_its_grid_steps_apart_but_few(
    lower: float, upper: float, grid: int, places: int
) -> None:
    text = changed("lower = 18\nupper = 80\n", f"lower = {lower}\nupper = {upper}\ngrid = {grid}\n")
    text = text.replace("mean = 50\nsd = 19\n", "").partition("[population]")[0]
    root = parse_template(text, file="liver.toml").roots[RootName("age")]
    assert root.decimals is None
    assert root.places == places


def test_the_decimals_of_a_root_are_as_declared_and_no_part_of_the_digest() -> None:
    plain = parse_template(BASE, file="liver.toml")
    for decimals in range(7):
        text = changed("upper = 80\n", f"upper = 80\ndecimals = {decimals}\n")
        template = parse_template(text, file="liver.toml")
        root = template.roots[RootName("age")]
        assert root.decimals == root.places == decimals
        assert template.digest == plain.digest
        assert template != plain


def test_titles_and_advice_leave_the_digest_alone() -> None:
    plain = load_template("fib4")
    bare = {
        name: replace(root, title=None, hide=None, hide_because=None)
        for name, root in plain.roots.items()
    }
    assert replace(plain, roots=bare).digest == plain.digest


def test_a_root_is_found_by_name_title_and_alias() -> None:
    fib4 = load_template("fib4")
    assert {fib4.root(called).name for called in ("plt", "PLATELETS", " platelet count ")} == {
        "plt"
    }
    assert fib4.roots[RootName("plt")].label == "Platelets"
    with pytest.raises(UnknownNameError):
        fib4.root("heart")
