"""The default mechanism's secure draw, against the geometric mechanisms of other libraries.

Both are called from Python as their documentation says. Most of an OpenDP call is spent between
Python and Rust, and diffprivlib computes in floating point, where ours and OpenDP's are exact:
these ratios compare what a caller waits for, not the algorithms.
"""

from collections.abc import Iterator

from benchmarks.measure import Case, Contender, Skipped
from benchmarks.noise import DEFAULT, EPSILONS, INDEX, SIZE, secure_draw

_LAST = SIZE - 1


def peers() -> Iterator[Case | Skipped]:
    for name, contenders in (("OpenDP", _opendp), ("diffprivlib", _diffprivlib)):
        try:
            for epsilon in EPSILONS:
                for contender in contenders(float(epsilon)):
                    yield Case(ours=secure_draw(DEFAULT, epsilon), theirs=contender, aim=1)
        except ImportError as error:
            yield Skipped(name=name, reason=f"cannot be imported: {error.msg}")


def _opendp(epsilon: float) -> Iterator[Contender]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    laplace = dp.m.make_laplace(*space, scale=1 / epsilon)
    yield Contender(
        name="OpenDP make_laplace(int), clamped", call=lambda: max(0, min(_LAST, laplace(INDEX)))
    )
    bounded = dp.m.make_geometric(*space, scale=1 / epsilon, bounds=(0, _LAST))
    yield Contender(name="OpenDP make_geometric(bounds)", call=lambda: bounded(INDEX))


def _diffprivlib(epsilon: float) -> Iterator[Contender]:
    from diffprivlib.mechanisms import Geometric, GeometricTruncated

    truncated = GeometricTruncated(epsilon=epsilon, lower=0, upper=_LAST)
    yield Contender(name="diffprivlib GeometricTruncated", call=lambda: truncated.randomise(INDEX))
    plain = Geometric(epsilon=epsilon)
    yield Contender(
        name="diffprivlib Geometric, clamped",
        call=lambda: max(0, min(_LAST, plain.randomise(INDEX))),
    )
