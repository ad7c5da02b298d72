"""What a policy lets a service ask, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import pytest

from rootguard import Guard, MemoryStore, Person, Session, load_policy, load_template
from rootguard.errors import AccessError, PolicyError
from rootguard.events import RequestRefused
from rootguard.session import parse_policy
from rootguard.session.policy import read_file
from rootguard.session.profile import parse_profile

VALUES = {"age": 58, "ast": 61, "alt": 44, "plt": 220}


def served(service: str) -> Session:
    """A service's session on a person whose every root is noised."""
    policy = parse_policy(
        f'[tiers.clinic]\nbudget = "0.9"\n[services.tool]\ntier = "clinic"\n{service}',
        file="policy.toml",
    )
    template, store = load_template("fib4"), MemoryStore()
    Guard.open(template, values=VALUES, budget="0.9", store=store)
    return Guard.serve(template, store=store, policy=policy, service="tool")


def test_every_root_with_listed_formulas_is_not_every_formula() -> None:
    session = served('roots = "*"\nformulas = ["ast / alt"]')
    for root in VALUES:
        assert isinstance(session.release(root), float)
    assert session.derive("ast/alt") == session.derive("(ast / alt)")
    for formula in ("ast + alt", "alt / ast", "ast", "ast / alt + 0 * age"):
        with pytest.raises(AccessError):
            session.derive(formula)
    assert [e.reason for e in session.transcript() if isinstance(e, RequestRefused)] == [
        "AccessError"
    ] * 4


def test_every_formula_is_of_listed_roots_only() -> None:
    session = served('roots = ["ast", "alt"]\nformulas = "*"')
    assert isinstance(session.derive("ast + 2 * alt"), float)
    with pytest.raises(AccessError):
        session.derive("ast + age")
    with pytest.raises(AccessError):
        session.release("fib4")


def test_no_formula_is_answered_unless_some_are_allowed() -> None:
    session = served('roots = "*"')
    assert isinstance(session.release("ast"), float)
    with pytest.raises(AccessError):
        session.derive("ast + alt")


def test_a_formula_across_templates_is_refused_as_well() -> None:
    policy = parse_policy(
        '[tiers.clinic]\nbudget = "0.9"\n[services.tool]\ntier = "clinic"\n'
        'roots = "*"\nformulas = ["ast / hr"]',
        file="policy.toml",
    )
    text = 'templates = ["fib4", "shock_index"]\nbudget = "0.9"\n[values]\nast = 61\nhr = 70'
    profile = replace(parse_profile(text, file="me.toml"), policy=policy)
    person = Person.open(profile, store=MemoryStore(), service="tool")
    assert isinstance(person.derive("ast / hr"), float)
    with pytest.raises(AccessError):
        person.derive("ast * hr")


def test_a_policy_trusts_the_tools_that_it_names_and_no_other() -> None:
    tier = '[tiers.clinic]\nbudget = "0.9"\n'
    text = tier + '[sources]\ntools = ["get_lab_results", "clinic/labs"]'
    policy = parse_policy(text, file="policy.toml")
    profile = parse_profile('templates = ["fib4"]\nbudget = "0.9"', file="me.toml")
    person = Person.open(replace(profile, policy=policy), store=MemoryStore())
    assert person.trusts("get_lab_results")
    assert person.trusts("labs", "clinic/labs")
    assert not person.trusts("labs", "market/labs", "get_lab", "")
    assert parse_policy(tier, file="policy.toml").sources == frozenset()
    assert parse_policy(tier + "[sources]", file="policy.toml").sources == frozenset()
    assert not Person.open(profile, store=MemoryStore()).trusts("get_lab_results")


@pytest.mark.parametrize("path", ["a\x00b", "\ud800", "", "x" * 5000, "."])
def test_a_path_that_is_none_is_refused_as_any_file_that_cannot_be_read(path: str) -> None:
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy(path)


@pytest.mark.parametrize("text", ["x = " + "[" * 3_000, "x = 1" + "0" * 5_000, "x = [", "\x00"])
def test_a_policy_that_no_reader_takes_is_refused(text: str) -> None:
    with pytest.raises(PolicyError, match="not TOML"):
        parse_policy(text, file="policy.toml")


def test_a_file_beside_the_policy_is_read_up_to_its_size_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "beside.json"
    path.write_bytes(b"x" * 2048)
    assert read_file(path, 2048, "split it") == b"x" * 2048
    with pytest.raises(PolicyError, match="over 1 KiB") as refusal:
        read_file(path, 2047, "split it")
    assert (refusal.value.file, refusal.value.remedy) == (str(path), "split it")
    for nowhere in (tmp_path, tmp_path / "none", "a\0b"):
        with pytest.raises(PolicyError, match="cannot be read"):
            read_file(nowhere, 2048, "split it")


@pytest.mark.parametrize(
    ("line", "key", "problem"),
    [
        ('identifiers = "hide"', "services.tool.identifiers", "neither tokens nor restore"),
        ("identifiers = true", "services.tool.identifiers", "neither tokens nor restore"),
        ('text = "drop"', "services.tool.text", "no such rule"),
        ("text = 1", "services.tool.text", "no such rule"),
    ],
)
def test_a_rule_that_does_not_exist_is_refused_by_its_key(
    line: str, key: str, problem: str
) -> None:
    with pytest.raises(PolicyError, match=problem) as refusal:
        served(line)
    assert refusal.value.key == key


def test_the_rules_of_a_service_are_those_that_are_written_or_the_strictest() -> None:
    head = '[tiers.a]\nbudget = 1\n[services.tool]\ntier = "a"\n'
    usual = parse_policy(head, file="p.toml").services["tool"]
    assert (usual.text, usual.identifiers) == ("guard", "tokens")
    assert (usual.roots, usual.formulas) == (frozenset(), frozenset())
    for text in ("guard", "identifiers", "keep"):
        rules = f'{head}text = "{text}"\nidentifiers = "restore"\n'
        access = parse_policy(rules, file="p.toml").services["tool"]
        assert (access.text, access.identifiers) == (text, "restore")
