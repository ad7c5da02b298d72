"""Make `reading/weights.json` anew: `python -m tools.weights`.

The material is messages in which every value of their writer's is marked, `tests/data/weighing`,
the open halves of the cases (`tests/data/plain/developing`, `tests/data/innocent`), and public
posts. Of the posts only marks are stored (`posts.spans`): `--posts FOLDER` names a copy of the data
set that has them, https://github.com/umbrae/reddit-top-2.5-million (PDDL 1.0), or of its folder
`data`. The weights that come with the package were made with them. Each text is
read by the rules as a person's who has declared everything, and once more as one's who has declared
a few templates only, so that the weights do not take every quantity for declared. Numbers of the
owner's that are none of the declared quantities are left out: whether to hide them is not for
weights.

`--judge FILE` prints how the rules alone and the weights of the package do on other marked
messages, and makes none; `--folds`, how each fifth of the material does by weights of the others.
"""

import argparse
import csv
import html
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from rootguard.reading.claims import Claim, Dialogue, Source, decide, read_claims
from rootguard.reading.page import read_page
from rootguard.reading.weighing import Weights, featured, weighed_standing, weights
from rootguard.session.person import formula_names
from rootguard.template import load_template

DATA: Final = Path(__file__).parents[1] / "tests" / "data"
OUT: Final = Path(__file__).parents[1] / "src" / "rootguard" / "reading" / "weights.json"
TEMPLATES: Final = (
    *("fib4", "homa", "eag", "aip", "bmi", "map", "debt_to_income", "emergency_fund"),
)
FEW: Final = 3
"""Templates of a person who has declared a few."""
PENALTY: Final = 10.0
"""On squared weights. Between 5 and 30 the error on unseen fifths is the same within its noise."""
LEAST_SEEN: Final = 3
"""Messages that must have a feature: a word of one says nothing of others, and is its writer's."""
SMALLEST: Final = 2
"""Hundredths of a nat: what moves less is left out."""
FOLDS: Final = 5
_MARK = re.compile(r"\{\{([a-z0-9_]+)\|([^{}|]+)\}\}")
_SOURCES: Final[dict[str, Source]] = {
    "user": "owner",
    "assistant": "model",
    "tool": "tool",
    "system": "developer",
}


@dataclass(frozen=True, slots=True)
class Marked:
    """A text, and where values of its writer's stand in it."""

    source: Source
    text: str
    own: tuple[tuple[int, int, str], ...] = ()
    """Start, end, and the root; without a root it is one of the declared."""
    kept: tuple[tuple[int, int], ...] | None = None
    """What is nobody's; None if it is all the rest."""


@dataclass(frozen=True, slots=True)
class Row:
    """One number: the rules' claim, its features, and whether it is the owner's."""

    message: str
    claim: Claim
    own: bool
    features: Sequence[str]

    @property
    def hidden(self) -> bool:
        """Whether the rules alone hide it."""
        return decide("owner", self.claim, known=True) != "keep"

    def hides(self, weights: Weights) -> bool:
        """Whether the weighed rules do."""
        return weighed_standing(self.claim, self.features, weights) not in ("other", "nobody")


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _unmarked(source: Source, text: str) -> Marked:
    pieces, own, at, length = [], [], 0, 0
    for match in _MARK.finditer(text):
        pieces += [text[at : match.start()], match[2]]
        length += match.start() - at
        own.append((length, length + len(match[2]), match[1]))
        length += len(match[2])
        at = match.end()
    return Marked(source, "".join([*pieces, text[at:]]), tuple(own))


def marked(file: Path) -> Iterator[tuple[str, list[Marked]]]:
    """The messages of a file in which own values are marked as {{root|54}}."""
    for line in _lines(file):
        turns = [_unmarked(_SOURCES[turn["role"]], turn["text"]) for turn in line["turns"]]
        yield line["id"], turns


def _places(text: str, writing: str) -> Iterator[tuple[int, int]]:
    before = r"(?<![\w.])" if writing[0].isalnum() else ""
    behind = r"(?!\w)(?!\.\d)" if writing[-1].isalnum() else ""
    for match in re.finditer(before + re.escape(writing) + behind, text):
        yield match.span()


