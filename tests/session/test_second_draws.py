"""Attempts to have one value drawn twice, or to have a promise, a cap or a tier miss a draw."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard import Guard, MemoryStore, Session, load_template
from rootguard.calibration import make_plan
from rootguard.errors import BudgetError, DomainError, PrivateValueError
from rootguard.events import RootNoised, to_record
from rootguard.mechanisms.base import MAX_EPSILON
from rootguard.session.draws import RootMapping
from rootguard.store import Record, Store
from rootguard.store.base import Cell
from rootguard.store.dialects.sqlite import SqliteDatabase
from rootguard.store.envelope import Secrets
from rootguard.store.schema.migrations import MIGRATIONS, migrate
from rootguard.template import Template, parse_template
from rootguard.values import Domain, Principal, Raw, RootName, RootQuantity
from rootguard.vault import open_store
from tests.support.store_contents import KEY

FIB4 = load_template("fib4")
OWNER, AST, AGE = Principal("owner"), RootName("ast"), RootName("age")
VALUES = {"age": 54.3, "ast": 23.1, "alt": 30.7, "plt": 220.4}


def drawn(store: Store, root: str = "ast") -> list[RootNoised]:
    return [e for e in store.events(OWNER) if isinstance(e, RootNoised) and e.root == root]


def opened(store: Store, **values: float) -> Session:
    return Guard.open(FIB4, values={**VALUES, **values}, budget="0.9", store=store)


class Rival(MemoryStore):
    """Somebody else opens another value just after each return to an earlier one."""

    rival: Callable[[], object] | None = None

    def return_to(
        self, principal: Principal, versions: Mapping[RootName, int], *, epoch: int | None = None
    ) -> dict[RootName, tuple[Record, ...]]:
        found = super().return_to(principal, versions, epoch=epoch)
        rival, self.rival = self.rival, None
        if rival is not None:
            rival()
        return found


def test_a_value_that_comes_back_is_not_drawn_again_when_a_rival_returns_to_another() -> None:
    store = Rival()
    first = opened(store).release("ast")
    opened(store, ast=61.4)
    store.rival = lambda: opened(store, ast=61.4)
    assert opened(store).release("ast") == first
    assert len(drawn(store)) == 2
    assert store.verify() == ()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        made: Store = MemoryStore()
    elif request.param == "sqlite":
        made = open_store(f"sqlite:///{tmp_path}/v.db")
    else:
        made = open_store(request.getfixturevalue("new_postgres")())
    yield made
    made.close()


def test_threads_that_change_a_value_to_and_fro_draw_each_value_once(store: Store) -> None:
    released: dict[float, set[object]] = {23.1: set(), 61.4: set(), 90.2: set()}
    start = threading.Barrier(6)

    def change(offset: int) -> None:
        start.wait()
        for turn in range(12):
            ast = list(released)[(turn + offset) % 3]
            released[ast].add(opened(store, ast=ast).release("ast"))

    threads = [threading.Thread(target=change, args=(offset,)) for offset in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn(store)) == 3
    assert [len(values) for values in released.values()] == [1, 1, 1]
    assert store.verify() == ()


def years(name: str, unit: str = "years", lower: int = 18, upper: int = 80) -> Template:
    text = f"""
