"""Units: what the registry and the data convert, and what they refuse."""

import math
import subprocess
import sys
import tomllib
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.language.fold import plain
from rootguard.language.units import (
    canonical,
    convert,
    currency_before,
    describe,
    digits_in_units,
    fits,
    read_period,
    readings,
    substance_of,
)
from rootguard.template import catalog, load_template

DATA = tomllib.loads((resources.files("rootguard.language") / "units.toml").read_text("utf-8"))

# Abridged standard atomic weights, IUPAC/CIAAW 2021.
WEIGHTS = {
    "H": 1.008,
    "C": 12.011,
    "N": 14.007,
    "O": 15.999,
    "Na": 22.99,
    "Cl": 35.45,
    "K": 39.098,
    "Ca": 40.078,
    "Fe": 55.845,
}

CONVERSIONS = [
    (5.9, "mmol/L", "mg/dL", "glucose", 106.292),
    (100, "mg/dL", "mmol/L", "glucose", 5.55075),
    (1, "mg/dL", "umol/L", "creatinine", 88.4017),
    (200, "mg/dL", "mmol/L", "cholesterol", 5.17245),
    (150, "mg/dL", "mmol/L", "triglycerides", 1.69405),
    (1, "mg/dL", "µmol/L", "bilirubin", 17.1036),
    (14, "mg/dL", "mmol/L", "urea_nitrogen", 4.99750),
    (10, "uU/mL", "pmol/L", "insulin", 60.0),
    (60, "pmol/L", "mIU/L", "insulin", 10.0),
    (42, "mmol/mol", "%", "glycated_haemoglobin", 5.99416),
    (7, "%", "mmol/mol", "glycated_haemoglobin", 52.9952),
    (9.5, "mg/dL", "mEq/L", "calcium", 4.74076),
    (140, "mmol/L", "mEq/L", "sodium", 140.0),
    (14, "g/dL", "mmol/L", "haemoglobin", 8.68783),
    (4.2, "g/dL", "g/L", None, 42.0),
    (0.45, "L/L", "%", None, 45.0),
    (35, "IU/L", "U/L", None, 35.0),
    (1, "ukat/L", "U/L", None, 60.0),
    (231, "K/uL", "10^9/L", None, 231.0),
    (231, "10^3/uL", "10^9/L", None, 231.0),
    (231000, "/uL", "10^9/L", None, 231.0),
    (4.7, "M/uL", "10^12/L", None, 4.7),
    (120, "mmHg", "kPa", None, 15.9987),
    (176, "lbs", "kg", None, 79.8323),
    (12, "stone", "lb", None, 168.0),
    (180, "cm", "m", None, 1.8),
    (71, "inches", "m", None, 1.8034),
    (6, "ft", "cm", None, 182.88),
    (98.6, "°F", "°C", None, 37.0),
    (37, "°C", "°F", None, 98.6),
    (85000, "USD/year", "USD/month", None, 7083.33),
    (18, "months", "years", None, 1.5),
    (400, "ms", "s", None, 0.4),
]


@pytest.mark.parametrize(("value", "source", "target", "substance", "expected"), CONVERSIONS)
def test_a_value_converts_both_ways(
    value: float, source: str, target: str, substance: str | None, expected: float
) -> None:
    there = convert(value, source, target, substance)
    assert there is not None
    assert math.isclose(there, expected, rel_tol=5e-6)
    back = convert(there, target, source, substance)
    assert back is not None
    assert math.isclose(back, value, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("source", "target", "substance"),
    [
        ("kg", "m", None),
        ("mg/dL", "mmol/L", None),  # of what?
        ("mg/dL", "mmol/L", "insulin"),  # insulin's tie is by activity, not by mass
        ("USD", "EUR", None),  # no exchange rates
        ("USD", "USD/month", None),
        ("%", "mmol/mol", None),  # HbA1c alone has this tie
        ("furlongs", "m", None),
        ("kg", "", None),
        ("uU/mL", "U/L", None),  # a bioassay's unit is not an enzyme's
    ],
)
def test_what_measures_something_else_converts_to_none(
    source: str, target: str, substance: str | None
) -> None:
    assert convert(1.0, source, target, substance) is None


def test_molar_masses_are_those_of_their_formulas() -> None:
    checked = 0
    for name, entry in DATA["substances"].items():
        if "formula" not in entry:
            continue
        mass = sum(WEIGHTS[element] * count for element, count in entry["formula"].items())
        assert math.isclose(mass, entry["molar_mass"], abs_tol=0.0015), name
        checked += 1
    assert checked >= 13


def test_every_unit_of_the_catalog_is_described() -> None:
    for name in catalog():
        for root in load_template(name).roots.values():
            assert not root.unit or canonical(root.unit) is not None, (name, root.name)


def test_every_laboratory_root_in_mg_dl_has_a_substance() -> None:
    for name in catalog():
        for root in load_template(name).roots.values():
            if root.unit in ("mg/dL", "ug/dL", "uU/mL"):
                substance = substance_of((str(root.name), *root.aliases))
                assert substance is not None, (name, root.name)
                assert describe(substance).name == substance


def test_all_units_are_defined_and_convert_to_themselves() -> None:
    for unit in DATA["units"]:
        assert canonical(unit) is not None
        assert convert(2.5, unit, unit) == 2.5


@given(
    st.floats(1e-3, 1e6),
    st.sampled_from([row[1:4] for row in CONVERSIONS]),
)
def test_conversion_is_affine(value: float, row: tuple[str, str, str | None]) -> None:
    source, target, substance = row
    zero, one, at = (convert(x, source, target, substance) for x in (0.0, 1.0, value))
    assert zero is not None
    assert one is not None
    assert at is not None
    assert math.isclose(at, zero + (one - zero) * value, rel_tol=1e-7, abs_tol=1e-9)


def test_a_looser_unit_takes_what_it_leaves_out_from_the_root() -> None:
    assert fits("USD", "USD/month", None) == "USD/month"
    assert fits("%", "%/year", None) == "%/year"
    assert fits("EUR", "USD/month", None) is None
    assert fits("USD/year", "USD/month", None) == "USD/year"
    assert fits("kg", "made-up unit", None) is None


def test_readings_give_the_longest_unit_first_and_stop_at_word_ends() -> None:
    assert next(readings("mg/dl today", 0)) == ("mg/dL", 5)
    assert next(readings("% a year", 0)) == ("%/year", 8)
    assert list(readings("mgx", 0)) == []
    assert list(readings("", 0)) == []
    assert next(readings(plain("µmol/L"), 0)) == ("umol/L", 6)


def test_money_is_read_before_and_after_the_amount() -> None:
    assert currency_before("us$85", 3) == ("USD", 0)
    assert currency_before("eur 85", 4) == ("EUR", 0)
    assert currency_before("neur 85", 5) is None
    assert read_period("a year", 0) == ("year", 6)
    assert read_period("a yearling", 0) is None


def test_digits_that_belong_to_a_unit_are_found() -> None:
    text = "231 x 10^9/l and 10^12/l"
    assert [text[a:b] for a, b in digits_in_units(text)] == ["x 10^9/l", "10^12/l"]


def test_plain_keeps_every_place() -> None:
    for text in ("İstanbul 23 µg", "ẞ", "AST × 3"):
        assert len(plain(text)) == len(text)


def test_importing_units_does_not_import_the_registry() -> None:
    code = "import sys, rootguard.language.units; sys.exit('pint' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
