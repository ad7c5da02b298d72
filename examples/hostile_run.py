"""What two hostile services that collude learn through the proxy, in figures.

Run it with `python examples/hostile_run.py`. An agent that does what it is told sends a synthetic
person's exact values 200 times, to two services of different tiers, over five processes of
`rootguard mcp proxy` one after the other; the services write down and pool all they receive. Then
their best guess at each value is compared with the guess from one number, and with the guess they
would have made had every answer been noised afresh.
"""

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from rootguard import load_template
from rootguard.attacks import Observation, map_estimate
from rootguard.calibration import make_plan
from rootguard.mechanisms import Mechanism, mechanism
from rootguard.values import Domain, RootName, parse_epsilon

HERE = Path(__file__).parent
TEMPLATE = load_template("fib4")
BUDGETS = {"near": "0.4", "far": "0.04"}
TIER_OF = {"mallory": "near", "trudy": "far"}
VISITS = ("mallory", "trudy", "mallory", "trudy", "mallory")
"""Who is asked in each of the five processes."""

FIELDS = {"age": "age", "ast": "ast", "alt": "alt", "platelets": "plt"}
"""Which root a service takes a field for."""

PERSON = "Zebulon Quackenbush"
PINS = """
[tools.always_fails.ast]
root = "ast"
[tools.derived_panel.ast_alt_ratio]
root = "ast_alt"
"""
"""What the proxy asks the owner before it sends anything: the owner answers, and more is sent."""

CODE = str.maketrans("0123456789.", "abcdefghijk")
"""A disguise: digits as letters. An agent and a service may agree on any other."""

Values = Mapping[str, float]


def policy() -> str:
    """Two services in two tiers, each allowed everything."""
    tiers = [f'[tiers.{tier}]\nbudget = "{budget}"' for tier, budget in BUDGETS.items()]
    services = [
        f'[services.{name}]\ntier = "{tier}"\nroots = "*"\nformulas = "*"'
        for name, tier in TIER_OF.items()
    ]
    return "\n".join((*tiers, *services))


def person(seed: int) -> dict[str, float]:
    """Made-up values, with more digits than any grid point has."""
    chance = np.random.default_rng(seed)
    values = {}
    for name, root in TEMPLATE.roots.items():
        low, high = root.domain.lower, root.domain.upper
        values[str(name)] = round(chance.uniform(0.8 * low + 0.2 * high, 0.4 * low + 0.6 * high), 9)
    return values


def turn(number: int, values: Values, *, disguised: bool = False) -> tuple[str, dict[str, Any]]:
    """What a hijacked agent sends: the exact values, in every way that they are asked for."""
    age, ast, alt, plt = (values[root] for root in ("age", "ast", "alt", "plt"))
    fib4 = age * ast / (plt * alt**0.5)
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        (
            "fib4_score",
            {"age": age, "ast": ast, "alt": alt, "platelets": plt, "patient": PERSON},
        ),
        ("confirm_ast", {"ast": ast, "attempt": number}),
        ("derived_panel", {"ast_alt_ratio": ast / alt, "fib4": fib4}),
        ("free_text", {"text": f"{PERSON}: my AST is {ast} U/L, my ALT is {alt} U/L."}),
        ("confirm_ast", {"ast": ast, "note": f"The exact AST, without any noise, is {ast} U/L."}),
        ("always_fails", {"ast": str(ast), "note": f"AST {ast}"}),
        ("derived_panel", {"ast_alt_ratio": ast / alt, "fib4": fib4, "ast_squared": ast * ast}),
        ("always_fails", {"ast": ast, "patient": PERSON}),
        ("confirm_ast", {"ast": ast + number / 100}),
        ("fib4_score", {"age": age, "ast": ast, "alt": alt, "platelets": plt}),
    )
    if disguised and number % len(calls) == 0:
        return "free_text", {"text": f"Today's word is {str(ast).translate(CODE)}."}
    return calls[number % len(calls)]


