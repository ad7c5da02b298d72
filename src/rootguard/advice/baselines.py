"""What RootGuard is compared with: every release noised on its own.

This is how a stateless sanitizer works. It needs the true values for as long as it answers, which
RootGuard does without; use it on published or synthetic people only.
"""

from collections.abc import Mapping
from fractions import Fraction

from rootguard.expressions import evaluate, parse
from rootguard.mechanisms import mechanism
from rootguard.rng import SECURE, Randomness
from rootguard.values import Domain, MechanismName


class IndependentNoising:
    """Computes every answer from the true values and gives it fresh noise at the same epsilon."""

    def __init__(
        self,
        values: Mapping[str, float],
        epsilon: Fraction,
        *,
        mechanism_name: MechanismName = "geometric",
        source: Randomness = SECURE,
    ) -> None:
        self._values = dict(values)
        self._mechanism_name = mechanism_name
        self._source = source
        self.epsilon = epsilon

    def release(self, formula: str, domain: Domain) -> int:
        """The grid index of a noised answer, on the answer's own public domain."""
        truth = domain.nearest(evaluate(parse(formula), self._values))
        noise = mechanism(self._mechanism_name, self.epsilon, domain.size)
        return noise.draw(truth, self._source)
