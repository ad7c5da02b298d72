"""A learned formula as a template: TOML that `load_template` reads and `make_plan` plans with.

Bounds are the padded and rounded range of the rows, unless a template or a file of bounds gives
them; means, deviations, shapes and covariance come from the rows. Whatever the file says of its
origin is the base name of the rows, their number and the error: no date and no path, so the same
rows give the same file.
"""

import json
import math
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rootguard.advice.learning.fit import Bounds, Learned
from rootguard.advice.learning.rows import PublicRows
from rootguard.advice.people import Column
from rootguard.errors import CohortError, FileError, RootGuardError
from rootguard.expressions import to_text
from rootguard.template import MAX_BYTES, RiskClass, Shape, Template, parse_template
from rootguard.values import RootName

PUBLIC = (
    "The rows must be public: bounds, means and formula come from them without noise, "
    "so from private rows this file is a leak outside the guarantee."
)
ACCURACY = "The guarantee does not depend on the approximation; only the accuracy of releases does."
_PADDING = 0.05
"""Of the range: the least and the greatest of other people may lie a little further out."""
_RISK = re.compile(r"(?P<label>[^<]+?)\s*(?P<sign><=?)\s*(?P<limit>[^<=\s]+)")


def bounds_of(
    rows: PublicRows, *, base: Template | None = None, given: Bounds | None = None
) -> dict[RootName, tuple[float, float]]:
    """Public bounds of each root: as given, else the base template's, else from the rows."""
    found = {name: padded(column) for name, column in rows.columns.items()}
    if base is not None:
        for name in found.keys() & base.roots.keys():
            found[name] = (base.roots[name].domain.lower, base.roots[name].domain.upper)
    for name, ends in (given or {}).items():
        if name in found:
            found[name] = ends
        elif name not in rows.constant:
            problem, remedy = "bounds are given for it, but it is no root", "leave them out"
            raise CohortError(rows.file, f"column {name[:64]}", problem, remedy)
    for name, (lower, upper) in found.items():
        if not lower <= float(rows.columns[name].mean()) <= upper:
            problem, remedy = "its mean lies outside its bounds", "correct the bounds or the unit"
            raise CohortError(rows.file, f"column {name}", problem, remedy)
    return found


def padded(column: Column) -> tuple[float, float]:
    """A twentieth beyond the range on either side, rounded outwards; above zero if the rows are."""
    least, greatest = float(column.min()), float(column.max())
    width = greatest - least
    digits = 2 - math.floor(math.log10(width))
    lower = _down(least - _PADDING * width, digits)
    upper = -_down(-(greatest + _PADDING * width), digits)
    if least > 0 >= lower:
        lower = _down(least / 2, 1 - math.floor(math.log10(least / 2)))
    elif least >= 0 > lower:
        lower = 0.0
    return lower, upper


def _down(value: float, digits: int) -> float:
    """The next number below with so many decimals (fewer than none: tens, hundreds)."""
    rounded = round(value, digits)
    return (rounded if rounded <= value else round(rounded - 10.0**-digits, digits)) + 0.0


def read_bounds(path: Path) -> dict[RootName, tuple[float, float]]:
    """Read bounds from TOML: a line such as `age = [18, 80]` per root."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            content = tomllib.loads(stream.read(MAX_BYTES).decode("utf-8-sig"))
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or 'no reason given'})"
        raise FileError(file, "", problem, "check the path and its permissions") from None
    except (ValueError, RecursionError):  # not UTF-8 or not TOML
        raise FileError(
            file, "", "this is not TOML", "write lines such as age = [18, 80]"
        ) from None
    found: dict[RootName, tuple[float, float]] = {}
    for name, ends in content.items():
        pair = [_finite(end) for end in ends] if isinstance(ends, list) else []
        match pair:
            case [float() as lower, float() as upper] if lower < upper:
                found[RootName(name)] = lower, upper
            case _:
                remedy = "write [lower, upper], two finite numbers in this order"
                raise FileError(file, name[:64], "these are not bounds", remedy)
    return found


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Its square is still a number: variances are taken of what lies between bounds.
    return float(value) if abs(value) <= 1e100 else None


def parse_risk(text: str) -> tuple[RiskClass, ...]:
    """Read classes such as `low<1.3,middle<=2.67,high!`, upwards; ! marks a worrying one."""
    *limited, last = [part.strip() for part in text.split(",")]
    remedy = "write classes upwards such as 'low<1.3,middle<=2.67,high', the last without a limit"
    classes: list[RiskClass] = []
    before = -math.inf
    for part in limited:
        found = _RISK.fullmatch(part)
        try:
            limit = float(found["limit"]) if found else math.nan
        except ValueError:
            limit = math.nan
        if found is None or not before < limit < math.inf:  # false for nan as well
            raise RootGuardError(f"risk class {len(classes) + 1} cannot be read; {remedy}")
        label, worrying = _label(found["label"])
        inclusive = found["sign"] == "<="
        classes.append(RiskClass(label=label, limit=limit, inclusive=inclusive, worrying=worrying))
        before = limit
    if not last or "<" in last or not classes:
        raise RootGuardError(f"the last risk class cannot be read; {remedy}")
    label, worrying = _label(last)
    return (*classes, RiskClass(label=label, limit=None, inclusive=False, worrying=worrying))


def _label(text: str) -> tuple[str, bool]:
    """A class's label, and whether a ! behind it marks it as worrying."""
    return text.strip().removesuffix("!").strip(), text.strip().endswith("!")


