"""A refusal that helps: which message, where in it, why, and what to change.

It goes back to the caller who sent the text, and to nobody else: no log, trace or metric has it.
Still it repeats as little as it can, since callers log their errors. A field is named if its name
is a plain word and holds no declared identifier; otherwise its position is. Of the text around the
place only words of a public list are shown: names of measurements and small words. Everything
else, every digit, every number word and every name of a person, is a mark.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from rootguard.channels.faults import Code, Fault, fault_of
from rootguard.channels.gateway.shapes import place_name, read_json
from rootguard.errors import RootGuardError, TextBlockedError, TextRule
from rootguard.language.names import concepts
from rootguard.language.numbers import spoken

_AROUND: Final = 48
"""Characters on either side that are looked at: a few words, by which a reader knows the place."""
_PIECE: Final = re.compile(r"[^\W\d_]+|\d[\d.,:/ -]*|[^\w]+|_")
_TIDY: Final = (
    (re.compile(r"\s+"), " "),
    (re.compile(r"#(?: ?#)+"), "#"),
    (re.compile(r"…(?:[ .,:;?!()/=%]*…)+"), "…"),
    (re.compile(r" (?=[.,:;?!)/=%])|(?<=[(/=]) "), ""),
)
_ROLES: Final = frozenset(
    """assistant custom_tool_call custom_tool_call_output developer function function_call
    function_call_output reasoning system tool user""".split()  # noqa: SIM905
)
_SMALL_WORDS: Final = frozenset(
    """a about after all am and are as at be been before but by can did do does for from had has
    have he her his how i if in is it its last like me month my near night now of on or our out over
    please she should since so some than that the their them then there they this to today tomorrow
    under until up was we week were what when which who will with year yesterday you your
    kg g mg mcg ug ng pg l dl ml mol mmol umol nmol iu u lb cm mm mmhg years days weeks months hours
    day hour times daily dose level levels result results test tests value values unit
    units""".split()  # noqa: SIM905
)

_HINTS: Final[Mapping[Code, str]] = {
    "access_denied": "leave the value out, or allow it to this service in the policy",
    "bad_value": "compare the field with the API's reference",
    "budget_refused": "leave the value out, or raise its cap in the vault",
    "media_refused": "leave it out, or start the gateway with --allow-media to send it unread",
    "private_id": "choose an id or a name without it",
    "token_ids_refused": (
        "send texts; LangChain's OpenAIEmbeddings does with check_embedding_ctx_length=False"
    ),
    "too_large": "send fewer parts",
    "unknown_field": "leave the field out, or start the gateway with --unknown-fields drop",
    "unknown_kind": "use a kind of content or tool that the gateway's documentation lists",
    "wrong_type": "compare the field with the API's reference",
}
_RULES: Final[Mapping[TextRule, str]] = {
    "detector_failed": "mend the detector, or start the gateway with --detect rules",
    "number_refused": "leave the number out, or write it as text",
    "unbound_number": (
        "write the number with its name and unit, declare it in the profile, or leave it out; with "
        "the header x-rootguard-on-doubt: redact it becomes [number]"
    ),
    "unbroken_text": "break the text into lines",
    "unreadable_document": "send a smaller or flatter document",
    "unsettled": "write the text in other words",
}


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Refusal:
    """Where in a request the reason of a fault stands, and what to do. For the caller alone."""

    fault: Fault
    field: str
    role: str
    rule: TextRule | None
    start: int | None
    end: int | None
    excerpt: str
    hint: str

    def sentences(self) -> str:
        """What happened, where, and what to do."""
        where = f"{self.field} ({self.role})" if self.role else self.field
        if self.start is not None:
            where += f", characters {self.start} to {self.end}"
        if self.excerpt:
            where += f", near “{self.excerpt}”"
        advice = f" What to do: {self.hint}." if self.hint else ""
        return f"{self.fault.text}. Where: {where}.{advice}"

    def fields(self) -> dict[str, object]:
        """The same for programs."""
        every = {
            "field": self.field,
            "role": self.role or None,
            "rule": self.rule,
            "start": self.start,
            "end": self.end,
            "excerpt": self.excerpt or None,
            "hint": self.hint or None,
        }
        return {name: each for name, each in every.items() if each is not None}


def find_refusal(
    problem: Exception,
    trail: Sequence[int],
    body: bytes,
    *,
    is_private: Callable[[str], bool],
) -> Refusal | None:
    """What can be said about a problem with a body; None if that is nothing."""
    fault = fault_of(problem)
    blocked = problem if isinstance(problem, TextBlockedError) else None
    path = [*trail, *(blocked.path if blocked else ())]
    if not path or fault.status >= 500:
        return None
    try:
        whole = read_json(body.decode("utf-8"))
        field, found = place_name(whole, path, is_private)
    except (ValueError, LookupError, RootGuardError):
        return None
    start, end = (blocked.start, blocked.end) if blocked else (None, None)
    excerpt = ""
    if isinstance(found, str) and start is not None and end is not None:
        excerpt = masked(found, start, end)
    return Refusal(
        fault=fault,
        field=field,
        role=_role(whole, path),
        rule=blocked.rule if blocked else None,
        start=start,
        end=end,
        excerpt=excerpt,
        hint=_RULES[blocked.rule] if blocked else _HINTS.get(fault.code, ""),
    )


def _role(whole: object, path: Sequence[int]) -> str:
    """Who speaks in the message that a path goes through, or what kind of item it is."""
    if not isinstance(whole, dict) or len(path) < 2:
        return ""
    turns = list(whole.values())[path[0]]
    turn = turns[path[1]] if isinstance(turns, list) else None
    said = (turn.get("role"), turn.get("type")) if isinstance(turn, dict) else ()
    return next((each for each in said if isinstance(each, str) and each in _ROLES), "")


def masked(text: str, start: int, end: int) -> str:
    """The words around a place; what is not public is a mark, "#" if it may be a number."""
    left, right = max(0, start - _AROUND), min(len(text), end + _AROUND)
    shown = "".join(map(_piece, _PIECE.findall(text[left:right])))
    for pattern, made in _TIDY:
        shown = pattern.sub(made, shown)
    return shown.strip()


def _piece(piece: str) -> str:
    if any(map(str.isnumeric, piece)):
        return " # "
    if not piece[0].isalpha():
        return _sign(piece)
    word = piece.casefold()
    if word in _public():
        return f" {word} "
    return " # " if spoken(word) else " … "


def _sign(piece: str) -> str:
    return "".join(each if each in ".,:;?!()/=%" else " " for each in piece)


@cache
def _public() -> frozenset[str]:
    """Small words, and the words by which measurements are called; no word for a number."""
    named = {
        word
        for concept in concepts().values()
        for spelling in concept.spellings
        for word in spelling.words
    }
    words = _SMALL_WORDS | {word for word in named if word.isalpha()}
    return frozenset(word for word in words if not spoken(word))
