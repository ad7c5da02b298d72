"""Names, domains, epsilon: exact. Raw values: sealed."""

import copy
import dataclasses
import json
import math
import pickle
import traceback
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rootguard.errors import BudgetError, DomainError, PrivateValueError, UnknownNameError
from rootguard.values import (
    LINE_MECHANISMS,
    MAX_GRID,
    UNKNOWN_UNIT,
    Domain,
    Form,
    Raw,
    RootName,
    RootQuantity,
    RootType,
    Sanitized,
    days_of,
    mechanism_named,
    normalised,
    parse_epsilon,
    point_fingerprints,
    to_micro,
)

CANARY = 54.731902846
KEY = bytes(range(32))
finite = st.floats(allow_nan=False, allow_infinity=False)


def test_plain_names_are_compared_by_the_short_way_as_by_the_long_one() -> None:
    unseen = "\u200b"  # takes any name the long way, and is dropped on it
    plain = [chr(code) for code in range(128)]
    for name in (f"{first}Ab{last}" for first in plain for last in plain):
        assert normalised(name) == normalised(name + unseen), name.encode()


@pytest.mark.parametrize("name", LINE_MECHANISMS)
def test_a_mechanism_is_known_by_its_name(name: str) -> None:
    assert mechanism_named(name) == name


def test_an_unknown_mechanism_is_refused_with_those_that_are_known() -> None:
    # Those that come with a root's type cannot be chosen.
    for name in ("gaussian", "", "Laplace", "randomised-response", "public"):
        with pytest.raises(UnknownNameError) as caught:
            mechanism_named(name)
        assert all(known in str(caught.value) for known in LINE_MECHANISMS)


@pytest.mark.parametrize(
    ("amount", "exact"),
    [
        ("0.1", Fraction(1, 10)),
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (Decimal("0.1"), Fraction(1, 10)),
        (Fraction(1, 10), Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        ("1e-6", Fraction(1, 10**6)),
        (" 2 ", Fraction(2)),
        (9, Fraction(9)),
        (0.30000000000000004, Fraction("0.30000000000000004")),
    ],
)
def test_an_epsilon_is_read_as_the_number_it_prints_as(
    amount: str | float | Decimal | Fraction, exact: Fraction
) -> None:
    assert parse_epsilon(amount) == exact


def test_three_tenths_are_exactly_three_times_one_tenth() -> None:
    assert parse_epsilon(0.1) * 3 == parse_epsilon(0.3)
    assert Fraction(0.1) * 3 != Fraction(0.3)  # what the exactness is for


@pytest.mark.parametrize(
    "amount",
    [
        *("0", 0, 0.0, "-0", "-1", -0.1, Fraction(-1, 2), Decimal("-3.0")),
        *("nan", "inf", "-inf", math.nan, math.inf, -math.inf, Decimal("nan"), Decimal("inf")),
        *("", "much", "1/0", "0.1.2", "1,5", "0x10", "1 2", Decimal("snan"), True),
        *("1e999999999", "1e-999999999", Decimal("1e999999"), "1e401"),
    ],
)
def test_what_is_not_a_positive_number_is_no_epsilon(
    amount: str | float | Decimal | Fraction,
) -> None:
    with pytest.raises(BudgetError):
        parse_epsilon(amount)


def test_an_epsilon_of_the_wrong_type_is_refused_with_a_remedy() -> None:
    for junk in (None, [0.1], object()):
        with pytest.raises(BudgetError, match=r"write a number such as 0\.9"):
            parse_epsilon(junk)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.fractions(min_value=Fraction(1, 10**12), max_value=1000))
def test_micro_epsilon_rounds_up_by_less_than_one(epsilon: Fraction) -> None:
    assert 0 <= to_micro(epsilon) - epsilon * 1_000_000 < 1


def test_the_smallest_loss_is_still_counted() -> None:
    assert to_micro(Fraction(1, 10**30)) == 1
    assert to_micro(Fraction(1, 10)) == 100_000
    assert to_micro(Fraction(1, 3)) == 333_334


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    lower = draw(st.floats(-1e12, 1e12))
    width = draw(st.floats(1e-3, 1e12))
    size = draw(st.integers(2, 2000))
    try:
        return Domain(lower=lower, upper=lower + width, size=size)
    except DomainError:
        return Domain(lower=0.0, upper=width, size=size)


