"""A talk of ten turns that every integration has to hold: an interview, tools and streams.

The service at the other end asks for age, AST, ALT and platelets one by one, calls three tools and
says names back. It knows what it was told and nothing else; `Talk` keeps what each tool received.
"""

import functools
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rootguard.session.profile import Profile, parse_profile
from tests.support.upstream import Recording, recording_upstream

POLICY = """
[tiers.clinic]
budget = "3.0"

[tiers.public]
budget = "0.5"

[services.assistant]
tier = "clinic"
roots = "*"
formulas = "*"

[services.fib4_score]
tier = "public"
roots = "*"
formulas = "*"

[services.look_up]
tier = "public"

[services.book_visit]
tier = "public"
identifiers = "restore"
"""
PROFILE = """
templates = ["fib4"]
allocation = "uniform"
policy = "policy.toml"

[identifiers]
name = "Jane Roe"
record = "MRN-4415-8820"
"""
SECRETS = ("Jane", "Roe", "4415-8820", "61.375", "33.25", "271.5", "roehouse")
TURNS = (
    "Hi, I'm Jane Roe, my record number is MRN-4415-8820.",
    "54",
    "61.375",
    "33.25",
    "271.5",
    "Please book a visit for me on Monday.",
    "Who am I again?",
    "Look me up, please.",
    "My email is office@roehouse.example.",
    "Thanks. Sum it up for me.",
)
STREAMED = frozenset((2, 4, 6, 9))
"""Turns whose reply is asked for as a stream: an answer, a call, and the names."""
_ASKS = ("How old are you?", "What is your AST in U/L?", "And your ALT in U/L?")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CLOCK = re.compile(r"(?<=[0-9]T)[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]+")
"""The time of day in a time stamp: "12:00:33.25" holds a secret, once in a few hundred runs."""


def profile_in(folder: Path) -> Profile:
    """The owner's profile and policy, with no value in it: the talk gives them."""
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    (folder / "me.toml").write_text(PROFILE, encoding="utf-8")
    return parse_profile(PROFILE, file=str(folder / "me.toml"))


def leaks(*kept: object) -> set[str]:
    """The secrets that stand in what somebody keeps, in any of the usual forms."""
    found = set()
    for each in kept:
        text = each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each)
        found |= {secret for secret in SECRETS if _stands_in(secret, _CLOCK.sub("", text))}
    return found


def _stands_in(secret: str, text: str) -> bool:
    """A name counts as a word: three letters of it stand by chance in random ids and other names.

    A word may begin right after an escaped line end.
    """
    if not secret.isalpha() or secret.islower():
        return secret in text
    word = rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])){secret}(?![A-Za-z0-9])"
    return re.search(word, text) is not None


def fib4_score(age: float, ast: float, alt: float, platelets: float) -> float:
    """Compute the FIB-4 score.

    Args:
        age: Age in years.
        ast: AST in U/L.
        alt: ALT in U/L.
        platelets: Platelets in 10^9/L.
    """
    return float(round(age * ast / (platelets * alt**0.5), 2))


def book_visit(patient: str, day: str) -> str:
    """Book a visit at the owner's own clinic."""
    return f"Visit on {day} for {patient}: confirmed."


def look_up(patient: str) -> str:
    """Search a public directory."""
    return f"There is no entry for {patient}."


_NUMBER_FIELD, _TEXT_FIELD = {"type": "number"}, {"type": "string"}
_FIELDS: dict[str, dict[str, Any]] = {
    "fib4_score": {
        "age": {**_NUMBER_FIELD, "description": "Age in years."},
        "ast": {**_NUMBER_FIELD, "description": "AST in U/L."},
        "alt": {**_NUMBER_FIELD, "description": "ALT in U/L."},
        "platelets": {**_NUMBER_FIELD, "description": "Platelets in 10^9/L."},
    },
    "book_visit": {"patient": _TEXT_FIELD, "day": _TEXT_FIELD},
    "look_up": {"patient": _TEXT_FIELD},
}
SCHEMAS: dict[str, dict[str, Any]] = {
    name: {"type": "object", "properties": fields, "required": list(fields)}
    for name, fields in _FIELDS.items()
}
"""The tools' schemas, for frameworks that do not make them from functions."""


