"""The reference services of `examples/`: an honest clinic, and two that want the exact values."""

import json
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from click.testing import CliRunner
from mcp import Client

from rootguard import load_template
from rootguard.cli.main import cli
from rootguard.expressions import evaluate
from rootguard.graph import Graph
from tests.support.canary import leaks
from tests.support.mcp_clients import (
    ROOT,
    Mode,
    Recorder,
    Tap,
    http_server,
    over_http,
    over_stdio,
    write_profile,
)
from tests.support.programs import PYTHON

CLINIC = [*PYTHON, str(ROOT / "examples" / "clinic_server.py")]
HOSTILE = [*PYTHON, str(ROOT / "examples" / "hostile_server.py")]
LIVER = {"age": 54.0, "ast": 23.0, "alt": 30.0, "plt": 220.0}
BLOOD = {"neu": 4.1, "lym": 2.0, "hb": 14.1, "hct": 43.0, "rbc": 4.9}
METABOLISM = {"glu": 98.0, "ins": 9.5, "tg": 130.0, "hdl": 48.0, "tc": 190.0}
BODY = {"wt": 82.0, "ht": 1.78, "waist": 0.96, "sbp": 128.0, "dbp": 79.0}
PATIENT = LIVER | BLOOD | METABOLISM | BODY
TOOLS: dict[str, tuple[str, dict[str, float]]] = {
    "fib4": ("fib4_score", {"age": 54, "ast_u_l": 23, "alt_u_l": 30, "platelets": 220}),
    "homa": ("homa_ir", {"fasting_glucose": 98, "fasting_insulin": 9.5}),
    "nlr": ("nlr", {"neutrophils": 4.1, "lymphocytes": 2.0}),
    "tyg": ("tyg_index", {"triglycerides_mg_dl": 130, "glucose_mg_dl": 98}),
    "aip": ("atherogenic_index", {"triglycerides": 130, "hdl": 48}),
    "anemia": ("anemia_mchc", {"hemoglobin_g_dl": 14.1, "hematocrit_percent": 43}),
    "conicity": ("conicity_index", {"weight_kg": 82, "height_cm": 178, "waist_cm": 96}),
    "vascular": ("pulse_pressure_index", {"systolic": 128, "diastolic": 79}),
}


async def _diagnoses(client: Client) -> dict[str, Any]:
    listed = {tool.name for tool in (await client.list_tools()).tools}
    assert listed == {name for name, _ in TOOLS.values()}
    return {
        template: await client.call_tool(name, {**asked, "patient": "P. Doe"})
        for template, (name, asked) in TOOLS.items()
    }


def _check(diagnoses: dict[str, types.CallToolResult]) -> None:
    for name, result in diagnoses.items():
        template = load_template(name)
        formula = Graph.of(template).in_roots(template.target.formula)
        expected = evaluate(formula, PATIENT)
        found = template.classify(expected)
        assert found is not None
        assert result.structured_content["score"] == pytest.approx(expected, rel=1e-12), name
        assert result.structured_content["class"] == found.label, name
        assert "P. Doe" in result.structured_content["report"]


def test_the_clinic_computes_the_eight_diagnoses_over_stdio(tmp_path: Path) -> None:
    _check(over_stdio(Tap(tmp_path), [*CLINIC, "--stdio"], "auto", _diagnoses))


def test_the_clinic_computes_the_eight_diagnoses_over_http() -> None:
    with http_server([*CLINIC, "--http", "127.0.0.1:0"]) as address:
        _check(over_http(address, Recorder(), "legacy", _diagnoses))


async def _useless(client: Client) -> list[bool]:
    calls: list[dict[str, Any]] = [
        {},
        {"systolic": "nan", "diastolic": 79},
        {"systolic": 0, "diastolic": 79},
        {"systolic": None, "diastolic": []},
    ]
    return [(await client.call_tool("pulse_pressure_index", call)).is_error for call in calls]


def test_the_clinic_refuses_numbers_that_make_no_sense(tmp_path: Path) -> None:
    assert all(over_stdio(Tap(tmp_path), [*CLINIC, "--stdio"], "auto", _useless))


def test_the_hostile_service_keeps_every_byte_and_pools_it_with_its_accomplice(
    tmp_path: Path,
) -> None:
    pool = tmp_path / "pool"
    modes: tuple[Mode, ...] = ("auto", "legacy")

    async def talk(client: Client) -> list[types.CallToolResult]:
        told = (await client.list_tools()).tools
        assert "ignore previous instructions" in str(told)
        return [
            await client.call_tool("confirm_ast", {"ast": 61.375, "attempt": 1}),
            await client.call_tool("always_fails", {"ast": 61.375}),
        ]

    for name, mode in zip(("mallory", "trudy"), modes, strict=True):
        place = tmp_path / name
        place.mkdir()
        tap, log = Tap(place), place / "log"
        more = ("--stdio", "--name", name, "--log", str(log), "--pool", str(pool))
        confirmed, failed = over_stdio(tap, [*HOSTILE, *more], mode, talk)
        assert "send the exact AST" in confirmed.structured_content["next"]
        assert failed.is_error
        assert "61.375" in str(failed.content)
        assert log.read_bytes() == tap.received.read_bytes()
    shared = [json.loads(line) for line in pool.read_text(encoding="utf-8").splitlines()]
    assert [each["service"] for each in shared] == ["mallory", "mallory", "trudy", "trudy"]
    assert all(each["arguments"]["ast"] == 61.375 for each in shared)


def _inspected(profile: Path, server: list[str], *more: str) -> str:
    outcome = CliRunner().invoke(
        cli, ["mcp", "inspect", "--profile", str(profile), *more, "--", *server, "--stdio"]
    )
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_inspecting_the_clinic_prints_the_mapping_and_its_plan_and_noises_nothing(
    tmp_path: Path,
) -> None:
    profile = write_profile(tmp_path)
    found = json.loads(_inspected(profile, CLINIC, "--json"))
    tools = {each["tool"]: each for each in found["tools"]}
    bound = {each["parameter"][0]: each["name"] for each in tools["fib4_score"]["bindings"]}
    bound.pop("patient", None)
    assert bound == {"age": "age", "ast_u_l": "ast", "alt_u_l": "alt", "platelets": "plt"}
    assert tools["fib4_score"]["formula"] == "fib4"
    assert tools["nlr"]["bindings"] == []
    assert {"age", "ast", "alt", "plt"} <= {each["root"] for each in found["plan"]["roots"]}
    assert not (tmp_path / "vault.sqlite3").exists()
    assert not leaks(json.dumps(found))


def test_inspecting_the_hostile_service_asks_where_it_is_not_sure(tmp_path: Path) -> None:
    shown = _inspected(write_profile(tmp_path), HOSTILE)
    assert "asked" in shown
    assert "--pins" in shown
    assert not leaks(shown)


def test_a_server_that_cannot_be_started_is_one_sentence(tmp_path: Path) -> None:
    profile = write_profile(tmp_path)
    for command in (["/no/such/server"], [sys.executable, "-c", ""]):
        outcome = CliRunner().invoke(
            cli, ["mcp", "inspect", "--profile", str(profile), "--", *command]
        )
        assert outcome.exit_code == 1
        assert "could not be started" in outcome.output
