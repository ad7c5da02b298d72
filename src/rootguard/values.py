"""The values everything is made of: names, domains, epsilon, and the raw and the sanitized.

`Raw` and `Sanitized` are different types on purpose. A `Raw` can be noised and fingerprinted and
does nothing else: it has no text form, no number form and no serial form. A `Sanitized` is public.
"""

import hashlib
import hmac
import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Final, Literal, NewType, NoReturn, SupportsIndex

from rootguard.errors import BudgetError, DomainError, PrivateValueError, UnknownNameError

RootName = NewType("RootName", str)
Principal = NewType("Principal", str)
MechanismName = Literal[
    "exponential",
    "laplace",
    "staircase",
    "geometric",
    "randomised-response",
    "distances",
    "public",
    "threshold",
]
"""What a kept value was drawn with. The first four are for values on a line, and may be chosen; a
root's type brings the others. "public" is no noise: its owner said that it need not be hidden;
"threshold" is no value, but the test whether one moved (`session.series`)."""
LINE_MECHANISMS: Final[tuple[MechanismName, ...]] = (
    *("exponential", "laplace", "staircase", "geometric"),
)
AllocationName = Literal["uniform", "closed-form", "optimal", "population"]

# The ledger counts whole millionths of epsilon: sums are exact, and rounding up costs a root less
# than one of them.
MICRO = 1_000_000
# A finer grid than any instrument's; samplers and attacks keep tables as long as the grid.
MAX_GRID = 100_000
# Of a category. A table of distances is checked and drawn from answer by answer.
MAX_ANSWERS = 1000
MAX_TABLE = 64
# Decimal exponents beyond what a float can hold (about 308): "1e999999999" as an exact fraction
# would fill the memory before anybody could refuse it.
_MAX_DIGITS = 400


# Two rounds reach a fixed point for all but freak sequences; more would be an attack on our time.
_ROUNDS = 4


@lru_cache(maxsize=4096)  # asked for with every release
def normalised(name: str) -> str:
    """A person's name as it is compared: in any capitals, with any blanks around, is the same.

    Compatible forms of letters count as one (NFKC), and characters that nobody can see as none.
    """
    if name.isascii() and name.isprintable():  # no other form, and nothing that cannot be seen
        return name.strip().lower()
    for _ in range(_ROUNDS):
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
        seen = "".join(c for c in folded if unicodedata.category(c) != "Cf" and c not in _UNSEEN)
        if (seen := seen.strip()) == name:
            break
        name = seen
    return name


# What Unicode says to draw nothing for (Default_Ignorable_Code_Point) and is no format character,
# an empty Braille cell, and control characters; those that are blanks are not in the middle of it.
_UNSEEN: Final = frozenset(
    chr(code)
    for first, last in (
        (0x00, 0x1F),
        (0x7F, 0x9F),
        (0x34F, 0x34F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x2065, 0x2065),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0xFFF0, 0xFFF8),
        (0xE0000, 0xE0FFF),
    )
    for code in range(first, last + 1)
    if not chr(code).isspace()
)


def mechanism_named(name: str) -> MechanismName:
    """The name of a mechanism that may be chosen, checked; an unknown one is refused."""
    for each in LINE_MECHANISMS:
        if name == each:
            return each
    raise UnknownNameError("mechanism", name, LINE_MECHANISMS)


Amount = str | float | Decimal | Fraction
"""A privacy parameter as people write it; a float means the decimal number it prints as."""


def parse_epsilon(amount: Amount) -> Fraction:
    """Read a privacy parameter exactly; a float means the decimal number it prints as.

    0.1 is one tenth, not 0.1000000000000000055. Zero, negatives and non-numbers are refused.
    """
    try:
        exact = _exactly(amount)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError, InvalidOperation):
        raise BudgetError(
            f"{str(amount)[:40]!r} is not an epsilon; write a number such as 0.9"
        ) from None
    if exact <= 0:
        raise BudgetError("epsilon must be above zero")
    return exact


