"""A cohort of real people from NHANES, the public health survey of the US (CDC/NCHS).

Fetch a cycle's files, join them, keep adult men, and for each template of the paper draw test
patients among the complete cases and summarise everybody else as the population. Seed 42 is the
paper's, as the order of its published patients shows (docs/cohorts.md).

Survey weights are not used, as in the paper: this is a test set, not an estimate of the nation.
"""

import hashlib
import http.client
import math
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rootguard import __version__
from rootguard.advice.people import PAPER_TEMPLATES, Cohort, make_cohort
from rootguard.errors import CohortError
from rootguard.evaluation.cohorts import check_target, read_source, write_cohorts, write_json_file
from rootguard.graph import Graph
from rootguard.template import Template, load_template
from rootguard.values import RootName

Column = NDArray[np.float64]
Report = Callable[[str, int, int | None], None]
"""Told of progress: the file, bytes so far, bytes in all if known."""

BASE_URL = "https://wwwn.cdc.gov/Nchs/Data/Nhanes/Public"
PAPER_SEED = 42  # of the split that the paper reports
# Adult men, as in the paper.
ADULT = 18
MALE = 1
POSITIVE_FLOOR = 0.01
"""The least lower bound: two decimals, and above zero, which formulas divide by."""
# What every SAS transport file begins with, and the length of its records (SAS TS-140).
_BEGINNING = b"HEADER RECORD*******LIBRARY HEADER RECORD!!!!!!!"
_RECORD = 80
_CHUNK = 64 * 1024  # bytes between two looks at how much has come
_ATTEMPTS = 4  # seven seconds in all: who waits longer is asked to come back, and loses nothing
_TIMEOUT = 30.0
"""Seconds without a byte, not for a whole file."""
_MAX_BYTES = 256 * 1024 * 1024
"""Files have a few megabytes; a server that never ends must not fill the disk."""
_MAX_SEQN = 10_000_000
"""Respondents have five- and six-digit numbers so far; floats are whole far beyond this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cycle:
    """Two years of the survey: files end in its letter and lie under its first year."""

    letter: str
    year: int

    @property
    def name(self) -> str:
        """As CDC writes it: 2017-2018."""
        return f"{self.year}-{self.year + 1}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyVariable:
    """Where a root stands in the survey, and what its number there is divided by."""

    file: str
    code: str
    divisor: float = 1.0


CYCLES: Mapping[str, Cycle] = {
    cycle.name: cycle
    for cycle in (
        Cycle(letter="G", year=2011),
        Cycle(letter="H", year=2013),
        Cycle(letter="I", year=2015),
        Cycle(letter="J", year=2017),
    )
}

# The first reading of the pressure, as in the paper: its figures are whole and even, which a mean
# of readings would not be.
VARIABLES: Mapping[RootName, SurveyVariable] = {
    RootName("age"): SurveyVariable(file="DEMO", code="RIDAGEYR"),
    RootName("wt"): SurveyVariable(file="BMX", code="BMXWT"),
    RootName("ht"): SurveyVariable(file="BMX", code="BMXHT", divisor=100),
    RootName("waist"): SurveyVariable(file="BMX", code="BMXWAIST", divisor=100),
    RootName("sbp"): SurveyVariable(file="BPX", code="BPXSY1"),
    RootName("dbp"): SurveyVariable(file="BPX", code="BPXDI1"),
    RootName("hb"): SurveyVariable(file="CBC", code="LBXHGB"),
    RootName("hct"): SurveyVariable(file="CBC", code="LBXHCT"),
    RootName("rbc"): SurveyVariable(file="CBC", code="LBXRBCSI"),
    RootName("plt"): SurveyVariable(file="CBC", code="LBXPLTSI"),
    RootName("neu"): SurveyVariable(file="CBC", code="LBDNENO"),
    RootName("lym"): SurveyVariable(file="CBC", code="LBDLYMNO"),
    RootName("ast"): SurveyVariable(file="BIOPRO", code="LBXSASSI"),
    RootName("alt"): SurveyVariable(file="BIOPRO", code="LBXSATSI"),
    RootName("tc"): SurveyVariable(file="TCHOL", code="LBXTC"),
    RootName("hdl"): SurveyVariable(file="HDL", code="LBDHDD"),
    RootName("tg"): SurveyVariable(file="TRIGLY", code="LBXTR"),
    RootName("glu"): SurveyVariable(file="GLU", code="LBXGLU"),
    RootName("ins"): SurveyVariable(file="INS", code="LBXIN"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """Adult men of one cycle, sorted by SEQN: a column per root, not-a-number where missing."""

    cycle: Cycle
    seqn: NDArray[np.int64]
    columns: Mapping[RootName, Column]


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One template's test patients, and what is published of everybody else."""

    cohort: Cohort
    complete: int
    population: Mapping[str, object]


