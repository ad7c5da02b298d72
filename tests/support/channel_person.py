"""The person that the tests of channels speak for: six templates, nothing noised yet."""

from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore
from rootguard.values import RootName

PROFILE = """
templates = ["fib4", "homa", "vascular", "conicity", "anemia", "debt_to_income"]
budget = "3"
[identifiers]
name = "Jane Roe"
record = "MRN-4415-8820"
"""


FAR = "age = 79\nast = 250\nalt = 200\nplt = 20\nglu = 400\nsbp = 210\ndbp = 5\nwt = 180\nht = 1.5"
"""Values far from what texts of tests say: the released ones are never written the same."""


def written(person: Person, root: str) -> str:
    """The person's released value as a text has it in its own unit."""
    found = person.roots[RootName(root)]
    return f"{person.number(root):.{found.places}f}"


def open_person(values: str = "", store: MemoryStore | None = None) -> Person:
    profile = parse_profile(f"{PROFILE}\n[values]\n{values}\n", file="profile.toml")
    return Person.open(profile, store=store or MemoryStore(), on_clamp=lambda _: None)
