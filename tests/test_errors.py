"""How a refusal leaves a function that saw private values."""

import gc
import traceback
import weakref
from collections.abc import AsyncIterator, Iterator

import pytest

from rootguard.errors import BudgetError, PrivateValueError, RootGuardError, shielded

SECRET = "61.375"


class Holder:
    """Something private that a method works on."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    @shielded
    def spend(self, text: str, *, note: str) -> str:
        """Refuse."""
        return _refuse_deeply(self._secret + text + note)

    @staticmethod
    @shielded
    def read(text: str) -> str:
        """Refuse."""
        return _refuse_deeply(text)

    @classmethod
    @shielded
    def made(cls, text: str) -> "Holder":
        """Refuse."""
        return cls(_refuse_deeply(text))


def _refuse_deeply(text: str) -> str:
    try:
        return str(float(f"{text} years"))
    except ValueError as problem:
        raise BudgetError("too little is left") from problem


def held(error: BaseException) -> str:
    """The local variables of every frame of an error, but for those of this file's tests."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return " ".join(
        repr(vars(value) if isinstance(value, Holder) else value)
        for frame in frames
        if frame.f_code.co_name != "<lambda>" and not frame.f_code.co_name.startswith("test_")
        for value in frame.f_locals.values()
    )


def test_the_check_sees_what_an_unshielded_function_leaves() -> None:
    with pytest.raises(BudgetError) as caught:
        _refuse_deeply(SECRET)
    assert SECRET in held(caught.value)
    assert caught.value.__cause__ is not None


def test_a_refusal_leaves_without_frames_and_causes() -> None:
    holder = Holder(SECRET)
    for act in (
        lambda: holder.spend(SECRET, note=SECRET),
        lambda: Holder.read(SECRET),
        lambda: Holder.made(SECRET),
        lambda: shielded(_refuse_deeply)(SECRET),
    ):
        with pytest.raises(BudgetError, match="too little is left") as caught:
            act()
        assert SECRET not in held(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
        assert names[-1] == "call"  # and nothing from inside


def test_the_error_is_the_one_that_was_raised_with_its_fields() -> None:
    raised = PrivateValueError("no value was given for", ("age",))

    @shielded
    def refuse() -> None:
        raise raised

    with pytest.raises(PrivateValueError) as caught:
        refuse()
    assert caught.value is raised
    assert caught.value.roots == ("age",)


def test_an_answer_and_a_foreign_error_pass_as_they_are() -> None:
    fault = KeyError("a fault of ours")

    @shielded
    def work(number: int) -> int:
        if number < 0:
            raise fault
        return number + 1

    assert work(2) == 3
    with pytest.raises(KeyError) as caught:
        work(-1)
    assert caught.value is fault
    assert work.__name__ == "work"


def test_a_shielded_function_within_another_is_let_out_once() -> None:
    @shielded
    def outer(text: str) -> str:
        try:
            return Holder.read(text)
        except BudgetError as problem:
            raise RootGuardError("refused") from problem

    with pytest.raises(RootGuardError, match="refused") as caught:
        outer(SECRET)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SECRET not in held(caught.value)


def test_a_refusal_that_was_dealt_with_keeps_no_frame_alive() -> None:
    class Private:
        """Something that can be watched."""

    def use(private: Private) -> None:
        with pytest.raises(BudgetError):
            Holder.read(repr(private))

    watched = Private()
    ref = weakref.ref(watched)
    gc.disable()
    try:
        use(watched)
        del watched
        assert ref() is None
    finally:
        gc.enable()


def test_what_runs_after_the_call_cannot_be_shielded() -> None:
    def pieces() -> Iterator[str]:
        yield SECRET

    async def later() -> str:
        return SECRET

    async def many() -> AsyncIterator[str]:
        yield SECRET

    for function in (pieces, later, many):
        with pytest.raises(TypeError, match="ordinary function"):
            shielded(function)