def _exactly(amount: Amount) -> Fraction:
    if isinstance(amount, bool):
        raise TypeError
    if isinstance(amount, str | float) and "/" not in str(amount):
        amount = Decimal(str(amount))
    if isinstance(amount, Decimal) and abs(amount.adjusted()) > _MAX_DIGITS:
        raise OverflowError  # as a fraction, 1e999999999 would fill the memory
    return Fraction(amount)


def to_micro(epsilon: Fraction) -> int:
    """Epsilon in whole micro-epsilon, rounded up: the ledger never understates a loss."""
    return -(-epsilon.numerator * MICRO // epsilon.denominator)


@dataclass(frozen=True, kw_only=True, slots=True)
class Domain:
    """Public bounds and the grid of `size` evenly spaced points that outputs live on."""

    lower: float
    upper: float
    size: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", float(self.lower))  # equal domains hash and print alike
        object.__setattr__(self, "upper", float(self.upper))
        if not (math.isfinite(self.lower) and math.isfinite(self.upper)):
            raise DomainError("bounds must be finite numbers")
        if not self.lower < self.upper or not math.isfinite(self.upper - self.lower):
            raise DomainError("the lower bound must be below the upper bound")
        if not 2 <= self.size <= MAX_GRID:
            raise DomainError(f"a grid has between 2 and {MAX_GRID} points")
        # Four times the spacing of floats, so that no two points round to the same number.
        if not self.step >= 4 * math.ulp(max(abs(self.lower), abs(self.upper))):
            raise DomainError("the grid is finer than numbers of this size can tell apart")

    @property
    def width(self) -> float:
        """D = upper - lower, in the root's own unit."""
        return self.upper - self.lower

    @property
    def step(self) -> float:
        """The grid spacing, delta = D / (m - 1): one grid step in the root's own unit."""
        return self.width / (self.size - 1)

    def value(self, index: int) -> float:
        """The grid point; the end points are the bounds themselves, to the last bit."""
        if index == self.size - 1:
            return self.upper
        return self.lower + index * self.step

    def nearest(self, value: float) -> int:
        """The grid point nearest to a value, after clamping to the bounds.

        Half-way goes up, always: rounding to even would set values one step apart on points two
        steps apart.
        """
        steps = (self.clamp(value) - self.lower) / self.step
        return min(math.floor(steps + 0.5), self.size - 1)

    def clamp(self, value: float) -> float:
        """The value itself inside the bounds, else the bound it passed."""
        return min(max(value, self.lower), self.upper)


RootTypeName = Literal["number", "count", "boolean", "category", "date"]
Distances = tuple[tuple[float, ...], ...]
Form = float | bool | str | date
"""A value as a person gives it and a service receives it: a number, yes or no, a word, a date."""

EPOCH: Final = date(1970, 1, 1)
"""Dates count in formulas as whole days from here, as Arrow's date32 does."""
_YES: Final = frozenset({"yes", "y", "true", "t", "1", "on"})
_NO: Final = frozenset({"no", "n", "false", "f", "0", "off"})
_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_MAX_UNIT = 160  # characters of the answers of a category in the unit that a store keeps


def days_of(day: date) -> int:
    """A date as formulas see it."""
    return day.toordinal() - EPOCH.toordinal()


@dataclass(frozen=True, kw_only=True, slots=True)
class RootType:
    """What form a root has outside, and what stands between its answers.

    Inside, every root is a point of a grid: false and true are 0 and 1, a category's answers count
    from 0 in their declared order, a date is days. What differs is the way in and out, how far
    apart two answers are (on a line; or all alike; or by a table of distances), and so which noise
    hides them.
    """

    name: RootTypeName = "number"
    answers: tuple[str, ...] = ()
    ordered: bool = False
    distances: Distances | None = None

    @property
    def on_a_line(self) -> bool:
        """Whether nearer points are more alike; else any two differ alike, or by a table."""
        return self.name not in ("boolean", "category") or self.ordered

    @property
    def plain(self) -> bool:
        """Whether outside it is what it is inside: a number."""
        return self.name == "number"

    def mechanism(self, chosen: MechanismName) -> MechanismName:
        """What hides it, where a mechanism was chosen for values on a line."""
        if self.on_a_line:
            return chosen
        return "randomised-response" if self.distances is None else "distances"

    def unit(self, declared: str) -> str:
        """The unit under which a store keeps it: for a category also what its points mean."""
        if self.name == "date":
            return "days since 1970-01-01"
        if self.name != "category":
            return declared
        listed = ", ".join(self.answers)
        exactly = "" if self.distances is None else f" at distances {_short_hash(self.distances)}"
        if len(listed) + len(exactly) > _MAX_UNIT:
            listed = f"{len(self.answers)} answers ({_short_hash(self.answers)})"
        return f"{'ordered ' if self.ordered else ''}one of {listed}{exactly}"

    @property
    def wanted(self) -> str:
        """What a person has to give, in words."""
        match self.name:
            case "number":
                return "a finite number"
            case "count":
                return "a whole number"
            case "boolean":
                return "yes or no"
            case "category":
                return f"one of {', '.join(self.answers)}"
            case "date":
                return "a date within its bounds, such as 2024-05-31,"

    def inside(self, value: object, domain: "Domain") -> float | None:
        """A person's value as a number; None if it is not of this type. It raises nothing."""
        try:  # whatever a stranger's object raises means "no"; its text may hold the value
            return self._inside(value, domain)
        except Exception:  # noqa: BLE001 - see above
            return None

    def _inside(self, value: object, domain: "Domain") -> float | None:
        if self.name == "number":
            return _finite(value)
        if self.name == "date":
            if isinstance(value, str) and _ISO_DATE.fullmatch(value.strip()):
                value = date.fromisoformat(value.strip())
            if not isinstance(value, date):
                return None
            days = float(days_of(value))
            return days if domain.lower <= days <= domain.upper else None
        number = _finite(value)
        if self.name == "count":
            return number if number is not None and number.is_integer() else None
        if type(value).__name__ in ("bool_", "bool"):  # NumPy's truth value as well
            value = "yes" if value else "no"
        elif number is not None and number.is_integer():
            value = str(int(number))
        if not isinstance(value, str):
            return None
        word = normalised(value)
        if self.name == "boolean":
            return 1.0 if word in _YES else 0.0 if word in _NO else None
        known = {normalised(answer): place for place, answer in enumerate(self.answers)}
        return None if (place := known.get(word)) is None else float(place)

    def outside(self, number: float) -> Form:
        """A released number in the form that people know it by."""
        match self.name:
            case "number":
                return number
            case "count":
                return round(number)
            case "boolean":
                return number >= 0.5
            case "category":
                return self.answers[min(max(round(number), 0), len(self.answers) - 1)]
            case "date":
                return EPOCH + timedelta(days=round(number))

    def written(self, number: float) -> str:
        """The same as it is written in a text."""
        return written(self.outside(number))

    def apart(self) -> str:
        """What epsilon is counted by, in words; after "epsilon 0.5"."""
        if self.distances is not None:
            return "per unit of the declared distance between answers"
        if not self.on_a_line:
            return "between any two answers"
        return "per grid step"


def written(form: Form) -> str:
    """A value as it is written in a text: yes or no, the answer's word, the date, the number."""
    if isinstance(form, bool):
        return "yes" if form else "no"
    return form.isoformat() if isinstance(form, date) else str(form)


NUMBER: Final = RootType()


def _short_hash(content: object) -> str:
    # 64 bits tell the lists of one person's templates apart. It hides nothing: all of it is public.
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


UNKNOWN_UNIT: Final = "?"
"""The unit of a root that an early store holds: it kept the grid of each draw alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RootQuantity:
    """What a root measures, in one unit and on one grid: the same for everybody in a store."""

    name: RootName
    unit: str
    domain: Domain

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        unit = " in a unit that was not written down" if self.unit == UNKNOWN_UNIT else unit
        domain = self.domain
        return f"{domain.lower:g} to {domain.upper:g}{unit}, {domain.size} points"


class Unserializable:
    """Something secret, which leaves by no pickle, no copy and no `__getstate__`."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled or copied")

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled or copied")


