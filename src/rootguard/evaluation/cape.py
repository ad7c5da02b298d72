"""CAPE-F, the text-DP reference: every digit of a number in a text is drawn anew.

After Wu et al. 2025, held to digits as in the paper. How likely a language model finds a digit at
its place, and how near its embedding is to the true one's, make a utility; the exponential
mechanism draws one of 50 buckets of equal width, and one of its digits, each alike.

Candidates are the ten digits. What is no digit stays, the decimal point too, so a number keeps its
length. The model reads what was written so far, already perturbed. Epsilon is spent on each digit.
This is a reference to compare with; nothing in RootGuard releases anything this way.

Measured as RQ1 is: each root of a patient is stated in a sentence of its own ("AST is 24 U/L."),
the digits of its number are perturbed, and the target is computed from what then stands there. A
number may come out as anything of its length: targets are computed from it as it is read, and once
more with every number brought into its public bounds, as a careful reader would. A target without a
value (a division by zero) is left out of the first and counted; that favours CAPE-F.

Beside each figure stands RootGuard's at the same epsilon, `opt` with t = 2k+1. The two epsilons
mean different things: CAPE-F's is per digit and about embeddings, ours per grid step and root.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rootguard.advice.people import Cohort
from rootguard.advice.seeds import generator
from rootguard.advice.utility import UtilityCell
from rootguard.evaluation.cohorts import load_cohort
from rootguard.evaluation.language_model import LocalModel, ModelError
from rootguard.evaluation.metrics import Bootstrap, mean_se
from rootguard.evaluation.rq1_utility.study import Subject
from rootguard.evaluation.rq4_agent.patients import first
from rootguard.evaluation.study.page import Findings, Section
from rootguard.evaluation.study.rows import epsilon_text, table
from rootguard.evaluation.study.runner import LineLog, Progress
from rootguard.evaluation.study.tables import Sheet
from rootguard.expressions import evaluate_many
from rootguard.graph import Graph
from rootguard.mechanisms.base import Floats
from rootguard.session.questions.wording import Vocabulary, digits, sentence, statement
from rootguard.template import Template
from rootguard.values import RootName

DIGITS = "0123456789"
# Buckets and exponent are Wu et al.'s; where logits are clipped is our choice (docs/agent.md).
BUCKETS = 50
FLOOR = -10.0
"""Logits, as logarithms of probability among the digits, are clipped to this and 0."""
_POWER = 0.5  # CAPE's own choice, as in the formula of `utilities`
_EMBEDDINGS = "token_embd.weight"
_MISSING = "this needs the model's embeddings; run: pip install 'rootguard[llm]'"

Predictor = Callable[[str], Floats]
"""From a text to the log-probabilities of the ten digits behind it."""
CAPE_EPSILONS = tuple(map(Fraction, ("0.1", "1", "5")))
PUBLISHED = (263.0, 403.0)
"""The paper's wMAPE in percent, least and greatest over its epsilons."""
_HOLE = "\0"
_CONTEXT = 512
"""Tokens; the sentences that state a root have a few dozen."""


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
        self._log = LineLog(path, _context)
        self._label = label
        self._ask = ask
        self._known: dict[str, Floats] = {}
        self.asked = 0

    def __enter__(self) -> Self:
        for model, text, logits in self._log.open():
            if model == self._label:
                self._known[text] = np.array(logits, dtype=float)
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, text: str) -> Floats:
        """The log-probabilities of the ten digits behind a text."""
        found = self._known.get(text)
        if found is None:
            found = np.round(self._ask(text), 6)
            self.asked += 1
            self._known[text] = found
            self._log.append([self._label, text, found.tolist()])
        return found

    @property
    def known(self) -> Mapping[str, Floats]:
        """Every text that was asked about, with what the model expects."""
        return self._known


def _context(found: Any) -> tuple[str, str, list[float]]:  # noqa: ANN401 - whatever JSON holds
    model, text, logits = found
    return model, text, logits


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


