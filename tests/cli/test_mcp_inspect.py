"""`rootguard mcp inspect` on documents and configurations, and what `--pin` writes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rootguard.channels.mcp import inspection
from rootguard.cli.main import cli
from tests.support.listings import NUMBER, Listing, tool

PROFILE = 'templates = ["fib4"]\nbudget = "0.9"\n[values]\n'
QUESTION = {"type": "boolean", "description": "Is the patient's AST above 40 U/L?"}


def document(folder: Path) -> tuple[str, str]:
    """A profile and an OpenAPI document with one operation."""
    profile, file = folder / "me.toml", folder / "api.json"
    profile.write_text(PROFILE, encoding="utf-8")
    properties = {"ast": {**NUMBER, "description": "AST in U/L"}, "x1": NUMBER, "high": QUESTION}
    body = {"content": {"application/json": {"schema": {"properties": properties}}}}
    operation = {"operationId": "score", "summary": "Liver of the patient", "requestBody": body}
    file.write_text(json.dumps({"paths": {"/s": {"post": operation}}}), encoding="utf-8")
    return str(profile), str(file)


def run(*words: str) -> str:
    made = CliRunner().invoke(cli, ["mcp", "inspect", *words])
    assert made.exit_code == 0, made.output
    return made.output


def test_json_says_what_is_bound_answered_asked_and_neither(tmp_path: Path) -> None:
    profile, file = document(tmp_path)
    (found,) = json.loads(run("--profile", profile, "--openapi", file, "--json"))["tools"]
    (bound,) = found["bindings"]
    assert (bound["parameter"], bound["name"], bound["unit"]) == (["ast"], "ast", None)
    assert bound["confidence"] > 0.9
    assert bound["reason"]
    (answer,) = found["answers"]
    assert (answer["parameter"], answer["values"]) == (["high"], ["ast"])
    assert found["asked"] == []
    assert found["unbound"] == [["x1"]]


def test_the_table_shows_the_same(tmp_path: Path) -> None:
    profile, file = document(tmp_path)
    shown = run("--profile", profile, "--openapi", file)
    assert "answered" in shown
    assert "a threshold of ast" in shown


def test_a_pin_is_written_beside_the_profile_and_read_again(tmp_path: Path) -> None:
    profile, file = document(tmp_path)
    run("--profile", profile, "--openapi", file, "--pin", "score.x1=alt:U/L")
    assert '[tools.score.x1]\nroot = "alt"' in (tmp_path / "pins.toml").read_text("utf-8")
    (found,) = json.loads(run("--profile", profile, "--openapi", file, "--json"))["tools"]
    assert {b["name"] for b in found["bindings"]} == {"ast", "alt"}


@pytest.mark.parametrize("pin", ["score.x1=nobody", "score.x1=ast:kg", "score"])
def test_a_pin_that_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path, pin: str) -> None:
    profile, file = document(tmp_path)
    words = ["mcp", "inspect", "--profile", profile, "--openapi", file, "--pin", pin]
    assert CliRunner().invoke(cli, words).exit_code != 0
    assert not (tmp_path / "pins.toml").exists()


def test_every_server_of_a_configuration_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile, _ = document(tmp_path)
    listing = Listing()
    listing.pages = ([tool("score", "Of the patient", ast_u_l=NUMBER)],)
    monkeypatch.setattr(inspection, "Client", listing)
    config = tmp_path / "servers.json"
    servers = {"a": {"command": "a-server"}, "b": {"url": "http://127.0.0.1:9/mcp"}}
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    found = json.loads(run("--profile", profile, "--config", str(config), "--json"))["tools"]
    assert [each["bindings"][0]["name"] for each in found] == ["ast", "ast"]
