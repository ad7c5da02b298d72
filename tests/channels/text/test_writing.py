"""What is written in the place of a value: valid JSON of the same types, and as people write it.

Documents and sentences are generated from a seed, with roots under names that the reader knows.
"""

import json
import random
import re
from collections.abc import Iterator

import pytest

from rootguard.channels.text.channel import TextChannel
from rootguard.session.person import Person
from rootguard.values import RootName
from tests.support.channel_person import FAR, open_person

KEYS = {
    "age": "age",
    "AST": "ast",
    "alt": "alt",
    "platelets": "plt",
    "glucose": "glu",
    "weight": "wt",
    "height": "ht",
    "systolic": "sbp",
    "hemoglobin": "hb",
    "hematocrit": "hct",
}
VALUES = f"{FAR}\nhb = 9.13\nhct = 55.21"
OTHER_UNITS = {"weight_lb": 0, "height_cm": 0, "glucose_mmol": 1}
"""Keys in another unit, and how many decimals keep the resolution there."""
AMOUNTS = pytest.mark.parametrize(
    ("seed", "documents"),
    [(1, 300), *(pytest.param(seed, 1_000, marks=pytest.mark.slow) for seed in range(2, 12))],
)
NUMBER = re.compile(r"\d+(?:\.(\d+))?")


@pytest.fixture(scope="module")
def person() -> Person:
    return open_person(VALUES)


@pytest.fixture(scope="module")
def channel(person: Person) -> TextChannel:
    return TextChannel(person, near_private="pass")


def number(rng: random.Random, root: str, person: Person) -> float | str:
    """A value of a root within its bounds, as an integer, a float or a text."""
    domain = person.roots[RootName(root)].domain
    value = rng.uniform(domain.lower, domain.upper)
    whole = max(1, round(value))
    numbers: list[float | str] = [whole, float(whole), round(value, 1), value]
    return rng.choice([*numbers, str(whole), f"{value:.1f}", f"{value:.6f}"])


def document(rng: random.Random, person: Person, depth: int = 0) -> object:
    """A document with roots among other things."""
    made: dict[str, object] = {}
    for key in rng.sample(sorted(KEYS), rng.randint(1, 4)):
        value = number(rng, KEYS[key], person)
        shapes: list[object] = [value, value, {"value": value}, [value, value]]
        made[key] = rng.choice(shapes)
    if rng.random() < 0.3:
        made[rng.choice(sorted(OTHER_UNITS))] = rng.choice([184, 184.25, 17.0])
    made["note"] = rng.choice(["as before", "", None, True, False])
    if depth < 2 and rng.random() < 0.5:
        made["visits"] = [document(rng, person, depth + 1) for _ in range(rng.randint(0, 2))]
    return made


def places(
    value: object, path: tuple[object, ...] = ()
) -> Iterator[tuple[tuple[object, ...], object]]:
    """Every value that is no object or list, with the way to it."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))
    else:
        yield path, value


def most_decimals(path: tuple[object, ...], person: Person) -> int | None:
    """How many decimals a number at a place may have, if it is a root's."""
    named = [key for key in path if isinstance(key, str) and key != "value"]
    if named[-1] in KEYS:
        return person.roots[RootName(KEYS[named[-1]])].places
    return OTHER_UNITS.get(named[-1])


def check(before: object, after: object, person: Person) -> int:
    """The same places, types and other values; how many numbers of roots there were."""
    old, new = dict(places(before)), dict(places(after))
    assert old.keys() == new.keys()
    count = 0
    for path, value in new.items():
        assert type(value) is type(old[path]), path
        most = most_decimals(path, person)
        if most is None:
            assert value == old[path], path
            continue
        count += 1
        written = value if isinstance(value, str) else repr(value).removesuffix(".0")
        found = NUMBER.fullmatch(written)
        assert found is not None, path
        assert len(found[1] or "") <= most, path
    return count


@AMOUNTS
def test_a_document_keeps_its_types_and_its_numbers_have_few_decimals(
    seed: int, documents: int, person: Person, channel: TextChannel
) -> None:
    rng = random.Random(seed)
    count = 0
    for _ in range(documents):
        given = document(rng, person)
        made = channel.sanitize_json(given).value
        count += check(given, made, person)
        assert channel.sanitize_json(made).value == made
    assert count > 3 * documents


@AMOUNTS
def test_a_text_that_is_json_stays_json_of_the_same_types(
    seed: int, documents: int, person: Person, channel: TextChannel
) -> None:
    """As a text, where nothing but the numbers behind quoted keys says that it is JSON."""
    rng = random.Random(seed)
    for _ in range(documents):
        key = rng.choice(sorted(KEYS))
        value = number(rng, KEYS[key], person)
        while isinstance(value, str):
            value = number(rng, KEYS[key], person)
        given = {key: rng.choice([value, {"value": value}]), "note": "as before"}
        text = json.dumps(given, indent=rng.choice([None, 2]))
        made = channel.sanitize(text).text
        check(given, json.loads(made), person)
        assert channel.sanitize(made).text == made


SENTENCES = (
    "My {0} is {1}.",
    "{0}: {1}",
    "{0} was {1} last week",
    "| {0} | {1} |",
    "{0},note\n{1},fine",
    "Is {1} for {0} bad?",
)


@AMOUNTS
def test_a_sentence_says_a_value_with_its_decimals_and_twice_the_same(
    seed: int, documents: int, person: Person, channel: TextChannel
) -> None:
    rng = random.Random(seed)
    said: dict[str, set[str]] = {}
    for _ in range(documents):
        key = rng.choice(sorted(KEYS))
        sentence = rng.choice(SENTENCES)
        given = str(number(rng, KEYS[key], person))
        made = channel.sanitize(sentence.format(key, given)).text
        assert channel.sanitize(made).text == made
        for found in NUMBER.finditer(made):
            said.setdefault(KEYS[key], set()).add(found[0])
            assert len(found[1] or "") == person.roots[RootName(KEYS[key])].places
    assert said.keys() == set(KEYS.values())
    # One released value, one writing in its own unit; a bare number below its bounds may be in
    # another unit ("glucose 5.9"), and none is generated there.
    assert all(len(writings) == 1 for writings in said.values())
