"""Every way RootGuard refuses, drawn as a tree.

::

    RootGuardError
    ├── FormulaError                a formula cannot be used
    │   ├── FormulaSyntaxError      it is not written in the grammar
    │   ├── FormulaLimitError       it is too long, deep, large, or its numbers are
    │   ├── FormulaNameError        it names something that is not there
    │   └── FormulaUndefinedError   it has no value at this point (division by zero, log of -1)
    ├── FileError                   a file is wrong: which, where in it, and what to do
    │   ├── TemplateError           a template
    │   ├── PolicyError             a policy
    │   ├── ProfileError            a person's profile
    │   └── CohortError             a cohort, read, fetched or written
    ├── AccessError                 a service asked for what its policy does not allow
    ├── CycleError                  a value uses itself
    ├── NameTakenError              a name is in use already
    ├── NameLimitError              more values were given names than a session keeps
    ├── DomainError                 bounds or grid size make no sense
    ├── BudgetError                 a budget is malformed, too small, or overspent
    │   └── ChangedValueError       a value changed; its owner is to say what that may cost
    ├── PlanError                   a plan does not price out to its own budget
    ├── UnknownNameError            a root, template, mechanism or service nobody declared
    ├── PrivateValueError           a private value is missing or unusable (names the root only)
    ├── ConflictError               a table has different values of a root under one id
    ├── NoiseError                  a draw failed; nothing was released
    ├── IdentifierError             an identifier cannot be protected or restored
    ├── TextBlockedError            a text holds a number that may be private; it was not sent
    ├── EventError                  a serialised event is not one of ours
    ├── RedrawnError                answers called cached do not follow from one noised value
    └── StoreError                  the store could not keep or give a value
        ├── StoreUnavailableError   it cannot be reached or is busy just now; try again
        ├── StoreMissingError       it is not there, or another one is in its place; none was made
        ├── StoreDamagedError       its content was altered, cut off or lost
        │   └── StoreRolledBackError    it is older than its anchor says
        └── StoreKeyError           the key does not open it, or there is none

    ClampedWarning                  told to the owner: a value lies outside its public bounds

Fields hold names, positions, limits and remedies: public things. There is no field for a value, so
no handler, log record or traceback can print one. A traceback also holds frames, and frames hold
local variables; where a function works on private things, `shielded` lets its refusals out without
them. The canary test looks.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Final, Literal, ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class RootGuardError(Exception):
    """Base of every error that RootGuard raises on purpose."""

    logged = False
    """Whether it stands in the owner's audit log already. It does not go there twice."""

    def bare(self) -> Self:
        """The error itself, without the frames it came through and the errors behind it."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class FormulaError(RootGuardError):
    """A formula cannot be used."""


class FormulaSyntaxError(FormulaError):
    """The text is not a formula of the grammar."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} (at character {position + 1} of the formula)")
        self.reason = reason
        self.position = position


class FormulaLimitError(FormulaError):
    """The formula, or a number in it, is larger than allowed."""

    def __init__(self, what: str, limit: float) -> None:
        super().__init__(
            f"the formula's {what} is over the limit of {limit:g}; write a smaller one"
        )
        self.what = what
        self.limit = limit


class FormulaNameError(FormulaError):
    """The formula names a value or a function that does not exist."""

    def __init__(self, name: str, known: tuple[str, ...] = ()) -> None:
        hint = f"; known here: {', '.join(known)}" if known else ""
        super().__init__(f"the formula names {name[:64]!r}, which is not declared{hint}")
        self.name = name
        self.known = known


class FormulaUndefinedError(FormulaError):
    """The formula has no value at the point where it was asked."""

    def __init__(self, operation: str) -> None:
        super().__init__(f"the formula has no value here ({operation}); ask for another formula")
        self.operation = operation


class FileError(RootGuardError):
    """A file is wrong: which one, under which key or at which place, and what to do about it."""

    def __init__(self, file: str, key: str, problem: str, remedy: str) -> None:
        where = f"{file}: {key}" if key else file
        super().__init__(f"{where}: {problem}; {remedy}")
        self.file = file
        self.key = key
        self.problem = problem
        self.remedy = remedy


