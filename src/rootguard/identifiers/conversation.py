"""The tokens of one conversation: issued apart from its words, and restored only there.

Make every text of a request known first (`apart_from`), then protect what is found in them, then
restore the reply with the same object. A token is the first candidate of its identifier that
is no word of the conversation and stands for nothing else, so the same person's next conversation
has the same token unless it clashes there. However an identifier is spelled ("+1 415 555 0132",
"(415) 555-0132"; "1971-03-14", "14 March 1971"; "KZ-8841730", "kz8841730"), it has one token,
spelled alike. An e-mail address is made of the tokens of the names in it.

A conversation holds tokens, keyed hashes, and salted hashes of its words; what a token stands for
is in the registry, sealed. `Conversations` finds one again by an id, for services that keep the
history themselves.
"""

import datetime
import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NoReturn, SupportsIndex, TypeVar

from rootguard.errors import shielded
from rootguard.identifiers.ff1 import MIN_DOMAIN, Permutation, tweak_of
from rootguard.identifiers.formats import (
    FIRST_DAY,
    KINDS,
    LAST_DAY,
    LISTS,
    IdentifierRefusal,
    Kind,
    Role,
    Style,
    Written,
    check_size,
    place_of,
    read,
    read_day,
    read_digits,
    read_name,
    refused,
    restyle,
    style_of,
)
from rootguard.identifiers.registry import IssuedToken
from rootguard.identifiers.replies import ReplyStream, TokenForms, alphanumeric

LITERAL = b"\xff"
"""Begins the payload of an entry that holds the identifier as it is written. No text in UTF-8 and
no number of an attempt begins so."""
Apart = Callable[[str], bool]

# Candidates before an identifier is refused, as in `tokens`.
_TRIES = 64
_MOST = 256
_MOST_WORDS = 400_000
"""Conversations of one person that are known by an id, and the words of them all: some 30 MB."""
_SENT = 1024
"""Sanitized texts that are known again in one conversation, at 16 bytes each."""
_WORD = re.compile(r"[^\W\d_]+|[0-9]+")
# The same for a text of ASCII, and much quicker: its letters, and its digits, with blanks between.
_OF_WORDS = (
    "".join(chr(code) if chr(code).isalpha() else " " for code in range(128)),
    "".join(chr(code) if chr(code).isdigit() else " " for code in range(128)),
)
_PARTS = re.compile(r"[^\W\d_]+|[0-9]+|[\W_]+")
_LEAST_WORD = 3
"""Letters of a word that is looked for inside another, as "roe" in "jroe"."""
_PUBLIC_SECOND = frozenset(("ac", "co", "com", "edu", "gov", "net", "nhs", "org"))
"""Labels that say as little as the country's behind them: "example.co.uk"."""
_DAYS = LAST_DAY.toordinal() - FIRST_DAY.toordinal() + 1


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Issuer:
    """What a conversation asks of the identifiers it issues for; all of it with the lock held.

    `word` and `initial` give the token of a name's word, `settle` records one that was made here,
    `original` opens one, `avoided` knows the words of declared names, and `declared` the canonical
    token of a declared identifier by its keyed hash.
    """

    lock: threading.RLock
    refresh: Callable[[], None]
    permutation: Permutation
    digest: Callable[[str], bytes]
    word: Callable[[str, Role, Apart], str | None]
    initial: Callable[[str], str | None]
    settle: Callable[[Kind, str, bytes], bool]
    original: Callable[[Kind, str], str | None]
    avoided: Callable[[str], bool]
    declared: Callable[[bytes], str | None]
    entries: Callable[[], list[IssuedToken]]


