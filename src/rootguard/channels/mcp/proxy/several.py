"""Several servers behind one proxy, as one server.

Lists are the lists of all of them. A name that two of them use is prefixed with each one's own
("clinic__score"), an address likewise ("clinic+file://x"); a name that only one uses stays as it
is. Each server is a service of its own: what goes to it is at its tier. The client is spoken to in
the revision with a handshake, which every server understands.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Final

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.mcp import jsonrpc as rpc
from rootguard.channels.mcp.jsonrpc import Message
from rootguard.channels.mcp.proxy.calls import Call, Client, say
from rootguard.channels.mcp.proxy.offers import LISTED, Listing
from rootguard.channels.mcp.proxy.relay import Relay
from rootguard.channels.mcp.proxy.servers import merged
from rootguard.errors import RootGuardError

_ADDRESSED: Final = frozenset(("resources/read", "resources/subscribe", "resources/unsubscribe"))
_TASKS: Final = frozenset(("tasks/cancel", "tasks/get", "tasks/result"))


class Several:
    """Routes what the client asks to the server that offers it."""

    def __init__(self, relays: Sequence[Relay]) -> None:
        self.relays = tuple(relays)
        self._live: tuple[Relay, ...] = ()
        self._lock = threading.Lock()
        self._names: dict[Listing, dict[str, tuple[Relay, str]]] = {}
        self._shown: dict[Listing, dict[tuple[str, str], str]] = {}

    def start(self, client: Client) -> None:
        """Connect to all; one that cannot be reached is left out until the next start."""
        live = []
        for relay in self.relays:
            try:
                relay.start(client)
            except RootGuardError as problem:
                say(f"the server {relay.name} is left out: {problem}")
                continue
            live.append(relay)
        self._live = tuple(live)
        if not live:
            raise RequestRefusedError("upstream_unreachable")

    def ready(self, call: Call) -> bool:
        """Whether a request goes to one server that is ready for it."""
        found = self._names.get("tools", {}).get(str(call.params.get("name")))
        if call.method != "tools/call" or found is None:
            return False
        return found[0].ready(Call(call.method, {"name": found[1]}, call.done))

    def handle(self, call: Call) -> None:
        """Send a request where it belongs; it is answered in any case."""
        try:
            self._handle(call)
        except Exception as problem:  # noqa: BLE001 - only its class decides what is said
            call.refuse(problem)

    def shown(self, method: str, params: Message, relay: object) -> Message | None:
        """A notification as the client gets it."""
        if method == "notifications/resources/updated" and isinstance(relay, Relay):
            own = str(params.get("uri"))
            known = self._shown.get("resources", {})
            return {**params, "uri": known.get((relay.name, own), own)}
        if method.endswith("/list_changed"):
            with self._lock:
                for listing in _listings(method):
                    self._names.pop(listing, None)
        return params

    def _handle(self, call: Call) -> None:
        if call.method == "initialize":
            self._initialize(call)
        elif call.method in LISTED:
            call.answer({LISTED[call.method][1]: self._list(call.method)})
        elif call.method == "tools/call":
            self._forward(call, "tools/list", "name")
        elif call.method == "prompts/get":
            self._forward(call, "prompts/list", "name")
        elif call.method in _ADDRESSED:
            relay, own = self._address(call.params.get("uri"))
            self._to(relay, call, {**call.params, "uri": own})
        elif call.method == "completion/complete":
            self._complete(call)
        elif call.method == "logging/setLevel":
            self._to_all(call)
        elif call.method in _TASKS:
            task = call.params.get("taskId")
            owner = (r for r in self._live if isinstance(task, str) and task in r.offers.opaque)
            self._to(_first(owner), call, call.params)
        else:
            call.fail(rpc.plain(rpc.METHOD_NOT_FOUND))

    def _initialize(self, call: Call) -> None:
        answers = self._each(call)
        found = [(relay, result) for relay, result in answers if result is not None]
        if not found:
            raise RequestRefusedError("upstream_unreachable")
        self._live = tuple(relay for relay, _ in found)
        results = [result for _, result in found]
        said = [
            f"{relay.name}: {result['instructions']}"
            for relay, result in found
            if isinstance(result.get("instructions"), str)
        ]
        capabilities = [c for r in results if isinstance(c := r.get("capabilities"), dict)]
        made: Message = {
            "protocolVersion": min(str(result.get("protocolVersion")) for result in results),
            "capabilities": merged(capabilities),
            "serverInfo": {"name": "rootguard-proxy", "version": version("rootguard")},
        }
        if said:
            made["instructions"] = "\n\n".join(said)
        call.answer(made)

    def _each(self, call: Call) -> list[tuple[Relay, Message | None]]:
        """The same request to every server, and what they answered; None is an error."""
        outcome: dict[str, Message | None] = {}
        waits = []
        for relay in self._live:
            there = threading.Event()

            def done(
                result: Message | None,
                error: Message | None,  # noqa: ARG001
                name: str = relay.name,
                there: threading.Event = there,
            ) -> None:
                outcome[name] = result
                there.set()

            relay.forward(Call(call.method, call.params, done))
            waits.append(there)
        for there in waits:  # every call is answered or given up by the watch
            there.wait()
        return [(relay, outcome.get(relay.name)) for relay in self._live]

    def _to_all(self, call: Call) -> None:
        if all(result is None for _, result in self._each(call)):
            call.fail(rpc.plain(rpc.METHOD_NOT_FOUND))
        else:
            call.answer({})

    def _list(self, method: str) -> list[Message]:
        """Every server's list in one, with names that are told apart."""
        listing, _, key = LISTED[method]
        lists: list[tuple[Relay, list[Message]]] = []
        for relay in self._live:
            try:
                lists.append((relay, relay.list_all(method)))
            except RequestRefusedError:  # it has no such list, or is down just now
                lists.append((relay, []))
        used = Counter(str(entry.get(key)) for _, entries in lists for entry in entries)
        prefix = _prefixed_name if key == "name" else _prefixed_uri
        names: dict[str, tuple[Relay, str]] = {}
        entries_shown: list[Message] = []
        for relay, entries in lists:
            for entry in entries:
                own = str(entry.get(key))
                shown = own if used[own] == 1 else prefix(relay.name, own)
                if shown not in names:
                    names[shown] = (relay, own)
                    entries_shown.append({**entry, key: shown})
        with self._lock:
            self._names[listing] = names
            self._shown[listing] = {(r.name, own): shown for shown, (r, own) in names.items()}
        return entries_shown

    def _lookup(self, method: str) -> Mapping[str, tuple[Relay, str]]:
        listing = LISTED[method][0]
        if listing not in self._names:
            self._list(method)
        return self._names.get(listing, {})

    def _forward(self, call: Call, method: str, key: str) -> None:
        found = self._lookup(method).get(str(call.params.get(key)))
        if found is None:
            raise RequestRefusedError("unknown_name")
        self._to(found[0], call, {**call.params, key: found[1]})

    def _address(self, uri: object) -> tuple[Relay, str]:
        """Whose address it is: listed, said before, of a template, or prefixed."""
        if not isinstance(uri, str):
            raise RequestRefusedError("wrong_type")
        listed = self._lookup("resources/list").get(uri)
        if listed is not None:
            return listed
        said = [relay for relay in self._live if uri in relay.offers.uris]
        if len(said) == 1:
            return said[0], uri
        for relay in self._live:
            prefix = _prefixed_uri(relay.name, "")
            if uri.startswith(prefix):
                return relay, uri.removeprefix(prefix)
        for shown, (relay, own) in self._lookup("resources/templates/list").items():
            if shown == own and relay.outward.fits(own, uri):
                return relay, uri
        raise RequestRefusedError("unknown_name")

    def _complete(self, call: Call) -> None:
        ref = call.params.get("ref")
        if not isinstance(ref, dict):
            raise RequestRefusedError("wrong_type")
        prompt = ref.get("type") == "ref/prompt"
        key = "name" if prompt else "uri"
        method = "prompts/list" if prompt else "resources/templates/list"
        found = self._lookup(method).get(str(ref.get(key)))
        if found is None:
            raise RequestRefusedError("unknown_name")
        self._to(found[0], call, {**call.params, "ref": {**ref, key: found[1]}})

    def _to(self, relay: Relay, call: Call, params: Message) -> None:
        call.params = params
        relay.forward(call)


def _first(relays: Iterable[Relay]) -> Relay:
    for relay in relays:
        return relay
    raise RequestRefusedError("bad_value")


def _prefixed_name(server: str, name: str) -> str:
    return f"{server}__{name}"


def _prefixed_uri(server: str, uri: str) -> str:
    return f"{server.replace('_', '-')}+{uri}"


def _listings(method: str) -> tuple[Listing, ...]:
    if method == "notifications/tools/list_changed":
        return ("tools",)
    if method == "notifications/prompts/list_changed":
        return ("prompts",)
    return ("resources", "templates")
