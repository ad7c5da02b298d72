"""What a server behind the proxy has offered: tools, prompts, resources, and strings of its own.

The proxy sends a name, an address or an opaque string on as it is only if the server itself said it
before: then it tells the server nothing. All of it is public, and bounded.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from rootguard.channels.mcp.jsonrpc import Message

MAX_OFFERS: Final = 4096
"""Entries of one list, and strings remembered: a server that says more cannot fill the memory, and
no agent chooses among so many."""
MAX_PAGES: Final = 64
"""Pages of one list: a server whose pages never end is not asked for ever."""

Listing = Literal["tools", "prompts", "templates", "resources"]
LISTED: Final[Mapping[str, tuple[Listing, str, str]]] = {
    "tools/list": ("tools", "tools", "name"),
    "prompts/list": ("prompts", "prompts", "name"),
    "resources/templates/list": ("templates", "resourceTemplates", "uriTemplate"),
    "resources/list": ("resources", "resources", "uri"),
}
"""By method: what is listed, under which key, and what an entry goes by."""
_OPAQUE: Final = ("nextCursor", "requestState", "taskId")


class IssuedStrings:
    """Strings that the server said, as digests; the oldest are forgotten."""

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def add(self, text: str) -> None:
        digest = _digest(text)
        self._digests[digest] = None
        self._digests.move_to_end(digest)
        if len(self._digests) > MAX_OFFERS:
            self._digests.popitem(last=False)

    def __contains__(self, text: str) -> bool:
        return _digest(text) in self._digests


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request of the server to the client: what decides how its answer is read."""

    method: str
    params: Message


class Offers:
    """One server's offers, learned from what passes. Safe to share by threads."""

    def __init__(self) -> None:
        # Guards what is learned, on the link's thread. Others read without it, so a list is never
        # changed: another is put in its place.
        self._lock = threading.Lock()
        self._listed: dict[Listing, dict[str, Message]] = {
            "tools": {},
            "prompts": {},
            "templates": {},
            "resources": {},
        }
        self._complete: set[Listing] = set()
        self.uris = IssuedStrings()
        self.opaque = IssuedStrings()
        self.inputs: OrderedDict[str, ServerRequest] = OrderedDict()

    def get(self, listing: Listing, name: str) -> Message | None:
        return self._listed[listing].get(name)

    def all(self, listing: Listing) -> list[Message]:
        return list(self._listed[listing].values())

    def complete(self, listing: Listing) -> bool:
        """Whether the list was seen to its end since it last changed."""
        return listing in self._complete

    def changed(self, method: str) -> None:
        """The server says that a list has changed."""
        with self._lock:
            if method == "notifications/tools/list_changed":
                self._complete.discard("tools")
            elif method == "notifications/prompts/list_changed":
                self._complete.discard("prompts")
            elif method == "notifications/resources/list_changed":
                self._complete -= {"resources", "templates"}

    def learn(self, method: str, params: Mapping[str, Any], result: Message) -> None:
        with self._lock:
            if method in LISTED:
                self._learn_list(method, params, result)
            for key in _OPAQUE:
                if isinstance(result.get(key), str):
                    self.opaque.add(result[key])
            for task in _entries(result.get("tasks"), result.get("task")):
                if isinstance(task.get("taskId"), str):
                    self.opaque.add(task["taskId"])
            wanted = result.get("inputRequests")
            for key, asked in wanted.items() if isinstance(wanted, dict) else ():
                if isinstance(asked, dict) and isinstance(asked.get("method"), str):
                    given = asked.get("params")
                    self.inputs[key] = ServerRequest(
                        asked["method"], given if isinstance(given, dict) else {}
                    )
                    if len(self.inputs) > MAX_OFFERS:
                        self.inputs.popitem(last=False)
            for uri in _uris(result):
                self.uris.add(uri)

    def _learn_list(self, method: str, params: Mapping[str, Any], result: Message) -> None:
        listing, key, name = LISTED[method]
        kept = {} if params.get("cursor") is None else dict(self._listed[listing])
        for entry in _entries(result.get(key)):
            if isinstance(entry.get(name), str) and len(kept) < MAX_OFFERS:
                kept[entry[name]] = entry
        self._listed[listing] = kept
        if isinstance(result.get("nextCursor"), str):
            self._complete.discard(listing)  # a client that reads on, or not, has begun anew
        else:
            self._complete.add(listing)


def _entries(*values: object) -> Iterator[Message]:
    for value in values:
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict):
                yield entry


def _uris(result: Message) -> Iterator[str]:
    """Addresses in listings, links, embedded resources and what was read."""
    blocks = list(_entries(result.get("resources"), result.get("content"), result.get("contents")))
    blocks += [m["content"] for m in _entries(result.get("messages")) if "content" in m]
    for block in _entries(*blocks):
        for place in _entries(block, block.get("resource")):
            if isinstance(place.get("uri"), str):
                yield place["uri"]
