"""`rootguard learn`: rows are read strictly, the template is whole, the command says so."""

import csv
import json
import sys
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from rootguard.advice.learning.fit import learn
from rootguard.advice.learning.forms import FORMS
from rootguard.advice.learning.rows import checked_rows, read_rows
from rootguard.advice.learning.template import (
    ACCURACY,
    PUBLIC,
    bounds_of,
    learned_template,
    padded,
    parse_risk,
    read_bounds,
    shape_of,
    template_text,
)
from rootguard.allocation import make_plan
from rootguard.cli.learn import command
from rootguard.errors import CohortError, FileError, RootGuardError
from rootguard.evaluation.learned_targets import (
    SETTINGS,
    Cost,
    rows_of,
    study,
)
from rootguard.template import load_template
from rootguard.values import RootName

Floats = NDArray[np.float64]
A, B = RootName("a"), RootName("b")
PURE = ("anemia", "conicity", "fib4", "homa", "nlr")
LOGS = ("aip", "tyg")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def written(folder: Path, text: str, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def table(folder: Path, columns: Mapping[str, Floats]) -> Path:
    path = folder / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return path


def some(rows: int = 120, seed: int = 5) -> dict[str, Floats]:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(1, 9, rows), rng.lognormal(1, 0.4, rows)
    return {"a": a, "b": b, "y": a * b / 3}


# Reading rows


def test_rows_are_read_alike_with_and_without_pandas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\ufeffid, a ,note,b,y\r\n1,1.5,x,2e1,NA\r\n\r\n2, 2.25,y,0.1,3 \r\n3,inf,z,4,5\r\n"
    lines = "".join(f"{i},{i}.125,t,{i * i}.3,{i * 7}.1\n" for i in range(4, 40))
    path = written(tmp_path, text + lines)
    quick = read_rows(path, target="y", roots=["a", "b"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    slow = read_rows(path, target="y", roots=["a", "b"])
    assert list(quick.columns) == list(slow.columns) == ["a", "b"]
    assert quick.columns[A].tolist() == slow.columns[A].tolist()
    assert quick.columns[B].tolist() == slow.columns[B].tolist()
    assert quick.target.tolist() == slow.target.tolist()
    assert quick.dropped == slow.dropped == 2
    assert len(quick) == 37


def test_without_names_every_other_column_but_an_id_is_a_root(tmp_path: Path) -> None:
    columns = {"SEQN": np.arange(120.0)} | some()
    assert list(read_rows(table(tmp_path, columns), target="y").columns) == ["a", "b"]


def body(line: str = "", count: int = 30) -> str:
    return line + "".join(f"{i + 1},{(i * i) % 17 + 1},{i + 3}\n" for i in range(count))


@pytest.mark.parametrize("pandas", [True, False], ids=["with pandas", "without pandas"])
@pytest.mark.parametrize(
    ("text", "roots", "place", "problem"),
    [
        ("", None, "", "it is empty"),
        ("a,b,y\n", None, "", "0 complete rows"),
        (body("a,b,y\n", 12), None, "", "12 complete rows"),
        (body("a,b,z\n"), None, "header", "no column 'y'"),
        (body("a,b,y\n"), ["a", "c"], "header", "no column 'c'"),
        (body("a,b,y\n"), ["a", "y"], "header", "the target 'y' is among the roots"),
        (body("a,b,y\n"), ["a", "a"], "header", "'a' is named twice"),
        (body("a,b,y\n"), [], "header", "0 root columns"),
        (body("a,a,y\n"), None, "header", "two columns 'a'"),
        (body("a,log,y\n"), None, "column 'log'", "word of the formula language"),
        (body("a,Age (years),y\n"), None, "column 'Age (years)'", "not a name"),
        (body("a,b,y\n1,2,3\n1,x4177,3\n"), None, "line 3, column b", "not a number"),
        (body("a,b,y\n1,2,3\n\n1,4_177,3\n"), None, "line 4, column b", "not a number"),
        (body('a,b,y\n1,"4,177",3\n'), None, "line 2, column b", "not a number"),
        (body("a,b,y\n1,True,3\n"), None, "line 2, column b", "not a number"),
        (body("a,b,y\n1,2,3,4177\n"), None, "line 2", "4 cells under 3"),
        ("a,b,y\n" + "1,2,4177\n" * 5 + "3,4,4177\n" * 30, None, "column y", "same in every row"),
        ("a,b,y\n" + "".join(f"1,2,{i}\n" for i in range(40)), None, "", "every root is the same"),
        ("a,b,y\n" + "".join(f"{i},2,{i}\n" for i in range(40)), None, "column a", "the target"),
        ("a,b,y\n" + "".join(f"{i},{i},{i % 3}\n" for i in range(40)), None, "column b", "repeats"),
        ("a,b,y\n" + "".join(f"{i},{i % 5},nan\n" for i in range(40)), None, "", "0 complete"),
    ],
)
def test_a_faulty_file_is_refused_by_place_with_a_remedy_and_without_its_content(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    roots: list[str] | None,
    place: str,
    problem: str,
    pandas: bool,
) -> None:
    if not pandas:
        monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(CohortError) as refusal:
        read_rows(written(tmp_path, text), target="y", roots=roots)
    assert refusal.value.key == place
    assert problem in refusal.value.problem
    assert refusal.value.remedy
    assert "177" not in str(refusal.value)


def test_a_missing_a_binary_and_an_unreadable_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="there is no such file"):
        read_rows(tmp_path / "none.csv", target="y")
    (tmp_path / "binary.csv").write_bytes(b"a,b,y\n\xff\xfe,1,2\n")
    with pytest.raises(CohortError, match="not CSV in UTF-8"):
        read_rows(tmp_path / "binary.csv", target="y")
    with pytest.raises(CohortError, match="cannot be read"):
        read_rows(tmp_path, target="y")


def test_parquet_that_cannot_be_read_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.parquet"
    with pytest.raises(CohortError, match="no such file"):
        read_rows(path, target="y")
    path.write_bytes(b"no parquet")
    with pytest.raises(CohortError, match="CSV"):
        read_rows(path, target="y")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(CohortError, match="needs pandas and pyarrow"):
        read_rows(path, target="y")


def test_parquet_is_read_through_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame(some())
    monkeypatch.setattr(pandas, "read_parquet", lambda path: frame.copy())
    path = tmp_path / "rows.parquet"
    path.touch()
    assert read_rows(path, target="y").columns[A].tolist() == some()["a"].tolist()
    frame["b"] = ["x4177"] * len(frame)
    with pytest.raises(CohortError, match="row 1, column b: this is not a number") as refusal:
        read_rows(path, target="y")
    assert "4177" not in str(refusal.value)


# The template


def test_the_emitted_template_loads_plans_and_carries_what_the_base_knows(tmp_path: Path) -> None:
    exact = load_template("fib4")
    rows = rows_of(exact, SETTINGS[0], seed=3)
    bounds = bounds_of(rows, base=exact)
    learned = learn(rows, bounds=bounds, folds=2)
    text = template_text(rows, learned, bounds, name="mine", base=exact)
    template = load_template(written(tmp_path, text, "mine.toml"))
    assert template.name == "mine"
    for root in exact.roots.values():
        found = template.roots[root.name]
        assert (found.domain, found.unit, found.aliases) == (root.domain, root.unit, root.aliases)
        assert found.mean == pytest.approx(float(rows.columns[root.name].mean()))
    assert template.risk == exact.risk
    assert template.target.formula == learned.formula
    assert template.population is not None
    sums = np.cov(np.vstack(list(rows.columns.values())))
    assert np.allclose(template.population.covariance, sums)
    make_plan(template, Fraction(1)).check()


def test_the_template_says_where_it_comes_from_without_a_path(tmp_path: Path) -> None:
    rows = read_rows(table(tmp_path, some()), target="y")
    learned = learn(rows, folds=2)
    template = learned_template(template_text(rows, learned, bounds_of(rows)))
    (source,) = template.sources
    assert source.startswith("Learned by rootguard from 120 public rows of rows.csv: log-linear")
    assert str(tmp_path) not in template_text(rows, learned, bounds_of(rows))
    assert ACCURACY in template.description
    assert PUBLIC in template.description


@pytest.mark.parametrize("low", [-3.0, 0.0, 0.004, 5.0, 1e6])
@pytest.mark.parametrize("width", [1e-3, 1.0, 37.2, 1e5])
def test_bounds_from_rows_hold_every_row_with_room_and_keep_their_sign(
    low: float, width: float
) -> None:
    column = np.linspace(low, low + width, 50)
    lower, upper = padded(column)
    assert upper >= low + 1.05 * width - 1e-9 * max(abs(low), 1)
    if low > 0:
        assert 0 < lower < low
    elif low == 0:
        assert lower == 0
    else:
        assert lower <= low - 0.05 * width
    assert upper - lower <= 1.13 * width + 1e-9 * max(abs(low), 1)


def test_shapes_are_told_apart_by_likelihood() -> None:
    rng = np.random.default_rng(3)
    assert shape_of(rng.normal(50, 9, 400), 0.0) == "normal"
    assert shape_of(rng.lognormal(2, 0.6, 400), 0.0) == "lognormal"
    assert shape_of(rng.uniform(18, 80, 400), 18.0) == "uniform"
    assert shape_of(rng.lognormal(2, 0.6, 400), -1.0) == "normal"


def test_bounds_from_a_file_go_before_the_base_and_the_rows(tmp_path: Path) -> None:
    columns = some()
    rows = checked_rows("rows.csv", "y", {"a": columns["a"], "b": columns["b"]}, columns["y"])
    given = read_bounds(written(tmp_path, "a = [0.5, 12]\n", "bounds.toml"))
    found = bounds_of(rows, given=given)
    assert found[A] == (0.5, 12.0)
    assert found[B] == padded(columns["b"])
    with pytest.raises(CohortError, match="it is no root"):
        bounds_of(rows, given={RootName("c"): (0.0, 1.0)})
    with pytest.raises(CohortError, match="its mean lies outside its bounds"):
        bounds_of(rows, given={A: (100.0, 200.0)})


@pytest.mark.parametrize(
    "text", ["a = 3", "a = [1]", "a = [2, 1]", "a = [1, nan]", "a = [true, 2]", "a = ['x', 2]"]
)
def test_bounds_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FileError, match="these are not bounds; write"):
        read_bounds(written(tmp_path, text, "bounds.toml"))


def test_a_bounds_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="this is not TOML"):
        read_bounds(written(tmp_path, "a = [", "bounds.toml"))
    with pytest.raises(FileError, match="cannot be read"):
        read_bounds(tmp_path / "none.toml")