@settings(deadline=None)
@given(domains())
def test_the_ends_of_the_grid_are_the_bounds_to_the_last_bit(domain: Domain) -> None:
    assert domain.value(0) == domain.lower
    assert domain.value(domain.size - 1) == domain.upper


@settings(deadline=None)
@given(domains(), st.data())
def test_grid_points_increase_and_each_is_nearest_to_itself(
    domain: Domain, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, domain.size - 2))
    assert domain.value(index) < domain.value(index + 1)
    assert domain.nearest(domain.value(index)) == index


def test_ends_that_a_sum_of_steps_would_miss_are_exact() -> None:
    domain = Domain(lower=3.9, upper=7.8, size=7)
    assert domain.lower + 6 * domain.step != domain.upper  # the sum misses, hence the test
    assert domain.value(6) == 7.8


@settings(deadline=None)
@given(domains(), finite)
def test_any_finite_value_has_a_nearest_point_within_half_a_step(
    domain: Domain, value: float
) -> None:
    index = domain.nearest(value)
    assert 0 <= index < domain.size
    assert domain.lower <= domain.clamp(value) <= domain.upper
    gap = abs(domain.value(index) - domain.clamp(value))
    assert gap <= domain.step / 2 + 4 * math.ulp(max(abs(domain.lower), abs(domain.upper)))


def test_values_far_outside_go_to_the_bounds_without_an_error() -> None:
    domain = Domain(lower=18, upper=80)
    for value, index, bound in [(1e308, 999, 80), (-1e308, 0, 18), (81, 999, 80), (17.99, 0, 18)]:
        assert domain.nearest(value) == index
        assert domain.clamp(value) == bound
    assert domain.clamp(54.3) == 54.3
    wide = Domain(lower=-8e307, upper=8e307)
    assert [wide.nearest(v) for v in (-1e308, 0.0, 1e308)] == [0, 500, 999]


def test_values_one_step_apart_are_never_snapped_two_steps_apart() -> None:
    domain = Domain(lower=0, upper=8, size=9)
    snapped = [domain.nearest(k + 0.5) for k in range(8)]
    assert snapped == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [round(k + 0.5) for k in range(3)] == [0, 2, 2]  # what rounding to even would do


@settings(deadline=None)
@given(domains(), st.floats(0, 1), st.floats(0, 3))
def test_snapping_moves_values_apart_by_less_than_one_step(
    domain: Domain, place: float, steps: float
) -> None:
    value = domain.lower + place * domain.width
    other = domain.clamp(value + steps * domain.step)
    for place in ((value - domain.lower) / domain.step, (other - domain.lower) / domain.step):
        assume(abs(place % 1 - 0.5) > 1e-6)  # half-way, the last bit decides
    apart = abs(domain.nearest(value) - domain.nearest(other))
    assert apart <= math.ceil((other - value) / domain.step - 1e-9)


@pytest.mark.parametrize(
    ("lower", "upper", "size", "problem"),
    [
        (1.0, 1.0, 1000, "below the upper"),
        (2.0, 1.0, 1000, "below the upper"),
        (math.nan, 1.0, 1000, "finite"),
        (0.0, math.inf, 1000, "finite"),
        (-math.inf, 0.0, 1000, "finite"),
        (-1e308, 1e308, 1000, "below the upper"),  # their difference is not a number
        (0.0, 1.0, 1, "a grid has between"),
        (0.0, 1.0, 0, "a grid has between"),
        (0.0, 1.0, -5, "a grid has between"),
        (0.0, 1.0, MAX_GRID + 1, "a grid has between"),
        (1e16, 1e16 + 100, 1000, "finer"),
        (1e16, 1e16 + 1500, 1000, "finer"),  # steps of 1.5 where floats are 2 apart
        (0.0, 5e-324, 2, "finer"),
    ],
)
def test_bounds_and_grids_that_make_no_sense_are_refused_by_what_is_wrong(
    lower: float, upper: float, size: int, problem: str
) -> None:
    with pytest.raises(DomainError, match=problem):
        Domain(lower=lower, upper=upper, size=size)


def test_domains_written_with_whole_numbers_or_floats_are_the_same() -> None:
    whole, real = Domain(lower=1, upper=100), Domain(lower=1.0, upper=100.0)
    assert whole == real
    assert repr(whole) == repr(real)
    assert isinstance(whole.lower, float)


