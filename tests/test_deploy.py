"""The deployment files: their form, and that every command line in them is one of the program's."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from tools.site import http_routes

from rootguard.channels.http_server import make_server
from rootguard.cli.main import cli

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

DEPLOY = Path(__file__).parents[1] / "deploy"


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def accepted(arguments: list[str]) -> bool:
    """Whether the program has this command with these options."""
    command = cli.get_command(None, arguments[0])  # type: ignore[arg-type]
    if command is None:
        return False
    known = {name for each in command.params for name in each.opts}
    return {each for each in arguments if each.startswith("--")} <= known


def test_every_command_line_is_one_of_the_program() -> None:
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    (cmd,) = re.findall(r"^CMD (\[.*\])$", container, flags=re.MULTILINE)
    unit = (DEPLOY / "rootguard-gateway.service").read_text(encoding="utf-8")
    (start,) = re.findall(r"^ExecStart=\S+ (.*)$", unit, flags=re.MULTILINE)
    pod = documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]["containers"][0]
    for line in (json.loads(cmd), shlex.split(start), pod["args"]):
        assert accepted(line), line
    assert not accepted(["gateway", "--no-such-option"])


def test_the_manifests_fit_the_schema_of_kubernetes() -> None:
    checker = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is missing")
    for document in documents("kubernetes.yaml"):
        checker.validate(document, checker.latest_version(), strict=True)
    wrong = documents("kubernetes.yaml")[0]
    wrong["spec"]["replica"] = 2
    with pytest.raises(checker.ValidationError):
        checker.validate(wrong, checker.latest_version(), strict=True)


def test_the_manifests_name_each_other() -> None:
    deployment, service, budget = documents("kubernetes.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels
    assert budget["spec"]["selector"]["matchLabels"] == labels
    compose = documents("compose.yaml")[0]["services"]
    assert (DEPLOY / compose["gateway"]["build"]["context"] / "deploy/Containerfile").exists()
    assert set(compose["gateway"]["depends_on"]) <= set(compose)


def test_probes_ask_paths_that_the_gateway_has() -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    paths = http_routes()["Gateway"]
    pod = documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    for file in ("Containerfile", "compose.yaml"):
        (asked,) = re.findall(r"127\.0\.0\.1:8791(/\w+)'", (DEPLOY / file).read_text("utf-8"))
        assert asked in paths
    # A pod is given as long as the drain and the streams under way take together.
    drain = float(container["args"][container["args"].index("--drain") + 1])
    streams = make_server(Starlette()).config.timeout_graceful_shutdown or 0
    assert pod["terminationGracePeriodSeconds"] > drain + streams


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (DEPLOY / "rootguard-gateway.service").read_text(encoding="utf-8")
    # The program of the unit is not installed here; any other does for its form.
    path = tmp_path / "rootguard-gateway.service"
    path.write_text(unit.replace("/opt/rootguard/bin/rootguard", "/bin/true"), encoding="utf-8")
    run = subprocess.run(
        [program, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
    )
    said = [line for line in run.stderr.splitlines() if path.name in line]
    assert said == []
