"""Who an experiment is about: one column of values per root, one row per person.

A cohort is a directory of CSV files, one per template; or, with no directory, people drawn from the
public population figures in the template itself, so that everything runs offline on a fresh
machine. Drawn people are synthetic and every cohort says which kind it is. `nhanes` writes such a
directory from a public survey.

A cohort holds true values in the open: published or synthetic people only, never a user's.
"""

import csv
import functools
import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import NormalDist
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rootguard.errors import CohortError
from rootguard.graph import Graph
from rootguard.template import Root, Template
from rootguard.values import RootName

Kind = Literal["synthetic", "nhanes"]
Column = NDArray[np.float64]

PAPER_TEMPLATES = ("anemia", "aip", "conicity", "vascular", "fib4", "tyg", "homa", "nlr")
SOURCE_FILE = "SOURCE.json"
SYNTHETIC = "synthetic, from the template's population figures"
MAX_PEOPLE = 1_000_000
_FORMAT = "rootguard-cohort-1"
_IDS = ("seqn", "id")
_MAX_LATENT = 0.995
_DIGITS = 6
_STANDARD = NormalDist()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cohort:
    """People for one template. `digest` tells two cohorts apart; the columns are read-only."""

    template: str
    columns: Mapping[RootName, Column]
    synthetic: bool
    source: str
    digest: str
    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        columns = {name: np.array(column, dtype=float) for name, column in self.columns.items()}
        for column in columns.values():
            column.flags.writeable = False
        object.__setattr__(self, "columns", MappingProxyType(columns))

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[object, ...]:  # a mapping proxy cannot be pickled
        content = {f.name: getattr(self, f.name) for f in fields(self)}
        return functools.partial(Cohort, **content | {"columns": dict(self.columns)}), ()


def load_cohort(
    template: Template, directory: Path | None, *, size: int = 200, seed: int = 0
) -> Cohort:
    """The people in a directory, or synthetic ones when there is none."""
    if directory is None:
        return synthetic_cohort(template, size=size, seed=seed)
    return read_cohort(directory, template)


def read_cohort(directory: Path, template: Template) -> Cohort:
    """Read DIR/<template>.csv: a column per noised root, and `seqn` or `id` if there is one.

    Other columns are ignored. Errors name the line and the column, never what stands there.
    """
    path = directory / f"{template.name.lower()}.csv"
    header, rows = _rows(path)
    roots = Graph.of(template).roots
    for root in roots:
        if root not in header:
            remedy = f"give it a column for each of {', '.join(roots)}"
            raise CohortError(str(path), "line 1", f"there is no column {root!r}", remedy)
    columns = {
        root: np.array([_number(row, header.index(root), line, root, path) for line, row in rows])
        for root in roots
    }
    key = next((header.index(name) for name in _IDS if name in header), None)
    ids = tuple(str(i) if key is None else row[key].strip() for i, (_, row) in enumerate(rows, 1))
    source = read_source(directory)
    label = source.get("source")
    return _cohort(
        template,
        columns,
        ids,
        synthetic=source.get("synthetic") is True,
        source=f"{label} ({directory})" if isinstance(label, str) else str(directory),
    )


def synthetic_cohort(template: Template, *, size: int = 200, seed: int = 0) -> Cohort:
    """People drawn from a template's population figures; the same for the same name, size and seed.

    Each root follows its shape, cut to its bounds: log-normal or normal with the template's mean
    and sd as the moments before the cut, else uniform. Roots move together by a Gaussian copula
    whose correlations are the latent ones that give the population's Pearson correlations exactly
    before the cut (see `latent_correlation`). Values keep six significant digits. A longer cohort
    begins with the shorter one.
    """
    if not 1 <= size <= MAX_PEOPLE or seed < 0:
        place, remedy = "size and seed", f"ask for 1 to {MAX_PEOPLE} people and a seed of 0 or more"
        raise CohortError(template.name, place, "these make no cohort", remedy)
    roots = [template.roots[name] for name in Graph.of(template).roots]
    key = hashlib.sha256(f"{_FORMAT} {template.name.lower()}".encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(key[:8], "big")])
    latent = rng.standard_normal((size, len(roots))) @ _mixing(template, roots).T
    columns = {root.name: _through_margin(root, latent[:, i]) for i, root in enumerate(roots)}
    ids = tuple(str(i) for i in range(1, size + 1))
    return _cohort(template, columns, ids, synthetic=True, source=SYNTHETIC)


