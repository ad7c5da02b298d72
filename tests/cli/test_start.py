"""How the program starts: it loads what a call needs and nothing else."""

import json
import subprocess
import sys
from importlib import import_module
from typing import get_args

import click
import pytest

import rootguard
from rootguard.advice.crowds import STRATEGIES
from rootguard.advice.people import MAX_PEOPLE
from rootguard.cli import attack, cohort, gateway
from rootguard.cli.main import Commands, cli
from rootguard.evaluation.nhanes import CYCLES, PAPER_SEED
from rootguard.session.profile import UnknownFields

_LIST = "import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
_CALL = """
import atexit, sys
def tell():
    import json
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
atexit.register(tell)
from rootguard.cli.main import main
sys.argv = ["rootguard", *sys.argv[1:]]
main()
"""
# What a program by click and rich loads before it has done anything.
_BARE = f"import click\nfrom rich.console import Console\nfrom rich.table import Table\n{_LIST}"
_HEAVY = ("cryptography", "numpy", "rich", "rootguard.graph", "rootguard.template")


def modules(code: str, *arguments: str, **environment: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), **environment},
    )
    listed: list[str] = json.loads(run.stderr.splitlines()[-1])
    return listed


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["completion", "bash"]], ids=lambda each: each[0]
)
def test_what_only_tells_about_the_program_loads_less_than_click_and_rich(
    arguments: list[str],
) -> None:
    loaded = modules(_CALL, *arguments)
    assert not set(_HEAVY) & set(loaded)
    assert len(loaded) < len(modules(_BARE))


def test_completing_a_command_loads_no_command() -> None:
    loaded = modules(
        _CALL, _ROOTGUARD_COMPLETE="bash_complete", COMP_WORDS="rootguard pl", COMP_CWORD="1"
    )
    assert not set(_HEAVY) & set(loaded)
    assert "rootguard.cli.plan" not in loaded


def test_a_command_declares_its_options_without_the_library() -> None:
    imports = "".join(f"import rootguard.cli.{name}\n" for name in COMMAND_MODULES)
    assert not set(_HEAVY) & set(modules(imports + _LIST))


def test_the_package_alone_loads_nothing_of_itself() -> None:
    loaded = modules(f"import rootguard\n{_LIST}")
    assert [name for name in loaded if name.startswith("rootguard")] == ["rootguard"]
    assert "numpy" not in loaded


def test_every_public_name_is_where_the_package_says() -> None:
    assert sorted(rootguard._HOMES) == sorted(rootguard.__all__)
    for name in rootguard.__all__:
        home = import_module(f"rootguard.{rootguard._HOMES[name]}")
        assert getattr(rootguard, name) is getattr(home, name)
        assert name in dir(rootguard)


def test_a_package_is_an_attribute_though_nothing_imported_it() -> None:
    code = f"import rootguard\nassert rootguard.errors.BudgetError\n{_LIST}"
    assert "rootguard.errors" in modules(code)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        rootguard.nonsense  # noqa: B018 - looked up for the error


COMMAND_MODULES = sorted(
    {
        lazy.place.partition(":")[0].removeprefix("rootguard.cli.")
        for lazy in Commands.MODULES.values()
    }
)


@pytest.mark.parametrize("name", sorted(Commands.MODULES))
def test_the_list_of_commands_says_what_each_commands_help_says(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert Commands.MODULES[name].summary == command.get_short_help_str(1000)


def test_choices_are_the_librarys() -> None:
    assert attack.STRATEGY_NAMES == STRATEGIES
    assert list(cohort.CYCLE_NAMES) == list(CYCLES)
    assert cohort.PAPER_SEED == PAPER_SEED
    assert cohort.MAX_PEOPLE == MAX_PEOPLE
    assert get_args(UnknownFields) == gateway.UNKNOWN_FIELD_CHOICES
