"""Whether a noise keeps what it claims, judged by its outputs alone.

The main figure is a lower bound on epsilon with a stated confidence. Half of the samples choose a
pair of inputs and an event E that tell them apart best; the other half, which had no part in that
choice, bounds P(E) from below under one input and from above under the other (Clopper-Pearson, half
of the allowed error each). So the log of their ratio over the distance, in grid steps, exceeds the
true epsilon with at most the stated probability. A bound above the claim is a proof, at that
confidence, that the claim is false; a bound below it proves nothing, and is how close we came.

Around it stand checks of what a sampler does wrong in practice, each with false-alarm rate 1e-6: a
shape other than the claimed one, outputs off the grid, inputs told apart within one grid cell,
noise that repeats, is correlated, or starts again with the process, and a cache that draws again.
Where the pmf is known `mechanisms.certify` enumerates it and needs no samples.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rootguard.mechanisms import Mechanism
from rootguard.mechanisms.answers import RandomisedResponse
from rootguard.mechanisms.base import Floats, Indices

FALSE_ALARM = 1e-6
"""How often a sampler without fault fails one of the checks beside the bound."""
RESTART_DRAWS = 64
"""Alike after a restart by chance: for a noise that has any width, far below the false alarm."""
_LAGS = 4096  # a working choice: a sampler that repeats itself after more draws is not seen
_TINY = 1e-300  # stands for zero where something is divided by it; floats end near 1e-308
_MAX_TERMS = 20_000
"""The continued fraction needs about the root of the trials: enough for a hundred million."""
_CAUTION = 4.5
"""Standard errors, of the luckiest of some ten thousand events (see `choose_event`)."""

Sampler = Callable[[float, int], Indices]
"""Outputs for an input, as many as asked for. Inputs between grid points may be asked for too."""

Side = Literal["at most", "at least", "exactly"]


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputEvent:
    """A set of outputs."""

    side: Side
    at: int

    def holds(self, outputs: Indices) -> int:
        """How many outputs lie in it."""
        match self.side:
            case "at most":
                return int((outputs <= self.at).sum())
            case "at least":
                return int((outputs >= self.at).sum())
            case "exactly":
                return int((outputs == self.at).sum())

    def __str__(self) -> str:
        return f"output {self.side} {self.at}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """A lower bound on epsilon per grid step, and the event that shows it.

    `likely` and `unlikely` are the two inputs; `log_ratio` is the bound before it is divided by
    their distance in steps. Answers without an order are all one step apart.
    """

    likely: float
    unlikely: float
    event: OutputEvent
    counts: tuple[int, int]
    trials: int
    log_ratio: float
    steps: int
    confidence: float

    @property
    def epsilon(self) -> float:
        """Epsilon per grid step is at least this; inputs of one cell (0 steps) count as one."""
        return max(self.log_ratio, 0.0) / max(self.steps, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One check: whether it passed, and what was seen."""

    check: str
    passed: bool
    seen: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """What the samples show about a claim."""

    claimed: float
    size: int
    samples: int
    bound: Bound
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the claim."""
        return all(finding.passed for finding in self.findings)


def audit(
    sampler: Sampler,
    *,
    epsilon: float,
    size: int,
    samples: int = 1_000_000,
    confidence: float = 0.95,
    claimed: Mechanism | None = None,
    restart: Callable[[], Sampler] | None = None,
    between: bool = False,
    unordered: bool = False,
) -> Audit:
    """Put a sampler to all the checks that apply; `unordered` if inputs are answers, not a line.

    `claimed` is the mechanism it says it is, if it says so; `restart` makes the same sampler anew,
    as another process would; `between` asks for inputs between grid points too.
    """
    unordered = unordered or isinstance(claimed, RandomisedResponse)
    bound, chosen = lower_bound(
        sampler,
        epsilon=epsilon,
        size=size,
        samples=samples,
        confidence=confidence,
        unordered=unordered,
    )
    unit = "between two answers" if unordered else "per grid step"
    findings = [
        Finding(
            check="epsilon",
            passed=bound.epsilon <= epsilon,
            seen=f"at least {bound.epsilon:.4g} {unit} at {confidence:.0%} confidence "
            f"({bound.event}, inputs {bound.likely:g} and {bound.unlikely:g}), claimed {epsilon:g}",
        ),
        on_grid(list(chosen.values()), size),
    ]
    if claimed is not None:
        findings.append(fits(chosen, claimed))
    share = max(samples // 20, 100)
    centre = (size - 1) // 2
    here, there = sampler(centre, share), sampler(centre + 1 if size > 2 else 0, share)
    findings += [uncorrelated(here), not_reused(here, there)]
    if restart is not None:
        findings.append(starts_differently(restart, centre))
    if between:
        findings.append(one_cell(sampler, centre, share=samples // 4, confidence=confidence))
    return Audit(claimed=epsilon, size=size, samples=samples, bound=bound, findings=tuple(findings))


def neighbours(size: int, epsilon: float) -> list[tuple[int, int]]:
    """Where a noise is most likely to fail: the ends, next to them, the centre; near and far.

    Far is about 1/epsilon steps, where counts tell most about a small epsilon.
    """
    last, centre = size - 1, (size - 1) // 2
    pairs = []
    for steps in sorted({1, min(max(round(1 / epsilon), 1), max(last // 3, 1))}):
        starts = {0, 1, centre, last - steps - 1, last - steps}
        pairs += [(a, a + steps) for a in sorted(starts) if a >= 0 and a + steps <= last]
    return pairs


def lower_bound(
    sampler: Sampler,
    *,
    epsilon: float,
    size: int,
    samples: int,
    confidence: float,
    unordered: bool = False,
) -> tuple[Bound, dict[int, Indices]]:
    """The best pair by one half of the samples, bounded by the other; and the first half."""
    pairs = neighbours(size, epsilon)
    if unordered:  # any two answers may be the worst; so a few of all
        some = sorted({0, 1 % size, size // 2, size - 1})
        pairs = [(a, b) for a in some for b in some if a < b]
    inputs = sorted({index for pair in pairs for index in pair})
    each = max(samples // 2 // len(inputs), 20)
    seen = {index: sampler(index, each) for index in inputs}
    best = max(
        (
            (score / (1 if unordered else high - low), event, likely, unlikely)
            for low, high in pairs
            for likely, unlikely in ((low, high), (high, low))
            for score, event in [choose_event(seen[likely], seen[unlikely])]
        ),
        key=lambda found: found[0],
    )
    _, event, likely, unlikely = best
    bound = bound_event(
        sampler, event, likely, unlikely, trials=max(samples // 4, 100), confidence=confidence
    )
    return replace(bound, steps=1) if unordered else bound, seen


def choose_event(likely: Indices, unlikely: Indices) -> tuple[float, OutputEvent]:
    """The event, a tail or a single output, whose log-ratio is surely large.

    Each count is moved by 4.5 standard errors towards the other: with fewer, the luckiest of some
    ten thousand rare events would win, and lose its luck in the second half.
    """
    top = int(max(likely.max(), unlikely.max(), 0))
    tables = [np.bincount(np.clip(o, 0, top), minlength=top + 1) for o in (likely, unlikely)]
    families: dict[Side, list[Floats]] = {
        "at most": [np.cumsum(table).astype(np.float64) for table in tables],
        "at least": [np.cumsum(table[::-1])[::-1].astype(np.float64) for table in tables],
        "exactly": [table.astype(np.float64) for table in tables],
    }
    found: list[tuple[float, OutputEvent]] = []
    for side, (above, below) in families.items():
        # The root of a count has standard error 1/2, for counts of zero too.
        low, high = np.maximum(np.sqrt(above) - _CAUTION / 2, 1e-9), np.sqrt(below) + _CAUTION / 2
        scores = 2 * np.log(low / high) - math.log(len(likely) / len(unlikely))
        at = int(scores.argmax())
        found.append((float(scores[at]), OutputEvent(side=side, at=at)))
    return max(found, key=lambda one: one[0])


def bound_event(
    sampler: Sampler,
    event: OutputEvent,
    likely: float,
    unlikely: float,
    *,
    trials: int,
    confidence: float,
) -> Bound:
    """Fresh samples under both inputs; each limit may be wrong with half of the allowed chance."""
    alpha = (1 - confidence) / 2
    counts = event.holds(sampler(likely, trials)), event.holds(sampler(unlikely, trials))
    low, high = lower_limit(counts[0], trials, alpha), upper_limit(counts[1], trials, alpha)
    return Bound(
        likely=likely,
        unlikely=unlikely,
        event=event,
        counts=counts,
        trials=trials,
        log_ratio=math.log(low / high) if low > 0 else -math.inf,
        steps=abs(math.floor(likely + 0.5) - math.floor(unlikely + 0.5)),
        confidence=confidence,
    )


def on_grid(samples: Sequence[Indices], size: int) -> Finding:
    """Outputs are whole numbers from 0 to size - 1, and nothing else."""
    outside = sum(
        int(((outputs < 0) | (outputs >= size) | (outputs != np.floor(outputs))).sum())
        for outputs in samples
    )
    return Finding(check="on the grid", passed=outside == 0, seen=f"{outside} outputs off the grid")


def fits(samples: dict[int, Indices], claimed: Mechanism) -> Finding:
    """The distance of the two distribution functions, by Dvoretzky-Kiefer-Wolfowitz and Massart.

    P(sup |F_n - F| > x) <= 2 exp(-2 n x**2), for discrete distributions too; the false-alarm rate
    is shared by all inputs.
    """
    worst, where = 0.0, 0
    for index, outputs in samples.items():
        exact = np.cumsum(np.exp(claimed.log_pmf(index, np.arange(claimed.size))))
        seen = np.bincount(np.clip(outputs, 0, claimed.size - 1), minlength=claimed.size)
        gap = float(np.abs(np.cumsum(seen) / len(outputs) - exact).max())
        limit = math.sqrt(math.log(2 * len(samples) / FALSE_ALARM) / (2 * len(outputs)))
        if gap / limit > worst:
            worst, where = gap / limit, index
    return Finding(
        check="shape",
        passed=worst <= 1,
        seen=f"{worst:.2f} of the distance from the claimed distribution that chance allows, "
        f"at input {where}",
    )


def uncorrelated(outputs: Indices) -> Finding:
    """No output says anything about one drawn later: autocorrelations at up to 4,096 lags."""
    centred = outputs - outputs.mean()
    power = np.fft.rfft(centred, 2 * len(centred))
    products = np.fft.irfft(power * power.conj())[: min(_LAGS, len(centred) // 4) + 1]
    if products[0] <= 0:
        return Finding(check="serial", passed=True, seen="every output is the same")
    lags = len(products) - 1
    scaled = np.abs(products[1:]) / products[0] * math.sqrt(len(centred))
    limit = math.sqrt(2 * math.log(2 * lags / FALSE_ALARM))
    at = int(scaled.argmax())
    return Finding(
        check="serial",
        passed=bool(scaled[at] <= limit),
        seen=f"largest autocorrelation {scaled[at]:.1f} standard errors, at lag {at + 1} "
        f"(allowed {limit:.1f})",
    )


def not_reused(first: Indices, second: Indices) -> Finding:
    """The noise of two roots, or of one root twice, has nothing in common."""
    one, other = first - first.mean(), second - second.mean()
    scale = math.sqrt(float((one**2).sum()) * float((other**2).sum()))
    limit = math.sqrt(2 * math.log(2 / FALSE_ALARM))
    found = abs(float((one * other).sum())) / scale * math.sqrt(len(one)) if scale > 0 else 0.0
    return Finding(
        check="reuse",
        passed=found <= limit,
        seen=f"noise of two sequences correlated by {found:.1f} standard errors "
        f"(allowed {limit:.1f})",
    )


def starts_differently(restart: Callable[[], Sampler], index: int) -> Finding:
    """Two processes never draw the same sequence; if they do, the noise comes from a seed.

    Where the outputs hardly vary an honest sampler could repeat itself too, and nothing is said.
    """
    first, second = (restart()(index, RESTART_DRAWS) for _ in range(2))
    shares = np.unique(np.concatenate([first, second]), return_counts=True)[1] / (2 * len(first))
    chance = float((shares**2).sum()) ** len(first)
    same = int((first == second).sum())
    return Finding(
        check="restart",
        passed=same < len(first) or chance > FALSE_ALARM,
        seen=f"{same} of {len(first)} outputs alike after a restart",
    )


def one_cell(sampler: Sampler, index: int, *, share: int, confidence: float) -> Finding:
    """Inputs that snap to one grid point are one input: nothing may tell them apart.

    A lower bound above zero proves that the sampler does not snap.
    """
    near, far = float(index), index + 0.4
    best = -math.inf, OutputEvent(side="exactly", at=index), near, far
    seen = {at: sampler(at, share) for at in (near, far)}
    for likely, unlikely in ((near, far), (far, near)):
        score, event = choose_event(seen[likely], seen[unlikely])
        best = max(best, (score, event, likely, unlikely), key=lambda found: found[0])
    _, event, likely, unlikely = best
    # One check among several, so at the false-alarm rate of the others.
    alarm = 1 - min(FALSE_ALARM, 1 - confidence)
    bound = bound_event(sampler, event, likely, unlikely, trials=share, confidence=alarm)
    return Finding(
        check="between grid points",
        passed=bound.log_ratio <= 0,
        seen=f"inputs {near:g} and {far:g} differ by a log-ratio of at least "
        f"{max(bound.log_ratio, 0.0):.4g}",
    )


def answers_stay(answer: Callable[[], float], *, repeats: int = 50) -> Finding:
    """A cached value that is asked for again is the same value: one more draw is one more loss."""
    answers = [answer() for _ in range(repeats)]
    changed = sum(later != answers[0] for later in answers[1:])
    return Finding(
        check="repeat",
        passed=changed == 0,
        seen=f"{changed} of {repeats - 1} repeated answers differ from the first",
    )


def one_at_a_time(draw: Callable[[float], float]) -> Sampler:
    """A sampler from a function that gives one output."""

    def sample(index: float, count: int) -> Indices:
        outputs = np.fromiter((draw(index) for _ in range(count)), np.float64, count)
        whole = outputs.astype(np.int64)
        if not (whole == outputs).all():
            # An output between grid points would be rounded here and its artefacts hidden.
            raise ValueError("an output is not a whole number: it is not a grid index")
        return whole

    return sample


def lower_limit(successes: int, trials: int, alpha: float) -> float:
    """The probability is at least this, with confidence 1 - alpha (Clopper and Pearson 1934).

    The p at which so many successes or more have probability alpha: I_p(k, n-k+1) = alpha. None
    give 0. SciPy, which has it too, is not a dependency.
    """
    if successes == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if regularised_beta(successes, trials - successes + 1, middle) < alpha:
            low = middle
        else:
            high = middle
    return low


def upper_limit(successes: int, trials: int, alpha: float) -> float:
    """The probability is at most this, with confidence 1 - alpha."""
    return 1.0 - lower_limit(trials - successes, trials, alpha)


def regularised_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by a continued fraction (Lentz)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges quickly on the other side only
        return 1.0 - regularised_beta(b, a, 1 - x)
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
        - math.log(a)
    )
    if log_front < math.log(_TINY):
        return 0.0
    d = 1 / _away(1 - (a + b) * x / (a + 1))
    c, fraction = 1.0, d
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:  # a float has no more digits to be corrected
            break
    return math.exp(log_front) * fraction


def _away(value: float) -> float:
    """Not zero: Lentz's method divides by it."""
    return value if abs(value) > _TINY else _TINY
