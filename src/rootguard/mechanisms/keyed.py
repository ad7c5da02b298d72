"""Noise that can be drawn again: a stream of bits for each person and root, from one secret key.

Under a key that nobody else has, AES is a pseudo-random permutation, and with it

    person  P = CBC-MAC(K_person, length of the id | the id)                     (128 bits)
    stream  block number c of the grid point t = AES(K_root, P xor (t | c))      (128 bits)

where K_person and K_root come from the key by HKDF-SHA-256, K_root with the root's name, its
version and everything that decides the distribution: mechanism, epsilon, bounds and grid. The
length comes first, so no id's encoding is the beginning of another's, for which CBC-MAC is a
pseudo-random function (Petrank and Rackoff 2000). For q blocks the streams differ from independent
uniform bits by about q**2 / 2**128: below 1e-17 for ten billion of them.

The same row drawn again, in a retried task or a later file, gives the same noise. The grid point is
part of the input for a reason: were the noise a function of the person alone, two files with two
values of one root would show their difference without any noise. As it is, another value, another
epsilon or another mechanism is another, independent draw, at its own cost.

Who has the key can take the noise off again. It is worth the raw table; guard it as that.
"""

import json
import threading
from fractions import Fraction
from itertools import count
from typing import NoReturn, SupportsIndex, cast

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from rootguard.errors import StoreKeyError, shielded
from rootguard.mechanisms.base import Indices
from rootguard.mechanisms.exact import Words
from rootguard.values import Domain, MechanismName, normalised

# AES-256 throughout: a table's noise may have to last as long as its people.
KEY_BYTES = 32
_BLOCK = 16  # bytes of an AES block
_FIRST = 12
"""Bytes of an id in its first block, after four for its length."""
_MORE = 1 << 32
"""Blocks from here on serve ties alone; no draw tries that often."""

_FINGERPRINT = 1 << 63
"""The block that a value's fingerprint comes from, beside all blocks of draws."""

_KEPT = np.array([(1 << 8 * kept) - 1 for kept in range(9)], dtype=np.uint64)
"""Masks that keep the first bytes of a little-endian word."""


class Prf:
    """The keyed functions of one batch key. Shows the key to nobody.

    People are told apart by their ids: exactly as these are written or, where it is not `exact`,
    as names are compared (`values.normalised`).
    """

    __slots__ = ("_key", "_person", "_tag", "exact")

    @shielded
    def __init__(self, key: bytes, *, exact: bool = True) -> None:
        if len(key) != KEY_BYTES:
            raise StoreKeyError(f"a batch key is {KEY_BYTES} random bytes")
        self.exact = exact
        self._key = key
        self._person = _Aes(_derive(key, "person"))
        self._tag = _Aes(_derive(key, "tag"))

    def person(self, name: str) -> "People":
        """One person, by the id."""
        text = (name if self.exact else normalised(name)).encode(errors="surrogatepass")
        return self.people(np.array([0, len(text)]), np.frombuffer(text, dtype=np.uint8))

    def tags(self, people: "People") -> Words:
        """64 bits that tell people apart and say nothing about them without the key."""
        return self._tag.of(people.low, people.high)[0]

    def people(self, offsets: NDArray[np.int64], text: NDArray[np.uint8]) -> "People":
        """The persons behind ids that stand one after the other in a text, in UTF-8.

        Whoever calls this has made them comparable, if they are not taken exactly.
        """
        return People(*_mac(self._person, offsets, text))

    def root(
        self, root: str, domain: Domain, epsilon: Fraction, mechanism: MechanismName, version: int
    ) -> "RootStreams":
        """What makes the streams of one root under one plan."""
        content = [root, version, mechanism, str(epsilon)]
        content += [domain.lower.hex(), domain.upper.hex(), domain.size]
        return RootStreams(_Aes(_derive(self._key, f"root {json.dumps(content)}")))

    @property
    def key(self) -> bytes:
        """The key itself, for tasks on other machines alone."""
        return self._key

    def key_for(self, purpose: str) -> bytes:
        """An independent key for something else than noise."""
        return _derive(self._key, f"purpose {purpose}")

    def __repr__(self) -> str:
        return "<batch key>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a batch key cannot be pickled or copied")


class People:
    """128 bits for each row's person. As secret as the key that made them."""

    __slots__ = ("high", "low")

    def __init__(self, low: Words, high: Words) -> None:
        self.low, self.high = low, high

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, rows: Indices) -> "People":
        return People(self.low[rows], self.high[rows])

    def __repr__(self) -> str:
        return f"<{len(self)} people>"


class RootStreams:
    """Makes the streams of one root."""

    __slots__ = ("_cipher",)

    def __init__(self, cipher: "_Aes") -> None:
        self._cipher = cipher

    def of(self, people: People, points: Indices) -> "RowStreams":
        """A stream for each row, of its person and its grid point."""
        return RowStreams(self._cipher, people, points)