class TemplateError(FileError):
    """A template is wrong."""


class PolicyError(FileError):
    """A policy is wrong."""


class ProfileError(FileError):
    """A person's profile is wrong. Says under which key, never what is written there."""


class CohortError(FileError):
    """A cohort cannot be read, fetched or written."""


class AccessError(RootGuardError):
    """A service asked for what it is not allowed, or is not listed. One text for every case."""

    def __init__(self, service: str) -> None:
        super().__init__(f"the policy does not allow this to {service[:64]!r}")
        self.service = service


class CycleError(RootGuardError):
    """Values rest on each other in a ring."""

    def __init__(self, ring: tuple[str, ...]) -> None:
        super().__init__(f"these values rest on each other in a ring: {' -> '.join(ring)}")
        self.ring = ring


class NameTakenError(RootGuardError):
    """A name that already stands for something."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:64]!r} is already the name of a value; choose another name")
        self.name = name


class NameLimitError(RootGuardError):
    """As many values have names as a session keeps."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} values have names already; ask for this one without a name")
        self.limit = limit


class DomainError(RootGuardError):
    """Bounds or grid size make no sense."""


class BudgetError(RootGuardError):
    """A privacy budget is malformed, too small for its roots, or would be overspent."""


class ChangedValueError(BudgetError):
    """A value is another one than was noised, and noising it would cost. For its owner alone.

    `prices` and `spent` give epsilon by root: what another draw would cost, what was spent so far.
    """

    def __init__(
        self, roots: tuple[str, ...], prices: Mapping[str, float], spent: Mapping[str, float]
    ) -> None:
        costs = ", ".join(f"{r} epsilon {prices[r]:.3g} (spent {spent[r]:.3g})" for r in roots)
        super().__init__(
            f"changed since it was noised: {', '.join(roots)}. Noising it anew costs {costs}; "
            'nothing was drawn. Pay with on_change="draw", keep the first with "keep", or follow '
            'it with "drift" or "daily" (docs/changing-values.md)'
        )
        self.roots = roots
        self.prices = dict(prices)


class PlanError(RootGuardError):
    """A plan does not price out to what it claims; nothing was drawn."""


class UnknownNameError(RootGuardError):
    """A name that nobody declared."""

    def __init__(self, kind: str, name: str, known: tuple[str, ...] = ()) -> None:
        hint = f"; available: {', '.join(known)}" if known else ""
        super().__init__(f"no {kind} is called {name[:64]!r}{hint}")
        self.kind = kind
        self.name = name
        self.known = known


class PrivateValueError(RootGuardError):
    """A private value is missing or cannot be used. Says which root, never what it held."""

    def __init__(self, problem: str, roots: tuple[str, ...]) -> None:
        super().__init__(f"{problem}: {', '.join(roots)}")
        self.problem = problem
        self.roots = roots


class ConflictError(RootGuardError):
    """A table has different values of a root under one id. Says how many ids and which rows.

    `ids` counts them for each column, and `rows` are two rows of the first one, counted from 0, or
    none where rows have no numbers.
    """

    def __init__(self, ids: Mapping[str, int], rows: tuple[int, ...]) -> None:
        counts = ", ".join(
            f"{column} ({count} id{'s' * (count > 1)})" for column, count in ids.items()
        )
        where = f"; rows {rows[0]} and {rows[1]} (from 0) are the first" if rows else ""
        super().__init__(
            f"different values under one id in {counts}{where}. Nothing was released or charged. "
            'Keep one row for each id; or choose on_conflict="charge" (--on-conflict charge): each '
            "value is then noised by itself, and its person pays for each of them"
        )
        self.ids = dict(ids)
        self.rows = rows


class NoiseError(RootGuardError):
    """A draw failed; nothing was released and nothing was spent."""


class IdentifierError(RootGuardError):
    """An identifier cannot be protected or restored. Says which kind, never which identifier."""


