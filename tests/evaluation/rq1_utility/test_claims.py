"""Beside the paper: like with like, mismatches with a reason, tables and figures that hold."""

import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard import load_template
from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.advice.utility import PAPER_CONFIGURATIONS, Configuration
from rootguard.evaluation.cohorts import load_cohort
from rootguard.evaluation.published import published_cells, published_wins
from rootguard.evaluation.rq1_utility.claims import (
    COLUMNS,
    Comparison,
    compare,
    comparison_lines,
    comparison_sheets,
)
from rootguard.evaluation.rq1_utility.figures import rq1_figures
from rootguard.evaluation.rq1_utility.means import aggregates, rq1_sheets
from rootguard.evaluation.rq1_utility.study import (
    EPSILONS,
    PAPER_MECHANISMS,
    STUDY_MECHANISMS,
    Sweep,
    UtilityRow,
)
from rootguard.evaluation.rq3_structure import (
    FOCUS,
    Centre,
    RootShare,
    amplifications,
    analyse,
    half_curve,
    power_law,
    regimes,
    root_shares,
    rq3_figures,
)
from rootguard.evaluation.study import plots
from rootguard.evaluation.study.page import WARNING, Section, report
from rootguard.evaluation.study.tables import Sheet, Strong, to_latex, to_markdown
from rootguard.values import RootName
from tests.support.cohort import FOLDER, needs_cohort

TEMPLATES = tuple(load_template(name) for name in PAPER_TEMPLATES)


@pytest.fixture(scope="module")
def published() -> list[UtilityRow]:
    """Rows whose means are the published ones, as far as they can be: each template has the mean.

    Per template they then differ from the paper's, which is what the tests of mismatches need.
    """
    means = {
        (c.metric, c.budget, c.epsilon, c.mechanism, c.config): (c.value, c.se)
        for c in published_cells()
        if c.template is None
    }
    sweep = Sweep(mechanisms=PAPER_MECHANISMS, configurations=PAPER_CONFIGURATIONS)
    rows = []
    for template in TEMPLATES:
        for cell in sweep.cells(template.name):
            key = (cell.budget, float(cell.epsilon), cell.mechanism, cell.config)
            value, se = means["wmape", *key]
            rce, rce_se = means.get(("rce", *key), (None, None))
            if rce is not None and template.name == "homa":
                rce /= 2
            rows.append(
                UtilityRow(
                    cell=cell,
                    wmape=value,
                    wmape_se=se,
                    rce=rce,
                    rce_se=rce_se,
                    roots=2,
                    patients=200,
                    template_hash=template.digest,
                    cohort="",
                    synthetic=False,
                    seed=0,
                    repeats=1,
                )
            )
    return rows


def test_the_published_tables_are_whole() -> None:
    cells = published_cells()
    sizes = {
        (metric, single): sum((c.metric, bool(c.template)) == (metric, single) for c in cells)
        for metric in ("wmape", "rce")
        for single in (False, True)
    }  # fmt: skip
    assert sizes == {
        ("wmape", False): 270,
        ("wmape", True): 216,
        ("rce", False): 270,
        ("rce", True): 48,
    }
    assert len(published_wins()) == 24
    assert sum(published_wins().values()) == 236 + 239 + 239
    assert {c.template for c in cells if c.template} == set(PAPER_TEMPLATES)
    assert {Fraction(str(c.epsilon)) for c in cells} == set(EPSILONS)


def test_equal_means_match_in_every_cell_with_homa_doubled(published: list[UtilityRow]) -> None:
    found = compare(published)
    assert found.matching("wmape", "aggregate") == (270, 270)
    assert found.matching("rce", "aggregate") == (270, 270)
    plain = aggregates(published, "rce")["2k+1", FOCUS, "exponential", "all"].value
    cell = next(
        c for c in found.cells
        if c.published.metric == "rce" and c.table == "aggregate"
        and (c.published.budget, c.published.epsilon, c.published.mechanism, c.published.config)
        == ("2k+1", 0.1, "exponential", "all")
    )  # fmt: skip
    assert cell.ours == pytest.approx(15.7)
    assert plain == pytest.approx(15.7 * 7.5 / 8)  # our own tables keep the paper's definition


def test_a_cell_that_does_not_match_has_a_reason(published: list[UtilityRow]) -> None:
    found = compare(published)
    missed = [c for c in found.cells if not c.matches]
    assert missed
    assert all(c.reason for c in missed)
    assert not any(c.reason for c in found.cells if c.matches)
    titles = [sheet.title for sheet in comparison_sheets(found)]
    assert "Cells that do not match" in titles


