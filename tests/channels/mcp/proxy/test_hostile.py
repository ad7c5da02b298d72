"""Two services that collude, many turns, several processes: they learn one noised value each.

The pool is what both were told. What the better of the two tiers was given is all there is in it.
"""

import json
import re
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from rootguard import load_template
from rootguard.attacks.map import map_estimates
from rootguard.calibration import make_plan
from rootguard.mechanisms import mechanism
from rootguard.values import RootName
from tests.support.canary import NAME, SENTINELS, leaks
from tests.support.mcp_clients import write_profile
from tests.support.mcp_proxies import HOSTILE, POLICY, Message, Wire, proxy_command

PROCESSES = (("clinic", "mallory"), ("market", "trudy")) * 2 + (("clinic", "mallory"),)
TURNS = 40
"""Of each process: every way of `_turn` four times."""
TIERS = {"mallory": "clinic", "trudy": "public"}
BUDGETS = {"clinic": "0.9", "public": "0.2"}
EXACT = SENTINELS["ast"]


def _turn(number: int) -> tuple[str, Message]:
    """An agent that does what the hostile service tells it, each time in another way."""
    fib4 = {"age": SENTINELS["age"], "ast": EXACT, "alt": SENTINELS["alt"]}
    ways: list[tuple[str, Message]] = [
        ("confirm_ast", {"ast": EXACT, "attempt": number}),
        ("confirm_ast", {"ast": EXACT, "note": f"the exact AST is {EXACT} U/L, {NAME}"}),
        ("confirm_ast", {"ast": EXACT + number, "note": f"SGOT={EXACT}"}),
        ("fib4_score", {**fib4, "platelets": SENTINELS["plt"], "patient": NAME}),
        ("fib4_score", {**fib4, "platelets": SENTINELS["plt"], "note": "as ordered: 91.8"}),
        ("derived_panel", {"ast_alt_ratio": EXACT / SENTINELS["alt"], "fib4": 1.0}),
        ("derived_panel", {"ast_alt_ratio": 1.0, "fib4": 1.0, "ast_squared": EXACT**2}),
        ("free_text", {"text": f"AST: {EXACT} U/L. AST {EXACT}. {NAME}"}),
        ("always_fails", {"ast": EXACT, "patient": NAME}),
        ("confirm_ast", {"ast": EXACT, "lab": {"AST": EXACT, "list": [{"ast": EXACT}]}}),
    ]
    return ways[number % len(ways)]


@pytest.fixture(
    scope="module", params=[3, pytest.param(5, marks=pytest.mark.slow)], ids="{} processes".format
)
def pool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Message], str, int]:
    """What both were told, every byte of it, and how many calls went through."""
    folder = tmp_path_factory.mktemp("hostile")
    profile = write_profile(folder, policy=POLICY)
    shared, log = folder / "pool", folder / "log"
    answered = 0
    for process, (service, name) in enumerate(PROCESSES[: request.param]):
        server = [*HOSTILE, "--name", name, "--pool", str(shared), "--log", str(log)]
        with Wire(proxy_command(profile, service, server)) as wire:
            wire.initialize()
            for turn in range(TURNS):
                answer = wire.call(*_turn(process + turn))
                answered += "result" in answer
        assert answered == TURNS * (process + 1)
        assert not leaks(bytes(wire.errors).decode())
    told = [json.loads(line) for line in shared.read_text(encoding="utf-8").splitlines()]
    return told, log.read_text(encoding="utf-8"), answered


def _numbers(node: object, root: str) -> list[float]:
    """Every number under a root's name, and in texts behind it, to ten digits."""
    found: list[float] = []
    if isinstance(node, dict):
        for key, value in node.items():
            if key.lower() == root and isinstance(value, int | float):
                found.append(float(f"{value:.10g}"))
            found += _numbers(value, root)
    elif isinstance(node, list):
        found += [number for each in node for number in _numbers(each, root)]
    elif isinstance(node, str):
        names = "AST|SGOT" if root == "ast" else root.upper()
        written = re.findall(rf"(?:{names})\D{{1,4}}(\d+\.\d+)", node)
        found += [float(f"{float(number):.10g}") for number in written]
    return found


def test_no_sentinel_is_in_any_byte_that_they_received(
    pool: tuple[list[Message], str, int],
) -> None:
    told, received, answered = pool
    assert len(told) > answered // 2
    assert not leaks(received)
    assert not leaks(json.dumps(told))


def test_of_a_root_each_tier_ever_got_one_number(pool: tuple[list[Message], str, int]) -> None:
    told, _, _ = pool
    for root in ("ast", "alt", "age"):
        numbers: dict[str, set[float]] = defaultdict(set)
        for each in told:
            numbers[TIERS[each["service"]]].update(_numbers(each["arguments"], root))
        assert {tier: len(found) for tier, found in numbers.items()} == {"clinic": 1, "public": 1}


def test_all_they_were_told_estimates_no_better_than_one_observation(
    pool: tuple[list[Message], str, int],
) -> None:
    told, _, _ = pool
    template = load_template("fib4")
    ast = RootName("ast")
    domain = template.roots[ast].domain
    for tier, budget in BUDGETS.items():
        mine = [each for each in told if TIERS[each["service"]] == tier]
        numbers = [n for each in mine for n in _numbers(each["arguments"], "ast")]
        assert len(numbers) > 20
        # Replays are one observation: what the pool holds beyond one is nothing.
        distinct = sorted({domain.nearest(number) for number in numbers})
        share = make_plan(template, Fraction(budget))[ast]
        noise = mechanism("geometric", share.epsilon, domain.size)
        pooled = map_estimates(noise, np.array([distinct]))
        single = map_estimates(noise, np.array([[domain.nearest(numbers[0])]]))
        assert pooled.tolist() == single.tolist()
        # A second draw would have moved it.
        fresh = distinct[0] + (40 if distinct[0] < domain.size // 2 else -40)
        moved = map_estimates(noise, np.array([[distinct[0], fresh, fresh]]))
        assert moved.tolist() != single.tolist()
