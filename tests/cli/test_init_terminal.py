"""`rootguard init` at a terminal: it asks again, draws nothing until confirmed, and forgives."""

import json
import os
import pty
import select
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from rootguard import Guard, open_store
from rootguard.cli.main import cli
from rootguard.errors import PrivateValueError
from rootguard.session import Person, load_profile
from rootguard.values import Principal
from tests.support.patience import PATIENCE
from tests.support.programs import PYTHON

OWNER = Principal("owner")
Dialogue = list[tuple[str, str]]


def at_a_terminal(folder: Path, dialogue: Dialogue, *arguments: str) -> tuple[int, str]:
    """Run init on a pseudo-terminal."""
    return typed_into(folder, dialogue, "init", "--out", str(folder / "me.toml"), *arguments)


def typed_into(folder: Path, dialogue: Dialogue, *arguments: str) -> tuple[int, str]:
    """Run a command on a pseudo-terminal: wait for each prompt, then type the answer to it.

    What was typed ahead would be thrown away when the program stops the echo.
    """
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "ROOTGUARD_STORE": f"sqlite:///{folder}/vault.db",
        "COLUMNS": "100",
        "TERM": "dumb",
    }
    code = "from rootguard.cli.main import main; main()"
    running = subprocess.Popen(
        [*PYTHON, "-c", code, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    seen, place = "", 0
    steps = iter([*dialogue, ("", "")])
    wanted, answer = next(steps)
    while True:
        ready, _, _ = select.select([ours], [], [], PATIENCE)
        assert ready, f"waited for {wanted!r} after: {seen[place:]}"
        try:
            part = os.read(ours, 65536)
        except OSError:  # the program has ended and nobody holds the other side
            break
        if not part:
            break
        seen += part.decode(errors="replace").replace("\r\n", "\n")
        while wanted and wanted in seen[place:]:
            place += seen[place:].index(wanted) + len(wanted)
            os.write(ours, f"{answer}\n".encode())
            wanted, answer = next(steps)
    os.close(ours)
    return running.wait(timeout=PATIENCE), seen


def spent(folder: Path) -> float:
    store = open_store(f"sqlite:///{folder}/vault.db")
    return float(store.ledger(OWNER).total)


GOALS: Dialogue = [
    ("Hide Weight within kg", ""),
    ("Hide Height within m", ""),
]
NAMES: Dialogue = [("name:", "Jane Roe"), ("email:", ""), ("phone:", ""), ("record:", "")]
SLIPS: Dialogue = [
    ("Which of them?", "bmj"),  # 1
    ("Which of them?", "bmi"),
    ("Hide Weight within kg", "lots"),  # 2
    ("Hide Weight within kg", "4000"),  # 3
    ("Hide Weight within kg", "-1"),  # 4
    ("Hide Weight within kg", ""),
    ("Hide Height within m", "2"),  # 5
    ("Hide Height within m", "0.02"),
    ("Weight in kg:", "8O"),  # 6
    ("Weight in kg:", "803.25"),  # 7
    ("Weight in kg:", "80.25"),
    ("Height in m:", "178"),  # 8
    ("Height in m:", "1,78"),  # 9
    ("Height in m:", "1.78"),
    ("name:", "12"),  # 10
    ("name:", "Jane Roe"),
    ("email:", "jane"),  # 11
    ("email:", "jane@example.org"),
    ("phone:", "12"),  # 12
    ("phone:", "+1 555 010 9988"),
    ("record:", ""),
    ("Press Enter to noise", "stop"),
]


def test_twelve_slips_are_asked_again_and_nothing_is_charged(tmp_path: Path) -> None:
    code, seen = at_a_terminal(tmp_path, SLIPS)
    assert code == 130, seen
    assert not (tmp_path / "me.toml").exists()
    assert not (tmp_path / "vault.db").exists()
    for typed in ("80.25", "803.25", "178", "1.78", "1,78", "8O"):
        assert typed not in seen
    assert seen.count("not a number") == 2
    assert seen.count("type it again") == 2
    assert seen.count("That cannot be right") == 3
    assert "given; in the usual range" in seen

    code, seen = at_a_terminal(tmp_path, [*SLIPS[:-1], ("Press Enter to noise", "")])
    assert code == 0, seen
    person = Person.open(
        load_profile(tmp_path / "me.toml"), store=open_store(f"sqlite:///{tmp_path}/vault.db")
    )
    assert person.known("wt")
    draws = open_store(f"sqlite:///{tmp_path}/vault.db").ledger(OWNER).draws
    assert draws == {"wt": 1, "ht": 1}


def test_a_correction_in_the_summary_and_one_before_release_cost_nothing(tmp_path: Path) -> None:
    dialogue = [
        *GOALS,
        ("Weight in kg:", "120"),
        ("Height in m:", "1.78"),
        *NAMES,
        ("Press Enter to noise", "nonsense"),
        ("Nothing in the table", ""),
    ]
    first = [*dialogue[:-1], ("Press Enter to noise", "weight"), ("Weight in kg:", "81")]
    code, seen = at_a_terminal(
        tmp_path, [*first, ("Press Enter to noise", "")], "--template", "bmi"
    )
    assert code == 0, seen
    paid = spent(tmp_path)
    assert paid > 0
    again = [*GOALS, ("Weight in kg:", "91"), ("Height in m:", "1.78"), *NAMES]
    code, seen = at_a_terminal(
        tmp_path, [*again, ("Press Enter to noise", "")], "--template", "bmi", "--force"
    )
    assert code == 0, seen
    assert "replaced at no cost" in seen
    assert spent(tmp_path) == paid
    assert open_store(f"sqlite:///{tmp_path}/vault.db").ledger(OWNER).draws == {"wt": 1, "ht": 1}


def run(folder: Path, *arguments: str) -> dict[str, object]:
    out = str(folder / "me.toml")
    done = CliRunner().invoke(cli, ["init", "--out", out, *arguments, "--json"])
    assert done.exit_code == 0, done.output + repr(done.exception)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/vault.db"
    monkeypatch.setenv("ROOTGUARD_STORE", url)
    return url


def test_after_a_release_a_correction_is_another_draw_with_its_own_cost(
    tmp_path: Path, vault: str
) -> None:
    source = tmp_path / "mine.toml"
    source.write_text('templates = ["bmi"]\n[values]\nwt = 120\nht = 1.78\n')
    assert run(tmp_path, "--from", str(source))["replaced_unseen"] is False
    paid = spent(tmp_path)
    # Opened and read, but nothing given to anybody: still free.
    store = open_store(vault)
    Guard.resume("bmi", store=store)
    source.write_text('templates = ["bmi"]\n[values]\nwt = 81\nht = 1.78\n')
    assert run(tmp_path, "--from", str(source), "--force")["replaced_unseen"] is True
    assert spent(tmp_path) == paid

    Guard.resume("bmi", store=store).release("wt")
    source.write_text('templates = ["bmi"]\n[values]\nwt = 91\nht = 1.78\n')
    assert run(tmp_path, "--from", str(source), "--force")["replaced_unseen"] is False
    ledger = open_store(vault).ledger(OWNER)
    assert ledger.draws == {"wt": 2, "ht": 1}
    assert float(ledger.total) > paid
    assert open_store(vault).verify() == ()


def test_a_file_with_a_slip_is_refused_before_anything_is_drawn(tmp_path: Path, vault: str) -> None:
    source = tmp_path / "mine.toml"
    source.write_text('templates = ["bmi"]\n[values]\nwt = 80.25\nht = 178.5\n')
    arguments = ["init", "--out", str(tmp_path / "me.toml"), "--from", str(source)]
    refused = CliRunner().invoke(cli, arguments)
    assert isinstance(refused.exception, PrivateValueError)
    assert "ht (1.48 to 1.98)" in str(refused.exception)
    assert "178" not in str(refused.exception)
    assert not (tmp_path / "me.toml").exists()
    assert not (tmp_path / "vault.db").exists()
    assert CliRunner().invoke(cli, [*arguments, "--clamp"]).exit_code == 0


def test_from_a_file_the_profile_gets_goals_and_a_policy(tmp_path: Path, vault: str) -> None:
    source = tmp_path / "mine.json"
    body = {
        "templates": ["fib4"],
        "hide": {"age": 5, "platelets": "10%"},
        "values": {"age": 54, "ast": 23, "alt": 30, "plt": 220},
        "identifiers": {"name": "Jane Roe"},
    }
    source.write_text(json.dumps(body))
    found = run(tmp_path, "--from", str(source), "--service", "clinic")
    profile = load_profile(tmp_path / "me.toml")
    assert profile.policy is not None
    assert set(profile.policy.services) == {"clinic"}
    (plan,) = profile.plans()
    assert plan.allocation == "goals"
    assert found["hide"] == {"age": "5", "ast": "3", "alt": "3", "plt": "10%"}
    assert list(found["mcp"]["mcpServers"]) == ["me", "clinic"]  # type: ignore[index]
    # The trusted tier is given what the goals allow, to the last micro-epsilon.
    served = Person.open(profile, store=open_store(vault), service="clinic")
    own = Person.open(profile, store=open_store(vault))
    assert served.release("age") == own.release("age")
    assert not profile.values


@pytest.mark.parametrize(
    "text", ["[values]\nage = 54\n[extra]\n", "age = 54", 'templates = "fib4"\n', "values = 3\n"]
)
def test_a_file_of_another_form_is_refused_without_its_content(
    text: str, tmp_path: Path, vault: str
) -> None:
    source = tmp_path / "mine.toml"
    source.write_text(text)
    refused = CliRunner().invoke(cli, ["init", "--from", str(source)])
    assert refused.exit_code != 0
    assert "54" not in str(refused.exception)
    assert "[values]" in str(refused.exception)


VISIT = """
name = "visit"
title = "A visit"
[roots.smoker]
type = "boolean"
title = "Smoker"
[roots.region]
type = "category"
title = "Region"
values = ["north", "south", "far west"]
[roots.kids]
type = "count"
title = "Children"
lower = 0
upper = 12
[roots.last_period]
type = "date"
title = "Last period"
lower = 2020-01-01
upper = 2034-12-31
[roots.sex]
type = "boolean"
title = "Female"
public = true
[target]
name = "points"
formula = "smoker + region + kids + sex + last_period / 900"
"""


def test_each_type_is_asked_for_and_checked_in_its_own_form(tmp_path: Path) -> None:
    template = tmp_path / "visit.toml"
    template.write_text(VISIT)
    asked = {
        "smoker": "Smoker (yes or no): ",
        "region": "Region (one of north, south, far west): ",
        "kids": "Children (a whole number, 0 to 12): ",
        "period": "Last period (a date from 2020-01-01 to 2034-12-31, written year-month-day): ",
        "sex": "Female (yes or no) (public: kept as it is): ",
    }
    dialogue: Dialogue = [
        (asked["smoker"], "maybe4417"),
        (asked["smoker"], "No"),
        (asked["region"], "east4417"),
        (asked["region"], "FAR WEST"),
        (asked["kids"], "2.5"),
        (asked["kids"], "2"),
        (asked["period"], "4417-01-01"),
        (asked["period"], "04/01/2026"),
        (asked["period"], "2026-01-04"),
        (asked["sex"], "y"),
        ("name: ", ""),
        ("email: ", ""),
        ("phone: ", ""),
        ("record: ", ""),
        ("ends without noising anything): ", ""),
    ]
    status, seen = at_a_terminal(tmp_path, dialogue, "--template", str(template), "--budget", "4")
    assert status == 0, seen
    for said in (
        "That cannot be read. Write yes or no.",
        "That cannot be read. Write one of north, south, far west.",
        "That cannot be read. Write a whole number, 0 to 12.",
        "That cannot be read. Write a date from 2020-01-01 to 2034-12-31",
    ):
        assert said in seen
    assert "4417" not in seen
    store = open_store(f"sqlite:///{tmp_path}/vault.db")
    person = Person.open(load_profile(tmp_path / "me.toml"), store=store)
    assert isinstance(person.release("smoker"), bool)
    assert person.release("region") in ("north", "south", "far west")
    assert person.release("sex") is True
    assert spent(tmp_path) == 4


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('smoker = "maybe4417"', "smoker"),
        ('region = "east4417"', "region"),
        ("kids = 44.17", "kids"),
        ('last_period = "4417-01-01"', "last_period"),
    ],
)
def test_a_file_with_a_value_of_another_type_is_refused_by_name(
    tmp_path: Path, line: str, name: str
) -> None:
    (tmp_path / "visit.toml").write_text(VISIT)
    source = tmp_path / "mine.toml"
    source.write_text(f'templates = ["{tmp_path}/visit.toml"]\n[values]\n{line}\n')
    made = CliRunner().invoke(
        cli,
        ["init", "--from", str(source), "--out", str(tmp_path / "me.toml"), "--budget", "4"],
        env={"ROOTGUARD_STORE": f"sqlite:///{tmp_path}/vault.db"},
    )
    assert made.exit_code != 0
    said = f"{made.exception} {made.output}"
    assert name in said
    assert "4417" not in said
    assert "44.17" not in said
    assert not (tmp_path / "me.toml").exists()


