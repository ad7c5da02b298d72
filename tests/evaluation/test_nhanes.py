"""The NHANES pipeline, on transport files the tests write and a server on this machine."""

import csv
import hashlib
import json
import math
import struct
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.cli.cohort import command
from rootguard.errors import CohortError
from rootguard.evaluation import nhanes
from rootguard.evaluation.cohorts import read_cohort
from rootguard.evaluation.nhanes import (
    CYCLES,
    VARIABLES,
    cycle_named,
    download,
    draw,
    fetch,
    files_of,
    make_cohorts,
    read_survey,
    split,
)
from rootguard.template import load_template
from rootguard.values import RootName
from tests.support.cohort import FOLDER, needs_cohort

pytest.importorskip("pandas")

NAN = math.nan
CYCLE = CYCLES["2017-2018"]
Table = Mapping[str, Sequence[float]]


# A writer of SAS transport files, version 5 (SAS technical paper TS-140)


def ibm(number: float) -> bytes:
    """An IBM System/360 double: sign, excess-64 power of 16, 56 bits of fraction."""
    if math.isnan(number):
        return b"." + bytes(7)
    if number == 0:
        return bytes(8)
    fraction, power = math.frexp(abs(number))
    sixteens = math.ceil(power / 4)
    mantissa = int(fraction * 2.0 ** (power - 4 * sixteens + 56))
    return bytes([(number < 0) << 7 | sixteens + 64]) + mantissa.to_bytes(7, "big")


def xport(table: Table) -> bytes:
    def header(kind: str, rest: str = "0" * 30) -> bytes:
        return f"HEADER RECORD*******{kind:8}HEADER RECORD!!!!!!!{rest}".ljust(80).encode()

    def whole(content: bytes) -> bytes:
        return content + b" " * (-len(content) % 80)

    date = "16FEB20:10:07:55"
    names = [
        struct.pack(
            ">hhhh8s40s8shhh2s8shhl52s",
            *(1, 0, 8, i + 1, name.ljust(8).encode(), b" " * 40, b" " * 8),
            *(0, 0, 0, b"  ", b" " * 8, 0, 0, 8 * i, bytes(52)),
        )
        for i, name in enumerate(table)
    ]
    rows = zip(*table.values(), strict=True)
    return b"".join(
        [
            header("LIBRARY"),
            f"SAS     SAS     SASLIB  9.4     X64     {'':24}{date}".encode(),
            date.ljust(80).encode(),
            header("MEMBER", "000000000000000001600000000140"),
            header("DSCRPTR"),
            f"SAS     DATA    SASDATA 9.4     X64     {'':24}{date}".encode(),
            f"{date}{'':16}{'':40}{'':8}".encode(),
            header("NAMESTR", f"000000{len(names):04}" + "0" * 20),
            whole(b"".join(names)),
            header("OBS"),
            whole(b"".join(ibm(cell) for row in rows for cell in row)),
        ]
    )


# A small survey


def survey_tables(people: int = 90, letter: str = "J") -> dict[str, Table]:
    """Every third person is a woman, every tenth a child; some values are missing."""
    rng = np.random.default_rng(11)
    seqn = 93700 + np.arange(people)
    tables: dict[str, dict[str, NDArray[np.float64]]] = {}
    for root, variable in VARIABLES.items():
        stem = "GLU" if letter == "G" and variable.file == "INS" else variable.file
        population = next(
            t.roots[root] for t in map(load_template, PAPER_TEMPLATES) if root in t.roots
        )
        values = np.round(rng.uniform(population.domain.lower, population.domain.upper, people), 3)
        if root != "age":
            values[rng.random(people) < 0.05] = NAN
        codes = tables.setdefault(stem, {"SEQN": seqn.astype(float)})
        codes[variable.code] = np.round(values * variable.divisor, 1)
    tables["DEMO"]["RIAGENDR"] = np.where(np.arange(people) % 3 == 1, 2.0, 1.0)
    tables["DEMO"]["RIDAGEYR"] = np.where(np.arange(people) % 10 == 3, 17.0, 18.0 + seqn % 60)
    # Laboratory files hold fewer people, in an order of their own.
    tables["CBC"] = {code: column[::-1][5:] for code, column in tables["CBC"].items()}
    return {
        f"{stem}_{letter}": {code: column.tolist() for code, column in codes.items()}
        for stem, codes in tables.items()
    }


