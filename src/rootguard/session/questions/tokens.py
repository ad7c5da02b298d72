"""A question as tokens: the names of a vocabulary, arithmetic, and the small words of the lexicon.

Everything else is a token of kind `unknown`, whose text is dropped here: nobody further on can say
a questioner's own words back. Nothing is computed and nothing is released here.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from rootguard.language.fold import unaccented
from rootguard.language.numbers import read_words
from rootguard.session.questions.wording import (
    LONGEST,
    NOUNS,
    SEVERAL,
    SIGNS,
    UNIT_PARTS,
    WHOLE,
    WORDS,
    Token,
    TokenKind,
    Vocabulary,
)

_REWRITTEN: Final = str.maketrans(
    {
        "×": "*", "·": "*", "⋅": "*", "∙": "*", "∗": "*", "÷": "/", "∕": "/", "⁄": "/", "−": "-",
        "–": "-", "—": "-", "‐": "-", "‑": "-", "^": "**", "²": "**2", "³": "**3", "√": " sqrt ",
        "≤": "<=", "≥": ">=", "≠": " ", "’": "'", "‘": "'", "`": " ", '"': " ", "“": " ", "”": " ",
        "|": ",", "\t": " ", "\r": "\n", "\v": "\n", "\f": "\n",
    }
)  # fmt: skip
# What only decorates or shortens, and what is left of it, in this order: the points of "b.m.i." go
# before a bullet is looked for ("1."), two dashes become one before one is taken for a bullet, and
# what is bold may stand behind a bullet.
_DECORATION: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    tuple(
        (re.compile(pattern), left)
        for pattern, left in (
            # The specimen, as laboratories write it: "S-Creatinine" of serum.
            (r"(?<![\w-])f?[SPB]-(?=[A-Za-z]{2})", ""),
            (r"(?<=[A-Za-z])([0-9]?)\+{1,2}(?![\w+(])", r"\1"),  # the charge of an ion: "Ca2+"
            (r"(?i)\b(?:[A-Za-z]\.){2,}|\by/o\b", lambda found: re.sub(r"\W", "", found[0])),
            (r"'(?:s|ll|d|ve|re|m)\b|'", ""),
            (r"--+", " - "),
            (r"(?m)^[ ]*(?:[-•*+][ ]+(?=[^\W\d_])|[0-9]{1,2}[.)][ ]+)", " ; "),
            (r"(?<![\w)*])\*{1,2}([^\W_][^*\n]*)\*{1,2}(?![\w(*])", r" \1 "),
        )
    )
)
_PIECE: Final = re.compile(
    r"(?P<number>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])(?:\.[0-9]+)?"
    r"|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+(?![\w.]))?|\.[0-9]+)"
    r"|(?P<joined>[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+)"
    r"|(?P<word>[^\W\d_]+)"
    r"|(?P<sign>\*\*|<=|>=|==|[-+*/<>=()\[\]{},%&.?!;:\n])"
    r"|(?P<other>[^\s_]+?)"
)
_A_UNIT: Final = r"(?P<unit>(?:10\*\*[0-9]+/)?[^\W\d_]*%?(?:/[^\W\d_]+[0-9]?)*[0-9]?)"
_IN_UNIT: Final = re.compile(rf"[ ]+{_A_UNIT}")
_BRACKETED_UNIT: Final = re.compile(rf"[ ]*(?:in[ ]+)?[x*]?[ ]*{_A_UNIT}[ ]*\)")
# Words: "nine hundred and ninety-nine thousand nine hundred and ninety-nine point five" and more.
_LONGEST_NUMBER: Final = 16
_THINGS: Final = frozenset({"name", "determiner", "all", "unknown"})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece:
    kind: str
    text: str
    small: bool
    tight: bool
    leads: bool


def tokens_of(question: str, vocabulary: Vocabulary) -> list[Token]:
    """The tokens of a question, in order, ended by a token of kind `end`."""
    pieces = list(_parted(_pieces(_plain(question)), vocabulary))
    tokens: list[Token] = []
    position = 0
    while position < len(pieces):
        found, length = _longest(pieces, position, vocabulary)
        tokens += found
        position += length
    tokens.append(Token(kind="end"))
    return _all_values(_generic(tokens, vocabulary))


def same_unit(one: str, other: str) -> bool:
    """Whether two units are the same, spelt differently perhaps."""
    return _unit(one) == _unit(other)


def _unit(text: str) -> str:
    text = text.casefold().replace("**", "^").replace("mcg", "ug").replace("iu/", "u/")
    return {"meters": "m", "metres": "m", "percent": "%", "year": "years", "dollars": "usd"}.get(
        text, text
    )


def _plain(question: str) -> str:
    """The text without marks that only decorate it, in characters that mean one thing."""
    text = question.translate(_REWRITTEN)
    text = unaccented(unicodedata.normalize("NFKC", text)).replace("μ", "u")
    text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    for pattern, left in _DECORATION:
        text = pattern.sub(left, text)
    return text


def _pieces(text: str) -> list[_Piece]:
    found: list[_Piece] = []
    position = 0
    while match := _PIECE.search(text, position):
        kind = match.lastgroup or "other"
        word, (start, position) = match[0], match.span()
        before = text[start - 1 : start].strip(" \n([{,") != ""
        after = text[position : position + 1].strip() != ""
        opens = {"in": _IN_UNIT, "(": _BRACKETED_UNIT}.get(word.casefold())
        unit = opens.match(text, position) if opens else None
        if unit and _is_unit(unit["unit"]):
            kind, word, position = "unit", unit["unit"], unit.end()
        found.append(
            _Piece(
                kind=kind,
                text=word.casefold(),
                small=word == word.lower(),
                tight=before and after,
                leads=after and not before,
            )
        )
    return found


def _is_unit(text: str) -> bool:
    parts = [part for part in re.split(r"/|\*\*|10", text.casefold()) if part]
    named = [part.rstrip("0123456789") for part in parts if not part.isdigit()]
    return bool(named) and UNIT_PARTS.issuperset(named)


def _parted(pieces: list[_Piece], vocabulary: Vocabulary) -> Iterator[_Piece]:
    """The pieces, with words joined by underscores taken apart unless a value is called so."""
    for piece in pieces:
        if piece.kind != "joined" or vocabulary.meaning((piece.text,)):
            yield piece
        else:
            for word in re.findall(r"[a-z]+|[0-9]+", piece.text):
                kind = "number" if word.isdigit() else "word"
                yield replace(piece, kind=kind, text=word)


def _longest(pieces: list[_Piece], start: int, vocabulary: Vocabulary) -> tuple[list[Token], int]:
    """The token of the longest known phrase that starts here, and how many pieces it takes.

    Two names for words that name two values at once.
    """
    words: list[str] = []
    ends: list[int] = []
    found, length = [_single(pieces[start])], 1
    position = start
    most = max(vocabulary.longest, LONGEST, _LONGEST_NUMBER)
    while position < len(pieces) and len(words) < most:
        piece = pieces[position]
        position += 1
        if piece.kind == "sign" and piece.text in "-&" and words and piece.tight:
            continue  # the hyphen of e-mail
        if piece.kind == "unit":  # "term in years" may be the name of a value
            words += ["in", *re.findall(r"[a-z]+|[0-9]+", piece.text)]
        elif piece.kind in ("word", "number", "joined"):
            words.append(piece.text)
        else:
            break
        ends += [position - start] * (len(words) - len(ends))
        if grammar := WORDS.get(tuple(words)):
            found, length = [grammar], position - start
        meaning = vocabulary.meaning(tuple(words))
        if meaning and not (meaning.capitals and pieces[start].small):
            kind: TokenKind = "class" if meaning.label else "name"
            found = [Token(kind=kind, text=meaning.name, says=meaning.says)]
            if meaning.beside:
                says = vocabulary.spelt[meaning.beside]
                found += [Token(kind="and"), Token(kind="name", text=meaning.beside, says=says)]
            length = position - start
    number = read_words(words)
    if number is not None and ends[number[1] - 1] >= length:
        return [Token(kind="number", text=f"{number[0]:f}")], ends[number[1] - 1]
    return found, length


def _single(piece: _Piece) -> Token:
    """A piece that starts no phrase."""
    if piece.kind == "number":
        return Token(kind="number", text=piece.text.replace(",", ""))
    if piece.kind == "unit":
        return Token(kind="unit", text=piece.text)
    if piece.kind == "sign":
        if piece.text == ":" and piece.tight:
            return Token(kind="operator", text="/", tight=True)
        kind = SIGNS[piece.text]
        return Token(kind=kind, text=piece.text, tight=piece.tight, leads=piece.leads)
    return Token(kind="unknown")


def _generic(tokens: list[Token], vocabulary: Vocabulary) -> list[Token]:
    """Let "risk" and "score" find the target that they stand beside."""
    settled: list[Token] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token.kind not in ("class", "target") or token.text:
            settled.append(token)
            continue
        before = settled[-1] if settled else token
        after, skipped = _beside(tokens, position)
        if before.kind == "name":
            settled[-1:] = [_judged(before, token, vocabulary)]
        elif after is not None and (token.kind == "target" or after.text in vocabulary.scored):
            settled.append(_judged(after, token, vocabulary))
            position = skipped
        else:
            settled.append(token)
    return settled


def _judged(name: Token, generic: Token, vocabulary: Vocabulary) -> Token:
    if generic.kind == "target":  # the score of a target, the result of a test: the value itself
        return name
    if name.text in vocabulary.scored:
        return Token(kind="class", text=name.text)
    return Token(kind="unknown")


def _beside(tokens: list[Token], position: int) -> tuple[Token | None, int]:
    """The name that follows "of", "for" or "from", and the position after it."""
    if tokens[position].kind in ("preposition", "marker"):
        while tokens[position].kind in ("preposition", "marker", "determiner", "qualifier"):
            position += 1
        if tokens[position].kind == "name":
            return tokens[position], position + 1
    return None, position


def _all_values(tokens: list[Token]) -> list[Token]:
    """Put one token in the place of "all your values" and of "your numbers"."""
    found: list[Token] = []
    position = 0
    while position < len(tokens):
        end = _end_of_all(tokens, position)
        if end > position:
            found.append(Token(kind="all", text="roots"))
            position = end
        else:
            found.append(tokens[position])
            position += 1
    return found


def _end_of_all(tokens: list[Token], start: int) -> int:
    """Where a mention of all values that starts here ends; the start itself if there is none."""
    if tokens[start].kind != "determiner":
        return start
    position = start
    whole = False
    while tokens[position].kind in ("determiner", "qualifier") or (
        tokens[position].kind == "preposition" and tokens[position - 1].text in WHOLE
    ):
        whole = whole or tokens[position].text in WHOLE
        position += 1
    noun, following = tokens[position - 1].text, tokens[position]
    if noun not in NOUNS or not (whole or noun in SEVERAL):
        return start
    alone = following.kind in ("comma", "and", "filler", "marker") or (
        following.kind == "end" and following.text != ":"
    )
    about = following.kind == "marker" and tokens[position + 1].kind in _THINGS
    return position if alone and not about else start