def listed(file: Path) -> Iterator[tuple[str, list[Marked]]]:
    """The messages of a file that lists own writings and such to keep."""
    for line in _lines(file):
        turns = []
        for turn in line["turns"]:
            text, source = turn["text"], _SOURCES[turn["role"]]
            own = [(*place, "") for each in line["secrets"] for place in _places(text, each)]
            kept = [place for each in line["keep"] for place in _places(text, each)]
            turns.append(Marked(source, text, tuple(own), tuple(kept)))
        yield line["id"], turns


def innocent(folder: Path) -> Iterator[tuple[str, list[Marked]]]:
    """Prompts in which nothing is the sender's."""
    for file in sorted(folder.glob("*.jsonl")):
        for line in _lines(file):
            yield line["id"], [Marked(_SOURCES[line["role"]], line["text"])]


def _normal(text: str) -> str:
    """A post as its marks count: without runs of blanks and empty lines."""
    text = html.unescape(html.unescape(text)).replace("\r", "\n").replace("\u200b", "")
    text = re.sub(r" ?\n ?", "\n", re.sub(r"[ \t\xa0]+", " ", text))
    return re.sub(r"\n{2,}", "\n", text).strip()


def posts(folder: Path) -> Iterator[tuple[str, list[Marked]]]:
    """The public posts of a data set of which this project has marks."""
    csv.field_size_limit(sys.maxsize)
    spans = list(_lines(DATA / "weighing" / "posts.spans"))
    texts: dict[tuple[str, str], str] = {}
    for name in sorted({line["file"] for line in spans}):
        file = next((f for f in (folder / name, folder / "data" / name) if f.exists()), None)
        if file is None:
            sys.exit(f"{folder} has no {name}: name a copy of the data set that has it")
        wanted = {line["post"] for line in spans if line["file"] == name}
        with file.open(encoding="utf-8", errors="replace", newline="") as opened:
            for row in csv.DictReader(opened):
                if row["id"] in wanted:
                    texts[name, row["id"]] = _normal(f"{row['title']}\n{row['selftext']}")
    for line in spans:
        text = texts[line["file"], line["post"]][line["start"] : line["end"]]
        own = tuple((start, end, root) for start, end, root in line["marks"])
        yield line["id"], [Marked("owner", text, own)]


def material() -> list[tuple[str, list[Marked]]]:
    """All messages of the project that the weights are made from."""
    found = [each for file in sorted((DATA / "weighing").glob("*.jsonl")) for each in marked(file)]
    found += listed(DATA / "plain" / "developing" / "messages.jsonl")
    found += innocent(DATA / "plain" / "developing" / "innocent")
    found += innocent(DATA / "innocent")
    return found


def rows(messages: Iterable[tuple[str, Sequence[Marked]]], *, few: bool = False) -> Iterator[Row]:
    """The numbers of the owner's texts that are labelled, as the rules read them."""
    for message, turns in messages:
        if few and any(turn.kept is not None for turn in turns):
            continue  # which root a writing is of is not said there
        names: tuple[str, ...] = TEMPLATES
        if few:
            start = zlib.crc32(message.encode()) % len(TEMPLATES)
            names = tuple((TEMPLATES * 2)[start : start + 1 + start % FEW])
        yield from _rows(message, turns, names)


def _rows(message: str, turns: Sequence[Marked], names: Sequence[str]) -> Iterator[Row]:
    templates = [load_template(name) for name in names]
    roots = {name: root for template in templates for name, root in template.roots.items()}
    declared = {*map(str, roots), *names, ""}
    formulas = formula_names(templates)
    dialogue = Dialogue()
    for turn in turns:
        expected = dialogue.expectation(turn.source)
        context = f"{expected.header}\n" if expected.header else ""
        page = read_page(context + turn.text, roots, formulas)
        begin = len(context)
        reading = read_claims(page, source=turn.source, expectation=expected, begin=begin)
        dialogue.heard(turn.source, reading.heard)
        if turn.source != "owner":
            continue
        for claim, features in featured(page, reading, expected, every=True):
            start, end = claim.start - begin, claim.end - begin
            own = next((root for a, b, root in turn.own if a < end and start < b), None)
            if own is not None and own not in declared:
                continue
            kept = turn.kept is None or any(a < end and start < b for a, b in turn.kept)
            if own is not None or kept:
                yield Row(message, claim, own is not None, features)


