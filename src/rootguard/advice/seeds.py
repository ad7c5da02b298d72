"""Seeded generators for measurements: one stream per named thing, independent of every other.

A stream is addressed by what it is for (seed, then any names and numbers), not by when it is asked
for, so a cell of an experiment gives the same figures alone, in another order or after a restart.
No release may use this: a release draws from `rootguard.rng`.
"""

import hashlib
from fractions import Fraction

import numpy as np

Key = str | int | Fraction
"""What a part of an address may be."""


def generator(seed: int, *address: Key) -> np.random.Generator:
    """The stream at an address under a seed of 0 or more.

    The address becomes the spawn key of NumPy's `SeedSequence`, through SHA-256 so that words fit.
    A text and a number that look alike are different addresses.
    """
    content = repr([(type(part).__name__, str(part)) for part in address])
    digest = hashlib.sha256(content.encode()).digest()
    words = tuple(int.from_bytes(digest[i : i + 4], "big") for i in range(0, 16, 4))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))