def write_survey(folder: Path, tables: Mapping[str, Table] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in (tables or survey_tables()).items():
        (folder / f"{name}.XPT").write_bytes(xport(table))
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["nhanes", *arguments])


def refusal_of(result: Result) -> str:
    assert isinstance(result.exception, CohortError), result.output
    return str(result.exception)


# Reading


def test_numbers_cross_the_transport_format_to_the_last_bit(tmp_path: Path) -> None:
    values = [0.0, 1.0, -2.5, 0.1, 99.9, 1e-3, 321.64, 2684.0, 123456789.125, NAN]
    path = tmp_path / "DEMO_J.XPT"
    path.write_bytes(xport({"SEQN": list(range(1, 11)), "X": values}))
    seqn, columns = nhanes._read_xport(path, ["X"])
    assert seqn.tolist() == list(range(1, 11))
    np.testing.assert_array_equal(columns["X"], values)


def test_the_survey_is_adult_men_sorted_and_joined_by_their_number(tmp_path: Path) -> None:
    tables = survey_tables()
    folder = write_survey(tmp_path, tables)
    survey = read_survey(CYCLE, {name: folder / f"{name}.XPT" for name in tables})
    demo, cbc, bmx = tables["DEMO_J"], tables["CBC_J"], tables["BMX_J"]
    men = [
        int(number)
        for number, sex, age in zip(demo["SEQN"], demo["RIAGENDR"], demo["RIDAGEYR"], strict=True)
        if sex == 1 and age >= 18
    ]
    assert survey.seqn.tolist() == sorted(men)
    hb = dict(zip(cbc["SEQN"], cbc["LBXHGB"], strict=True))
    np.testing.assert_array_equal(
        survey.columns[RootName("hb")], [hb.get(number, NAN) for number in sorted(men)]
    )
    ht = dict(zip(bmx["SEQN"], bmx["BMXHT"], strict=True))
    np.testing.assert_array_equal(
        survey.columns[RootName("ht")], [ht[number] / 100 for number in sorted(men)]
    )


def test_the_cycles_have_their_letters_and_files() -> None:
    assert {name: (c.letter, c.year) for name, c in CYCLES.items()} == {
        "2011-2012": ("G", 2011),
        "2013-2014": ("H", 2013),
        "2015-2016": ("I", 2015),
        "2017-2018": ("J", 2017),
    }
    stems = ["DEMO", "BMX", "BPX", "CBC", "BIOPRO", "TCHOL", "HDL", "TRIGLY", "GLU", "INS"]
    assert files_of(CYCLE) == tuple(f"{stem}_J" for stem in stems)
    assert "INS_G" not in files_of(CYCLES["2011-2012"])
    with pytest.raises(CohortError, match="2017-2018"):
        cycle_named("1999-2000")


def test_insulin_stands_beside_glucose_before_2013(tmp_path: Path) -> None:
    cycle = CYCLES["2011-2012"]
    folder = write_survey(tmp_path / "xpt", survey_tables(letter="G"))
    splits = make_cohorts(cycle, tmp_path / "out", files=folder, size=10)
    assert len(splits) == len(PAPER_TEMPLATES)


def test_every_root_of_the_papers_templates_has_a_variable() -> None:
    for name in PAPER_TEMPLATES:
        assert set(load_template(name).roots) <= set(VARIABLES)


WHOLE = xport({"SEQN": [float(i) for i in range(1, 61)], "LBDHDD": [50.0] * 60})


