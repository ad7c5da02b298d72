"""Roots of every type, and series, in SQLite and PostgreSQL: kept, found again, raised, erased.

Everything that a session does with a number it does with a yes or no, a category, a date, a count
and a public fact, and the store passes its own checks afterwards.
"""

from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

import pytest

from rootguard.errors import BudgetError, ChangedValueError, DomainError, PrivateValueError
from rootguard.events import RootNoised
from rootguard.session import Guard, load_policy
from rootguard.store import Store
from rootguard.template import Template, parse_template
from rootguard.values import Form, Principal
from rootguard.vault import backup_store, open_store, restore_store
from tests.support.store_contents import KEY
from tests.support.typed_templates import typed_template

OWNER = Principal("owner")
VISIT = typed_template("""
[derived.grown]
formula = "born + 6574"
type = "date"
[target]
name = "score"
formula = '''
2 * female + 3 * diabetes + (3 if region == "north" else 0) + pain + kids + born / 900
+ (1 if job == "shop" else 0)
'''
""")
VALUES: dict[str, Form] = {
    "female": True,
    "diabetes": "no",
    "region": "South",
    "pain": "much",
    "job": "farm",
    "kids": 3,
    "born": date(1980, 3, 3),
}
PLAIN = VISIT.replace("distance = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]", "")
SUGAR = """
name = "sugar"
title = "Sugar"
[roots.glu]
lower = 40
upper = 400
unit = "mg/dL"
series = true
moved = 80
[target]
name = "points"
formula = "glu"
"""
FIRST = date(2026, 3, 1)


@pytest.fixture
def visit() -> Template:
    return parse_template(VISIT, file="visit.toml")


@pytest.fixture
def sugar() -> Template:
    return parse_template(SUGAR, file="sugar.toml")


def opened(url: str, visit: Template) -> dict[str, Form]:
    """Everything that leaves, in its own form."""
    with closing(open_store(url, key=KEY, create=True)) as store:
        session = Guard.open(visit, values=VALUES, budget=6, store=store, allocation="uniform")
        return {name: session.release(name) for name in session.names}


def test_every_type_is_found_again_as_it_was_drawn(url: str, visit: Template) -> None:
    first = opened(url, visit)
    assert first["female"] is True
    assert isinstance(first["diabetes"], bool)
    assert first["region"] in ("north", "south", "far west")
    assert first["pain"] in ("none", "some", "much")
    assert first["job"] in ("office", "shop", "farm")
    assert isinstance(first["kids"], int)
    assert isinstance(first["born"], date)
    assert isinstance(first["grown"], date)
    assert opened(url, visit) == first  # opened again: nothing is drawn
    with closing(open_store(url, key=KEY, create=True)) as store:
        resumed = Guard.resume(visit, store=store)
        assert {name: resumed.release(name) for name in resumed.names} == first
        ledger = store.ledger(OWNER)
        assert sum(ledger.micro.values()) == 6_000_000
        assert ledger.micro.get("female", 0) == 0
        assert set(ledger.draws.values()) == {1}
        assert store.verify() == ()


def test_a_changed_answer_is_a_version_and_one_that_comes_back_is_free(
    url: str, visit: Template
) -> None:
    with closing(open_store(url, key=KEY, create=True)) as store:
        for region in ("South", "north", "south"):
            values = {**VALUES, "region": region}
            Guard.open(visit, values=values, budget=6, store=store, allocation="uniform")
        assert store.ledger(OWNER).draws["region"] == 2
        assert store.ledger(OWNER).micro["region"] == 2_000_000
        assert store.verify() == ()


@pytest.mark.parametrize(
    ("root", "bad"),
    [("diabetes", "maybe-4417"), ("region", "east4417"), ("born", "4417-01-01"), ("kids", 44.17)],
)
def test_a_value_of_another_type_draws_nothing(
    url: str, visit: Template, root: str, bad: Form
) -> None:
    with closing(open_store(url, key=KEY, create=True)) as store:
        with pytest.raises(PrivateValueError) as caught:
            Guard.open(visit, values={**VALUES, root: bad}, budget=6, store=store)
        assert root in str(caught.value)
        assert "4417" not in str(caught.value)
        assert "44.17" not in str(caught.value)
        assert not store.ledger(OWNER).draws


def test_levels_are_refined_for_the_difference_and_a_table_of_distances_refuses(
    url: str, visit: Template
) -> None:
    plain = parse_template(PLAIN, file="plain.toml")
    with closing(open_store(url, key=KEY, create=True)) as store:
        Guard.open(plain, values=VALUES, budget=2, store=store, allocation="uniform")
        session = Guard.refine(plain, values=VALUES, budget=6, store=store, allocation="uniform")
        assert session.guarantee().total == 6
        assert store.ledger(OWNER).draws["region"] == 1
        assert store.verify() == ()
        other = "somebody else"
        with pytest.raises(DomainError, match="keeps job as"):  # other distances, another root
            Guard.open(visit, values=VALUES, budget=2, store=store, principal=other)


def test_a_table_of_distances_has_one_level(url: str, visit: Template) -> None:
    with closing(open_store(url, key=KEY, create=True)) as store:
        Guard.open(visit, values=VALUES, budget=2, store=store, allocation="uniform")
        with pytest.raises(BudgetError, match="job was noised with the distances mechanism"):
            Guard.refine(visit, values=VALUES, budget=6, store=store, allocation="uniform")
        assert store.verify() == ()


