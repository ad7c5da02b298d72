"""Which answers a text tells: `python -m benchmarks.told FILE [--show]`.

Each line of the file is a group of writings that differ only in the answer that they give to a yes
or no, to one of a few words or for a day. What leaves must be the same text whichever of them was
written, or be refused whichever it was; else the group tells. `--show` prints the groups that do:
not for a file that judges (`tests/data/plain/heldout`).
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from rootguard.channels.detection import Rules
from rootguard.channels.text.channel import TextChannel
from rootguard.errors import TextBlockedError
from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore

_PROFILE = """
templates = [
  "framingham", "cha2ds2_vasc", "findrisc", "audit_c", "due_date", "parental_leave", "student_aid",
]
budget = "30"
allocation = "uniform"
[values]
smoker = "no"
diabetes_dx = "no"
hypertension = "yes"
heart_failure = "no"
prior_stroke = "no"
vascular_disease = "no"
female = "yes"
bp_treated = "yes"
single_parent = "no"
diabetes_family = "close"
drink_days = "2 to 4 times a month"
drinks_a_day = "1 or 2"
heavy_days = "never"
last_period = 2026-01-04
child_born = 2025-03-09
age = 54
wt = 83.5
ht = 1.81
waist = 0.94
tc = 201
hdl = 51
sbp = 131
cycle_days = 28
children_at_once = 1
leave_taken = 100
family_income = 50000
family_size = 3
active_daily = "yes"
vegetables_daily = "yes"
bp_medication_ever = "yes"
high_glucose_ever = "no"
"""


def channel() -> TextChannel:
    """Of somebody who has declared everything that the groups speak of, as a gateway has it."""
    profile = parse_profile(_PROFILE, file="profile.toml")
    person = Person.open(profile, store=MemoryStore(), on_clamp=lambda _roots: None)
    return TextChannel(person, detectors=(Rules(),), near_private="redact")


def leaves(one: TextChannel, writing: str) -> str:
    """What is sent of a writing of the owner's; a refusal sends nothing."""
    try:
        return one.sanitize(writing, source="owner").text
    except TextBlockedError:
        return ""


def main() -> None:
    """Count the groups that tell, by root."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--show", action="store_true", help="print the groups that tell")
    options = parser.parse_args()
    one = channel()
    told: Counter[str] = Counter()
    groups = [json.loads(line) for line in options.file.read_text("utf-8").splitlines()]
    for group in groups:
        sent = [leaves(one, writing) for writing in group["writings"]]
        if len(set(sent)) > 1:
            told[group["root"]] += 1
            if options.show:
                print(group["id"])
                for writing, text in zip(group["writings"], sent, strict=True):
                    print(f"    {writing!r}\n        {text!r}")
    for root, count in told.most_common():
        print(f"{count:4d}  {root}")
    print(f"{told.total()} of {len(groups)} groups tell which answer was written.")


if __name__ == "__main__":
    main()
