"""Lists of words that a package keeps in a TOML file beside its modules, and patterns of them.

What a reader knows of a language is data: somebody who speaks it better can mend a list without
reading code. Words in a list are plain; only what has a shape of its own is a pattern in a module.
"""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any


@functools.cache
def read_lists(package: str, file: str) -> Mapping[str, Any]:
    """The lists of a file, read once."""
    source = importlib.resources.files(package) / file
    return tomllib.loads(source.read_text("utf-8"))


def either(phrases: Iterable[str]) -> str:
    """A pattern for any of these, of two that begin alike the longer: it is tried first."""
    return "|".join(re.escape(p) for p in sorted(set(phrases), key=lambda p: (-len(p), p)))


def whole(body: str) -> re.Pattern[str]:
    r"""A pattern that is no part of a longer word.

    Not `\b`, which takes an underscore for a letter: `smoker_status` has two words.
    """
    return re.compile(rf"(?<![^\W_])(?:{body})(?![^\W_])")