@pytest.mark.parametrize(("answer", "draws"), [("y", 2), ("n", 1)])
def test_a_changed_reading_of_a_series_is_paid_for_after_a_yes(
    tmp_path: Path, answer: str, draws: int
) -> None:
    (tmp_path / "sugar.toml").write_text(
        'name = "sugar"\ntitle = "Sugar"\n[roots.glu]\nlower = 40\nupper = 400\n'
        'unit = "mg/dL"\nseries = true\n[target]\nname = "points"\nformula = "glu"\n'
    )
    command = ("release", str(tmp_path / "sugar.toml"), "--budget", "0.5", "--values")
    said = ""
    for glucose, dialogue in ((131, []), (177, [("Pay that now? [y/N]: ", answer)])):
        (tmp_path / "values.toml").write_text(f"glu = {glucose}\n")
        _, seen = typed_into(tmp_path, dialogue, *command, str(tmp_path / "values.toml"))
        said = " ".join(seen.partition("Pay that now?")[0].split())
    assert "Noising it anew costs glu epsilon 0.5 (spent 0.5)" in said
    assert "177" not in said
    store = open_store(f"sqlite:///{tmp_path}/vault.db")
    assert store.ledger(OWNER).draws["glu"] == draws
    assert store.ledger(OWNER).micro["glu"] == draws * 500_000
