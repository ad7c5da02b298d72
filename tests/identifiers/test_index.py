"""What `Identifiers` knows of its registry: one look for many questions, and what came since."""

from collections.abc import Iterator

from rootguard.identifiers import Identifiers, IssuedToken, MemoryTokens, new_key


class Counting(MemoryTokens):
    """A registry that counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def find(self, token: str) -> IssuedToken | None:
        self.asked += 1
        return super().find(token)

    def __len__(self) -> int:
        self.asked += 1
        return super().__len__()

    def __iter__(self) -> Iterator[IssuedToken]:
        self.asked += 1
        return super().__iter__()

    def erase(self) -> None:
        self._entries.clear()


def test_within_one_look_known_tokens_ask_nothing_more_of_the_registry() -> None:
    registry = Counting()
    identifiers = Identifiers(new_key(), issued=registry)
    token = identifiers.protect("code", "KZ-8841730")
    registry.asked = 0
    with identifiers.one_look():
        assert registry.asked == 1
        assert identifiers.protect("code", "KZ-8841730") == token
        assert identifiers.restore_text(f"It is {token}.") == "It is KZ-8841730."
        assert identifiers.spans(f"It is {token}.") == [(6, 6 + len(token))]
        assert registry.asked == 1
    identifiers.spans("")
    assert registry.asked == 2


def test_what_another_process_issues_is_seen_at_the_next_look() -> None:
    key, registry = new_key(), MemoryTokens()
    ours, other = Identifiers(key, issued=registry), Identifiers(key, issued=registry)
    cursor = ours.cursor()
    token = other.protect("code", "KZ-8841730")
    assert ours.restore("code", token) == "KZ-8841730"
    assert ours.since(cursor) == [token]
    assert ours.since(ours.cursor()) == []


def test_after_an_erasure_nothing_is_known_from_before() -> None:
    registry = Counting()
    identifiers = Identifiers(new_key(), issued=registry)
    token = identifiers.protect("code", "KZ-8841730")
    cursor = identifiers.cursor()
    registry.erase()
    assert not identifiers.issued("code", token)
    assert identifiers.restore_text(token) == token
    assert identifiers.since(cursor) is None
    assert identifiers.protect("code", "KZ-8841730") == token
    assert identifiers.issued("code", token)
    assert identifiers.since(cursor) is None


def test_what_was_protected_is_known_again_by_a_hash_alone() -> None:
    identifiers = Identifiers(new_key())
    identifiers.protect("person", "Quillon Abernathy")
    identifiers.protect("code", "KZ-8841730")
    held = repr(identifiers._known)
    assert len(identifiers._known) == 2
    assert not [each for each in ("Quillon", "Abernathy", "8841730") if each in held]
