"""A person speaks for several templates; a root is noised once, whoever sights it first."""

import gc
import json
import multiprocessing
import struct
import threading
import traceback
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from types import FunctionType

import pytest

from rootguard import Guard, MemoryStore, load_template, open_store
from rootguard.errors import (
    AccessError,
    BudgetError,
    ClampedWarning,
    FormulaError,
    FormulaNameError,
    IdentifierError,
    NoiseError,
    PrivateValueError,
    RootGuardError,
    StoreMissingError,
    StoreUnavailableError,
    UnknownNameError,
)
from rootguard.events import (
    ChangedPlace,
    PlacesRefused,
    RequestRefused,
    RootNoised,
    TokenRefused,
    ValueReleased,
)
from rootguard.session import Person, Profile, parse_profile
from rootguard.session.declared import issue_tokens
from rootguard.session.draws import PrivateValues, noise_once, sight_once
from rootguard.session.person import few_places
from rootguard.store import Record, Snapshot, Store
from rootguard.values import MICRO, Principal, Raw, RootName
from tests.support.canary import own_locals
from tests.support.patience import PATIENCE

OWNER = Principal("owner")
AST, SBP = RootName("ast"), RootName("sbp")
KEY = b"k" * 32
TEXT = """
templates = ["fib4", "vascular", "shock_index"]
budget = "0.9"
[values]
age = 50
sbp = 131
[identifiers]
name = "Ann Roe"
mrn = "4415-8820"
"""
PROFILE = parse_profile(TEXT, file="me.toml")
POLICY = """
[tiers.clinic]
budget = "2.0"
[tiers.public]
budget = "0.3"
[services.clinic]
tier = "clinic"
roots = "*"
formulas = "*"
[services.app]
tier = "public"
roots = ["age", "ast", "hr", "name"]
formulas = ["age + ast", "age * hr"]
"""
SECRET = 91.827364519
processes = multiprocessing.get_context("forkserver")


def opened(store: Store | None = None, profile: Profile = PROFILE, **options: object) -> Person:
    where = MemoryStore() if store is None else store
    return Person.open(profile, store=where, **options)  # type: ignore[arg-type]


def noised(store: Store, root: str = "ast", principal: Principal = OWNER) -> list[RootNoised]:
    events = store.events(principal)
    return [event for event in events if isinstance(event, RootNoised) and event.root == root]


def test_declared_roots_are_known_and_the_others_refused_by_name_until_sighted() -> None:
    person = opened()
    assert [root for root in person.roots if person.known(root)] == ["age", "sbp"]
    assert not person.known("nothing")
    with pytest.raises(PrivateValueError, match=r"never noised .*: ast$"):
        person.release("ast")
    with pytest.raises(PrivateValueError, match=r": ast, alt, plt$"):
        person.release("fib4")
    with pytest.raises(PrivateValueError, match=r": hr$"):
        person.derive("age * sbp / hr")
    refused = [event for event in person.transcript() if isinstance(event, PlacesRefused)]
    assert [(each.turn, each.reason) for each in refused] == [
        (turn, "PrivateValueError") for turn in (1, 2, 3)
    ]
    asked = [[place.root for place in each.places] for each in refused]
    assert asked == [["ast"], ["fib4"], ["age", "hr", "sbp"]]
    for root, number in {"ast": 30, "alt": 30, "plt": 200}.items():
        assert person.sight(root, number) is None
    assert person.known("ast")
    assert person.release("fib4") == person.target() == person.target("fib4")


def test_fifty_sights_of_different_numbers_are_one_value_and_one_charge() -> None:
    store = MemoryStore()
    people = [opened(store) for _ in range(5)]
    for number in range(50):
        people[number % 5].sight("ast", 10 + number)
    assert len({person.release("ast") for person in people}) == 1
    (event,) = noised(store)
    assert people[0].spent()["ast"] == Fraction(event.micro_epsilon, 10**6)
    assert store.version(OWNER, AST) == 1


def test_two_people_are_noised_each_for_themselves() -> None:
    store = MemoryStore()
    opened(store).sight("ast", 30)
    other = opened(store, parse_profile('principal = "eve"\n' + TEXT, file="me.toml"))
    assert not other.known("ast")


