"""A profile says what is wrong with it by file, key and remedy, and never what is written there."""

import copy
import pickle
import traceback
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard.errors import FileError, PolicyError, ProfileError, TemplateError
from rootguard.session import Profile, load_profile, parse_profile
from rootguard.session.profile import MAX_BYTES, save_goals, write_private
from rootguard.values import Raw
from tests.support.canary import own_locals

GOOD = """
principal = "ana"
templates = ["fib4", "homa"]
budget = "0.9"
mechanism = "laplace"
allocation = "uniform"
calibrate = true
store = "postgresql://me:hunter2@host/vault"
[budgets]
homa = 2
[values]
age = 47.318264951
glu = 91
[identifiers]
name = "Zebulon Quackenbush"
mrn = "9182-7364-5190"
"""
SENTINELS = ("47.318264951", "91.827364519", "Zebulon", "Quackenbush", "9182-7364-5190", "hunter2")
MINIMAL = 'templates = ["fib4"]\nbudget = 1\n'
POLICY = '[tiers.a]\nbudget = 2\n[tiers.b]\nbudget = "0.5"\n[services.s]\ntier = "b"\nroots = "*"\n'
OWN = """
name = "own"
title = "Own"
[roots.age]
lower = 0
upper = 120
unit = "{unit}"
[target]
name = "{target}"
formula = "{formula}"
"""


def everything(error: BaseException) -> str:
    """An error with all it carries, and the local variables of every frame but the test's own."""
    assert error.__cause__ is None
    assert error.__context__ is None
    held = own_locals(error)
    assert held
    return "\n".join([str(error), repr(error), repr(vars(error)), *held])


def test_a_profile_is_read_whole() -> None:
    profile = parse_profile(GOOD, file="me.toml")
    assert profile.principal == "ana"
    assert [template.name for template in profile.templates] == ["fib4", "homa"]
    assert profile.budgets == {"fib4": Fraction(9, 10), "homa": Fraction(2)}
    assert (profile.mechanism, profile.allocation) == ("laplace", "uniform")
    assert profile.calibrate is True
    assert profile.store == "postgresql://me:hunter2@host/vault"
    assert set(profile.values) == {"age", "glu"}
    assert all(isinstance(raw, Raw) for raw in profile.values.values())
    assert profile.identifiers.names == ("name", "mrn")
    assert profile.identifiers.open()["name"] == "Zebulon Quackenbush"


def test_what_is_left_out_has_a_default() -> None:
    profile = parse_profile(MINIMAL, file="me.toml")
    assert profile.principal == "owner"
    assert (profile.mechanism, profile.allocation) == ("geometric", "optimal")
    assert (profile.calibrate, profile.store, profile.policy) == (False, None, None)
    assert not profile.values
    assert profile.identifiers.names == ()


def test_a_profile_shows_nothing_private_and_has_no_other_form() -> None:
    profile = parse_profile(GOOD, file="me.toml")
    shown = repr(profile) + str(profile) + f"{profile}" + repr(profile.identifiers)
    assert not [sentinel for sentinel in SENTINELS if sentinel in shown]
    assert "templates=" not in shown  # long, and public anyway
    assert "policy=" not in shown
    for attempt in (
        lambda: pickle.dumps(profile),
        lambda: pickle.dumps(profile.identifiers),
        lambda: copy.deepcopy(profile),
        lambda: copy.copy(profile.identifiers),
    ):
        with pytest.raises(TypeError):
            attempt()
    with pytest.raises(AttributeError):
        profile.principal = "eve"  # type: ignore[misc,assignment]