name = "{name}"
title = "Age"
field = "test"
description = "Age in {unit}."
[roots.age]
unit = "{unit}"
lower = {lower}
upper = {upper}
[target]
name = "doubled_{name}"
formula = "2 * age"
"""
    return parse_template(text, file=f"{name}.toml")


def early_store(path: Path) -> Store:
    """A store from before units were kept, with one draw, known by its number."""
    path.touch()
    with closing(SqliteDatabase(path, new=True)) as database, database.exclusive() as db:
        migrate(db, MIGRATIONS[:4])
        Secrets.create(db, KEY, b"i" * 16)
        secrets = Secrets.read(db, KEY)
        event = RootNoised(
            principal=OWNER, root=AGE, version=1, micro_epsilon=100_000, mechanism="geometric"
        )
        text = json.dumps(to_record(event), sort_keys=True, separators=(",", ":"))
        grid = ((18.0).hex(), (80.0).hex(), 1000)
        mark = Raw(42.3).number_fingerprint(secrets.fingerprint, f"{OWNER}\0{AGE}")
        written: list[tuple[str, tuple[Cell, ...]]] = [
            ("draws", (OWNER, AGE, 1, 0, 300, *grid, 100_000, "geometric", mark, text)),
            ("events", (OWNER, 1, text)),
            ("heads", (OWNER, "draws", 1)),
            ("heads", (OWNER, "events", 1)),
            ("heads", ("", "principals", 1)),
        ]
        for table, cells in written:
            sealed = (*cells, secrets.integrity.seal(table, *cells))
            places = ", ".join("?" * len(sealed))
            db.execute(f"INSERT INTO {table} VALUES ({places})", *sealed)
    return open_store(f"sqlite:///{path}", key=KEY)


def test_an_early_store_keeps_its_draws_and_learns_their_unit_from_their_bounds(
    tmp_path: Path,
) -> None:
    own, months = years("own"), years("m", "months", 216, 960)
    with closing(early_store(tmp_path / "early.db")) as store:
        assert store.verify() == ()
        assert str(store.quantities()[AGE]) == (
            "18 to 80 in a unit that was not written down, 1000 points"
        )
        for other in (months, years("wide", lower=0, upper=100)):
            with pytest.raises(DomainError, match=r"18 to 80 in a unit.*first open somebody"):
                Guard.open(other, values={"age": 42.3}, budget=1, store=store)
            with pytest.raises(DomainError, match="was not written down"):
                Guard.resume(other, store=store)
        session = Guard.open(own, values={"age": 42.3}, budget=1, store=store)
        assert session.release("age") == Domain(lower=18, upper=80).value(300)
        assert store.ledger(OWNER).micro == {"age": 100_000}
        assert store.quantities()[AGE].unit == "years"
        assert Guard.resume(months, store=store).release("age") == pytest.approx(
            12 * session.number("age")
        )
        Guard.refine(own, values={"age": 42.3}, budget="0.2", store=store)
        assert store.ledger(OWNER).micro == {"age": 200_000}
        assert len(drawn(store, "age")) == 1
        assert store.verify() == ()
    with closing(open_store(f"sqlite:///{tmp_path}/early.db", key=KEY)) as again:
        assert again.quantities()[AGE].unit == "years"


def mapping(template: Template, kept: Template) -> RootMapping:
    root = kept.roots[AGE]
    return RootMapping.of(
        template.roots[AGE], RootQuantity(name=AGE, unit=root.unit, domain=root.domain)
    )


def test_a_conversion_leaves_the_epsilon_of_a_step_exactly_as_it_was() -> None:
    months, own = years("m", "months", 200, 900), years("own", lower=200, upper=900)
    own = replace(
        own, roots={AGE: replace(own.roots[AGE], domain=Domain(lower=200 / 12, upper=900 / 12))}
    )
    share = make_plan(months, Fraction(1)).shares[0]
    for one, other in ((months, own), (own, months)):
        assert mapping(one, other).ratio == 1
        assert mapping(one, other).share(share).epsilon == share.epsilon


def test_bounds_that_touch_are_shared_and_those_apart_are_refused() -> None:
    kept = years("own")
    for lower, upper in ((80, 90), (10, 18)):
        assert mapping(years("next", lower=lower, upper=upper), kept).inward is None
    for lower, upper in ((81, 90), (10, 17)):
        with pytest.raises(DomainError, match="cannot be converted"):
            mapping(years("far", lower=lower, upper=upper), kept)


def test_an_epsilon_on_a_coarser_grid_stays_within_what_a_mechanism_takes() -> None:
    fine = years("fine")
    coarse = replace(
        fine, roots={AGE: replace(fine.roots[AGE], domain=Domain(lower=18, upper=80, size=2))}
    )
    share = make_plan(fine, Fraction(5)).shares[0]
    assert mapping(fine, coarse).share(share).epsilon == MAX_EPSILON
    small = replace(make_plan(coarse, Fraction("0.001")).shares[0], epsilon=Fraction(1, 2000))
    with pytest.raises(BudgetError, match=r"too small; nothing was drawn"):
        mapping(coarse, fine).share(small)


def test_a_finer_template_draws_on_the_stores_coarser_grid_at_the_same_noise_per_unit() -> None:
    store, fine = MemoryStore(), years("fine")
    coarse = replace(
        fine, roots={AGE: replace(fine.roots[AGE], domain=Domain(lower=18, upper=80, size=112))}
    )
    Guard.open(coarse, values={"age": 20}, budget="0.1", store=store)
    Guard.open(fine, values={"age": 60}, budget="0.01", store=store)  # nine steps make one
    first, second = (event.micro_epsilon for event in drawn(store, "age"))
    assert first == 100_000
    assert 90_000 - 1 <= second <= 90_000  # rounded down, and so is the ratio of the steps


def test_a_substance_is_known_by_an_alias_and_its_units_are_converted() -> None:
    def sugar(name: str, unit: str, upper: float) -> Template:
        template = years(name, unit, 0, 1)
        root = replace(
            template.roots[AGE], aliases=("glucose",), domain=Domain(lower=0, upper=upper)
        )
        return replace(template, roots={AGE: root})

    store = MemoryStore()
    first = Guard.open(sugar("mass", "mg/dL", 400), values={"age": 90}, budget=1, store=store)
    molar = Guard.resume(sugar("molar", "mmol/L", 22.2), store=store)
    assert molar.release("age") == pytest.approx(first.number("age") / 18.016, rel=1e-3)


def test_a_formula_of_a_kept_value_in_a_unit_that_does_not_convert_is_not_computed() -> None:
    store = MemoryStore()
    Guard.open(years("own"), values={"age": 42.3}, budget=1, store=store)
    text = """
name = "later"
title = "Later"
field = "test"
description = "A root that is a formula of another."
[roots.decades]
unit = ""
lower = 0
upper = 10
kept = { formula = "age / 10", units = { age = "kg" } }
[target]
name = "twice"
formula = "2 * decades"
"""
    later = parse_template(text, file="later.toml")
    with pytest.raises(PrivateValueError, match="decades"):
        Guard.open(later, values={}, budget=1, store=store)
    assert "decades" in Guard.open(later, values={"decades": 4}, budget=1, store=store).spent()
