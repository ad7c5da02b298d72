"""Which servers stand behind the proxy, as which services of the policy, and as one server.

One server is a command or an address, and its service is named. Several are those of an
`mcpServers` file, as MCP clients write it, and each is the service of its own name. A service that
the profile's policy does not list is refused before anything is started.

Several servers are shown as one. Lists are the lists of all of them. A name that two of them use is
prefixed with each one's own ("clinic__score"), an address likewise ("clinic+file://x"); a name that
only one uses stays as it is. What goes to a server is at its own tier. The client is spoken to in
the revision with a handshake, which every server understands.
"""

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.mcp import jsonrpc as rpc
from rootguard.channels.mcp.jsonrpc import Message
from rootguard.channels.mcp.proxy.links import Connect, ServerCommand
from rootguard.channels.mcp.proxy.offers import LISTED, Listing
from rootguard.channels.mcp.proxy.relay import ClientRequest, ClientSide, Relay, say
from rootguard.errors import AccessError, PolicyError, RootGuardError
from rootguard.session import Profile
from rootguard.session.policy import read_file

if TYPE_CHECKING:
    from httpx2 import Auth

MAX_BYTES: Final = 1024 * 1024
"""Of an `mcpServers` file; one with a hundred servers has a hundredth of it."""
MAX_SERVERS: Final = 64
"""Each is a process and three threads."""
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?)\}")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_ADDRESSED: Final = frozenset(("resources/read", "resources/subscribe", "resources/unsubscribe"))
_TASKS: Final = frozenset(("tasks/cancel", "tasks/get", "tasks/result"))


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RemoteOptions:
    """How a server on HTTP is spoken to. `oauth`: sign in, with a client of one's own if given."""

    headers: Mapping[str, str] = field(default_factory=dict)
    sse: bool = False
    oauth: Mapping[str, str] | None = None


TokenFile = Callable[[], tuple[Path, bytes]]
"""Where tokens are kept and the vault's key for them; asked only if somebody signs in."""


def servers_of(
    *,
    service: str | None,
    command: Sequence[str] | None,
    url: str | None,
    config: str | os.PathLike[str] | None,
    remote: RemoteOptions | None = None,
    tokens: TokenFile | None = None,
) -> dict[str, Connect]:
    """The servers by the names of their services. `tokens` is where sign-ins are kept."""
    if config is not None:
        return read_config(config, tokens=tokens)
    if service is None:
        raise AccessError("a server without --service")
    if url is not None:
        return {service: remote_server(url, remote or RemoteOptions(), tokens)}
    return {service: ServerCommand(words=list(command or ()))}


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


def read_config(
    path: str | os.PathLike[str], *, tokens: TokenFile | None = None
) -> dict[str, Connect]:
    """The servers of an `mcpServers` file."""
    file, raw = os.fspath(path), read_file(path, MAX_BYTES, "list fewer servers")
    content: object = None
    with suppress(ValueError, RecursionError):
        content = json.loads(raw)
    listed = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(listed, dict) or not listed:
        raise PolicyError(file, "mcpServers", "there is none", 'write {"mcpServers": {…}}')
    if len(listed) > MAX_SERVERS:
        raise PolicyError(file, "mcpServers", f"over {MAX_SERVERS}", "list fewer servers")
    return {name: _server(file, name, entry, tokens) for name, entry in listed.items()}


