"""What a server behind the proxy offers, and the arguments that its offers get.

Offers are tools, prompts, resources, and strings of the server's own. The proxy sends a name, an
address or an opaque string on as it is only if the server itself said it before: then it tells the
server nothing. All of it is public, and bounded.

An offer's parameters are read once. One that is one of the person's values gets the released value,
whatever the agent had put there. What may be a private value and is not sure is refused with the
pin that would settle it. All the rest goes by the rules of the text channel.

What an agent writes never gives a root its value: a call that needs one which the owner has not
given is refused. The answer to an elicitation is the owner's, and the result of a tool that the
policy trusts counts as the owner's: these do.
"""

import copy
import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

from rootguard.channels.detection import Detector, make_detectors
from rootguard.channels.detection.rules import DEFAULT_KINDS
from rootguard.channels.faults import RequestRefusedError, rule_of
from rootguard.channels.mcp.jsonrpc import Message
from rootguard.channels.mcp.proxy.texts import IdentifierChannel, OwnerTexts, is_personal
from rootguard.channels.text.channel import SourceReader, TextChannel
from rootguard.channels.text.documents import changed_place, changes_at
from rootguard.channels.text.edits import Change
from rootguard.channels.tools import Binding, Pins, Question, ToolMap, fill, understand
from rootguard.channels.tools.answers import measures_of
from rootguard.channels.tools.docstrings import asked_for
from rootguard.channels.tools.filling import shown
from rootguard.channels.tools.shapes import Place, says_nothing
from rootguard.channels.tools.shapes import stated as stated_in
from rootguard.channels.tools.words import Meanings, meanings
from rootguard.errors import PrivateValueError, RootGuardError, shielded
from rootguard.events import ChangedPlace
from rootguard.language.units import convert
from rootguard.reading.claims import Expectation, Source
from rootguard.session import Person
from rootguard.values import RootName

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
_EARLIER: Final = 4
"""Offers of one name that are remembered when it is changed: an agent answers the latest, or the
one before it."""
_MAX_HISTORY: Final = 4 * MAX_OFFERS
"""Names whose offers are remembered: all that the four lists can hold, so that no name that is
listed is forgotten."""
# What a client sends back as it came; it passes only if the server said it.
_OPAQUE: Final = ("nextCursor", "requestState", "taskId")
_PLAIN_RESULT: Final = frozenset(("content", "structuredContent", "isError", "resultType"))
Path = tuple[str, ...]
_HELD: Final = True
"""Holds the place of a bound parameter while the rest is sanitized, which leaves it alone."""
_CHANGED: Final = "it was asked for before the offer was changed"
_BARE: Final = (bool, int, float, type(None))
_SHORT: Final = 24
"""Characters of a text that may be nothing but a number with its unit ("61.375 micromol/L")."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")  # a key that TOML has without quotes
# A number behind a word and a sign ("ast_47"), or two digits behind one ("ast47"): a single digit
# is part of a name ("item2").
_NUMBERED_KEY: Final = re.compile(r"[^\W\d_][\s_=:-]+\d|[^\W\d_]\d{2}")
MAX_DEPTH: Final = 32
"""Levels down to which bound parameters are looked for; `tools` binds none below a dozen."""


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
        # What was offered under each name, the latest last. Apart from the lists: a server may
        # withdraw an offer and make another one under its name, and a page that is read anew takes
        # the pages behind it off the list. The name that was listed longest ago is forgotten first.
        self._history: OrderedDict[tuple[Listing, str], tuple[Message, ...]] = OrderedDict()
        self._complete: set[Listing] = set()
        self.uris = IssuedStrings()
        self.opaque = IssuedStrings()
        self.inputs: OrderedDict[str, ServerRequest] = OrderedDict()

    def get(self, listing: Listing, name: str) -> Message | None:
        return self._listed[listing].get(name)

    def all(self, listing: Listing) -> list[Message]:
        return list(self._listed[listing].values())

    def before(self, listing: Listing, name: str) -> tuple[Message, ...]:
        """What was offered under this name before, the latest last, as far as it is remembered."""
        return self._history.get((listing, name), ())[:-1]

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
        if method not in LISTED and not _tells(result):
            return
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
                self._remember((listing, entry[name]), entry)
        self._listed[listing] = kept  # last: who finds an offer finds what was there before it
        if isinstance(result.get("nextCursor"), str):
            self._complete.discard(listing)  # a client that reads on, or not, has begun anew
        else:
            self._complete.add(listing)

    def _remember(self, place: tuple[Listing, str], offer: Message) -> None:
        seen = self._history.get(place, ())
        if not seen or seen[-1] != offer:
            self._history[place] = (*seen, offer)[-_EARLIER - 1 :]
        self._history.move_to_end(place)
        if len(self._history) > _MAX_HISTORY:
            self._history.popitem(last=False)


def _tells(result: Message) -> bool:
    """Whether a result may have something to remember; one of plain texts has not."""
    content = result.get("content")
    return not result.keys() <= _PLAIN_RESULT or not (
        isinstance(content, list)
        and all(isinstance(each, dict) and each.get("type") == "text" for each in content)
    )


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


class AmbiguousParameterError(RootGuardError):
    """A parameter may be a private value; nothing was sent. Says how to pin it. Public words."""

    code: Final = "ambiguous_parameter"

    def __init__(self, tool: str, question: Question) -> None:
        where = ".".join(question.parameter)
        meant = ", ".join(question.candidates)
        root = question.candidates[0] if question.candidates else "NAME"
        table = f"[tools.{_key(tool)}.{_key(where)}]"
        self.refused = (Change(path=question.parameter, kind="refused", root=root),)
        super().__init__(
            f"the parameter {where[:200]} of {tool[:200]} may be a private value ({meant}) and "
            f"that is not sure, so nothing was sent; its owner can say so in the file for --pins: "
            f'{table} root = "{root}", or {table} ignore = true'
        )


class MissingValueError(PrivateValueError):
    """Something needs values that the owner has not given; nothing was sent. Public words."""

    code: Final = "missing_value"

    def __init__(self, roots: Iterable[str], places: Mapping[str, Path] | None = None) -> None:
        named = tuple(sorted(roots))
        self.refused = tuple(
            Change(path=(places or {}).get(root, ()), kind="refused", root=root) for root in named
        )
        super().__init__(
            "nothing was sent; an agent cannot give these values, only their owner can: under "
            "[values] in the profile, or in a chat through the gateway",
            named,
        )


def _key(name: str) -> str:
    """A TOML key, quoted if need be."""
    if _PLAIN.fullmatch(name):
        return name
    kept = "".join(character for character in name[:200] if character.isprintable())
    return '"' + kept.replace("\\", "\\\\").replace('"', '\\"') + '"'


_TOLD: ContextVar[list[Change] | None] = ContextVar("told", default=None)


@contextmanager
def telling() -> Iterator[list[Change]]:
    """What is changed meanwhile, in this thread, in arguments and texts for a server."""
    told: list[Change] = []
    before = _TOLD.set(told)
    try:
        yield told
    finally:
        _TOLD.reset(before)


_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)


def addresses(part: Message) -> list[str]:
    """The arguments that are addresses on the web."""
    return [each for each in part.values() if isinstance(each, str) and _ADDRESS.match(each)]


@lru_cache(maxsize=4096)  # the same parameters of the same tools, again and again
def _placed(change: Change, source: str, names: frozenset[str]) -> ChangedPlace:
    return changed_place(change, source, names)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterReading:
    """Something with parameters, as it was understood."""

    tool_map: ToolMap
    bound: frozenset[Path]
    ignored: frozenset[Path]
    flat: bool
    """Whether every bound parameter stands at the top."""
    private: bool
    """Whether it asks for private values, or may."""
    personal: bool = True
    """Whether it is about a person's health or money, so that what it is sent is the owner's."""
    numeric: frozenset[str] = frozenset()
    """Parameters at the top that the schema declares as numbers."""
    names: frozenset[str] = frozenset()
    """What the schema calls its parameters, at every level."""
    choices: Mapping[str, frozenset[str]]
    """Texts that the schema itself lists, by parameter."""
    telling: frozenset[str] = frozenset()
    """Bound parameters at the top whose own names say something, so that no text beside does."""
    meant: Mapping[Path, tuple[str, str]] = field(default_factory=dict)
    """Of each bound parameter: "value" or "answer", and whose."""
    filled: Message = field(default_factory=dict, repr=False)
    """What parameters at the top were filled in with. A released value is for ever the same."""


class Arguments:
    """Makes one person's arguments for one service. Safe to share by threads.

    `of_owner`: whether the owner wrote them, so that they teach values. An agent did otherwise.
    """

    def __init__(self, person: Person, *, pins: Pins | None = None, of_owner: bool = False) -> None:
        self._person = person
        self._pins = pins or Pins()
        self._of_owner = of_owner
        # What an agent writes for the owner is doubted as a tool's words are, and teaches nothing.
        self._source: Source = "owner" if of_owner else "tool"
        listed = person.describe()["identifiers"]
        self._identifiers = [str(name) for name in listed] if isinstance(listed, list) else []
        self._unseen = set(person.roots) & set(person.names)

    @cached_property
    def owner(self) -> "Arguments":
        """The same, for what the owner writes."""
        return Arguments(self._person, pins=self._pins, of_owner=True)

    @shielded
    def learn(self, server: str, tool: str, result: Message) -> None:
        """Teach what a tool says, if the policy trusts it by its name or as "server/tool"."""
        if not self._person.trusts(tool, f"{server}/{tool}") or result.get("isError") is True:
            return
        reader = SourceReader(self._person)
        if result.get("structuredContent") is not None:
            reader.learn(result["structuredContent"])
        for block in _entries(result.get("content")):
            if isinstance(block.get("text"), str):
                reader.learn(block["text"])

    def note_refusal(self, problem: Exception, places: Iterable[Change]) -> None:
        """Write into the owner's audit log that a request was refused, why and where."""
        # Their paths are of the schema: no key in them is the agent's.
        told = [changed_place(each, self._source, set(each.path)) for each in places]
        self._person.note_refusal(problem, rule=rule_of(problem), places=told)

    def _tell(self, changes: Sequence[Change], names: frozenset[str] = frozenset()) -> None:
        """Tell whoever sends a request what was changed in it, and write the same down."""
        told = _TOLD.get()
        if told is not None:
            told += changes
        self._person.note_changes([_placed(each, self._source, names) for each in changes])

    @cached_property
    def _known(self) -> Meanings:
        return meanings(self._person.roots, self._person.templates, self._identifiers)

    @cached_property
    def _detectors(self) -> tuple[Detector, ...]:
        chosen = self._person.detection
        kinds = chosen.kinds
        if kinds is None and chosen.detectors is None:  # a name that is not declared is another's
            kinds = tuple(kind for kind in DEFAULT_KINDS if kind != "person")
        return make_detectors(chosen.detectors or ("rules",), kinds=kinds, allow=chosen.allow)

    @cached_property
    def channel(self) -> TextChannel:
        """Texts by the usual rules. Made when the first text comes."""
        return TextChannel(self._person, detectors=self._detectors)

    @cached_property
    def identifiers(self) -> TextChannel:
        """Texts in which identifiers alone are replaced: those declared, and what the profile says.

        Without a word of the profile on detectors, none: what is another's is kept.
        """
        chosen = self._person.detection
        return IdentifierChannel(
            self._person, detectors=self._detectors if chosen.detectors else ()
        )

    @cached_property
    def _subjects(self) -> OwnerTexts:
        return OwnerTexts(self._person)

    @cached_property
    def careful(self) -> TextChannel:
        """Texts from which every number is taken that belongs to nothing.

        A tool that asks for private values also asks for notes, and an agent may be talked into
        writing there what it was not let to say elsewhere.
        """
        return TextChannel(self._person, detectors=self._detectors, elsewhere="redact")

    @cached_property
    def strict(self) -> TextChannel:
        """Texts in which no number is let through."""
        return TextChannel(self._person, detectors=self._detectors, elsewhere="block")

    def reading(
        self, name: str, description: str, schema: Mapping[str, object]
    ) -> ParameterReading:
        """What something asks for, by its schema and the owner's pins."""
        tool_map = understand(
            name,
            description,
            schema,
            self._person.roots,
            self._person.templates,
            pins=self._pins,
            identifiers=self._identifiers,
        )
        meant = {each.parameter: ("value", each.name) for each in tool_map.bindings}
        for answer in tool_map.answers:
            about = dict.fromkeys(measure.name for measure in measures_of(answer))
            meant[answer.parameter] = ("answer", ", ".join(about))
        bound = frozenset(meant)
        private = bool(tool_map.bindings or tool_map.answers or tool_map.asked)
        return ParameterReading(
            tool_map=tool_map,
            bound=bound,
            ignored=frozenset(p for p, pin in self._pins.of(name).items() if pin.name is None),
            flat=all(len(path) == 1 for path in bound),
            private=private,
            personal=private or is_personal(name, description),
            numeric=_numeric(schema),
            names=frozenset(names_in(schema)),
            choices=_choices(schema),
            telling=frozenset(path[0] for path in bound if not says_nothing(path[0])),
            meant=meant,
        )

    def after(self, before: ParameterReading, now: ParameterReading) -> ParameterReading:
        """The reading of an offer that was changed: what it asked for before is still private.

        A server that asks for an AST, and calls the same parameter a room number by the time that
        the agent answers, gets a refusal.
        """
        still = {each.parameter for each in now.tool_map.asked} | now.bound
        asked = {each.parameter: each for each in before.tool_map.asked}
        for path, (_, name) in before.meant.items():
            asked[path] = Question(parameter=path, candidates=tuple(name.split(", ")), why=_CHANGED)
        kept = [each for path, each in asked.items() if path not in still | now.ignored]
        if not kept:
            return replace(now, personal=now.personal or before.personal)
        tool_map = replace(now.tool_map, asked=(*now.tool_map.asked, *kept))
        return replace(now, tool_map=tool_map, private=True, personal=True)

    @shielded
    def fill(self, reading: ParameterReading, arguments: Message) -> Message:
        for question in reading.tool_map.asked:
            for value in _values(arguments, question.parameter):
                if self._looks_private(reading, question, value):
                    raise AmbiguousParameterError(reading.tool_map.tool, question)
        for binding in reading.tool_map.bindings if self._of_owner else ():
            self._sight(binding, arguments)
        given = arguments
        arguments, stated = self._hold_stated(reading, arguments)
        known: dict[tuple[str | int, ...], list[Change]] = {}
        for place, _, name in stated:
            known[place] = [Change(path=place, kind="value", root=name)]
        kept: Message = {}
        rest: Message = {}
        notes: Message = {}
        for key, value in arguments.items():
            if (key,) in reading.bound:
                kept[key] = value if value is None else _HELD
            elif _is_public(reading, key, value):
                kept[key] = value
            elif isinstance(value, str) and reading.private:
                notes[key] = value
            else:
                rest[key] = value if reading.flat else _held(value, (key,), reading.bound)
        for part, careful in ((rest, False), (notes, True)):
            if part:
                cleaned, changes = self._json(self._channel_for(reading, part, careful), part)
                if cleaned.keys() & kept.keys():
                    raise RequestRefusedError("bad_value")
                kept.update(cleaned)
                for each in changes:
                    known.setdefault(each.path, []).append(each)
        made = self._filled(reading, kept)
        for place, number, _ in stated:
            _set(made, place, number)
        # In the order in which they were given: what is not changed stays byte for byte.
        order = dict.fromkeys((*given, *made))
        made = {key: made[key] for key in order if key in made}
        self._tell(list(_changes(given, made, reading, known)), reading.names)
        return made

    def _channel_for(
        self, reading: ParameterReading, part: Message, careful: bool
    ) -> TextChannel | None:
        """By which rules a part of the arguments goes; None: as it is, which its owner wants."""
        if self._person.text == "keep":
            return None
        if self._person.text == "identifiers":
            return self.identifiers
        found = addresses(part)
        if found and self._subjects.stand_in_paths(found):
            raise RequestRefusedError("text_blocked")
        self._check_keys(part, reading.names, personal=reading.personal)
        if careful:
            return self.careful
        if reading.personal or self._subjects.has_owners(part):
            return self.channel
        return self.identifiers

    def _check_keys(self, part: Message, names: frozenset[str], *, personal: bool) -> None:
        """Refuse a value in a key of the agent's own: one that is not among the `names`."""
        keys = list(_numbered_keys(part, names))
        if keys and self._subjects.stand_in_keys(keys, personal=personal):
            raise RequestRefusedError("text_blocked")

    def _hold_stated(
        self, reading: ParameterReading, arguments: Message
    ) -> tuple[Message, list[tuple[Place, float, str]]]:
        """Arguments in which the numbers of observations only hold their places, and what to send.

        One whose unit is not said is refused.
        """
        # A value and what names it are two. Numbers under names that say something need no other,
        # and one text has nothing beside it then.
        loose = [
            value
            for key, value in arguments.items()
            if key not in reading.telling or not isinstance(value, _BARE)
        ]
        lone = len(loose) == 1 and isinstance(loose[0], str)
        if lone or all(isinstance(value, _BARE) for value in loose):
            return arguments, []
        found = stated_in(arguments, self._known, personal=reading.personal)
        if not found:
            return arguments, []
        held = copy.deepcopy(arguments)
        made: list[tuple[Place, float, str]] = []
        for each in found:
            if each.measure is None:
                # A key of the agent's own may have a value in it.
                where = tuple(part if part in reading.names else "*" for part in each.place)
                why = "it does not say in which unit"
                raise AmbiguousParameterError(
                    reading.tool_map.tool,
                    Question(parameter=where, candidates=(each.name,), why=why),
                )
            _set(held, each.place, _HELD)
            made.append((each.place, shown(each.measure, self._person), each.name))
        return held, made

    def _filled(self, reading: ParameterReading, kept: Message) -> Message:
        """Released values in their places; those that this service was given before are at hand."""
        wanted = [
            each.parameter[0]
            for each in (*reading.tool_map.bindings, *reading.tool_map.answers)
            if each.required or kept.get(each.parameter[0]) is not None
        ]
        if reading.flat and reading.filled.keys() >= set(wanted):
            self._person.check()
            kept.update((key, reading.filled[key]) for key in wanted)
            return kept
        try:
            made = fill(reading.tool_map, kept, self._person)
        except PrivateValueError as problem:
            missing = problem.roots
        else:
            if reading.flat:
                reading.filled.update((key, made[key]) for key in wanted)
            return made
        places = {name: path for path, (_, name) in reading.meant.items()}
        raise MissingValueError(missing, places)

    def cut(self, text: str, cleaned: str, path: Path) -> str:
        """A text that is being written, cleaned: without the word at its end, which may go on.

        One that was replaced is whole.
        """
        last = text[text.rfind(" ") + 1 :]
        if not last or not cleaned.endswith(last):
            return cleaned
        self._tell([Change(path=path, kind="text")], frozenset(path))
        return cleaned.removesuffix(last)

    @shielded
    def json(self, value: Message) -> Message:
        """A JSON object by the rules for texts."""
        self._check_keys(value, frozenset(), personal=True)
        made, changes = self._json(self.channel, value)
        self._tell(changes)
        return made

    @shielded
    def text(self, text: str, *, strict: bool = False, question: str = "") -> str:
        """A text by the usual rules, or by those that let no number through.

        `question` is what it answers: "54" alone is an age after "How old is the user?".
        """
        channel = self.strict if strict else self.channel
        asked = self.channel.names_in(asked_for(question)) if question else ()
        expected = Expectation(asked=asked)
        made = channel.sanitize(text, source=self._source, expectation=expected)
        if made.missing:
            raise MissingValueError(made.missing)
        if made.text != text:
            told = changes_at((), made.replaced, made.released)
            self._tell(told or [Change(path=(), kind="text")])
        return made.text

    def _json(
        self, channel: TextChannel | None, value: Message
    ) -> tuple[Message, tuple[Change, ...]]:
        if channel is None:
            return value, ()
        made = channel.sanitize_json(value, source=self._source)
        if made.missing:
            raise MissingValueError(made.missing)
        return made.value if isinstance(made.value, dict) else {}, made.changes

    def _looks_private(self, reading: ParameterReading, question: Question, value: object) -> bool:
        """A number, in whatever form, or a choice. A longer text goes by the rules for texts."""
        if value is None or not question.candidates:
            return False
        if not isinstance(value, str):
            return True
        named = (self._person.roots.get(RootName(name)) for name in question.candidates)
        roots = [root for root in named if root is not None]
        if any(root.domain.size == 2 for root in roots):
            return True
        if any(value.casefold() in map(str.casefold, root.type.answers) for root in roots):
            return True
        if question.parameter[0] in reading.choices:
            return True
        return len(value) <= _SHORT and any(map(str.isdigit, value))

    def _sight(self, binding: Binding, arguments: Message) -> None:
        """Noise what the owner gives for a root that has no released value yet."""
        root = binding.name
        if root not in self._unseen or binding.formula:
            return
        if self._person.known(root):
            self._unseen.discard(RootName(root))
            return
        given = [v for v in _values(arguments, binding.parameter) if v is not None]
        if not given:
            return
        number = _in_own_unit(binding, given[0])
        if number is not None:
            self._person.sight(root, number)