def test_a_service_gets_answers_at_its_level(url: str, tmp_path: Path) -> None:
    plain = parse_template(PLAIN, file="plain.toml")
    policy_file = tmp_path / "policy.toml"
    policy_file.write_text(
        '[tiers.low]\nbudget = "0.6"\n[tiers.high]\nbudget = "6"\n'
        '[services.s]\ntier = "low"\nroots = "*"\nformulas = "*"\n'
    )
    policy = load_policy(policy_file)
    given: list[dict[str, Form]] = []
    for _ in range(2):
        with closing(open_store(url, key=KEY, create=True)) as store:
            Guard.open(plain, values=VALUES, budget=6, store=store, allocation="uniform")
            session = Guard.serve(plain, store=store, policy=policy, service="s")
            given.append({name: session.release(name) for name in session.names})
            assert sum(store.held(OWNER, "s").values()) <= 600_000
            assert store.verify() == ()
    assert given[0] == given[1]
    assert given[0]["female"] is True


def test_an_erased_person_is_drawn_anew(url: str, visit: Template) -> None:
    opened(url, visit)
    with closing(open_store(url, key=KEY, create=True)) as store:
        store.erase(OWNER)
        assert not store.records(OWNER)
        with pytest.raises(PrivateValueError, match="never noised"):
            Guard.resume(visit, store=store).release("region")
        assert store.verify() == ()
    opened(url, visit)
    with closing(open_store(url, key=KEY, create=True)) as store:
        assert store.ledger(OWNER).draws["region"] == 2  # what was told stays told
        assert store.verify() == ()


def test_a_backup_has_every_type_and_the_series(
    url: str, visit: Template, sugar: Template, tmp_path: Path
) -> None:
    first = opened(url, visit)
    kept, place = tmp_path / "backup.db", tmp_path / "restored.db"
    with closing(open_store(url, key=KEY, create=True)) as store:
        reading(store, sugar, 131, 0, "drift")
        shown = Guard.resume(sugar, store=store).release("glu")
        backup_store(store, kept)
    restore_store(kept, f"sqlite:///{place}", key=KEY)
    with closing(open_store(f"sqlite:///{place}", key=KEY)) as store:
        session = Guard.resume(visit, store=store)
        assert {name: session.release(name) for name in session.names} == first
        assert Guard.resume(sugar, store=store).release("glu") == shown
        # The test that was paid before the backup decides after it, too.
        before = dict(store.ledger(OWNER).micro)
        reading(store, sugar, 131, 1, "drift")
        assert store.ledger(OWNER).micro == before
        assert store.verify() == ()


# -- series -----------------------------------------------------------------------------------


def reading(store: Store, sugar: Template, glucose: float, day: int, how: str) -> Form:
    session = Guard.open(
        sugar,
        values={"glu": glucose},
        budget=1,
        when=FIRST + timedelta(days=day),
        on_change=how,  # type: ignore[arg-type]
        store=store,
    )
    return session.release("glu")


def test_drift_keeps_its_draw_and_pays_its_test_with_it(url: str, sugar: Template) -> None:
    with closing(open_store(url, key=KEY, create=True)) as store:
        first = reading(store, sugar, 131, 0, "drift")
        spent = dict(store.ledger(OWNER).micro)
        assert sum(spent.values()) == 1_500_000
    for day in range(1, 6):  # opened anew each day
        with closing(open_store(url, key=KEY, create=True)) as store:
            assert reading(store, sugar, 131 + day, day, "drift") == first
            assert store.ledger(OWNER).micro == spent
    with closing(open_store(url, key=KEY, create=True)) as store:
        # 200 mg/dL are 555 steps; the noise of the test passes that with odds below 1e-9.
        moved = reading(store, sugar, 331, 6, "drift")
        assert moved != first
        assert sum(store.ledger(OWNER).micro.values()) == 3_000_000
        assert store.verify() == ()


def test_daily_has_one_draw_for_each_date(url: str, sugar: Template) -> None:
    with closing(open_store(url, key=KEY, create=True)) as store:
        shown = [reading(store, sugar, 131, day, "daily") for day in range(3)]
    with closing(open_store(url, key=KEY, create=True)) as store:
        assert [reading(store, sugar, 177, day, "daily") for day in range(3)] == shown
        assert store.ledger(OWNER).draws["glu"] == 3
        assert store.verify() == ()


def test_asking_names_the_price_and_draws_nothing(url: str, sugar: Template) -> None:
    with closing(open_store(url, key=KEY, create=True)) as store:
        first = reading(store, sugar, 131, 0, "ask")
        with pytest.raises(ChangedValueError) as caught:
            reading(store, sugar, 177, 1, "ask")
        assert caught.value.prices == {"glu": 1.0}
        assert "177" not in str(caught.value)
        assert store.ledger(OWNER).micro["glu"] == 1_000_000
        assert reading(store, sugar, 177, 1, "keep") == first
        reading(store, sugar, 177, 1, "draw")
        assert store.ledger(OWNER).micro["glu"] == 2_000_000
        noised = [event for event in store.events(OWNER) if isinstance(event, RootNoised)]
        assert len(noised) == 2
        assert store.verify() == ()


def test_a_series_ends_at_its_cap_whatever_the_store(url: str, sugar: Template) -> None:
    with closing(open_store(url, key=KEY, create=True)) as store:
        for day in range(10):
            reading(store, sugar, 100 + 5 * day, day, "daily")
        with pytest.raises(BudgetError):
            reading(store, sugar, 200, 10, "daily")
        assert store.ledger(OWNER).micro["glu"] == 10_000_000
        assert store.verify() == ()