def cycle_named(name: str) -> Cycle:
    """The cycle of that name, or a refusal that lists them."""
    if name not in CYCLES:
        remedy = f"use one of {', '.join(CYCLES)}"
        raise CohortError("NHANES", "cycle", f"no cycle is called {name[:32]!r}", remedy)
    return CYCLES[name]


def files_of(cycle: Cycle) -> tuple[str, ...]:
    """The files of a cycle that the templates need, without their ending."""
    stems = dict.fromkeys(_stem(variable, cycle) for variable in VARIABLES.values())
    return tuple(f"{stem}_{cycle.letter}" for stem in stems)


def make_cohorts(
    cycle: Cycle,
    out: Path,
    *,
    files: Path | None = None,
    seed: int = PAPER_SEED,
    size: int = 200,
    report: Report | None = None,
    base_url: str = BASE_URL,
) -> tuple[Split, ...]:
    """The whole pipeline: fetch (unless `files` has them), join, draw, summarise, write.

    Everything is read and checked before anything but the downloads is written. A file that
    differs from the one in an earlier run's SOURCE.json is refused.
    """
    check_target(out, "nhanes", PAPER_TEMPLATES)
    folder = out / "xpt" if files is None else files
    if files is None:
        fetch(cycle, folder, report=report, base_url=base_url)
    paths = _locate(folder, files_of(cycle))
    checksums = {name: sha256_of(path) for name, path in paths.items()}
    _check_against(out, cycle, checksums)
    survey = read_survey(cycle, paths)
    splits = tuple(
        split(survey, load_template(name), seed=seed, size=size) for name in PAPER_TEMPLATES
    )
    about = {
        "source": f"NHANES {cycle.name} (CDC/NCHS), adult men",
        "cycle": cycle.name,
        "url": f"{base_url}/{cycle.year}/DataFiles",
        "files": {f"{name}.XPT": checksum for name, checksum in checksums.items()},
        "seed": seed,
        "size": size,
        "adult_men": len(survey.seqn),
        "complete_cases": {each.cohort.template: each.complete for each in splits},
        "version": __version__,
    }
    write_cohorts(out, [each.cohort for each in splits], kind="nhanes", about=about)
    population = {each.cohort.template.upper(): each.population for each in splits}
    write_json_file(out / "population.json", population)
    return splits


