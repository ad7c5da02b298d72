"""The names and words that the rules know, from the data files and `identifiers/names.toml`.

`signs.toml` has the words and phrases beside which identifiers stand; they are given as patterns.
Words are compared without case and accents.
"""

import re
import tomllib
from importlib import resources

from rootguard.identifiers.formats import LISTS, PARTICLES
from rootguard.language.fold import caseless
from rootguard.language.lists import either


def _words(file: str) -> dict[str, list[str]]:
    source = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    return {key: words.split() for key, words in tomllib.loads(source).items()}


_LISTED = _words("lists.toml")
_WORDS = {key: frozenset(words) for key, words in _words("words.toml").items()}

# "My" is a given name of few and the owner's word for everything that is theirs: "My Gewicht".
_NEVER = PARTICLES | _WORDS["possessive_words"]
GIVEN = frozenset(map(caseless, (*LISTS["given"], *_LISTED["given"]))) - _NEVER
SURNAMES = frozenset(map(caseless, (*LISTS["surname"], *_LISTED["surnames"]))) - _NEVER
LISTED = GIVEN | SURNAMES
FOREIGN = _WORDS["foreign"]
ORDINARY = _WORDS["ordinary"] | FOREIGN
SMALL = LISTED - ORDINARY
"""Names that are found in small letters too."""
_NOT_NAMES = ORDINARY | _WORDS["places"] | _WORDS["things"]
AMBIGUOUS = LISTED & (_WORDS["ambiguous"] | _NOT_NAMES)
"""Names that are also words, places or products."""
LOWERCASE = _WORDS["lowercase"]
NOT_ALONE = AMBIGUOUS | LOWERCASE
"""Names that are no names in small letters, unless a sure one stands beside them."""
EPONYM_NOUNS = _WORDS["eponym_nouns"]
ORGANISATION_NOUNS = _WORDS["organisation_nouns"]
PLACE_OPENERS = _WORDS["place_openers"]
PERSON_VERBS = _WORDS["person_verbs"]
GIVING_VERBS = _WORDS["giving_verbs"]
PERSONAL_NOUNS = _WORDS["personal_nouns"]
POSSESSIVE_WORDS = _WORDS["possessive_words"]
CALLING_WORDS = _WORDS["calling_words"]
PLACES = _WORDS["places"]
PLAIN = (_NOT_NAMES | _WORDS["ambiguous"] | EPONYM_NOUNS | ORGANISATION_NOUNS) - LISTED
"""Words that are no names."""
SURNAME_WORDS = (ORDINARY | _WORDS["ambiguous"]).difference(
    FOREIGN,
    PLACES,
    _WORDS["things"],
    EPONYM_NOUNS,
    ORGANISATION_NOUNS,
    PERSON_VERBS,
    _WORDS["never_surnames"],
)
"""Words that may be a surname behind a given name, both with a capital: "Jane Winter"."""
EVERYBODYS = PLAIN | LISTED
"""Words that say nothing about whoever wrote them."""
ENGLISH = _WORDS["english"] | PLAIN
PLAIN_LETTERS = frozenset(word for word in PLAIN if word.isascii() and word.isalpha())

NAME_SHAPE = re.compile(r"(?:O['’]|D['’]|Mc|Mac)[A-Z][a-z]{2,20}")
"""O'Brien, D'Amico, McKay: capitals that only names have."""
NAME_ENDING = re.compile(rf"\w{{2,20}}(?:{either(_WORDS['name_endings'])})")
"""Endings that only surnames have, near enough."""
THING_ENDING = re.compile(rf"\w{{2,20}}(?:{either(_WORDS['thing_endings'])})")
"""Endings of medicines, illnesses, abstract nouns and streets."""

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
    return either(phrase for key in keys for phrase in phrases(key))