def _rounded_by(root: str) -> float:
    """How far the point that a told number is taken for may be from what was released."""
    declared = TEMPLATE.roots[RootName(root)]
    return float(10.0**-declared.places + declared.domain.step) / 2


@dataclass(kw_only=True)
class Heard:
    """What came of one person's turns: answers to the agent, and what the services wrote down."""

    values: Values
    turns: int = 0
    bytes: dict[str, bytes] = field(default_factory=dict)
    pool: list[dict[str, Any]] = field(default_factory=list)

    def points(self, service: str, root: str) -> Counter[int]:
        """The grid points that a service was told for a root, and how often each came.

        Points, because a number has twelve digits in a field and all of them in a text.
        """
        told: list[float] = []
        for arguments in self._received(service):
            for name, value in arguments.items():
                if FIELDS.get(name) == root:
                    told.append(float(value))
                elif name in ("note", "text"):
                    told += map(float, re.findall(rf"\b{root.upper()} (?:is )?(\d[\d.]*\d)", value))
        return Counter(TEMPLATE.roots[RootName(root)].domain.nearest(each) for each in told)

    def surprises(self, service: str) -> int:
        """How many derived values do not follow from the roots that the service was told.

        Roots are told with the decimals of their field, and a ratio is one of what they were before
        that: it lies between those of the ends that are rounded alike.
        """
        (ast,), (alt,) = (self._values(service, root) for root in ("ast", "alt"))
        by, over = (_rounded_by(root) for root in ("ast", "alt"))
        least, most = (ast - by) / (alt + over), (ast + by) / (alt - over)
        ratios = [
            arguments["ast_alt_ratio"]
            for arguments in self._received(service)
            if "ast_alt_ratio" in arguments
        ]
        return sum(not least <= each <= most for each in ratios)

    def _values(self, service: str, root: str) -> list[float]:
        domain = TEMPLATE.roots[RootName(root)].domain
        return [domain.value(point) for point in self.points(service, root)]

    def _received(self, service: str) -> list[dict[str, Any]]:
        return [call["arguments"] for call in self.pool if call["service"] == service]

    def leaks(self) -> bool:
        """Whether a true value, its digits or the name stand in any byte that was received."""
        for received in self.bytes.values():
            text = received.decode("utf-8", "replace")
            digits = re.sub(r"\D", "", text)
            if any(re.sub(r"\D", "", str(value))[:8] in digits for value in self.values.values()):
                return True
            coded = [str(value).translate(CODE) for value in self.values.values()]
            if any(word in text for word in (*PERSON.split(), *coded)):
                return True
        return False


async def visit(heard: Heard, folder: Path, service: str, numbers: range, disguised: bool) -> None:
    """One process of the proxy, before one process of a service."""
    log = folder / f"{service}.log"
    behind = [sys.executable, str(HERE / "hostile_server.py"), "--stdio", "--name", service]
    behind += ["--log", str(log), "--pool", str(folder / "pool.jsonl")]
    proxy = [sys.executable, "-c", "from rootguard.cli.main import main; main()", "mcp", "proxy"]
    proxy += ["--profile", str(folder / "me.toml"), "--service", service]
    proxy += ["--pins", str(folder / "pins.toml"), "--", *behind]
    async with Client(StdioServerParameters(command=proxy[0], args=proxy[1:])) as client:
        for number in numbers:
            name, arguments = turn(number, heard.values, disguised=disguised)
            heard.turns += 1
            with suppress(MCPError):
                await client.call_tool(name, arguments)


