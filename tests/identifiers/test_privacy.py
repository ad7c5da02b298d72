"""What identifiers never show: in errors, their frames, representations, stored entries, copies."""

import copy
import json
import pickle
import traceback

import pytest

import rootguard.identifiers as public
from rootguard.errors import IdentifierError
from rootguard.identifiers import Identifiers, Kind, MemoryTokens, kind_of, new_key
from tests.support.canary import own_locals
from tests.support.identifier_makers import KEY, fresh

CANARY = "Canarybird"
DIGITS = "739184652"


def private_frames(error: BaseException) -> list[str]:
    """Local variables of the library's frames, and everything the error chain would print."""
    shown = ["".join(traceback.format_exception(error))]
    link: BaseException | None = error
    while link is not None:
        shown += [str(link), repr(link), repr(link.__dict__)]
        shown += own_locals(link)
        link = link.__cause__ or link.__context__
    return shown


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", DIGITS),
        ("email", DIGITS),
        ("phone", CANARY),
        ("person", CANARY + DIGITS),
        ("code", DIGITS * 40),
        (CANARY, DIGITS),
        (DIGITS, "code"),
        ("code", 739184652),
        ("code", [DIGITS]),
    ],
)
@pytest.mark.parametrize("method", ["protect", "restore"])
def test_no_error_and_no_frame_of_it_holds_the_identifier(
    method: str, kind: Kind, text: str
) -> None:
    identifiers = fresh()
    with pytest.raises(IdentifierError) as caught:
        getattr(identifiers, method)(kind, text)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    source = "".join(private_frames(error)[1:])
    assert CANARY not in source
    assert DIGITS not in source


def test_the_canary_would_be_seen_in_a_frame_that_held_it() -> None:
    """A control: the search above does find a local variable of a library frame."""
    with pytest.raises(TypeError) as caught:
        kind_of(DIGITS.encode())  # type: ignore[arg-type]
    assert DIGITS in "".join(private_frames(caught.value)[1:])


def test_representations_and_stored_entries_show_nothing() -> None:
    store = MemoryTokens()
    identifiers = Identifiers(KEY, store)
    identifiers.protect("person", CANARY)
    identifiers.protect("code", DIGITS)
    shown = [repr(identifiers), str(identifiers), f"{identifiers}", repr(store)]
    shown += [repr(entry) for entry in store]
    shown += [repr(getattr(identifiers, slot)) for slot in Identifiers.__slots__]
    assert len(store) == 2
    assert repr(identifiers) == "<identifiers>"
    for text in shown:
        assert CANARY not in text
        assert DIGITS not in text
        assert KEY.hex() not in text
        assert repr(KEY)[2:-1] not in text


def test_stored_entries_do_not_show_how_long_a_name_is() -> None:
    store = MemoryTokens()
    identifiers = Identifiers(KEY, store)
    for name in ("Zy", "Zyxwvutsrqponmlkj", "Maria"):
        identifiers.protect("person", name)
    assert len({len(entry.sealed) for entry in store}) == 1


def test_identifiers_refuse_to_be_pickled_copied_or_written_as_json() -> None:
    identifiers = fresh()
    for copier in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError):
            copier(identifiers)


@pytest.mark.parametrize("key", [b"", bytes(16), bytes(33), "0" * 32, None])
def test_a_key_that_is_not_32_bytes_is_refused(key: bytes) -> None:
    with pytest.raises(IdentifierError, match="32 bytes"):
        Identifiers(key)


def test_new_keys_are_fresh_and_fit() -> None:
    keys = {new_key() for _ in range(20)}
    assert len(keys) == 20
    assert all(len(key) == 32 for key in keys)
    assert Identifiers(keys.pop()).protect("code", "4415-8820") != "4415-8820"


def test_the_public_names_are_these() -> None:
    assert " ".join(public.__all__) == (
        "ConversationTokens Conversations Identifiers IssuedToken IssuedTokens Kind MemoryTokens "
        "kind_of new_key"
    )
