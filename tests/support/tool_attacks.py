"""The shared attacks on tools, if they are beside the project, and what would leave.

In a case `{{ast~}}` is a number between the raw and the released value, so that the two answer
differently, and `{{ast>|yes|no}}` what the raw value answers. None of the cases is in the project.

    python -m tests.support.tool_attacks FILE   # all of them live, and what became of them
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rootguard import MemoryStore, open_store
from rootguard.channels.mcp.proxy.offers import Arguments, Offers, ServerRequest
from rootguard.channels.mcp.proxy.rewriting import RequestRewriter
from rootguard.errors import RootGuardError
from rootguard.session import Person, load_profile, parse_profile
from rootguard.template import catalog
from tests.support.mcp_clients import ROOT
from tests.support.mcp_proxies import Wire, proxy_command
from tests.support.programs import PYTHON
from tests.support.shared_tools import FOLDER

SERVER = ROOT / "tests" / "support" / "mcp_cases.py"
ATTACKS = FOLDER / "attacks.jsonl"
_BETWEEN = re.compile(r"\{\{(\w+)~\}\}")
_TRUTH = re.compile(r"\{\{(\w+)>\}\}")
_EITHER = re.compile(r"\{\{(\w+)>\|(.*?)\|(.*?)\}\}")


_POLICY = """
[tiers.tools]
budget = "0.01"
[services.tools]
tier = "tools"
roots = "*"
formulas = "*"
"""


def _profile(content: dict[str, Any], budget: str) -> str:
    lines = [f"templates = {json.dumps(list(catalog()))}", budget, "[values]"]
    lines += [f"{name} = {value}" for name, value in content["values"].items()]
    lines.append("[identifiers]")
    lines += [f'{name} = "{text}"' for name, text in content["identifiers"].items()]
    return "\n".join(lines)


class Attacked:
    """The person of the cases, released once."""

    def __init__(self, folder: Path | None = None) -> None:
        content = json.loads((FOLDER / "person.json").read_text("utf-8"))
        self.values: dict[str, float] = content["values"]
        if folder is None:
            profile = parse_profile(_profile(content, 'budget = "0.01"'), file="me.toml")
            self.person = Person.open(profile, store=MemoryStore(), on_clamp=lambda _: None)
        else:
            (folder / "policy.toml").write_text(_POLICY, "utf-8")
            budget = 'policy = "policy.toml"\nstore = "sqlite:///vault.sqlite3"'
            file = folder / "me.toml"
            file.write_text(_profile(content, budget), "utf-8")
            store = open_store(f"sqlite:///{folder / 'vault.sqlite3'}", create=True)
            self.person = Person.open(
                load_profile(file), store=store, service="tools", on_clamp=lambda _: None
            )
        self._arguments = Arguments(self.person)

    def filled(self, line: str) -> dict[str, Any]:
        """A case with this person's numbers in its places."""
        made: dict[str, Any] = self._filled(json.loads(line))
        return made

    def leaks(self, line: str) -> bool:
        """Whether something of a case that must not leave does; a refusal sends nothing."""
        case = self._filled(json.loads(line))
        if "must_not_leave" not in case:
            return False
        try:
            sent = self._sent(case)
        except RootGuardError:
            return False
        return any(_holds(sent, secret) for secret in case["must_not_leave"])

    def _sent(self, case: dict[str, Any]) -> object:
        tool = case["tool"]
        if "asks" in tool:
            asked = ServerRequest(tool["asks"]["method"], tool["asks"]["params"])
            return RequestRewriter(self._arguments, Offers()).reply(asked, case["reply"])
        reading = self._arguments.reading(tool["name"], tool["description"], tool["inputSchema"])
        return self._arguments.fill(reading, case["arguments"])

    def _between(self, root: str) -> float:
        return (self.values[root] + self.person.number(root)) / 2

    def _above(self, root: str) -> bool:
        return self.values[root] > self._between(root)

    def _filled(self, node: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(node, dict):
            return {self._filled(key): self._filled(value) for key, value in node.items()}
        if isinstance(node, list):
            return [self._filled(value) for value in node]
        if not isinstance(node, str):
            return node
        text = _BETWEEN.sub(lambda found: f"{self._between(found[1]):.9g}", node)
        if truth := _TRUTH.fullmatch(text):
            return self._above(truth[1])
        if either := _EITHER.fullmatch(text):
            chosen = either[2] if self._above(either[1]) else either[3]
            return float(chosen[1:]) if chosen.startswith("#") else chosen
        return text


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one case: what arrived, if anything did, and what the client was told."""

    case: dict[str, Any]
    arrived: list[object]
    answer: dict[str, Any]

    @property
    def told(self) -> list[dict[str, Any]]:
        meta = self.answer.get("result", {}).get("_meta", {})
        listed: list[dict[str, Any]] = meta.get("rootguard", [])
        return listed

    @property
    def leaks(self) -> bool:
        secrets = self.case.get("must_not_leave", ())
        return any(_holds(each, secret) for each in self.arrived for secret in secrets)

    @property
    def unchanged(self) -> bool:
        given = json.dumps(self.case["arguments"])
        return [json.dumps(each) for each in self.arrived] == [given]

    @property
    def silent(self) -> bool:
        """Whether something else arrived than was written, or nothing, and nobody was told."""
        given = [self.case["arguments"]]
        if self.case.get("reply") is not None:
            given.append(self.case["reply"])
        same = [json.dumps(each) for each in given] == [json.dumps(each) for each in self.arrived]
        return not same and not self.told


def live(lines: Sequence[str], folder: Path) -> list[Outcome]:
    """Every case through `rootguard mcp proxy`, in a process of its own, before a real server."""
    me = Attacked(folder)
    cases = [me.filled(line) for line in lines]
    written, log = folder / "cases.jsonl", folder / "log.jsonl"
    written.write_text("".join(json.dumps(case) + "\n" for case in cases), "utf-8")
    log.touch()
    server = [*PYTHON, str(SERVER), str(written), str(log)]
    reply: dict[str, Any] = {}
    replies = {
        method: lambda _: reply["now"]
        for method in ("elicitation/create", "sampling/createMessage")
    }
    answers = []
    command = proxy_command(folder / "me.toml", "tools", server)
    with Wire(command, replies) as wire:
        wire.initialize({"elicitation": {}, "sampling": {}})
        for case in cases:
            reply["now"] = case.get("reply")
            wire.ask("tools/list")
            answers.append(wire.call(case["tool"]["name"], case["arguments"]))
    arrived: list[list[object]] = [[] for _ in cases]
    for line in log.read_text("utf-8").splitlines():
        entry = json.loads(line)
        arrived[entry["case"]].append(entry["content"])
    return [
        Outcome(case=case, arrived=came, answer=answer)
        for case, came, answer in zip(cases, arrived, answers, strict=True)
    ]


def _leaves(node: object) -> Iterator[object]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield key
            yield from _leaves(value)
    elif isinstance(node, list):
        for value in node:
            yield from _leaves(value)
    else:
        yield node


def _holds(sent: object, secret: object) -> bool:
    for leaf in _leaves(sent):
        if isinstance(secret, bool) or isinstance(leaf, bool):
            if leaf is secret:
                return True
        elif isinstance(secret, int | float):
            digits = re.escape(f"{secret:g}")
            if leaf == secret or re.search(rf"(?<![\d.]){digits}(?!\d|\.\d)", str(leaf)):
                return True
        elif isinstance(leaf, str) and str(secret).casefold() in leaf.casefold():
            return True
    return False


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for each in live(Path(sys.argv[1]).read_text("utf-8").splitlines(), Path(place)):
            if "must_not_leave" in each.case:
                word = "LEAKS" if each.leaks else "fine" if each.arrived else "refused"
            else:
                word = "kept" if each.unchanged else "changed" if each.arrived else "refused"
            silent = " SILENT" if each.silent else ""
            said = f"{each.case['arguments']} -> {each.arrived} {each.told}"
            sys.stdout.write(f"{word}{silent} {each.case['id']} {said}\n")