MISTAKES: dict[str, tuple[str, str]] = {
    "a value without a key": ("[values]\nage = 47.318264951 91.827364519", ""),
    "an open text": ('[identifiers]\nname = "Zebulon Quackenbush', ""),
    "a key twice": ('[identifiers]\n"Zebulon" = 1\n"Zebulon" = 2', ""),
    "a number too long": ("[values]\nage = " + "918273645190" * 500, ""),
    "deep nesting": ("x = " + "[" * 5000 + '"Zebulon"', ""),
    "an unknown key": ("ast = 91.827364519\n" + MINIMAL, "ast"),
    "a number as a key": (MINIMAL + '"91.827364519" = "ast"', ""),
    "an unknown root": (MINIMAL + "[values]\nweight = 91.827364519", "values.weight"),
    "a derived value": (MINIMAL + "[values]\nfib4 = 91.827364519", "values.fib4"),
    "values as names": (MINIMAL + '[values]\n"91.827364519" = "ast"', "values"),
    "a value as text": (MINIMAL + '[values]\nast = "91.827364519"', "values.ast"),
    "a value in a list": (MINIMAL + "[values]\nast = [91.827364519]", "values.ast"),
    "no finite value": (MINIMAL + "[values]\nage = 47.318264951\nast = inf", "values.ast"),
    "a true value": (MINIMAL + "[values]\nage = 47.318264951\nast = true", "values.ast"),
    "values in a list": ("values = [91.827364519]\n" + MINIMAL, "values"),
    "identifiers as text": ('identifiers = "Zebulon"\n' + MINIMAL, "identifiers"),
    "an identifier as a number": (MINIMAL + "[identifiers]\nmrn = 91.827364519", "identifiers.mrn"),
    "an empty identifier": (
        MINIMAL + '[identifiers]\nname = "Zebulon"\nmrn = " "',
        "identifiers.mrn",
    ),
    "an identifier as a name": (
        MINIMAL + '[identifiers]\n"Zebulon Quackenbush" = "x"',
        "identifiers",
    ),
    "an identifier called like a root": (
        MINIMAL + '[identifiers]\nast = "Zebulon"',
        "identifiers.ast",
    ),
    "no template": ("budget = 1\n[values]\nage = 47.318264951", "templates"),
    "no template in the list": ("templates = []\nbudget = 1", "templates"),
    "templates as text": ('templates = "fib4"\nbudget = 1', "templates"),
    "an unknown template": ('templates = ["Zebulon"]\nbudget = 1', "templates.1"),
    "a template that is a number": ("templates = [91.827364519]\nbudget = 1", "templates.1"),
    "a template file that is not there": (
        'templates = ["fib4", "no/such.toml"]\nbudget = 1',
        "templates.2",
    ),
    "a template twice": ('templates = ["fib4", "fib4"]\nbudget = 1', "templates.2"),
    "no budget": ('templates = ["fib4"]\n[values]\nage = 47.318264951', "budget"),
    "a budget that is none": ('templates = ["fib4"]\nbudget = "Zebulon"', "budget"),
    "a budget below zero": ('templates = ["fib4"]\nbudget = -91.827364519', "budget"),
    "a budget that is true": ('templates = ["fib4"]\nbudget = true', "budget"),
    "a budget for no template": (MINIMAL + "[budgets]\nhoma = 91.827364519", "budgets.homa"),
    "an unknown mechanism": (MINIMAL + 'mechanism = "Zebulon"', "mechanism"),
    "an unknown allocation": (MINIMAL + "allocation = 91.827364519", "allocation"),
    "no principal": (MINIMAL + 'principal = ""', "principal"),
    "a principal of two lines": (MINIMAL + 'principal = "Zebulon\\nQuackenbush"', "principal"),
    "calibration by a number": (MINIMAL + "calibrate = 91.827364519", "calibrate"),
    "a store that is no text": (MINIMAL + "store = 91.827364519", "store"),
    "a policy that is not there": ('templates = ["fib4"]\npolicy = "Zebulon"', "policy"),
    "a policy and a budget": (MINIMAL + 'policy = "Zebulon"', "budget"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_said_without_what_is_written_there(case: str) -> None:
    text, key = MISTAKES[case]
    with pytest.raises(ProfileError) as caught:
        parse_profile(text, file="me.toml")
    error = caught.value
    assert (error.file, error.key) == ("me.toml", key)
    assert error.remedy
    told = everything(error)
    assert not [word for word in (*SENTINELS, "918273645190") if word in told]


def test_a_mistake_in_the_syntax_is_said_by_its_place() -> None:
    with pytest.raises(ProfileError, match=r"not TOML at line 2, column 20; correct"):
        parse_profile("[values]\nage = 47.318264951 91.827364519", file="me.toml")


def test_the_check_of_frames_sees_what_a_careless_reader_would_hold() -> None:
    def careless(text: str) -> None:
        raise ProfileError("me.toml", "", "wrong", "correct it")

    with pytest.raises(ProfileError) as caught:
        careless(GOOD)
    frames = [repr(frame.f_locals) for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert "Zebulon" in "".join(frames)


@pytest.mark.parametrize("content", [b"\xff\xfe Zebulon", b"x" * (1024 * 1024 + 1), None])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "me.toml"
    if content is not None:
        file.write_bytes(content)
    said = r"no such file.*rootguard init" if content is None else "cannot be read.* 1024 KiB"
    with pytest.raises(ProfileError, match=said) as caught:
        load_profile(file)
    assert "Zebulon" not in everything(caught.value)


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    file = tmp_path / "me.toml"
    file.write_text(MINIMAL + "#" * (1024 * 1024 - len(MINIMAL)))
    assert load_profile(file).budgets == {"fib4": 1}


def test_a_mistake_in_a_loaded_file_leaves_no_frame_with_its_text(tmp_path: Path) -> None:
    file = tmp_path / "me.toml"
    file.write_text(MISTAKES["an unknown root"][0])
    with pytest.raises(ProfileError) as caught:
        load_profile(file)
    assert caught.value.file == str(file)
    assert "91.827364519" not in everything(caught.value)


def written(folder: Path, text: str, **files: str) -> Profile:
    for name, content in files.items():
        (folder / f"{name}.toml").write_text(content)
    (folder / "me.toml").write_text(text)
    return load_profile(folder / "me.toml")


def test_paths_are_relative_to_the_profile(tmp_path: Path) -> None:
    profile = written(
        tmp_path,
        'templates = ["own.toml", "fib4"]\npolicy = "policy.toml"\nstore = "sqlite:///me.db"',
        own=OWN.format(unit="years", target="half", formula="age / 2"),
        policy=POLICY,
    )
    assert [template.name for template in profile.templates] == ["own", "fib4"]
    assert profile.store == f"sqlite:///{tmp_path}/me.db"
    assert profile.policy is not None
    assert profile.budgets == {"own": 2, "fib4": 2}


def test_an_absolute_store_stays_where_it_is(tmp_path: Path) -> None:
    profile = written(tmp_path, MINIMAL + 'store = "sqlite:////var/me.db"')
    assert profile.store == "sqlite:////var/me.db"


def test_tiers_need_geometric_noise(tmp_path: Path) -> None:
    text = 'templates = ["fib4"]\npolicy = "policy.toml"\nmechanism = "laplace"'
    with pytest.raises(ProfileError, match="mechanism: tiers need geometric noise"):
        written(tmp_path, text, policy=POLICY)


@pytest.mark.parametrize(
    ("unit", "target", "formula"),
    [("months", "half", "age / 2"), ("years", "fib4", "age / 2"), ("years", "ast", "age / 2")],
)
def test_templates_that_mean_different_things_by_one_name_are_refused(
    tmp_path: Path, unit: str, target: str, formula: str
) -> None:
    own = OWN.format(unit=unit, target=target, formula=formula)
    with pytest.raises(ProfileError, match=r"own means something else by (age|fib4|ast)"):
        written(tmp_path, 'templates = ["fib4", "own.toml"]\nbudget = 1', own=own)


def test_a_wrong_template_or_policy_is_named_by_its_own_file(tmp_path: Path) -> None:
    private = "\n[values]\nage = 47.318264951"
    with pytest.raises(TemplateError, match=r"own\.toml") as in_template:
        written(tmp_path, 'templates = ["own.toml"]\nbudget = 1' + private, own="name = 1")
    with pytest.raises(PolicyError, match=r"policy\.toml") as in_policy:
        written(tmp_path, 'templates = ["fib4"]\npolicy = "policy.toml"' + private, policy="x = 1")
    errors: tuple[FileError, ...] = (in_template.value, in_policy.value)
    for error in errors:
        assert "47.318264951" not in everything(error)


HIDING = 'templates = ["fib4", "homa"]\n[hide]\n'


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        (f"{HIDING}heart = 5\n", "hide.heart", "no root of these templates is called so"),
        (f'{HIDING}"Jane Roe" = 5\n', "hide", "no root of these templates is called so"),
        (f"{HIDING}age = [5]\n", "hide.age", "no distance"),
        (f"{HIDING}age = 5000\n", "hide", "age"),
        (f"advantage = 2\n{HIDING}", "advantage", "between 0 and 1"),
        (f"advantage = 0.2\n{MINIMAL}", "advantage", "nothing is to be hidden"),
        (f"budget = 1\n{HIDING}", "budget", "there is .hide. as well"),
        (f'allocation = "uniform"\n{HIDING}', "allocation", "there is .hide. as well"),
        (f"{HIDING}[budgets]\nfib4 = 1\n", "budgets", "there is .hide. as well"),
        (f"lifetime = 0\n{MINIMAL}", "lifetime", "whole number, 1 or more"),
        (f"lifetime = true\n{MINIMAL}", "lifetime", "whole number, 1 or more"),
        (f"lifetime = 1.5\n{MINIMAL}", "lifetime", "whole number, 1 or more"),
        (f'vault = "{"a" * 31}"\n{MINIMAL}', "vault", "not the id of a vault"),
        (f'vault = "{"a" * 33}"\n{MINIMAL}', "vault", "not the id of a vault"),
        (f"vault = {10**31}\n{MINIMAL}", "vault", "not the id of a vault"),
        (f"{MINIMAL}[detection]\nkinds = [1]\n", "detection.kinds", "not a list of texts"),
        (f'{MINIMAL}[detection]\nallow = "x"\n', "detection.allow", "not a list of texts"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_by_its_key(text: str, key: str, problem: str) -> None:
    with pytest.raises(ProfileError, match=problem) as refusal:
        parse_profile(text, file="me.toml")
    assert refusal.value.key == key


def test_distances_are_numbers_or_percentages_of_roots_by_any_of_their_names() -> None:
    profile = parse_profile(f'{HIDING}age = 5\nast = "10%"\nglu = 2.5\n', file="me.toml")
    assert dict(profile.hide) == {"age": 5, "ast": "10%", "glu": 2.5}
    assert set(profile.goals) == {"fib4", "homa"}
    assert profile.advantage == "0.5"
    strict = parse_profile(f"advantage = 0.1\n{HIDING}age = 5\n", file="me.toml")
    assert strict.advantage == "0.1"
    for name, plan in strict.goals.items():
        assert plan.budget < profile.goals[name].budget
        assert strict.budgets[name] == plan.budget


def test_the_smallest_lifetime_and_a_vault_are_taken_as_they_are_written() -> None:
    profile = parse_profile(f'lifetime = 1\nvault = "{"0f" * 16}"\n{MINIMAL}', file="me.toml")
    assert (profile.lifetime, profile.vault) == (1, "0f" * 16)
    assert (parse_profile(MINIMAL, file="me.toml").lifetime, profile.calibrate) == (None, False)


def test_goals_take_the_place_of_budgets_and_nothing_else_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "me.toml"
    path.write_text(
        'templates = ["fib4"]\nbudget = 1\nallocation = "uniform"\n# mine\nlifetime = 3\n'
        "[budgets]\nfib4 = 2\n[values]\nage = 50\n",
        encoding="utf-8",
    )
    save_goals(path, {"age": 7, "ast": 2.5})
    assert path.read_text(encoding="utf-8") == (
        'templates = ["fib4"]\n# mine\nlifetime = 3\n[values]\nage = 50\n'
        "\n[hide]\nage = 7\nast = 2.5\n"
    )
    save_goals(path, {"age": 8})
    assert dict(load_profile(path).hide) == {"age": 8}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["me.toml"]


def test_goals_that_cannot_be_met_or_written_leave_the_profile_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "me.toml"
    for text, goal in (
        (MINIMAL, 5000.0),  # no such distance
        ('templates = ["fib4"]\nbudget = """\n1"""\n', 7.0),  # half of a text would stay
        ('templates = ["fib4"]\n[values]\nage = 50\n[values.hide]\n', 7.0),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ProfileError):
            save_goals(path, {"age": goal})
        assert path.read_text(encoding="utf-8") == text


def test_a_private_file_follows_no_link_that_lies_in_its_way(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine", encoding="utf-8")
    (tmp_path / ".me.toml.new").symlink_to(other)
    write_private(tmp_path / "me.toml", "text")
    assert other.read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "me.toml").read_text(encoding="utf-8") == "text"
    assert not (tmp_path / ".me.toml.new").exists()


def test_a_profile_may_be_as_large_as_the_limit_and_no_larger(tmp_path: Path) -> None:
    path = tmp_path / "me.toml"
    path.write_text(MINIMAL + "#" * (MAX_BYTES - len(MINIMAL)), encoding="utf-8")
    assert load_profile(path).principal == "owner"
    path.write_text(MINIMAL + "#" * (MAX_BYTES - len(MINIMAL) + 1), encoding="utf-8")
    with pytest.raises(ProfileError, match="up to 1024 KiB"):
        load_profile(path)
    with pytest.raises(ProfileError, match="no such file"):
        load_profile(tmp_path / "none.toml")
