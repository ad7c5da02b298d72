"""What people write is gone once it was read: no memory of the process holds a word of it."""

import functools
import gc
from collections.abc import Iterator

import pytest

from rootguard.channels.detection import Rules
from rootguard.channels.text import TextChannel
from rootguard.channels.tools.shapes import stated
from rootguard.channels.tools.words import meanings
from tests.support.channel_person import open_person
from tests.support.schemas import IDENTIFIERS, ROOTS, TEMPLATES

# Backwards, and turned round only to look: what the test itself holds is not to be found.
WORD, NUMBER = "kvxq", "7392846150"


@pytest.fixture(autouse=True)
def _whole() -> Iterator[None]:
    """The suite freezes what was imported; memories of modules are just what counts."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


def texts() -> Iterator[str]:
    """Words that are nearly names of roots, units, people and answers, and one long number."""
    odd, number = WORD[::-1], NUMBER[::-1]
    yield f"My platele{odd} were {number} mg{odd}/dL, my gluco{odd} 5. I am Dr. Jan{odd} Ro{odd}."
    yield f"Are you a smo{odd}ker? - yes{odd}; write to jan{odd}@{odd}.example about 1{number}."
    yield f'{{"plat{odd}": {number}, "note": "AST in U/{odd}", "value": 1{number}}}'


def held(backwards: str) -> list[str]:
    """The texts of the whole process that hold a word, also those of tables of nothing but texts.

    The collector does not list a table of texts only, so what each listed thing refers to is
    looked at as well. Nobody is asked for its class: some answer with an error.
    """
    gc.collect()
    found, seen = list[str](), set[int]()
    for listed in gc.get_objects():
        for thing in gc.get_referents(listed):
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            parts = gc.get_referents(thing) if not gc.is_tracked(thing) else ()
            found += [
                each
                for each in (thing, *parts)
                if issubclass(type(each), str) and backwards[::-1] in each.lower()
            ]
    return found


def counts() -> tuple[int, int]:
    return len(held(WORD)), len(held(NUMBER))


def read(channel: TextChannel) -> None:
    known = meanings(ROOTS, TEMPLATES, IDENTIFIERS)
    for text in texts():
        channel.sanitize(text)
        Rules().find(text)
        stated({"note": text[:70], f"value{WORD[::-1]}": 4.5}, known, personal=True)
        stated({"note": text[:70], "value": 4.5}, known, personal=True)


class Memory:
    """Two that hold on to what they are given."""

    def __init__(self) -> None:
        self.table: dict[str, str] = {}
        self.lowered = functools.lru_cache(str.lower)


def test_a_text_that_is_held_is_found() -> None:
    before = counts()
    memory = Memory()
    for text in texts():
        memory.table[text] = text
    assert all(now > then for now, then in zip(counts(), before, strict=True))
    memory.table.clear()
    assert counts() == before
    for text in texts():
        memory.lowered(text)
    assert all(now > then for now, then in zip(counts(), before, strict=True))


def test_nothing_of_a_text_stays_once_its_person_is_gone() -> None:
    before = counts()
    read(TextChannel(open_person()))
    assert counts() == before
