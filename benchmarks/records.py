"""Results as lines of JSON: written as they come, read again to compare runs and to write a page.

The first line of a run describes the machine and the day. A run that was stopped has all lines but
those that it had not come to; the next one goes on behind them, with such a line of its own.
"""

import datetime
import json
import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, assert_never

from benchmarks.measure import ROUNDS, Figure, Growth, Result, Row, Skipped

PACKAGES = (
    *("numpy", "scipy", "cryptography", "pyarrow", "polars", "pandas", "mcp"),
    *("opendp", "diffprivlib", "litellm", "fastmcp", "presidio-analyzer"),
)
Line = dict[str, Any]


def machine() -> Line:
    """The first line of a run: where and when it was."""
    return {
        "machine": {
            "processor": _processor(),
            "processors": os.cpu_count(),
            "memory_gib": _memory(),
            "system": f"{platform.system()} {platform.machine()}",
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "packages": {name: _version(name) for name in PACKAGES},
        },
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "rounds": ROUNDS,
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    lines = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return lines[0] if lines else platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def line(area: str, result: Result) -> Line:
    """A result as a line."""
    match result:
        case Skipped(name=name, reason=reason):
            return {"area": area, "against": name, "skipped": reason}
        case Figure():
            return {
                "area": area,
                "figure": result.name,
                "unit": result.unit,
                "ours_seconds": result.seconds,
                "ours_wall": result.wall,
                "middle_half": result.spread,
                "aim_seconds": result.aim,
                "rate": result.rate,
                "met": result.met,
            }
        case Growth():
            return {
                "area": area,
                "growth": result.name,
                "size": result.size,
                "sizes": result.sizes,
                "seconds": result.seconds,
                "exponent": result.exponent,
                "limit": result.limit,
                "met": result.met,
            }
        case Row():
            return _comparison(area, result)
        case _:
            assert_never(result)


def _comparison(area: str, row: Row) -> Line:
    case, check = row.case, row.case.check
    return {
        "area": area,
        "ours": case.ours.name,
        "against": case.theirs.name,
        "clock": case.clock,
        "ratio": row.ratio,
        "middle_half": row.spread,
        "ratios": row.ratios,
        "ours_seconds": row.ours_seconds,
        "theirs_seconds": row.theirs_seconds,
        "ours_wall": row.ours_wall,
        "theirs_wall": row.theirs_wall,
        "rate": case.rate,
        "aim": case.aim,
        "met": row.met,
        "check": None if check is None else {check.name: check.value, "limit": check.limit},
    }


def read(path: Path) -> Iterator[Line]:
    """The lines of a file; one that was cut off is left out."""
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            found = json.loads(text)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def key(found: Line) -> tuple[str, str, str]:
    """By what the same result is known in two runs."""
    named = found.get("ours") or found.get("figure") or found.get("growth") or ""
    return found.get("area", ""), named, str(found.get("against") or found.get("size") or "")


def compared(old: Path, new: Path) -> Iterator[tuple[tuple[str, str, str], str, float, float]]:
    """Results of two runs side by side: which, what is compared, before and now.

    Of comparisons the ratio, which another machine changes little; else seconds, or exponents.
    """
    before = {key(each): each for each in read(old) if "area" in each}
    for each in read(new):
        other = before.get(key(each)) if "area" in each else None
        for field in ("ratio", "exponent", "ours_seconds"):
            if other is not None and field in each and field in other:
                yield key(each), field, other[field], each[field]
                break