def fetch(
    cycle: Cycle,
    folder: Path,
    *,
    report: Report | None = None,
    base_url: str = BASE_URL,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Download what is missing of a cycle; a transfer that was cut off goes on where it stopped."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"it cannot be made ({error.strerror or 'no reason given'})"
        raise CohortError(str(folder), "", problem, "choose another directory") from None
    for name in files_of(cycle):
        target = folder / f"{name}.XPT"
        if not target.exists():
            url = f"{base_url}/{cycle.year}/DataFiles/{name}.XPT"
            download(url, target, report=report, pause=pause)


def download(
    url: str,
    target: Path,
    *,
    report: Report | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """One file into place, whole or not at all; in the meantime it is `<name>.part`.

    Goes on from a `.part` only if the server says that it still has the same file (If-Range with
    the validator kept in `<name>.part.tag`). Tries four times, waiting 1, 2 and 4 seconds.
    """
    remedy = "try again later, it goes on where it stopped; or get the files and use --from DIR"
    problem = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            pause(2.0 ** (attempt - 1))
        try:
            _transfer(url, target, report or (lambda _name, _done, _total: None))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in {408, 416, 429} and error.code < 500:
                problem = f"the server answers {error.code} ({error.reason})"
                raise CohortError(url, "", problem, "get the files and use --from DIR") from None
            problem = f"the server answers {error.code}"
        except urllib.error.URLError as error:
            problem = f"it cannot be reached ({_reason(error.reason)})"
        except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
            problem = f"the transfer broke off ({_reason(error)})"
        except OSError as error:
            problem = f"it cannot be written ({error.strerror or 'no reason given'})"
            raise CohortError(str(target), "", problem, "choose another directory") from None
        else:
            return
    raise CohortError(url, "", problem, remedy)


def _transfer(url: str, target: Path, report: Report) -> None:
    part, tag = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.tag")
    have = part.stat().st_size if part.exists() and tag.exists() else 0
    headers = {"User-Agent": f"rootguard/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": tag.read_text("utf-8")}
    report(target.stem, have, None)
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - ours, http(s)
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310 - as above
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)  # longer than the file is now: begin again
        raise
    with response:
        start = have if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        given = response.headers.get("Content-Range", f"bytes {start}-")
        if not given.startswith(f"bytes {start}-"):
            part.unlink(missing_ok=True)
            raise http.client.HTTPException("not the range that was asked for")
        validator = response.headers.get("ETag", "")
        if not validator or validator.startswith("W/"):  # a weak tag does not promise equal bytes
            validator = response.headers.get("Last-Modified", "")
        done = start
        with part.open("ab" if start else "wb") as stream:
            if validator:
                tag.write_text(validator, "utf-8")
            else:
                tag.unlink(missing_ok=True)
            report(target.stem, done, total)
            while chunk := response.read(_CHUNK):
                stream.write(chunk)
                done += len(chunk)
                if done > _MAX_BYTES:
                    raise http.client.HTTPException("the file does not end")
                report(target.stem, done, total)
    if total is not None and done != total:
        raise ConnectionError(f"{done} of {total} bytes")
    with part.open("rb") as stream:
        begins = stream.read(len(_BEGINNING))
    if begins != _BEGINNING:  # CDC answers some wrong addresses with a page and status 200
        part.unlink()
        problem, remedy = "this is not a SAS transport file", "get the files and use --from DIR"
        raise CohortError(url, "", problem, remedy)
    part.replace(target)
    tag.unlink(missing_ok=True)


def _reason(error: object) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return text or str(error) or type(error).__name__


def sha256_of(path: Path) -> str:
    """A file's checksum."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _locate(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """The path of each file, whatever the case of its name."""
    try:
        found = {path.name.upper(): path for path in sorted(folder.iterdir())}
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or 'no reason given'})"
        raise CohortError(str(folder), "", problem, "check the path") from None
    paths = {name: found.get(f"{name}.XPT") for name in names}
    missing = [f"{name}.XPT" for name, path in paths.items() if path is None]
    if missing:
        remedy = "download them from CDC (docs/cohorts.md)"
        raise CohortError(str(folder), "", f"there is no {', '.join(missing)}", remedy)
    return {name: path for name, path in paths.items() if path is not None}


def _check_against(out: Path, cycle: Cycle, checksums: Mapping[str, str]) -> None:
    source = read_source(out)
    recorded = source.get("files")
    if source.get("cycle") != cycle.name or not isinstance(recorded, dict):
        return
    for name, checksum in checksums.items():
        if recorded.get(f"{name}.XPT", checksum) != checksum:
            problem = "it is not the file that SOURCE.json recorded (SHA-256 differs)"
            remedy = "restore it, or write to a new directory to accept a new edition"
            raise CohortError(f"{name}.XPT", "", problem, remedy)


def read_survey(cycle: Cycle, paths: Mapping[str, Path]) -> Survey:
    """Join the files on SEQN and keep men of 18 and older."""
    wanted: dict[str, list[str]] = {}
    for variable in VARIABLES.values():
        wanted.setdefault(f"{_stem(variable, cycle)}_{cycle.letter}", []).append(variable.code)
    demographics = f"DEMO_{cycle.letter}"
    wanted[demographics].append("RIAGENDR")
    tables = {name: _read_xport(paths[name], codes) for name, codes in wanted.items()}
    people, facts = tables[demographics]
    adult_men = (facts["RIAGENDR"] == MALE) & (facts["RIDAGEYR"] >= ADULT)
    seqn = people[adult_men]
    columns: dict[RootName, Column] = {}
    for root, variable in VARIABLES.items():
        there, values = tables[f"{_stem(variable, cycle)}_{cycle.letter}"]
        column = np.full(len(seqn), np.nan)
        _, here, place = np.intersect1d(seqn, there, assume_unique=True, return_indices=True)
        column[here] = values[variable.code][place] / variable.divisor
        columns[root] = column
    return Survey(cycle=cycle, seqn=seqn, columns=columns)


def _stem(variable: SurveyVariable, cycle: Cycle) -> str:
    """The file of a variable; insulin had none of its own before 2013."""
    return "GLU" if variable.file == "INS" and cycle.letter == "G" else variable.file


def _read_xport(path: Path, codes: Sequence[str]) -> tuple[NDArray[np.int64], dict[str, Column]]:
    """SEQN, sorted, and the columns asked for."""
    try:
        import pandas
    except ImportError:
        remedy = "pip install 'rootguard[eval]'"
        raise CohortError(path.name, "", "reading it needs pandas", remedy) from None
    try:
        if path.stat().st_size % _RECORD:
            raise ValueError  # noqa: TRY301 - pandas only warns, and reads what is left
        frame = pandas.read_sas(path, format="xport", encoding="ISO-8859-1")
    except (OSError, ValueError, TypeError, KeyError, IndexError, UnicodeError):
        problem = "this is not a SAS transport file, or it is damaged"
        raise CohortError(str(path), "", problem, "download it again") from None
    for code in ("SEQN", *codes):
        if code not in frame.columns or frame[code].dtype.kind != "f":
            problem = "there is no such column of numbers"
            raise CohortError(str(path), code, problem, "check the cycle and the file")
    seqn = frame["SEQN"].to_numpy(dtype=float)
    real = (seqn >= 1) & (seqn < _MAX_SEQN) & (seqn == np.floor(seqn))
    if not real.all() or len(np.unique(seqn)) != len(seqn):
        problem = "somebody has no number of their own"
        raise CohortError(str(path), "SEQN", problem, "download it again")
    order = np.argsort(seqn)
    columns = {}
    for code in codes:
        values = frame[code].to_numpy(dtype=float)[order]
        values[np.abs(values) < 1e-70] = 0.0  # pandas reads the IBM zero as 5.4e-79 (pandas#50670)
        columns[code] = values
    return seqn[order].astype(np.int64), columns


def split(survey: Survey, template: Template, *, seed: int, size: int) -> Split:
    """Draw the test patients of one template and summarise the rest.

    Population figures never include a test patient: mean and sd (divided by n) of each root over
    everybody else who has it, covariance (divided by n - 1) over the other complete cases. Bounds
    are public knowledge about the whole subpopulation of complete cases.
    """
    roots = Graph.of(template).roots
    table = np.column_stack([survey.columns[root] for root in roots])
    complete = np.flatnonzero(~np.isnan(table).any(axis=1))
    usable = np.asarray((table[complete] > 0).all(axis=1))
    if int(usable.sum()) < size or len(complete) < size + 2:
        problem = f"it has {len(complete)} complete cases in the survey, too few to draw {size}"
        raise CohortError(template.name, "", problem, "choose a smaller --size")
    drawn = complete[draw(usable, size=size, seed=seed)]
    cohort = make_cohort(
        template,
        {root: table[drawn, i] for i, root in enumerate(roots)},
        tuple(str(number) for number in survey.seqn[drawn].tolist()),
        synthetic=False,
        source=f"NHANES {survey.cycle.name} (CDC/NCHS), adult men",
    )
    rest = np.ones(len(survey.seqn), dtype=bool)
    rest[drawn] = False
    others = [table[rest & ~np.isnan(table[:, i]), i] for i in range(len(roots))]
    left = table[np.setdiff1d(complete, drawn)]
    covariance = np.atleast_2d(np.cov(left, rowvar=False, ddof=1))
    population = {
        "bounds": {root: _bounds(table[complete, i]) for i, root in enumerate(roots)},
        "mean": {root: float(np.mean(column)) for root, column in zip(roots, others, strict=True)},
        "sd": {root: float(np.std(column)) for root, column in zip(roots, others, strict=True)},
        "n": {root: len(column) for root, column in zip(roots, others, strict=True)},
        "roots": list(roots),
        "covariance": covariance.tolist(),
    }
    return Split(cohort=cohort, complete=len(complete), population=population)


def draw(usable: NDArray[np.bool_], *, size: int, seed: int) -> NDArray[np.int64]:
    """Positions of the test patients among complete cases sorted by SEQN, in the order drawn.

    The first `size` of `RandomState(seed).permutation(n)`. A patient with a value of zero (a
    diastolic pressure that was not heard) is no test patient: such are left out, and as many are
    taken, by the same rule and seed, from the usable ones not yet drawn, and put at the end.
    """
    first = _permutation(len(usable), seed)[:size]
    kept = first[usable[first]]
    pool = np.setdiff1d(np.flatnonzero(usable), first)
    spare = pool[_permutation(len(pool), seed)[: size - len(kept)]]
    return np.concatenate([kept, spare])


def _permutation(count: int, seed: int) -> NDArray[np.int64]:
    # The old generator, on purpose: it is the paper's, and its stream is frozen (NEP 19), while
    # that of default_rng may change between releases.
    return np.random.RandomState(seed).permutation(count).astype(np.int64)


def _bounds(column: Column) -> list[float]:
    """Least and greatest, outwards to two decimals; never zero, which formulas divide by."""
    lower = math.floor(round(float(column.min()) * 100, 6)) / 100
    upper = math.ceil(round(float(column.max()) * 100, 6)) / 100
    return [max(lower, POSITIVE_FLOOR), upper]