def shape_of(column: Column, lower: float) -> Shape:
    """The shape under which the rows are likeliest: each has two numbers, so that is all it takes.

    Mean log-likelihoods at their maximum: normal -ln(sd) - ln(2 pi e)/2, log-normal the same for
    the logarithms and less their mean, uniform -ln(greatest - least).
    """
    half = math.log(2 * math.pi * math.e) / 2
    likely: dict[Shape, float] = {
        "normal": -math.log(float(column.std())) - half,
        "uniform": -math.log(float(np.ptp(column))),
    }
    if lower >= 0 and float(column.min()) > 0:
        logs = np.log(column)
        if (spread := float(logs.std())) > 0:
            likely["lognormal"] = -math.log(spread) - half - float(logs.mean())
    return max(likely, key=likely.__getitem__)


def template_text(
    rows: PublicRows,
    learned: Learned,
    bounds: Bounds,
    *,
    name: str | None = None,
    base: Template | None = None,
    risk: Sequence[RiskClass] = (),
) -> str:
    """The template's TOML. Units, aliases and grids come from the base where it knows the root."""
    target = rows.target_name
    known = base is not None and base.target.name == target
    classes = tuple(risk) or (base.risk if base is not None and known else ())
    origin = (
        f"Learned by rootguard from {learned.rows} public rows of {rows.file}: {learned.form}, "
        f"cross-validated wMAPE {learned.wmape:.3g} % ({learned.folds} folds, "
        f"seed {learned.seed}), the median alone {learned.baseline:.3g} %."
    )
    lines = _pairs(
        name=name or f"{target[:56]}_learned",
        title=f"{target} (learned approximation)",
        field="general" if base is None else base.field,
        description=f"An approximation fitted to public rows. {ACCURACY} {PUBLIC}",
        sources=[origin],
    )
    for root, column in rows.columns.items():
        lines += ["", f"[roots.{root}]", *_root(root, column, bounds[root], base)]
    unit = base.target.unit if base is not None and known else ""
    formula = to_text(learned.formula)
    lines += ["", "[target]", *_pairs(name=target, formula=formula, unit=unit)]
    for each in classes:
        lines += ["", "[[risk]]", *_pairs(label=each.label)]
        if each.limit is not None:
            lines += _pairs(**{"at_most" if each.inclusive else "below": each.limit})
        if each.worrying:
            lines += _pairs(worrying=True)
    covariance = np.atleast_2d(np.cov(np.vstack(list(rows.columns.values()))))
    covariance = (covariance + covariance.T) / 2
    lines += ["", "[population]", *_pairs(roots=list(rows.columns)), "covariance = ["]
    lines += [f"  [{', '.join(map(repr, row))}]," for row in covariance.tolist()]
    lines += ["]", *_pairs(source=f"{learned.rows} public rows of {rows.file}")]
    return "\n".join(lines) + "\n"


def _root(
    name: RootName, column: Column, ends: tuple[float, float], base: Template | None
) -> list[str]:
    known = base.roots.get(name) if base is not None else None
    content: dict[str, object] = {"lower": ends[0], "upper": ends[1]}
    if known is not None:
        content |= {"grid": known.domain.size, "unit": known.unit, "aliases": list(known.aliases)}
    content |= {"mean": float(column.mean()), "sd": float(column.std())}
    return _pairs(**content, shape=shape_of(column, ends[0]))


def _pairs(**content: object) -> list[str]:
    """`key = value` lines. A JSON text, list or number is one of TOML's as well."""
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in content.items()]


def learned_template(text: str) -> Template:
    """The template that a text holds, checked as any other."""
    return parse_template(text, file="learned template")
