"""One test draws the same in every run, and nothing but RootGuard is made to."""

import os
import sys

import pytest

from rootguard import Guard
from rootguard.identifiers import new_key
from rootguard.rng import SECURE
from rootguard.template import load_template
from tests.support.steady_draws import drawn_by

VALUES = {"age": 58.0, "ast": 61.0, "alt": 44.0, "plt": 220.0}


def drawn() -> tuple[object, ...]:
    session = Guard.open(load_template("fib4"), values=VALUES, budget="0.01")
    return tuple(session.release(root) for root in VALUES)


def test_draws_and_keys_follow_from_a_name() -> None:
    made = []
    for name in ("one", "one", "two"):
        SECURE.words(3)  # left over from somebody else
        with drawn_by(name):
            made.append((drawn(), new_key()))
    assert made[0] == made[1]
    # Both follow from their names, so this holds in every run.
    assert all(one != two for one, two in zip(made[0], made[2], strict=True))


def test_draws_within_a_stream_are_not_the_same() -> None:
    with drawn_by("one"):
        assert len({new_key() for _ in range(100)} | {new_key()}) == 101
        assert len(set(SECURE.words(3000))) > 2990  # three pages


def test_other_packages_get_the_systems_bytes() -> None:
    made = []
    for _ in range(2):
        with drawn_by("one"):
            made.append(os.urandom(16))
    assert made[0] != made[1]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_gets_the_systems_bytes() -> None:
    with drawn_by("one"):
        expected = new_key()
    reading, writing = os.pipe()
    with drawn_by("one"):
        child = os.fork()
        if not child:
            os.write(writing, new_key())
            os._exit(0)
        os.waitpid(child, 0)
        assert new_key() == expected
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        assert said.read() != expected
