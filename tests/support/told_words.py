"""A source of random words that says what it is told."""


class Told:
    """Words in the order in which they are asked for, and no more of them than were told."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> list[int]:
        given, self.left = self.left[:count], self.left[count:]
        assert len(given) == count, "all words are used up"
        return given
