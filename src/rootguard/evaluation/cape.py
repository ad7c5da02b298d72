"""CAPE-F, the text-DP reference: every digit of a number in a text is drawn anew.

After Wu et al. 2025, held to digits as in the paper. How likely a language model finds a digit at
its place, and how near its embedding is to the true one's, make a utility; the exponential
mechanism draws one of 50 buckets of equal width, and one of its digits, each alike.

Candidates are the ten digits. What is no digit stays, the decimal point too, so a number keeps its
length. The model reads what was written so far, already perturbed. Epsilon is spent on each digit.
This is a reference to compare with; nothing in RootGuard releases anything this way.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TextIO

import numpy as np
from numpy.typing import NDArray

from rootguard.evaluation.language_model import LocalModel, ModelError
from rootguard.evaluation.metrics import Floats

DIGITS = "0123456789"
BUCKETS = 50
FLOOR = -10.0
"""Logits, as logarithms of probability among the digits, are clipped to this and 0."""
_POWER = 0.5
_EMBEDDINGS = "token_embd.weight"
_MISSING = "this needs the model's embeddings; run: pip install 'rootguard[llm]'"

Predictor = Callable[[str], Floats]
"""From a text to the log-probabilities of the ten digits behind it."""


def similarities(embeddings: Floats) -> Floats:
    """S(x, y) = 1 - d(x, y) / the largest d: Euclidean distance between rows."""
    apart = np.linalg.norm(embeddings[:, None] - embeddings[None], axis=2)
    widest = float(apart.max())
    if not widest > 0:
        raise ValueError("the embeddings of all digits are the same")
    nearness: Floats = 1.0 - apart / widest
    return nearness


def utilities(logits: Floats, similarity: Floats) -> Floats:
    """u(x, y) = L(y)^0.5 * S(x, y), a row for each true digit x and a column for each candidate y.

    L(y) is the logit of y, as a logarithm of probability, clipped and brought to 0 .. 1.
    """
    clipped = 1.0 - np.clip(logits, FLOOR, 0.0) / FLOOR
    found: Floats = similarity * clipped**_POWER
    return found


def buckets(utility: Floats) -> NDArray[np.int64]:
    """The number of each candidate's bucket; one whose utility is the greatest is in the last."""
    least, greatest = float(utility.min()), float(utility.max())
    if least == greatest:
        return np.zeros(len(utility), dtype=np.int64)
    places = np.floor((utility - least) / (greatest - least) * BUCKETS)
    return np.minimum(places, BUCKETS - 1).astype(np.int64)


def distribution(utility: Floats, epsilon: float) -> Floats:
    """The probability of each candidate, exactly.

    A bucket that holds any is drawn with probability proportional to exp(epsilon * m / 2), m its
    mean utility: utilities lie in 0 .. 1 and so have sensitivity 1.
    """
    _, number = np.unique(buckets(utility), return_inverse=True)
    held = np.bincount(number)
    weights = np.exp(epsilon * _means(utility, number) / 2.0)
    chances: Floats = (weights / weights.sum() / held)[number]
    return chances


def draw(utility: Floats, epsilon: float, source: np.random.Generator) -> int:
    """A candidate: first a bucket by the exponential mechanism, then one within, each alike."""
    _, number = np.unique(buckets(utility), return_inverse=True)
    weights = np.exp(epsilon * _means(utility, number) / 2.0)
    reached = np.searchsorted(np.cumsum(weights), source.random() * weights.sum(), side="right")
    bucket = min(int(reached), len(weights) - 1)
    within = np.flatnonzero(number == bucket)
    return int(within[source.integers(len(within))])


def _means(utility: Floats, number: NDArray[np.int64]) -> Floats:
    means: Floats = np.bincount(number, weights=utility) / np.bincount(number)
    return means


def loss(utility: Floats, epsilon: float) -> float:
    """The largest log-ratio of the chances of one output under two true digits.

    The mechanism is called epsilon-DP for this. It need not be: which buckets hold a candidate,
    and how many it holds, depends on the true digit, and no epsilon bounds that.
    """
    chances = np.log([distribution(row, epsilon) for row in utility])
    return float((chances.max(axis=0) - chances.min(axis=0)).max())


class Contexts:
    """What a model expects behind each text, asked once and kept in a file.

    The model's part does not depend on epsilon, and is all of the work: a run that was killed goes
    on behind the last whole line. The texts hold perturbed digits only.
    """

    def __init__(self, path: Path, label: str, ask: Predictor) -> None:
        self._path = path
        self._label = label
        self._ask = ask
        self._known: dict[str, Floats] = {}
        self._file: TextIO | None = None
        self.asked = 0

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab+") as file:
            file.seek(0)
            whole = 0
            for line in file:
                try:
                    model, text, logits = json.loads(line)
                except (ValueError, TypeError):
                    break
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                if model == self._label:
                    self._known[text] = np.array(logits, dtype=float)
            file.truncate(whole)
        self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, text: str) -> Floats:
        """The log-probabilities of the ten digits behind a text."""
        found = self._known.get(text)
        if found is None:
            if self._file is None:
                raise ValueError("the contexts are not open")
            found = np.round(self._ask(text), 6)
            self.asked += 1
            self._known[text] = found
            line = json.dumps([self._label, text, found.tolist()], ensure_ascii=False)
            self._file.write(line + "\n")
            self._file.flush()
        return found

    @property
    def known(self) -> Mapping[str, Floats]:
        """Every text that was asked about, with what the model expects."""
        return self._known


class Cape:
    """Perturbs numbers in texts. `similarity` is that of the model's digit embeddings."""

    def __init__(self, predict: Predictor, similarity: Floats) -> None:
        self._predict = predict
        self._similarity = similarity

    def utility(self, text: str) -> Floats:
        """u(x, y) behind a text, for every pair of digits."""
        return utilities(self._predict(text), self._similarity)

    def number(self, before: str, number: str, epsilon: float, source: np.random.Generator) -> str:
        """A number behind a text, digit for digit drawn anew."""
        written = ""
        for character in number:
            if character in DIGITS:
                utility = self.utility(before + written)[int(character)]
                character = DIGITS[draw(utility, epsilon, source)]
            written += character
        return written


def digit_ids(model: LocalModel) -> tuple[int, ...]:
    """The tokens of the ten digits; a model that does not write them one by one is refused."""
    tokens = model.tokenize(DIGITS)
    if [token.text for token in tokens] != list(DIGITS):
        raise ModelError(f"{model.path.name} does not write numbers digit by digit")
    return tuple(token.id for token in tokens)


def digit_embeddings(model: LocalModel, ids: tuple[int, ...]) -> Floats:
    """The embeddings of some tokens, read from the model's file."""
    try:
        from gguf import GGUFReader, dequantize
    except ImportError:
        raise ModelError(_MISSING) from None
    for tensor in GGUFReader(model.path).tensors:
        if tensor.name == _EMBEDDINGS:
            rows = dequantize(tensor.data[list(ids)], tensor.tensor_type)
            return np.asarray(rows, dtype=float)
    raise ModelError(f"{model.path.name} holds no embeddings")
