"""Identifiers in, tokens out, and back: the one class that holds the key.

A token looks like what it stands for (see `formats` and `names`) and is drawn from all that look so
by a keyed permutation (see `ff1` for what that promises). Visible to anyone: that two equal
identifiers are equal, their kind and their shape. Restored is only what was issued (`registry`).

A token text means one thing. When a candidate is the identifier itself or already stands for
something else, the next one is taken: the same permutation under the next tweak.
"""

import hashlib
import hmac
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn, SupportsIndex

from rootguard.errors import IdentifierError, shielded
from rootguard.identifiers.conversation import (
    LITERAL,
    Apart,
    ConversationTokens,
    Issuer,
    canonical,
    sameness,
)
from rootguard.identifiers.ff1 import (
    KEY_BYTES,
    MIN_DOMAIN,
    Permutation,
    derive_key,
    tweak_of,
)
from rootguard.identifiers.formats import (
    KINDS,
    LISTS,
    MAX_LENGTH,
    IdentifierRefusal,
    Kind,
    Role,
    Written,
    check_size,
    looks_like_name,
    place_of,
    read,
    read_name,
    refused,
    restyle,
    style_of,
)
from rootguard.identifiers.registry import (
    IssuedToken,
    IssuedTokens,
    MemoryTokens,
    Seal,
    TokenIndex,
    TokenMention,
    initials_beside,
    replace,
)
from rootguard.identifiers.streaming import Lookup, StreamRestorer

# Candidates before an identifier is refused. Each is free or not at random: with half of a shape's
# tokens taken, all are taken with probability 2**-64.
TRIES = 64
# Tokens known again without a permutation: more than one conversation names, and about 1 MB.
_REMEMBERED = 4096
_PHONE_SHAPES = re.compile(
    r"\+[0-9][0-9 ().\-/]{5,}"
    r"|(?:1[ .-]?)?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4}"
    r"|\(?0[0-9]{1,4}\)?[ /-][0-9][0-9 -]{4,}[0-9]",
    re.ASCII,
)


def new_key() -> bytes:
    """A fresh 32-byte key from the operating system's generator."""
    return os.urandom(KEY_BYTES)


def kind_of(text: str) -> Kind:
    """The likeliest kind: date, e-mail, phone, person, else code. A guess, never a check."""
    if read("date", text) is not None:
        return "date"
    if read("email", text) is not None:
        return "email"
    if _PHONE_SHAPES.fullmatch(text) and read("phone", text) is not None:
        return "phone"
    return "person" if looks_like_name(text) else "code"