def test_the_rule_for_a_match_is_the_one_that_is_stated(published: list[UtilityRow]) -> None:
    def one(value: float) -> Comparison:
        return compare([replace(row, wmape=value) for row in published])

    def wanted(found: Comparison, epsilon: float) -> bool:
        return next(
            c.matches for c in found.cells
            if c.published.metric == "wmape" and c.table == "aggregate"
            and (c.published.budget, c.published.mechanism, c.published.config)
            == ("k+1", "exponential", "all") and c.published.epsilon == epsilon
        )  # fmt: skip

    # Printed 0.6 ± 0.0: 0.15 points. Printed 20.5 ± 0.9, ours ± 0.9 / sqrt(8): 4 of 0.955.
    assert wanted(one(0.74), 5.0)
    assert not wanted(one(0.76), 5.0)
    assert wanted(one(20.5 + 3.8), 0.1)
    assert not wanted(one(20.5 + 3.9), 0.1)


def test_the_noise_of_one_draw_stands_beside_the_band(published: list[UtilityRow]) -> None:
    """Repeats of 16 whose mean varies by 0.1: a draw varies by 0.4, the mean of eight by less."""
    assert compare(published).by_chance("wmape", "template", 4.0) == (0, 0)  # one repeat: unknown
    rows = [replace(row, wmape_mc=0.1, repeats=16) for row in published]
    found = compare(rows)
    assert found.by_chance("wmape", "aggregate", 1e-6) == (270, 270)
    single = next(c for c in found.cells if c.table == "template" and c.published.metric == "wmape")
    assert single.deviations == pytest.approx(
        (single.published.value - single.ours) / math.sqrt(0.4**2 + 0.1**2 + 0.01 / 12)
    )
    worse = compare([replace(row, wmape=(row.wmape or 0) + 1) for row in rows])
    assert worse.by_chance("wmape", "aggregate", 4.0) == (0, 270)  # one point: 6.7 deviations


def test_a_template_of_ones_own_is_not_compared(published: list[UtilityRow]) -> None:
    foreign = [replace(row, template_hash="mine") for row in published]
    found = compare(foreign)
    assert (len(found.cells), len(found.wins), len(found.disorders)) == (0, 0, 0)
    assert comparison_sheets(found) == ()


def test_means_are_compared_only_with_all_eight_templates(published: list[UtilityRow]) -> None:
    found = compare([row for row in published if row.cell.template != "nlr"])
    assert {c.table for c in found.cells} == {"template"}


def test_the_published_disorder_is_named(published: list[UtilityRow]) -> None:
    found = compare(published).disorders
    places = {(d.key[0], float(d.key[1]), d.key[2]) for d in found}
    assert ("k+1", 0.005, "laplace") in places
    assert all("too" in d.reason for d in found)


def test_a_synthetic_cohort_is_the_reason(published: list[UtilityRow]) -> None:
    found = compare([replace(row, synthetic=True) for row in published])
    reasons = {c.reason for c in found.cells if not c.matches}
    assert reasons == {"the cohort is synthetic; the paper's is not"}


def test_comparison_lines_fit_their_header(published: list[UtilityRow]) -> None:
    lines = list(comparison_lines(compare(published)))
    assert len(lines) == 270 + 270 + 216 + 48 + 24
    assert {len(line) for line in lines} == {len(COLUMNS)}


@pytest.mark.parametrize("name", STUDY_MECHANISMS)
def test_shares_follow_a_square_root(name: str) -> None:
    chosen = next(m for m in STUDY_MECHANISMS if m == name)
    law = power_law([s for t in TEMPLATES for s in root_shares(t, chosen, FOCUS, "2k+1")])
    assert law is not None
    assert law.slope == pytest.approx(0.50, abs=0.02)
    assert (law.points, law.clamped) == (19, 2)


def test_roots_of_no_influence_get_the_least() -> None:
    shares = [s for t in TEMPLATES for s in root_shares(t, "exponential", FOCUS, "2k+1")]
    assert {(s.template, s.root) for s in shares if s.sensitivity == 0} == {
        ("anemia", "rbc"),
        ("aip", "tc"),
    }
    assert all(s.clamped for s in shares if s.sensitivity == 0)


def test_a_power_law_is_found_again_and_needs_something_that_varies() -> None:
    def share(template: str, product: float, scale: float) -> RootShare:
        return RootShare(
            template=template, mechanism="laplace", epsilon=FOCUS, budget="k+1",
            root=RootName("r"), unit="", sensitivity=1.0, product=product,
            share=scale * product**0.3, clamped=False,
        )  # fmt: skip

    points = [share("a", 1, 0.2), share("a", 5, 0.2), share("b", 2, 0.9), share("b", 9, 0.9)]
    law = power_law(points)
    assert law is not None
    assert law.slope == pytest.approx(0.3)
    assert power_law([share("a", 1, 0.2), share("b", 2, 0.1)]) is None
    assert power_law([]) is None


