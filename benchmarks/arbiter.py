"""What an arbiter does to numbers in doubt: how well it tells them apart, how long it takes.

On labelled sentences of which the rules leave a number open, half of them unseen while the prompt
and the margin were chosen; then on all cases, with and without it. A number of the owner that is
kept has leaked; one of nobody's that is not kept was redacted in vain.

    python -m benchmarks.arbiter MODEL.gguf [--cases FOLDER]
"""

import argparse
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

from benchmarks.cases import DATA, Tally, judge, person_of, samples
from rootguard.channels.detection import Rules
from rootguard.channels.gateway.channel import PersonChannel
from rootguard.channels.text.arbiter import MARGIN, Arbitration, Masks, ModelArbiter
from rootguard.channels.text.channel import NumberPolicy
from rootguard.evaluation.language_model import LocalModel
from rootguard.reading.claims import read_claims
from rootguard.reading.page import read_page
from rootguard.session.person import Person

_POLICIES: tuple[NumberPolicy, NumberPolicy] = ("redact", "block")
SENTENCES = DATA / "open_claims.txt"


def questions() -> Iterator[tuple[str, str, str]]:
    """Half, whose it is, and the masked sentence, of each number that the rules leave open."""
    person = person_of()
    for line in SENTENCES.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        half, whose, marked = line.split(maxsplit=2)
        place = marked.index("[")
        page = read_page(re.sub(r"[\[\]]", "", marked), person.roots, person.formulas)
        claims = read_claims(page, source="owner").claims
        asked = next(each for each in claims if each.start == place)
        if asked.standing == "open":  # rules grow, and may know some of them by now
            yield half, whose, Masks(page, ()).clause(asked)


def separation(own: Sequence[float], other: Sequence[float]) -> float:
    """The share of pairs in which the owner's scores higher: area under the ROC curve."""
    return mean((a > b) + (a == b) / 2 for a in own for b in other)


class _Counted(ModelArbiter):
    """Counts questions and processor time."""

    __slots__ = ("count", "seconds")

    def __init__(self, model: LocalModel) -> None:
        super().__init__(model)
        self.count, self.seconds = 0, 0.0

    def is_owners(self, clause: str) -> bool | None:
        began = time.process_time()
        answer = super().is_owners(clause)
        self.count, self.seconds = self.count + 1, self.seconds + time.process_time() - began
        return answer


def _tally(
    folder: Path | None,
    policy: NumberPolicy,
    arbitration: Arbitration | None,
    people: dict[frozenset[str], Person],
) -> Tally:
    def open_channel(person: Person) -> PersonChannel:
        # The same person each time: a released value that is the secret by chance is so each time.
        same = people.setdefault(frozenset(person.roots), person)
        return PersonChannel(
            same, detectors=(Rules(),), near_private=policy, arbitration=arbitration
        )

    tally = Tally()
    for verdict in judge(samples(folder), open_channel=open_channel, persons=1):
        tally.add(verdict)
    return tally


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arbiter")
    parser.add_argument("model", type=Path)
    parser.add_argument("--cases", type=Path, help="a folder of more cases")
    chosen = parser.parse_args()
    arbiter = _Counted(LocalModel(chosen.model, context=1024))
    scored: dict[tuple[str, str], list[float]] = {}
    began = time.process_time()
    for half, whose, clause in questions():
        scored.setdefault((half, whose), []).append(arbiter.score(clause))
    taken = (time.process_time() - began) / sum(map(len, scored.values()))
    print(f"{chosen.model.name}: {taken * 1000:.0f} ms of processor time a question")
    for half in ("seen", "unseen"):
        own, other = scored[half, "owner"], scored[half, "nobody"]
        kept = [sum(score <= -MARGIN for score in scores) for scores in (own, other)]
        print(
            f"{half}: AUC {separation(own, other):.2f}, kept {kept[0]} of {len(own)} the owner's"
            f" and {kept[1]} of {len(other)} of nobody's"
        )
    people: dict[frozenset[str], Person] = {}
    for name, arbitration in (("without", None), ("with", Arbitration(arbiter))):
        redacting, refusing = (
            _tally(chosen.cases, each, arbitration, people) for each in _POLICIES
        )
        print(
            f"{name}: {redacting.samples} cases,"
            f" {redacting.leaked} of {redacting.secrets} secrets leaked,"
            f" {redacting.changed} of {redacting.keep} writings changed,"
            f" {redacting.redacted} with a redaction, or {refusing.refused} refused"
        )
    print(f"questions asked in the cases: {arbiter.count}, {arbiter.seconds * 1000:.0f} ms in all")


if __name__ == "__main__":
    main()
