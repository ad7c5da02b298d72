"""Where noise comes from: the operating system's cryptographic generator, 32 bits at a time.

No seed can be passed here. Reproducible randomness for experiments is in `advice.seeds`, which
nothing that releases a value can import.
"""

import os
import threading
from itertools import chain, islice
from typing import Protocol

WORD_BITS = 32  # what the samplers compare at once; a word that does not decide asks for more
_PAGE = 4096  # bytes: a system call for a thousand words, and little left over when a thread ends


class Randomness(Protocol):
    """A source of uniform, independent 32-bit words."""

    def words(self, count: int) -> list[int]:
        """As many integers as asked for, each uniform on 0 .. 2**32 - 1."""
        ...


class SecureRandomness:
    """32-bit words from `os.urandom`, fetched a page at a time to spare system calls.

    A page is private to one thread and is thrown away in a forked child, so that no word is ever
    used twice.
    """

    __slots__ = ("_local",)

    def __init__(self) -> None:
        self._local = threading.local()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._local = threading.local()

    def words(self, count: int) -> list[int]:
        """As many integers as asked for, each uniform on 0 .. 2**32 - 1."""
        try:
            return list(islice(self._local.stream, count))
        except AttributeError:
            self._local.stream = chain.from_iterable(iter(_page, None))
            return list(islice(self._local.stream, count))


def _page() -> list[int]:
    return memoryview(os.urandom(_PAGE)).cast("I").tolist()


SECURE: Randomness = SecureRandomness()
"""The one secure source of a process."""
