"""One server behind the proxy: who waits for which answer, and what is done when none comes.

Requests go under ids of our own, so that a second answer, or one that nobody asked for, belongs to
nothing and is dropped. A server that ends, hangs, floods or says what cannot be read costs the
requests that wait for it, each of which is answered with a fault; the next request starts it anew.
Nothing is logged but what happened to which server.

Three kinds of thread meet in a relay:

- The client's thread reads the client's lines (`Proxy.serve`). It sends a request itself if that
  needs no waiting (`ready`); otherwise a thread of that request's own does (`forward`), so that a
  server which is slow to list its tools holds up no other request, and no cancellation.
- The link's thread reads the server's lines (`_hear`) and tells of its end (`_lost`). It answers
  requests, so it must never wait for an answer: nothing that it calls may call `ask`.
- The watch's thread looks for requests that wait too long (`watch`).

What they share is guarded by `_lock`, which is held for a few lines at a time and never while
something is sent, restored or handed to the client: these may block, and may come back in here.
Who takes a request out of `_waiting` answers it, so each is answered once. `_reviving` is held by
the one thread that starts a server anew, for as long as that takes; it is taken before `_lock`,
never after.
"""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final, Protocol

from rootguard.channels.faults import FAULTS, Code, Fault, RequestRefusedError, fault_of
from rootguard.channels.mcp import jsonrpc as rpc
from rootguard.channels.mcp.jsonrpc import Id, Limits, Message
from rootguard.channels.mcp.proxy.links import Connect, Link
from rootguard.channels.mcp.proxy.offers import (
    LISTED,
    MAX_PAGES,
    AmbiguousParameterError,
    MissingValueError,
    Offers,
    ServerRequest,
    telling,
)
from rootguard.channels.mcp.proxy.rewriting import ReplyRestorer, RequestRewriter
from rootguard.channels.text.edits import Change
from rootguard.errors import RootGuardError
from rootguard.session.session import speak_to

# The protocol's methods that pass; what stands in none of these lists is dropped or refused.
PROGRESS: Final = "notifications/progress"
CANCELLED: Final = "notifications/cancelled"
PASSED: Final = frozenset(
    (
        *("notifications/elicitation/complete", "notifications/message"),
        *("notifications/prompts/list_changed", "notifications/resources/list_changed"),
        *("notifications/resources/updated", "notifications/subscriptions/acknowledged"),
        *("notifications/tasks/status", "notifications/tools/list_changed"),
    )
)
ASKED: Final = frozenset(
    (
        *("elicitation/create", "roots/list", "sampling/createMessage"),
        *("tasks/cancel", "tasks/get", "tasks/result"),
    )
)
# A request that is answered when the subscription ends, so it may wait for ever.
UNENDING: Final = frozenset(("subscriptions/listen",))
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
OnAnswer = Callable[[Message | None, Message | None], None]
"""Called once, with a result or with an error."""
# Faults that an agent cannot mend by other arguments: protocol errors, not results of the tool.
_DOWN: Final = frozenset(
    (
        *("unknown_name", "unreadable_reply", "upstream_timeout", "upstream_unreachable"),
        *("upstream_forbidden", "upstream_unauthorized"),
    )
)


class ClientSide(Protocol):
    """The client's side, as a relay sees it, so that relays stand below the proxy."""

    def tell(self, method: str, params: Message, relay: object) -> None: ...

    def ask(self, method: str, params: Message, done: OnAnswer) -> Id:
        """Pass a request on. `done` is called by the client's thread, maybe before this returns."""
        ...

    def forget(self, name: Id) -> None:
        """The server no longer wants the answer to its request."""
        ...


