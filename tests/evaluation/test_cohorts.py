"""Cohorts: what is read is what stands in the file; what is drawn follows the figures."""

import json
import math
import pickle
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rootguard.advice.people import (
    PAPER_TEMPLATES,
    SYNTHETIC,
    Cohort,
    latent_correlation,
    synthetic_cohort,
)
from rootguard.cli.cohort import command
from rootguard.errors import CohortError
from rootguard.evaluation.cohorts import SOURCE_FILE, load_cohort, read_cohort, write_cohorts
from rootguard.graph import Graph
from rootguard.template import Root, Shape, catalog, load_template, parse_template
from rootguard.values import Domain, RootName
from tests.support.cohort import FOLDER, needs_cohort, patients

HOMA = load_template("homa")
GLU, INS = RootName("glu"), RootName("ins")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def written(folder: Path, text: str) -> Path:
    (folder / "homa.csv").write_text(text, "utf-8")
    return folder


# Reading


def test_a_cohort_is_a_column_per_root_in_the_order_of_the_template(tmp_path: Path) -> None:
    cohort = read_cohort(written(tmp_path, "seqn,ins,glu\n7,9.03,107\n8,22.5,174\n"), HOMA)
    assert list(cohort.columns) == ["glu", "ins"]
    assert cohort.columns[GLU].tolist() == [107, 174]
    assert cohort.columns[INS].tolist() == [9.03, 22.5]
    assert cohort.ids == ("7", "8")
    assert (len(cohort), cohort.template, cohort.synthetic) == (2, "homa", False)
    assert cohort.source == str(tmp_path)


def test_extra_columns_blank_lines_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    plain = read_cohort(written(tmp_path, "id,glu,ins\na,107,9\n"), HOMA)
    busy = read_cohort(
        written(tmp_path, "\ufeffid, glu ,note,ins\r\n\r\na,107,x,9.0\r\n\r\n"), HOMA
    )
    assert busy.digest == plain.digest


def test_rows_without_an_id_are_numbered(tmp_path: Path) -> None:
    assert read_cohort(written(tmp_path, "glu,ins\n1,2\n3,4\n"), HOMA).ids == ("1", "2")


def test_the_digest_tells_values_ids_and_templates_apart(tmp_path: Path) -> None:
    texts = ("id,glu,ins\na,1,2\n", "id,glu,ins\na,2,1\n", "id,glu,ins\nb,1,2\n")
    homa = {read_cohort(written(tmp_path, text), HOMA).digest for text in texts}
    (tmp_path / "quicki.csv").write_text(texts[0], "utf-8")
    quicki = read_cohort(tmp_path, load_template("quicki")).digest
    assert len(homa | {quicki}) == 4


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", "line 1", "it is empty"),
        ("\n\n", "line 1", "it is empty"),
        ("glu,ins\n", "line 2", "nobody"),
        ("glu\n1\n", "line 1", "no column 'ins'"),
        ("glu,ins,ins\n1,2,3\n", "line 1", "two columns 'ins'"),
        ("glu,ins\n1,2\n3,x4177\n", "line 3, column ins", "not a finite number"),
        ("glu,ins\n1,2\n\n3,nan\n", "line 4, column ins", "not a finite number"),
        ("glu,ins\ninf,2\n", "line 2, column glu", "not a finite number"),
        ("glu,ins\n1_0,2\n", "line 2, column glu", "not a finite number"),
        ("glu,ins\n,2\n", "line 2, column glu", "missing"),
        ("glu,ins\n1\n", "line 2", "1 cells under 2"),
        ('glu,ins\n1,"2\n', "", "not CSV"),
    ],
)
def test_a_faulty_file_is_refused_by_line_with_a_remedy(
    tmp_path: Path, text: str, place: str, problem: str
) -> None:
    with pytest.raises(CohortError) as refusal:
        read_cohort(written(tmp_path, text), HOMA)
    assert refusal.value.file == str(tmp_path / "homa.csv")
    assert refusal.value.key == place
    assert problem in refusal.value.problem
    assert refusal.value.remedy
    assert "4177" not in str(refusal.value)


