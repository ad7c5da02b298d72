"""One HTML page with every table and figure in it: no other file, no script, no network.

A run on synthetic people says so at the top, in the title and under every heading.
"""

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rootguard.evaluation.study.tables import Sheet, Strong

WARNING = (
    "SYNTHETIC COHORT. These people do not exist: they were drawn from the population figures in "
    "the templates. Do not compare these figures with the paper's, and do not cite them as "
    "measured on patients."
)
CAPTIONS: Mapping[str, str] = {
    "double_asymmetry": "Double asymmetry: with more turns the guarded releases get better, while "
    "independent noising stays where it was. Bars: one standard error.",
    "privacy_utility": "Privacy against utility: error of the target over epsilon, per mechanism.",
    "per_template": "Each template's error over epsilon, largest first. Each panel has its own "
    "vertical scale.",
    "calibrated": "Calibration: the error of the target with and without it. Dashed: everybody is "
    "answered with the population's median, which needs no release.",
    "sensitivity": "Who is found: of the patients truly in the highest risk class, those whose "
    "released target is in it.",
    "power_law": "Power law: a root's share of the budget grows with the square root of |h|·D. "
    "Both are over the template's geometric mean; roots at the least epsilon are left out.",
    "budget_bars": "Where the budget goes under the optimal plan: root and percent. Parts under "
    "9 % are not labelled.",
}
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
    """A heading with tables and figures (names and paths of SVG files) under it."""

    title: str
    sheets: Sequence[Sheet] = ()
    figures: Mapping[str, Path] | None = None


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
        parts += [_figure(name, path) for name, path in (section.figures or {}).items()]
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


def _figure(name: str, path: Path) -> str:
    """An image of its own, so that ids inside one drawing cannot meet those of another."""
    caption = html.escape(CAPTIONS.get(name, name.replace("_", " ")))
    data = base64.b64encode(path.read_bytes()).decode()
    size = "narrow" if name == "double_asymmetry" else "full"
    return (
        f'<figure><img class="{size}" alt="{caption}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
