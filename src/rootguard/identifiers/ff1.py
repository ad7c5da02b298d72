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
from collections.abc import Sequence
from typing import NoReturn, SupportsIndex

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from ffx import FF1

from rootguard.errors import IdentifierError

KEY_BYTES = 32  # AES-256, derived from it by HKDF for each use
# One decimal digit: less is no identifier, and a guess would be right more often than one in nine.
MIN_DOMAIN = 10
FF1_DOMAIN = 1_000_000  # NIST SP 800-38G allows FF1 from here on; below it is a table
CACHED_ELEMENTS = 4_000_000
"""Elements in cached tables, at eight bytes each: 32 MB, four tables of the largest size."""

_BLOCK = 16  # bytes, of AES
_TOGETHER_BITS = 126
"""The longest numbers whose halves, and the bound of their domain, fit 64 bits."""

_Indices = npt.NDArray[np.uint32]
_Words = npt.NDArray[np.uint64]


def derive_key(key: bytes, purpose: str, length: int = KEY_BYTES) -> bytes:
    """An independent subkey for one purpose (HKDF-SHA-256, RFC 5869)."""
    info = b"rootguard identifiers 1 " + purpose.encode()
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=None, info=info).derive(key)


class Permutation:
    """One key's family of permutations: one for each domain size and tweak."""

    __slots__ = ("_cached", "_ff1", "_lock", "_rounds", "_small_key", "_tables")

    def __init__(self, key: bytes) -> None:
        cipher_key = derive_key(key, "ff1")
        self._ff1, self._rounds = FF1(cipher_key), _ManyFF1(cipher_key)
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

    def forward_each(
        self, elements: Sequence[int], sizes: Sequence[int], tweaks: Sequence[bytes]
    ) -> list[int]:
        """`forward` of many elements, each of a domain and with a tweak of its own.

        Domains that fit are worked on together, a round of FF1 in one call of AES.
        """
        images = [0] * len(elements)
        together: dict[int, list[int]] = {}
        for place, size in enumerate(sizes):
            bits = (size - 1).bit_length()
            if size >= FF1_DOMAIN and bits <= _TOGETHER_BITS and len(tweaks[place]) == _BLOCK:
                _check(elements[place], size)
                together.setdefault(bits, []).append(place)
            else:
                images[place] = self.forward(elements[place], size, tweaks[place])
        for bits, places in together.items():
            found = self._rounds.encrypt(
                bits,
                [elements[place] for place in places],
                [sizes[place] for place in places],
                b"".join([tweaks[place] for place in places]),
            )
            for place, image in zip(places, found, strict=True):
                images[place] = image
        return images

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


class _ManyFF1:
    """What `FF1.encrypt_int` of libffx computes, for many numbers of one length in bits at once.

    SP 800-38G, algorithm 7, at radix 2 with a tweak of one block, for halves that fit 64 bits. Then
    the round's input is P, the tweak and one more block, of which the last alone changes from round
    to round; and the first block of output is all that is used.
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305 - FF1's own use

    def encrypt(
        self, bits: int, elements: Sequence[int], sizes: Sequence[int], tweaks: bytes
    ) -> list[int]:
        """The image of each element in its own domain; all domains have numbers of `bits`."""
        low = bits - bits // 2
        mask = (1 << low) - 1
        first = np.array([element >> low for element in elements], dtype=np.uint64)
        second = np.array([element & mask for element in elements], dtype=np.uint64)
        tops = np.array([(size - 1) >> low for size in sizes], dtype=np.uint64)
        rests = np.array([(size - 1) & mask for size in sizes], dtype=np.uint64)
        chain = self._chain(bits, tweaks)
        todo = np.arange(len(elements))
        while todo.size:
            made = self._feistel(bits, first[todo], second[todo], chain[todo])
            first[todo], second[todo] = made
            # Cycle walking: who left the domain goes on from there.
            outside = (made[0] > tops[todo]) | ((made[0] == tops[todo]) & (made[1] > rests[todo]))
            todo = todo[outside]
        return [
            (left << low) | right
            for left, right in zip(first.tolist(), second.tolist(), strict=True)
        ]

    def _chain(self, bits: int, tweaks: bytes) -> _Words:
        """The cipher's state after P and the tweak: two words for each element."""
        header = b"\x01\x02\x01\x00\x00\x02\x0a" + bytes([bits // 2 % 256])
        header += bits.to_bytes(4, "big") + _BLOCK.to_bytes(4, "big")
        after = np.frombuffer(self._aes(header), dtype=">u8").astype(np.uint64)
        return self._images(np.frombuffer(tweaks, dtype=">u8").reshape(-1, 2) ^ after)

    def _feistel(
        self, bits: int, left: _Words, right: _Words, chain: _Words
    ) -> tuple[_Words, _Words]:
        short = bits // 2
        width = (bits - short + 7) // 8
        taken = 4 * ((width + 3) // 4) + 4  # bytes of output: 8, or 12 of which the low 8 count
        blocks = np.empty_like(chain)
        for turn in range(10):
            # The last block is zeros, the number of the round in one byte, and the right half.
            high, low = (turn, 0) if width == 8 else (0, turn << 8 * width)
            blocks[:, 0] = chain[:, 0] ^ np.uint64(high)
            blocks[:, 1] = chain[:, 1] ^ (right | np.uint64(low))
            image = self._images(blocks)
            number = image[:, 0]
            if taken == 12:
                number = (number << np.uint64(32)) | (image[:, 1] >> np.uint64(32))
            modulus = np.uint64((1 << (bits - short if turn % 2 else short)) - 1)
            left, right = right, (left + number) & modulus
        return left, right

    def _images(self, blocks: _Words) -> _Words:
        made = np.frombuffer(self._aes(blocks.astype(">u8").tobytes()), dtype=">u8")
        return made.astype(np.uint64).reshape(-1, 2)

    def _aes(self, content: bytes) -> bytes:
        # A context of its own for each call: one that is shared cannot be used by two threads.
        return self._cipher.encryptor().update(content)

    def __repr__(self) -> str:
        return "<FF1 of many>"


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
