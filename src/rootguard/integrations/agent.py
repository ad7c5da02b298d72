"""One person inside an agent framework: what its model and its tools may see.

The framework, its traces and its checkpoints get only what may leave. The owner's words are changed
before it has them and replies are restored after it gave them. The model is a service of the
owner's policy, and so is every tool, under its own name: the arguments of a call are made anew for
the tool, with released values at its tier. A tool whose entry says `identifiers = "restore"` gets
the real identifiers, within the call only. Nobody gets a raw root.

A profile without a policy has no tiers: model and tools get the same values, and tokens.
"""

import asyncio
import json
import os
import threading
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final, TypedDict, TypeVar, Unpack

from rootguard.channels.detection import make_detectors
from rootguard.channels.gateway.channel import PersonChannel, Restorer
from rootguard.channels.gateway.shapes import OutgoingRequest
from rootguard.channels.mcp.proxy.offers import (
    AmbiguousParameterError,
    Arguments,
    MissingValueError,
    ParameterReading,
)
from rootguard.channels.tools import Pins
from rootguard.errors import AccessError, RootGuardError, shielded
from rootguard.session import Person, Profile, load_profile
from rootguard.store import Store
from rootguard.vault import default_url, open_store

Made = TypeVar("Made")
Rewrite = Callable[[OutgoingRequest], Made]
"""Makes a list of messages anew with what `OutgoingRequest` gives for each text, in order. It is
called twice: to look at all texts of the conversation, and then to change them."""

Tell = Callable[[Any], Any]
"""A text or a JSON value of a tool's, as the model may have it."""
Passing = Callable[[Exception, Tell], Exception | None]
"""What a framework must get of an exception by which a tool waits for a person or asks for another
try, with its texts changed; None if the tool has failed."""

_NO_SCHEMA: Final[Mapping[str, object]] = {"type": "object"}
_JSON: Final = (str, int, float, list, dict, type(None))


class ToolRefusedError(RootGuardError):
    """A tool was not called; the text is for the model, and says why without a value."""


