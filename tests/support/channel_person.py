"""The person that the tests of channels speak for: six templates, nothing noised yet."""

from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore

PROFILE = """
templates = ["fib4", "homa", "vascular", "conicity", "anemia", "debt_to_income"]
budget = "3"
[identifiers]
name = "Jane Roe"
record = "MRN-4415-8820"
"""


def open_person(values: str = "", store: MemoryStore | None = None) -> Person:
    profile = parse_profile(f"{PROFILE}\n[values]\n{values}\n", file="profile.toml")
    return Person.open(profile, store=store or MemoryStore(), on_clamp=lambda _: None)