def test_risk_classes_are_read_from_one_line() -> None:
    low, middle, high = parse_risk("low<1.3, in the middle <= 2.67,high")
    assert (low.label, low.limit, low.inclusive) == ("low", 1.3, False)
    assert (middle.label, middle.limit, middle.inclusive) == ("in the middle", 2.67, True)
    assert (high.label, high.limit) == ("high", None)
    assert parse_risk("cold<-2,cool<0,warm<3,hot")[1].limit == 0
    marked = parse_risk("cold!<-2,cool<0,hot !")
    assert [(risk.label, risk.worrying) for risk in marked] == [
        ("cold", True),
        ("cool", False),
        ("hot", True),
    ]


@pytest.mark.parametrize(
    "text", ["", "low", "low<x,high", "a<2,b<1,c", "a<1,b<2", "<1,b", "a<0,b<-1,c"]
)
def test_risk_classes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(RootGuardError, match="cannot be read; write classes upwards"):
        parse_risk(text)


# The command


def test_the_command_writes_a_template_and_reports_as_json(tmp_path: Path) -> None:
    path, out = table(tmp_path, some()), tmp_path / "mine.toml"
    risk = "low<4,middle<=9,high"
    result = run(
        "--data", str(path), "--target", "y", "--roots", "a, b", "--name", "mine",
        "--risk", risk, "--out", str(out), "--seed", "7", "--folds", "4", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["template"], said["target"], said["form"]) == ("mine", "y", "log-linear")
    assert (said["rows"], said["folds"], said["seed"]) == (120, 4, 7)
    assert said["wmape"] < 1e-6 < said["baseline_wmape"]
    assert [form["form"] for form in said["forms"]] == [form.name for form in FORMS]
    assert set(said["sensitivities"]) == {"a", "b"}
    assert said["coefficients"] == pytest.approx({"constant": 1 / 3, "a": 1, "b": 1})
    assert said["notes"] == [ACCURACY, PUBLIC]
    template = load_template(out)
    assert template.digest == said["digest"]
    assert out.read_text("utf-8") == said["toml"]
    assert [each.label for each in template.risk] == ["low", "middle", "high"]
    assert [entry.name for entry in tmp_path.iterdir() if entry.suffix == ".part"] == []
    make_plan(template, Fraction(1)).check()