@dataclass(frozen=True, kw_only=True, slots=True)
class CapeStudy:
    """CAPE-F with the model in a file, None being the default model, on some patients.

    What the model said is kept in `cape_contexts.jsonl`, so that a run that was stopped goes on
    where it was, and other epsilons cost little.
    """

    templates: Sequence[Template]
    epsilons: Sequence[Fraction] = CAPE_EPSILONS
    model_path: Path | None = None
    directory: Path | None = None
    patients: int = 100
    seed: int = 0

    def run(self, out: Path, progress: Progress) -> Findings:
        """Ask the model what is not known yet, and perturb."""
        cohorts = [
            first(load_cohort(each, self.directory, size=self.patients), self.patients)
            for each in self.templates
        ]
        model = LocalModel(self.model_path, context=_CONTEXT)
        ids = digit_ids(model)
        similarity = similarities(digit_embeddings(model, ids))
        rows: list[CapeRow] = []
        with (
            Contexts(
                out / "cape_contexts.jsonl",
                model.label,
                lambda text: np.array(model.among(text, ids)),
            ) as contexts,
            progress("digits", len(self.templates) * len(self.epsilons)) as step,
        ):
            cape = Cape(contexts, similarity)
            for template, cohort in zip(self.templates, cohorts, strict=True):
                for row in cape_rows(
                    cape, template, cohort, self.epsilons, model=model.label, seed=self.seed
                ):
                    rows.append(row)
                    step(template.name)
            asked = contexts.asked
        model.close()
        synthetic, sheets, means = (
            any(r.synthetic for r in rows),
            cape_sheets(rows),
            cape_means(rows),
        )
        return Findings(
            synthetic=synthetic,
            prefix="cape_",
            files={"cape.csv": table(CapeRow, rows)},
            sections=(Section(title="CAPE-F", sheets=sheets),),
            shown=sheets[:1],
            said=(f"look at {out / 'cape_tables.md'}",),
            document={
                "model": rows[0].model,
                "synthetic": synthetic,
                "asked_now": asked,
                "published": {"least": PUBLISHED[0], "greatest": PUBLISHED[1]},
                "flatness": round(flatness(means), 3) if means else None,
                "means": [_mean_json(mean) for mean in means],
            },
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CapeRow:
    """A template at an epsilon. Figures are in percent.

    `wmape` is of the numbers as read, over patients whose target has a value, and None if none
    has; `undefined` have none. `clamped_wmape` has the numbers in their bounds, and is None if some
    target has no value there. `kept` is the share of digits that stayed the same. `loss` is the
    largest log-ratio between two true digits that any of the texts in this row had: what the
    mechanism's own epsilon claims to bound.
    """

    model: str
    template: str
    epsilon: Fraction
    patients: int
    wmape: float | None
    wmape_se: float | None
    undefined: int
    clamped_wmape: float | None
    clamped_se: float | None
    kept: float
    loss: float
    opt_wmape: float | None
    seed: int
    cohort: str
    synthetic: bool


def stated(template: Template, root: RootName) -> tuple[str, str]:
    """The sentence that states a root, before and behind its number."""
    says = Vocabulary.of((template,)).spelt[root]
    said = sentence([statement(says, _HOLE, template.roots[root].unit)])
    before, _, behind = said.partition(_HOLE)
    return before, behind


def perturbed(
    cape: Cape, template: Template, values: Floats, root: RootName, epsilon: Fraction, seed: int
) -> tuple[list[str], list[str]]:
    """A root's numbers as they were and as they came out, for every patient."""
    before, _ = stated(template, root)
    were = [digits(float(value)) for value in values]
    came = []
    for patient, number in enumerate(were):
        source = generator(seed, "cape", template.name, str(root), epsilon, patient)
        came.append(cape.number(before, number, float(epsilon), source))
    return were, came


def cape_rows(
    cape: Cape,
    template: Template,
    cohort: Cohort,
    epsilons: Sequence[Fraction],
    *,
    model: str,
    seed: int,
) -> Iterator[CapeRow]:
    """A row per epsilon."""
    subject = Subject(template, cohort, seed=seed, repeats=1)
    opt = subject.run(
        subject.outline(
            UtilityCell(
                budget="2k+1", epsilon=e, template=template.name, mechanism="laplace", config="opt"
            )
        )
        for e in epsilons
    )
    beside = {row.cell.epsilon: row.wmape for row in opt}
    graph = Graph.of(template)
    formula = graph.in_roots(template.target.formula)
    for epsilon in epsilons:
        columns: dict[str, Floats] = {}
        bounded: dict[str, Floats] = {}
        same = of = 0
        texts: set[str] = set()
        for root in subject.roots:
            values = cohort.columns[root]
            were, came = perturbed(cape, template, values, root, epsilon, seed)
            pairs = [
                (a, b) for w, c in zip(were, came, strict=True) for a, b in zip(w, c, strict=True)
            ]
            same += sum(a == b for a, b in pairs if a in DIGITS)
            of += sum(a in DIGITS for a, _ in pairs)
            texts |= set(_texts(stated(template, root)[0], came))
            domain = template.roots[root].domain
            columns[root] = np.array([float(number) for number in came])
            bounded[root] = np.clip(columns[root], domain.lower, domain.upper)
        released = evaluate_many(formula, columns)
        there = np.isfinite(released)
        read = _error(released[there], subject.truth[there], template, seed)
        clamped = _error(evaluate_many(formula, bounded), subject.truth, template, seed)
        yield CapeRow(
            model=model,
            template=template.name,
            epsilon=epsilon,
            patients=len(cohort),
            wmape=read and read[0],
            wmape_se=read and read[1],
            undefined=int((~there).sum()),
            clamped_wmape=clamped and clamped[0],
            clamped_se=clamped and clamped[1],
            kept=100.0 * same / of,
            loss=max(loss(cape.utility(text), float(epsilon)) for text in texts),
            opt_wmape=beside[epsilon],
            seed=seed,
            cohort=cohort.digest,
            synthetic=cohort.synthetic,
        )


def _texts(before: str, numbers: Sequence[str]) -> Iterator[str]:
    """Every text behind which a digit was drawn."""
    for number in numbers:
        for place, character in enumerate(number):
            if character in DIGITS:
                yield before + number[:place]


def _error(
    released: Floats, truth: Floats, template: Template, seed: int
) -> tuple[float, float] | None:
    """The wMAPE and its standard error; None without a target to relate to."""
    if not truth.size or not truth.any() or not np.isfinite(released).all():
        return None
    bootstrap = Bootstrap(truth, generator(seed, "cape bootstrap", template.name))
    ((figure, _),) = bootstrap.measure(released[None, None, :], template.risk)
    return round(figure.value, 6), round(figure.se, 6)


@dataclass(frozen=True, kw_only=True, slots=True)
class CapeMean:
    """The mean over templates at an epsilon, with the paper's propagated standard error."""

    epsilon: Fraction
    wmape: float
    wmape_se: float
    clamped_wmape: float
    clamped_se: float
    kept: float
    opt_wmape: float | None


def cape_means(rows: Sequence[CapeRow]) -> list[CapeMean]:
    """A mean per epsilon, over the templates that have a figure there."""
    found = []
    for epsilon in sorted({row.epsilon for row in rows}):
        here = [
            (row, row.wmape, row.clamped_wmape)
            for row in rows
            if row.epsilon == epsilon and row.wmape is not None and row.clamped_wmape is not None
        ]
        if not here:
            continue
        opt = [row.opt_wmape for row, _, _ in here if row.opt_wmape is not None]
        found.append(
            CapeMean(
                epsilon=epsilon,
                wmape=fmean(read for _, read, _ in here),
                wmape_se=mean_se(row.wmape_se or 0.0 for row, _, _ in here),
                clamped_wmape=fmean(clamped for _, _, clamped in here),
                clamped_se=mean_se(row.clamped_se or 0.0 for row, _, _ in here),
                kept=fmean(row.kept for row, _, _ in here),
                opt_wmape=fmean(opt) if len(opt) == len(here) else None,
            )
        )
    return found


def _mean_json(mean: CapeMean) -> dict[str, object]:
    opt = mean.opt_wmape
    return {
        "epsilon": float(mean.epsilon),
        "wmape": round(mean.wmape, 3),
        "wmape_se": round(mean.wmape_se, 3),
        "clamped_wmape": round(mean.clamped_wmape, 3),
        "kept": round(mean.kept, 3),
        "opt_wmape": None if opt is None else round(opt, 3),
    }


def flatness(means: Sequence[CapeMean]) -> float:
    """The greatest mean wMAPE over the least: 1 where epsilon changes nothing."""
    return max(m.wmape for m in means) / min(m.wmape for m in means)


def cape_sheets(rows: Sequence[CapeRow]) -> tuple[Sheet, Sheet]:
    """The means, and every template."""
    model = ", ".join(dict.fromkeys(row.model for row in rows))
    means = cape_means(rows)
    low, high = PUBLISHED
    lines = tuple(
        (
            epsilon_text(m.epsilon),
            f"{m.wmape:.0f} ± {m.wmape_se:.0f}",
            f"{m.clamped_wmape:.0f} ± {m.clamped_se:.0f}",
            f"{m.kept:.1f}",
            "–" if m.opt_wmape is None else f"{m.opt_wmape:.2f}",
        )
        for m in means
    )
    each = tuple(
        (
            row.template.upper(),
            epsilon_text(row.epsilon),
            _figure(row.wmape, row.wmape_se),
            str(row.undefined),
            _figure(row.clamped_wmape, row.clamped_se),
            f"{row.kept:.1f}",
            f"{row.loss:.2f}",
            "–" if row.opt_wmape is None else f"{row.opt_wmape:.2f}",
        )
        for row in rows
    )
    note = f"Model: {model}. Published: {low:g} to {high:g} % over all its epsilons."
    return (
        Sheet(
            title="CAPE-F: mean wMAPE (%) over templates",
            header=("ε", "as read", "within bounds", "digits kept (%)", "BLap-Opt, 2k+1"),
            lines=lines,
            note=note,
        ),
        Sheet(
            title="CAPE-F: wMAPE (%) of each template",
            header=("template", "ε", "as read", "no value", "within bounds", "digits kept (%)",
                    "log-ratio", "BLap-Opt, 2k+1"),
            lines=each,
            labels=2,
            note=f"{note} Log-ratio: the largest between two true digits; ε claims to bound it.",
        ),
    )  # fmt: skip


def _figure(value: float | None, se: float | None) -> str:
    return "–" if value is None else f"{value:.0f} ± {se:.0f}"