def test_a_missing_or_undecodable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match=r"homa\.csv: there is no such file"):
        read_cohort(tmp_path, HOMA)
    (tmp_path / "homa.csv").write_bytes(b"glu,ins\n\xff,1\n")
    with pytest.raises(CohortError, match="not CSV in UTF-8"):
        read_cohort(tmp_path, HOMA)
    (tmp_path / "homa.csv").unlink()
    (tmp_path / "homa.csv").mkdir()
    with pytest.raises(CohortError, match="cannot be read"):
        read_cohort(tmp_path, HOMA)


@needs_cohort
@pytest.mark.parametrize("name", PAPER_TEMPLATES)
def test_the_real_cohort_is_read_whole(name: str) -> None:
    cohort = read_cohort(FOLDER, load_template(name))
    rows = patients(name)
    assert len(cohort) == len(rows) == 200
    assert not cohort.synthetic
    for root, column in cohort.columns.items():
        assert column.tolist() == [row[root] for row in rows]


def test_columns_cannot_be_written_and_survive_pickling() -> None:
    cohort = synthetic_cohort(HOMA, size=5)
    with pytest.raises(ValueError, match="read-only"):
        cohort.columns[GLU][0] = 0
    again: Cohort = pickle.loads(pickle.dumps(cohort))
    assert again.digest == cohort.digest
    assert again.columns[INS].tolist() == cohort.columns[INS].tolist()


# Drawing


@pytest.mark.parametrize("name", catalog())
def test_every_template_of_the_catalog_has_synthetic_people_within_its_bounds(name: str) -> None:
    template = load_template(name)
    cohort = synthetic_cohort(template, size=50)
    assert list(cohort.columns) == list(Graph.of(template).roots)
    assert cohort.synthetic
    assert cohort.source == SYNTHETIC
    for root, column in cohort.columns.items():
        domain = template.roots[root].domain
        assert column.min() >= domain.lower
        assert column.max() <= domain.upper
        assert len(set(column.tolist())) > 40


def test_the_same_template_size_and_seed_draw_the_same_people() -> None:
    first = synthetic_cohort(HOMA, size=30, seed=4)
    assert synthetic_cohort(HOMA, size=30, seed=4).digest == first.digest
    assert synthetic_cohort(HOMA, size=30, seed=5).digest != first.digest
    longer = synthetic_cohort(HOMA, size=60, seed=4)
    assert longer.columns[GLU][:30].tolist() == first.columns[GLU].tolist()
    glu = synthetic_cohort(load_template("tyg"), size=30, seed=4).columns[GLU]
    assert glu.tolist() != first.columns[GLU].tolist()


def test_a_size_or_seed_that_makes_no_cohort_is_refused() -> None:
    for size, seed in ((0, 0), (10**9, 0), (5, -1)):
        with pytest.raises(CohortError, match="make no cohort"):
            synthetic_cohort(HOMA, size=size, seed=seed)


def test_without_a_directory_the_people_are_synthetic(tmp_path: Path) -> None:
    assert load_cohort(HOMA, None, size=7, seed=1).synthetic
    folder = written(tmp_path, "glu,ins\n1,2\n")
    assert not load_cohort(HOMA, folder, size=7, seed=1).synthetic


def kolmogorov(column: list[float], cut: float, law: NormalDist, low: float, high: float) -> float:
    """The largest gap between the empirical law and a normal cut to [low, high], sd times `cut`."""
    law = NormalDist(law.mean, law.stdev * cut)
    a, b = law.cdf(low), law.cdf(high)
    n = len(column)
    gaps = [
        max(abs(p - i / n), abs(p - (i + 1) / n))
        for i, p in enumerate((law.cdf(x) - a) / (b - a) for x in sorted(column))
    ]
    return max(gaps)


