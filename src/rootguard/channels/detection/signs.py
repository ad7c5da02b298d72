"""The words and phrases beside which identifiers stand, from `signs.toml`, as patterns."""

import re
import tomllib
from importlib import resources

_SOURCE = resources.files(__package__).joinpath("signs.toml").read_text(encoding="utf-8")
_SIGNS: dict[str, str] = tomllib.loads(_SOURCE)


def phrases(key: str) -> tuple[str, ...]:
    """The phrases of one sort."""
    return tuple(" ".join(phrase.split()) for phrase in re.split(r" *\| ", _SIGNS[key]))


def lines(key: str) -> tuple[tuple[str, ...], ...]:
    """The phrases of one sort, line by line."""
    return tuple(tuple(line.split(" | ")) for line in _SIGNS[key].strip().splitlines())


def any_of(*keys: str) -> str:
    """A pattern for any of these phrases; of two that begin alike the longer is tried first."""
    known = {phrase for key in keys for phrase in phrases(key)}
    return "|".join(re.escape(phrase) for phrase in sorted(known, key=lambda p: (-len(p), p)))