class ConversationTokens:
    """Protects and restores in one conversation. Safe to share by threads."""

    __slots__ = (
        "_capitalised",
        "_forms",
        "_images",
        "_issuer",
        "_key",
        "_lock",
        "_sent",
        "_taken",
        "_told",
        "_vocabulary",
        "_words",
    )

    def __init__(self, issuer: Issuer, *, whole_registry: bool = False) -> None:
        self._issuer = issuer
        # Taken before the identifiers' lock, never after it.
        self._lock = threading.RLock()
        self._key = os.urandom(16)
        # Hashes with Python's salt of this process: a word can be asked for, not read.
        self._vocabulary: set[int] = set()
        self._capitalised: set[int] = set()
        self._forms = TokenForms(issuer.original, self._mentioned)
        # By keyed hash of the identifier: its token; the tokens of a word, in any letter case; the
        # image that a number or day has in every spelling; and whose a sequence of digits is.
        self._told: dict[bytes, str] = {}
        self._words: dict[bytes, list[str]] = {}
        self._images: dict[bytes, str] = {}
        self._taken: dict[str, bytes] = {}
        self._sent: OrderedDict[bytes, None] = OrderedDict()
        if whole_registry:
            self._take_registry()

    def apart_from(self, *texts: str) -> None:
        """These texts are part of the conversation: no token is a word of theirs.

        A name that was issued here before and stands in one of them is somebody's real name: it
        is issued no more, and is restored still. Not if it stands there as the whole name that was
        issued, or if the text was `sent` from here.
        """
        with self._lock:
            for text in texts:
                if self._digest(text) in self._sent:
                    continue
                folded = _words_of(text)
                said = {hash(word.lower()) for word in folded}
                self._retire(text, said)
                self._vocabulary |= said
                self._capitalised |= {
                    hash(word.lower())
                    for word in folded
                    if len(word) >= _LEAST_WORD and word[0].isupper()
                }

    def adopt(self, kind: Kind, token: str) -> None:
        """Take up a token of this person's that was issued elsewhere and stands in a text here."""
        with self._lock, self._issuer.lock:
            self._issuer.refresh()
            if kind != "person":
                self._take(kind, token)
                return
            pieces = read_name(token) or ()
            said: dict[Role, list[str]] = {"given": [], "surname": []}
            for piece in pieces:
                if piece.part == "initial":
                    self._forms.add_initial(piece.text, ())
                base = style_of(piece.text)[0]
                original = self._issuer.original(kind, base) if piece.part == "word" else None
                if original is not None and base.lower() not in self._forms.words:
                    self._take_word(self._word_key(original), base, piece.role)
                if original is not None:
                    said[piece.role].append(base)
            for one in said["given"]:
                for other in said["surname"]:
                    self._forms.pair(one, other)

    def sent(self, text: str) -> None:
        """Know a text that left with its tokens: making it known again changes nothing."""
        with self._lock:
            self._sent[self._digest(text)] = None
            while len(self._sent) > _SENT:
                self._sent.popitem(last=False)

    @shielded
    def protect(self, kind: Kind, text: str) -> str:
        """The token of an identifier in this conversation; the same one every time."""
        check_size(kind, text)
        with self._lock:
            known = self._issuer.digest(f"{kind} {text}")
            token = self._told.get(known)
            if token is None:
                with self._issuer.lock:
                    self._issuer.refresh()
                    token = self._protect(kind, text)
                self._told[known] = token
            return token

    def knows_word(self, word: str) -> bool:
        """Whether a word is part of a name that has a token in this conversation."""
        return self._word_key(word) in self._words

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where tokens of this conversation stand in a text, in order: to leave them alone."""
        with self._lock:
            return [(each.start, each.end) for each in self._forms.finds(text, anywhere=True)[0]]

    def restore_text(self, text: str) -> str:
        """The text with every token of this conversation restored; the rest stays as it is."""
        return self._restored(text, 0, True)[0]

    def stream(self) -> ReplyStream:
        """`restore_text` for a text that arrives in pieces."""
        return ReplyStream(self._restored)

    def __len__(self) -> int:
        """How many different words the conversation has."""
        return len(self._vocabulary)

    def __repr__(self) -> str:
        return "<tokens of a conversation>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a conversation leads to identifiers and cannot be pickled or copied")

    def _restored(self, text: str, first: int, last: bool) -> tuple[str, int]:
        with self._lock:
            found, cut = self._forms.finds(text, first, last=last)
            shown, rest = [], first
            if found:
                with self._issuer.lock:
                    self._issuer.refresh()
                    for each in found:
                        meant = each.meant()
                        if meant is not None:
                            shown += [text[rest : each.start], meant]
                            rest = each.end
        return "".join((*shown, text[rest:cut])), cut

    # What stands in the conversation

    def _digest(self, text: str) -> bytes:
        made = hashlib.blake2b(key=self._key, digest_size=16)
        made.update(text.encode("utf-8", "surrogatepass"))
        return made.digest()

    def _mentioned(self, word: str) -> bool:
        return hash(word) in self._vocabulary

    def _apart(self, token: str) -> bool:
        """Whether a token is not written with words and numbers of the conversation alone."""
        return not all(map(self._mentioned, _WORD.findall(token.lower())))

    def _apart_as_word(self, token: str) -> bool:
        """Whether a word of a name is free here: neither said nor issued, nor a plural of such."""
        key = token.lower()
        alike = (key, key + "s", key[:-1] if key[-1:] == "s" else key)
        return not any(self._mentioned(each) or each in self._forms.words for each in alike)

    def _retire(self, text: str, said: set[int]) -> None:
        """Issue no more of the names that a text says, unless it says them as they were issued."""
        met = {key for key in self._forms.words if hash(key) in said} - self._forms.retired
        if not met:
            return
        real = met & self._forms.unpaired(text)
        if not real:
            return
        self._forms.retired |= real
        self._told.clear()
        for tokens in self._words.values():
            tokens[:] = [token for token in tokens if token.lower() not in real]

    def _take_registry(self) -> None:
        issuer = self._issuer
        with issuer.lock:
            issuer.refresh()
            for entry in issuer.entries():
                original = issuer.original(entry.kind, entry.token)
                if original is None:
                    continue
                if entry.kind != "person":
                    self._take(entry.kind, entry.token)
                elif len(entry.token) == 1:
                    self._forms.add_initial(entry.token, ())
                elif style_of(entry.token)[1] == "written":
                    listed = place_of(entry.token)
                    self._take_word(
                        self._word_key(original), entry.token, listed[0] if listed else "surname"
                    )

    def _take(self, kind: Kind, token: str) -> None:
        original = self._issuer.original(kind, token)
        if original is not None:
            self._forms.add(kind, token)
            self._told[self._issuer.digest(f"{kind} {original}")] = token

    # Issuing. All of it with both locks held.

    def _protect(self, kind: Kind, text: str) -> str:
        if kind not in KINDS:
            raise refused(kind, IdentifierRefusal.KIND)
        if kind != "person" and read(kind, text) is None:
            raise refused(kind, IdentifierRefusal.FORM)
        token: str | None
        match kind:
            case "person":
                return self._name(text)
            case "email":
                token = self._email(text)
            case "code":
                token = self._code(text)
            case "phone":
                token = self._phone(text)
            case "date":
                token = self._date(text)
        if token is None:
            raise refused(kind, IdentifierRefusal.FULL)
        return token

    def _record(
        self,
        kind: Kind,
        text: str,
        image: Callable[[int], str],
        write: Callable[[str], str] = str,
    ) -> str | None:
        """The first free token among those that `write` makes of the images of an identifier.

        The image that another spelling has here comes first, then the one of a declared identifier.
        """
        key = self._issuer.digest(sameness(kind, text))
        payload = LITERAL + text.encode("utf-8", "surrogatepass")
        known = self._images.get(key)
        declared = self._issuer.declared(key)
        firsts = [each for each in (known, declared) if each is not None]
        for number in range(-len(firsts), _TRIES):
            made = firsts[number] if number < 0 else image(number)
            token = write(made)
            sequence = alphanumeric(token)
            if token == text or self._taken.get(sequence, key) != key:
                continue
            if made != known and not self._apart(token):
                continue
            if self._issuer.settle(kind, token, payload):
                self._images[key] = made
                self._taken[sequence] = key
                self._forms.add(kind, token)
                return token
        return None

    def _image(self, written: Written, what: str, attempt: int) -> str:
        tweak = tweak_of(what.encode(), written.shape, bytes([attempt]))
        return written.write(self._issuer.permutation.forward(written.rank, written.size, tweak))

    def _code(self, text: str) -> str | None:
        """Letters and digits as one sequence; separators and letter case as they are written."""
        written = read("code", canonical("code", text))
        if written is None or written.size < MIN_DOMAIN:
            raise refused("code", IdentifierRefusal.SMALL)
        return self._record(
            "code",
            text,
            lambda attempt: self._image(written, "code", attempt),
            lambda image: _filled(text, image),
        )

    def _phone(self, text: str) -> str | None:
        """The national number, whatever stands before it; an extension by a keyed hash."""
        if any(map(str.isalpha, text)):  # in a reply "ext. 12" would not be known for its own
            raise refused("phone", IdentifierRefusal.FORM)
        parts, national = read_digits(text), canonical("phone", text)
        written = read("phone", national) if national else None
        if parts is None or written is None or written.size < MIN_DOMAIN:
            raise refused("phone", IdentifierRefusal.SMALL)
        before, after = parts.digits[: parts.national.start], parts.digits[parts.national.stop :]
        hidden = self._hidden(after, f"extension {national}") if after else ""
        return self._record(
            "phone",
            text,
            lambda attempt: self._image(written, "phone", attempt),
            lambda image: _filled(text, before + image + hidden),
        )

    def _date(self, text: str) -> str | None:
        """The day among all days, in the same form; a time of day among all of its day's."""
        parts = read_day(text)
        if parts is None:
            raise refused("date", IdentifierRefusal.FORM)
        rank = parts.day.toordinal() - FIRST_DAY.toordinal()
        time = 0
        if parts.times:
            # The day moves the clock: the same hour of two days is not seen to be the same.
            moved = (parts.time + self._shift(rank, parts.times)) % parts.times
            tweak = tweak_of(b"time", str(parts.times).encode())
            time = self._issuer.permutation.forward(moved, parts.times, tweak)

        def image(attempt: int) -> str:
            tweak = tweak_of(b"day", bytes([attempt]))
            moved = self._issuer.permutation.forward(rank, _DAYS, tweak)
            return (FIRST_DAY + datetime.timedelta(moved)).isoformat()

        return self._record(
            "date", text, image, lambda day: parts.write(datetime.date.fromisoformat(day), time)
        )

    def _shift(self, rank: int, times: int) -> int:
        return int.from_bytes(self._issuer.digest(f"shift {rank}")) % times

    def _hidden(self, digits: str, what: str) -> str:
        """Other digits in the place of these, by a keyed hash."""
        stream = self._issuer.digest(f"digits {what} {digits}")
        made = [str(stream[i % len(stream)] % 10) for i in range(len(digits))]
        if "".join(made) == digits:
            made[-1] = str((int(made[-1]) + 1) % 10)
        return "".join(made)

    # Addresses

    def _email(self, text: str) -> str | None:
        """An address of the names' tokens; the domain under a keyed permutation of its own.

        A domain is replaced because it may be an employer's or the person's own; always by the
        same one, so that colleagues are still seen to be colleagues. What stands behind its last
        full stop is kept, as in every address.
        """
        local, _, domain = text.rpartition("@")
        labels = domain.split(".")
        country = len(labels) > 2 and len(labels[-1]) == 2
        kept = 2 if country and labels[-2].lower() in _PUBLIC_SECOND else 1
        head, tail = ".".join(labels[:-kept]), ".".join(labels[-kept:])
        plain = "".join(filter(_replaceable, head)).lower()
        written = read("code", plain) if plain else None
        fresh = self._local(local)

        def make(attempt: int) -> str:
            if written is not None and written.size >= MIN_DOMAIN:
                host = _filled(head, self._image(written, "domain", attempt))
            else:
                host = self._listed(f"domain {head} {attempt}").lower()
            return f"{fresh}@{host}.{tail}"

        return self._record("email", text, make)

    def _listed(self, what: str) -> str:
        listed = LISTS["surname"]
        return listed[int.from_bytes(self._issuer.digest(what)) % len(listed)]

    def _local(self, local: str) -> str:
        """The names of an address by their tokens, whatever joins them; digits by other digits."""
        parts = [piece for part in _PARTS.findall(local) for piece in self._cut(part)]
        spelled = [i for i, part in enumerate(parts) if part[0].isalpha() and len(part) > 1]
        made = dict.fromkeys(range(len(parts)), "")
        for i in spelled:
            role: Role = "surname" if i == spelled[-1] else "given"
            token = self._word(parts[i], role)
            if token is None:
                raise refused("email", IdentifierRefusal.FULL)
            made[i] = token
        if len(spelled) > 1:
            self._forms.pair(made[spelled[0]], made[spelled[-1]])
        for i, part in enumerate(parts):
            if part[0].isdecimal():
                made[i] = self._hidden(part, f"local {local.lower()}")
            elif part[0].isalpha() and len(part) == 1:
                letter = self._letter(part, [made[j] for j in spelled])
                made[i] = letter.lower() if part.islower() else letter
            elif not made[i]:
                made[i] = part
        return "".join(made.values())

    def _cut(self, part: str) -> list[str]:
        """A part in two names, or an initial and a name, if those are known: "janeroe", "jroe"."""
        if not part[0].isalpha() or self._is_name(part):
            return [part]
        cuts = [(part[:place], part[place:]) for place in range(1, len(part))]
        for one, other in cuts:
            if self._is_name(one) and self._is_name(other):
                return [one, other]
        for one, other in cuts:
            if (len(one) == 1 and self._is_name(other)) or (len(other) == 1 and self._is_name(one)):
                return [one, other]
        return [part]

    def _is_name(self, word: str) -> bool:
        """Whether a word was issued or declared, or stands in the conversation with a capital."""
        return len(word) >= _LEAST_WORD and (
            hash(word.lower()) in self._capitalised
            or self._word_key(word) in self._words
            or self._issuer.avoided(word.capitalize())
        )

    def _letter(self, letter: str, beside: list[str]) -> str:
        """The initial of the token of a name that begins with a letter, else a keyed letter."""
        partner = self._partner(letter, beside)
        if partner is not None:
            return partner
        image = self._issuer.digest(f"letter {letter.lower()}")[0] % 25
        place = ord(letter.lower()) - ord("a")
        if not 0 <= place < 26:
            return chr(ord("A") + image)
        return chr(ord("A") + (place + 1 + image) % 26)

    def _partner(self, letter: str, beside: list[str]) -> str | None:
        """The first letter of a token beside these whose original begins with a letter."""
        for token in beside:
            for key in sorted(self._forms.partners.get(token.lower(), ())):
                other = self._forms.words[key].token
                original = self._issuer.original("person", other)
                if original is not None and original[:1].upper() == letter.upper():
                    return other[0]
        return None

    # Names

    def _name(self, text: str) -> str:
        pieces = read_name(text)
        if pieces is None:
            raise refused("person", IdentifierRefusal.FORM)
        tokens: list[str | None] = [
            self._word(piece.text, piece.role) if piece.part == "word" else piece.text
            for piece in pieces
        ]
        said = [
            (piece.role, token)
            for piece, token in zip(pieces, tokens, strict=True)
            if piece.part == "word" and token is not None
        ]
        given = [token for role, token in said if role == "given"]
        surnames = [token for role, token in said if role == "surname"]
        for i, piece in enumerate(pieces):
            if piece.part == "initial":
                tokens[i] = (None if given else self._partner(piece.text, surnames)) or (
                    self._initial(piece.text, given + surnames)
                )
        if None in tokens:
            raise refused("person", IdentifierRefusal.FULL)
        for one in given:
            for other in surnames:
                self._forms.pair(one, other)
        return "".join(token for token in tokens if token is not None)

    def _initial(self, letter: str, beside: list[str]) -> str | None:
        token = self._issuer.initial(letter)
        if token is not None:
            self._forms.add_initial(token, beside)
        return token

    def _word(self, text: str, role: Role) -> str | None:
        """The token of a word of a name, in its letter case; one for all letter cases."""
        known = self._word_key(text)
        for token in self._words.get(known, ()):
            base = self._issuer.original("person", token)
            for style in _STYLES if base is not None else ():
                if base is not None and restyle(base, style) == text:
                    return restyle(token, style)
        word, style = style_of(text)
        fresh = self._issuer.word(word, role, self._apart_as_word)
        if fresh is None:
            return None
        # In another letter case it is the same word, but for a few letters beyond ASCII.
        self._take_word(known if text.isascii() else self._word_key(word), fresh, role)
        written = restyle(fresh, style)
        if written != fresh:  # for who restores without the conversation
            self._issuer.settle("person", written, word.encode())
        return written

    def _word_key(self, word: str) -> bytes:
        return self._issuer.digest(f"word {word.casefold()}")

    def _take_word(self, known: bytes, token: str, role: Role) -> None:
        self._words.setdefault(known, []).append(token)
        self._forms.add_word(token, role)


