"""Who is calling: API keys, each of one person.

A file holds only the SHA-256 of each key, so that reading it lets nobody in. Comparing takes the
same time whichever key matches, and whether one does.
"""

import hashlib
import hmac
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rootguard.errors import FileError

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_REMEDY: Final = 'write [keys] and lines of "SHA-256 of the key, in hex" = "profile.toml"'


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ApiKeys:
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


def load_keys(path: str | Path) -> ApiKeys:
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
    return ApiKeys(profiles=profiles)
