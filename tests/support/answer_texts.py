"""Texts with answers that are no numbers, where they stand, what they say and what is written back.

`answers.txt` has one on each line. `⟦smoker=no never⟧` is an answer of a root: what it says in the
root's own form, "?" if nothing is learnt from it, and how it is written. Behind the arrow stands
what leaves if all of them are released: yes, the last of a few words, or 2 January 1991; where
none can be written, the hole. "model: " begins what a model wrote, "smoker? " what was asked
before. `python -m tests.support.answer_texts` writes it anew, for another look.
"""

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Final

from rootguard.channels.text.channel import reader_of_answers
from rootguard.reading.claims import Source
from rootguard.reading.page import read_page
from rootguard.template import load_template, parse_template
from rootguard.values import EPOCH, RootName
from tests.support.typed_templates import typed_template

RECORD: Final = Path(__file__).parents[1] / "data" / "answers.txt"
_TARGET = """
[target]
name = "score"
formula = '(3 if region == "far west" else 0) + pain + (1 if job == "shop" else 0) + born / 365'
"""
_TEMPLATES = (
    load_template("ascvd"),
    load_template("due_date"),
    parse_template(typed_template(_TARGET, ("region", "pain", "job", "born")), file="visit.toml"),
)
_ROOTS = {name: root for each in _TEMPLATES for name, root in each.roots.items()}
_MARK = re.compile(r"⟦\S+ ([^⟦⟧]*)⟧")
_ASKED = re.compile(r"(\w+)\? (?=\S)")
_RELEASED: Final = float((date(1991, 1, 2) - EPOCH).days)
_ARROW: Final = " → "


def lines() -> Iterator[str]:
    """The marked texts."""
    for line in RECORD.read_text("utf-8").splitlines():
        if line and not line.startswith("# "):
            yield line


def unmarked(line: str) -> str:
    """A text as it is written."""
    return _MARK.sub(lambda mark: mark[1], line.partition(_ARROW)[0])


def marked(line: str) -> str:
    """A text with its answers marked, and what may leave in its place."""
    written = unmarked(line)
    head = "model: " if written.startswith("model: ") else ""
    source: Source = "model" if head else "owner"
    asked = _ASKED.match(written) if not head else None
    if asked is not None and asked[1] in _ROOTS:
        head = asked[0]
    text = written.removeprefix(head).replace("\\n", "\n").replace("\\t", "\t")
    page = read_page(text, _ROOTS)
    reader = reader_of_answers(page, tuple(_ROOTS.values()), _TEMPLATES, source)
    assert reader is not None
    told = left = text
    roots = [RootName(asked[1])] if asked is not None and asked[1] in _ROOTS else []
    for answer in reversed(reader.read(roots)):
        start, end = page.folded.span(answer.start, answer.end)
        name = answer.computed or answer.root
        said = (answer.said or "?").replace(" ", "_")
        told = f"{told[:start]}⟦{name}={said} {told[start:end]}⟧{told[end:]}"
        new = answer.hole
        if answer.write is not None:
            kind = (_TEMPLATES[1].target if answer.computed else _ROOTS[answer.root]).type
            last = {"boolean": 1.0, "category": len(kind.answers) - 1.0}
            number = last.get(kind.name, _RELEASED)
            new = answer.write(kind, number)
        left = f"{left[:start]}{new}{left[end:]}"
    asks = ", ".join(reader.asks())
    shown = [head + told, left if left != text else "", f"asks {asks}" if asks else ""]
    return _ARROW.join(filter(None, shown)).replace("\n", "\\n").replace("\t", "\\t")


if __name__ == "__main__":
    found = [
        line if not line or line.startswith("# ") else marked(line)
        for line in RECORD.read_text("utf-8").splitlines()
    ]
    RECORD.write_text("".join(f"{line}\n" for line in found), "utf-8")
