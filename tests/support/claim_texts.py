"""Short conversations, and what the reader claims of each number in them.

`claims.txt` has one on each line, its turns parted by "¶" and begun with their source unless that
is the owner; "\\n" is a new line. `⟦…⟧` is a number that does not leave as it is, `⟨…⟩` one that
does:

    ⟦ast 23⟧  the owner's          ⟦ast? 23⟧   likely the owner's, as it was spoken of
    ⟦? 23⟧    one of several       ⟦! 23⟧      perhaps private
    ⟦= 23⟧    part of a formula    ⟦=bmi 23⟧   what a formula yields
    ⟨~ 23⟩    another person's     ⟨count 23⟩  nobody's, and why

Another reason stands behind a colon: `⟦ast:asked 23⟧`. Every line was read by a person; where a
change of the reader changes what is right, `python -m tests.support.claim_texts` writes the marks
anew, for another look.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

from rootguard.reading.claims import Claim, Dialogue, Source, decide, read_claims
from rootguard.reading.page import read_page
from rootguard.template import load_template
from rootguard.values import RootName

RECORD: Final = Path(__file__).parents[1] / "data" / "claims.txt"
OWNER: Final = "Jane Roe"
_TEMPLATES = [
    load_template(name)
    for name in (*("fib4", "homa", "eag", "aip", "bmi", "map", "debt_to_income", "emergency_fund"),)
]
_ROOTS = {name: root for each in _TEMPLATES for name, root in each.roots.items()}
_FORMULAS = tuple((each.name, tuple(each.roots)) for each in _TEMPLATES)
_TURN = re.compile(rf"({'|'.join(get_args(Source))})(?:\(([\w,]*)\))?: ")
_MARK = re.compile(r"⟦\S+ ([^⟦⟧]*)⟧|⟨\S+ ([^⟨⟩]*)⟩")
_USUAL = {"owner": "named", "likely": "spoken_of", "open": "private_word"}


def lines() -> Iterator[str]:
    """The marked conversations."""
    for line in RECORD.read_text("utf-8").splitlines():
        if line and not line.startswith("# "):
            yield line


def unmarked(line: str) -> str:
    """A conversation as it is written."""
    return _MARK.sub(lambda mark: mark[1] or mark[2], line)


def marked(line: str) -> str:
    """A conversation with its numbers marked as they are read."""
    dialogue = Dialogue()
    return " ¶ ".join(_turn(each, dialogue) for each in unmarked(line).split(" ¶ "))


def _turn(turn: str, dialogue: Dialogue) -> str:
    opened = _TURN.match(turn)
    source: Source = "owner"
    call = ""
    if opened is not None:
        source = next(each for each in get_args(Source) if each == opened[1])
        call = opened[2] or ""
        roots = [RootName(name) for name in call.split(",") if name in _ROOTS]
        dialogue.called(call, roots, worked=call == "worked")
    head = opened[0] if opened is not None else ""
    text = turn.removeprefix(head).replace("\\n", "\n").replace("\\t", "\t")
    expectation = dialogue.expectation(source, call)
    context = f"{expectation.header}\n" if expectation.header else ""
    named = text.find(OWNER)
    at = named + len(context)
    reading = read_claims(
        read_page(context + text, _ROOTS, _FORMULAS),
        source=source,
        taken=[(at, at + len(OWNER))] if named >= 0 else (),
        owner_names=[OWNER] if named >= 0 else (),
        expectation=expectation,
        begin=len(context),
    )
    dialogue.heard(source, reading.heard)
    for claim in sorted(reading.claims, key=lambda claim: claim.start, reverse=True):
        start, end = claim.start - len(context), claim.end - len(context)
        kept = decide(source, claim, known=True) == "keep"
        mark = f"{_label(claim)} {text[start:end]}"
        text = f"{text[:start]}{f'⟨{mark}⟩' if kept else f'⟦{mark}⟧'}{text[end:]}"
    return head + text.replace("\n", "\\n").replace("\t", "\\t")


def _label(claim: Claim) -> str:
    if claim.standing == "nobody":
        return claim.reason
    if claim.standing == "other":
        return "~"
    usual = _USUAL[claim.standing]
    if claim.reason == "formula":
        return f"={claim.computed or claim.root or ''}"
    if claim.standing == "likely" and claim.root is None:
        usual = "one_of_several"
    sign = {"owner": "", "likely": "?", "open": "!"}[claim.standing]
    return f"{claim.root or ''}{sign}" + (f":{claim.reason}" if claim.reason != usual else "")


if __name__ == "__main__":
    found = [
        line if not line or line.startswith("# ") else marked(line)
        for line in RECORD.read_text("utf-8").splitlines()
    ]
    RECORD.write_text("".join(f"{line}\n" for line in found), "utf-8")