@pytest.mark.parametrize("content", [b"", b"<html>gone</html>", WHOLE[:640], WHOLE[:-8]])
def test_a_file_that_is_not_transport_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = write_survey(tmp_path / "xpt")
    (folder / "HDL_J.XPT").write_bytes(content)
    result = run("--out", str(tmp_path / "out"), "--from", str(folder), "--size", "9")
    assert "HDL_J.XPT" in refusal_of(result)
    assert not (tmp_path / "out").exists()


def test_missing_columns_and_repeated_people_are_refused(tmp_path: Path) -> None:
    folder = write_survey(tmp_path)
    arguments = ("--out", str(tmp_path / "out"), "--from", str(folder), "--size", "9")
    (folder / "HDL_J.XPT").write_bytes(xport({"SEQN": [1.0, 2.0], "OTHER": [1.0, 2.0]}))
    assert "LBDHDD: there is no such column" in refusal_of(run(*arguments))
    (folder / "HDL_J.XPT").write_bytes(xport({"SEQN": [1.0, 1.0], "LBDHDD": [1.0, 2.0]}))
    assert "SEQN" in refusal_of(run(*arguments))
    (folder / "HDL_J.XPT").unlink()
    (folder / "INS_J.XPT").unlink()
    assert "there is no HDL_J.XPT, INS_J.XPT" in refusal_of(run(*arguments))


