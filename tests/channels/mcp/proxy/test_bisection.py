"""Whoever asks by halves finds the released value and no more, through the proxy itself.

Two people have the same released AST and different true ones (the second's profile changed, and
keeps what was released). An agent answers each question from the true value. All that the server
receives is the same, byte for byte, so nothing of it depends on the true value.
"""

import json
from pathlib import Path

import pytest

from rootguard import open_store
from rootguard.session import Person, load_profile
from tests.support.mcp_bisecting import HIGH, KINDS, LOW
from tests.support.mcp_clients import ROOT
from tests.support.mcp_proxies import Message, Wire, proxy_command, text_of
from tests.support.programs import PYTHON

SERVER = str(ROOT / "tests" / "support" / "mcp_bisecting.py")
ROUNDS = 9
_POLICY = '[tiers.t]\nbudget = "0.4"\n[services.s]\ntier = "t"\nroots = "*"\nformulas = "*"\n'


def profile(folder: Path, ast: float) -> Path:
    (folder / "policy.toml").write_text(_POLICY, "utf-8")
    file = folder / f"me-{ast:g}.toml"
    file.write_text(
        'templates = ["fib4"]\npolicy = "policy.toml"\nstore = "sqlite:///vault.sqlite3"\n'
        f'on_change = "keep"\n[values]\nage = 54\nast = {ast}\nalt = 61\nplt = 218\n',
        "utf-8",
    )
    return file


def answer(tool: Message, ast: float) -> object:
    """What an agent that knows the true value answers."""
    asked = tool["inputSchema"]["properties"]["answer"]
    if tool["name"] == "threshold":
        return ast > float(asked["description"].split(" above ")[1].split()[0])
    if tool["name"] == "bands":
        return asked["enum"][ast > float(asked["enum"][0].removeprefix("<="))]
    return ast


def bisected(me: Path, ast: float, log: Path) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """How far the server came in each way, and what it received, ids aside."""
    log.touch()
    command = proxy_command(me, "s", [*PYTHON, SERVER, str(log)])

    def confirm(params: Message) -> Message:
        cut = float(params["message"].split(" above ")[1].split()[0])
        return {"action": "accept", "content": {"confirm": ast > cut}}

    with Wire(command, {"elicitation/create": confirm}) as wire:
        wire.initialize({"elicitation": {}})
        for _ in range(ROUNDS):
            for kind in KINDS:
                listed = wire.ask("tools/list")["result"]["tools"]
                (tool,) = [each for each in listed if each["name"] == kind]
                given = {} if kind == "form" else {"answer": answer(tool, ast)}
                told = wire.call(kind, given)
                assert "result" in told, told
        report = json.loads(text_of(wire.call("report", {})))
    received = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return {kind: tuple(report[kind]) for kind in KINDS}, [
        json.dumps({key: value for key, value in message.items() if key != "id"}, sort_keys=True)
        for message in received
    ]


@pytest.fixture(scope="module")
def transcripts(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[float, list[tuple[dict[str, tuple[float, float]], list[str]]]]:
    folder = tmp_path_factory.mktemp("bisection")
    first = load_profile(profile(folder, 30))
    store = open_store(f"sqlite:///{folder / 'vault.sqlite3'}", create=True)
    released = Person.open(first, store=store, service="s").release("ast")
    assert isinstance(released, float)
    made = [
        bisected(profile(folder, ast), ast, folder / f"log-{ast}.jsonl") for ast in (30.0, 240.0)
    ]
    return released, made


@pytest.mark.parametrize("kind", KINDS)
def test_the_final_interval_holds_the_released_value(
    kind: str, transcripts: tuple[float, list[tuple[dict[str, tuple[float, float]], list[str]]]]
) -> None:
    released, made = transcripts
    for found, _ in made:
        low, high = found[kind]
        # The value is told with its root's decimals, so an end may pass it by a rounding.
        assert low - 0.5 <= released <= high + 0.5
        # Bounds that leave no room for a person's AST are asked about, and nothing more is sent.
        assert kind == "bounds" or high - low < 2 * (HIGH - LOW) / 2**ROUNDS


def test_nothing_that_the_server_receives_depends_on_the_true_value(
    transcripts: tuple[float, list[tuple[dict[str, tuple[float, float]], list[str]]]],
) -> None:
    _, ((first, heard), (second, heard_again)) = transcripts
    assert first == second
    assert heard == heard_again
    assert sum("tools/call" in line for line in heard) > ROUNDS


def test_without_the_proxy_the_two_are_told_apart(tmp_path: Path) -> None:
    """The control: the same adversary finds the true values if nothing stands before it."""
    found = {}
    for ast in (30.0, 240.0):
        log = tmp_path / f"{ast}.jsonl"
        log.touch()
        with Wire([*PYTHON, SERVER, str(log)]) as wire:
            wire.initialize()
            for _ in range(ROUNDS):
                listed = wire.ask("tools/list")["result"]["tools"]
                (tool,) = [each for each in listed if each["name"] == "threshold"]
                wire.call("threshold", {"answer": answer(tool, ast)})
            low, high = json.loads(text_of(wire.call("report", {})))["threshold"]
        assert low <= ast <= high
        found[ast] = (low, high)
    assert found[30.0] != found[240.0]