def latent_correlation(one: Root, other: Root, pearson: float) -> float:
    """The correlation rho of two standard normals whose images have the Pearson correlation r.

    Exact for margins before they are cut to bounds, with s² = ln(1 + (sd/mean)²) of a log-normal
    and w = sqrt(exp(s²) - 1); held within ±0.995, since no rho gives an r out of reach:

    - normal, normal: rho = r
    - normal, log-normal: rho = r w / s
    - log-normal, log-normal: rho = ln(1 + r w1 w2) / (s1 s2)
    - uniform, normal: rho = r sqrt(pi / 3)
    - uniform, uniform: rho = 2 sin(pi r / 6)
    - uniform, log-normal: rho = sqrt(2)/s · quantile(1/2 + r w / sqrt(12))

    The second and fourth follow from Stein's lemma, the third from the moments of a bivariate
    log-normal, the fifth is Pearson's (1907), the last from E[e^(sZ) Φ(Y)] = e^(s²/2) Φ(rho s/√2).
    """
    first, second = sorted((one, other), key=lambda root: root.shape)  # lognormal, normal, uniform
    match first.shape, second.shape:
        case "lognormal", "lognormal":
            (s1, w1), (s2, w2) = _spread(first), _spread(second)
            rho = math.log(max(1 + pearson * w1 * w2, 1e-300)) / (s1 * s2)
        case "lognormal", "normal":
            s, w = _spread(first)
            rho = pearson * w / s
        case "lognormal", "uniform":
            s, w = _spread(first)
            p = min(max(0.5 + pearson * w / math.sqrt(12), 1e-12), 1 - 1e-12)
            rho = math.sqrt(2) / s * _STANDARD.inv_cdf(p)
        case "normal", "uniform":
            rho = pearson * math.sqrt(math.pi / 3)
        case "uniform", "uniform":
            rho = 2 * math.sin(math.pi * pearson / 6)
        case _:
            rho = pearson
    return min(max(rho, -_MAX_LATENT), _MAX_LATENT)


def read_source(directory: Path) -> dict[str, object]:
    """What SOURCE.json says about a directory that we wrote; empty for anybody else's."""
    path = directory / SOURCE_FILE
    try:
        content = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError):
        problem = "it cannot be read, so nobody knows whether these people are synthetic"
        raise CohortError(str(path), "", problem, "restore it or remove it") from None
    ours = isinstance(content, dict) and content.get("format") == _FORMAT
    return content if ours else {}


def check_target(directory: Path, kind: Kind, templates: Iterable[str]) -> None:
    """Refuse to write where people of another kind, or a user's own, would be written over."""
    found = read_source(directory).get("kind")
    if found == kind:
        return
    theirs = [name for name in templates if (directory / f"{name}.csv").exists()]
    if found is not None or theirs:
        what = f"a {found} cohort" if found is not None else f"a {theirs[0]}.csv of your own"
        raise CohortError(str(directory), "", f"it holds {what}", "write to another directory")


def write_cohorts(
    directory: Path, cohorts: Sequence[Cohort], *, kind: Kind, about: Mapping[str, object]
) -> None:
    """Write DIR/<template>.csv for each cohort, and SOURCE.json, which `about` goes into."""
    check_target(directory, kind, [cohort.template for cohort in cohorts])
    source: dict[str, object] = {
        "format": _FORMAT,
        "kind": kind,
        "synthetic": kind == "synthetic",
        **about,
        "digests": {cohort.template: cohort.digest for cohort in cohorts},
    }
    # SOURCE.json first: a run that stops half-way leaves no people without their label.
    write_json_file(directory / SOURCE_FILE, source)
    for cohort in cohorts:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([_IDS[kind == "synthetic"], *cohort.columns])
        for i, person in enumerate(cohort.ids):
            writer.writerow([person, *(_plain(column[i]) for column in cohort.columns.values())])
        _write(directory / f"{cohort.template}.csv", text.getvalue())


