"""Who is calling: API keys, each of one person, and how often each may call.

A file holds only the SHA-256 of each key, so that reading it lets nobody in. Comparing takes the
same time whichever key matches, and whether one does.
"""

import hashlib
import hmac
import re
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rootguard.errors import FileError

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_REMEDY: Final = 'write [keys] and lines of "SHA-256 of the key, in hex" = "profile.toml"'


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Keys:
    """Digests of API keys, and the profile that each opens."""

    profiles: Mapping[bytes, str]

    def profile(self, key: str) -> str | None:
        """The profile of a key. Looks at every entry, whatever it finds."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
        found = None
        for known, profile in self.profiles.items():
            if hmac.compare_digest(known, digest):
                found = profile
        return found

    def __len__(self) -> int:
        return len(self.profiles)

    def __repr__(self) -> str:
        return f"<{len(self)} keys>"


def load_keys(path: str | Path) -> Keys:
    """Read a file of keys; profiles are found relative to it."""
    where = Path(path)
    try:
        content = tomllib.loads(where.read_text(encoding="utf-8"))
    except OSError:
        raise FileError(where.name, "", "cannot be read", "check the path") from None
    except ValueError:
        raise FileError(where.name, "", "is not TOML", _REMEDY) from None
    table = content.get("keys")
    if content.keys() != {"keys"} or not isinstance(table, dict) or not table:
        raise FileError(where.name, "keys", "is missing, empty or not alone", _REMEDY)
    profiles: dict[bytes, str] = {}
    for place, (digest, profile) in enumerate(table.items(), start=1):
        if not _DIGEST.fullmatch(digest) or not isinstance(profile, str) or not profile:
            # A key written in place of its digest must not be shown, so its place is.
            raise FileError(where.name, f"keys, entry {place}", "is not a digest", _REMEDY)
        profiles[bytes.fromhex(digest)] = str(where.parent / profile)
    return Keys(profiles=profiles)


class Rates:
    """A bucket of requests for each caller: full at first, refilled evenly over a minute."""

    __slots__ = ("_buckets", "_clock", "_most")

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> float:
        """0 if the caller may go on; otherwise after how many seconds to try again."""
        now = self._clock()
        level, since = self._buckets.get(caller, (self._most, now))
        level = min(self._most, level + (now - since) * self._most / 60)
        allowed = level >= 1
        self._buckets[caller] = (level - 1 if allowed else level, now)
        return 0.0 if allowed else (1 - level) * 60 / self._most