def race(people: list[Person], root: str = "ast") -> set[float]:
    """Everyone sights another number at the same moment; what they then release."""
    barrier = threading.Barrier(len(people))
    released: list[float] = []

    def sight(person: Person, number: float) -> None:
        barrier.wait()
        person.sight(root, number)
        released.append(person.number(root))

    threads = [threading.Thread(target=sight, args=(p, 40 + 5 * i)) for i, p in enumerate(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(released) == len(people)
    return set(released)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Gives stores on the same data: the replicas of one service."""
    if request.param == "memory":
        only = MemoryStore()
        return lambda: only
    url = f"sqlite:///{tmp_path}/vault.db"
    if request.param == "postgres":
        url = request.getfixturevalue("new_postgres")()
    return lambda: open_store(url, key=KEY, create=True)


def test_racing_threads_and_replicas_agree_on_one_draw(make_store: Callable[[], Store]) -> None:
    stores = [make_store() for _ in range(3)]
    people = [opened(store) for store in stores for _ in range(2)]
    for root in ("ast", "alt", "plt", "hr"):
        assert len(race([*people, people[0]], root)) == 1
        assert len(noised(stores[0], root)) == 1
    assert stores[0].verify() == ()
    for store in stores:
        store.close()


def in_a_process(url: str, pipe: Connection, number: float) -> None:
    with closing(open_store(url, key=KEY)) as store:
        person = opened(store)
        pipe.send("ready")
        pipe.recv()
        person.sight("ast", number)
        pipe.send(person.release("ast"))


@pytest.mark.usefixtures("own_data_directory")
def test_two_processes_on_one_file_agree_on_one_draw(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/vault.db"
    with closing(open_store(url, key=KEY, create=True)) as store:
        opened(store)
        pipes, workers = [], []
        for number in (20.0, 200.0):
            ours, theirs = processes.Pipe()
            worker = processes.Process(target=in_a_process, args=(url, theirs, number))
            worker.start()
            pipes.append(ours)
            workers.append(worker)
        assert [pipe.recv() for pipe in pipes] == ["ready", "ready"]
        for pipe in pipes:
            pipe.send("go")
        released = {pipe.recv() for pipe in pipes}
        for worker in workers:
            worker.join(timeout=PATIENCE)
        assert released == {opened(store).release("ast")}
        assert len(noised(store)) == 1


class Interrupted(MemoryStore):
    """Another writer comes in between the look at what is kept and the draw."""

    def __init__(self) -> None:
        super().__init__()
        self.other: Callable[[], object] | None = None

    def snapshot(self, principal: Principal) -> Snapshot:
        found = super().snapshot(principal)
        if self.other is not None:
            other, self.other = self.other, None
            other()
        return found


@pytest.mark.parametrize("draw", ["sight", "open"])
def test_a_writer_between_looking_and_drawing_costs_nothing_twice(draw: str) -> None:
    store = Interrupted()
    person = opened(store)
    plan, raw = person._plans[AST], Raw(30.0)

    def noise() -> Record:
        there = store.snapshot(OWNER)
        values = PrivateValues(
            store=store, person=there, plan=plan, roots=person.roots, raws={AST: raw}
        )
        return noise_once(values)[AST]

    store.other = noise
    if draw == "sight":
        record = sight_once(store, OWNER, 0, plan, person.roots, AST, Raw(77.0))
    else:
        record = noise()
    assert store.other is None
    assert record == store.levels(OWNER, AST)[0]
    assert len(noised(store)) == 1


def test_what_another_process_noised_is_found_by_a_person_that_is_open() -> None:
    store = MemoryStore()
    early, late = opened(store), opened(store)
    late.sight("ast", 30)
    assert early.known("ast")
    assert early.release("ast") == late.release("ast")


def test_a_declared_value_that_changed_is_a_new_version_and_a_sighted_one_is_not() -> None:
    store = MemoryStore()
    opened(store).sight("ast", 30)
    opened(store).sight("ast", 99)
    assert store.version(OWNER, AST) == 1
    changed = TEXT.replace("sbp = 131", "sbp = 150")
    opened(store, parse_profile(changed, file="me.toml")).sight("sbp", 131)
    assert store.version(OWNER, SBP) == 2


def test_a_cap_forbids_a_sight_before_anything_is_drawn() -> None:
    store = MemoryStore()
    person = opened(store)
    store.set_cap(OWNER, "ast", 1)
    with pytest.raises(BudgetError, match="nothing was drawn"):
        person.sight("ast", 30)
    assert not person.known("ast")
    assert noised(store) == []
    store.set_cap(OWNER, "ast", None)
    person.sight("ast", 30)
    assert person.known("ast")


def test_a_root_of_two_templates_is_noised_once_under_the_first_plan() -> None:
    store = MemoryStore()
    person = opened(store)
    person.sight("hr", 70)
    (event,) = noised(store, "sbp")
    assert event.micro_epsilon == int(person._plans[SBP][SBP].epsilon * 10**6)
    assert person._plans[SBP].template == "vascular"
    index = person.number("hr") / person.number("sbp")
    assert person.assess("shock_index") == {
        "template": "shock_index",
        "target": "shock_index",
        "value": pytest.approx(index, rel=1e-12),
        "unit": person.unit("shock_index"),
        "risk": person.risk("shock_index"),
    }


def test_a_formula_may_span_templates_and_is_written_down_once() -> None:
    store = MemoryStore()
    person = opened(store)
    person.sight("dbp", 80)
    value = person.derive("map / age")
    (event,) = person.transcript()
    assert isinstance(event, ValueReleased)
    assert event.formula == "map / age"
    assert event.rests_on == ("age", "sbp", "dbp")
    assert len(event.levels) == 3
    assert value == event.value == person.number("map") / person.number("age")
    assert {found.root for found in store.disclosures(OWNER)} == {"age", "sbp", "dbp"}
    turns = [event.turn for event in person.transcript() if isinstance(event, ValueReleased)]
    assert turns == [1, 2, 3]


def test_what_cannot_be_answered_is_a_typed_refusal_and_noted() -> None:
    person = opened()
    for formula in ("age +", "age * nothing", "sbp / (age - age)", "sbp * nothing * age"):
        with pytest.raises(FormulaError):
            person.derive(formula)
    with pytest.raises(FormulaNameError, match="shock_index"):
        person.derive("age * sbp * nothing")
    with pytest.raises(UnknownNameError):
        person.release("nothing")
    with pytest.raises(UnknownNameError, match="fib4, vascular"):
        person.assess("nothing")
    assert all(isinstance(event, RequestRefused) for event in person.transcript())
    assert len(person.transcript()) == 7
    with pytest.raises(UnknownNameError):
        person.unit("nothing")
    with pytest.raises(UnknownNameError):
        person.sight("fib4", 1.0)


def test_identifiers_are_released_as_tokens_and_restored() -> None:
    person = opened()
    token = str(person.release("name"))
    assert token != "Ann Roe"
    assert person.restore(f"Dear {token}") == "Dear Ann Roe"
    promised = {name: given.identifiers for name, given in person.guarantee().items()}
    assert promised == {"fib4": 2, "vascular": 0, "shock_index": 0}  # each is counted once
    assert person.unit("name") == ""
    assert person.restore(person.protect("phone", "212 555 0147")) == "212 555 0147"
    with pytest.raises(IdentifierError):
        person.protect("email", "none")


def test_what_is_described_is_public_and_can_be_written_as_json() -> None:
    person = opened()
    told = json.loads(json.dumps(person.describe()))
    assert [each["name"] for each in told["templates"]] == ["fib4", "vascular", "shock_index"]
    assert told["roots"]["ast"]["unit"] == person.unit("ast") == person.roots[AST].unit
    assert told["computed"]["map"]
    assert told["identifiers"] == ["mrn", "name"]
    assert {"age", "hr", "map", "shock_index", "name"} <= set(person.names)
    assert set(person.guarantee()) == {"fib4", "vascular", "shock_index"}


def test_a_question_in_words_is_answered_from_released_values() -> None:
    person = opened()
    assert f"{person.release('age'):.4g}"[:2] in person.answer("What is your age?")


def tiered(tmp_path: Path) -> Profile:
    (tmp_path / "policy.toml").write_text(POLICY)
    text = TEXT.replace('budget = "0.9"', 'policy = "policy.toml"')
    return parse_profile(text, file=str(tmp_path / "me.toml"))


def test_a_service_gets_its_tier_and_what_its_policy_allows(tmp_path: Path) -> None:
    store, profile = MemoryStore(), tiered(tmp_path)
    app = opened(store, profile, service="app")
    clinic = opened(store, profile, service="clinic")
    app.sight("ast", 30)
    app.sight("hr", 70)
    levels = {}
    for person in (app, clinic):
        person.derive("age + ast")
        person.derive("age * hr")
        first, across = (e for e in person.transcript() if isinstance(e, ValueReleased))
        levels[first.recipient] = first.levels
        assert across.rests_on == ("age", "hr")
        assert (across.recipient, across.tier) == (first.recipient, first.tier)
    assert all(low < high for low, high in zip(levels["app"], levels["clinic"], strict=True))
    # Two templates share the clinic's tier, so that it holds less than what ast was noised for.
    assert levels["clinic"][1] < sum(event.micro_epsilon for event in noised(store))
    for service, budget in (("app", 0.3), ("clinic", 2.0)):
        assert sum(store.held(OWNER, service).values()) <= budget * MICRO
    for forbidden in ("plt", "fib4", "mrn"):
        with pytest.raises(AccessError):
            app.release(forbidden)
    for formula in ("age - ast", "age - hr"):
        with pytest.raises(AccessError):
            app.derive(formula)
    assert app.names == ("age", "ast", "hr", "name")
    assert opened(store, profile, service="app").release("ast") == app.release("ast")
    with pytest.raises(AccessError):
        opened(store, profile, service="stranger")
    with pytest.raises(AccessError):
        opened(store, PROFILE, service="app")


def test_opening_tells_the_owner_of_values_outside_the_bounds_and_of_no_others() -> None:
    text = 'templates = ["fib4", "vascular"]\nbudget = 1\n[values]\nage = {}\nast = {}\nsbp = {}'
    inside = parse_profile(text.format(50, 30, 120), file="x.toml")
    outside = parse_profile(text.format(50, 5_000, 1), file="x.toml")
    told: list[tuple[str, ...]] = []
    Person.open(inside, store=MemoryStore(), on_clamp=told.append)
    assert told == []
    Person.open(outside, store=MemoryStore(), on_clamp=told.append)
    assert [set(roots) for roots in told] == [{"ast", "sbp"}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Person.open(inside, store=MemoryStore())
    with pytest.warns(ClampedWarning, match=r"bound: ast, sbp$") as caught:
        Person.open(outside, store=MemoryStore())
    assert [warning.filename for warning in caught] == ["<rootguard>"]  # no line of the caller's
    assert "5000" not in str(caught[0].message)


def test_the_owner_is_told_of_a_clamped_sight_by_name() -> None:
    told: list[tuple[str, ...]] = []
    person = opened(on_clamp=told.append)
    person.sight("ast", 5_000)
    person.sight("ast", 6_000)
    assert told == [("ast",)]
    with pytest.warns(ClampedWarning, match=r"bound: ast$") as caught:
        opened().sight("ast", 5_000)
    assert [warning.filename for warning in caught] == ["<rootguard>"]


def test_a_person_reaches_no_raw_value_and_no_declared_text() -> None:
    person = opened()
    person.sight("ast", SECRET)
    seen: set[int] = set()
    stack: list[object] = [person.__dict__]
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, type) or type(thing).__name__ == "module":
            continue
        seen.add(id(thing))
        assert not isinstance(thing, Raw)
        assert thing not in ("Ann Roe", SECRET) or not isinstance(thing, str | float)
        if not isinstance(thing, FunctionType):
            stack += gc.get_referents(thing)
    assert len(seen) > 100


class Failing(MemoryStore):
    def commit(self, principal: object, draws: object, *, epoch: int | None = None) -> tuple[()]:
        raise StoreUnavailableError("the server is away; try again")


class Broken:
    def draw(self, index: int, source: object) -> int:
        raise ValueError(index, SECRET)


@pytest.mark.parametrize("case", ["stranger", "infinite", "text", "away", "capped", "no draw"])
def test_no_failed_sight_carries_the_number(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = parse_profile('templates = ["fib4"]\nbudget = 1', file="x.toml")
    store = Failing() if case == "away" else MemoryStore()
    store.set_cap(OWNER, "", 1 if case == "capped" else None)
    person = opened(store, bare)
    if case == "no draw":
        monkeypatch.setattr("rootguard.mechanisms.additive.Additive.draw", Broken.draw)
    root = "weight" if case == "stranger" else "ast"
    number: object = {"infinite": float("inf"), "text": str(SECRET)}.get(case, SECRET)
    expected = {"no draw": NoiseError, "capped": BudgetError}.get(case, RootGuardError)
    with pytest.raises(expected) as caught:
        person.sight(root, number)  # type: ignore[arg-type]
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    held = own_locals(caught.value)
    assert held
    assert "91.827" not in str(caught.value) + repr(vars(caught.value)) + "".join(held)
    assert "91.827" in repr(frames[0].f_locals)  # the check sees numbers where they are


def frames_of(caught: pytest.ExceptionInfo[RootGuardError]) -> set[str]:
    return {frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.value.__traceback__)}


def test_no_frame_that_saw_a_profile_or_a_text_leaves_with_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    person, kept = opened(store), store.snapshot(OWNER)

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailableError("the server is away; try again")

    monkeypatch.setattr(type(person._identifiers), "_found", away)
    monkeypatch.setattr(store, "tokens", away)
    for function, call in (
        ("open", lambda: Person.open(PROFILE, store=store)),
        ("issue_tokens", lambda: issue_tokens({"name": "Ann Roe"}, None, store, kept)),
        ("issued", lambda: person.issued("Ann Roe")),
    ):
        with pytest.raises(StoreUnavailableError) as caught:
            call()
        assert not {function, "away"} & frames_of(caught)
        assert "call" in frames_of(caught)  # that of the shield


@pytest.mark.parametrize(
    ("calibrate", "values", "expected"),
    [("true", "", True), ("false", "", False), ("true", "plt", False)],
)
def test_a_template_is_calibrated_where_asked_for_and_all_its_values_are_given(
    calibrate: str, values: str, *, expected: bool
) -> None:
    given = {"age": 50, "ast": 30, "alt": 30, "plt": 220}
    given.pop(values, None)
    listed = "\n".join(f"{root} = {value}" for root, value in given.items())
    text = f'templates = ["fib4"]\nbudget = "0.5"\ncalibrate = {calibrate}\n[values]\n{listed}'
    store = MemoryStore()
    person = Person.open(parse_profile(text, file="x.toml"), store=store)
    drawn = [store.levels(OWNER, RootName(root))[0].sanitized.value for root in given]
    assert ([person.release(root) for root in given] != drawn) is expected


WEIGHED = """
name = "weighed"
title = "BMI"
field = "test"
description = "A root that is a formula of others."
[roots.bmi]
unit = "kg/m^2"
lower = 10
upper = 60
kept = { formula = "wt / ht ** 2", units = { wt = "kg", ht = "m" } }
[target]
name = "over"
formula = "bmi - 25"
"""


@pytest.mark.parametrize(
    ("values", "drawn"),
    [("wt = 80\nht = 1.8\nbmi = 24.7", {"wt", "ht"}), ("bmi = 24.7", {"bmi"})],
)
def test_a_value_of_a_profile_is_drawn_unless_it_follows_from_others_in_it(
    values: str, drawn: set[str], tmp_path: Path
) -> None:
    (tmp_path / "weighed.toml").write_text(WEIGHED)
    text = f'templates = ["bsa", "weighed.toml"]\nbudget = 1\n[values]\n{values}'
    store = MemoryStore()
    Person.open(parse_profile(text, file=str(tmp_path / "me.toml")), store=store)
    assert set(store.ledger(OWNER).spent) == drawn


def test_no_byte_of_a_store_holds_a_sighted_number_or_a_declared_name(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/vault.db", key=KEY, create=True)) as store:
        person = opened(store)
        person.sight("ast", SECRET)
        person.release("ast")
        person.declared("Ann Roe, 4415.8820")
        content = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    content += b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"mmHg" in content  # the search can find things: a unit is nobody's
    texts = [OWNER, repr(SECRET), SECRET.hex(), "Ann Roe", "4415-8820", "4415.8820"]
    for form in [*map(str.encode, texts), struct.pack("<d", SECRET), struct.pack(">d", SECRET)]:
        assert form not in content


def test_a_session_of_the_guard_still_needs_every_root() -> None:
    store = MemoryStore()
    opened(store).sight("ast", 30)
    with pytest.raises(PrivateValueError, match=r"alt, plt$"):
        Guard.resume(load_template("fib4"), store=store)


def place(path: str, change: str = "value", times: int = 1) -> ChangedPlace:
    return ChangedPlace(path=path, change=change, root="ast", times=times, source="user")


def test_few_places_are_written_down_as_they_are() -> None:
    listed = tuple(place(f"messages[{number}]", times=2) for number in range(32))
    assert few_places(iter(listed)) == listed
    assert few_places(()) == ()
    longest = (place("x" * 200),)
    assert few_places(longest) == longest


def test_equal_places_are_counted_together() -> None:
    assert few_places([place("a", times=2), place("b"), place("a", times=2)]) == (
        place("a", times=4),
        place("b"),
    )
    assert few_places([place("a"), place("a", times=2), place("a", "token")]) == (
        place("a", times=1),
        place("a", times=2),
        place("a", "token"),
    )


def test_places_past_the_thirty_second_lose_their_path_and_are_counted_by_kind() -> None:
    listed = [place(f"m{number}") for number in range(32)]
    more = [place("more", times=3), place("m31"), place("and more"), place("else", "token")]
    assert few_places([*listed, *more]) == (
        *listed[:31],
        place("m31", times=2),
        place("", times=4),
        place("", "token"),
    )


def test_a_long_path_is_cut() -> None:
    assert few_places([place("x" * 201)]) == (place("x" * 200),)
    assert few_places([place("x" * 201), place("x" * 202)]) == (place("x" * 200, times=2),)


def test_what_left_otherwise_than_written_is_in_the_transcript_once() -> None:
    person = opened()
    person.note_changes(())
    assert person.transcript() == ()
    person.note_changes([place("a"), place("a")])
    person.note_refusal(ValueError("secret"), rule="text", places=[place("b")])
    logged = AccessError("app")
    logged.logged = True
    person.note_refusal(logged, rule="text")
    person.note_refusal(AccessError("app"), rule="policy")
    person.refuse_tokens({"email": 2, "phone": 1})
    assert person.transcript() == (
        PlacesRefused(turn=1, reason="", rule="", places=(place("a", times=2),)),
        PlacesRefused(turn=2, reason="ValueError", rule="text", places=(place("b"),)),
        PlacesRefused(turn=3, reason="AccessError", rule="policy", places=()),
        TokenRefused(turn=4, identifier="email", times=2),
        TokenRefused(turn=5, identifier="phone", times=1),
    )


def test_a_profile_that_names_another_vault_is_refused_before_anything_is_drawn() -> None:
    store = MemoryStore()
    with pytest.raises(StoreMissingError, match="not the vault"):
        opened(store, replace(PROFILE, vault="0f" * 16))
    assert not store.records(OWNER)
    opened(store, replace(PROFILE, vault=store.vault_id))
    assert store.records(OWNER)


def test_a_template_is_computed_once_all_its_roots_are_known() -> None:
    person = opened()
    assert person.computed("shock_index") is None
    person.sight("hr", 70)
    assert person.computed("shock_index") == person.target("shock_index")
    assert person.computed("fib4") is None
    assert person.computed("homa") is None


def test_the_draw_of_a_date_is_told_to_its_owner_where_draws_are_kept_by_date() -> None:
    store, today = MemoryStore(), datetime.now().astimezone().date()
    person = opened(store, replace(PROFILE, on_change="daily"))
    again = datetime.now().astimezone().date()
    days = {today, again}
    told = [value for day in days if (value := person.number_on("age", day)) is not None]
    assert told == [person.number("age")]
    (event, _) = person.transcript()
    assert isinstance(event, ValueReleased)
    assert event.name in {f"age on {day.isoformat()}" for day in days}
    assert (event.turn, event.value, event.rests_on) == (1, told[0], ("age",))
    assert event.levels == (noised(store, "age")[0].micro_epsilon,)
    assert person.number_on("age", date(2001, 1, 1)) is None
    assert person.number_on("age", min(days) - timedelta(days=1)) is None
    assert person.number_on("nothing", today) is None
    assert opened(profile=PROFILE).number_on("age", today) is None
