"""Units as laboratories, forms and people write them: read rightly or not at all."""

import itertools
import json
import math
from pathlib import Path

import pytest

from rootguard.channels.tools.units import units_in
from rootguard.graph import Graph
from rootguard.language.fold import bare, fold, plain
from rootguard.language.units import (
    UNKNOWN,
    canonical,
    convert,
    digits_in_units,
    fits,
    readings,
    substance_of,
)
from rootguard.template import catalog, load_template

CASES = Path(__file__).parents[3] / "shared" / "cases" / "tools" / "units.jsonl"

THOUSANDS = (
    *(
        "K",
        "k",
        "thou",
        "thousand",
        "thousands",
        "10^3",
        "x10^3",
        "x 10^3",
        "×10³",
        "× 10³",
        "10*3",
    ),
    *("10**3", "1000", "1,000", "тыс"),
)
MICROLITRES = ("uL", "µL", "μL", "mcL", "mm3", "mm³", "mm^3", "cumm", "cu mm", "microliter")
MILLIONS = ("million", "millions", "mil", "10^6", "x10^6", "×10⁶", "10*6", "10**6")
POWERS = ("10^9", "x10^9", "x 10^9", "×10⁹", "10*9", "10**9", "10⁹", "1e9", "giga")
OTHERS = {
    "kg": "kg kgs kilo kilos Kilogramm кг 公斤 千克 キロ 킬로그램 किलो كغ килограммов kilogrammes",
    "lb": "lb lbs pounds # libras фунтов 磅 ポンド Pfund",
    "cm": "cm см 厘米 公分 センチ 센티미터 सेमी سم Zentimeter centímetros santim",
    "m": "metres Meter метра 米 公尺 メートル 미터 metros metri",
    "years": "years Jahre ans años anos anni jaar lat lata лет года 岁 歲 歳 세 살 साल سنة yaşında",
    "mg/dL": "mg/dL mg/dl мг/дл 毫克/分升 mg% mg/100ml",
    "mmol/L": "mmol/L ммоль/л 毫摩尔/升 mmol millimol/l",
    "umol/L": "µmol/L мкмоль/л 微摩尔/升 umol/l",
    "U/L": "U/L IU/L Ед/л МЕ/л ЕД/л units/L",
    "ukat/L": "µkat/L ukat/l мккат/л",
    "uU/mL": "µIU/mL uIU/mL мкЕд/мл mIU/L",
    "mmHg": "mmHg 毫米汞柱 毫米汞柱 mm[Hg]",
    "bpm": "bpm уд/мин 次/分 lpm",
    "jin": "斤 市斤",
}


def _first(spelling: str) -> str | None:
    found = next(readings(bare(plain(fold(spelling).text)), 0), None)
    return None if found is None else found[0]


@pytest.mark.parametrize("join", ["/", " per "])
def test_a_multiplier_over_a_volume_is_one_unit(join: str) -> None:
    for unit, parts in (
        ("10^9/L", itertools.product(THOUSANDS, MICROLITRES)),
        ("10^12/L", itertools.product(MILLIONS, MICROLITRES)),
        ("10^9/L", itertools.product(POWERS, ("L", "l", "litre", "liter"))),
    ):
        for multiplier, volume in parts:
            spelling = f"{multiplier}{join}{volume}"
            assert _first(spelling) == unit, spelling
            assert next(readings(bare(plain(spelling)), 0), ("",))[0] in (unit, ""), spelling


@pytest.mark.parametrize("unit", OTHERS)
def test_a_unit_is_read_in_every_language(unit: str) -> None:
    for spelling in OTHERS[unit].split():
        text = bare(plain(fold(f"83{spelling},").text))
        assert unit in [read for read, _ in readings(text, 2)], spelling
        assert canonical(spelling) is not None


@pytest.mark.parametrize(
    "spelling", ["x10^7/uL", "10^5/L", "×10⁴/L", "hundred/uL", "crores/mm3", "10^2/uL", "1e2/uL"]
)
def test_a_multiplier_that_no_unit_has_fits_nothing(spelling: str) -> None:
    assert _first(spelling) == UNKNOWN
    assert fits(UNKNOWN, "10^9/L", None) is None
    assert canonical(UNKNOWN) is None


def test_what_is_said_after_a_volume_multiplies_too() -> None:
    assert _first("per microliter (in thousands)") == "10^9/L"
    assert _first("/µL x 10^3") == "10^9/L"
    assert _first("per microliter") == "/uL"


def test_digits_of_a_count_belong_to_its_unit() -> None:
    text = "220 x10^7/ul and 1000/ul"
    assert [text[a:b] for a, b in digits_in_units(text)] == ["x10^7/ul"]


def test_an_hour_of_pay_is_an_hour_of_work() -> None:
    monthly = convert(40.86, "USD/hour", "USD/month")
    assert monthly is not None
    assert round(monthly) == 7082


def test_a_unit_ends_where_its_script_lets_it() -> None:
    assert _first("公斤和身高") == "kg"
    assert _first("세입니다") == "years"
    assert _first("세트") is None
    assert _first("kg입니다") == "kg"


@pytest.mark.skipif(not CASES.exists(), reason="the cases of the development set are not here")
def test_no_unit_of_the_development_set_is_read_wrongly() -> None:
    templates = [load_template(name) for name in catalog()]
    roots = {str(root): t.roots[root] for t in templates for root in Graph.of(t).roots}
    wrong = []
    for line in CASES.read_text("utf-8").splitlines():
        case = json.loads(line)
        asked = case["tool"]["inputSchema"]["properties"][case["parameter"]]
        root = roots.get(case["root"])
        if root is None or "USD" in case["unit"] or case["unit"] == "1":  # read from other words
            continue
        substance = substance_of((str(root.name), *root.aliases))
        for unit, _ in units_in(asked.get("description", "")):
            fit = fits(unit, root.unit, substance)
            one = None if fit is None else convert(1, root.unit, fit, substance)
            judged = one is not None and "bpm" not in (fit, root.unit) and root.name != "a1c"
            if judged and one is not None and not math.isclose(one, case["factor"], rel_tol=0.01):
                wrong.append((case["id"], asked["description"], unit))
    assert wrong == [], wrong