@dataclass(slots=True, eq=False)
class ClientRequest:
    """A request of the client; the first answer counts."""

    method: str
    params: Message
    done: OnAnswer = field(repr=False)
    name: Id = 0
    relay: "Relay | None" = None
    sent: Id | None = None
    over: bool = False
    told: list[Change] = field(default_factory=list)
    """What left otherwise than the client wrote it."""

    def answer(self, result: Message) -> None:
        if not self.over:
            self.over = True
            self.done(result, None)

    def fail(self, error: Message) -> None:
        if not self.over:
            self.over = True
            self.done(None, error)

    def refuse(self, problem: BaseException) -> None:
        """End it with the fault of a problem: a tool's result if it is a tool's call."""
        fault = fault_of(problem)
        code, text = str(fault.code), fault.text
        if isinstance(problem, AmbiguousParameterError | MissingValueError):
            code, text = problem.code, str(problem)
        self.told = [*refused_places(problem, fault)]
        if self.method == "tools/call" and code not in _DOWN:
            self.answer(explained({**rpc.refused_tool(code, text), **self._finished}, self.told))
        else:
            self.fail({**rpc.refusal(fault), "message": text, "data": {"code": code}})

    @property
    def _finished(self) -> Message:
        """What a revision without a handshake, which every request names, has results say."""
        meta = self.params.get("_meta")
        named = isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta
        return {"resultType": "complete"} if named else {}

    @property
    def token(self) -> Id | None:
        meta = self.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None


class Allowance:
    """How much one server may say unasked: so much at once, and so much more each second."""

    def __init__(self, limits: Limits) -> None:
        self._most = float(limits.burst)
        self._steady = limits.steady
        self._left = self._most
        self._counted = time.monotonic()

    def take(self) -> bool:
        """Take one; False if there is none left."""
        now = time.monotonic()
        self._left = min(self._left + (now - self._counted) * self._steady, self._most) - 1
        self._counted = now
        return self._left >= 0


@dataclass(slots=True)
class _Pending:
    call: ClientRequest
    params: Message
    """As the server got them."""
    until: float
    """When it is given up, by the clock of `time.monotonic`; progress moves it."""
    heard: int
    """How often the server had answered or asked when this was sent."""