def _in_own_unit(binding: Binding, value: object) -> float | None:
    """A number as it was given, in the root's own unit."""
    if binding.ends is not None:
        places = [at for at, end in enumerate(binding.ends) if end == value]
        return float(places[0]) if places else None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if binding.unit is None or binding.unit == binding.own:
        return float(value)
    return convert(float(value), binding.unit, binding.own, binding.substance)


def _choices(schema: Mapping[str, object]) -> dict[str, frozenset[str]]:
    """Texts that a schema lists for its parameters: the server said them first."""
    found: dict[str, frozenset[str]] = {}
    properties = schema.get("properties")
    for name, each in properties.items() if isinstance(properties, dict) else ():
        listed = each.get("enum") if isinstance(each, dict) else None
        if isinstance(listed, list):
            found[name] = frozenset(choice for choice in listed if isinstance(choice, str))
    return found


def names_in(schema: object, depth: int = 0) -> Iterator[str]:
    """The names of parameters in a schema."""
    if isinstance(schema, list) and depth < MAX_DEPTH:
        for each in schema:
            yield from names_in(each, depth + 1)
    elif isinstance(schema, Mapping) and depth < MAX_DEPTH:
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            yield from (name for name in properties if isinstance(name, str))
        for each in schema.values():
            yield from names_in(each, depth + 1)


