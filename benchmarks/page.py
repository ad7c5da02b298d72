"""docs/speed.md from a file of results: `python -m benchmarks.page`.

Every number of the page comes from the file; the sentences here have none. A test writes the page
again and compares.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import records
from benchmarks.records import Line

RESULTS = Path(__file__).parent / "speed.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "speed.md"

_ABOUT = """\
Each figure is measured beside a named alternative, in the same run and in turns. A *ratio* is the
alternative's time divided by RootGuard's: above one, RootGuard is faster. It is the median over
several rounds, with the middle half of the rounds in brackets. An *aim* is a limit that the project
has set for itself; a figure without one is only reported.

Times are processor time, which other work on the machine changes less than the time by the clock
("wall"). On a busy machine processor time grows as well, so the ratios say more than the times.

`python -m benchmarks --out FILE` measures everything and writes each result as it comes. `--only
start,tables,growth` measures some areas, and `--compare OLD` shows two runs side by side. This page
is written by `python -m benchmarks.page` from the results in `benchmarks/speed.jsonl`; do not edit
it. An area that no run has measured yet is missing."""
_AREAS = {
    "start": (
        "The start",
        """\
How long the command line takes to start. It loads only what a call needs: to list the commands or
to complete their names it imports no command, and a command imports the library when it runs.""",
    ),
    "noise": (
        "One secure draw",
        "A draw from a grid of the default size, compared with NumPy's random choice by weights.",
    ),
    "peers": ("Other libraries' draws", "They are called from Python as their documentation says."),
    "seeded": (
        "Seeded draws",
        "These are for experiments only: no code that releases a value can import them.",
    ),
    "answers": ("A session's answers", "The values are in memory."),
    "vault": (
        "Releases from a vault",
        """\
A release first checks whether the person was erased, so it includes a `SELECT` of its own. Every
row that is read is decrypted and checked.""",
    ),
    "planning": (
        "The optimal plan",
        "It is compared with a general solver (SLSQP of SciPy), whose plan is never better.",
    ),
    "calibration": ("Calibrated releases", "Compared with a plain loop over joint posteriors."),
    "evaluation": (
        "The utility study",
        "Per patient and cell, compared with a loop over patients.",
    ),
    "reconstruction": (
        "The reconstruction study",
        "Compared with computing a likelihood for each person.",
    ),
    "formulas": (
        "Formulas",
        "A formula over a million rows, compared with the same in NumPy, written by hand.",
    ),
    "tables": (
        "Tables",
        """\
Compared with reading and writing the same table unchanged. People known by name are in a vault.
They are looked up and committed in groups, but each of their rows is decrypted and checked by
itself, which takes most of the time.""",
    ),
    "studies": (
        "Studies",
        """\
Scripted sessions of the agent study call the server's tools directly, without a connection.
Sessions with a model use one.""",
    ),
    "text": (
        "The text channel",
        "Compared with what any proxy does with the same text, and with other detectors.",
    ),
    "mcp": ("MCP", "A server of guarded values over standard input and output."),
    "batch": ("Long tables", "Each in a process of its own, with its peak memory."),
    "spark": ("Spark", "One executor on each core."),
    "gateway": (
        "The gateway",
        """\
Compared with itself without sanitizing, and with a proxy that guards nothing. Processor time is
that of the server's processes, per request. Throughput and latency are by the clock, with callers,
upstream and server on one machine.""",
    ),
    "growth": (
        "Growth",
        """\