@dataclass
class Talk:
    """One talk: its service, and what the tools were called with."""

    url: str
    service: Recording
    called: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)
    _number: int = 0

    def tool(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which notes what it is called with."""

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> object:  # noqa: ANN401
            given = inspect.signature(function).bind(*args, **kwargs).arguments
            self.called.setdefault(function.__name__, []).append(dict(given))
            return function(**given)

        return noted

    def says(self, heard: str) -> str:
        """What the service answers; it sets which tool it calls."""
        body = self.service.bodies[-1]
        turns = body["messages"] if "messages" in body else body["input"]
        last = turns[-1]
        self.service.calls = None
        if last.get("role") == "tool" or last.get("type") == "function_call_output":
            return f"Done: {heard}"
        return self._answer(heard, _owner_turns(turns))

    def _answer(self, heard: str, turn: int) -> str:
        if turn == 1:
            found = re.fullmatch(r"Hi, I'm (.+), my record number is (\S+)\.", heard)
            assert found is not None, heard
            self._told |= {"name": found[1], "record": found[2]}
            return f"Welcome, {found[1]}. {_ASKS[0]}"
        if turn in (2, 3, 4):
            self._told[("age", "ast", "alt")[turn - 2]] = _only_number(heard)
            return (*_ASKS, "And your platelets?")[turn - 1]
        if turn == 5:
            self._told["platelets"] = _only_number(heard)
            roots = ("age", "ast", "alt", "platelets")
            return self._call("fib4_score", {root: float(self._told[root]) for root in roots})
        if turn == 6:
            return self._call("book_visit", {"patient": self._told["name"], "day": "Monday"})
        if turn == 8:
            return self._call("look_up", {"patient": self._told["name"]})
        if turn == 9:
            self._told["email"] = heard.removeprefix("My email is ").rstrip(".")
            return f"Noted: {self._told['email']}"
        told = self._told
        if turn == 7:
            return f"You are {told['name']}, record {told['record']}."
        return f"{told['name']}, record {told['record']}, email {told['email']}, age {told['age']}."

    def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        self._number += 1
        self.service.calls, self.service.call = tool, f"call_{self._number}"
        self.service.arguments = lambda _: json.dumps(arguments)
        return ""


def _owner_turns(turns: list[dict[str, Any]]) -> int:
    return sum(each.get("role") == "user" for each in turns)


def _only_number(text: str) -> str:
    found = _NUMBER.findall(text)
    assert len(found) == 1, text
    return str(found[0])


@contextmanager
def talking() -> Iterator[Talk]:
    """A talk with a service of its own on loopback."""
    with recording_upstream() as (url, service):
        talk = Talk(url, service)
        service.says = talk.says
        service.cut = lambda text: [text[at : at + 5] for at in range(0, len(text), 5)]
        yield talk


def hold(ask: Callable[[str, bool], str]) -> list[str]:
    """Hold the talk: `ask` gives the reply that the owner reads, as a stream or not."""
    return [ask(text, place in STREAMED) for place, text in enumerate(TURNS)]


async def ahold(ask: Callable[[str, bool], Awaitable[str]]) -> list[str]:
    """As `hold`."""
    return [await ask(text, place in STREAMED) for place, text in enumerate(TURNS)]


UNGUARDED = {"Jane", "Roe", "4415-8820", "61.375", "33.25", "271.5"}
"""What leaves without a guard at the least, so that a test that finds nothing can look."""


def check_kept(talk: Talk, replies: list[str], *kept: object) -> None:
    """Nothing private left, tools got what is theirs, and the owner reads real names."""
    for place in (talk.service.everything, *kept):
        assert leaks(place) == set(), f"{leaks(place)} in {str(place)[:200]}"
    assert len(talk.service.bodies) == len(TURNS) + 3
    assert [set(talk.called[name][0]) for name in ("fib4_score", "book_visit", "look_up")]
    assert talk.called["book_visit"] == [{"patient": "Jane Roe", "day": "Monday"}]
    assert leaks(talk.called["look_up"], talk.called["fib4_score"]) == set()
    assert replies[0].startswith("Welcome, Jane Roe. ")
    assert "Jane Roe" in replies[5]
    assert replies[6] == "You are Jane Roe, record MRN-4415-8820."
    assert "Jane Roe" in replies[7]
    assert replies[8] == "Noted: office@roehouse.example"
    assert replies[9].startswith(
        "Jane Roe, record MRN-4415-8820, email office@roehouse.example, age "
    )