def test_templates_are_sorted_into_the_papers_regimes() -> None:
    """On synthetic people: the gaps are far from the limit of 7.5 points on either side."""
    sweep = Sweep(
        mechanisms=("exponential",),
        epsilons=(FOCUS,),
        budgets=("2k+1",),
        repeats=20,
        configurations=("all", "opt"),
    )
    rows = list(sweep.run(TEMPLATES, lambda template: load_cohort(template, None)))
    found = {regime.template: regime.regime for regime in regimes(TEMPLATES, rows)}
    assert {name for name, regime in found.items() if regime == "compressing"} == {
        "aip", "homa", "nlr", "fib4",
    }  # fmt: skip
    assert len(found) == 8


def test_amplification_covers_every_computed_value() -> None:
    found = {(a.value, a.root): a.factor for a in amplifications(load_template("vascular"))}
    assert set(found) == {(v, r) for v in ("pp", "map", "mbp", "ppi") for r in ("sbp", "dbp")}
    assert found["pp", "sbp"] == pytest.approx(144 / (144 + 135.99), rel=0.03)


@pytest.mark.slow  # by default `rootguard plan` says so
def test_an_amplification_that_is_not_attained_says_so() -> None:
    found = {(a.value, a.root): a for a in amplifications(load_template("loan_payment"))}
    assert found["payment", "rate"].remark == "upper bound, not attained; 0.298 is"
    assert found["payment", "rate"].attained == pytest.approx(0.298, rel=0.01)
    assert found["payment", "loan"].remark == ""


def test_tables_escape_what_their_language_would_read() -> None:
    sheet = Sheet(title="a_b & 5%", header=("x|y", "ε"), lines=(("p|q", Strong("1 ± 2")),))
    markdown, latex = to_markdown(sheet), to_latex(sheet)
    assert "| x\\|y | ε |" in markdown
    assert "**1 ± 2**" in markdown
    assert r"a\_b \& 5\%" in latex
    assert r"\textbf{1 $\pm$ 2}" in latex
    assert latex.count("{") == latex.count("}")


def test_sheets_put_the_best_in_bold(published: list[UtilityRow]) -> None:
    sheets = rq1_sheets(published, focus=FOCUS)
    first = sheets[0]
    assert first.header[1:4] == ("Exp all", "Exp roots", "Exp opt")
    line = next(line for line in first.lines if line[0] == "0.1")
    assert [cell for cell in line if isinstance(cell, Strong)] == ["6.9 ± 0.1", "6.9 ± 0.1"]


def test_sheets_hold_every_configuration_that_ran_and_the_population_median(
    published: list[UtilityRow],
) -> None:
    def row(row: UtilityRow, wmape: float, config: Configuration, sensitivity: float) -> UtilityRow:
        return replace(
            row,
            cell=replace(row.cell, config=config),
            wmape=wmape,
            median_wmape=3.0,
            sensitivity=sensitivity,
            sensitivity_se=1.0,
        )

    some = [r for r in published if r.cell.mechanism == "laplace" and r.cell.config == "opt"]
    rows = [row(r, 5.0, "opt", 90.0) for r in some] + [
        row(r, 4.0, "calibrated", 80.0) for r in some
    ]
    made = [sheet for sheet in rq1_sheets(rows, focus=FOCUS) if "mean of" in sheet.title]
    sheets = {sheet.title.split(" (")[0]: sheet for sheet in made}
    errors = sheets["wMAPE"]
    assert errors.header == ("ε", "BLap opt", "BLap cal", "population median")
    assert [cell for cell in errors.lines[0] if isinstance(cell, Strong)] == ["3.0"]
    found = sheets["sensitivity for the highest risk class"]  # of which more is better
    assert found.header == ("ε", "BLap opt", "BLap cal")
    assert [cell for cell in found.lines[0] if isinstance(cell, Strong)] == ["90.0 ± 0.4"]


def test_the_widest_tables_are_made_to_fit_a_page() -> None:
    wide = Sheet(title="t", header=("x",) * 18, lines=(("1",) * 18,))
    latex = to_latex(wide)
    assert r"\resizebox{\textwidth}" in latex
    assert latex.count("{") == latex.count("}")


def test_figures_are_the_same_bytes_twice_and_say_when_people_are_made_up(
    tmp_path: Path, published: list[UtilityRow]
) -> None:
    made_up = [replace(row, synthetic=True) for row in published]
    for folder in ("one", "two"):
        plots.save(
            {"double_asymmetry": rq1_figures(made_up)["double_asymmetry"]}, tmp_path / folder
        )
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == [f"double_asymmetry.{kind}" for kind in ("pdf", "png", "svg")]
    for name in names:
        first = (tmp_path / "one" / name).read_bytes()
        assert first == (tmp_path / "two" / name).read_bytes()
        assert not re.search(rb"CreationDate|ModDate|dc:date|Software", first)
    assert (tmp_path / "one" / "double_asymmetry.png").stat().st_size > 10_000


