"""Values that change: what is drawn of a history of dated readings, and what that costs.

A root that is a series gets another value now and then. Redrawing each time costs each time;
keeping the first costs once and goes stale. Two policies lie between:

- `drift` draws anew only when a noisy test says that the value moved away from what was released.
  The test is AboveThreshold (the sparse vector technique, Dwork and Roth 2014, in the form of Lyu,
  Su and Li 2017) on whole numbers: reading t is called moved where |x_t - z| + nu_t >= T + rho,
  with z the released point, rho two-sided geometric at epsilon_1 and nu_t at epsilon_2 / 2. Between
  histories that differ by at most d steps at any time, rho's shift by d and nu's by 2 d at the one
  reading that is called moved account for everything the test says: d * (epsilon_1 + epsilon_2)
  for any number of readings until the next draw. That is paid with the draw before them.
- `daily` draws once for each date, whatever is read on it later: a budget for each day, up to the
  cap. Every draw is fresh, so not even equal readings of two days look alike.

With `ask` a changed value is refused with its price until its owner says what is to be done.
Nothing here is kept beside the store: rho comes from the store's key and the version it belongs to,
nu from the key, the date and the point, so that the same reading asked again is answered alike.
A reading on a line only: between answers without an order nothing lies to drift through.
"""

import hashlib
import hmac
import struct
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from itertools import count
from typing import Final, Literal

from rootguard.allocation import Plan
from rootguard.errors import BudgetError, ChangedValueError
from rootguard.mechanisms import mechanism
from rootguard.sanitizer import sanitize, stood_still
from rootguard.session.draws import (
    MAX_RACES,
    PrivateValues,
    contended,
    current,
    finest_of,
    never_noised,
    noised,
    tested,
)
from rootguard.store import Record, Snapshot, Store, check_caps
from rootguard.template import Root
from rootguard.values import MICRO, Domain, Principal, Raw, RootName, Sanitized, to_micro

Following = Literal["drift", "daily"]

TEST_SHARE: Final = Fraction(1, 2)
"""What the test costs beside a draw: half of it, so that a history that stays costs 1.5 readings
and one that moves once 3."""
USUAL_MOVE: Final = Fraction(1, 10)
"""How much of its bounds a value has to move, if the template does not say."""

# Wide enough that no noise at a thousandth of epsilon meets the ends: they have e**-500.
_NOISE_POINTS: Final = (1 << 20) + 1
_TEST: Final = Domain(lower=0, upper=1, size=2)


@dataclass(frozen=True, kw_only=True, slots=True)
class DriftTest:
    """The test between two draws, in grid steps. Public but for the noise."""

    steps: int
    threshold_epsilon: Fraction
    reading_epsilon: Fraction

    @classmethod
    def of(cls, root: Root, domain: Domain, paid: Fraction) -> "DriftTest":
        """The test that this epsilon pays, on the grid that the draw was made on."""
        moved = float(root.domain.width * USUAL_MOVE) if root.moved is None else root.moved
        steps = max(1, round(moved / root.domain.width * (domain.size - 1)))
        return cls(steps=steps, threshold_epsilon=paid / 2, reading_epsilon=paid / 2)

    @staticmethod
    def price(epsilon: Fraction) -> Fraction:
        """What the test beside a draw at this epsilon costs, in whole micro-epsilon."""
        return Fraction(max(4, round(epsilon * TEST_SHARE * MICRO)), MICRO)

    @property
    def epsilon(self) -> Fraction:
        """What it costs until the next draw, however many readings there are."""
        return self.threshold_epsilon + self.reading_epsilon

    def noises(self, key: bytes, segment: str, reading: str) -> tuple[int, int]:
        """The noise of the threshold and of one reading."""
        rho = _noise(self.threshold_epsilon, KeyedWords(key, f"threshold\x00{segment}"))
        nu = _noise(self.reading_epsilon / 2, KeyedWords(key, f"reading\x00{segment}\x00{reading}"))
        return rho, nu


def _noise(epsilon: Fraction, source: "KeyedWords") -> int:
    noise = mechanism("geometric", epsilon, _NOISE_POINTS)
    return noise.draw(noise.centre, source) - noise.centre


class KeyedWords:
    """Words that only who has the key can tell from random ones, the same for the same context."""

    __slots__ = ("_words",)

    def __init__(self, key: bytes, context: str) -> None:
        content = context.encode(errors="surrogatepass")
        blocks = (
            hmac.digest(key, b"series\x00%d\x00" % number + content, hashlib.sha256)
            for number in count()
        )
        self._words = (word for block in blocks for word in struct.unpack("<8I", block))

    def words(self, count: int) -> list[int]:
        """As many integers as asked for, each uniform on 0 .. 2**32 - 1."""
        return [next(self._words) for _ in range(count)]

    def __repr__(self) -> str:
        return "<words>"