class Identifiers:
    """Protects and restores one owner's identifiers under one key. Safe to share by threads.

    Same key and same registry give the same tokens. Without the registry nothing is restored.
    """

    __slots__ = (
        "_avoided",
        "_begun",
        "_declared",
        "_index",
        "_issued",
        "_known",
        "_last",
        "_lock",
        "_looked",
        "_names_key",
        "_permutation",
        "_read",
        "_seal",
    )

    @shielded
    def __init__(self, key: bytes, issued: IssuedTokens | None = None) -> None:
        if not _sized(key, bytes, KEY_BYTES, KEY_BYTES):
            raise IdentifierError(f"a key is {KEY_BYTES} bytes; make one with new_key()")
        self._permutation = Permutation(key)
        self._seal = Seal(key)
        self._names_key = derive_key(key, "names")
        self._issued: IssuedTokens = MemoryTokens() if issued is None else issued
        self._index = TokenIndex()
        self._read = 0  # entries of the registry that were taken up, and the last one of them
        self._last = ""
        # Reentrant: a stream looks things up with the lock held, and so does `one_look`. Issuing is
        # serialised here so that one thread's candidate is not another's; between processes the
        # registry's `add` decides, which keeps the first entry of a token.
        self._lock = threading.RLock()
        self._looked = threading.local()
        self._begun = 0
        self._known: dict[bytes, str] = {}
        self._avoided: set[bytes] = set()
        self._declared: dict[bytes, str] = {}
        self._refresh()

    @shielded
    def protect(self, kind: Kind, text: str) -> str:
        """The token of an identifier; the same one every time."""
        with self._lock:
            self._refresh()
            return self._protect_once(kind, text)

    def avoid(self, name: str) -> None:
        """Issue no word of this name from now on, so that a token is never the owner's own name.

        It is known again by a keyed hash. What is no name is passed over.
        """
        with self._lock:
            for piece in read_name(name) or ():
                if piece.part == "word":
                    self._avoided.add(self._hashed(style_of(piece.text)[0]))

    def declare(self, kind: Kind, text: str, token: str) -> None:
        """Know an identifier of the profile and its token: conversations take it before others.

        It is known again by a keyed hash. Names and addresses have their own rule there.
        """
        if kind not in ("person", "email"):
            with self._lock:
                self._declared[self._digest(sameness(kind, text))] = canonical(kind, token)

    def _hashed(self, word: str) -> bytes:
        return hmac.digest(self._names_key, b"avoided " + word.encode(), hashlib.sha256)

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """The registry is looked at once for all that this thread asks inside."""
        if getattr(self._looked, "inside", False):
            yield
            return
        with self._lock:
            self._refresh()
        self._looked.inside = True
        try:
            yield
        finally:
            self._looked.inside = False

    def cursor(self) -> tuple[int, int]:
        """How far the registry goes now, for `since`."""
        with self._lock:
            self._refresh()
            return self._begun, len(self._index)

    def since(self, cursor: tuple[int, int]) -> list[str] | None:
        """The tokens that were issued since then; None if the registry has begun anew."""
        with self._lock:
            self._refresh()
            begun, size = cursor
            return self._index.last(len(self._index) - size) if begun == self._begun else None

    @shielded
    def restore(self, kind: Kind, token: str) -> str:
        """The identifier behind an issued token, to the character; a name word by word."""
        with self._lock:
            self._refresh()
            original = self._restore(kind, token)
        if original is None:
            raise refused(kind, IdentifierRefusal.UNISSUED)
        return original

    def issued(self, kind: Kind, token: str) -> bool:
        """Whether `restore` would restore it."""
        with self._lock:
            self._refresh()
            return self._restore(kind, token) is not None

    def restore_text(self, text: str) -> str:
        """The text with every issued token restored; everything else stays as it is.

        Names are restored word by word, up to eight tied words or initials in a row. A token counts
        where it stands alone, not inside a longer number or word. Very short tokens ("7") are found
        in ordinary text too: protect whole identifiers, not their fragments.
        """
        return replace(text, self._found(text))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the tokens stand that `restore_text` would restore, in order."""
        taken = bytearray(len(text))
        chosen: list[tuple[int, int]] = []
        for each in sorted(self._found(text), key=lambda each: (each.start - each.end, each.start)):
            # Every chosen one is at least as long, so an overlap covers an end of this one.
            if not taken[each.start] and not taken[each.end - 1]:
                taken[each.start : each.end] = b"\x01" * (each.end - each.start)
                chosen.append((each.start, each.end))
        return sorted(chosen)

    def _found(self, text: str) -> list[TokenMention]:
        """Every mention of an issued token; some may overlap."""
        with self._lock:
            self._refresh()
            index = self._index
            issued = (
                span
                for span in index.spans(text)
                if (token := text[slice(*span)]) in index.tokens or token in index.words
            )
            found = list(self._mentions(text, issued))
            named = list(self._mentions(text, index.named(text), person=True))
            if not named:  # and then no initial stands beside one
                return found
            starts, ends = {name.start: 0 for name in named}, {name.end: 0 for name in named}
            initials = initials_beside(text, starts, ends, self._restore_word)
        return found + named + initials

    def issuer(self) -> Issuer:
        """What a conversation issues and restores its tokens with."""
        return Issuer(
            lock=self._lock,
            refresh=self._refresh,
            permutation=self._permutation,
            digest=self._digest,
            word=self._word_token,
            initial=self._initial_token,
            settle=self._settle_one,
            original=self._original,
            declared=self._declared.get,
            avoided=lambda word: self._hashed(word) in self._avoided,
            entries=lambda: list(self._index),
        )

    def conversation(self, *, whole_registry: bool = False) -> ConversationTokens:
        """Tokens for one conversation; see there.

        `whole_registry` counts as issued in it all that ever was: for a conversation whose
        beginning nobody here remembers.
        """
        return ConversationTokens(self.issuer(), whole_registry=whole_registry)

    def _digest(self, text: str) -> bytes:
        written = b"conversation " + text.encode("utf-8", "surrogatepass")
        return hmac.digest(self._names_key, written, hashlib.sha256)

    def _initial_token(self, letter: str) -> str | None:
        return self._settle("person", self._initials(letter))

    def _settle_one(self, kind: Kind, token: str, payload: bytes) -> bool:
        if self._settle(kind, ((token, payload),)) is not None:
            return True
        # The whole person's `protect` records the same identifier in its own way.
        restored = None if kind == "person" else self._restore(kind, token)
        return restored is not None and LITERAL + _encoded(restored) == payload

    def _original(self, kind: Kind, token: str) -> str | None:
        return self._restore_word(token) if kind == "person" else self._restore(kind, token)

    def stream(self) -> StreamRestorer:
        """`restore_text` for a text that arrives in pieces.

        Tokens issued here while it runs count from then on; those that another process issues may
        count only in streams begun afterwards, so that plain text asks nothing of the registry.
        """
        with self._lock:
            self._refresh()
        return StreamRestorer(
            Lookup(
                lock=self._lock,
                index=lambda: self._index,
                token=self._restore_found,
                name=self._restore_name,
                initial=self._restore_word,
            )
        )

    def _refresh(self) -> None:
        """Know what the registry holds: entries are never changed, only added or all erased."""
        if getattr(self._looked, "inside", False):
            return
        there = len(self._issued)
        if there == self._read == len(self._index):
            return
        # From the last known entry on: if it is another one now, the registry was begun anew.
        found = list(self._issued.since(self._read))
        begins = found[0].token if found else ""
        if there < len(self._index) or (self._read and begins != self._last):  # it was erased
            self._begun += 1
            self._known.clear()
            self._index, self._read = TokenIndex(), 0
            found = list(self._issued)
        for entry in found:
            if self._index.entry(entry.token) is None:
                self._index.add(entry)
        self._read += len(found) - (1 if self._read else 0)
        self._last = found[-1].token if found else ""

    def _entry(self, token: str) -> IssuedToken | None:
        """The entry of a token; another process may have added it since the last look."""
        return self._index.entry(token) or self._issued.find(token)

    def _mentions(
        self, text: str, spans: Iterable[tuple[int, int]], *, person: bool = False
    ) -> Iterator[TokenMention]:
        for start, end in spans:
            token = text[start:end]
            original = self._restore_name(token) if person else self._restore_found(token)
            if original is not None:
                yield TokenMention(start, end, original)

    def _restore_found(self, token: str) -> str | None:
        entry = self._entry(token)
        return None if entry is None else self._restore(entry.kind, token)

    def _protect_once(self, kind: Kind, text: str) -> str:
        """What `_protect` gives, known again by a keyed hash of the identifier."""
        check_size(kind, text)
        written = f"{kind} {text}".encode("utf-8", "surrogatepass")
        known = hmac.digest(self._names_key, b"known " + written, hashlib.sha256)
        token = self._known.get(known) or self._protect(kind, text)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[known] = token
        return token

    def _protect(self, kind: Kind, text: str) -> str:
        if kind not in KINDS:
            raise refused(kind, IdentifierRefusal.KIND)
        if kind == "person":
            return self._protect_name(text)
        written = read(kind, text)
        if written is None:
            raise refused(kind, IdentifierRefusal.FORM)
        if written.size < MIN_DOMAIN:
            raise refused(kind, IdentifierRefusal.SMALL)
        token = self._settle(kind, self._ranked(kind, written))
        if token is None:
            raise refused(kind, IdentifierRefusal.FULL)
        return token

    def _restore(self, kind: Kind, token: str) -> str | None:
        # A token may be longer than its identifier, since names are replaced word by word; the
        # factor is a working choice, and only bounds what is looked up.
        if kind not in KINDS or not _sized(token, str, 1, 4 * MAX_LENGTH):
            return None
        if kind == "person":
            return self._restore_name(token)
        payload = self._payload(kind, token)
        if payload is not None and payload.startswith(LITERAL):
            return payload[len(LITERAL) :].decode("utf-8", "surrogatepass")
        written = None if payload is None else read(kind, token)
        if payload is None or written is None:
            return None
        tweak = tweak_of(kind.encode(), written.shape, payload)
        return written.write(self._permutation.backward(written.rank, written.size, tweak))

    def _ranked(self, kind: Kind, written: Written) -> Iterator[tuple[str, bytes]]:
        """Candidates by permuting ranks; the payload is the number of the tweak used."""
        for attempt in range(TRIES):
            payload = bytes([attempt])
            tweak = tweak_of(kind.encode(), written.shape, payload)
            image = self._permutation.forward(written.rank, written.size, tweak)
            if image != written.rank:
                yield written.write(image), payload

    def _protect_name(self, text: str) -> str:
        pieces = read_name(text)
        if pieces is None:
            raise refused("person", IdentifierRefusal.FORM)
        out = []
        for piece in pieces:
            token: str | None = piece.text
            if piece.part == "initial":
                token = self._settle("person", self._initials(piece.text))
            elif piece.part == "word":
                token = self._protect_word(piece.text, piece.role)
            if token is None:
                raise refused("person", IdentifierRefusal.FULL)
            out.append(token)
        return "".join(out)

    def _protect_word(self, text: str, role: Role) -> str | None:
        word, style = style_of(text)
        token = self._word_token(word, role)
        if token is None or style == "written":
            return token
        return self._settle("person", [(restyle(token, style), word.encode())])

    def _word_token(self, word: str, role: Role, apart: Apart | None = None) -> str | None:
        """The token of a capitalised word of a name."""
        place = place_of(word)
        token = None
        if place is None:
            # A word of neither list keeps the token that it got in the other role, if it has one:
            # "Quill" is the same name in "Quill Roe" and in "Jane Quill".
            other: Role = "given" if role == "surname" else "surname"
            token = self._settle("person", self._names_for(word, other), issue=False, apart=apart)
        else:
            role = place[0]
        return token or self._settle("person", self._names_for(word, role), apart=apart)

    def _restore_name(self, token: str) -> str | None:
        pieces = read_name(token)
        if pieces is None:
            return None
        out = []
        for piece in pieces:
            text = piece.text if piece.part == "kept" else self._restore_word(piece.text)
            if text is None:
                return None
            out.append(text)
        return "".join(out)

    def _restore_word(self, token: str) -> str | None:
        payload = self._payload("person", token)
        return None if payload is None else restyle(payload.decode(), style_of(token)[1])

    def _initials(self, letter: str) -> Iterator[tuple[str, bytes]]:
        # Of 26 letters none becomes itself: so small a permutation is one cycle (`ff1`).
        for attempt in range(TRIES):
            tweak = tweak_of(b"initial", bytes([attempt]))
            image = self._permutation.forward(ord(letter) - ord("A"), 26, tweak)
            yield chr(ord("A") + image), letter.encode()

    def _names_for(self, word: str, role: Role) -> Iterator[tuple[str, bytes]]:
        """Candidates for a name word; the payload is the word itself.

        First listed names: by the list's permutation for a listed word, by keyed hash
        (HMAC-SHA-256) for any other. When those are taken, two listed names written as one.
        """
        listed = LISTS[role]
        place = place_of(word)
        payload = word.encode()
        for attempt in range(2 * TRIES):
            mark = f"{role} {attempt} ".encode()
            if place is not None and attempt < TRIES:
                tweak = tweak_of(mark)
                token = listed[self._permutation.forward(place[1], len(listed), tweak)]
            else:
                digest = hmac.digest(self._names_key, mark + payload, hashlib.sha256)
                # 128 bits each: the remainder's bias is below 1e-35.
                first, second = (int.from_bytes(half) for half in (digest[:16], digest[16:]))
                token = listed[first % len(listed)]
                if attempt >= TRIES:
                    token += listed[second % len(listed)].lower()
            if token != word and self._hashed(token) not in self._avoided:
                yield token, payload

    def _settle(
        self,
        kind: Kind,
        candidates: Iterable[tuple[str, bytes]],
        *,
        issue: bool = True,
        apart: Apart | None = None,
    ) -> str | None:
        """The first candidate that is already this identifier's, or free and now is.

        One that is not `apart` from a conversation's words is passed over.
        """
        for token, payload in candidates:
            if apart is not None and not apart(token):
                continue
            # What is not to be issued is only looked up, as of the look at the registry before.
            entry = self._entry(token) if issue else self._index.entry(token)
            if entry is None:
                if not issue:
                    return None
                fresh = self._seal.close(kind, token, payload)
                # The registry first: a token that was not recorded could never be restored.
                entry = self._issued.add(fresh)
                if entry == fresh:
                    self._index.add(fresh)
            if self._opened(kind, entry) == payload:
                return token
        return None

    def _payload(self, kind: Kind, token: str) -> bytes | None:
        entry = self._entry(token)
        return None if entry is None else self._opened(kind, entry)

    def _opened(self, kind: Kind, entry: IssuedToken) -> bytes | None:
        return self._seal.open(entry) if entry.kind == kind else None

    def __repr__(self) -> str:
        return "<identifiers>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("identifiers hold a key and cannot be pickled or copied")

    def __getstate__(self) -> NoReturn:
        raise TypeError("identifiers hold a key and cannot be pickled or copied")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _sized(value: object, sort: type[bytes | str], least: int, most: int) -> bool:
    return isinstance(value, sort) and least <= len(value) <= most
