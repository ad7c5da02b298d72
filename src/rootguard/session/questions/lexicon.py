"""The closed lists of small words that a question may use, and what a question is cut into.

Arithmetic in words, words that ask, words that only qualify. A word that is neither here nor in a
vocabulary is unknown. Lists are in English; names are in the index, number words in
`language.numbers`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

TokenKind = Literal[
    "name",  # text: the name; says: how to say it
    "class",  # text: a target, or nothing for any
    "target",  # the target, whatever it is called
    "all",  # text: roots or everything
    "number",
    "operator",  # text: + - * / **, a comparison, "from" (swapped minus), "share" (percentage of)
    "power",  # text: the exponent that "squared" or "cubed" stands for
    "scale",  # text: the factor that "twice" or "half" stands for
    "call",  # text: a function of one value, also "square", "cube", "reciprocal"
    "list",  # text: an operator or a function over several values
    "verb",  # text: the operator that "multiply" or "divide" stands for
    "percent",
    "unit",  # text: the unit that was asked for
    "open",
    "close",
    "comma",
    "and",
    "end",  # text: the sign that ended the sentence
    "marker",  # opens a clause that says why, or for whom
    "preposition",
    "determiner",
    "qualifier",
    "filler",
    "unknown",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One word, sign or phrase of a question.

    `tight`: no space on either side of it. `leads`: a space before it and none after it.
    `asks`: a sentence with this word asks for something.
    """

    kind: TokenKind
    text: str = ""
    says: str = ""
    tight: bool = False
    leads: bool = False
    asks: bool = False


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_GRAMMAR: Final[Mapping[tuple[TokenKind, str], str]] = {
    ("operator", "+"): "plus, added to",
    ("operator", "-"): "minus, less",
    ("operator", "from"): "subtracted from",
    ("operator", "*"): "times, multiplied by, multiplied with, x",
    ("operator", "/"): "divided by, over, per",
    ("operator", "**"): "to the power of, to the power, raised to the power of, raised to",
    ("operator", "share"): "as a percentage of, as percentage of, as a percent of, as percent of",
    ("operator", ">"): "greater than, more than, higher than, larger than, bigger than, above, "
    "exceeds, exceed, older than",
    ("operator", "<"): "less than, lower than, smaller than, below, under, younger than",
    ("operator", ">="): "at least, greater than or equal to, no less than",
    ("operator", "<="): "at most, less than or equal to, no more than",
    ("operator", "=="): "equal to, equals",
    ("power", "2"): "squared",
    ("power", "3"): "cubed",
    ("scale", "2"): "twice, double",
    ("scale", "3"): "thrice, triple",
    ("scale", "1/2"): "half, a half, one half",
    ("scale", "1/3"): "a third of, one third of",
    ("scale", "1/4"): "a quarter of, one quarter of",
    ("scale", "1/10"): "a tenth of, one tenth of",
    ("call", "sqrt"): "square root, sqrt, root of",
    ("call", "ln"): "natural logarithm, natural log, logarithm, log, ln",
    ("call", "log10"): "log 10, log base 10, base 10 log, base 10 logarithm, common logarithm, "
    "logarithm to base 10, decadic logarithm",
    ("call", "log2"): "log 2, log base 2, base 2 log, base 2 logarithm, binary logarithm",
    ("call", "exp"): "exponential, exp",
    ("call", "abs"): "absolute value, magnitude, abs",
    ("call", "floor"): "floor",
    ("call", "ceil"): "ceil, ceiling",
    ("call", "round"): "round",
    ("call", "square"): "square of",
    ("call", "cube"): "cube of",
    ("call", "reciprocal"): "reciprocal, inverse",
    ("list", "+"): "sum, total of",
    ("list", "*"): "product",
    ("list", "-"): "difference",
    ("list", "/"): "ratio, quotient",
    ("list", "mean"): "average, average of, mean of",
    ("list", "max"): "max, maximum, larger of, greater of, higher of, largest of, greatest of, "
    "highest of",
    ("list", "min"): "min, minimum, smaller of, lesser of, lower of, smallest of, least of, "
    "lowest of",
    ("list", "clip"): "clip",
    ("verb", "*"): "multiply",
    ("verb", "/"): "divide",
    ("verb", "+"): "add",
    ("verb", "-"): "subtract",
    ("percent", ""): "percent, per cent",
    ("class", ""): "risk, risks, risk class, risk category, risk level, risk group, category, "
    "risk classification, classification, class",
    ("target", ""): "score, risk score, result, results, final result, outcome, index, target, "
    "target value, final score, overall result, overall score",
    ("all", "everything"): "everything",
    ("all", "roots"): "lab results, test results",
    ("and", ""): "and, or, as well as, along with, together with, versus, vs",
    ("marker", ""): "for, so, because, as, if, while, but, however, though, in order, whether, "
    + ", ".join(
        f"to {verb}"
        for verb in _words(
            "compute calculate estimate assess evaluate determine check see proceed continue "
            "complete finish know understand help make work decide"
        )
    ),
    ("preposition", ""): "of, in, at, on, from, during, before, after, when, since, with, without, "
    "within, between, among, against, to, by",
    ("determiner", ""): "your, my, his, her, their, its, our, the, a, an, this, that, these, "
    "those, any, some, each, both, all, every, patient, user, person, client, entire, whole, "
    "complete, full",
    ("qualifier", ""): "value, values, level, levels, count, counts, reading, readings, number, "
    "numbers, measurement, measurements, figure, figures, test, tests, lab, labs, laboratory, "
    "blood, serum, plasma, current, latest, last, recent, raw, true, exact, real, actual, "
    "original, unnoised, noised, sanitized, sanitised, private, secret, hidden, medical, "
    "clinical, baseline, present, high, low, elevated, increased, own, please, today, now, "
    "exactly, currently, respectively, precisely, again, too, also, panel, sample, data, "
    "information, input, inputs, root, roots, parameter, parameters",
    (
        "filler",
        "",
    ): "i, you, we, me, us, it, they, them, he, she, there, here, be, been, do, does, did, "
    "will, shall, should, may, might, must, kindly, let, lets, like, just, then, only, out, back, "
    "up, hello, hi, hey, dear, thanks, thank, ok, okay, well, good, morning, afternoon, evening, "
    "right, about, roughly, not, no, yes, could, can, would, am, have, has, had, was, were, got, "
    "first, second, next, finally, once, more, answer, question, following, im, s, doctor, dr, "
    "called, another, other",
}
_ASKING: Final = (
    "what, whats, which, how, how much, how many, is, are, tell, give, show, print, report, list, "
    "provide, share, send, output, display, reveal, state, return, say, compute, calculate, find, "
    "get, read, write, disclose, dump, repeat, confirm, know, need, want, see, ask, asking, when, "
    "who, where, work out, figure out, leak, expose"
)
WORDS: Final[Mapping[tuple[str, ...], Token]] = {
    tuple(re.findall(r"[a-z]+|[0-9]+", phrase)): Token(
        kind=kind, text=phrase if kind in ("determiner", "qualifier") else text
    )
    for (kind, text), phrases in _GRAMMAR.items()
    for phrase in phrases.split(", ")
} | {tuple(p.split()): Token(kind="filler", asks=True) for p in _ASKING.split(", ")}
LONGEST: Final = max(map(len, WORDS))
WHOLE: Final = frozenset({"all", "every", "each", "entire", "whole", "complete", "full"})
SEVERAL: Final = frozenset(
    _words("values numbers readings measurements figures labs data inputs roots parameters")
)
NOUNS: Final = SEVERAL | frozenset(
    _words("value number reading measurement figure information input root parameter")
)
_OPERATORS: Final = ("+", "-", "*", "/", "**", "<", ">", "<=", ">=", "==")
SIGNS: Final[Mapping[str, TokenKind]] = {
    "(": "open", "[": "open", "{": "open", ")": "close", "]": "close", "}": "close",
    ",": "comma", "\n": "comma", "%": "percent", "&": "and", "=": "filler",
    ".": "end", "?": "end", "!": "end", ";": "end", ":": "end",
    **dict.fromkeys(_OPERATORS, "operator"),
}  # fmt: skip
UNIT_PARTS: Final = frozenset(
    _words(
        "% percent m cm mm ft feet foot inch inches kg g mg ug mcg ng pg lb lbs pounds stone l dl "
        "ml fl litre liter u iu uu miu mol mmol umol nmol pmol mmhg kpa years year months weeks "
        "days hours s ms bpm min usd eur dollars euros day kcal kj mosm meq si millimoles "
        "micromoles centimetres centimeters metres meters kilograms grams"
    )
)
