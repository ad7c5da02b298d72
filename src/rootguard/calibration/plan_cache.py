"""Population plans on disk, so that a second process need not search for them again.

A plan is public: it follows from a template, a mechanism and a budget, and holds nobody's value.
Each is a file of a few bytes in the user's cache directory, named by the digest of all that decides
it. What cannot be read, or does not come to its budget, is searched for again; what cannot be
written is not kept. `ROOTGUARD_CACHE` names another directory; empty, nothing is kept.
"""

import contextlib
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from rootguard.values import MICRO

REVISION = 2
"""Raised whenever the same template and budget get another plan."""
VARIABLE = "ROOTGUARD_CACHE"


def key(digest: str, mechanism: str, budget: Fraction) -> str:
    """What a plan is kept under."""
    content = json.dumps([REVISION, digest, mechanism, str(budget)])
    return hashlib.sha256(content.encode()).hexdigest()


def read(name: str, budget: Fraction, roots: int) -> list[Fraction] | None:
    """The epsilons that were kept; None if there are none, or they are not a plan of the budget."""
    found = kept("plans", name)
    if not isinstance(found, list) or len(found) != roots:
        return None
    if not all(type(micro) is int and micro > 0 for micro in found):
        return None
    return [Fraction(micro, MICRO) for micro in found] if sum(found) == _whole(budget) else None


def write(name: str, epsilons: Sequence[Fraction]) -> None:
    """Keep a plan."""
    keep("plans", name, [int(epsilon * MICRO) for epsilon in epsilons])


def _whole(budget: Fraction) -> int:
    return math.floor(budget * MICRO)


def kept(kind: str, name: str) -> object:
    """What a file of the cache holds; None if there is none, or it is no JSON."""
    folder = _folder(kind)
    if folder is None:
        return None
    try:
        found: object = json.loads((folder / f"{name}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found


def keep(kind: str, name: str, content: object) -> None:
    """Keep a file, whole or not at all; a directory that cannot be written is left alone."""
    folder = _folder(kind)
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, draft = tempfile.mkstemp(dir=folder, prefix=".draft-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        Path(draft).replace(folder / f"{name}.json")


def _folder(kind: str) -> Path | None:
    told = os.environ.get(VARIABLE)
    if told is not None:
        return Path(told) / kind if told else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        root = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:  # nobody's home
        return None
    return root / "rootguard" / kind
