"""Keyed permutations of {0 .. N-1}: FF1 for large N, a prefix cipher for small N.

Every identifier is first ranked into an integer, so this file is all the cryptography that its
secrecy rests on. What is promised, for a key nobody knows:

- N >= 1,000,000: FF1 with AES-256 (NIST SP 800-38G; the bound is that of Rev. 1) on the shortest
  bit string that holds N, cycle-walked into the domain. A pseudo-random permutation. As in any
  random permutation an element may map to itself, with probability 1/N <= 1e-6; `Identifiers`
  then takes the next tweak.
- 10 <= N < 1,000,000: FF1 is not recommended here, and its check is not switched off. Instead all
  N elements are ordered by their AES image, a prefix cipher (Black and Rogaway, "Ciphers with
  arbitrary finite domains", 2002), and each maps to its successor in that order, the last to the
  first. Under a PRP assumption on AES this is a uniformly random N-cycle: nothing maps to itself,
  and without the key a guess succeeds with probability 1/(N-1).
- N < 10 is refused: there is too little to hide among.

Not promised: equal inputs under one tweak give equal outputs, so equality shows; there is no
integrity, so every number inverts to something.
"""

import hashlib
import threading
from collections import OrderedDict
from typing import NoReturn, SupportsIndex

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from ffx import FF1

from rootguard.errors import IdentifierError

KEY_BYTES = 32
# One decimal digit: less is no identifier, and a guess would be right more often than one in nine.
MIN_DOMAIN = 10
FF1_DOMAIN = 1_000_000
CACHED_ELEMENTS = 4_000_000
"""Elements in cached tables, at eight bytes each: 32 MB, four tables of the largest size."""

_Indices = npt.NDArray[np.uint32]


def derive_key(key: bytes, purpose: str, length: int = KEY_BYTES) -> bytes:
    """An independent subkey for one purpose (HKDF-SHA-256, RFC 5869)."""
    info = b"rootguard identifiers 1 " + purpose.encode()
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=None, info=info).derive(key)


class Permutation:
    """One key's family of permutations: one for each domain size and tweak."""

    __slots__ = ("_cached", "_ff1", "_lock", "_small_key", "_tables")

    def __init__(self, key: bytes) -> None:
        self._ff1 = FF1(derive_key(key, "ff1"))
        self._small_key = derive_key(key, "prefix cipher")
        self._tables: OrderedDict[tuple[int, bytes], tuple[_Indices, _Indices]] = OrderedDict()
        self._cached = 0
        # A table takes tenths of a second to sort: who comes meanwhile waits for it.
        self._lock = threading.Lock()

    def forward(self, element: int, size: int, tweak: bytes) -> int:
        """The image of an element of {0 .. size-1}."""
        _check(element, size)
        if size >= FF1_DOMAIN:
            return int(self._ff1.encrypt_int(element, domain=size, tweak=tweak))
        return int(self._table(size, tweak)[0][element])

    def backward(self, image: int, size: int, tweak: bytes) -> int:
        """The element that `forward` maps to this image."""
        _check(image, size)
        if size >= FF1_DOMAIN:
            return int(self._ff1.decrypt_int(image, domain=size, tweak=tweak))
        return int(self._table(size, tweak)[1][image])

    def _table(self, size: int, tweak: bytes) -> tuple[_Indices, _Indices]:
        with self._lock:
            table = self._tables.get((size, tweak))
            if table is not None:
                self._tables.move_to_end((size, tweak))
                return table
            table = _cycle(derive_key(self._small_key, f"{size} {tweak.hex()}"), size)
            self._tables[size, tweak] = table
            self._cached += size
            while self._cached > CACHED_ELEMENTS:
                (oldest, _), _ = self._tables.popitem(last=False)
                self._cached -= oldest
            return table

    def __repr__(self) -> str:
        return "<permutation>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a keyed permutation cannot be pickled or copied")


def tweak_of(*parts: bytes) -> bytes:
    """Sixteen bytes that name a permutation; different parts give different ones (SHA-256)."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()[:16]


def _check(element: int, size: int) -> None:
    inside = 0 <= element < size
    del element  # libffx would print it, and so would a dump of this frame
    if size < MIN_DOMAIN or not inside:
        raise IdentifierError("the element or its domain cannot be permuted")


def _cycle(key: bytes, size: int) -> tuple[_Indices, _Indices]:
    """Successor and predecessor of every element in the order of AES(element) under the key.

    AES-CTR from counter zero over zeros is AES(0), AES(1), ... in one call. 64 of the 128 bits
    settle the order unless two of them tie (probability below 3e-8 at the largest size); then all
    128 do, and those differ because AES is a permutation.
    """
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    image = np.frombuffer(stream.update(bytes(16 * size)), dtype="<u8").reshape(size, 2)
    order = np.argsort(image[:, 0])
    ranked = image[order, 0]
    if bool(np.any(ranked[1:] == ranked[:-1])):
        order = np.lexsort((image[:, 1], image[:, 0]))
    following = np.roll(order, -1)
    successor: _Indices = np.empty(size, dtype=np.uint32)
    predecessor: _Indices = np.empty(size, dtype=np.uint32)
    successor[order] = following
    predecessor[following] = order
    return successor, predecessor