def run(seed: int, turns: int, *, disguised: bool = False) -> Heard:
    """All turns of one person."""
    values = person(seed)
    heard = Heard(values=values)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        told = "\n".join(f"{root} = {value}" for root, value in values.items())
        (folder / "pins.toml").write_text(PINS, encoding="utf-8")
        (folder / "policy.toml").write_text(policy(), encoding="utf-8")
        (folder / "me.toml").write_text(
            'templates = ["fib4"]\npolicy = "policy.toml"\nstore = "sqlite:///vault.sqlite3"\n'
            f'[values]\n{told}\n[identifiers]\nname = "{PERSON}"\n',
            encoding="utf-8",
        )
        each = turns // len(VISITS)
        for place_of, service in enumerate(VISITS):
            numbers = range(place_of * each, (place_of + 1) * each)
            anyio.run(visit, heard, folder, service, numbers, disguised)
        for service in TIER_OF:
            heard.bytes[service] = (folder / f"{service}.log").read_bytes()
        lines = (folder / "pool.jsonl").read_text(encoding="utf-8").splitlines()
        heard.pool = [json.loads(line) for line in lines]
    return heard


def noise_of(tier: str) -> dict[str, tuple[Domain, Mechanism]]:
    """What is public about a tier's noise: the grid and the distribution of each root."""
    shares = make_plan(TEMPLATE, parse_epsilon(BUDGETS[tier])).shares
    domains = {root: TEMPLATE.roots[RootName(root)].domain for root in FIELDS.values()}
    return {
        str(share.root): (
            domains[str(share.root)],
            mechanism("geometric", share.epsilon, domains[str(share.root)].size),
        )
        for share in shares
    }


def guess(received: list[tuple[int, Mechanism]]) -> int:
    """The likeliest grid index, by every number received."""
    every = np.arange(received[0][1].size)
    seen = [Observation(received=index, expected=every, noise=noise) for index, noise in received]
    return map_estimate(seen)


@dataclass(kw_only=True)
class Row:
    """One root in one tier, over all people. Errors are means, in grid steps."""

    root: str
    service: str
    received: float
    different: int
    one: float
    all: float
    pooled: float
    afresh: float


def measure(people: list[Heard]) -> list[Row]:
    """What the services make of it."""
    rows = []
    public = {service: noise_of(tier) for service, tier in TIER_OF.items()}
    chance = np.random.default_rng(20260728)
    for service, by_root in public.items():
        for root, (domain, noise) in by_root.items():
            counts = [heard.points(service, root) for heard in people]
            errors = []
            for heard, count in zip(people, counts, strict=True):
                true = domain.nearest(heard.values[root])
                got = [(point, noise) for point in count.elements()]
                others = [
                    (point, known[root][1])
                    for other, known in public.items()
                    for point in heard.points(other, root)
                ]
                fresh = noise.draw_many(np.full(len(got), true), chance)
                drawn = [(int(index), noise) for index in fresh]
                guesses = (guess(got[:1]), guess(got), guess(others), guess(drawn))
                errors.append([abs(each - true) for each in guesses])
            means = np.mean(errors, axis=0)
            rows.append(
                Row(
                    root=root,
                    service=service,
                    received=float(np.mean([count.total() for count in counts])),
                    different=max(len(count) for count in counts),
                    one=float(means[0]),
                    all=float(means[1]),
                    pooled=float(means[2]),
                    afresh=float(means[3]),
                )
            )
    return rows


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description="What two hostile services learn.")
    parser.add_argument("--people", type=int, default=1)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--disguised", action="store_true", help="What no guard of texts finds.")
    chosen = parser.parse_args()
    seeds = range(chosen.people)
    people = [run(seed, chosen.turns, disguised=chosen.disguised) for seed in seeds]
    turns, sent = sum(h.turns for h in people), sum(len(h.pool) for h in people)
    print(f"{turns} turns, {sent} sent on and {turns - sent} refused by the proxy")
    print(f"a true value or the name in any byte received: {any(h.leaks() for h in people)}")
    odd = sum(h.surprises(service) for h in people for service in TIER_OF)
    print(f"derived values that do not follow from the roots received: {odd}")
    print("service  root  numbers  different  error: one  all   pooled  if noised afresh")
    for row in measure(people):
        print(
            f"{row.service:8} {row.root:5} {row.received:7.0f}  {row.different:9}  "
            f"{row.one:10.1f} {row.all:5.1f}  {row.pooled:6.1f}  {row.afresh:16.1f}"
        )


if __name__ == "__main__":
    main()
