"""docs/guarantees.md: each sentence names tests that hold it, and its own figures are right.

A mark is a footnote, `[^name]`; the page ends with the tests of each. Exempt are headings, code,
and the list of what is not covered: that something is not promised needs no test.
"""

import ast
import json
import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from rootguard import Guard, load_template
from rootguard.accounting import RootGuarantee
from rootguard.cli.main import cli
from rootguard.values import Domain

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")

_MARK = re.compile(r"\[\^([\w-]+)\]")
_HELD_BY = re.compile(r"^\[\^([\w-]+)\]:(.*(?:\n    .*)*)", flags=re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_EXEMPT = re.compile(r"^## Not covered\n.*?(?=^## |\Z)", flags=re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$|^    [^\n]*$", flags=re.DOTALL | re.MULTILINE)
_NEXT = re.compile(r"(?<=[.!?])((?:\[\^[\w-]+\])*)\s+")


def sentences(page: str) -> list[str]:
    """What a page claims: its sentences, an item of a list beginning a new one."""
    text = _CODE.sub("", _HELD_BY.sub("", _EXEMPT.sub("", page)))
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    blocks = re.split(r"\n\s*\n|^- ", text, flags=re.MULTILINE)
    return [
        sentence.strip()
        for block in blocks
        for sentence in _NEXT.sub(r"\1\n\n", " ".join(block.split())).split("\n\n")
        if sentence.strip()
    ]


def held_by(page: str) -> dict[str, list[tuple[str, str]]]:
    """Of each mark the tests: file and name."""
    return {mark: _TEST.findall(listed) for mark, listed in _HELD_BY.findall(page)}


@cache
def defined_in(path: str) -> frozenset[str]:
    """The tests of a file, of its classes too."""
    if not (ROOT / path).is_file():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.name.startswith("test_")
    )


def faults(page: str) -> list[str]:
    """What is wrong with a page: sentences nobody holds, marks and tests that there are not."""
    claims, listed = sentences(page), held_by(page)
    used = [mark for claim in claims for mark in _MARK.findall(claim)]
    return [
        *(f"no mark: {claim}" for claim in claims if not _MARK.search(claim)),
        *(f"no such mark: {mark}" for mark in used if mark not in listed),
        *(f"not used: {mark}" for mark in listed if mark not in used),
        *(f"no test: {mark}" for mark, tests in listed.items() if not tests),
        *(
            f"no such test: {path}::{name}"
            for tests in listed.values()
            for path, name in tests
            if name not in defined_in(path)
        ),
    ]


def test_every_sentence_names_the_tests_that_hold_it() -> None:
    assert len(sentences(PAGE)) > 60  # the page was read
    assert faults(PAGE) == []


def test_a_sentence_that_nothing_holds_would_be_noticed() -> None:
    here = "`tests/test_guarantees.py::test_every_sentence_names_the_tests_that_hold_it`"
    page = f"""# A page

Held.[^one] Not held. Held, over
two lines.[^one][^two] Is it? It has a formula,[^one]

    a = b. C

- An item
- another one.[^three]

## Not covered

- This. And that.

## More

Held again.[^one]

[^one]: {here}
[^two]: `tests/test_guarantees.py::test_nothing`,
    `tests/test_nowhere.py::test_every_sentence_names_the_tests_that_hold_it`
[^four]: a test
"""
    assert faults(page) == [
        "no mark: Not held.",
        "no mark: Is it?",
        "no mark: An item",
        "no such mark: three",
        "not used: four",
        "no test: four",
        "no such test: tests/test_guarantees.py::test_nothing",
        "no such test: tests/test_nowhere.py::test_every_sentence_names_the_tests_that_hold_it",
    ]


def test_the_example_of_the_unit_is_right() -> None:
    ages = Domain(lower=18, upper=80, size=1000)
    assert round(ages.step, 3) == 0.062
    assert round(1.8 / ages.step) == 29


def test_sessions_and_plans_print_what_is_hidden_of_each_root() -> None:
    template, me = load_template("fib4"), {"age": 54, "ast": 23, "alt": 30, "plt": 220}
    promised = Guard.open(template, values=me, budget="0.9").guarantee()
    planned = CliRunner().invoke(cli, ["plan", "fib4", "--budget", "0.9"]).output
    told = json.loads(CliRunner().invoke(cli, ["plan", "fib4", "--budget", "0.9", "--json"]).output)
    for root in promised.roots:
        said = f"advantage at most 1/2 within {root.hidden_within:.3g}"
        assert said in str(promised)
        assert said in " ".join(planned.split())
        assert told["guarantee"]["roots"][root.root]["hidden_within"] == root.hidden_within


@pytest.mark.parametrize(("draws", "said"), [(1, "(geometric)"), (3, "noised 3 times")])
def test_a_root_says_how_often_it_was_noised(draws: int, said: str) -> None:
    root = RootGuarantee(
        root="x", unit="", epsilon=Fraction(1), step=1.0, mechanism="geometric", draws=draws
    )
    assert said in str(root)