def _words_of(text: str) -> set[str]:
    """The different words and numbers of a text."""
    if not text.isascii():
        return set(_WORD.findall(text))
    letters, digits = (text.translate(table).split() for table in _OF_WORDS)
    return {*letters, *digits}


_STYLES: tuple[Style, ...] = ("written", "upper", "lower")


def canonical(kind: Kind, text: str) -> str:
    """What all spellings of an identifier have in common, and those of its token likewise."""
    match kind:
        case "code":
            return "".join(filter(_replaceable, text)).upper()
        case "phone":
            parts = read_digits(text)
            return "" if parts is None else "".join(parts.digits[at] for at in parts.national)
        case "date":
            day = read_day(text)
            return "" if day is None else day.day.isoformat()
        case "email" | "person":
            return text.lower()


def sameness(kind: Kind, text: str) -> str:
    """`canonical` and the kind, to be hashed."""
    return f"same {kind} {canonical(kind, text)}"


def _replaceable(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _filled(text: str, characters: str) -> str:
    """The text with other letters and digits, in the letter case of its own."""
    others = iter(characters)
    return "".join(_fill(each, next(others)) if _replaceable(each) else each for each in text)


def _fill(own: str, other: str) -> str:
    return other.upper() if own.isupper() else other.lower()


Talk = TypeVar("Talk", bound=ConversationTokens)


class Conversations(Generic[Talk]):
    """Conversations by the id that a service knows them by. In memory; safe to share by threads.

    The one that was not asked for longest goes first.
    """

    __slots__ = ("_by_id", "_lock", "_most", "_most_words")

    def __init__(self, *, most: int = _MOST, most_words: int = _MOST_WORDS) -> None:
        self._by_id: OrderedDict[str, Talk] = OrderedDict()
        # Looking one up moves it to the end, so that readers change the order, too.
        self._lock = threading.Lock()
        self._most, self._most_words = most, most_words

    def keep(self, name: str, conversation: Talk) -> None:
        """Know a conversation by an id; it may have several."""
        with self._lock:
            self._by_id[name] = conversation
            self._by_id.move_to_end(name)
            while len(self._by_id) > self._most or self._crowded():
                self._by_id.popitem(last=False)

    def find(self, name: str) -> Talk | None:
        """The conversation of an id, if it is known still."""
        with self._lock:
            if name not in self._by_id:
                return None
            self._by_id.move_to_end(name)
            return self._by_id[name]

    def _crowded(self) -> bool:
        different = {id(each): len(each) for each in self._by_id.values()}
        return len(different) > 1 and sum(different.values()) > self._most_words

    def __len__(self) -> int:
        return len(self._by_id)

    def __repr__(self) -> str:
        return f"<{len(self)} conversations>"
