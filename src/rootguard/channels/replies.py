"""Replies on their way in: issued tokens become the caller's own identifiers again.

Restoring is for the caller, who owns the identifiers, so every text of a reply is looked at; ids,
kinds and what the upstream sealed for itself stay. A tool call's arguments are JSON inside a
string: they are restored inside their string literals, with JSON's escapes, whether they come whole
or in pieces of any size.
"""

import json
import re
from typing import Final, Protocol

_KEPT: Final = frozenset(
    """id object type role model status name call_id tool_call_id tool_use_id item_id file_id
    container_id response_id previous_response_id finish_reason stop_reason service_tier
    system_fingerprint logprobs signature encrypted_content encrypted_index encrypted_stdout
    obfuscation b64_json partial_image_b64 media_type""".split()  # noqa: SIM905
)
_FREE: Final = frozenset(("input", "metadata", "attributes", "results"))
_JSON_TEXTS: Final = frozenset(("arguments", "partial_json"))
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PLAIN: Final = re.compile(r'[^"\\]+')
_BARE: Final = re.compile(r"[^\W_]|[+\-.]")
_LONGEST_BARE: Final = 256


class Restorer(Protocol):
    """Restores a text that arrives in pieces."""

    def feed(self, chunk: str) -> str:
        """What can be shown now, restored."""
        ...

    def close(self) -> str:
        """The rest."""
        ...


class Restoring(Protocol):
    """What restoring a reply needs of one person's text channel."""

    def restore(self, text: str) -> str:
        """Issued tokens put back; everything else stays."""
        ...

    def restorer(self) -> Restorer:
        """The same, in pieces."""
        ...


class JsonRestorer:
    """Restores JSON that arrives in pieces: inside string literals, escapes undone and redone.

    A number that is an issued token is restored too. If what it stands for is no JSON number, a
    leading zero say, it becomes a string: a wrong number would go unnoticed.
    """

    __slots__ = ("_bare", "_inside", "_make", "_pending", "_restore")

    def __init__(self, channel: Restoring) -> None:
        self._make = channel.restorer
        self._restore = channel.restore
        self._inside: Restorer | None = None
        self._pending = ""
        self._bare = ""

    def feed(self, chunk: str) -> str:
        """What can be shown now, restored."""
        rest = self._pending + chunk
        self._pending = ""
        out: list[str] = []
        at = 0
        while at < len(rest):
            if self._inside is None:
                at = self._outside(rest, at, out)
                continue
            plain = _PLAIN.match(rest, at)
            if plain is not None:
                out.append(_escape(self._inside.feed(plain.group())))
                at = plain.end()
            elif rest[at] == '"':
                out.append(_escape(self._inside.close()) + '"')
                self._inside = None
                at += 1
            else:
                size = _escape_size(rest, at)
                if size is None:
                    self._pending = rest[at:]
                    break
                out.append(self._escaped(rest[at : at + size]))
                at += size
        return "".join(out)

    def close(self) -> str:
        """The rest, as far as it came."""
        rest = self._flush_bare()
        if self._inside is not None:
            rest += _escape(self._inside.close())
            self._inside = None
        rest += self._pending
        self._pending = ""
        return rest

    def _outside(self, rest: str, at: int, out: list[str]) -> int:
        character = rest[at]
        if _BARE.match(character):
            self._bare += character
            if len(self._bare) > _LONGEST_BARE:
                out.append(self._bare)
                self._bare = ""
            return at + 1
        out.append(self._flush_bare() + character)
        if character == '"':
            self._inside = self._make()
        return at + 1

    def _flush_bare(self) -> str:
        bare, self._bare = self._bare, ""
        if len(bare) < 2:
            return bare
        restored = self._restore(bare)
        if restored != bare and _NUMBER.fullmatch(bare) and not _NUMBER.fullmatch(restored):
            return f'"{_escape(restored)}"'
        return restored

    def _escaped(self, escape: str) -> str:
        inside = self._inside
        if inside is None:
            return escape
        try:
            return _escape(inside.feed(str(json.loads(f'"{escape}"'))))
        except ValueError:  # not an escape of JSON: shown as it came
            shown = _escape(inside.close()) + escape
            self._inside = self._make()
            return shown


def _escape_size(text: str, at: int) -> int | None:
    """How long the escape is that begins here, or None if its end has not come yet.

    A high surrogate waits for what follows, since the two are one character.
    """
    if len(text) < at + 2:
        return None
    if text[at + 1] != "u":
        return 2
    if len(text) < at + 6:
        return None
    if text[at + 2 : at + 4].lower() not in {"d8", "d9", "da", "db"}:
        return 6
    follows = text[at + 6 : at + 12]
    if not "\\u".startswith(follows[:2]):
        return 6
    if len(follows) < 6:
        return None
    return 12 if follows[2:4].lower() in {"dc", "dd", "de", "df"} else 6


def _escape(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", escaped)


def restore_json(channel: Restoring, text: str) -> str:
    """JSON in a string, restored."""
    restorer = JsonRestorer(channel)
    return restorer.feed(text) + restorer.close()


def restore_reply(channel: Restoring, value: object, key: str = "") -> object:
    """A reply's JSON with every text restored."""
    if isinstance(value, str):
        return restore_json(channel, value) if key in _JSON_TEXTS else channel.restore(value)
    if key in _FREE:
        return _restore_freely(channel, value)
    if isinstance(value, list):
        return [restore_reply(channel, each, key) for each in value]
    if isinstance(value, dict):
        return {
            name: each if name in _KEPT else restore_reply(channel, each, name)
            for name, each in value.items()
        }
    return value


def _restore_freely(channel: Restoring, value: object) -> object:
    """JSON whose keys are the caller's own, a tool's input say: no name in it is special."""
    if isinstance(value, str):
        return channel.restore(value)
    if isinstance(value, list):
        return [_restore_freely(channel, each) for each in value]
    if isinstance(value, dict):
        return {
            channel.restore(name): _restore_freely(channel, each) for name, each in value.items()
        }
    return value


def write_reply(value: object) -> bytes:
    """A reply's JSON; half a surrogate pair, which UTF-8 cannot hold, stays an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")