class RowStreams:
    """The `Streams` that mechanisms draw many rows from."""

    __slots__ = ("_cipher", "_people", "_points")

    def __init__(self, cipher: "_Aes", people: People, points: Indices) -> None:
        self._cipher, self._people, self._points = cipher, people, points.view(np.uint64)

    def words(self, block: int, rows: Indices | None = None) -> tuple[Words, Words]:
        """Two 64-bit words for each row (of those given): its block of that number."""
        low, high, points = self._people.low, self._people.high, self._points
        if rows is not None:
            low, high, points = low[rows], high[rows], points[rows]
        return self._cipher.of(low ^ points, high ^ np.uint64(block) if block else high)

    def fingerprints(self) -> NDArray[np.uint32]:
        """32 bits for each row's value, never 0: equal for equal values of one person."""
        found = (self.words(_FINGERPRINT)[0] >> np.uint64(32)).astype(np.uint32)
        return np.maximum(found, np.uint32(1), out=found)

    def source(self, row: int, block: int) -> "RowSource":
        """More bits of one row, beside all its blocks: what a tie in that block needs."""
        return RowSource(self, row, block)

    def __repr__(self) -> str:
        return "<streams>"


class RowSource:
    """32-bit words from one row's stream."""

    __slots__ = ("_words",)

    def __init__(self, streams: RowStreams, row: int, block: int) -> None:
        rows = np.array([row])
        self._words = (
            int(part)
            for number in count(_MORE * (block + 1))
            for word in streams.words(number, rows)
            for part in word.view(np.uint32)
        )

    def words(self, count: int) -> list[int]:
        """As many integers as asked for, each uniform on 0 .. 2**32 - 1."""
        return [next(self._words) for _ in range(count)]

    def __repr__(self) -> str:
        return "<source>"


class _Aes(threading.local):
    """AES on many blocks in one call. Blocks that never repeat need no chaining.

    Every thread has an encryptor of its own: one alone can be used by a thread at a time.
    """

    def __init__(self, key: bytes) -> None:
        # No mode: this is the bare permutation, and the uses above are what makes it a PRF.
        self._encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305

    def of(self, low: Words, high: Words) -> tuple[Words, Words]:
        if not len(low):
            return low, high
        blocks = np.empty((len(low), 2), dtype="<u8")
        blocks[:, 0], blocks[:, 1] = low, high
        image = np.empty(_BLOCK * (len(low) + 1), dtype=np.uint8)
        self._encryptor.update_into(blocks.data.cast("B"), image.data)
        words = image[:-_BLOCK].view("<u8").reshape(-1, 2)
        return np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])


def _mac(cipher: _Aes, offsets: NDArray[np.int64], text: NDArray[np.uint8]) -> tuple[Words, Words]:
    """CBC-MAC of every id at once: all first blocks, then the second ones of ids that have one."""
    begins, lengths = offsets[:-1], np.diff(offsets)
    if len(lengths) and (lengths == lengths[0]).all():
        return _mac_of_one_length(cipher, text.reshape(len(lengths), -1))
    padded = np.zeros(len(text) + 24, dtype=np.uint8)
    padded[: len(text)] = text
    # Eight bytes from any place on, as one number.
    windows = cast(
        "Words",
        np.lib.stride_tricks.as_strided(
            padded[: len(padded) // 8 * 8].view("<u8"), (len(padded) - 7,), (1,)
        ),
    )
    low = (windows[begins] & _KEPT[np.clip(lengths, 0, 4)]) << np.uint64(32)
    low |= lengths.astype(np.uint64)
    low, high = cipher.of(low, windows[begins + 4] & _KEPT[np.clip(lengths - 4, 0, 8)])
    done = _FIRST
    while (longer := np.flatnonzero(lengths > done)).size:
        at, left = begins[longer] + done, lengths[longer] - done
        first = windows[at] & _KEPT[np.clip(left, 0, 8)]
        second = windows[at + 8] & _KEPT[np.clip(left - 8, 0, 8)]
        low[longer], high[longer] = cipher.of(low[longer] ^ first, high[longer] ^ second)
        done += _BLOCK
    return low, high


def _mac_of_one_length(cipher: _Aes, texts: NDArray[np.uint8]) -> tuple[Words, Words]:
    """The same of ids that are equally long, as most columns of ids are: nothing need be sought."""
    count, length = texts.shape
    blocks = 1 + max(0, -(-(length - _FIRST) // _BLOCK))
    padded = np.zeros((count, blocks * _BLOCK), dtype=np.uint8)
    padded[:, : _BLOCK - _FIRST] = np.array([length], dtype="<u4").view(np.uint8)
    padded[:, _BLOCK - _FIRST : _BLOCK - _FIRST + length] = texts
    words = padded.view("<u8")
    low, high = cipher.of(words[:, 0], words[:, 1])
    for block in range(1, blocks):
        low, high = cipher.of(low ^ words[:, 2 * block], high ^ words[:, 2 * block + 1])
    return low, high


def _derive(key: bytes, purpose: str) -> bytes:
    info = b"rootguard batch 1 " + purpose.encode()
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(key)
