"""The deployment files: their form, and that every command line in them is one of the program's."""

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from tools.site import http_routes

from rootguard.channels.http_server import make_server
from rootguard.cli.main import cli
from tests.support.patience import PATIENCE
from tests.support.postgres import own_server
from tests.support.upstream import recording_upstream

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


def test_the_linter_finds_nothing_in_the_containerfile() -> None:
    beside = Path(sys.executable).parent / "hadolint"
    program = str(beside) if beside.exists() else shutil.which("hadolint")
    if program is None:
        pytest.skip("hadolint is not installed; `make extras` installs it")
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")

    def said(file: str) -> str:
        command = [program, "--no-color", "-"]
        return subprocess.run(
            command, input=file, capture_output=True, text=True, check=False
        ).stdout

    assert said(text) == ""
    assert "DL3007" in said(text.replace("python:3.12-slim", "python:latest"))


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


KEY = "a caller's key of the tests"


def asked(url: str, body: object = None, *, key: str = "") -> tuple[int, bytes]:
    """The status and the body of an answer; what cannot be reached has the status 0."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()
    except OSError:
        return 0, b""


def profiles_in(folder: Path) -> None:
    """What the compose file mounts: keys.toml and a profile."""
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    (folder / "keys.toml").write_text(f'[keys]\n"{digest}" = "jane.toml"\n', encoding="utf-8")
    profile = 'templates = ["fib4"]\nbudget = "0.9"\n[identifiers]\nname = "Jane Roe"\n'
    (folder / "jane.toml").write_text(profile, encoding="utf-8")


@pytest.mark.slow
def test_the_services_of_the_compose_file_work_together_and_drain(tmp_path: Path) -> None:
    """The image's command with the compose file's environment, on a PostgreSQL of its own."""
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    (cmd,) = re.findall(r"^CMD (\[.*\])$", container, flags=re.MULTILINE)
    environment = documents("compose.yaml")[0]["services"]["gateway"]["environment"]
    assert set(environment) == {"ROOTGUARD_KEY", "ROOTGUARD_STORE", "UPSTREAM_KEY"}
    program = [sys.executable, "-c", "from rootguard.cli.main import cli; cli()"]
    profiles_in(tmp_path)
    with own_server() as database, recording_upstream() as (upstream, service):
        place = {
            "ROOTGUARD_KEY": "7" * 64,
            "ROOTGUARD_STORE": database.url("postgres"),
            "UPSTREAM_KEY": "of the upstream",
        }
        line = [upstream if each.startswith("https://") else each for each in json.loads(cmd)]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        here = f"http://127.0.0.1:{port}"
        common: dict[str, Any] = {"cwd": tmp_path, "env": os.environ | place, "text": True}
        gateway = [*program, *line, "--port", str(port)]
        with subprocess.Popen(gateway, stdout=subprocess.PIPE, **common) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                assert asked(f"{here}/healthz")[0] == 200
                assert asked(f"{here}/readyz")[0] == 503  # it begins no vault of its own
                made = [*program, "vault", "init"]
                subprocess.run(made, check=True, capture_output=True, timeout=PATIENCE, **common)
                assert asked(f"{here}/readyz")[0] == 200
                said = [{"role": "user", "content": "I'm Jane Roe, AST 61.375 U/L."}]
                request = {"model": "small", "messages": said}
                assert asked(f"{here}/v1/chat/completions", request)[0] == 401
                assert asked(f"{here}/v1/chat/completions", request, key=KEY)[0] == 200
                assert b"Jane" not in service.everything
                assert b"61.375" not in service.everything
                assert b"of the upstream" in service.everything
                assert asked(f"{here}/console/")[0] == 200
                assert asked(f"{here}/console/api/ledger")[0] in (401, 403)
                assert b"ast" in asked(f"{here}/console/api/ledger", key=KEY)[1]
                process.terminate()
                states = set()
                while (state := asked(f"{here}/readyz"))[0]:
                    states.add(state)
                assert 503 in {status for status, _ in states}
                # The server ends by the signal itself, once all is done.
                assert process.wait(timeout=PATIENCE) in (0, -signal.SIGTERM)
            finally:
                process.kill()
