"""A mortgage comparison with three lenders that collude.

Run it with `python examples/lenders.py`. Each lender asks for the same values again and again and
tells the others what it received. Together they know no more than the two banks: these are in one
tier and have the same numbers, and the broker's coarser numbers are computed from theirs. The
person is synthetic.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from rootguard import MemoryStore, Person, load_profile, load_template

TEMPLATE = load_template("debt_to_income")
POLICY = """
[tiers.bank]
budget = "2.0"
[tiers.broker]
budget = "0.5"
[services.first_bank]
tier = "bank"
roots = "*"
formulas = "*"
[services.second_bank]
tier = "bank"
roots = "*"
formulas = "*"
[services.broker]
tier = "broker"
roots = "*"
formulas = "*"
"""


def main() -> None:
    """Let each lender ask, and compare what they received."""
    person_has = {name: (r.domain.lower + r.domain.upper) / 3 for name, r in TEMPLATE.roots.items()}
    values = "\n".join(f"{name} = {value:.0f}" for name, value in person_has.items())
    profile = f'templates = ["{TEMPLATE.name}"]\npolicy = "policy.toml"\n[values]\n{values}\n'
    store = MemoryStore()
    with TemporaryDirectory() as folder:
        (Path(folder) / "policy.toml").write_text(POLICY, encoding="utf-8")
        (Path(folder) / "me.toml").write_text(profile, encoding="utf-8")
        me = load_profile(Path(folder) / "me.toml")
    told = {}
    for lender in ("first_bank", "second_bank", "broker"):
        person = Person.open(me, store=store, service=lender)
        told[lender] = {root: float(person.release(root)) for root in TEMPLATE.roots}
        again = [float(person.release(root)) for root in TEMPLATE.roots for _ in range(20)]
        assert set(again) <= set(told[lender].values()), "asking again gives nothing new"
        print(f"{lender:12}", {root: f"{value:,.0f}" for root, value in told[lender].items()})
    assert told["first_bank"] == told["second_bank"], "lenders of one tier have the same numbers"
    print("together they know what the banks know; the broker's numbers are computed from it")


if __name__ == "__main__":
    main()