class ToolFailedError(RootGuardError):
    """A tool failed; what it said, as the model may have it."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ToolOutcome:
    """What came of a call, as the model may have it."""

    said: Any
    failed: bool = False
    refused: bool = False


class _AgentRequest(OutgoingRequest):
    """A conversation in which what a tool computes from numbers is not taken for one of them."""

    __slots__ = ()

    def called(self, call: str, tool: str, arguments: object) -> None:
        if isinstance(arguments, str):
            with suppress(ValueError):
                arguments = json.loads(arguments)
        super().called(call, tool, asked_for(arguments))


class AgentGuard:
    """What an agent framework asks on one person's behalf. Safe to share by threads.

    `service` is the model's entry in the profile's policy, which must be named if there is one.
    `thread` is always the conversation, by the framework's own id; without one, all that goes
    through this guard is one conversation. `pins` are the owner's words about parameters of tools,
    as for the MCP proxy.
    """

    def __init__(
        self,
        profile: str | os.PathLike[str] | Profile,
        *,
        service: str | None = None,
        store: Store | None = None,
        pins: Pins | None = None,
    ) -> None:
        self._pins = pins or Pins()
        self._profile = profile if isinstance(profile, Profile) else load_profile(profile)
        if self._profile.policy is not None and service is None:
            raise AccessError("")
        self._store = store or _store_of(self._profile)
        self._service = service
        self._own = f"guard-{uuid.uuid4().hex}"
        chosen = self._profile.detection
        detectors = make_detectors(
            chosen.detectors or ("rules",), kinds=chosen.kinds, allow=chosen.allow
        )
        channel = PersonChannel(self._open(service), detectors=detectors)
        doubt = self._profile.on_doubt
        self._channel = channel if doubt is None else channel.on_doubt(doubt)
        self._tools: dict[str, tuple[tuple[str, str], Arguments, ParameterReading]] = {}
        self._begun = False
        # Guards the tools and `_begun`: frameworks call tools of one turn on several threads.
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._service or 'every service'}>"

    @shielded
    def rewrite(
        self, rewrite: Rewrite[Made], *, thread: str | None = None, begin: bool = False
    ) -> Made:
        """What a function makes of a conversation, with every text as the model may have it.

        `begin`: the thread is new, and nothing that was issued elsewhere counts as issued in it.
        """
        out = _AgentRequest(self._channel, unknown_fields="drop")
        try:
            rewrite(out.form())
            self._converse(out, thread, begin=begin)
            made = rewrite(out)
        except Exception as problem:
            self._channel.note_refusal(problem, source=out.source)
            raise
        self._channel.note_changes(out.changes())
        return made

    def hear(
        self, text: str, *, before: Rewrite[object] | None = None, thread: str | None = None
    ) -> str:
        """The owner's next words as the framework may have them.

        `before` goes through what was said before, so that a bare "54" answers a question.
        """

        def whole(out: OutgoingRequest) -> str:
            if before is not None:
                before(out)
            with out.speaking("owner"):
                return out.text(text)

        return self.rewrite(whole, thread=thread)

    @shielded
    def show(self, text: str, *, thread: str | None = None) -> str:
        """What the framework gave, with identifiers put back. For the owner's eyes."""
        return self._talk(thread).restore(text)

    def show_value(self, value: object, *, thread: str | None = None) -> Any:
        """The same for every text within a JSON value, a dataclass or a Pydantic model."""
        return mapped_texts(value, lambda text: self.show(text, thread=thread))

    def showing(self, *, thread: str | None = None) -> Restorer:
        """The same for a text that arrives in pieces."""
        return self._talk(thread).restorer()

    @shielded
    def arguments(
        self,
        tool: str,
        given: Mapping[str, Any],
        *,
        description: str = "",
        schema: Mapping[str, object] | None = None,
        thread: str | None = None,
        restore: bool = True,
    ) -> dict[str, Any]:
        """A call's arguments as its tool may have them. They are for the tool alone: keep none.

        `restore=False`: they go through somebody else, so identifiers stay tokens for every tool.
        """
        try:
            made = self._filled(tool, given, description, schema or _NO_SCHEMA)
            if restore and self._trusted(tool):
                made = self.show_value(made, thread=thread)
        except RootGuardError as problem:
            raise ToolRefusedError(f"the tool {tool!r} was not called: {problem}") from None
        return dict(made)

    @shielded
    def result(
        self,
        tool: str,
        result: object,
        *,
        given: Mapping[str, Any] | None = None,
        thread: str | None = None,
    ) -> Any:
        """A tool's result, a text or a JSON value, as the model may have it."""

        def whole(out: OutgoingRequest) -> object:
            out.called("call", tool, given or {})
            with out.result_of(call="call"):
                return out.text(result) if isinstance(result, str) else out.json(result)

        return self.rewrite(whole, thread=thread)

    async def called(
        self,
        tool: str,
        given: Mapping[str, Any],
        call: Callable[[dict[str, Any]], Awaitable[object]],
        *,
        description: str = "",
        schema: Mapping[str, object] | None = None,
        passing: Passing = lambda _problem, _tell: None,
    ) -> ToolOutcome:
        """Call a tool with what it may have; the text of its failure is read like a result."""
        asked: dict[str, Any] = {"description": description, "schema": schema}

        def tell(said: object) -> object:
            return self.result(tool, said, given=given)

        try:
            made = await asyncio.to_thread(self.arguments, tool, given, **asked)
        except ToolRefusedError as problem:
            return ToolOutcome(said=str(problem), failed=True, refused=True)
        said, failed = await _attempt(call, made)
        outcome = await asyncio.to_thread(_outcome, said, passing, tell, failed=failed)
        del made, said  # not in a frame that an error leaves through
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _open(self, service: str | None) -> Person:
        return Person.open(self._profile, store=self._store, service=service)

    def _trusted(self, tool: str) -> bool:
        policy = self._profile.policy
        return policy is not None and policy.access(tool).identifiers == "restore"

    def _filled(
        self, tool: str, given: Mapping[str, Any], description: str, schema: Mapping[str, object]
    ) -> dict[str, Any]:
        asked = (description, json.dumps(schema, sort_keys=True, default=str))
        with self._lock:
            known = self._tools.get(tool)
        if known is not None and known[0] == asked:
            try:
                return known[1].fill(known[2], dict(given))
            except (AmbiguousParameterError, MissingValueError):
                pass  # the value may have been said since this tool was first called
        arguments, reading = self._understood(tool, description, schema)
        with self._lock:
            self._tools[tool] = (asked, arguments, reading)
        return arguments.fill(reading, dict(given))

    def _understood(
        self, tool: str, description: str, schema: Mapping[str, object]
    ) -> tuple[Arguments, ParameterReading]:
        """The tool as a service, and what its schema asks for.

        Where that is not sure the call is refused, as in the MCP proxy; but a tool that may have as
        much as the model is given its arguments by the names they stand under, as the gateway does.
        """
        policy = self._profile.policy
        person = self._open(None if policy is None else tool)
        arguments = Arguments(person, pins=self._pins)
        reading = arguments.reading(tool, description, schema)
        named = {name for each in reading.tool_map.asked for name in each.candidates}
        if reading.tool_map.asked and self._may_have(tool, named, person):
            reading = arguments.reading(tool, "", _NO_SCHEMA)
        return arguments, reading

    def _may_have(self, tool: str, roots: set[str], person: Person) -> bool:
        """Whether a tool's tier is the model's or a richer one, and these roots are allowed it.

        A root without a value is not: the model was given none, so a number for it is not its own.
        """
        if not all(map(person.known, roots & set(person.roots))):
            return False
        policy = self._profile.policy
        if policy is None:
            return True
        model, access = policy.access(self._service or ""), policy.access(tool)
        allowed = access.roots is None or roots <= access.roots
        return allowed and policy.tiers[access.tier] >= policy.tiers[model.tier]

    def _converse(self, out: OutgoingRequest, thread: str | None, *, begin: bool) -> None:
        name = thread or self._own
        with self._lock:
            new = begin or (thread is None and not self._begun)
            self._begun = self._begun or thread is None
        # A thread that is not known may have been begun in another process: its tokens count.
        out.converse(None if new else name)
        out.channel.keep_conversation(name)

    def _talk(self, thread: str | None) -> PersonChannel:
        return self._channel.conversation(thread or self._own, ())


