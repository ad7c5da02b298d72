"""Eight real MCP servers from the registries that are about nobody, and 300 calls for them.

They are looked for in the folders of ROOTGUARD_NPM (`node_modules`, see `make npm`) and of
ROOTGUARD_MCP_SERVERS (programs that pip installed; several folders as in PATH). Nothing is
downloaded here. A few of the calls are about the person; all others arrive byte for byte.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.canary import NAME, SENTINELS

_PACKAGES = {
    "filesystem": "server-filesystem",
    "memory": "server-memory",
    "sequential-thinking": "server-sequential-thinking",
    "everything": "server-everything",
}
_PROGRAMS = {
    "git": "mcp-server-git",
    "time": "mcp-server-time",
    "fetch": "mcp-server-fetch",
    "calculator": "mcp-server-calculator",
}
SERVERS = (*_PACKAGES, *_PROGRAMS)


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    arguments: dict[str, Any]
    owners: bool = False


def command_of(server: str, folder: Path) -> list[str]:
    """How a server is started, or the reason to skip."""
    if server in _PACKAGES:
        node, place = shutil.which("node"), os.environ.get("ROOTGUARD_NPM", "")
        package = Path(place) / "node_modules" / "@modelcontextprotocol" / _PACKAGES[server]
        if node is None or not place or not package.is_dir():
            pytest.skip(f"{_PACKAGES[server]} is not installed in ROOTGUARD_NPM (make npm)")
        made = [node, str(package / "dist" / "index.js")]
        return [*made, str(folder)] if server == "filesystem" else made
    program = shutil.which(_PROGRAMS[server], path=os.environ.get("ROOTGUARD_MCP_SERVERS", ""))
    if program is None:
        pytest.skip(f"{_PROGRAMS[server]} is not installed in ROOTGUARD_MCP_SERVERS")
    return [program]


# What people keep in files: code, style sheets, tables of things, logs, notes about others.
_FILES = (
    "img { height: 120px; max-width: 50% }",
    "height = 120\nwidth = 318\n",
    "def area(width: float, height: float = 2.5) -> float:\n    return width * height\n",
    '{"name": "demo", "version": "1.73.0", "scripts": {"test": "jest --maxWorkers=2"}}',
    "Cache-Control: max-age=3600, must-revalidate\n",
    "id,name,age\n1,Priya,31\n2,Tomás,47\n",
    "SELECT name, age FROM staff WHERE age > 30 ORDER BY weight DESC LIMIT 10;",
    "192.168.10.54 gateway\n10.0.0.7 printer\n",
    "2024-03-17 10:30 deploy finished in 47 s\n",
    "# Shopping\n- flour 500 g\n- 6 eggs\n- butter 250 g\n",
    "for i in range(54):\n    print(i, i * 1.73)\n",
    "[server]\nport = 8083\nrate = 60\ntimeout = 30\n",
    "The bridge is 93 m tall and 1,090 m long; it opened in 1954.",
    "const ALT = 61, F4 = 115; // key codes",
    "import ast\n\ntree = ast.parse('x = 1')\nassert len(tree.body) == 1\n",
    "Invoice 2024-0047, 3 items, 1,250.00 EUR, due 2024-05-01",
    "<div style='height: 48px; font-weight: 700'>Hello</div>",
    "Dear Ms. Okafor, the meeting moves to room 137 on Friday at 9:30. Best, Lena",
    'resource "aws_instance" "web" { count = 3 }',
    "Peter is 53 years old and his sister weighs 61 kg.",
)
_FACTS = (
    "Speaks Portuguese and French",
    "Is 31 years old",
    "Joined the team on 2023-09-01",
    "Owns the repository payments-api",
    "Her dog weighs 12 kg",
    "Works from Lisbon, UTC+1",
    "Prefers tabs of width 4",
    "Has 47 open pull requests",
    "Uses Python 3.11 and Node 20",
    "Likes the film Iron Man 3",
    "Runs the cluster with 12 nodes at 83 % load",
    "Phone extension 204",
    "Rate limit of the API is 60 requests per minute",
    "Wrote the sodium lamp driver",
    "Born in the same town as Ana",
)
_PEOPLE = ("Alice", "Bruno", "Chandra", "Dilip", "Erika", "Farid", "Greta", "Hugo", "Ines", "Jonas")
_ZONES = (
    "Europe/Paris",
    "Asia/Tokyo",
    "America/New_York",
    "Australia/Sydney",
    "UTC",
    "Asia/Kolkata",
)
_THOUGHTS = (
    "First list the modules that import the parser.",
    "The loop runs 54 times, so the cost is 54 * 47 steps.",
    "If height is None the layout falls back to 120 pixels.",
    "Branch A keeps the cache for 3600 s, branch B for 60.",
    "Node 318 has two children; the tree is 7 levels deep.",
    "We could sort by age of the file, oldest first.",
    "Compare the weights of both parcels: 12 kg and 9.5 kg.",
    "Version 2.13 changed the default rate to 24 frames per second.",
)
_SUMS = (
    "2 + 2",
    "(47 + 61) * 318",
    "54 * 23",
    "1.73 ** 2",
    "sqrt(318) / 7",
    "100 * (1 + 0.05) ** 10",
    "3600 / 24",
    "12 * 9.5 + 0.75",
    "2 ** 16 - 1",
    "round(355 / 113, 6)",
)


def calls_for(server: str, folder: Path) -> list[Call]:
    """What is asked of a server. The eight lists have 300 calls in all."""
    return _LISTS[server](folder)


def _filesystem(folder: Path) -> list[Call]:
    made: list[Call] = []
    for at, content in enumerate(_FILES):
        path = str(folder / f"note-2024-03-{at + 1:02}.txt")
        made += [
            Call("write_file", {"path": path, "content": content}),
            Call("read_text_file", {"path": path, "head": at + 1}),
            Call("get_file_info", {"path": path}),
        ]
    made += [
        Call("edit_file", {"path": str(folder / "note-2024-03-02.txt"), "edits": edits})
        for edits in (
            [{"oldText": "height = 120", "newText": "height = 140"}],
            [{"oldText": "width = 318", "newText": "width = 1.09"}],
        )
    ]
    made += [Call("search_files", {"path": str(folder), "pattern": f"*-{n:02}*"}) for n in range(5)]
    made.append(Call("list_directory", {"path": str(folder)}))
    own = f"My AST was {SENTINELS['ast']} U/L, says {NAME}."
    made.append(Call("write_file", {"path": str(folder / "own.txt"), "content": own}, owners=True))
    return made


def _memory(_: Path) -> list[Call]:
    made = [
        Call(
            "create_entities",
            {"entities": [{"name": p, "entityType": "person", "observations": []}]},
        )
        for p in _PEOPLE
    ]
    for at, fact in enumerate(_FACTS):
        who = _PEOPLE[at % len(_PEOPLE)]
        entry = [{"entityName": who, "contents": [fact, f"note {at + 40}"]}]
        made += [
            Call("add_observations", {"observations": entry}),
            Call("search_nodes", {"query": fact.split()[-1]}),
        ]
    made.append(Call("open_nodes", {"names": list(_PEOPLE[:3])}))
    made.append(Call("read_graph", {}))
    own = [{"entityName": "Alice", "contents": [f"The user's AST is {SENTINELS['ast']} U/L"]}]
    made.append(Call("add_observations", {"observations": own}, owners=True))
    return made


def _thinking(_: Path) -> list[Call]:
    return [
        Call(
            "sequentialthinking",
            {
                "thought": thought,
                "nextThoughtNeeded": at < 39,
                "thoughtNumber": at + 1,
                "totalThoughts": 40,
            },
        )
        for at, thought in enumerate(_THOUGHTS * 5)
    ]


def _everything(_: Path) -> list[Call]:
    made = [Call("echo", {"message": text}) for text in (*_FILES[:10], *_FACTS[:8])]
    made += [Call("get-sum", {"a": 47 + at, "b": 61.5}) for at in range(8)]
    made += [Call("get-resource-links", {"count": at}) for at in range(1, 5)]
    made.append(Call("get-structured-content", {"location": "Chicago"}))
    made.append(Call("echo", {"message": f"I am {NAME}."}, owners=True))
    return made


def _git(folder: Path) -> list[Call]:
    here = str(folder)
    made = [
        Call("git_log", {"repo_path": here, "max_count": count}) for count in (1, 23, 47, 54, 61)
    ]
    made += [
        Call("git_diff_unstaged", {"repo_path": here, "context_lines": lines}) for lines in range(6)
    ]
    made += [
        Call("git_create_branch", {"repo_path": here, "branch_name": f"fix/{n}-rate-limit"})
        for n in (47, 54, 137)
    ]
    messages = ("Set height to 120", "Release 1.73.0", "Close #318: max-age is 3600", "Add 2 tests")
    made += [Call("git_commit", {"repo_path": here, "message": text}) for text in messages]
    made += [Call("git_status", {"repo_path": here}) for _ in range(4)]
    made += [Call("git_show", {"repo_path": here, "revision": "HEAD~0"}) for _ in range(3)]
    return made


def _time(_: Path) -> list[Call]:
    made = [Call("get_current_time", {"timezone": zone}) for zone in _ZONES]
    made += [
        Call(
            "convert_time",
            {"source_timezone": zone, "time": f"{at + 7:02}:47", "target_timezone": "Europe/Paris"},
        )
        for at, zone in enumerate(_ZONES * 4)
    ]
    return made


def _fetch(_: Path) -> list[Call]:
    places = ("page/54", "img?width=800&height=600", "a/b.html#section-23", "q?s=ast+module&n=47")
    return [
        Call("fetch", {"url": f"http://127.0.0.1:9/{place}", "max_length": 5000 + at, "raw": True})
        for at, place in enumerate(places * 6)
    ]


def _calculator(_: Path) -> list[Call]:
    made = [Call("calculate", {"expression": text}) for text in _SUMS * 4]
    own = f"my age {SENTINELS['age']} * my AST {SENTINELS['ast']}"
    made.append(Call("calculate", {"expression": own}, owners=True))
    return made


_LISTS = {
    "filesystem": _filesystem,
    "memory": _memory,
    "sequential-thinking": _thinking,
    "everything": _everything,
    "git": _git,
    "time": _time,
    "fetch": _fetch,
    "calculator": _calculator,
}