def test_width_and_step_are_in_the_roots_own_unit() -> None:
    domain = Domain(lower=20, upper=30, size=11)
    assert (domain.width, domain.step) == (10, 1)


@pytest.mark.parametrize(
    ("unit", "said"),
    [("kg", " kg"), ("", ""), (UNKNOWN_UNIT, " in a unit that was not written down")],
)
def test_what_a_root_measures_is_said_with_its_unit(unit: str, said: str) -> None:
    domain = Domain(lower=20, upper=30.5, size=11)
    made = RootQuantity(name=RootName("wt"), unit=unit, domain=domain)
    assert str(made) == f"20 to 30.5{said}, 11 points"


SHOWN: dict[str, Callable[[Raw], str]] = {
    "repr": repr,
    "str": str,
    "format": lambda raw: f"{raw}",
    "format with a spec": lambda raw: f"{raw:.3f}",
    "percent": lambda raw: "%s %r" % (raw, raw),  # noqa: UP031 - the old way must hide it too
    "in a list": lambda raw: str([raw]),
    "traceback with locals": lambda raw: "".join(
        traceback.TracebackException.from_exception(_raised(raw), capture_locals=True).format()
    ),
}


def _raised(raw: Raw) -> Exception:
    try:
        float(raw)  # type: ignore[arg-type]
    except TypeError as error:
        return error
    raise AssertionError("a raw value became a float")


@pytest.mark.parametrize("how", SHOWN)
def test_no_text_form_of_a_raw_value_shows_it(how: str) -> None:
    shown = SHOWN[how](Raw(CANARY))
    assert "54.7" not in shown
    assert CANARY.hex() not in shown
    assert "<raw>" in shown or "raw" in shown.lower()


@pytest.mark.parametrize(
    "leave",
    [
        *(lambda raw, p=p: pickle.dumps(raw, p) for p in range(pickle.HIGHEST_PROTOCOL + 1)),
        copy.copy,
        copy.deepcopy,
        json.dumps,
        vars,
        lambda raw: raw.__reduce__(),
        lambda raw: raw.__getstate__(),
        lambda raw: dataclasses.asdict(raw),
        float,
        int,
        lambda raw: raw + 0,
        lambda raw: raw < 1,
        math.floor,
        np.float64,
    ],
)
def test_there_is_no_way_out_of_a_raw_value(leave: object) -> None:
    assert callable(leave)
    with pytest.raises(TypeError) as caught:
        leave(Raw(CANARY))
    assert "54.7" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        "54",
        b"54",
        None,
        math.nan,
        math.inf,
        -math.inf,
        Decimal("nan"),
        Decimal("snan"),
        Decimal("inf"),
        10**400,
        Fraction(10**400),
        1j,
        [54.0],
        np.bool_(True),
        np.float64("nan"),
        np.array([1.0, 2.0]),
        np.str_("54"),
        np.complex128(1),
        np.array(54.0),
        np.timedelta64(54, "ns"),
    ],
)
def test_what_is_not_a_finite_real_number_cannot_be_sealed(value: object) -> None:
    assert not Raw.accepts(value)
    with pytest.raises(PrivateValueError, match="finite"):
        Raw(value)


def test_refusing_a_value_does_not_show_it() -> None:
    with pytest.raises(PrivateValueError) as caught:
        Raw("54.731902846")
    assert "54.7" not in str(caught.value)
    chain = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    own = [
        frame.locals or {}
        for frame in chain.stack
        if frame.filename.endswith("rootguard/values.py")
    ]
    assert [list(frame) for frame in own] == [["self", "number"]]
    assert "54.7" not in str(own)


@pytest.mark.parametrize(
    "value",
    [
        54,
        54.0,
        Decimal("54.00"),
        Fraction(108, 2),
        np.float64(54),
        np.float32(54),
        np.int64(54),
        np.uint8(54),
        np.longdouble(54),
    ],
)
def test_numbers_of_every_kind_are_sealed_as_the_same_value(value: object) -> None:
    assert Raw.accepts(value)
    grid = Domain(lower=50, upper=60, size=11)
    assert Raw(value).fingerprint(KEY, "age", grid) == Raw(54).fingerprint(KEY, "age", grid)
    assert Raw(value).number_fingerprint(KEY, "age") == Raw(54).number_fingerprint(KEY, "age")
    assert Raw(value).snap(grid) == 4


