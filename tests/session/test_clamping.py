"""The warning of a value outside its bounds: to the owner, each time, by root, without a value.

In processes of their own: pytest sets filters and records warnings, and the fault was in what
Python's own filter hides and Python's own printing shows.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import rootguard
from rootguard import Guard, MemoryStore, Person, load_template
from rootguard.errors import ClampedWarning
from rootguard.session.profile import parse_profile
from rootguard.values import Principal
from tests.support.canary import everything

FIB4 = load_template("fib4")
OUTSIDE = 91827.364519
DIGITS = "91827"
OPENING = """
from rootguard import Guard, MemoryStore, load_template
store = MemoryStore()
for who in ("ann", "bob"):
    Guard.open(load_template("fib4"), values={"age": 50, "ast": 91827.364519, "alt": 91827.5, "plt": 200}, budget=1, store=store, principal=who)
"""  # noqa: E501 - one line of source, as it is shown
SIGHTING = """
from rootguard import MemoryStore, Person
from rootguard.session.profile import parse_profile
for who in ("ann", "bob"):
    profile = parse_profile(f'templates = ["fib4"]\\nbudget = 1\\nprincipal = "{who}"', file="x")
    person = Person.open(profile, store=MemoryStore())
    person.sight("ast", 91827.364519)  # a comment in the line of the call
"""
LOGGING = "import logging\nlogging.basicConfig()\nlogging.captureWarnings(True)\n"
# As -X tracemalloc=20, but not while the package is loaded, which would take ten seconds.
TRACING = """
from rootguard import Guard, MemoryStore, Person, load_template
from rootguard.session.profile import parse_profile
load_template("fib4")
import tracemalloc
tracemalloc.start(20)
"""
TEXT = "outside the template's public bounds, taken as the nearest bound: "


def run(tmp_path: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "script.py"
    file.write_text(script)
    # A file of the name that the warning gives, and one like it, which must not be read either.
    (tmp_path / "<rootguard>").write_text("number = 91827.364519\n" * 3)
    (tmp_path / "rootguard.txt").write_text("number = 91827.364519\n" * 3)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONWARNINGS"}
    environment["PYTHONPATH"] = str(Path(rootguard.__file__).parents[1])
    return subprocess.run(
        [sys.executable, *options, str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize(("before", "options"), [("", ()), (TRACING, ()), ("", ("-X", "dev"))])
def test_each_person_is_warned_by_root_without_the_line_that_called(
    before: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    done = run(tmp_path, before + OPENING + SIGHTING, *options)
    assert done.returncode == 0
    warnings = [line for line in done.stderr.splitlines() if "ResourceWarning" not in line]
    opened, sighted = (f"<rootguard>:0: ClampedWarning: {TEXT}{it}" for it in ("ast, alt", "ast"))
    assert warnings == [opened, opened, sighted, sighted]
    assert DIGITS not in done.stdout + done.stderr


def test_a_captured_warning_is_logged_each_time_without_the_line_that_called(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, LOGGING + OPENING + SIGHTING)
    assert done.returncode == 0
    assert done.stderr.count("WARNING:py.warnings:<rootguard>:0: ClampedWarning") == 4
    assert DIGITS not in done.stderr
    assert "Guard.open" not in done.stderr
    assert "person.sight" not in done.stderr


@pytest.mark.parametrize(
    "option", ["ignore", "ignore::UserWarning", "ignore:::rootguard", "ignore:outside the"]
)
def test_who_wants_no_warning_gets_none(option: str, tmp_path: Path) -> None:
    done = run(tmp_path, OPENING + SIGHTING, "-W", option)
    assert (done.returncode, done.stderr) == (0, "")


def test_as_an_error_it_ends_the_program_and_its_own_text_has_no_value(tmp_path: Path) -> None:
    # Python shows lines of the callers in any traceback; this script has the value in none of them.
    script = SIGHTING.replace('"ast", 91827.364519', '"ast", float(open("number.txt").read())')
    (tmp_path / "number.txt").write_text("91827.364519")
    done = run(tmp_path, script, "-W", "error")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"rootguard.errors.ClampedWarning: {TEXT}ast"
    assert DIGITS not in done.stdout + done.stderr


# pytest is told to make errors of warnings (see pyproject.toml), as `python -W error` is.
def test_an_opening_that_is_refused_by_its_warning_draws_and_charges_nothing() -> None:
    store = MemoryStore()
    values = {"age": 50, "ast": OUTSIDE, "alt": 30, "plt": 200}
    with pytest.raises(ClampedWarning) as caught:
        Guard.open(FIB4, values=values, budget=1, store=store)
    assert caught.value.roots == ("ast",)
    assert DIGITS not in everything(caught.value)
    assert store.events(Principal("owner")) == ()


def test_a_sight_that_is_refused_by_its_warning_draws_and_charges_nothing() -> None:
    store = MemoryStore()
    profile = parse_profile('templates = ["fib4"]\nbudget = 1', file="x.toml")
    person = Person.open(profile, store=store)
    with pytest.raises(ClampedWarning) as caught:
        person.sight("ast", OUTSIDE)
    assert DIGITS not in everything(caught.value)
    assert store.events(person.principal) == ()
    assert not person.known("ast")
    person.sight("ast", 30)
    assert person.known("ast")


def test_a_notice_that_raises_leaves_nothing_drawn() -> None:
    store = MemoryStore()

    def notice(roots: tuple[str, ...]) -> None:
        raise KeyboardInterrupt

    values = {"age": 50, "ast": OUTSIDE, "alt": 30, "plt": 200}
    with pytest.raises(KeyboardInterrupt):
        Guard.open(FIB4, values=values, budget=1, store=store, on_clamp=notice)
    assert store.events(Principal("owner")) == ()


def test_a_warning_is_copied_with_its_roots() -> None:
    again = pickle.loads(pickle.dumps(ClampedWarning(("ast", "alt"))))
    assert (str(again), again.roots) == (TEXT + "ast, alt", ("ast", "alt"))