def follow(values: PrivateValues, how: Following, when: date | None) -> dict[RootName, Record]:
    """What stands for these readings of this date: what was drawn before, or a draw of now."""
    if when is None:
        raise BudgetError(f'on_change="{how}" follows dated values; say of which date: when=date')
    values = values.as_kept(values.defined())
    store, person = values.store, values.person
    found: dict[RootName, Record] = {}
    for root, raw in values.raws.items():
        if how == "drift" and not values.roots[root].type.on_a_line:
            raise BudgetError(f'{root} has answers, not a line to drift on; use "daily" or "ask"')
        reading = _Reading(
            store=store, plan=values.plan, root=values.roots[root], raw=raw, when=when
        )
        found[root] = reading.kept(person, how)
        person = current(store, person.name, person.epoch)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """One dated value of a root. Holds it sealed."""

    store: Store
    plan: Plan
    root: Root
    raw: Raw
    when: date

    def kept(self, person: Snapshot, how: Following) -> Record:
        """What stands for it; if nothing does, a draw of now, and of racing writers the first's."""
        stands = self._not_moved if how == "drift" else self._of_its_day
        for _ in range(MAX_RACES):
            found = stands(person) or self._draw(person, with_test=how == "drift")
            if found is not None:
                return found
            person = current(self.store, person.name, person.epoch)
        raise contended()

    def _not_moved(self, person: Snapshot) -> Record | None:
        """The draw that stands, unless the test says that the value moved away from it."""
        stands = finest_of(person.levels.get(self.root.name, ()))
        return stands if stands is not None and self._stays(person, stands) else None

    def _stays(self, person: Snapshot, drawn: Record) -> bool:
        """Whether the test of the draw that stands says that the value did not move."""
        stands = drawn.sanitized
        tests = person.levels.get(tested(self.root.name), ())
        paid = [test for test in tests if test.fingerprint == drawn.fingerprint]
        if not paid:
            return False  # drawn under another policy, which paid no test
        test = DriftTest.of(self.root, stands.domain, paid[0].sanitized.epsilon)
        segment = f"{person.name}\x00{self.root.name}\x00{stands.version}"
        key = self.store.fingerprint_key
        point = self.raw.fingerprint(key, segment, stands.domain).hex()
        rho, nu = test.noises(key, segment, f"{self.when.isoformat()}\x00{point}")
        return stood_still(self.raw, stands, test.steps + rho - nu)

    def _of_its_day(self, person: Snapshot) -> Record | None:
        """The draw that was made of this date."""
        name = self.root.name
        known = drawn_on(self.store, person.name, name, self.when)
        if known is None:
            return None
        version = known.sanitized.version
        return finest_of(
            self.store.return_to(person.name, {name: version}, epoch=person.epoch)[name]
        )

    def _mark(self, person: Snapshot, what: str) -> bytes:
        return _mark(self.store, person.name, self.root.name, what)

    def _draw(self, person: Snapshot, *, with_test: bool) -> Record | None:
        """A fresh draw, with its test if there is one; None if another writer was first."""
        name = self.root.name
        share = self.plan[name]
        version = person.newest.get(name, 0) + 1
        prices = {str(name): to_micro(share.epsilon)}
        if with_test:
            prices[tested(name)] = to_micro(DriftTest.price(share.epsilon))
        check_caps(person.ledger, prices, person.caps)
        value = sanitize(self.plan, {name: self.raw}, {name: version})[name]
        what = f"version\x00{version}" if with_test else f"day\x00{self.when.isoformat()}"
        mark = self._mark(person, what)
        ours = [Record(sanitized=value, fingerprint=mark, event=noised(person.name, value))]
        if with_test:  # known by the draw's own mark, and kept and paid with it
            paid = Sanitized(
                root=tested(name),
                index=0,
                domain=_TEST,
                epsilon=DriftTest.price(share.epsilon),
                mechanism="threshold",
                version=person.newest.get(tested(name), 0) + 1,
            )
            ours.append(Record(sanitized=paid, fingerprint=mark, event=noised(person.name, paid)))
        kept = self.store.commit(person.name, ours, epoch=person.epoch)
        return ours[0] if list(kept) == ours else None


def _mark(store: Store, principal: Principal, root: RootName, what: str) -> bytes:
    context = f"{principal}\x00{root}\x00{what}".encode(errors="surrogatepass")
    return hmac.digest(store.fingerprint_key, b"series\x00" + context, hashlib.sha256)


def drawn_on(store: Store, principal: Principal, root: RootName, when: date) -> Record | None:
    """What was drawn of a date under `daily`. Which draw stands now is not changed."""
    mark = _mark(store, principal, root, f"day\x00{when.isoformat()}")
    return store.find(principal, {root: (mark,)}).get(root)


def refuse_changes(values: PrivateValues) -> None:
    """Refuse values that were never noised where others were, with what they would cost.

    For the owner alone: it says that a value changed.
    """
    levels = values.person.levels
    changed = [root for root in never_noised(values) if finest_of(levels.get(root, ())) is not None]
    if changed:
        spent = values.person.ledger.spent
        raise ChangedValueError(
            tuple(changed),
            {root: float(values.plan[root].epsilon) for root in changed},
            {root: float(spent.get(root, Fraction(0))) for root in changed},
        )


__all__ = ["DriftTest", "Following", "drawn_on", "follow", "refuse_changes", "tested"]
