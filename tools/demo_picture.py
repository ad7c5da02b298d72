"""Draw a run of `rootguard demo` as docs/images/demo.svg: python -m tools.demo_picture FILE.

What is drawn is what that run found; run it again and the picture is another.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

WIDTH, ROW, LEFT, SCALE = 760, 62, 150, 560
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1d2733 }
.small { font-size: 11px; fill: #5b6774 } .found { fill: #b3261e } .hidden { fill: #17663a }
.line { stroke: #c9d1d9 } .truth { stroke: #1d2733; stroke-width: 2 }
.bar { fill: #2e8b57; opacity: .35 } .dot { fill: #b3261e } .paper { fill: #fff }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9aa7b4 } .found { fill: #ff8a80 } .hidden { fill: #7ddba3 }
  .line { stroke: #3d4752 } .truth { stroke: #e6edf3 } .paper { fill: #10161d }
}
"""


def picture(run: dict[str, Any]) -> str:
    """The SVG of one run, as `rootguard demo --json` prints it."""
    values, target = run["values"], run["target"]
    height = 112 + ROW * len(values)
    asked = run["questions_per_value"]
    said = f"What a hostile service knows after {asked} questions about each value"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"',
        f'aria-label="{escape(said)}: found to a decimal under independent noising, a wide range',
        'under RootGuard, and the same diagnosis">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text x="20" y="30" font-weight="600">{escape(said)}</text>',
        '<circle class="dot" cx="26" cy="50" r="5"/>',
        '<text class="found" x="38" y="54">independent noising: found</text>',
        '<rect class="bar" x="250" y="44" width="34" height="12" rx="3"/>',
        '<text class="hidden" x="292" y="54">RootGuard: anywhere in here (9 times in 10)</text>',
    ]
    for place, value in enumerate(values.values()):
        parts += _row(value, 92 + place * ROW)
    sides = ", ".join(
        f"{name} {each['value']:.3g} ({each['risk']})" for name, each in target.items()
    )
    parts += [f'<text x="20" y="{height - 14}">Diagnosis, FIB-4: {escape(sides)}</text>', "</svg>"]
    return "\n".join(parts) + "\n"


def _row(value: dict[str, Any], top: int) -> list[str]:
    truth = float(value["truth"])
    left, right = value["independent"], value["rootguard"]
    reach = 1.6 * max(right["high"] - truth, truth - right["low"])

    def at(number: float) -> float:
        share = (number - truth + reach) / (2 * reach)
        return LEFT + SCALE * float(min(max(share, 0), 1))

    low, high = at(right["low"]), at(right["high"])
    unit = escape(f"{value['title']}, {value['unit']}")
    return [
        f'<text x="20" y="{top + 16}">{unit}</text>',
        f'<text class="small" x="20" y="{top + 32}">truth {truth:g}</text>',
        f'<line class="line" x1="{LEFT}" x2="{LEFT + SCALE}" y1="{top + 14}" y2="{top + 14}"/>',
        f'<rect class="bar" x="{low:.1f}" y="{top + 4}" width="{high - low:.1f}" height="20"/>',
        f'<path class="truth" d="M{at(truth):.1f} {top}v28"/>',
        f'<circle class="dot" cx="{at(left["guess"]):.1f}" cy="{top + 14}" r="5"/>',
        f'<text class="small hidden" x="{low:.1f}" y="{top + 40}">{right["low"]:.3g}</text>',
        f'<text class="small hidden" x="{high:.1f}" y="{top + 40}" text-anchor="end">',
        f"{right['high']:.3g}</text>",
        f'<text class="small found" x="{at(truth):.1f}" y="{top - 5}" text-anchor="middle">',
        f"{left['guess']:.2f}</text>",
    ]


def main() -> None:
    """Run the demo and draw it."""
    run = [sys.executable, "-c", "from rootguard.cli.main import main; main()", "demo", "--json"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    Path(sys.argv[1]).write_text(picture(json.loads(done.stdout)), encoding="utf-8")


if __name__ == "__main__":
    main()
