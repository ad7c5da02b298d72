"""The text channel on prompts of 10 KiB: sanitized on the way out, restored on the way back.

The prompts have 20 mentions: values of roots in several spellings, declared and undeclared
identifiers. The prose is drawn from the list of ordinary words, so that few of them repeat. Against
what any proxy does with the same text, `json.loads` and `json.dumps`, and against one bare search
by regular expression that finds words and numbers. "New" prompts are seen once; "sent again" is a
chat's earlier message, which the channel remembers. The detectors alone stand beside Presidio's,
with the same spaCy pipeline as in `--only detection`.
"""

import functools
import json
import random
import re
from collections.abc import Callable, Iterator

from benchmarks.detection.public import contenders
from benchmarks.measure import Case, Contender, Skipped
from rootguard.channels.detection import Rules
from rootguard.channels.detection.lists import FOREIGN, ORDINARY
from rootguard.channels.text.channel import TextChannel
from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore

_CHARACTERS = 10 * 1024
_PROMPTS = 64
_MENTIONS = (
    *(
        "AST is 23 U/L",
        "my ALT was 41",
        "platelets 231",
        "BP 134/64",
        "fasting glucose: 5.9 mmol/L",
    ),
    *("I weigh 81 kg", "height 5'11\"", "age 57", "hemoglobin 13.1 g/dL", "insulin 9 uU/mL"),
    *("waist 92 cm", "AST 0.4 ukat/L", "Jane Roe", "MRN-4415-8820", "Roe", "Maria Lopez"),
    *("maria.lopez@example.com", "(212) 555-0147", "born 14 March 1980", "Dr. Chen Wei"),
)
_PROFILE = """
templates = ["fib4", "homa", "vascular", "conicity", "anemia"]
budget = "3"
[identifiers]
name = "Jane Roe"
record = "MRN-4415-8820"
"""
_SMALL = (
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "it",
    "was",
    "for",
    "on",
    "with",
    "as",
    "by",
)
_AS_PRESIDIO = 20.0
"""Times as fast as Presidio: at most a twentieth of its time."""
_SCAN = re.compile(r"[A-Za-z]+|[0-9]+(?:[.,][0-9]+)*")


def text() -> Iterator[Case | Skipped]:
    profile = parse_profile(_PROFILE, file="profile.toml")
    person = Person.open(profile, store=MemoryStore(), on_clamp=lambda _: None)
    channel = TextChannel(person, detectors=[Rules()], near_private="redact")
    rng = random.Random(20)
    words = sorted(ORDINARY - FOREIGN)
    prompts = [_prompt(rng, words, _MENTIONS) for _ in range(_PROMPTS)]
    plain = _prompt(rng, words, ())
    sanitized = [channel.sanitize(prompt).text for prompt in prompts]
    turn = iter(range(10**9))

    def new() -> object:
        number = next(turn)
        return channel.sanitize(f"{prompts[number % _PROMPTS]} {_letters(number)}")

    ways: tuple[tuple[str, Callable[[], object], str], ...] = (
        ("sanitize, 20 mentions, new", new, prompts[0]),
        ("sanitize, 20 mentions, sent again", lambda: channel.sanitize(prompts[0]), prompts[0]),
        ("sanitize, no mentions, new", lambda: channel.sanitize(f"{plain}{_letters(next(turn))}"),
         plain),
        ("restore, 20 mentions", lambda: channel.restore(sanitized[0]), sanitized[0]),
        ("restore, no mentions", lambda: channel.restore(plain), plain),
    )  # fmt: skip
    for name, call, written in ways:
        ours = Contender(name=f"{name}; bytes", call=call, units=_CHARACTERS)
        yield Case(
            ours=ours,
            theirs=Contender(
                name="json.loads and json.dumps",
                call=functools.partial(_through_json, json.dumps(written)),
                units=_CHARACTERS,
            ),
            rate=True,
        )
        yield Case(
            ours=ours,
            theirs=Contender(
                name="one search by regular expression",
                call=functools.partial(_SCAN.findall, written),
                units=_CHARACTERS,
            ),
            rate=True,
        )

    yield from _detectors(prompts[0])


def _detectors(prompt: str) -> Iterator[Case | Skipped]:
    """What finding identifiers takes, without anything else."""
    rules = Contender(
        name="the rules find identifiers; bytes",
        call=functools.partial(Rules().find, prompt),
        units=_CHARACTERS,
    )
    for name, detector in contenders():
        if isinstance(detector, str):
            yield Skipped(name=name, reason=detector)
        elif name != "Rules":
            yield Case(
                ours=rules,
                theirs=Contender(
                    name=name, call=functools.partial(detector.find, prompt), units=_CHARACTERS
                ),
                aim=_AS_PRESIDIO if name == "Presidio" else None,
                rate=True,
            )


def _through_json(body: str) -> str:
    return json.dumps(json.loads(body))


def _letters(number: int) -> str:
    """A word that was not there before."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def _prompt(rng: random.Random, words: list[str], mentions: tuple[str, ...]) -> str:
    share = _CHARACTERS // max(len(mentions), 1)
    parts = []
    for mention in mentions or ("",):
        prose: list[str] = []
        while (left := share - len(mention) - sum(map(len, prose))) > 0:
            chosen = [rng.choice(words if rng.random() < 0.6 else _SMALL) for _ in range(12)]
            prose.append(f"{' '.join(chosen).capitalize()}. "[:left])
        parts += ["".join(prose)[: share - len(mention) - 4].rstrip(". "), ". ", mention, ". "]
    return "".join(parts)