class GuardOptions(TypedDict, total=False):
    """What `AgentGuard` takes beside a profile."""

    service: str | None
    store: Store | None
    pins: Pins | None


class GuardedFront:
    """What a framework's front begins with: one person's guard, made as `AgentGuard` says."""

    def __init__(
        self, profile: str | os.PathLike[str] | Profile, **options: Unpack[GuardOptions]
    ) -> None:
        super().__init__()  # of the framework's own class, where there is one beside this
        self.guard = AgentGuard(profile, **options)


def asked_for(arguments: object) -> object:
    """A call's arguments without the numbers that it gives: what its result may be about.

    `get_lab(test="AST")` is answered with an AST; what `fib4(age=54, ast=23)` gives is no age.
    """
    if isinstance(arguments, Mapping):
        kept = {key: asked_for(each) for key, each in arguments.items()}
        return {key: each for key, each in kept.items() if each is not None}
    if isinstance(arguments, list | tuple):
        return [each for each in map(asked_for, arguments) if each is not None]
    return arguments if isinstance(arguments, str) else None


async def _attempt(
    call: Callable[[dict[str, Any]], Awaitable[object]], made: dict[str, Any]
) -> tuple[object, bool]:
    try:
        said = await call(made)
    except Exception as problem:  # noqa: BLE001 - its text may hold what the tool alone had
        return problem, True
    return said if isinstance(said, _JSON) else str(said), False


def _outcome(
    said: object, passing: Passing, tell: Tell, *, failed: bool
) -> ToolOutcome | Exception:
    """What came of a call, or the error that has to leave: this frame holds what the tool said."""
    try:
        if isinstance(said, Exception):
            passed = passing(said, tell)
            if passed is not None:
                return bare(passed)
            said = said_by(said)
        return ToolOutcome(said=tell(said), failed=failed)
    except RootGuardError as refusal:
        return refusal.bare()


def bare(problem: Exception) -> Exception:
    """An exception of a framework's, without the frames it came through and what was behind it."""
    problem.__cause__ = problem.__context__ = None
    return problem.with_traceback(None)


def said_by(problem: Exception) -> str:
    """What a tool says by failing."""
    if isinstance(problem, ToolFailedError):
        return str(problem)
    return f"{type(problem).__name__}: {problem}"


def mapped_texts(value: object, change: Callable[[str], str]) -> object:
    """A JSON value, a dataclass or a Pydantic model with every text in it changed; keys stay."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return change(value)
    names = _fields_of(value)
    if names:
        changed = {name: mapped_texts(getattr(value, name), change) for name in names}
        # A model's checks are not made again: they are of what the service said.
        copy: Any = getattr(value, "model_copy", None)
        made: object = replace(value, **changed) if copy is None else copy(update=changed)  # type: ignore[type-var]
        return made
    if isinstance(value, Mapping):
        return {key: mapped_texts(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [mapped_texts(each, change) for each in value]
    return value


def _fields_of(value: object) -> list[str]:
    if is_dataclass(value) and not isinstance(value, type):
        return [each.name for each in fields(value) if each.init]
    # Pydantic is not among the packages that RootGuard needs.
    return list(getattr(type(value), "model_fields", ()))


def _store_of(profile: Profile) -> Store:
    url = profile.store or os.environ.get("ROOTGUARD_STORE") or default_url()
    return open_store(url, vault_id=profile.vault, anchor=profile.anchor)
