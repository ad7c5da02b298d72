"""Tools that say what they ask get released values, whatever shape the question has."""

from pathlib import Path

import pytest

from rootguard import MemoryStore
from rootguard.channels.mcp.proxy.offers import AmbiguousParameterError, Arguments
from rootguard.session import Person, parse_profile
from tests.support.tool_attacks import ATTACKS, Attacked, live

BOOLEAN = {"type": "boolean"}


def person(ast: float = 30) -> Person:
    text = f'templates = ["fib4", "bmi"]\nbudget = "1"\n[values]\nage = 50\nast = {ast}\n'
    text += "alt = 31\nplt = 210\nwt = 80\nht = 1.8\n"
    return Person.open(parse_profile(text, file="me.toml"), store=MemoryStore())


def bisected(me: Person, raw: float) -> tuple[float, float]:
    """What a server learns from an agent that answers each question from the raw value."""
    arguments, low, high = Arguments(me), 0.0, 400.0
    for _ in range(30):
        middle = (low + high) / 2
        asked = {**BOOLEAN, "description": f"Is the patient's AST above {middle:.9f} U/L?"}
        reading = arguments.reading("q", "Liver", {"type": "object", "properties": {"a": asked}})
        if arguments.fill(reading, {"a": raw > middle})["a"]:
            low = middle
        else:
            high = middle
    return low, high


def test_a_bisection_by_thresholds_ends_at_the_released_value() -> None:
    me = person()
    low, high = bisected(me, 30)
    released = me.number("ast")
    assert low - 1e-5 <= released <= high + 1e-5
    assert bisected(me, 200) == (low, high)  # whatever the agent says


def test_an_observation_gets_the_released_value_in_its_own_unit() -> None:
    me = person()
    arguments = Arguments(me)
    reading = arguments.reading("store", "Store an Observation", {"type": "object"})
    node = {"code": {"text": "Body weight"}, "valueQuantity": {"value": 176.4, "unit": "lb"}}
    sent = arguments.fill(reading, {"resource": node})["resource"]
    assert sent["valueQuantity"]["unit"] == "lb"
    released = me.number("wt") / 0.45359237
    assert sent["valueQuantity"]["value"] == pytest.approx(released, abs=0.5)
    assert sent["valueQuantity"]["value"] == round(released)  # as people weigh in pounds
    assert node["valueQuantity"] == {"value": 176.4, "unit": "lb"}


def test_an_observation_without_a_unit_is_refused() -> None:
    arguments = Arguments(person())
    reading = arguments.reading("store", "Store an Observation", {"type": "object"})
    node = {"code": {"text": "Body weight"}, "valueQuantity": {"value": 80}}
    with pytest.raises(AmbiguousParameterError, match="wt"):
        arguments.fill(reading, {"resource": node})


@pytest.mark.skipif(not ATTACKS.exists(), reason="the shared cases are not here")
def test_nothing_of_the_shared_attacks_leaves() -> None:
    """For each of three fresh persons with a small budget: a token may meet an identifier, and a
    rounded value the raw one, by chance.
    """
    people = [Attacked() for _ in range(3)]
    cases = ATTACKS.read_text("utf-8").splitlines()
    assert [case for case in cases if all(each.leaks(case) for each in people)] == []


@pytest.mark.skipif(not ATTACKS.exists(), reason="the shared cases are not here")
def test_the_shared_cases_live_leak_nothing_keep_the_rest_and_tell_every_change(
    tmp_path: Path,
) -> None:
    """Through the proxy in a process of its own. A leak has to show in three fresh people."""
    lines = ATTACKS.read_text("utf-8").splitlines()
    made = live(lines, tmp_path)
    assert [each.case["id"] for each in made if each.silent] == []
    kept = [each for each in made if "must_be_unchanged" in each.case]
    assert [each.case["id"] for each in kept if not each.unchanged] == []
    suspects = [line for line, each in zip(lines, made, strict=True) if each.leaks]
    for turn in range(2):
        folder = tmp_path / f"again-{turn}"
        folder.mkdir()
        again = live(suspects, folder) if suspects else []
        suspects = [line for line, each in zip(suspects, again, strict=True) if each.leaks]
    assert suspects == []
