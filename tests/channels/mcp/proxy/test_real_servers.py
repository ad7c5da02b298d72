"""Real servers that are about nobody: what an agent sends arrives as it was sent, or is told.

A few calls of the 300 are the owner's, and arrive otherwise, which the result says.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.canary import leaks
from tests.support.mcp_clients import write_profile
from tests.support.mcp_proxies import POLICY, Message, Wire, proxy_command, tapped
from tests.support.real_servers import SERVERS, calls_for, command_of


def outcome(server: str, tmp_path: Path) -> list[tuple[bool, list[Message], bool, str]]:
    """Of each call: whether it arrived byte for byte, what was told, whose it is, what arrived."""
    folder, received = tmp_path / "work", tmp_path / "received"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    command = tapped(command_of(server, folder), received)
    profile = write_profile(tmp_path, policy=POLICY)
    calls = calls_for(server, folder)
    answers: list[Message] = []
    with Wire(proxy_command(profile, "clinic", command)) as wire:
        wire.initialize()
        answers += [wire.call(call.tool, call.arguments) for call in calls]
    came = [
        json.dumps(message["params"].get("arguments"))
        for line in received.read_bytes().splitlines()
        if (message := json.loads(line)).get("method") == "tools/call"
    ]
    made = []
    for call, answer in zip(calls, answers, strict=True):
        told = answer.get("result", {}).get("_meta", {}).get("rootguard", [])
        refused = any(each["kind"] == "refused" for each in told)
        arrived = "" if refused else came.pop(0)
        made.append((arrived == json.dumps(call.arguments), told, call.owners, arrived))
    assert came == []
    return made


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_a_server_about_nobody_gets_every_byte_and_the_rest_is_told(
    server: str, tmp_path: Path
) -> None:
    made = outcome(server, tmp_path)
    assert [arrived for same, told, _, arrived in made if not same and not told] == []
    changed = [arrived for same, _, owners, arrived in made if not same and not owners]
    assert len(changed) <= 0.02 * len(made), changed
    assert [arrived for same, _, owners, arrived in made if same and owners] == []
    assert [found for _, _, _, arrived in made for found in leaks(arrived)] == []


def test_there_are_300_calls_of_which_a_few_are_the_owners(tmp_path: Path) -> None:
    calls = [call for server in SERVERS for call in calls_for(server, tmp_path)]
    assert len(calls) >= 300
    assert sum(call.owners for call in calls) <= 0.02 * len(calls)