def write_json_file(path: Path, content: object) -> None:
    """One JSON document in a file, whole or not at all."""
    _write(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def cohort_of(
    template: Template, columns: Mapping[RootName, Column], ids: Sequence[str], *, source: str
) -> Cohort:
    """A cohort of real people from columns already checked."""
    return _cohort(template, columns, tuple(ids), synthetic=False, source=source)


def _cohort(
    template: Template,
    columns: Mapping[RootName, Column],
    ids: tuple[str, ...],
    *,
    synthetic: bool,
    source: str,
) -> Cohort:
    name = template.name.lower()
    content = hashlib.sha256(json.dumps([_FORMAT, name, list(columns), list(ids)]).encode())
    for column in columns.values():
        content.update((column + 0.0).astype("<f8").tobytes())  # -0.0 and 0.0 are one value
    return Cohort(
        template=name,
        columns=columns,
        synthetic=synthetic,
        source=source,
        digest=content.hexdigest(),
        ids=ids,
    )


def _rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header and every row with its line number; blank lines are skipped."""
    file = str(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except FileNotFoundError:
        remedy = "write one (docs/cohorts.md), or leave the directory out for synthetic people"
        raise CohortError(file, "", "there is no such file", remedy) from None
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or 'no reason given'})"
        raise CohortError(file, "", problem, "check the path and its permissions") from None
    except (UnicodeDecodeError, csv.Error):
        raise CohortError(file, "", "it is not CSV in UTF-8", "save it as plain CSV") from None
    if not lines:
        raise CohortError(file, "line 1", "it is empty", "begin with a line of column names")
    header = [cell.strip() for cell in lines[0][1]]
    twice = next((name for name in header if header.count(name) > 1 and name), None)
    if twice is not None:
        problem = f"there are two columns {twice[:64]!r}"
        raise CohortError(file, "line 1", problem, "keep one of them")
    if len(lines) == 1:
        raise CohortError(file, "line 2", "there is nobody in it", "add a line per person")
    for line, row in lines[1:]:
        if len(row) != len(header):
            problem = f"it has {len(row)} cells under {len(header)} column names"
            raise CohortError(file, f"line {line}", problem, "give every column one cell")
    return header, lines[1:]


def _number(row: list[str], index: int, line: int, root: str, path: Path) -> float:
    text = row[index].strip()
    place = f"line {line}, column {root}"
    if not text:
        remedy = "keep complete cases only"
        raise CohortError(str(path), place, "the value is missing", remedy)
    try:
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        problem, remedy = "this is not a finite number", "write a plain number, or drop the line"
        raise CohortError(str(path), place, problem, remedy)
    return number


def _spread(root: Root) -> tuple[float, float]:
    """(s, w) of a log-normal root: s² = ln(1 + (sd/mean)²), w² = exp(s²) - 1 = (sd/mean)²."""
    ratio = (root.sd or 0.0) / (root.mean or 1.0)
    return math.sqrt(math.log1p(ratio**2)), ratio


def _mixing(template: Template, roots: Sequence[Root]) -> NDArray[np.float64]:
    """L with L·Lᵀ = the latent correlations, shrunk towards none until it exists."""
    latent = np.eye(len(roots))
    population = template.population
    listed = () if population is None else population.roots
    covariance = np.array(population.covariance) if population is not None else np.zeros((0, 0))
    for i, one in enumerate(roots):
        for j, other in enumerate(roots[:i]):
            if one.name not in listed or other.name not in listed:
                continue
            a, b = listed.index(one.name), listed.index(other.name)
            scale = math.sqrt(covariance[a, a] * covariance[b, b])  # its own variances, same people
            if scale > 0:
                pearson = min(max(covariance[a, b] / scale, -1.0), 1.0)
                latent[i, j] = latent[j, i] = latent_correlation(one, other, pearson)
    # Margins of different shapes can ask for correlations that no three normals have together.
    lowest = float(np.linalg.eigvalsh(latent)[0])
    if lowest < (floor := 1e-6):
        keep = (1 - floor) / (1 - lowest)  # eigenvalues of kR + (1-k)I are k·e + 1 - k
        latent = keep * latent + (1 - keep) * np.eye(len(roots))
    return np.linalg.cholesky(latent).astype(np.float64)


def _through_margin(root: Root, latent: Column) -> Column:
    """Standard normal draws through the root's quantile function, cut to its bounds exactly.

    u = Φ(z) is uniform, so F⁻¹(F(lower) + u (F(upper) - F(lower))) has the margin F given that it
    lies within the bounds.
    """
    lower, upper = root.domain.lower, root.domain.upper
    uniform = [_STANDARD.cdf(z) for z in latent.tolist()]
    if root.shape == "uniform" or root.mean is None or root.sd is None:
        drawn = [lower + u * (upper - lower) for u in uniform]
    elif root.shape == "normal":
        drawn = _cut(uniform, NormalDist(root.mean, root.sd), lower, upper)
    else:
        s, _ = _spread(root)
        logs = NormalDist(math.log(root.mean) - s * s / 2, s)
        lowest = math.log(lower) if lower > 0 else -math.inf
        drawn = [math.exp(x) for x in _cut(uniform, logs, lowest, math.log(upper))]
    rounded = [float(f"{x:.{_DIGITS}g}") for x in drawn]
    return np.asarray(np.clip(rounded, lower, upper), dtype=np.float64)


def _cut(uniform: list[float], law: NormalDist, lower: float, upper: float) -> list[float]:
    low, high = law.cdf(lower), law.cdf(upper)
    # The quantile has no value at 0 and 1, which only a draw beyond 8 sd reaches.
    inside = (min(max(low + u * (high - low), 1e-300), 1 - 1e-16) for u in uniform)
    return [min(max(law.inv_cdf(p), lower), upper) for p in inside]


def _plain(number: float) -> str:
    """The shortest text that reads back as the same number; whole numbers without a point."""
    return repr(float(number)).removesuffix(".0")


def _write(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError as error:
        problem = f"it cannot be written ({error.strerror or 'no reason given'})"
        raise CohortError(str(path), "", problem, "choose another directory") from None