class Raw(Unserializable):
    """A private number, sealed. It can be snapped to a grid and fingerprinted; nothing else.

    The number sits in a closure, so that neither `vars`, `repr`, `format`, `pickle`, `json` nor a
    debugger's dump of local variables meets it by walking attributes.
    """

    __slots__ = ("_open",)

    def __init__(self, value: object) -> None:
        number = _finite(value)
        del value  # so that the frame of the error below holds nothing private
        if number is None:
            raise PrivateValueError("not a finite number", ("raw value",))
        self._open = _seal(number)

    @staticmethod
    def accepts(value: object) -> bool:
        """Whether a value could be sealed; lets callers refuse before an error frame holds one."""
        return _finite(value) is not None

    def snap(self, domain: Domain) -> int:
        """The nearest grid index, clamped. For the sanitizer alone."""
        return domain.nearest(self._open())

    def outside(self, domain: Domain) -> bool:
        """Whether the bounds clamp this value: told to its owner, not to the service."""
        return not domain.lower <= self._open() <= domain.upper

    def converted(self, convert: Callable[[float], float]) -> "Raw":
        """The same quantity in another unit."""
        return Raw(convert(self._open()))

    def fingerprint(self, key: bytes, context: str, domain: Domain) -> bytes:
        """A keyed fingerprint (HMAC-SHA-256) of the grid point: equal for equal points.

        Of the point, not the number: two numbers that snap to one point are noised alike, so they
        are one value.
        """
        return self._digest(key, f"{context}\x00{_grid(domain)}", str(self.snap(domain)))

    def number_fingerprint(self, key: bytes, context: str) -> bytes:
        """The fingerprint of the number itself, by which early stores know their values."""
        return self._digest(key, context, self._open().hex())

    def _digest(self, key: bytes, context: str, content: str) -> bytes:
        public = context.encode(errors="surrogatepass")  # an encoding error would hold the text
        return hmac.digest(key, public + b"\x00" + content.encode(), hashlib.sha256)

    def __repr__(self) -> str:
        return "<raw>"

    def __format__(self, spec: str) -> str:
        return "<raw>"