@pytest.mark.parametrize("name", PAPER_TEMPLATES)
def test_margins_have_their_shape_cut_to_the_bounds(name: str) -> None:
    """Kolmogorov-Smirnov at 2.2/sqrt(n): false alarm 1e-4 per root; sd x 0.85 must fail."""
    template = load_template(name)
    size = 20_000
    limit = 2.2 / math.sqrt(size)
    for root, column in synthetic_cohort(template, size=size, seed=3).columns.items():
        figures = template.roots[root]
        low, high = figures.domain.lower, figures.domain.upper
        assert figures.mean is not None
        assert figures.sd is not None
        values = column.tolist()
        if figures.shape == "uniform":
            gaps = [abs((x - low) / (high - low) - i / size) for i, x in enumerate(sorted(values))]
            assert max(gaps) < limit
            continue
        law = NormalDist(figures.mean, figures.sd)
        if figures.shape == "lognormal":
            s = math.sqrt(math.log1p((figures.sd / figures.mean) ** 2))
            law = NormalDist(math.log(figures.mean) - s * s / 2, s)
            values = [math.log(x) for x in values]
            low, high = math.log(low), math.log(high)
        assert kolmogorov(values, 1.0, law, low, high) < limit
        assert kolmogorov(values, 0.85, law, low, high) > limit


@pytest.mark.parametrize("name", PAPER_TEMPLATES)
def test_roots_are_correlated_as_the_population_is(name: str) -> None:
    """Within 0.05 of the published Pearson correlations, at 20,000 people (SE 0.007, x2 skewed).

    The control, the same columns shuffled, must be further off wherever |r| > 0.15.
    """
    template = load_template(name)
    assert template.population is not None
    covariance = np.array(template.population.covariance)
    published = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    columns = np.array(list(synthetic_cohort(template, size=20_000).columns.values()))
    assert np.abs(np.corrcoef(columns) - published).max() < 0.05
    shuffled = np.random.default_rng(0).permuted(columns, axis=1)
    strong = (np.abs(published) > 0.15) & ~np.eye(len(columns), dtype=bool)
    assert (np.abs(np.corrcoef(shuffled) - published)[strong] > 0.05).all()


def root(shape: Shape, mean: float = 10, sd: float = 5) -> Root:
    return Root(
        name=RootName("x"),
        domain=Domain(lower=0.001, upper=1e6),
        unit="",
        aliases=(),
        mean=mean,
        sd=sd,
        shape=shape,
        formula=None,
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("normal", "normal"),
        ("normal", "lognormal"),
        ("lognormal", "lognormal"),
        ("uniform", "normal"),
        ("uniform", "uniform"),
        ("uniform", "lognormal"),
    ],
)
@pytest.mark.parametrize("pearson", [-0.4, 0.0, 0.3, 0.7])
def test_latent_correlations_give_the_pearson_correlation(
    one: Shape, other: Shape, pearson: float
) -> None:
    """By 100-point Gauss-Hermite quadrature in two dimensions, not by drawing."""

    def image(shape: Shape, z: NDArray[np.float64]) -> NDArray[np.float64]:
        if shape == "uniform":
            return np.array([[NormalDist().cdf(x) for x in row] for row in z.tolist()])
        s = math.sqrt(math.log1p(0.25))
        return np.asarray(np.exp(s * z)) if shape == "lognormal" else z

    rho = latent_correlation(root(one), root(other), pearson)
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    weight = np.outer(weights, weights) / (2 * math.pi)
    x = image(one, np.repeat(nodes[:, None], 100, axis=1))
    y = image(other, rho * nodes[:, None] + math.sqrt(1 - rho**2) * nodes[None, :])
    mx, my = (weight * x).sum(), (weight * y).sum()
    covariance = (weight * (x - mx) * (y - my)).sum()
    got = covariance / math.sqrt((weight * (x - mx) ** 2).sum() * (weight * (y - my) ** 2).sum())
    assert got == pytest.approx(pearson, abs=2e-3)


@given(
    st.sampled_from(["normal", "lognormal", "uniform"]),
    st.sampled_from(["normal", "lognormal", "uniform"]),
    st.floats(0.01, 100),
    st.lists(st.floats(-1, 1), min_size=2, max_size=5),
)
def test_latent_correlations_are_valid_and_rise_with_the_pearson_correlation(
    one: Shape, other: Shape, sd: float, given_r: list[float]
) -> None:
    got = [latent_correlation(root(one, sd=sd), root(other), r) for r in sorted(given_r)]
    assert all(-1 < rho < 1 for rho in got)
    assert all(a <= b for a, b in pairwise(got))