def test_a_fingerprint_tells_apart_grid_points_keys_contexts_and_grids_and_nothing_else() -> None:
    grid = Domain(lower=0, upper=100, size=101)
    base = Raw(54).fingerprint(KEY, "age", grid)
    assert len(base) == 32
    for same in (54.0, math.nextafter(54, 55), 54.49, float(np.float32(53.9))):
        assert base == Raw(same).fingerprint(KEY, "age", grid)
    others = [
        Raw(54.5).fingerprint(KEY, "age", grid),  # half-way goes up
        Raw(53.4).fingerprint(KEY, "age", grid),
        Raw(54).fingerprint(bytes(32), "age", grid),
        Raw(54).fingerprint(KEY, "weight", grid),
        Raw(54).fingerprint(KEY, "", grid),
        Raw(54).fingerprint(KEY, "age", Domain(lower=0, upper=100, size=201)),
        Raw(54).fingerprint(KEY, "age", Domain(lower=-1, upper=100, size=102)),
        Raw(54).fingerprint(KEY, "age", Domain(lower=0, upper=101, size=101)),
        Raw(54).number_fingerprint(KEY, "age"),
    ]
    assert len({base, *others}) == 10


@given(st.text(max_size=9), st.floats(0, 500), st.integers(2, 300))
def test_fingerprints_of_grid_points_are_those_of_the_values(
    name: str, value: float, size: int
) -> None:
    domain, raw = Domain(lower=10.0, upper=400.0, size=size), Raw(value)
    made = point_fingerprints(b"k" * 32, "\x00ast", domain)
    found = made(name.encode(errors="surrogatepass"), domain.nearest(value))
    assert found == raw.fingerprint(b"k" * 32, f"{name}\x00ast", domain)


def test_the_fingerprint_of_early_stores_tells_numbers_apart() -> None:
    base = Raw(54).number_fingerprint(KEY, "age")
    others = [
        Raw(math.nextafter(54, 55)).number_fingerprint(KEY, "age"),
        Raw(-54).number_fingerprint(KEY, "age"),
        Raw(54).number_fingerprint(bytes(32), "age"),
        Raw(54).number_fingerprint(KEY, "weight"),
    ]
    assert len({base, *others}) == 5
    assert Raw(0.0).number_fingerprint(KEY, "age") == Raw(-0.0).number_fingerprint(KEY, "age")


def test_a_converted_value_is_sealed_as_well() -> None:
    grid = Domain(lower=0, upper=100, size=101)
    months = Raw(648).converted(lambda months: months / 12)
    assert repr(months) == "<raw>"
    assert months.fingerprint(KEY, "age", grid) == Raw(54).fingerprint(KEY, "age", grid)


def test_a_context_that_cannot_be_encoded_does_not_carry_the_value_into_an_error() -> None:
    odd = Raw(CANARY).number_fingerprint(KEY, "principal\udc80")
    assert odd != Raw(CANARY).number_fingerprint(KEY, "principal")


def test_only_the_owner_is_told_that_a_value_lies_outside() -> None:
    domain = Domain(lower=18, upper=80)
    assert [Raw(v).outside(domain) for v in (17.9, 18, 80, 80.1)] == [True, False, False, True]
    assert [Raw(v).snap(domain) for v in (-1e308, 17.9, 80.1, 1e308)] == [0, 0, 999, 999]


def test_a_sanitized_value_is_its_grid_point_and_cannot_change() -> None:
    domain = Domain(lower=18, upper=80)
    kept = Sanitized(
        root=RootName("age"),
        index=999,
        domain=domain,
        epsilon=Fraction(1, 10),
        mechanism="geometric",
    )
    assert kept.value == 80
    assert kept.version == 1
    assert dataclasses.replace(kept, index=0).value == 18
    assert pickle.loads(pickle.dumps(kept)) == kept
    with pytest.raises(dataclasses.FrozenInstanceError):
        kept.index = 3  # type: ignore[misc]


def test_a_grid_has_at_most_a_hundred_thousand_points() -> None:
    assert Domain(lower=0, upper=1, size=100_000).size == 100_000
    with pytest.raises(DomainError, match="between 2 and 100000"):
        Domain(lower=0, upper=1, size=100_001)


