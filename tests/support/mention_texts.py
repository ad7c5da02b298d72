"""Texts with values of roots in them, and how they are read.

The spelled values of `spelled_mentions.toml`, alone and beside each other: what a reader makes of
one often depends on what stands next to it. How each is read stands in `mentions.txt`, so that a
change of the readers shows as a change of that file: `python -m tests.support.mention_texts` writes
it anew. `[ast 23>182.5]` is a value of a root, in its own unit, with what is written in its place;
`{2023}` a number of nobody, `{!50}` one beside a private word.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from rootguard.channels.text.mentions import find_mentions, write
from rootguard.channels.text.unplaced import unbound_numbers
from rootguard.template import Root, load_template
from rootguard.values import RootName

FOLDER = Path(__file__).parents[1] / "data"
RECORD = FOLDER / "mentions.txt"
SPELLED = [
    (template, text, expected)
    for template, rows in tomllib.loads(
        (FOLDER / "spelled_mentions.toml").read_text("utf-8")
    ).items()
    for text, expected in rows.items()
]
"""Template, text, and what is found in it: "root=number" in the root's own unit."""
ALL: dict[RootName, Root] = {
    name: root
    for template in (
        *("fib4", "homa", "nlr", "tyg", "aip", "anemia", "conicity", "vascular", "bmi"),
        *("debt_to_income", "loan_payment", "egfr", "qtc"),
    )
    for name, root in load_template(template).roots.items()
}
_BESIDE = ("{0}, {1}", "{0}. {1}", "{1}\n{0}", "{0} ({1})", "{1} and {0}", "my {0} / {1}")


def released_of(root: Root) -> float:
    """A grid point that nobody would write."""
    return root.domain.value(root.domain.size * 2 // 3)


def texts() -> Iterator[str]:
    """The spelled values, each alone, in capitals and beside the next in some way."""
    every = [text for _, text, _ in SPELLED]
    for place, text in enumerate(every):
        yield text
        yield text.upper()
        for step in (1, 2, 3):
            yield _BESIDE[(place + step) % len(_BESIDE)].format(text, every[place - step])


def read_as(text: str) -> str:
    """A text with its values and its other numbers marked."""
    mentions = find_mentions(text, ALL)
    marks = [
        (m.start, m.end, f"[{m.root} {m.number:.6g}>{write(m, released_of(ALL[m.root]))}]")
        for m in mentions
    ]
    taken = [(m.start, m.end) for m in mentions]
    for start, end, private in unbound_numbers(text, taken, ALL):
        marks.append((start, end, f"{{{'!' * private}{text[start:end]}}}"))
    for start, end, mark in sorted(marks, reverse=True):
        text = text[:start] + mark + text[end:]
    return text.replace("\n", "\\n")


if __name__ == "__main__":
    RECORD.write_text("".join(f"{read_as(text)}\n" for text in texts()), "utf-8")