def test_without_pandas_the_refusal_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_survey(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = run("--out", str(tmp_path / "out"), "--from", str(folder))
    assert "pip install 'rootguard[eval]'" in refusal_of(result)


# Drawing


PAPER_COUNTS = {
    "anemia": 2537,
    "aip": 1200,
    "conicity": 2528,
    "fib4": 2468,
    "tyg": 1200,
    "homa": 1195,
    "nlr": 2537,
}
"""Complete cases of NHANES 2017-2018, recovered from the order of the paper's patients."""


def in_order(positions: NDArray[np.int64], seqn: Sequence[int]) -> bool:
    """Whether who comes later among the sorted complete cases has the greater number."""
    return bool((np.diff(np.array(seqn)[np.argsort(positions)]) > 0).all())


@needs_cohort
@pytest.mark.parametrize("name", PAPER_COUNTS)
def test_seed_42_draws_the_papers_patients_in_its_order(name: str) -> None:
    """By chance one order in 200! agrees; one case fewer, or another seed, must not."""
    seqn = [int(person) for person in read_cohort(FOLDER, load_template(name)).ids]
    everybody = np.ones(PAPER_COUNTS[name], dtype=bool)
    assert in_order(draw(everybody, size=200, seed=42), seqn)
    assert not in_order(draw(everybody, size=200, seed=41), seqn)
    assert not in_order(draw(everybody[3:], size=200, seed=42), seqn)


@needs_cohort
def test_seed_42_draws_the_papers_vascular_patients_but_for_the_two_replaced() -> None:
    seqn = [int(person) for person in read_cohort(FOLDER, load_template("vascular")).ids]
    usable = np.ones(2400, dtype=bool)
    usable[draw(usable, size=200, seed=42)[[120, 142]]] = False
    positions = draw(usable, size=200, seed=42)
    assert in_order(positions[:198], seqn[:198])
    assert not in_order(draw(np.ones(2400, dtype=bool), size=200, seed=42)[:198], seqn[:198])


def test_a_patient_with_a_zero_is_replaced_at_the_end() -> None:
    everybody = np.ones(50, dtype=bool)
    before = draw(everybody, size=10, seed=1).tolist()
    usable = everybody.copy()
    usable[[before[3], before[7]]] = False
    after = draw(usable, size=10, seed=1).tolist()
    assert after[:8] == [p for p in before if p not in (before[3], before[7])]
    assert len(set(after)) == 10
    assert not set(after[8:]) & set(before)


def test_population_figures_are_those_of_everybody_else(tmp_path: Path) -> None:
    tables = survey_tables()
    pressures = list(tables["BPX_J"]["BPXDI1"])
    men = [i for i, sex in enumerate(tables["DEMO_J"]["RIAGENDR"]) if sex == 1]
    for i in men[:30:4]:
        pressures[i] = 0.0
    tables["BPX_J"] = {**tables["BPX_J"], "BPXDI1": pressures}
    folder = write_survey(tmp_path, tables)
    survey = read_survey(CYCLE, {name: folder / f"{name}.XPT" for name in tables})
    made = split(survey, load_template("vascular"), seed=42, size=10)
    sbp, dbp = (survey.columns[RootName(name)] for name in ("sbp", "dbp"))
    tested = np.isin(survey.seqn, [int(person) for person in made.cohort.ids])
    complete = ~np.isnan(sbp) & ~np.isnan(dbp)
    others = dbp[~tested & ~np.isnan(dbp)]
    rest = np.array([sbp, dbp])[:, complete & ~tested]
    population = made.population
    assert made.complete == complete.sum()
    assert (made.cohort.columns[RootName("dbp")] > 0).all()
    assert (others == 0).sum() >= 3
    assert population == {
        "bounds": {
            "sbp": [sbp[complete].min(), sbp[complete].max()],
            "dbp": [0.01, dbp[complete].max()],
        },
        "mean": {"sbp": pytest.approx(np.nanmean(sbp[~tested])), "dbp": others.mean()},
        "sd": {"sbp": pytest.approx(np.nanstd(sbp[~tested])), "dbp": pytest.approx(others.std())},
        "n": {"sbp": (~np.isnan(sbp[~tested])).sum(), "dbp": len(others)},
        "roots": ["sbp", "dbp"],
        "covariance": [pytest.approx(row) for row in np.cov(rest, ddof=1).tolist()],
    }


def test_bounds_go_outwards_to_two_decimals() -> None:
    assert nhanes._bounds(np.array([1.483, 1.977])) == [1.48, 1.98]
    assert nhanes._bounds(np.array([0.71, 321.64])) == [0.71, 321.64]
    assert nhanes._bounds(np.array([0.0, 136.0])) == [0.01, 136.0]


@needs_cohort
def test_the_published_population_has_our_shape_and_conventions() -> None:
    published = json.loads((FOLDER.parent / "population.json").read_text("utf-8"))
    assert list(published) == [name.upper() for name in PAPER_TEMPLATES]
    for template, figures in published.items():
        assert list(figures) == ["bounds", "mean", "sd", "n", "roots", "covariance"]
        assert figures["roots"] == list(load_template(template.lower()).roots)
    nlr = published["NLR"]  # everybody with neutrophils has lymphocytes: one n for both
    ratio = nlr["sd"]["neu"] ** 2 / nlr["covariance"][0][0]
    assert ratio == pytest.approx((nlr["n"]["neu"] - 1) / nlr["n"]["neu"], abs=1e-12)


# The whole


def test_the_command_writes_cohorts_population_and_source(tmp_path: Path) -> None:
    folder, out = write_survey(tmp_path / "xpt"), tmp_path / "out"
    result = run("--out", str(out), "--from", str(folder), "--size", "12", "--json")
    assert result.exit_code == 0, result.output
    body = json.loads(result.stdout)
    assert list(body["templates"]) == list(PAPER_TEMPLATES)
    source = json.loads((out / "SOURCE.json").read_text("utf-8"))
    content = (folder / "DEMO_J.XPT").read_bytes()
    assert source["files"]["DEMO_J.XPT"] == hashlib.sha256(content).hexdigest()
    assert (source["cycle"], source["seed"], source["size"]) == ("2017-2018", 42, 12)
    population = json.loads((out / "population.json").read_text("utf-8"))
    assert list(population) == [name.upper() for name in PAPER_TEMPLATES]
    for name in PAPER_TEMPLATES:
        cohort = read_cohort(out, load_template(name))
        assert len(cohort) == 12
        assert not cohort.synthetic
        assert cohort.source.startswith("NHANES 2017-2018")
        assert cohort.digest == source["digests"][name] == body["templates"][name]["digest"]
    with (out / "conicity.csv").open(encoding="utf-8") as file:
        assert next(csv.reader(file)) == ["seqn", "wt", "ht", "waist"]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_people(tmp_path: Path) -> None:
    folder = write_survey(tmp_path / "xpt")
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        arguments = ("--out", str(tmp_path / name), "--from", str(folder), "--seed", seed)
        result = run(*arguments, "--size", "9")
        assert result.exit_code == 0, result.output
        assert "adult men" in result.output
    a, b, c = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "abc"
    )
    assert a == b
    assert a["fib4.csv"] != c["fib4.csv"]