TextRule = Literal[
    "detector_failed",
    "number_refused",
    "unbound_number",
    "unbroken_text",
    "unreadable_document",
    "unsettled",
]
"""Why a text is held back."""

_BLOCKED: Final[Mapping[TextRule, str]] = {
    "detector_failed": "a detector of identifiers failed; nothing was sent, so mend or remove it",
    "number_refused": (
        "a number is too large, or stands for an identifier that is no number; nothing was sent, "
        "so leave it out or write it as text"
    ),
    "unbound_number": (
        "a number stands beside a private word and cannot be placed; nothing was sent, so "
        "write it with its name and unit, or leave it out"
    ),
    "unbroken_text": (
        "a text is too long to be read at once and has no line, sentence or word to part it at; "
        "nothing was sent, so break it into lines"
    ),
    "unreadable_document": (
        "a document is nested too deeply, too large or not JSON; nothing was sent, so send less"
    ),
    "unsettled": (
        "a text changes each time that it is made fit to leave; nothing was sent, so write it in "
        "other words"
    ),
}


class TextBlockedError(RootGuardError):
    """A text was held back: by which rule, and where. What stands there is not said.

    `start` and `end` are places in the text; `path` leads to the text within a JSON value, by
    positions: the second field, the first item. Keys may be private, so none is named.
    """

    def __init__(
        self,
        rule: TextRule = "unbound_number",
        *,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        super().__init__(_BLOCKED[rule])
        self.rule = rule
        self.start = start
        self.end = end
        self.path: tuple[int, ...] = ()

    def within(self, place: int) -> None:
        """Say that the text stands at this place of what it is a part of."""
        self.path = (place, *self.path)


class EventError(RootGuardError):
    """A serialised event is not one that this version knows; it is refused, not guessed."""


class RedrawnError(RootGuardError):
    """Answers that are called cached do not follow from one noised value of each root."""


class StoreError(RootGuardError):
    """The store could not keep or give a value; nothing was released."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached or is busy; nothing was lost, and trying again may work."""


class StoreMissingError(StoreError):
    """The store that is meant is not there, or another one is in its place. None was made."""


class StoreDamagedError(StoreError):
    """The store's content was altered, cut off or lost. It is never replaced by a fresh one."""


class StoreRolledBackError(StoreDamagedError):
    """The store, or a part of it, is older than its anchor says: an earlier copy was put back."""


class StoreKeyError(StoreError):
    """The key does not open the store, or there is no key."""


class ErasedError(StoreError):
    """The profile was erased since this session, or this piece of work, began."""


class ClampedWarning(UserWarning):
    """A private value lies outside its root's public bounds and is taken as the bound.

    Where a filter makes it an error, nothing is drawn and nothing charged.
    """

    def __init__(self, roots: tuple[str, ...]) -> None:
        super().__init__(roots)  # what it is made of, so that copies and pickles are made alike
        self.roots = roots

    def __str__(self) -> str:
        return (
            "outside the template's public bounds, taken as the nearest bound: "
            f"{', '.join(self.roots)}"
        )


def shielded(function: Callable[P, R]) -> Callable[P, R]:
    """Let a refusal out without the frames that saw private values, and without what was behind it.

    For the outermost function that is handed something private. What is no `RootGuardError` passes
    as it is: it is a fault of ours, which nobody should take for a refusal, or the caller's Ctrl-C.
    Where foreign code may raise with private numbers at hand, catch it there and say which refusal
    it is.
    """
    if any(
        runs_later(function)
        for runs_later in (
            inspect.isgeneratorfunction,
            inspect.iscoroutinefunction,
            inspect.isasyncgenfunction,
        )
    ):
        # Calling one only makes it; its body would run, and raise, outside the wrapper.
        raise TypeError("only an ordinary function can be shielded")

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RootGuardError as caught:
            refusal = caught.bare()
        finally:
            del args, kwargs  # this frame stands in the traceback of whatever leaves
        try:
            raise refusal
        finally:
            del refusal  # error, traceback and frame would keep each other, and the caller, alive

    return call