def test_every_figure_can_be_drawn(
    tmp_path: Path, published: list[UtilityRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "FORMATS", ("svg",))  # the tests of the command write all formats
    sweep = Sweep(mechanisms=PAPER_MECHANISMS, configurations=PAPER_CONFIGURATIONS)
    found = analyse(TEMPLATES[:3], sweep, published)
    assert found.gains[0].figures.keys() == {"all", "roots", "opt"}
    drawings = rq1_figures(published) | rq3_figures(found)
    written = plots.save(drawings, tmp_path)
    assert set(written) == {
        "double_asymmetry", "privacy_utility", "per_template", "power_law", "budget_bars",
    }  # fmt: skip


def test_a_figure_without_data_is_left_out(tmp_path: Path, published: list[UtilityRow]) -> None:
    empty = [replace(row, wmape=None, wmape_se=None, error="x") for row in published]
    nothing = analyse([], Sweep(), [])
    assert plots.save(rq1_figures(empty) | rq3_figures(nothing), tmp_path) == {}


def test_the_report_stands_alone_and_warns_of_synthetic_people(tmp_path: Path) -> None:
    drawing = tmp_path / "x.svg"
    drawing.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    sheet = Sheet(title="T <b>", header=("a",), lines=(("<script>",),))
    section = Section(title="S", sheets=(sheet,), figures={"x": drawing})
    page = report("R", {"k": "v"}, [section], synthetic=True, failures=["it failed"])
    assert WARNING.replace("'", "&#x27;") in page
    assert page.count("ynthetic") >= 2
    assert "<script>" not in page
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert WARNING[:16] not in report("R", {}, [section], synthetic=False)


@needs_cohort
@pytest.mark.slow
def test_the_real_cohort_reproduces_the_paper() -> None:
    """With seed 0. Each cell would fall outside 4 standard errors once in 16,000, so 5 never do."""
    sweep = Sweep(repeats=20, configurations=PAPER_CONFIGURATIONS)
    rows = list(sweep.run(TEMPLATES, lambda template: load_cohort(template, FOLDER)))
    found = compare(rows)
    assert not any(row.error for row in rows)
    assert found.matching("wmape", "aggregate")[0] >= 265
    assert found.matching("wmape", "template")[0] >= 213
    assert found.matching("rce", "aggregate")[0] >= 264
    assert found.matching("rce", "template")[0] >= 47
    for c in found.cells:
        if (c.published.mechanism, c.published.epsilon, c.table) == (
            "exponential",
            0.1,
            "aggregate",
        ):
            assert c.matches
    # Only where the paper's own figures are out of order, or noise is as wide as the bounds.
    assert all(d.key[:2] == ("k+1", Fraction(1, 200)) for d in found.disorders)
    assert len(found.disorders) <= 3
    assert {w.template for w in found.wins if not w.matches} <= {"nlr"}
    assert all(abs(w.published - w.expected) <= 4 * w.sd + 1e-9 for w in found.wins)


def test_half_way_between_two_points_the_error_never_falls_below_half_a_step() -> None:
    for epsilon in (0.01, 0.5, 3.0):
        error, slope, curvature = half_curve(epsilon, 1000)
        step = 1e-4 * epsilon
        low, high = half_curve(epsilon - step, 1000), half_curve(epsilon + step, 1000)
        assert error > 0.5
        assert slope == pytest.approx((high[0] - low[0]) / (2 * step), rel=1e-5)
        assert curvature == pytest.approx((high[1] - low[1]) / (2 * step), rel=1e-5)


def test_half_way_the_exponential_slope_falls_below_a_half_as_published() -> None:
    templates = [load_template(name) for name in PAPER_TEMPLATES]
    slopes = {}
    centres: tuple[Centre, ...] = ("point", "half")
    for centre in centres:
        for epsilon in (Fraction(1, 10), Fraction(1, 2), Fraction(1)):
            shares = [
                share
                for template in templates
                for share in root_shares(template, "exponential", epsilon, "2k+1", centre=centre)
            ]
            law = power_law(shares)
            assert law is not None
            slopes[centre, float(epsilon)] = law.slope
    assert slopes["half", 0.1] == pytest.approx(0.50, abs=0.005)
    assert slopes["half", 0.5] == pytest.approx(0.49, abs=0.01)  # published
    assert slopes["half", 1.0] == pytest.approx(0.46, abs=0.02)  # published
    assert slopes["point", 0.5] > 0.515
    assert slopes["point", 1.0] > 0.515