def test_files_are_found_whatever_the_case_of_their_names(tmp_path: Path) -> None:
    folder = write_survey(tmp_path / "xpt")
    (folder / "HDL_J.XPT").rename(folder / "hdl_j.xpt")
    result = run("--out", str(tmp_path / "out"), "--from", str(folder), "--size", "9")
    assert result.exit_code == 0, result.output


def test_too_few_complete_cases_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder = write_survey(tmp_path / "xpt")
    result = run("--out", str(tmp_path / "out"), "--from", str(folder))
    assert "too few to draw 200" in refusal_of(result)
    assert not (tmp_path / "out").exists()


def test_a_file_other_than_the_recorded_one_is_refused_on_a_second_run(tmp_path: Path) -> None:
    folder, out = write_survey(tmp_path / "xpt"), tmp_path / "out"
    arguments = ("--out", str(out), "--from", str(folder), "--size", "9")
    assert run(*arguments).exit_code == 0
    assert run(*arguments).exit_code == 0
    tables = survey_tables()
    tables["HDL_J"] = {**tables["HDL_J"], "LBDHDD": [50.0] * 90}
    write_survey(folder, tables)
    assert "HDL_J.XPT: it is not the file that SOURCE.json recorded" in refusal_of(run(*arguments))


def test_a_synthetic_directory_is_not_written_over(tmp_path: Path) -> None:
    CliRunner().invoke(command, ["synthetic", "homa", "--out", str(tmp_path / "out")])
    folder = write_survey(tmp_path / "xpt")
    result = run("--out", str(tmp_path / "out"), "--from", str(folder), "--size", "9")
    assert "it holds a synthetic cohort" in refusal_of(result)


# Downloading


class Server(ThreadingHTTPServer):
    """Serves files with ranges and validators; can break a transfer off half-way."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.tag: str | None = '"one"'
        self.cuts = 0
        self.failures: list[int] = []
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers["Range"]
        server.asked.append((self.path, wanted))
        content = server.files.get(self.path)
        if server.failures or content is None:
            self.send_error(server.failures.pop() if server.failures else 404)
            return
        start = int(wanted[6:-1]) if wanted and self.headers["If-Range"] == server.tag else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if server.tag is not None:
            self.send_header("ETag", server.tag)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if server.cuts:
            server.cuts -= 1
            content = content[: start + (len(content) - start) // 2]
        self.wfile.write(content[start:])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Quiet."""


CONTENT = xport({"SEQN": [float(i) for i in range(1, 5001)]})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        running.files["/X.XPT"] = CONTENT
        yield running
        running.shutdown()
        thread.join()


def test_a_transfer_cut_off_half_way_goes_on_where_it_stopped(
    server: Server, tmp_path: Path
) -> None:
    server.cuts = 2
    waits: list[float] = []
    seen: list[tuple[str, int, int | None]] = []
    target = tmp_path / "X.XPT"
    download(
        f"{server.url}/X.XPT", target, pause=waits.append, report=lambda *each: seen.append(each)
    )
    assert target.read_bytes() == CONTENT
    half = len(CONTENT) // 2
    three_quarters = half + (len(CONTENT) - half) // 2
    ranges = [None, f"bytes={half}-", f"bytes={three_quarters}-"]
    assert [asked for _, asked in server.asked] == ranges
    assert waits == [1.0, 2.0]
    assert seen[-1] == ("X", len(CONTENT), len(CONTENT))
    assert [path.name for path in tmp_path.iterdir()] == ["X.XPT"]


