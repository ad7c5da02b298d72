"""What is a number where a private value comes in, and what is refused there."""

import re
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from rootguard import Guard, MemoryStore, Person, load_template
from rootguard.errors import ProfileError, RootGuardError
from rootguard.session.profile import parse_profile
from rootguard.values import Principal, Raw, RootName
from tests.support.canary import everything

FIB4 = load_template("fib4")
AST = FIB4.roots[RootName("ast")].domain
PERSON = {"age": 54, "ast": 23.5, "alt": 30, "plt": 220}
OWNER = Principal("owner")
EMPTY = parse_profile('templates = ["fib4"]\nbudget = 1', file="x.toml")
DIGITS = "91827364"

FRACTIONS = [np.float16, np.float32, np.float64, np.longdouble, Decimal, Fraction]
WHOLE = [
    *(int, np.int8, np.int16, np.int32, np.int64, np.intc, np.longlong),
    *(np.uint8, np.uint16, np.uint32, np.uint64, np.uintc, np.ulonglong),
]


class Hostile(Fraction):
    """A number whose own methods raise, with the number in the text."""

    def __float__(self) -> float:
        raise RuntimeError(DIGITS)


class Masked:
    """Something that says it is a number, and raises when it is looked at."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError(DIGITS)


REFUSED = {
    "bool": True,
    "numpy bool": np.bool_(True),
    "complex": 91827364.5 + 0j,
    "numpy complex": np.complex64(91827364.5),
    "array without dimensions": np.array(91827364.5),
    "array of one": np.array([91827364.5]),
    "list": [91827364.5],
    "text": "91827364.5",
    "bytes": b"91827364.5",
    "numpy text": np.str_("91827364.5"),
    "nothing": None,
    "nan": float("nan"),
    "infinity": float("-inf"),
    "float32 nan": np.float32("nan"),
    "longdouble over floats": np.longdouble("9.1827364e4000"),
    "decimal nan": Decimal("nan91827364"),
    "decimal signalling nan": Decimal("snan91827364"),
    "decimal infinity": Decimal("inf"),
    "huge decimal": Decimal("91827364e999999"),
    "huge int": 91827364 * 10**400,
    "huge fraction": Fraction(91827364 * 10**400, 3),
    "span of time": np.timedelta64(91827364, "ns"),
    "date": np.datetime64(91827364, "ns"),
    "hostile number": Hostile(91827364),
    "hostile object": Masked(),
}


def opened(number: object, store: MemoryStore) -> None:
    Guard.open(FIB4, values={**PERSON, "ast": number}, budget=1, store=store)  # type: ignore[dict-item]


def refined(number: object, store: MemoryStore) -> None:
    Guard.refine(FIB4, values={**PERSON, "ast": number}, budget=2, store=store)  # type: ignore[dict-item]


def sighted(number: object, store: MemoryStore) -> None:
    Person.open(EMPTY, store=store).sight("ast", number)  # type: ignore[arg-type]


WAYS: list[Callable[[object, MemoryStore], None]] = [opened, refined, sighted]


@pytest.mark.parametrize("make", FRACTIONS)
def test_a_number_of_any_kind_is_the_point_that_its_float_is(make: Callable[[str], object]) -> None:
    for text in ("7", "23.5", "23.1", "91.827", "272"):
        number = make(text)
        assert Raw(number).snap(AST) == AST.nearest(float(number))  # type: ignore[arg-type]
        if make is not np.float16:  # which has three digits
            assert Raw(number).snap(AST) == AST.nearest(float(text))


@pytest.mark.parametrize("make", WHOLE)
def test_a_whole_number_of_any_kind_is_the_point_that_its_float_is(
    make: Callable[[int], object],
) -> None:
    for number in (7, 23, 120):
        assert Raw(make(number)).snap(AST) == AST.nearest(float(number))


@pytest.mark.parametrize("make", FRACTIONS)
@pytest.mark.parametrize("way", WAYS)
def test_the_same_number_of_another_kind_is_drawn_and_charged_once(
    way: Callable[[object, MemoryStore], None], make: Callable[[str], object]
) -> None:
    store = MemoryStore()
    opened(23.5, store)
    refined(23.5, store)
    before = store.events(OWNER)
    way(make("23.5"), store)
    assert store.events(OWNER) == before


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_number_is_refused_by_root_and_nothing_is_drawn(
    way: Callable[[object, MemoryStore], None], case: str
) -> None:
    store = MemoryStore()
    if way is refined:
        opened(23.5, store)
    before = store.events(OWNER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RootGuardError, match="a finite number is needed for: ast") as caught:
            way(REFUSED[case], store)
    assert store.events(OWNER) == before
    assert not re.search(DIGITS, everything(caught.value).replace(".", "").replace(",", ""))


@pytest.mark.parametrize(
    "written",
    [
        *("true", '"91827364.5"', "nan", "inf", "-inf", "91827364" + "0" * 400, "1e999"),
        *("[91827364.5]", "{ast = 91827364.5}", "1987-09-18", "09:18:27"),
    ],
)
def test_a_profile_with_something_else_than_a_number_is_refused_by_key(written: str) -> None:
    text = f'templates = ["fib4"]\nbudget = 1\n[values]\nast = {written}'
    with pytest.raises(ProfileError, match=r"values\.ast: not a finite number") as caught:
        parse_profile(text, file="me.toml")
    assert DIGITS not in everything(caught.value)


@pytest.mark.parametrize("written", ["23.5", "235e-1", "+23.5", "2_3.5"])
def test_a_profile_may_write_a_number_in_any_way_that_toml_knows(written: str) -> None:
    profile = parse_profile(
        f'templates = ["fib4"]\nbudget = 1\n[values]\nast = {written}', file="me.toml"
    )
    assert profile.values[RootName("ast")].snap(AST) == AST.nearest(23.5)