def _matrix(found: Sequence[Row], columns: dict[str, int]) -> csr_matrix:
    at: list[int] = []
    ends = [0]
    for row in found:
        at += (columns[feature] for feature in row.features if feature in columns)
        ends.append(len(at))
    return csr_matrix((np.ones(len(at)), at, ends), shape=(len(found), len(columns)))


def fit(found: Sequence[Row]) -> Weights:
    """Logistic regression with a penalty on squared weights, but not on the bias."""
    found = [row for row in found if row.features]
    seen_in = {(row.message, feature) for row in found for feature in row.features}
    counts = Counter(feature for _, feature in seen_in)
    seen = sorted(feature for feature, count in counts.items() if count >= LEAST_SEEN)
    columns = {feature: at for at, feature in enumerate(seen)}
    matrix = _matrix(found, columns)
    signs = np.array([1.0 if row.own else -1.0 for row in found])

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (matrix @ point[1:] + point[0])
        slopes = -signs / (1 + np.exp(margins))
        value = np.logaddexp(0, -margins).sum() + PENALTY / 2 * (point[1:] @ point[1:])
        gradient = np.concatenate(([slopes.sum()], matrix.T @ slopes + PENALTY * point[1:]))
        return float(value), gradient

    start = np.zeros(len(columns) + 1)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    hundredths = np.rint(best * 100).astype(int)
    features = {
        feature: int(weight)
        for feature, weight in zip(seen, hundredths[1:], strict=True)
        if abs(weight) >= SMALLEST
    }
    return Weights(int(hundredths[0]), features)


def _say(title: str, found: Sequence[Row], hidden: Sequence[bool]) -> None:
    own = [each for each, row in zip(hidden, found, strict=True) if row.own]
    other = [each for each, row in zip(hidden, found, strict=True) if not row.own]
    rules_own = sum(not row.hidden for row in found if row.own)
    rules_other = sum(row.hidden for row in found if not row.own)
    sys.stdout.write(
        f"{title}: {len(own)} own values, the rules send {rules_own}, weighed {own.count(False)};"
        f" {len(other)} others, the rules hide {rules_other}, weighed {sum(other)}\n"
    )


def _judge_folds(found: Sequence[Row]) -> None:
    fold = [zlib.crc32(row.message.encode()) % FOLDS for row in found]
    judged: list[Row] = []
    hidden: list[bool] = []
    for each in range(FOLDS):
        made = fit([row for row, at in zip(found, fold, strict=True) if at != each])
        left = [row for row, at in zip(found, fold, strict=True) if at == each]
        judged += left
        hidden += (row.hides(made) for row in left)
        _say(f"fold {each + 1}", left, hidden[-len(left) :])
    _say("all folds", judged, hidden)


def main() -> None:
    """Fit, judge or both."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--folds", action="store_true", help="judge on each fifth; write nothing")
    parser.add_argument(
        "--judge", type=Path, metavar="FILE", help="judge the weights on marked messages"
    )
    parser.add_argument("--posts", type=Path, metavar="FOLDER", help="use public posts as well")
    options = parser.parse_args()
    if options.judge:
        others = list(rows(marked(options.judge)))
        _say(options.judge.name, others, [row.hides(weights()) for row in others])
        return
    messages = material()
    if options.posts:
        messages += posts(options.posts)
    found = [*rows(messages), *rows(messages, few=True)]
    if options.folds:
        _judge_folds(found)
        return
    made = fit(found)
    features = dict(sorted(made.features.items()))
    OUT.write_text(
        json.dumps(
            {"messages": len(messages), "bias": made.bias, "features": features},
            indent=0,
            ensure_ascii=False,
        )
        + "\n",
        encoding="utf-8",
    )
    _say("material", found, [row.hides(made) for row in found])
    sys.stdout.write(f"{len(features)} weights in {OUT.name}\n")


if __name__ == "__main__":
    main()