def _server(file: str, name: str, entry: object, tokens: TokenFile | None) -> Connect:
    if not _NAME.fullmatch(name):
        remedy = "use up to 64 letters, digits, - and _, starting with a letter"
        raise PolicyError(file, "mcpServers", "a key of it is not a name", remedy)
    key = f"mcpServers.{name}"
    if not isinstance(entry, dict):
        raise PolicyError(file, key, "not an object", "write a command or a url")
    url, command = entry.get("url"), entry.get("command")
    if isinstance(url, str) and command is None:
        return remote_server(url, _remote(file, key, url, entry), tokens)
    if not isinstance(command, str) or url is not None:
        raise PolicyError(file, key, "neither a command nor a url", "write one of the two")
    words = entry.get("args", [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise PolicyError(file, f"{key}.args", "not a list of texts", "put them in quotes")
    folder = entry.get("cwd")
    if folder is not None and not isinstance(folder, str):
        raise PolicyError(file, f"{key}.cwd", "not a text", "put it in quotes")
    return ServerCommand(
        words=[command, *words],
        variables={
            name: filled(text, file=file, key=f"{key}.env")
            for name, text in _texts(file, f"{key}.env", entry.get("env", {})).items()
        },
        folder=folder,
    )


def _texts(file: str, key: str, table: object) -> dict[str, str]:
    if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
        raise PolicyError(file, key, "not an object of texts", "put them in quotes")
    return dict(table)


def _remote(file: str, key: str, url: str, entry: Mapping[str, object]) -> RemoteOptions:
    headers = _texts(file, f"{key}.headers", entry.get("headers", {}))
    kind = entry.get("type", entry.get("transport"))
    if kind not in (None, "http", "streamable-http", "streamableHttp", "sse"):
        raise PolicyError(file, f"{key}.type", "no such transport", 'write "http" or "sse"')
    given = entry.get("oauth")
    oauth: dict[str, str] | None = None
    if given is not None and given is not False:
        oauth = {} if given is True else _texts(file, f"{key}.oauth", given)
        unknown = oauth.keys() - {"client_id", "client_secret", "issuer", "scope"}
        if unknown:
            remedy = "use client_id, client_secret, issuer and scope, or write true"
            raise PolicyError(file, f"{key}.oauth.{min(unknown)}", "unknown key", remedy)
    return RemoteOptions(
        headers={name: filled(text, file=file, key=key) for name, text in headers.items()},
        sse=is_sse(url) if kind is None else kind == "sse",
        oauth=None
        if oauth is None
        else {name: filled(text, file=file, key=key) for name, text in oauth.items()},
    )


def is_sse(url: str) -> bool:
    """Whether an address looks like the older transport: its path ends in /sse."""
    return urlsplit(url).path.rstrip("/").endswith("/sse")


def filled(text: str, *, file: str, key: str) -> str:
    """A text with ${NAME} replaced by the environment's variable of that name, which must exist."""

    def value(found: "re.Match[str]") -> str:
        name, _, preset = found[1].partition(":-")
        given = os.environ.get(name)
        if given is None and ":-" not in found[1]:
            problem = f"the environment has no variable {name}"
            raise PolicyError(file, key, problem, f"set {name}, or write ${{{name}:-a default}}")
        return preset if given is None else given

    return _VARIABLE.sub(value, text)


def remote_server(url: str, options: RemoteOptions, tokens: TokenFile | None) -> Connect:
    """A server on HTTP, with what it is told of who asks."""
    from rootguard.channels.mcp.proxy.http import ServerAddress

    sign_in = None
    if options.oauth is not None:
        if tokens is None:
            raise AccessError("signing in without a vault for the tokens")
        sign_in = _signer(url, dict(options.oauth), tokens)
    return ServerAddress(url=url, headers=dict(options.headers), sse=options.sse, sign_in=sign_in)


def _signer(url: str, oauth: dict[str, str], tokens: TokenFile) -> "Callable[[], Auth]":
    def make() -> "Auth":
        from rootguard.channels.mcp.proxy.authorization import SealedTokens, SignIn, authorize

        return authorize(url, SignIn(**oauth), SealedTokens(*tokens()))

    return make


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


class ServerGroup:
    """Routes what the client asks to the server that offers it."""

    def __init__(self, relays: Sequence[Relay]) -> None:
        self.relays = tuple(relays)
        self._live: tuple[Relay, ...] = ()
        # Guards the two tables, which are put in place whole: requests list on threads of their
        # own, and links' threads drop what a server says has changed.
        self._lock = threading.Lock()
        self._names: dict[Listing, dict[str, tuple[Relay, str]]] = {}
        self._shown: dict[Listing, dict[tuple[str, str], str]] = {}

    def start(self, client: ClientSide) -> None:
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

    def ready(self, call: ClientRequest) -> bool:
        """Whether a request goes to one server that is ready for it."""
        found = self._names.get("tools", {}).get(str(call.params.get("name")))
        if call.method != "tools/call" or found is None:
            return False
        return found[0].ready(ClientRequest(call.method, {"name": found[1]}, call.done))

    def handle(self, call: ClientRequest) -> None:
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

    def _handle(self, call: ClientRequest) -> None:
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

    def _initialize(self, call: ClientRequest) -> None:
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

    def _each(self, call: ClientRequest) -> list[tuple[Relay, Message | None]]:
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

            relay.forward(ClientRequest(call.method, call.params, done))
            waits.append(there)
        for there in waits:  # every call is answered or given up by the watch
            there.wait()
        return [(relay, outcome.get(relay.name)) for relay in self._live]

    def _to_all(self, call: ClientRequest) -> None:
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

    def _forward(self, call: ClientRequest, method: str, key: str) -> None:
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
            if shown == own and relay.rewriter.fits(own, uri):
                return relay, uri
        raise RequestRefusedError("unknown_name")

    def _complete(self, call: ClientRequest) -> None:
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

    def _to(self, relay: Relay, call: ClientRequest, params: Message) -> None:
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