def test_points_are_four_floats_apart_at_least() -> None:
    spacing = math.ulp(1.5)
    assert Domain(lower=1, upper=1 + 8 * spacing, size=3).step == 4 * spacing
    with pytest.raises(DomainError, match="finer"):
        Domain(lower=1, upper=1 + 7 * spacing, size=3)
    with pytest.raises(DomainError, match="finer"):
        Domain(lower=-1 - 7 * spacing, upper=-1, size=3)


def test_an_epsilon_has_at_most_four_hundred_digits() -> None:
    assert parse_epsilon("1e400") == 10**400
    assert parse_epsilon("1e-400") == Fraction(1, 10**400)
    for amount in ("1e401", "1e-401"):
        with pytest.raises(BudgetError):
            parse_epsilon(amount)


def test_what_is_no_epsilon_is_quoted_to_forty_characters() -> None:
    with pytest.raises(BudgetError, match=f"^'{'x' * 40}' is not"):
        parse_epsilon("x" * 41)


def test_a_domain_cannot_change() -> None:
    domain = Domain(lower=0, upper=1, size=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        domain.size = 3  # type: ignore[misc]
    assert hash(domain) == hash(Domain(lower=0, upper=1, size=2))


# First and last of each stretch that Unicode says to draw nothing for, and what lies beside it.
UNSEEN = (
    *("\x00", "\x08", "\x0e", "\x1b", "\x7f", "\x84", "\x86", "\x9f", "\u034f", "\u115f", "\u1160"),
    *("\u17b4", "\u17b5", "\u180b", "\u180f", "\u2065", "\u2800", "\u3164", "\ufe00", "\ufe0f"),
    *("\uffa0", "\ufff0", "\ufff8", "\U000e0000", "\U000e0fff"),
)
BESIDE = (
    *("!", "~", "\u034e", "\u0350", "\u115e", "\u1161", "\u17b3", "\u17b6", "\u180a", "\u1810"),
    *("\u27ff", "\u2801", "\u3163", "\u3165", "\ufdff", "\ufe10", "\uff9f", "\uffa1", "\uffef"),
    *("\ufffc", "\U000dffff", "\U000e1000"),
)


def test_characters_that_nobody_can_see_make_no_other_name() -> None:
    for unseen in UNSEEN:
        assert normalised(f"an{unseen}a") == "ana", ascii(unseen)
    for beside in BESIDE:
        assert normalised(f"an{beside}a") != "ana", ascii(beside)
    assert normalised("  Ana\t") == normalised("\u00a0ＡＮＡ\u200b ") == "ana"


DAYS = Domain(lower=0, upper=20_000, size=20_001)
REGION = RootType(name="category", answers=("north", "South", "12"))
KINDS: dict[str, RootType] = {
    "number": RootType(),
    "count": RootType(name="count"),
    "boolean": RootType(name="boolean"),
    "category": REGION,
    "date": RootType(name="date"),
}


@pytest.mark.parametrize(
    ("kind", "given", "number"),
    [
        ("number", 5.5, 5.5),
        ("number", "5", None),
        ("number", True, None),
        ("count", 5.0, 5.0),
        ("count", 5.5, None),
        ("count", "5", None),
        ("count", None, None),
        *(("boolean", given, 1.0) for given in (True, np.True_, 1, 1.0, "Yes", "on", " T ")),
        *(("boolean", given, 0.0) for given in (False, np.False_, 0, 0.0, "No", "off", "f")),
        *(("boolean", given, None) for given in (2, 0.5, "perhaps", None, 1j)),
        ("category", " NORTH ", 0.0),
        ("category", "south", 1.0),
        ("category", 12, 2.0),
        ("category", 12.0, 2.0),
        ("category", 12.5, None),
        ("category", "west", None),
        ("category", "yes", None),
        ("category", True, None),
        ("category", None, None),
        ("date", date(1970, 1, 1), 0.0),
        ("date", " 1970-01-02 ", 1.0),
        ("date", datetime(2024, 10, 4, 23, 59), 20_000.0),
        ("date", date(2024, 10, 5), None),
        ("date", date(1969, 12, 31), None),
        ("date", "19700102", None),
        ("date", "1970-13-02", None),
        ("date", 1.0, None),
        ("date", "soon", None),
    ],
)
def test_a_value_is_taken_in_the_forms_of_its_type_and_in_no_other(
    kind: str, given: object, number: float | None
) -> None:
    found = KINDS[kind].inside(given, DAYS)
    assert (found, type(found)) == (number, type(number))


def test_an_object_that_raises_is_no_value() -> None:
    class Sly:
        def __getattribute__(self, name: str) -> object:
            raise RuntimeError("54.7")

    assert [kind.inside(Sly(), DAYS) for kind in KINDS.values()] == [None] * 5


@pytest.mark.parametrize(
    ("kind", "number", "form", "text"),
    [
        ("number", 5.5, 5.5, "5.5"),
        ("count", 4.6, 5, "5"),
        ("boolean", 0.5, True, "yes"),
        ("boolean", 0.49, False, "no"),
        ("category", 0.4, "north", "north"),
        ("category", 1.0, "South", "South"),
        ("category", 2.0, "12", "12"),
        ("category", 7.0, "12", "12"),
        ("category", -3.0, "north", "north"),
        ("date", 0.4, date(1970, 1, 1), "1970-01-01"),
        ("date", 20_000.0, date(2024, 10, 4), "2024-10-04"),
    ],
)
def test_a_number_is_given_out_in_the_form_of_its_type(
    kind: str, number: float, form: Form, text: str
) -> None:
    found = KINDS[kind].outside(number)
    assert (found, type(found)) == (form, type(form))
    assert KINDS[kind].written(number) == text


def test_a_type_says_what_it_wants_what_hides_it_and_what_epsilon_counts() -> None:
    assert {name: kind.wanted for name, kind in KINDS.items()} == {
        "number": "a finite number",
        "count": "a whole number",
        "boolean": "yes or no",
        "category": "one of north, South, 12",
        "date": "a date within its bounds, such as 2024-05-31,",
    }
    ordered = dataclasses.replace(REGION, ordered=True)
    table = dataclasses.replace(REGION, distances=((0.0, 1.0), (1.0, 0.0)))
    kinds = [*KINDS.values(), ordered, table]
    assert [kind.on_a_line for kind in kinds] == [True, True, False, False, True, True, False]
    assert [kind.plain for kind in kinds] == [True] + [False] * 6
    answered, step = "between any two answers", "per grid step"
    declared = "per unit of the declared distance between answers"
    assert [each.apart() for each in kinds] == [
        step,
        step,
        answered,
        answered,
        step,
        step,
        declared,
    ]
    hidden = [kind.mechanism("laplace") for kind in kinds]
    assert hidden == [
        *("laplace", "laplace", "randomised-response", "randomised-response"),
        *("laplace", "laplace", "distances"),
    ]


def test_a_store_keeps_with_the_unit_what_the_answers_are() -> None:
    assert [kind.unit("kg") for kind in KINDS.values()] == [
        *("kg", "kg", "kg", "one of north, South, 12", "days since 1970-01-01"),
    ]
    ordered = dataclasses.replace(REGION, ordered=True)
    assert ordered.unit("") == "ordered one of north, South, 12"
    table = dataclasses.replace(REGION, distances=((0.0, 1.0), (1.0, 0.0)))
    assert table.unit("") == "one of north, South, 12 at distances 36647c0e26a1326c"
    # Up to 160 characters as they are, then by their hash.
    long = RootType(name="category", answers=("a" * 79, "b" * 79))
    assert long.unit("") == f"one of {'a' * 79}, {'b' * 79}"
    longer = RootType(name="category", answers=("a" * 79, "b" * 80))
    assert longer.unit("") == "one of 2 answers (b5c420326b5bd034)"


def test_days_are_counted_from_the_first_of_1970() -> None:
    assert [days_of(day) for day in (date(1969, 12, 31), date(1970, 1, 1))] == [-1, 0]
    assert days_of(date(2000, 3, 1)) == 11_017


@pytest.mark.parametrize("table", [None, ((0.0, 1.0), (1.0, 0.0))])
def test_answers_are_listed_in_the_unit_up_to_160_characters(
    table: tuple[tuple[float, ...], ...] | None,
) -> None:
    beside = "" if table is None else " at distances 0123456789abcdef"
    for length, listed in ((160 - len(beside), True), (161 - len(beside), False)):
        answers = ("a" * (length - 3), "b")  # and a comma and a blank
        unit = RootType(name="category", answers=answers, distances=table).unit("")
        assert unit.startswith("one of aaa" if listed else "one of 2 answers (")
