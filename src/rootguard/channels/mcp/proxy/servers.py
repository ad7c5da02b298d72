"""Which servers stand behind the proxy, and as which services of the policy. Deny by default.

One server is a command or an address, and its service is named. Several are those of an
`mcpServers` file, as MCP clients write it, and each is the service of its own name. A service that
the profile's policy does not list is refused before anything is started.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rootguard.channels.mcp.jsonrpc import Message
from rootguard.channels.mcp.proxy.links import Command, Connect
from rootguard.errors import AccessError, PolicyError
from rootguard.session import Profile

MAX_BYTES: Final = 1024 * 1024
MAX_SERVERS: Final = 64
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def servers_of(
    *,
    service: str | None,
    command: Sequence[str] | None,
    url: str | None,
    config: str | os.PathLike[str] | None,
) -> dict[str, Connect]:
    """The servers by the names of their services."""
    if config is not None:
        return read_config(config)
    if service is None:
        raise AccessError("a server without --service")
    if url is not None:
        return {service: _address(url, {})}
    return {service: Command(words=list(command or ()))}


def check_listed(profile: Profile, services: Sequence[str], *, file: str) -> None:
    """Refuse services that the profile's policy does not list."""
    if profile.policy is None:
        remedy = 'write policy = "policy.toml" in place of a budget, and list the service there'
        raise PolicyError(file, "policy", "there is none, so no service may have anything", remedy)
    for service in services:
        if service not in profile.policy.services:
            problem = "the policy does not list this service, so nothing may reach it"
            remedy = f"add [services.{service[:64]}] with a tier to the policy"
            raise PolicyError(file, f"services.{service[:64]}", problem, remedy)


def read_config(path: str | os.PathLike[str]) -> dict[str, Connect]:
    """The servers of an `mcpServers` file."""
    file = os.fspath(path)
    try:
        raw = Path(path).read_bytes()
    except (OSError, ValueError):
        raise PolicyError(file, "", "cannot be read", "check the path") from None
    if len(raw) > MAX_BYTES:
        raise PolicyError(file, "", f"over {MAX_BYTES // 1024} KiB", "list fewer servers")
    content: object = None
    with suppress(ValueError, RecursionError):
        content = json.loads(raw)
    listed = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(listed, dict) or not listed:
        raise PolicyError(file, "mcpServers", "there is none", 'write {"mcpServers": {…}}')
    if len(listed) > MAX_SERVERS:
        raise PolicyError(file, "mcpServers", f"over {MAX_SERVERS}", "list fewer servers")
    return {name: _server(file, name, entry) for name, entry in listed.items()}


def _server(file: str, name: str, entry: object) -> Connect:
    if not _NAME.fullmatch(name):
        remedy = "use up to 64 letters, digits, - and _, starting with a letter"
        raise PolicyError(file, "mcpServers", "a key of it is not a name", remedy)
    key = f"mcpServers.{name}"
    if not isinstance(entry, dict):
        raise PolicyError(file, key, "not an object", "write a command or a url")
    url, command = entry.get("url"), entry.get("command")
    if isinstance(url, str) and command is None:
        return _address(url, _texts(file, f"{key}.headers", entry.get("headers", {})))
    if not isinstance(command, str) or url is not None:
        raise PolicyError(file, key, "neither a command nor a url", "write one of the two")
    words = entry.get("args", [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise PolicyError(file, f"{key}.args", "not a list of texts", "put them in quotes")
    folder = entry.get("cwd")
    if folder is not None and not isinstance(folder, str):
        raise PolicyError(file, f"{key}.cwd", "not a text", "put it in quotes")
    return Command(
        words=[command, *words],
        variables=_texts(file, f"{key}.env", entry.get("env", {})),
        folder=folder,
    )


def _texts(file: str, key: str, table: object) -> dict[str, str]:
    if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
        raise PolicyError(file, key, "not an object of texts", "put them in quotes")
    return dict(table)


def _address(url: str, headers: dict[str, str]) -> Connect:
    from rootguard.channels.mcp.proxy.http import Address

    return Address(url=url, headers=headers)


def merged(parts: Sequence[Mapping[str, Any]]) -> Message:
    """Objects as one: what any of them has; true if any says so."""
    made: Message = {}
    for part in parts:
        for key, value in part.items():
            before = made.get(key)
            if isinstance(value, dict) and isinstance(before, dict):
                made[key] = merged([before, value])
            elif not before:
                made[key] = value
    return made