def point_fingerprints(key: bytes, context: str, domain: Domain) -> Callable[[bytes, int], bytes]:
    """What `Raw.fingerprint` gives values at grid points, for many people.

    Given the beginning of the context, which `context` ends, and the point. Quick: what is the same
    for everybody is hashed once.
    """
    from cryptography.hazmat.primitives.hashes import SHA256  # loads for a while; few need it
    from cryptography.hazmat.primitives.hmac import HMAC

    begun = HMAC(key, SHA256())
    behind = f"{context}\x00{_grid(domain)}\x00".encode(errors="surrogatepass")

    def fingerprint(before: bytes, point: int) -> bytes:
        code = begun.copy()
        code.update(b"%b%b%d" % (before, behind, point))
        return code.finalize()

    return fingerprint


@lru_cache(maxsize=1024)  # asked for with every value
def _grid(domain: Domain) -> str:
    return f"{domain.lower.hex()} {domain.upper.hex()} {domain.size}"


def _seal(number: float) -> Callable[[], float]:
    return lambda: number


def _finite(value: object) -> float | None:
    """The value as a float if it is a finite real number, else None; raises nothing.

    Numbers are int, float, Decimal, Fraction and NumPy's scalars. Refused are truth values, spans
    of time, which NumPy calls whole numbers, and arrays and columns of one number.
    """
    try:  # whatever a stranger's object raises means "no"; its text may hold the number
        if type(value) is float:  # nearly always
            number = value
        elif isinstance(value, bool) or not (
            isinstance(value, int | float | Decimal | Fraction) or _is_numpy_real(value)
        ):
            return None
        else:
            number = float(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - see above
        return None
    return number + 0.0 if math.isfinite(number) else None  # -0.0 and 0.0 are one value


def _is_numpy_real(value: object) -> bool:
    return isinstance(value, Real) and value.dtype.kind in "iuf"  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sanitized:
    """One root after its one draw. Public: everything in it may be shown to anyone."""

    root: RootName
    index: int
    domain: Domain
    epsilon: Fraction
    mechanism: MechanismName
    version: int = 1

    @property
    def value(self) -> float:
        """The noised value in the root's own unit."""
        return self.domain.value(self.index)
