"""The console's figures are the library's own: graph, ledger, outlook, and an attack on oneself."""

import json
import math
import threading
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rootguard import Guard, MemoryStore, load_template, make_plan, open_store
from rootguard.accounting import Ledger, Slopes
from rootguard.cli.main import cli
from rootguard.console import Viewer, of_profile, views
from rootguard.console.self_attack import PEOPLE, TURNS
from rootguard.console.views import graph_json, ledger_json
from rootguard.expressions import evaluate
from rootguard.graph import Graph
from rootguard.session import Person, parse_profile
from rootguard.template import catalog
from rootguard.values import Principal
from tests.support.console_servers import KEY, Served, console, events, open_person, viewer_of

OWNER = Principal("owner")
POLICY = """
[tiers.clinic]
budget = "0.9"
[tiers.public]
budget = "0.3"
[services.lab]
tier = "public"
roots = ["age"]
[services.liver]
tier = "clinic"
roots = "*"
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    store = MemoryStore()
    open_person(store).release("fib4")
    with console(viewer_of(store)) as running:
        yield running


def cli_json(*arguments: str) -> Any:  # noqa: ANN401
    made = CliRunner().invoke(cli, [*arguments, "--json"])
    assert made.exit_code == 0, made.output
    return json.loads(made.stdout)


@pytest.mark.parametrize("name", ["fib4", "homa"])
def test_the_graphs_roots_have_the_plans_figures(served: Served, name: str) -> None:
    drawn = served.json(f"api/graph?template={name}")
    plan = make_plan(load_template(name), Fraction("0.9"))
    roots = {node["name"]: node for node in drawn["nodes"] if node["kind"] == "root"}
    assert list(roots) == [share.root for share in plan.shares]
    for share in plan.shares:
        node = roots[share.root]
        assert node["epsilon"] == float(share.epsilon)
        assert node["share"] == float(share.epsilon / plan.budget)
        assert node["sensitivity"] == share.sensitivity
        assert node["expected_error"] == pytest.approx(share.expected_error)
        assert node["bounds"] == [share.domain.lower, share.domain.upper]
    assert drawn["budget"] == 0.9
    assert sum(node["share"] for node in roots.values()) == pytest.approx(1)
    (target,) = (node for node in drawn["nodes"] if node["kind"] == "target")
    first_order = sum(share.sensitivity * share.expected_error for share in plan.shares)
    assert target["expected_error"] == pytest.approx(first_order)


def test_a_factor_that_is_not_attained_is_marked_where_it_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    template = load_template("fib4")
    wide = Slopes(root="plt", amplification=2.0, attained=1.0, flattest=0.0)
    monkeypatch.setattr(views, "amplifications", lambda _: {"fib4": wide})
    drawn: Any = graph_json(template, make_plan(template, Fraction(1)))
    (target,) = (node for node in drawn["nodes"] if node["kind"] == "target")
    assert target["amplification"] == 2.0
    assert target["amplification_remark"] == "upper bound, not attained; 1 is"
    assert "not attained" not in json.dumps([n for n in drawn["nodes"] if n["kind"] == "root"])


@pytest.mark.parametrize("name", ["fib4", "conicity"])
def test_amplifications_are_those_of_the_command_line(name: str) -> None:
    template = load_template(name)
    leaks = cli_json("plan", name, "--budget", "0.9", "--amplification")["amplification"]
    worst: dict[str, float | None] = {}
    for leak in leaks:
        before, here = worst.get(leak["value"], 0.0), leak["amplification"]
        worst[leak["value"]] = None if before is None or here is None else max(before, here)
    drawn: Any = graph_json(template, make_plan(template, Fraction("0.9")))
    shown = {n["name"]: n["amplification"] for n in drawn["nodes"] if n["kind"] != "root"}
    assert shown == pytest.approx(worst)


@pytest.mark.parametrize("name", catalog())
def test_every_template_of_the_catalog_can_be_drawn(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Graph.of(load_template(name)).order
    one = Slopes(root="x", amplification=1.0, attained=1.0, flattest=0.0)
    known = dict.fromkeys((node.name for node in nodes), one)  # looked at elsewhere, slow for some
    monkeypatch.setattr(views, "amplifications", lambda _: known)
    template = load_template(name)
    drawn: Any = graph_json(template, make_plan(template, Fraction(1)))
    names = {node["name"] for node in drawn["nodes"]}
    assert template.target.name in names
    for edge in drawn["edges"]:
        assert {edge["source"], edge["target"]} <= names
        assert edge["sensitivity"] is None or edge["sensitivity"] >= 0
        assert 0 <= edge["share"] <= 1 + 1e-9
    assert "NaN" not in json.dumps(drawn)
    assert "Infinity" not in json.dumps(drawn)


def test_edges_into_a_target_of_roots_make_up_its_whole_spread(served: Served) -> None:
    edges = served.json("api/graph?template=fib4")["edges"]
    assert sum(edge["sensitivity"] ** 2 for edge in edges) == pytest.approx(1)
    template = load_template("fib4")
    point = {str(root): at for root, at in template.centre().items()}
    moves: dict[str, float] = {}
    for name, root in template.roots.items():
        assert root.sd is not None
        ends = (
            evaluate(template.target.formula, {**point, name: point[name] + h})
            for h in (-1e-4, 1e-4)
        )
        low, high = ends
        moves[name] = abs(high - low) / 2e-4 * root.sd
    for edge in edges:
        expected = moves[edge["source"]] / math.hypot(*moves.values())
        assert edge["sensitivity"] == pytest.approx(expected, rel=1e-4)


def test_the_ledger_says_what_the_vault_says(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'v.db'}"
    with closing(open_store(url)) as store:
        person = open_person(store)
        person.release("fib4")
        store.set_cap(OWNER, "age", 500_000)
        store.set_cap(OWNER, "", 3_000_000)
        told: Any = ledger_json(viewer_of(store))
    spending = cli_json("vault", "spend", "--store", url)
    assert told["total"] == spending["total"]
    for root in told["roots"]:
        if root["root"] in spending:
            shown = {part: root[part] for part in ("spent", "cap", "left", "draws")}
            assert shown == spending[root["root"]]
    assert [root["root"] for root in told["roots"]] == ["age", "ast", "alt", "plt", "glu", "ins"]
    assert all(charge["at"] is not None for charge in told["charges"])
    assert told["charges"][-1]["total_after"] == told["total"]["spent"]
    assert {each["root"] for each in told["disclosures"]} == {"age", "ast", "alt", "plt"}


def test_every_place_says_what_was_spent_to_the_micro_epsilon(tmp_path: Path) -> None:
    """After changes, a refinement, another template and an erasure."""
    url = f"sqlite:///{tmp_path / 'v.db'}"
    fib4, values = load_template("fib4"), {"age": 52.0, "ast": 31.0, "alt": 28.0, "plt": 214.0}
    with closing(open_store(url)) as store:
        Guard.open(fib4, values=values, budget="0.9", store=store)
        Guard.open(fib4, values={**values, "ast": 61.0}, budget="0.9", store=store)
        store.erase(OWNER)
        Guard.open(load_template("homa"), values={"glu": 90, "ins": 8}, budget="0.7", store=store)
        Guard.open(fib4, values=values, budget="0.9", store=store)
        session = Guard.refine(fib4, values=values, budget="1.3", store=store)
        ledger, promised = store.ledger(OWNER), session.guarantee()
        assert session.spent() == ledger.spent
        told: Any = ledger_json(viewer_of(store))
    assert promised.total == ledger.total == Fraction(sum(ledger.micro.values()), 10**6)
    assert {root: promised.epsilon_of(root) for root in ledger.spent} == ledger.spent
    assert {root: promised.draws_of(root) for root in ledger.draws} == ledger.draws
    spending = cli_json("vault", "spend", "--store", url)
    (shown,) = cli_json("vault", "show", "--store", url)
    assert shown["spending"] == spending
    console_says = {root["root"]: root for root in told["roots"]}
    for root, micro in ledger.micro.items():
        assert round(spending[root]["spent"] * 10**6) == micro
        assert round(console_says[root]["spent"] * 10**6) == micro
        assert spending[root]["draws"] == console_says[root]["draws"] == ledger.draws[root]
    for total in (spending["total"], told["total"]):
        assert round(total["spent"] * 10**6) == sum(ledger.micro.values())


def test_what_tables_cost_is_in_the_ledger_too() -> None:
    import pyarrow as pa

    from rootguard.batch import sanitize

    store, fib4 = MemoryStore(), load_template("fib4")
    row = {"id": "owner", "age": 50.0, "ast": 30.0, "alt": 40.0, "plt": 200.0}
    plan = make_plan(fib4, Fraction("0.9"))
    sanitize(pa.Table.from_pylist([row]), plan, template=fib4, id_column="id", store=store)
    open_person(store)
    told: Any = ledger_json(viewer_of(store))
    spent = store.ledger(OWNER)
    assert told["total"]["spent"] == float(spent.total)
    assert told["charges"][-1]["total_after"] == told["total"]["spent"]
    by_tables = [each for each in told["charges"] if each["kind"] == "tables"]
    assert sum(each["epsilon"] for each in by_tables) == pytest.approx(0.9)
    assert told["total"]["draws"] == sum(spent.draws.values())


def tiered(store: MemoryStore, folder: Path) -> tuple[Viewer, Person]:
    (folder / "policy.toml").write_text(POLICY)
    text = 'templates = ["fib4"]\npolicy = "policy.toml"\n[values]\nage = 50\n'
    profile = parse_profile(text, file=str(folder / "me.toml"))
    return of_profile(profile, store), Person.open(profile, store=store, service="lab")


def test_tiers_services_and_levels_are_in_the_ledger(tmp_path: Path) -> None:
    store = MemoryStore()
    viewer, person = tiered(store, tmp_path)
    person.release("age")
    told: Any = ledger_json(viewer)
    assert told["tiers"] == [
        {"tier": "clinic", "budget": 0.9, "services": ["liver"]},
        {"tier": "public", "budget": 0.3, "services": ["lab"]},
    ]
    (given,) = told["disclosures"]
    levels = told["roots"][0]["levels"]
    assert [level["position"] for level in levels] == [0, 1]
    assert given == {
        "service": "lab",
        "tier": "public",
        "root": "age",
        "version": 1,
        "epsilon": levels[1]["epsilon"],
    }
    assert [charge["kind"] for charge in told["charges"]] == ["noised", "derived-level"]
    assert told["charges"][1]["epsilon"] == 0


def test_a_ledger_goes_on_after_refining_and_erasing() -> None:
    store = MemoryStore()
    values = {"age": 52.0, "ast": 31.0, "alt": 28.0, "plt": 214.0}
    template = load_template("fib4")
    Guard.open(template, values=values, budget="0.9", store=store)
    Guard.refine(template, values=values, budget="1.5", store=store)
    store.erase(OWNER)
    Guard.open(template, values=values, budget="0.9", store=store)
    told: Any = ledger_json(viewer_of(store))
    kinds = [(kind, len(list(same))) for kind, same in groupby(c["kind"] for c in told["charges"])]
    assert kinds == [("totals", 4), ("erased", 1), ("noised", 4)]
    assert [charge["at"] is None for charge in told["charges"]] == [True] * 4 + [False] * 5
    assert sum(charge["epsilon"] for charge in told["charges"][:4]) == pytest.approx(1.5)
    assert [charge["level"] for charge in told["charges"][:5]] == [None] * 5
    assert told["total"]["spent"] == float(Ledger(store.events(OWNER)).total)
    assert told["charges"][-1]["total_after"] == pytest.approx(2.4)


@pytest.mark.parametrize(
    ("name", "turns"), [pytest.param("fib4", "2k+1", marks=pytest.mark.slow), ("homa", "3k+1")]
)
def test_the_outlook_is_the_table_of_explain(served: Served, name: str, turns: str) -> None:
    path = f"api/outlook?template={name}&mechanism=geometric&turns={turns.replace('+', '%2B')}"
    began = served.get(path)
    while (answer := served.get(path)).status_code == 202:
        assert 0 <= answer.json()["progress"] < 1
        threading.Event().wait(0.1)
    assert began.status_code in (200, 202)
    found = answer.json()
    wanted = cli_json("explain", name, "--turns", turns, "--no-plan-for-population")
    assert found["rows"] == wanted["outlooks"]
    assert found["median_error"] == wanted["population_median_error"]
    assert found["turns"] == wanted["turns"]
    assert found["epsilons"] == sorted({row["epsilon"] for row in wanted["outlooks"]})
    for row in found["rows"]:
        sentence = found["sentences"][row["config"]][f"{row['epsilon']:g}"]
        assert f"{row['target_error']:.3g} % off" in sentence
        assert f"{row['adversary_error']:.3g} % off" in sentence


def turns_of(served: Served, template: str = "fib4") -> list[tuple[str, str, Any]]:
    with served.client.stream(
        "POST",
        f"{served.address}/console/api/attack",
        json={"template": template},
        headers={"authorization": f"Bearer {KEY}"},
    ) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        return list(events(answer.iter_lines()))


def test_an_attack_on_oneself_stands_still_and_on_fresh_noise_closes_in() -> None:
    store = MemoryStore()
    person = open_person(store)
    released = {root: person.number(root) for root in ("age", "ast", "alt", "plt")}
    before = (store.events(OWNER), store.log_size(OWNER), store.disclosures(OWNER))
    with console(viewer_of(store)) as served:
        told = turns_of(served)
    assert (store.events(OWNER), store.log_size(OWNER), store.disclosures(OWNER)) == before
    assert [kind for _, kind, _ in told] == ["turn"] * (4 * TURNS) + ["done"]
    for root, value in released.items():
        turns = [turn for _, kind, turn in told if kind == "turn" and turn["root"] == root]
        assert [turn["turn"] for turn in turns] == list(range(1, TURNS + 1))
        (estimate,) = {turn["guarded"]["estimate"] for turn in turns}
        template = load_template("fib4")
        step = template.roots[root].domain.step  # type: ignore[index]
        assert abs(estimate - value) <= 3 * step
        beside = [turn["synthetic"] for turn in turns]
        assert len({each["rootguard_estimate"] for each in beside}) == 1
        for way in ("same_noise", "same_budget"):
            errors = [each[f"{way}_error_percent"] for each in beside]
            assert errors[-1] < errors[0] / 20
            assert errors[-1] < beside[-1]["rootguard_error_percent"]
        assert beside[0]["people"] == PEOPLE
        assert beside[0]["epsilon_each"] * TURNS == pytest.approx(beside[0]["epsilon_once"])
        assert all(turn["guarded"]["error_percent"] is None for turn in turns)


def test_an_attack_after_a_change_goes_by_the_value_as_it_stands_now() -> None:
    store = MemoryStore()
    person = open_person(store)
    before = person.number("plt")
    plan = make_plan(load_template("fib4"), "0.9")
    changed = Guard.open(
        "fib4",
        values={"age": 41, "ast": 30, "alt": 25, "plt": 420},
        budget="0.9",
        store=store,
        principal="owner",
    )
    now = changed.number("plt")
    with console(viewer_of(store)) as served:
        told = turns_of(served)
    assert [kind for _, kind, _ in told] == ["turn"] * (4 * TURNS) + ["done"]
    (guess,) = {turn["guarded"]["estimate"] for _, _, turn in told[:-1] if turn["root"] == "plt"}
    step = plan["plt"].domain.step
    assert abs(guess - now) <= 3 * step
    assert abs(guess - before) > 10 * step


def test_an_attack_needs_a_value_of_every_root(served: Served) -> None:
    answer = served.client.post(
        f"{served.address}/console/api/attack",
        json={"template": "homa"},
        headers={"authorization": f"Bearer {KEY}"},
    )
    assert answer.status_code == 409


def test_one_attack_runs_at_a_time_and_the_next_when_it_is_over(served: Served) -> None:
    request = {"json": {"template": "fib4"}, "headers": {"authorization": f"Bearer {KEY}"}}
    url = f"{served.address}/console/api/attack"
    with served.client.stream("POST", url, **request) as first:  # type: ignore[arg-type]
        lines = first.iter_lines()
        assert next(lines) == "event: turn"
        assert served.client.post(url, **request).status_code == 429  # type: ignore[arg-type]
    while served.client.post(url, **request).status_code == 429:  # type: ignore[arg-type]
        pass
    assert len(turns_of(served)) == 4 * TURNS + 1