def test_the_command_speaks_to_people_and_says_what_it_rests_on(tmp_path: Path) -> None:
    result = run("--data", str(table(tmp_path, some())), "--target", "y", "--folds", "2")
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "log-linear *" in said
    assert "(the median)" in said
    assert ACCURACY in said
    assert PUBLIC in said
    assert "nothing was written; give --out FILE" in said


def test_the_command_takes_roots_and_bounds_from_a_base(tmp_path: Path) -> None:
    rows = rows_of(load_template("homa"), SETTINGS[0])
    columns = {str(root): column for root, column in rows.columns.items()}
    path = table(tmp_path, columns | {"note": rows.target * 2, "homa": rows.target})
    asked = ("--data", str(path), "--target", "homa", "--template", "homa")
    result = run(*asked, "--folds", "2", "--json")
    template = learned_template(json.loads(result.stdout)["toml"])
    exact = load_template("homa")
    assert list(template.roots) == list(exact.roots)
    assert template.risk == exact.risk


def test_the_command_wants_rows_and_a_target_and_a_place_it_can_write_to(tmp_path: Path) -> None:
    assert run("--target", "y").exit_code == 2
    assert run("--data", "rows.csv").exit_code == 2
    path = table(tmp_path, some())
    nowhere = str(tmp_path / "no" / "x.toml")
    result = run("--data", str(path), "--target", "y", "--folds", "2", "--out", nowhere)
    assert isinstance(result.exception, FileError)
    assert "cannot be written" in str(result.exception)


def test_the_study_reports_every_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rootguard.advice.people.PAPER_TEMPLATES", ("homa",))
    fitted: list[Cost] = []

    def once(*asked: Any, **options: Any) -> Iterable[Cost]:  # noqa: ANN401 - passed on
        """The second run is about what it prints: it need not fit every setting again."""
        if not fitted:
            fitted.extend(study(*asked, **options))
        return fitted

    monkeypatch.setattr("rootguard.evaluation.learned_targets.study", once)
    said = json.loads(run("--study", "--json", "--folds", "3").stdout)
    assert [cost["setting"] for cost in said["costs"]] == [setting.name for setting in SETTINGS]
    assert all(cost["exact"] <= cost["uniform"] for cost in said["costs"])
    assert "few rough rows" in run("--study", "--folds", "3").stdout