def _numbered_keys(node: object, names: frozenset[str], depth: int = 0) -> Iterator[str]:
    """The keys, at every level, that are none of the names and may have a number in them."""
    if depth > MAX_DEPTH:  # the text channel refuses what is deeper
        return
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key not in names and _NUMBERED_KEY.search(key):
                yield key
            yield from _numbered_keys(value, names, depth + 1)
    elif isinstance(node, list):
        for value in node:
            yield from _numbered_keys(value, names, depth + 1)


def _is_public(reading: ParameterReading, key: str, value: object) -> bool:
    """A number that is none of the owner's, or a text that the schema lists.

    None of the owner's by their own word, or because a tool that is about things declares it as a
    number, and its schema was found to ask for none of their values.
    """
    if isinstance(value, str):
        return value in reading.choices.get(key, ())
    told = (key,) in reading.ignored or (not reading.personal and key in reading.numeric)
    return told and _is_number(value)


def _numeric(schema: Mapping[str, object]) -> frozenset[str]:
    """The parameters that are declared as numbers."""
    properties = schema.get("properties")
    listed = properties.items() if isinstance(properties, dict) else ()
    return frozenset(
        name
        for name, each in listed
        if isinstance(each, dict) and each.get("type") in ("number", "integer")
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _values(node: object, path: Path) -> list[object]:
    """What stands at a path; `*` is every entry of a list."""
    if not path:
        return [node]
    if path[0] == "*":
        entries = node if isinstance(node, list) else []
        return [value for entry in entries for value in _values(entry, path[1:])]
    if isinstance(node, dict) and path[0] in node:
        return _values(node[path[0]], path[1:])
    return []


def _set(node: object, place: Place, value: object) -> None:
    """Put a value where another stands; nothing if that is gone."""
    for part in place[:-1]:
        node = _inside(node, part)
    last = place[-1]
    if isinstance(node, dict) and last in node:  # noqa: SIM114 - the types narrow apart
        node[last] = value
    elif isinstance(node, list) and isinstance(last, int) and last < len(node):
        node[last] = value


def _inside(node: object, part: str | int) -> object:
    if isinstance(node, dict):
        return node.get(part)
    if isinstance(node, list) and isinstance(part, int) and part < len(node):
        return node[part]
    return None


def _changes(
    given: Message,
    made: Message,
    reading: ParameterReading,
    known: Mapping[tuple[str | int, ...], list[Change]],
) -> Iterator[Change]:
    """Every place where what is sent is not what was given, and why.

    By comparing the two, so that nothing changes untold, whatever changed it.
    """
    for path in _differences(given, made, ()):
        if path in reading.meant and path not in known:
            kind, name = reading.meant[path]  # type: ignore[index]  # it is there
            yield Change(path=path, kind=kind, root=name)
            continue
        public = tuple("*" if isinstance(part, int) else part for part in path)
        ends = range(len(public), 0, -1)
        found = next((public[:end] for end in ends if public[:end] in reading.meant), None)
        if path in known:
            yield from known[path]
        elif found is not None:
            kind, name = reading.meant[found]
            yield Change(path=path, kind=kind, root=name)
        else:
            yield Change(path=path, kind="text")


def _differences(
    before: object, after: object, path: tuple[str | int, ...]
) -> Iterator[tuple[str | int, ...]]:
    """The places of `after` that differ. A key that is another one is named as it is now."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in after.items():
            if key not in before:
                yield (*path, key)
            elif not isinstance(value, dict | list):
                if type(before[key]) is not type(value) or before[key] != value:
                    yield (*path, key)
            else:
                yield from _differences(before[key], value, (*path, key))
        if not before.keys() <= after.keys() and after.keys() <= before.keys():
            yield path
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, (*path, at))
    elif type(before) is not type(after) or before != after:
        yield path


def _held(node: object, path: Path, bound: frozenset[Path]) -> object:
    """A copy in which bound parameters only hold their places."""
    if path in bound:
        return node if node is None else _HELD
    if len(path) > MAX_DEPTH:
        return node
    if isinstance(node, dict):
        return {key: _held(value, (*path, key), bound) for key, value in node.items()}
    if isinstance(node, list):
        return [_held(value, (*path, "*"), bound) for value in node]
    return node