class Relay:
    """One server. Safe to share by threads."""

    def __init__(
        self,
        name: str,
        connect: Connect,
        rewriter: RequestRewriter,
        restorer: ReplyRestorer,
        offers: Offers,
        limits: Limits,
        *,
        explain: bool = False,
    ) -> None:
        self.name = name
        self._explains = explain
        self.rewriter = rewriter
        self.restorer = restorer
        self.offers = offers
        self._connect = connect
        self._limits = limits
        self._client: ClientSide | None = None
        # What each guards, and their order, is said at the top of this module.
        self._lock = threading.Lock()
        self._reviving = threading.Lock()
        self._link: Link | None = None
        # Counts the links. A process that was ended may have lines under way, and its end is told
        # late; what comes from another generation than the present one is ignored.
        self._generation = 0
        self._next = 0
        self._waiting: dict[Id, _Pending] = {}
        """Requests to the server, by the ids under which they were sent."""
        self._asked: dict[Id, Id | None] = {}
        """Requests of the server, and under which ids the client has them (None: not yet known)."""
        self._heard = 0
        self._allowance = Allowance(limits)
        # What a server that is started anew has to be told before it is asked anything.
        self._hello: Message | None = None
        self._envelope: Message = {}
        self._greeted = False
        self._closed = False

    def start(self, client: ClientSide) -> None:
        """Connect for the first time. Raises what `channels.faults` maps."""
        self._client = client
        self._open()

    def ready(self, call: ClientRequest) -> bool:
        """Whether a request can be sent without waiting for the server first."""
        if self._link is None:
            return False
        if call.method == "tools/call":
            return self.offers.get("tools", str(call.params.get("name"))) is not None
        return call.method not in ("prompts/get", "resources/read", "completion/complete")

    def forward(self, call: ClientRequest) -> None:
        """Send a request of the client; it is answered in any case."""
        try:
            meta = self.rewriter.meta(call.params)
            self._envelope = {key: meta[key] for key in meta if not key.endswith("logLevel")}
            self._revive()
            self._prepare(call)
            with telling() as told:
                params = self._rewritten(call)
            call.told += told
            self._explain(call)
            self._send(call, params, meta)
        except Exception as problem:  # noqa: BLE001 - only its class decides what is said
            call.refuse(problem)
            self._explain(call)

    def _rewritten(self, call: ClientRequest) -> Message:
        """A request as it may leave. A refusal stands in the owner's audit log."""
        name = call.params.get("name")
        speak_to(self.name, name if isinstance(name, str) else call.method)
        try:
            return self.rewriter.params(call.method, call.params)
        except RootGuardError as problem:
            self.rewriter.note_refusal(problem, refused_places(problem, fault_of(problem)))
            raise

    def ask(self, method: str, params: Message) -> Message:
        """A request of the proxy itself, answered or refused. Waits: never on a link's thread."""
        outcome: list[tuple[Message | None, Message | None]] = []
        there = threading.Event()  # set, by whoever answers, once `outcome` has its entry

        def done(result: Message | None, error: Message | None) -> None:
            outcome.append((result, error))
            there.set()

        self._send(ClientRequest(method, {}, done), params, self._envelope)
        there.wait(self._limits.start)  # not `answer`: a request of the client waits behind this
        if not outcome:
            raise RequestRefusedError("upstream_timeout")
        result = outcome[0][0]
        if result is None:
            raise RequestRefusedError("unreadable_reply")
        return result

    def tell(self, method: str, params: Message | None = None) -> None:
        """Send a notification, if there is somebody to hear it."""
        if method == "notifications/initialized":
            self._greeted = True
        link = self._link
        if link is not None:
            self._write(link, rpc.notification(method, params))

    def cancel(self, call: ClientRequest, reason: object) -> None:
        """The client no longer wants an answer."""
        # Before the lock: a `_send` under way sees it and sends nothing, or has set `sent` by then.
        call.over = True
        with self._lock:
            sent = call.sent
            known = sent is not None and self._waiting.pop(sent, None) is not None
        if known:
            self._give_up(sent, reason)

    def list_all(self, method: str) -> list[Message]:
        """A whole list, asked for by the proxy itself."""
        key = LISTED[method][1]
        params: Message = {}
        found: list[Message] = []
        for _ in range(MAX_PAGES):
            page = self.ask(method, params)
            entries = page.get(key)
            found += (
                [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
            )
            if not isinstance(page.get("nextCursor"), str):
                break
            params = {"cursor": page["nextCursor"]}
        return found

    def watch(self, now: float) -> None:
        """Give up what waits too long; a server that said nothing meanwhile is ended."""
        with self._lock:
            late = [(sent, w) for sent, w in self._waiting.items() if w.until < now]
            for sent, _ in late:
                del self._waiting[sent]
            silent = any(waiting.heard == self._heard for _, waiting in late)
        # In this order: the server is told while it is there, then it is ended if it has said
        # nothing at all meanwhile (one that answers others is only slow), and the callers hear of
        # it last, since whoever does may ask again, of a new server.
        for sent, _ in late:
            self._give_up(sent, None)
        if silent:
            self._drop("upstream_timeout")
        for _, waiting in late:
            waiting.call.refuse(RequestRefusedError("upstream_timeout"))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            link, self._link = self._link, None
            self._generation += 1  # its end is expected, and nobody's loss
        if link is not None:
            link.close()

    def _open(self) -> None:
        with self._lock:
            self._generation += 1
            mine = self._generation
            self._allowance = Allowance(self._limits)
        link = self._connect(
            lambda line: self._hear(mine, line), lambda code: self._lost(mine, code), self._limits
        )
        # Connecting takes long, so it is done without the lock: the server may have ended again by
        # now, or the proxy, and then nobody would close this link.
        with self._lock:
            if self._generation == mine and not self._closed:
                self._link = link
                return
        link.close(at_once=True)
        raise RequestRefusedError("upstream_unreachable")

    def _revive(self) -> None:
        """Start the server anew if it is gone, and greet it as the client did."""
        if self._link is not None:
            return
        with self._reviving:
            if self._link is not None:  # another request has started it meanwhile
                return
            if self._closed:
                raise RequestRefusedError("upstream_unreachable")
            self._open()
            say(f"the server {self.name} is started anew")
            if self._hello is not None:
                self.ask("initialize", self._hello)
                if self._greeted:
                    self.tell("notifications/initialized")

    def _prepare(self, call: ClientRequest) -> None:
        """Know what is offered before it is asked for."""
        name = str(call.params.get("name"))
        if call.method == "tools/call" and self.offers.get("tools", name) is None:
            if not self.offers.complete("tools"):
                self.list_all("tools/list")
        elif call.method == "prompts/get" and self.offers.get("prompts", name) is None:
            if not self.offers.complete("prompts"):
                self.list_all("prompts/list")
        elif call.method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
            uri = call.params.get("uri")
            if isinstance(uri, str) and uri not in self.offers.uris:
                for method in ("resources/list", "resources/templates/list"):
                    self._list_if_offered(method)
        elif call.method == "completion/complete":
            for method in ("prompts/list", "resources/templates/list"):
                self._list_if_offered(method)

    def _list_if_offered(self, method: str) -> None:
        if not self.offers.complete(LISTED[method][0]):
            with suppress(RequestRefusedError):  # there is no such list
                self.list_all(method)

    def _send(self, call: ClientRequest, params: Message, meta: Message) -> None:
        with self._lock:
            link = self._link
            if link is None:
                raise RequestRefusedError("upstream_unreachable")
            if call.over:
                return
            self._next += 1
            sent = self._next
            first = call.method in ("initialize", "server/discover")
            patience = self._limits.start if first else self._limits.answer
            until = float("inf") if call.method in UNENDING else time.monotonic() + patience
            # Before it is sent: the answer may be there before `_write` returns.
            self._waiting[sent] = _Pending(call, params, until, self._heard)
            call.relay, call.sent = self, sent
            if call.method == "initialize":
                self._hello = params
        if call.token is not None:
            meta = {**meta, "progressToken": sent}
        whole = {**params, "_meta": meta} if meta else params
        if not self._write(link, rpc.request(sent, call.method, whole)):
            with self._lock:
                self._waiting.pop(sent, None)
            self._drop("upstream_unreachable")
            raise RequestRefusedError("upstream_unreachable")

    def _write(self, link: Link, message: Message) -> bool:
        try:
            link.send(message)
        except OSError:
            return False
        except ValueError:
            raise RequestRefusedError("bad_text") from None
        return True

    def _give_up(self, sent: Id | None, reason: object) -> None:
        """Tell the server that nobody waits for an answer."""
        params: Message = {"requestId": sent}
        if isinstance(reason, str):
            try:
                params["reason"] = self.rewriter.text(reason)
            except Exception:  # noqa: BLE001 - then it goes without a reason
                params.pop("reason", None)
        self.tell(CANCELLED, params)

    def _hear(self, generation: int, line: bytes) -> None:
        """A line of the server. Nothing that it says may end this thread."""
        if generation != self._generation:
            return
        try:
            message = rpc.read(line)
        except rpc.UnreadableError as problem:
            if problem.request is not None:
                self._fail_one(problem.request)
            elif line.lstrip().startswith((b"{", b"[")):  # else somebody prints to the wrong stream
                self._fail_all("unreadable_reply")
            self._count(generation)
            return
        try:
            self._take(generation, message)
        except Exception:  # noqa: BLE001 - its text may quote the server's
            say(f"a message of the server {self.name} could not be passed on")

    def _take(self, generation: int, message: Message) -> None:
        if "method" not in message:
            self._answered(generation, message)
        elif "id" in message:
            with self._lock:
                self._heard += 1
            self._asks(message)
        else:
            self._notified(generation, message)

    def _answered(self, generation: int, message: Message) -> None:
        with self._lock:
            waiting = self._waiting.pop(whole(message.get("id")), None)
            self._heard += 1
        if waiting is None:  # a second answer, or one to nothing
            self._count(generation)
            return
        call = waiting.call
        try:
            if "error" in message:
                call.fail(self.restorer.error(message["error"]))
                return
            result = message["result"]
            self.offers.learn(call.method, waiting.params, result)
            if call.method == "tools/call":
                self._learn(waiting.params.get("name"), result)
            called = self.rewriter.names_of(waiting.params.get("name"))
            restored = self.restorer.result(call.method, result, called)
            if call.method in UNENDING:
                restored = renamed(restored, call.name)
        except Exception as problem:  # noqa: BLE001 - only its class decides what is said
            call.refuse(problem)
            return
        call.answer(explained(restored, call.told))

    def _explain(self, call: ClientRequest) -> None:
        """Say live what was changed, if the owner wants to see it."""
        if not self._explains:
            return
        name = call.params.get("name")
        about = f"{call.method} {name}" if isinstance(name, str) else call.method
        for change in call.told:
            say(f"{self.name}: {about[:200]}: {worded(change)}")

    def _learn(self, tool: object, result: Message) -> None:
        """Values that a trusted tool says. The client gets its answer even if none can be kept."""
        try:
            self.rewriter.learn(self.name, tool, result)
        except Exception as problem:  # noqa: BLE001 - only its class decides what is said
            text = fault_of(problem).text
            say(f"values in a result of the server {self.name} were not stored: {text}")

    def _asks(self, message: Message) -> None:
        """A request of the server to the client."""
        name, method = message["id"], message["method"]
        asked = ServerRequest(method, message.get("params") or {})
        if method == "ping":
            self._reply(rpc.result(name, {}))
            return
        if method not in ASKED or self._client is None:
            self._reply(rpc.failure(name, rpc.plain(rpc.METHOD_NOT_FOUND)))
            return
        with self._lock:
            full = len(self._asked) >= self._limits.asked or name in self._asked
        if full:
            self._reply(rpc.failure(name, rpc.refusal(FAULTS["busy"])))
            return

        def done(result: Message | None, error: Message | None) -> None:
            with self._lock:
                self._asked.pop(name, None)
            if result is None:
                code = int(error["code"]) if error is not None else rpc.INTERNAL_ERROR
                self._reply(rpc.failure(name, {**rpc.plain(code), "code": code}))
                return
            speak_to(self.name, method)
            try:
                with telling() as told:
                    cleaned = self.rewriter.reply(asked, result)
                self._tell_callers(method, told)
            except Exception as problem:  # noqa: BLE001 - only its class decides what is said
                fault = fault_of(problem)
                refused = refused_places(problem, fault)
                say(f"an answer to the server {self.name} was not sent: {fault.text}")
                self._tell_callers(method, [*refused])
                self.rewriter.note_refusal(problem, refused)
                self._reply(rpc.failure(name, rpc.refusal(fault)))
                return
            self._reply(rpc.result(name, cleaned))

        try:
            shown = self.restorer.params(self.rewriter.asks(asked))
        except RequestRefusedError as problem:
            self._reply(rpc.failure(name, rpc.refusal(problem.fault)))
            return
        shown.pop("_meta", None)
        with self._lock:
            self._asked[name] = None
        passed = self._client.ask(method, shown, done)
        with self._lock:
            wanted = name in self._asked
            if wanted:
                self._asked[name] = passed
        if not wanted:  # answered already, or the server has ended: its successor asked nothing
            self._client.forget(passed)

    def _tell_callers(self, method: str, told: list[Change]) -> None:
        """What an answer to the server's own request lost is told with the calls under way."""
        if not told:
            return
        within = [replace(each, path=(method, *each.path)) for each in told]
        with self._lock:
            calls = [pending.call for pending in self._waiting.values()]
        for call in calls:
            call.told += within
        if self._explains:
            for change in within:
                say(f"{self.name}: {worded(change)}")

    def _notified(self, generation: int, message: Message) -> None:
        if not self._count(generation) or self._client is None:
            return
        method, params = message["method"], message.get("params") or {}
        if method == PROGRESS:
            self._progressed(params)
        elif method == CANCELLED:
            with self._lock:
                asked = self._asked.pop(params.get("requestId", -1), None)
            if asked is not None:
                self._client.forget(asked)
        elif method in PASSED:
            self.offers.changed(method)
            shown = self.restorer.params(params)
            if method == "notifications/message" and "data" in params:
                shown["data"] = self.restorer.anything(params["data"])
            if isinstance(params.get("_meta"), dict) and SUBSCRIPTION in params["_meta"]:
                with self._lock:
                    waiting = self._waiting.get(whole(params["_meta"][SUBSCRIPTION]))
                if waiting is None:
                    return
                shown = renamed(shown, waiting.call.name)
            if isinstance(params.get("uri"), str):
                self.offers.uris.add(params["uri"])
            self._client.tell(method, shown, self)

    def _progressed(self, params: Message) -> None:
        with self._lock:
            waiting = self._waiting.get(whole(params.get("progressToken")))
            if waiting is None or waiting.call.token is None or self._client is None:
                return
            waiting.until = max(waiting.until, time.monotonic() + self._limits.answer)
        shown = {**self.restorer.params(params), "progressToken": waiting.call.token}
        self._client.tell(PROGRESS, shown, self)

    def _reply(self, message: Message) -> None:
        link = self._link
        if link is not None:
            with suppress(RequestRefusedError):
                self._write(link, message)

    def _count(self, generation: int) -> bool:
        """Whether this much unasked talk is borne; a flood ends the server."""
        with self._lock:
            borne = self._allowance.take()
        if not borne and generation == self._generation:
            self._drop("upstream_unreachable")
        return borne

    def _fail_one(self, name: Id) -> None:
        with self._lock:
            waiting = self._waiting.pop(whole(name), None)
        if waiting is not None:
            waiting.call.refuse(RequestRefusedError("unreadable_reply"))

    def _fail_all(self, code: Code) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.call.refuse(RequestRefusedError(code))

    def _drop(self, code: Code) -> None:
        """End a server that cannot be used."""
        with self._lock:
            link, self._link = self._link, None
            self._generation += 1
        if link is not None:
            say(f"the server {self.name} was ended: {FAULTS[code].text}")
            self._close_aside(link)
        self._over(code)

    def _lost(self, generation: int, code: Code) -> None:
        """The server's side has ended."""
        with self._lock:
            if generation != self._generation:
                return
            link, self._link = self._link, None
            self._generation += 1
        if not self._closed:
            say(f"the server {self.name} has ended")
        if link is not None:
            self._close_aside(link)
        self._over(code)

    @staticmethod
    def _close_aside(link: Link) -> None:
        """Close a link from another thread: this may be the link's own, for which closing waits."""
        threading.Thread(target=lambda: link.close(at_once=True), daemon=True).start()

    def _over(self, code: Code) -> None:
        with self._lock:
            asked, self._asked = self._asked, {}
        for name in asked.values():
            if self._client is not None and name is not None:
                self._client.forget(name)
        self._fail_all(code)


META: Final = "rootguard"
"""Under this key of a result's `_meta` the client is told what was replaced or refused."""


def explained(content: Message, told: Sequence[Change]) -> Message:
    """A result that says what was changed on the way to the server. Only the proxy says so."""
    meta = content.get("_meta")
    if not told:
        if not isinstance(meta, dict) or META not in meta:
            return content
        kept = {key: value for key, value in meta.items() if key != META}
        return {**content, "_meta": kept}
    listed = [
        {"path": list(each.path), "kind": each.kind, "root": each.root}
        for each in dict.fromkeys(told)
    ]
    return {**content, "_meta": {**(meta if isinstance(meta, dict) else {}), META: listed}}


def refused_places(problem: BaseException, fault: Fault) -> Sequence[Change]:
    """Why a request was not sent: which parameter, and which root, as far as that is known."""
    if isinstance(problem, AmbiguousParameterError | MissingValueError):
        return problem.refused
    own = fault.status < HTTPStatus.INTERNAL_SERVER_ERROR  # else somebody is down
    return (Change(path=(), kind="refused"),) if own else ()


def worded(change: Change) -> str:
    """A change as a line for the owner."""
    where = ".".join(map(str, change.path))[:200] or "the text"
    if change.kind == "refused":
        return f"{where}: refused" + (f" ({change.root})" if change.root else "")
    done = {
        "value": f"replaced by the released {change.root or 'value'}",
        "answer": f"answered from the released {change.root}",
        "number": "a number was taken out",
        "text": "changed",
    }
    return f"{where}: {done.get(change.kind, f'{change.kind} replaced by a token')}"


def whole(name: object) -> Id:
    """An id of ours as it comes back; some servers make texts of numbers."""
    if isinstance(name, bool) or not isinstance(name, str | int):
        return -1  # ours begin at 1
    # Up to 18 digits: no counter gets there, and reading a text of a million digits takes seconds.
    return int(name) if isinstance(name, str) and name.isdecimal() and len(name) < 19 else name


def renamed(content: Message, name: Id) -> Message:
    """The id of a subscription as the client knows it."""
    meta = content.get("_meta")
    if not isinstance(meta, dict) or SUBSCRIPTION not in meta:
        return content
    return {**content, "_meta": {**meta, SUBSCRIPTION: name}}


def say(text: str) -> None:
    """One line for the owner, on standard error. Never a value."""
    sys.stderr.write(f"rootguard: {text}\n")
    sys.stderr.flush()