def test_a_later_run_goes_on_from_the_part_of_an_earlier_one(
    server: Server, tmp_path: Path
) -> None:
    server.cuts = 4
    target = tmp_path / "X.XPT"
    with pytest.raises(CohortError, match=r"broke off.*goes on where it stopped"):
        download(f"{server.url}/X.XPT", target, pause=lambda _: None)
    assert not target.exists()
    have = (tmp_path / "X.XPT.part").stat().st_size
    download(f"{server.url}/X.XPT", target, pause=lambda _: None)
    assert server.asked[-1] == ("/X.XPT", f"bytes={have}-")
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("tag", ['"two"', 'W/"one"', None])
def test_a_file_that_changed_or_cannot_be_told_is_fetched_anew(
    server: Server, tmp_path: Path, tag: str | None
) -> None:
    (tmp_path / "X.XPT.part").write_bytes(b"old" * 100)
    (tmp_path / "X.XPT.part.tag").write_text('"one"')
    server.tag = tag
    download(f"{server.url}/X.XPT", tmp_path / "X.XPT", pause=lambda _: None)
    assert (tmp_path / "X.XPT").read_bytes() == CONTENT


def test_a_part_as_long_as_the_file_is_fetched_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / "X.XPT.part").write_bytes(b"x" * len(CONTENT))
    (tmp_path / "X.XPT.part.tag").write_text('"one"')
    download(f"{server.url}/X.XPT", tmp_path / "X.XPT", pause=lambda _: None)
    assert (tmp_path / "X.XPT").read_bytes() == CONTENT


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(
    server: Server, tmp_path: Path
) -> None:
    server.failures = [503, 429]
    download(f"{server.url}/X.XPT", tmp_path / "X.XPT", pause=lambda _: None)
    assert len(server.asked) == 3
    with pytest.raises(CohortError, match=r"answers 404 .*--from"):
        download(f"{server.url}/Y.XPT", tmp_path / "Y.XPT", pause=lambda _: None)
    assert len(server.asked) == 4


def test_a_page_in_place_of_a_file_is_refused(server: Server, tmp_path: Path) -> None:
    server.files["/X.XPT"] = b"<html>moved</html>"
    with pytest.raises(CohortError, match="not a SAS transport file"):
        download(f"{server.url}/X.XPT", tmp_path / "X.XPT", pause=lambda _: None)
    assert not (tmp_path / "X.XPT").exists()


def test_without_a_network_the_refusal_says_what_to_do(server: Server, tmp_path: Path) -> None:
    closed = Server()
    closed.server_close()
    waits: list[float] = []
    with pytest.raises(CohortError, match=r"cannot be reached .*--from DIR"):
        download(f"{closed.url}/X.XPT", tmp_path / "X.XPT", pause=waits.append)
    assert waits == [1.0, 2.0, 4.0]


def test_the_pipeline_fetches_what_is_missing_once(server: Server, tmp_path: Path) -> None:
    tables = survey_tables()
    server.files = {f"/2017/DataFiles/{name}.XPT": xport(table) for name, table in tables.items()}
    for _ in range(2):
        make_cohorts(CYCLE, tmp_path / "out", size=9, base_url=server.url)
    assert sorted(path for path, _ in server.asked) == sorted(server.files)
    assert {path.stem for path in (tmp_path / "out" / "xpt").iterdir()} == set(tables)
    (tmp_path / "file").write_text("")
    with pytest.raises(CohortError, match="cannot be made"):
        fetch(CYCLE, tmp_path / "file" / "x", base_url=server.url)
