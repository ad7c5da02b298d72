"""What a study leaves in its directory: CSV files, tables, figures, and one HTML page with all.

Everything follows from the findings, so equal findings give equal bytes. The page needs no other
file, no script and no network. A run on synthetic people says so at the top, in the title and under
every heading.
"""

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path

from rootguard.evaluation.study.plots import Drawing, save
from rootguard.evaluation.study.rows import CsvTable, write_csv, write_text
from rootguard.evaluation.study.tables import Sheet, Strong, to_latex, to_markdown

WARNING = (
    "SYNTHETIC COHORT. These people do not exist: they were drawn from the population figures in "
    "the templates. Do not compare these figures with the paper's, and do not cite them as "
    "measured on patients."
)
NO_FIGURES = "no figures: they need matplotlib (pip install 'rootguard[eval]')"
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; background: #fff; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { margin-top: 2.2rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
.synthetic { background: #D55E00; color: #fff; font-weight: 700; padding: .8rem 1rem;
  border-radius: .3rem; margin: 1rem 0; }
.failed { border-left: .3rem solid #D55E00; padding: .2rem .8rem; background: #fff4ec; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: #555; } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .82rem; }
th, td { padding: .18rem .55rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #e4e4e4; }
th { border-bottom: 2px solid #444; } .label { text-align: left; white-space: normal; }
tbody tr:hover { background: #f3f7fb; } .note { color: #555; font-size: .85rem; }
figure { margin: 1.4rem 0; } figure img { max-width: 100%; height: auto; }
figure .narrow { width: 30rem; } figure .full { width: 100%; }
figcaption { color: #444; font-size: .88rem; }
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading with tables and figures under it: `drawings` are made, `figures` are SVG files.

    A figure in `narrow` is as wide as one column of text.
    """

    title: str
    sheets: Sequence[Sheet] = ()
    drawings: Mapping[str, Drawing] = field(default_factory=dict)
    figures: Mapping[str, Path] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)
    narrow: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """What a study found, ready to be written and shown.

    `prefix` begins the names of its tables, so that one directory can hold several studies.
    `files` are CSV files by name. With a `title` there is a page, with `facts` about the run;
    `beside` are our figures beside the paper's `subject`, None where nothing is compared.
    """

    synthetic: bool = False
    prefix: str = ""
    files: Mapping[str, CsvTable] = field(default_factory=dict)
    sections: Sequence[Section] = ()
    title: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    beside: Sequence[Sheet] | None = None
    subject: str = ""
    failures: Sequence[str] = ()
    bold_warning: bool = True
    """Whether `tables.md` has the warning in bold, as all have it but the first that was written;
    files stay as they were published."""
    shown: Sequence[Sheet] = ()
    """Tables for the terminal."""
    said: Sequence[str] = ()
    """And what is printed under them."""
    notices: Sequence[str] = ()
    """What a person should know who reads only the files or the JSON."""
    document: Mapping[str, object] = field(default_factory=dict)
    """What a program is told, beside the directory and its files."""
    lists: Sequence[str] = ()
    """Patterns of the names of the files that a program is told of."""
    failed: bool = False
    """Whether the command has to say that something is not as it should be."""


def write_findings(
    found: Findings, out: Path, step: Callable[[str], object] = lambda _: None
) -> tuple[str, ...]:
    """Write every file of a study; gives what could not be written, and why.

    `step` is told of each figure: drawing takes longest.
    """
    for name, (header, lines) in found.files.items():
        write_csv(out / name, header, lines)
    sheets = [sheet for section in found.sections for sheet in section.sheets]
    warning = [WARNING] if found.synthetic else []
    bold = [f"**{text}**" for text in warning]
    above = bold if found.bold_warning else warning
    write_text(out / f"{found.prefix}tables.md", _joined([*above, *map(to_markdown, sheets)]))
    if not found.title:
        return ()
    latex = [*(f"% {text}" for text in warning), *map(to_latex, sheets)]
    write_text(out / f"{found.prefix}tables.tex", _joined(latex))
    first: list[Section] = []
    if found.beside is not None:
        known = "".join(f"- {name}: {text}\n" for name, text in found.facts.items())
        tables = [to_markdown(sheet) for sheet in found.beside] or ["Nothing here was published."]
        heading = f"# Our figures and the paper's{found.subject and f': {found.subject}'}"
        write_text(out / f"{found.prefix}comparison.md", _joined([heading, known, *bold, *tables]))
        if found.beside:
            first.append(Section(title="Beside the paper", sheets=found.beside))
    drawn, missing = list(found.sections), False
    try:
        folder = out / "figures"
        drawn = [replace(each, figures=save(each.drawings, folder, step)) for each in drawn]
    except ImportError:
        missing = True
    page = report(
        found.title,
        found.facts,
        [*first, *drawn],
        synthetic=found.synthetic,
        failures=found.failures,
    )
    write_text(out / f"{found.prefix}report.html", page)
    return (NO_FIGURES,) if missing else ()


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(parts)


def document(found: Findings, out: Path) -> dict[str, object]:
    """What a program is told of a finished study: one JSON document."""
    body = {"out": str(out), **found.document}
    if found.lists:
        paths = (path for path in out.rglob("*") if path.is_file())
        chosen = (p for p in paths if any(fnmatch(p.name, pattern) for pattern in found.lists))
        body["files"] = sorted(path.relative_to(out).as_posix() for path in chosen)
    return body


def report(
    title: str,
    facts: Mapping[str, str],
    sections: Sequence[Section],
    *,
    synthetic: bool,
    failures: Sequence[str] = (),
) -> str:
    """The whole page. `facts` say what was run, `failures` what could not be."""
    mark = "SYNTHETIC: " if synthetic else ""
    banner = f'<p class="synthetic" role="alert">{html.escape(WARNING)}</p>' if synthetic else ""
    known = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items())
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(mark + title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>{banner}<dl>{known}</dl>",
    ]
    if failures:
        lines = "".join(f"<li>{html.escape(failure)}</li>" for failure in failures)
        parts.append(f'<div class="failed"><h2>What failed</h2><ul>{lines}</ul></div>')
    for section in sections:
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        if synthetic:
            parts.append('<p class="note"><b>Synthetic cohort.</b></p>')
        parts += [_figure(section, name) for name in section.figures]
        parts += [to_html(sheet) for sheet in section.sheets]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def to_html(sheet: Sheet) -> str:
    """A sheet as a table with a heading."""

    def row(cells: Sequence[str], tag: str) -> str:
        made = []
        for i, text in enumerate(cells):
            kind = ' class="label"' if i < sheet.labels else ""
            inner = html.escape(text)
            made.append(
                f"<{tag}{kind}>{f'<b>{inner}</b>' if isinstance(text, Strong) else inner}</{tag}>"
            )
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(row(line, "td") for line in sheet.lines)
    note = f'<p class="note">{html.escape(sheet.note)}</p>' if sheet.note else ""
    return (
        f"<h3>{html.escape(sheet.title)}</h3>"
        f'<div class="wide"><table><thead>{row(sheet.header, "th")}</thead>'
        f"<tbody>{body}</tbody></table></div>{note}"
    )


def _figure(section: Section, name: str) -> str:
    """An image of its own, so that ids inside one drawing cannot meet those of another."""
    caption = html.escape(section.captions.get(name, name.replace("_", " ")))
    data = base64.b64encode(section.figures[name].read_bytes()).decode()
    size = "narrow" if name in section.narrow else "full"
    return (
        f'<figure><img class="{size}" alt="{caption}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
