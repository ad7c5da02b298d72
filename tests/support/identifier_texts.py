"""Short texts with identifiers, and what the rules find in them.

`identifiers.txt` has one on each line: `⟦code 4415⟧` is a find with its kind, `⟦person? Iris⟧` one
that is not sure. Beside `finds.txt`, which has whole sentences, each of these is as short as its
rule allows. A phone number is marked only behind a word for one: of others the installed library
decides. `python -m tests.support.identifier_texts` writes it anew, for another look.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rootguard.channels.detection import Rules
from rootguard.channels.detection.rules import FOUND_KINDS

RECORD: Final = Path(__file__).parents[1] / "data" / "identifiers.txt"
_RULES = Rules(kinds=FOUND_KINDS)
_MARK = re.compile(r"⟦\S+ ([^⟦⟧]*)⟧")
_PHONE = re.compile(r"phone|Tel|call|cell")


def lines() -> Iterator[str]:
    """The marked texts."""
    for line in RECORD.read_text("utf-8").splitlines():
        if line and not line.startswith("# "):
            yield line


def unmarked(line: str) -> str:
    """A text as it is written."""
    return _MARK.sub(lambda mark: mark[1], line)


def marked(line: str) -> str:
    """A text with what is found in it marked."""
    text = unmarked(line).replace("\\n", "\n").replace("\\t", "\t")
    for find in reversed(_RULES.find(text)):
        if find.kind == "phone" and _PHONE.search(text) is None:
            continue
        kind = find.kind if find.sure else f"{find.kind}?"
        text = f"{text[: find.start]}⟦{kind} {text[find.start : find.end]}⟧{text[find.end :]}"
    return text.replace("\n", "\\n").replace("\t", "\\t")


if __name__ == "__main__":
    found = [
        line if not line or line.startswith("# ") else marked(line)
        for line in RECORD.read_text("utf-8").splitlines()
    ]
    RECORD.write_text("".join(f"{line}\n" for line in found), "utf-8")
