"""The same noise, keys and tokens in every run of one test, so that none fails by luck.

What RootGuard's own modules take from `os.urandom` comes from a stream that the test's name begins,
or a fixture's name where it is shared by several tests. Everything else gets the system's bytes:
other packages, names of files and databases, programs that a test starts, and forked children, who
would draw what their parent draws.
"""

import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rootguard import rng

_SYSTEM = os.urandom


class _Stream:
    """Bytes that follow from a name."""

    def __init__(self, name: str) -> None:
        self._key = hashlib.sha256(name.encode()).digest()
        self._process = os.getpid()
        self._drawn = 0
        self._lock = threading.Lock()  # tests draw on several threads

    def urandom(self, size: int, /) -> bytes:
        """In the place of `os.urandom`."""
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if not caller.startswith("rootguard.") or os.getpid() != self._process:
            return _SYSTEM(size)
        with self._lock:
            self._drawn += 1
            place = self._drawn.to_bytes(8, "big")
        return hashlib.shake_256(self._key + place).digest(size)


@contextmanager
def drawn_by(name: str) -> Iterator[None]:
    """RootGuard draws from the stream of this name meanwhile."""
    before = os.urandom
    os.urandom = _Stream(name).urandom
    _forget_pages()
    try:
        yield
    finally:
        os.urandom = before
        _forget_pages()


def _forget_pages() -> None:
    """Words that were fetched and not yet used are another stream's."""
    assert isinstance(rng.SECURE, rng.SecureRandomness)
    rng.SECURE._forget()