Each thing that can become large is made larger by itself. The exponent says how the time grows with
it: at zero not at all, at one in proportion.""",
    ),
}


def page(lines: Sequence[Line]) -> str:
    """The whole page."""
    parts = ["# Speed", _ABOUT, *(_machine(*run) for run in _runs(lines)), *_aims(lines)]
    for area, (title, text) in _AREAS.items():
        results = [each for each in lines if each.get("area") == area]
        if results:
            parts += [f"## {title}", text, *_tables(results)]
    return "\n\n".join(parts) + "\n"


def _runs(lines: Sequence[Line]) -> list[tuple[Line, list[str]]]:
    """Where and when each run was, and the titles of what it measured."""
    runs: list[tuple[Line, list[str]]] = []
    for each in lines:
        if "machine" in each:
            runs.append((each, []))
        elif runs and (title := _AREAS.get(each.get("area", ""), ("",))[0]):
            runs[-1][1].append(title)
    return [(about, list(dict.fromkeys(titles))) for about, titles in runs if titles]


def _aims(lines: Sequence[Line]) -> Iterator[str]:
    """How many aims hold, and which are missed."""
    judged = [each for each in lines if each.get("area") in _AREAS and each.get("met") is not None]
    if not judged:
        return
    missed = [each for each in judged if not each["met"]]
    said = f"**Aims**: {len(judged) - len(missed)} of {len(judged)} hold."
    if missed:
        said += " Missed: " + "; ".join(f"{_titled(each)} ({_reached(each)})" for each in missed)
        said += "."
    yield said


def _titled(found: Line) -> str:
    _, name, beside = records.key(found)
    return f"{name} beside {beside}" if "ratio" in found else name


def _reached(found: Line) -> str:
    if "ratio" in found:
        return f"{_figure(found['ratio'])}, aim {_figure(found['aim'])}"
    if "growth" in found:
        return f"exponent {found['exponent']:.2f} with {found['size']}, limit {found['limit']:g}"
    return f"{_taken(found['ours_seconds'], rate=found['rate'])}, aim {_aim(found)}"


def _machine(found: Line, titles: Sequence[str]) -> str:
    machine = found["machine"]
    packages = [f"{name} {number}" for name, number in machine["packages"].items() if number]
    missing = [name for name, number in machine["packages"].items() if not number]
    said = (
        f"**{', '.join(titles)}**. Measured on {found['date']}: "
        f"{machine['processor']}, {machine['processors']} processors, "
        f"{machine['memory_gib']} GiB, {machine['system']}, {machine['python']}, "
        f"{', '.join(packages)}; {found['rounds']} rounds at most; the machine's load was "
        f"{found['load']} when it began."
    )
    return said + (f" Not installed: {', '.join(missing)}." if missing else "")


def _tables(results: Sequence[Line]) -> Iterator[str]:
    rows: list[tuple[str, ...]]
    compared = [each for each in results if "ratio" in each]
    if compared:
        rows = [
            (
                each["ours"],
                each["against"],
                f"{_figure(each['ratio'])} ({_span(each['middle_half'])})",
                _taken(each["ours_seconds"], rate=each["rate"]),
                "" if each["aim"] is None else f"≥ {_figure(each['aim'])}",
                _met(each),
            )
            for each in compared
        ]
        yield _table(("what", "against", "ratio", "ours", "aim", "verdict"), rows)
    figures = [each for each in results if "figure" in each]
    if figures:
        rows = [
            (
                each["figure"],
                each["unit"],
                _taken(each["ours_seconds"], rate=each["rate"]),
                _ends(each),
                _taken(each["ours_wall"], rate=each["rate"]),
                "" if each["aim_seconds"] is None else _aim(each),
                _met(each),
            )
            for each in figures
        ]
        header = ("what", "per", "processor", "middle half", "wall", "aim", "verdict")
        yield _table(header, rows)
    grown = [each for each in results if "growth" in each]
    if grown:
        rows = [
            (
                each["growth"],
                each["size"],
                f"{each['sizes'][0]:,}: {_time(each['seconds'][0])}",
                f"{each['sizes'][-1]:,}: {_time(each['seconds'][-1])}",
                f"{each['exponent']:.2f}",
                f"{each['limit']:g}",
                _met(each),
            )
            for each in grown
        ]
        yield _table(("what", "grows with", "from", "to", "exponent", "limit", "verdict"), rows)
    left_out = [f"{each['against']}: {each['skipped']}" for each in results if "skipped" in each]
    if left_out:
        yield f"Left out: {'; '.join(left_out)}."


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _met(found: Line) -> str:
    return {None: "", True: "holds", False: "missed"}[found["met"]]


def _ends(found: Line) -> str:
    ends = sorted(found["middle_half"], reverse=found["rate"])
    return " to ".join(_taken(end, rate=found["rate"]) for end in ends)


def _aim(found: Line) -> str:
    sign = "≥" if found["rate"] else "≤"
    return f"{sign} {_taken(found['aim_seconds'], rate=found['rate'])}"


def _span(ends: Sequence[float]) -> str:
    return " to ".join(map(_figure, ends))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.3g}"


def _taken(seconds: float, *, rate: bool) -> str:
    if not rate:
        return _time(seconds)
    each = 1 / seconds
    return f"{each:,.0f} / s" if each < 10_000 else f"{float(f'{each:.2g}'):,.0f} / s"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def main() -> None:
    """Write the page."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    PAGE.write_text(page(list(records.read(source))), encoding="utf-8")


if __name__ == "__main__":
    main()
