"""Whether a parameter's JSON type can carry a value, and how it is written there.

Numbers are written as numbers, whole numbers or digits; a root of two points (female, diabetes) as
true and false, 1 and 0, or the two choices of an enumeration that name its ends. What fits none of
these is not written at all.
"""

import re
from collections.abc import Sequence
from typing import Final

from rootguard.channels.tools.fields import Field
from rootguard.channels.tools.words import Meaning, text_words, words_of

Ends = tuple[object, object]

_MEN: Final = frozenset({"male", "m", "man", "hombre", "homme", "mann", "mannlich", "masculino"})
_WOMEN: Final = frozenset(
    {"female", "f", "woman", "mujer", "femme", "frau", "weiblich", "femenino", "w"}
)
_YES: Final = frozenset({"yes", "true", "y", "1", "ja", "oui", "si"})
_NO: Final = frozenset({"no", "false", "n", "0", "nein", "non"})
_DIGITS: Final = re.compile(
    r"number|numeric|decimal|digits|as (?:a )?string|as text", re.IGNORECASE
)
_ONE: Final = re.compile(r"1\s*(?:=|:|for|is|means)\s*(\w+)|(\w+)\s*(?:=|:)\s*1\b", re.IGNORECASE)


def carries_number(field: Field, *, unit_stated: bool) -> str:
    """Why a parameter cannot carry a number; nothing if it can."""
    if field.choices:
        return "it takes one of a list of choices"
    if field.kind == "boolean":
        return "it takes true or false, not a number"
    if field.kind == "string":
        numeric = bool(re.search(r"\\d|0-9", field.pattern) or _DIGITS.search(field.description))
        if not (numeric or unit_stated):
            return "it is a text, and nothing says that it holds a number"
    return ""


def ends_of(field: Field, meaning: Meaning) -> Ends | str:
    """What stands for 0 and for 1 of a root of two points, or why that is not clear."""
    words = {word for part in field.path[-1:] for word in words_of(part)}
    sexed = meaning.name == "female" or "female" in meaning.spellings
    inverse = sexed and bool(words & _MEN)
    if sexed and field.choices:
        found = _chosen(field.choices, _MEN, _WOMEN)
        return found or "its choices do not tell men and women apart"
    if field.choices:
        return _chosen(field.choices, _NO, _YES) or "its choices are not yes and no"
    clear = not sexed or bool(words & (_MEN | _WOMEN))
    if field.kind == "boolean" and clear:
        return (True, False) if inverse else (False, True)
    if field.kind in ("number", "integer") and sexed:
        return _numbered(field.description)
    if field.kind in ("number", "integer") and field.upper == 1:
        return (0, 1)
    return "it does not say how it is written"


def _chosen(choices: Sequence[object], zero: frozenset[str], one: frozenset[str]) -> Ends | None:
    def only(of: frozenset[str]) -> list[object]:
        return [c for c in choices if "".join(text_words(str(c))) in of]

    noes, yeses = only(zero), only(one)
    if len(noes) == len(yeses) == 1 and len(choices) == len(noes) + len(yeses):
        return noes[0], yeses[0]
    return None


def _numbered(description: str) -> Ends | str:
    said = _ONE.search(description)
    word = ((said[1] or said[2]) if said is not None else "").casefold()
    if word in _WOMEN:
        return (0, 1)
    if word in _MEN:
        return (1, 0)
    return "it does not say which number stands for women"
