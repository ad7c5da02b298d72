"""Which servers a file lists, within which limits, and how several answers become one."""

import json
from pathlib import Path

import pytest

from rootguard.channels.mcp.proxy.http import ServerAddress
from rootguard.channels.mcp.proxy.links import ServerCommand
from rootguard.channels.mcp.proxy.servers import merged, read_config, servers_of
from rootguard.errors import AccessError, PolicyError


def listed(tmp_path: Path, servers: object) -> Path:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def test_a_server_is_a_command_or_an_address(tmp_path: Path) -> None:
    entry = {"command": "run", "args": ["a"], "env": {"K": "v"}, "cwd": "/x"}
    headers = {"key": "secret"}
    servers = {"one": entry, "two": {"url": "http://x", "headers": headers}, "b": {"command": "b"}}
    found = read_config(listed(tmp_path, servers))
    assert found == {
        "one": ServerCommand(words=["run", "a"], variables={"K": "v"}, folder="/x"),
        "two": ServerAddress(url="http://x", headers=headers),
        "b": ServerCommand(words=["b"]),
    }
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        (5, "one"),
        ({}, "one"),
        ({"command": "a", "url": "b"}, "one"),
        ({"command": 5}, "one"),
        ({"command": "a", "args": "b"}, "one.args"),
        ({"command": "a", "args": [5]}, "one.args"),
        ({"command": "a", "cwd": 5}, "one.cwd"),
        ({"command": "a", "env": {"K": 5}}, "one.env"),
        ({"url": "a", "headers": []}, "one.headers"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, entry: object, key: str) -> None:
    with pytest.raises(PolicyError, match=f"mcpServers.{key}"):
        read_config(listed(tmp_path, {"one": entry}))


def test_a_file_has_so_many_servers_and_bytes(tmp_path: Path) -> None:
    def of(count: int) -> Path:
        return listed(tmp_path, {f"s{place}": {"command": "a"} for place in range(count)})

    assert len(read_config(of(64))) == 64
    with pytest.raises(PolicyError, match="over 64"):
        read_config(of(65))
    file = of(1)
    file.write_text(file.read_text().ljust(1_048_576))
    assert len(read_config(file)) == 1
    file.write_text(file.read_text() + " ")
    with pytest.raises(PolicyError, match="over 1024 KiB"):
        read_config(file)


@pytest.mark.parametrize("content", [None, "{", "[]", '{"mcpServers": {}}', '{"mcpServers": [1]}'])
def test_what_lists_no_servers_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "servers.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(PolicyError, match="cannot be read" if content is None else "there is none"):
        read_config(file)
    with pytest.raises(PolicyError, match="not a name"):
        read_config(listed(tmp_path, {"1": {"command": "a"}}))


def test_a_single_server_needs_the_name_of_its_service() -> None:
    with pytest.raises(AccessError):
        servers_of(service=None, url="http://x", command=None, config=None)
    assert servers_of(service="s", url="http://x", command=None, config=None) == {
        "s": ServerAddress(url="http://x")
    }
    assert servers_of(service="s", command=["a", "b"], url=None, config=None) == {
        "s": ServerCommand(words=["a", "b"])
    }


def test_capabilities_of_several_are_what_any_of_them_has() -> None:
    one = {"tools": {"listChanged": False}, "logging": {}, "x": 1}
    two = {"tools": {"listChanged": True, "y": 1}, "logging": {"z": 2}, "x": 2}
    assert merged([one, two]) == {
        "tools": {"listChanged": True, "y": 1},
        "logging": {"z": 2},
        "x": 1,
    }
    assert merged([]) == {}
