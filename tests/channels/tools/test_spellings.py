"""Units as laboratories and programs spell them are read rightly or asked about, never wrongly."""

import math

import pytest

from rootguard.channels.tools.units import units_in
from rootguard.language.units import UNKNOWN, canonical, convert
from tests.support.schemas import tool
from tests.support.shared_tools import UNITS, unit_outcomes
from tests.support.spellings import counted, spelled


def test_the_spellings_are_over_two_hundred_and_two_fifths_are_kept_aside() -> None:
    seen, aside = len(spelled("spellings")), len(spelled("spellings_held_out"))
    assert seen >= 200
    assert 0.35 <= aside / (seen + aside) <= 0.45


@pytest.mark.parametrize("title", ["spellings", "spellings_held_out"])
def test_no_unit_is_read_wrongly_and_few_are_asked(title: str) -> None:
    found = counted(title)
    assert found["wrong"] == 0
    assert found["asked"] <= 0.1 * sum(found.values())


@pytest.mark.skipif(not UNITS.exists(), reason="the shared cases are not here")
def test_no_unit_of_the_shared_cases_is_read_wrongly() -> None:
    found = unit_outcomes()
    assert found["wrong"] == 0
    assert found["asked"] <= 0.1 * sum(found.values())


@pytest.mark.parametrize(
    "text",
    [
        "Platelets in hundreds of thousands per microliter",
        "Platelets in dozens/uL",
        "Platelets 100/uL",
        "Platelets per uL x 100",
        "Platelet count in crores/mm3",
        "Platelets in mg/dL x 10",
    ],
)
def test_a_multiplier_that_is_not_understood_refuses_the_reading(text: str) -> None:
    assert UNKNOWN in dict(units_in(text))
    made = tool({"platelets": {"type": "number", "description": text}})
    assert made.bindings == ()
    assert "not known" in made.asked[0].why


def test_cells_before_a_volume_multiply_nothing() -> None:
    assert dict(units_in("Platelet count in cells/uL")) == {"/uL": True}


def test_a_unit_that_nobody_described_is_not_taken_for_the_usual_one() -> None:
    made = tool({"ast": {"type": "number", "description": "AST in furlongs/l"}})
    assert made.bindings == ()


def test_mil_is_asked_about_because_languages_differ() -> None:
    made = tool({"platelets": {"type": "number", "description": "Plaquetas, mil/mm3"}})
    assert "several units" in made.asked[0].why


def test_a_power_in_a_name_is_read_whole_or_not_at_all() -> None:
    for name, unit in (
        ("platelets_10_9_l", None),
        ("platelets_10_3_per_ul", None),
        ("platelets_1000_per_ul", None),
        ("platelets_per_ul", "/uL"),
    ):
        (binding,) = tool({name: {"type": "number"}}).bindings
        assert (binding.unit, binding.own) == (unit, "10^9/L"), name
    assert tool({"platelets_10_7_l": {"type": "number"}}).bindings == ()


def test_thousands_of_a_currency_are_converted_and_other_parts_of_it_are_asked() -> None:
    assert canonical("k$/year") == "kUSD/year"
    yearly = convert(7083.0, "USD/month", "kUSD/year")
    assert yearly is not None
    assert math.isclose(yearly, 84.996)
    about = "Budget of the applicant"
    for text, bound in (
        ("Gross annual income in k$", True),
        ("Gross annual income in millions of USD", False),
        ("Gross annual income in cents", False),
        ("Gross annual income in USD, up to 5 million", True),
    ):
        made = tool({"income": {"type": "number", "description": text}}, about=about)
        assert bool(made.bindings) is bound, text


def test_milliequivalents_of_an_ion_of_one_charge_are_the_roots_own_unit() -> None:
    (sodium,) = tool({"sodium": {"type": "number", "description": "Serum sodium, mEq/L"}}).bindings
    (calcium,) = tool(
        {"calcium": {"type": "number", "description": "Serum calcium, mEq/L"}}
    ).bindings
    assert (sodium.unit, calcium.unit) == (None, "mEq/L")