def test_correlations_that_no_normals_have_together_are_shrunk_until_they_exist() -> None:
    text = """
name = "odd"
title = "Odd"
target = { name = "t", formula = "a + b + c" }
roots.a = { lower = 0.0, upper = 1000.0, mean = 10.0, sd = 40.0, shape = "lognormal" }
roots.b = { lower = 0.0, upper = 1000.0, mean = 10.0, sd = 40.0, shape = "lognormal" }
roots.c = { lower = -1000.0, upper = 1000.0, mean = 10.0, sd = 40.0, shape = "normal" }
[population]
roots = ["a", "b", "c"]
covariance = [[1600.0, -40.0, 1000.0], [-40.0, 1600.0, 1000.0], [1000.0, 1000.0, 1600.0]]
source = "made up"
"""
    cohort = synthetic_cohort(parse_template(text, file="odd.toml"), size=100)
    assert all(np.isfinite(column).all() for column in cohort.columns.values())


def test_a_root_with_a_formula_is_no_column() -> None:
    assert "bmi" in load_template("nafld").roots
    assert "bmi" not in synthetic_cohort(load_template("nafld"), size=3).columns


# Writing


def test_synthetic_people_are_still_labelled_when_read_back(tmp_path: Path) -> None:
    cohort = synthetic_cohort(HOMA, size=20, seed=2)
    write_cohorts(tmp_path, [cohort], kind="synthetic", about={"source": SYNTHETIC})
    again = read_cohort(tmp_path, HOMA)
    assert again.synthetic
    assert again.source.startswith(SYNTHETIC)
    assert again.digest == cohort.digest


def test_an_unreadable_label_is_refused_and_a_strangers_is_ignored(tmp_path: Path) -> None:
    written(tmp_path, "glu,ins\n1,2\n")
    (tmp_path / SOURCE_FILE).write_text("{", "utf-8")
    with pytest.raises(CohortError, match="nobody knows whether"):
        read_cohort(tmp_path, HOMA)
    (tmp_path / SOURCE_FILE).write_text('{"synthetic": true}', "utf-8")
    assert not read_cohort(tmp_path, HOMA).synthetic


def test_synthetic_people_never_overwrite_real_ones(tmp_path: Path) -> None:
    text = "glu,ins\n1,2\n"
    written(tmp_path, text)
    with pytest.raises(CohortError, match=r"homa\.csv of your own"):
        write_cohorts(tmp_path, [synthetic_cohort(HOMA)], kind="synthetic", about={})
    assert (tmp_path / "homa.csv").read_text("utf-8") == text
    assert [path.name for path in tmp_path.iterdir()] == ["homa.csv"]


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CohortError, match="cannot be written"):
        write_cohorts(tmp_path / "file" / "x", [synthetic_cohort(HOMA)], kind="synthetic", about={})


# The command


def test_the_command_writes_the_same_bytes_for_the_same_seed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        result = run("synthetic", "--out", str(tmp_path / name), "--size", "20", "--seed", "9")
        assert result.exit_code == 0, result.output
        assert "synthetic" in result.output
    first = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert set(first) == {f"{name}.csv" for name in PAPER_TEMPLATES} | {SOURCE_FILE}
    assert json.loads(first[SOURCE_FILE])["synthetic"] is True


def test_the_command_prints_one_json_document() -> None:
    result = run("synthetic", "fib4", "--size", "10", "--json")
    body = json.loads(result.stdout)
    assert body["synthetic"] is True
    assert body["templates"]["fib4"]["people"] == 10
    assert list(body["templates"]["fib4"]["roots"]) == ["age", "ast", "alt", "plt"]


def test_a_users_own_template_is_drawn_by_the_same_command(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'name = "Mine"\ntitle = "Mine"\ntarget = { name = "t", formula = "2 * a" }\n'
        "roots.a = { lower = 0.0, upper = 1.0 }\n"
    )
    out = tmp_path / "out"
    result = run("synthetic", str(mine), "--size", "5", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert len(read_cohort(out, load_template(mine))) == 5
    assert (out / "mine.csv").exists()


def test_a_misused_command_ends_with_two() -> None:
    assert run("synthetic", "--size", "0").exit_code == 2
    assert run("synthetic", "--seed", "-1").exit_code == 2
    assert run("nhanes").exit_code == 2
    assert run("nhanes", "--cycle", "1850-1851", "--out", "x").exit_code == 2
