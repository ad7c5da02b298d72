"""Servers on HTTP that want credentials: headers, variables, SSE, OAuth, and what a 401 becomes."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rootguard.channels.mcp.proxy.authorization import SealedTokens
from rootguard.channels.mcp.proxy.servers import filled, is_sse
from rootguard.cli.main import cli
from rootguard.cli.mcp import _token_file
from rootguard.errors import PolicyError
from rootguard.session import Person, load_profile
from rootguard.vault import open_store
from tests.support.canary import SENTINELS
from tests.support.mcp_clients import ROOT, environment, http_server, write_profile
from tests.support.mcp_proxies import POLICY, Wire, text_of
from tests.support.mcp_remote import CLIENT, SECRET
from tests.support.programs import PYTHON, ROOTGUARD

SERVER = str(ROOT / "tests" / "support" / "mcp_remote.py")
KEY = "a key of the clinic"
# Stands for a browser: follows where it is sent, and shows nothing.
BROWSER = (
    "import sys, urllib.request; "
    "urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1]).read()"
)


@contextmanager
def remote(kind: str, key: str = "") -> Iterator[str]:
    with http_server([*PYTHON, SERVER, kind, key]) as address:
        yield address


@contextmanager
def proxied(profile: Path, *options: str, **variables: str) -> Iterator[Wire]:
    command = [*ROOTGUARD, "mcp", "proxy", "--profile", str(profile), "--service", "clinic"]
    variables.setdefault("BROWSER", f"{' '.join(PYTHON)} -c '{BROWSER}' %s")
    with Wire([*command, *options], variables=variables) as wire:
        yield wire


def score(wire: Wire) -> dict[str, Any]:
    """One guarded call."""
    assert "result" in wire.initialize()
    answer = wire.call("score", {"ast": SENTINELS["ast"]})
    sent = json.loads(text_of(answer))
    assert sent["ast"] != SENTINELS["ast"]
    assert answer["result"]["_meta"]["rootguard"] == [
        {"path": ["ast"], "kind": "value", "root": "ast"}
    ]
    made: dict[str, Any] = sent
    return made


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return write_profile(tmp_path, policy=POLICY)


def test_a_header_reaches_the_server_and_its_variable_is_read_from_the_environment(
    profile: Path,
) -> None:
    with remote("bearer", KEY) as address:
        header = "Authorization: Bearer ${CLINIC_KEY}"
        with proxied(
            profile, "--url", f"{address}/mcp", "--header", header, CLINIC_KEY=KEY
        ) as wire:
            score(wire)


@pytest.mark.parametrize("kind", ["bearer", "sse"])
def test_a_401_is_a_401(profile: Path, kind: str) -> None:
    with remote(kind, KEY) as address:
        place = f"{address}/{'sse' if kind == 'sse' else 'mcp'}"
        with proxied(profile, "--url", place, "--header", "Authorization: Bearer wrong") as wire:
            error = wire.initialize()["error"]
    assert "401" in error["message"]
    assert error["data"]["code"] == "upstream_unauthorized"
    assert "wrong" not in json.dumps(error)


def test_the_older_transport_is_spoken_by_its_address(profile: Path) -> None:
    with remote("sse", KEY) as address:
        header = f"Authorization: Bearer {KEY}"
        with proxied(profile, "--url", f"{address}/sse", "--header", header) as wire:
            score(wire)


def test_a_file_of_servers_has_headers_with_variables_and_the_transport(
    profile: Path, tmp_path: Path
) -> None:
    with remote("sse", KEY) as address:
        entry = {
            "type": "sse",
            "url": f"{address}/sse",
            "headers": {"Authorization": "Bearer ${CLINIC_KEY}"},
        }
        config = tmp_path / "servers.json"
        config.write_text(json.dumps({"mcpServers": {"clinic": entry}}), "utf-8")
        command = [*ROOTGUARD, "mcp", "proxy", "--profile", str(profile), "--config", str(config)]
        with Wire(command, variables={"CLINIC_KEY": KEY}) as wire:
            score(wire)


def test_an_owner_signs_in_once_with_a_browser_and_tokens_are_sealed(
    profile: Path, tmp_path: Path
) -> None:
    with remote("oauth") as address:
        with proxied(profile, "--url", f"{address}/mcp", "--oauth") as wire:
            first = score(wire)
        kept = tmp_path / "me.oauth"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        content = kept.read_bytes()
        assert b"access_token" not in content
        assert b"client-" not in content
        # Nobody signs in again: this browser would fail.
        with proxied(profile, "--url", f"{address}/mcp", "--oauth", BROWSER="false %s") as wire:
            assert score(wire) == first
        said = bytes(wire.errors).decode()
        assert "sign in" not in said


def test_a_machine_signs_in_with_client_credentials(profile: Path) -> None:
    with remote("oauth") as address:
        options = ("--oauth", "--client-id", CLIENT, "--client-secret-env", "CLINIC_SECRET")
        issuer = ("--issuer", address)
        with proxied(
            profile, "--url", f"{address}/mcp", *options, *issuer, CLINIC_SECRET=SECRET
        ) as wire:
            score(wire)
        with proxied(
            profile,
            *("--url", f"{address}/mcp", "--store", "memory:"),
            *options,
            *issuer,
            CLINIC_SECRET="another",
        ) as wire:
            (profile.parent / "me.oauth").unlink()
            error = wire.initialize()["error"]
    assert "401" in error["message"]
    assert "another" not in json.dumps(error)


def test_a_server_that_is_inspected_wants_the_same_credentials(profile: Path) -> None:
    with remote("bearer", KEY) as address:
        start = ["mcp", "inspect", "--profile", str(profile), "--url", f"{address}/mcp", "--json"]
        header = ["--header", "Authorization: Bearer ${CLINIC_KEY}"]
        shown, refused = (
            subprocess.run(
                [*ROOTGUARD, *start, *options],
                env={**environment(), "CLINIC_KEY": KEY},
                capture_output=True,
                text=True,
                check=False,
            )
            for options in (header, [])
        )
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["tools"][0]["bindings"][0]["name"] == "ast"
    assert refused.returncode != 0
    assert "401" in refused.stderr


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(PolicyError, match="NOT_THERE"):
        filled("Bearer ${NOT_THERE}", file="servers.json", key="headers")
    assert filled("${NOT_THERE:-plain}", file="f", key="k") == "plain"
    assert filled("a $ sign, {braces}", file="f", key="k") == "a $ sign, {braces}"


def test_an_address_that_ends_in_sse_is_one() -> None:
    assert is_sse("https://x.example/mcp/sse/?a=1")
    assert not is_sse("https://x.example/sse/mcp")


def test_sealed_tokens_are_of_one_vault_and_show_nothing(tmp_path: Path) -> None:
    file = tmp_path / "me.oauth"
    sealed = SealedTokens(file, b"k" * 32)
    sealed.write("https://a.example", "tokens", {"access_token": "sesame"})
    sealed.write("https://b.example", "client", {"client_id": "b"})
    assert sealed.read("https://a.example") == {"tokens": {"access_token": "sesame"}}
    assert SealedTokens(file, b"o" * 32).read("https://a.example") == {}
    assert b"sesame" not in file.read_bytes()
    assert "sesame" not in repr(sealed)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert sealed.read("https://a.example") == {}


def test_sign_ins_outlive_a_rotation_and_end_with_an_erasure(profile: Path) -> None:
    mine = load_profile(profile)
    place = _token_file(mine, str(profile), None)
    open_store(mine.store or "", create=True).close()
    SealedTokens(*place()).write("https://a.example", "tokens", {"access_token": "sesame"})
    assert SealedTokens(*place()).read("https://a.example")
    url = ["--store", mine.store or ""]
    assert CliRunner().invoke(cli, ["vault", "rotate-key", *url]).exit_code == 0
    assert SealedTokens(*place()).read("https://a.example")
    with closing(open_store(mine.store or "", create=False)) as kept:
        Person.open(mine, store=kept)
    said = CliRunner().invoke(cli, ["vault", "erase", mine.principal, "--yes", *url])
    assert said.exit_code == 0, said.output
    assert SealedTokens(*place()).read("https://a.example") == {}


def test_options_for_an_address_need_one(profile: Path) -> None:
    start = ["mcp", "proxy", "--profile", str(profile), "--service", "clinic"]
    for options in (["--header", "A: b"], ["--oauth"], ["--sse"]):
        refused = CliRunner().invoke(cli, [*start, *options, "--", "true"])
        assert refused.exit_code != 0
        assert options[0] in refused.output
    named = [*start, "--url", "http://127.0.0.1:1/mcp", "--client-id", "x"]
    assert "--oauth" in CliRunner().invoke(cli, named).output
    assert os.environ.get("CLINIC_SECRET") is None
    assert "PATH" in environment()
