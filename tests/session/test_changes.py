"""What it costs to noise a value anew, as its owner is told."""

from rootguard.session.changes import change
from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore
from rootguard.values import MICRO

PROFILE = """
templates = ["fib4"]
budget = "2"
[values]
age = 54
ast = 40
alt = 35
plt = 220
"""


def test_what_a_change_costs_is_told_in_epsilon() -> None:
    store, profile = MemoryStore(), parse_profile(PROFILE, file="profile.toml")
    person = Person.open(profile, store=store, on_clamp=lambda _roots: None)
    assert person.number("ast") > 0  # seen, so that nothing is thrown away
    before = store.ledger(profile.principal).micro
    spent = change(profile, store, {"ast": 90})
    after = store.ledger(profile.principal).micro
    assert spent == {"ast": (after["ast"] - before["ast"]) / MICRO}
    assert 0 < spent["ast"] < 2
