"""The shared attacks on tools, if they are beside the project, and what would leave.

In a case `{{ast~}}` is a number between the raw and the released value, so that the two answer
differently, and `{{ast>|yes|no}}` what the raw value answers. None of the cases is in the project.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from rootguard import MemoryStore
from rootguard.channels.mcp.proxy.offers import Arguments, Offers, ServerRequest
from rootguard.channels.mcp.proxy.rewriting import RequestRewriter
from rootguard.errors import RootGuardError
from rootguard.session import Person, parse_profile
from rootguard.template import catalog
from tests.support.shared_tools import FOLDER

ATTACKS = FOLDER / "attacks.jsonl"
_BETWEEN = re.compile(r"\{\{(\w+)~\}\}")
_TRUTH = re.compile(r"\{\{(\w+)>\}\}")
_EITHER = re.compile(r"\{\{(\w+)>\|(.*?)\|(.*?)\}\}")


class Attacked:
    """The person of the cases, released once."""

    def __init__(self) -> None:
        content = json.loads((FOLDER / "person.json").read_text("utf-8"))
        self.values: dict[str, float] = content["values"]
        lines = [f"templates = {json.dumps(list(catalog()))}", 'budget = "0.01"', "[values]"]
        lines += [f"{name} = {value}" for name, value in self.values.items()]
        lines.append("[identifiers]")
        lines += [f'{name} = "{text}"' for name, text in content["identifiers"].items()]
        profile = parse_profile("\n".join(lines), file="me.toml")
        self.person = Person.open(profile, store=MemoryStore(), on_clamp=lambda _: None)
        self._arguments = Arguments(self.person)

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
