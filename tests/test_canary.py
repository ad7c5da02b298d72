"""A sentinel value goes in everywhere; its digits may come out nowhere.

The sentinels are numbers that no grid point, bound or formula of the template shows. Looked at:
repr, str, format, logs, warnings, exceptions with their notes, causes, contexts and the local
variables of every RootGuard frame, JSON, pickles, transcripts, graphs, and what the command line
writes.
"""

import copy
import io
import json
import logging
import pickle
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rootguard import Guard, MemoryStore, Session, load_template, open_store
from rootguard.cli.main import cli, main
from rootguard.errors import RootGuardError, StoreUnavailableError
from rootguard.events import to_record
from rootguard.identifiers import IssuedTokens
from rootguard.sanitizer import seal
from rootguard.session import parse_policy
from rootguard.values import Raw
from tests.support.canary import NAME, NUMBER, SENTINELS, everything, leaks

FIB4 = load_template("fib4")


LISTED: Any = list(SENTINELS.items())
SWAPPED: Any = {value: root for root, value in SENTINELS.items()}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    logging.captureWarnings(capture=True)
    yield stream
    logging.captureWarnings(capture=False)
    root.setLevel(level)
    root.removeHandler(handler)


def guarded(**options: object) -> Session:
    usual: dict[str, object] = {"budget": "0.9", "identifiers": {"patient": NAME, "mrn": NUMBER}}
    return Guard.open(
        FIB4,
        values=SENTINELS,
        **{**usual, **options},  # type: ignore[arg-type]
    )


def test_the_detector_finds_what_it_should() -> None:
    assert leaks("ast=91.827364519")
    assert leaks("9 1 8 2 7 3 6 4")
    assert leaks("Hello ZEBULON")
    assert leaks("MRN 9182-7364-5190")
    assert not leaks("ast=91.8")

    def careless(value: float) -> None:
        raise ValueError("no digits here")

    try:
        careless(SENTINELS["ast"])
    except ValueError as error:
        frames = list(traceback.walk_tb(error.__traceback__))
        assert any(leaks(repr(frame.f_locals)) for frame, _ in frames)


def test_a_raw_value_shows_itself_in_no_form() -> None:
    raw = Raw(SENTINELS["ast"])
    shown = [repr(raw), str(raw), f"{raw}", f"{raw:.3f}", f"{raw!r:>20}", repr([raw, {1: raw}])]
    assert not leaks("".join(shown))
    for attempt in (
        lambda: pickle.dumps(raw),
        lambda: copy.copy(raw),
        lambda: copy.deepcopy(raw),
        lambda: json.dumps(raw),
        lambda: float(raw),  # type: ignore[arg-type]
        lambda: int(raw),  # type: ignore[call-overload]
        lambda: vars(raw),
    ):
        with pytest.raises(TypeError) as caught:
            attempt()
        assert not leaks(everything(caught.value))


def test_a_session_shows_no_sentinel_in_anything_it_gives(log: io.StringIO) -> None:
    session = guarded()
    for node in session.graph.order:
        session.release(node.name)
    session.release("patient")
    session.release("mrn")
    session.derive("age * ast / (plt * sqrt(alt))", name="again")
    shown = [
        repr(session),
        str(session),
        f"{session}",
        str(session.guarantee()),
        repr(session.guarantee()),
        json.dumps(session.guarantee().to_dict()),
        json.dumps(session.describe()),
        json.dumps([to_record(event) for event in session.transcript()]),
        repr(session.transcript()),
        pickle.dumps(session.transcript()).hex(),
        pickle.dumps(session.transcript()).decode("latin-1"),
        session.graph.to_json(),
        session.graph.to_mermaid(),
        session.graph.to_dot(),
        repr(session.spent()),
        log.getvalue(),
    ]
    for text in shown:
        assert not leaks(text)


def test_a_session_is_not_pickled() -> None:
    with pytest.raises(TypeError) as caught:
        pickle.dumps(guarded())
    assert not leaks(everything(caught.value))


def test_a_store_shows_no_sentinel() -> None:
    store = MemoryStore()
    guarded(store=store)
    assert not leaks(repr(store) + repr(vars(store)))


def forms(value: float) -> list[bytes]:
    """What a number looks like in a file: as text, in hexadecimal, as a double of either order."""
    texts = [repr(value), value.hex(), f"{value:.9f}", f"{value:.6e}"]
    return [text.encode() for text in texts] + [struct.pack("<d", value), struct.pack(">d", value)]


def test_after_a_full_run_no_file_of_the_vault_holds_a_sentinel(tmp_path: Path) -> None:
    policy = parse_policy(
        """
[tiers.a]
budget = 2
[tiers.b]
budget = "0.3"
[services.s]
tier = "b"
roots = "*"
""",
        file="policy.toml",
    )
    store = open_store(f"sqlite:///{tmp_path / 'vault.sqlite3'}")
    first = guarded(store=store)
    for name in (*SENTINELS, "patient", "mrn"):
        first.release(name)
    Guard.refine(FIB4, values=SENTINELS, budget=2, store=store).target()
    Guard.serve(FIB4, store=store, policy=policy, service="s").release("ast")
    changed = {**SENTINELS, "ast": SENTINELS["alt"]}
    Guard.open(FIB4, values=changed, budget=1, store=store).target()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) >= 3  # the database, its write-ahead log and its key
    content = b"".join(file.read_bytes() for file in files)
    promised = first.guarantee()
    store.close()
    content += b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert promised.roots[0].root.encode() in content  # the search can find things
    for value in SENTINELS.values():
        for form in forms(value):
            assert form not in content
    for word in (NAME, *NAME.split(), NUMBER):
        assert word.encode() not in content


class FailingStore(MemoryStore):
    def commit(self, principal: object, draws: object, *, epoch: int | None = None) -> tuple[()]:
        raise RuntimeError("disk full")


class NoTokens(MemoryStore):
    def tokens(self, principal: object, *, epoch: int | None = None) -> IssuedTokens:
        raise OSError(NUMBER)


class Down(MemoryStore):
    def tokens(self, principal: object, *, epoch: int | None = None) -> IssuedTokens:
        raise StoreUnavailableError("the server is away; try again")


BAD_OPENINGS: dict[str, Callable[[], object]] = {
    "no budget": lambda: guarded(budget=None),
    "a budget too small": lambda: guarded(budget="0.00001"),
    "an unknown mechanism": lambda: guarded(mechanism="gaussian"),
    "an unknown allocation": lambda: guarded(allocation="best"),
    "a bad objective": lambda: guarded(objective="1 / (age - age)"),
    "a missing value": lambda: Guard.open(FIB4, values={"age": SENTINELS["age"]}, budget=1),
    "a stranger": lambda: Guard.open(FIB4, values={**SENTINELS, "x": 91.827364519}, budget=1),
    "text": lambda: Guard.open(FIB4, values={**SENTINELS, "ast": "91.827364519"}, budget=1),
    "a list": lambda: Guard.open(FIB4, values={**SENTINELS, "ast": [91.827364519]}, budget=1),  # type: ignore[dict-item]
    "an infinite value": lambda: Guard.open(
        FIB4, values={**SENTINELS, "plt": float("inf")}, budget=1
    ),
    "a bad identifier": lambda: Guard.open(
        FIB4, values=SENTINELS, identifiers={"mrn": NUMBER, "x": ""}, budget=1
    ),
    "an identifier that is a root": lambda: Guard.open(
        FIB4, values=SENTINELS, identifiers={"ast": NUMBER}, budget=1
    ),
    "values in a list": lambda: Guard.open(FIB4, values=LISTED, budget=1),
    "values as names": lambda: Guard.open(FIB4, values=SWAPPED, budget=1),
    "identifiers in a list": lambda: guarded(identifiers=[NUMBER]),
    "identifiers as names": lambda: guarded(identifiers={91.827364519: NUMBER}),
    "a store without tokens": lambda: guarded(store=NoTokens()),
    "a store that is down": lambda: guarded(store=Down()),
    "a short key": lambda: guarded(key=b"short"),
    "a store that fails": lambda: guarded(store=FailingStore()),
}


@pytest.mark.parametrize("case", BAD_OPENINGS)
def test_no_failed_opening_carries_a_sentinel(case: str, log: io.StringIO) -> None:
    with pytest.raises((RootGuardError, RuntimeError)) as caught:
        BAD_OPENINGS[case]()
    assert not leaks(everything(caught.value))
    assert not leaks(log.getvalue())


BAD_REQUESTS = [
    "ast / (alt - alt)",
    "log(ast - ast)",
    "sqrt(-alt)",
    "ast ** 999",
    "exp(plt * plt)",
    "nothing",
    "9**9**9",
    "(" * 5000,
    "ast +",
    "ast if plt / (age - age) else 1",
]


@pytest.mark.parametrize("formula", BAD_REQUESTS)
def test_no_refused_request_carries_a_sentinel(formula: str) -> None:
    session = guarded()
    with pytest.raises(RootGuardError) as caught:
        session.derive(formula)
    assert not leaks(everything(caught.value))
    assert not leaks(repr(session.transcript()))


def test_a_clamp_warning_names_the_root_and_no_value(log: io.StringIO) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Guard.open(FIB4, values={**SENTINELS, "ast": 91827364.519}, budget=1)
    assert len(caught) == 1
    assert "ast" in str(caught[0].message)
    assert not leaks(str(caught[0].message) + log.getvalue())


def test_a_store_that_is_down_stays_a_retryable_error() -> None:
    with pytest.raises(StoreUnavailableError, match="try again"):
        guarded(store=Down())


def test_sealing_bad_values_raises_nothing_at_all() -> None:
    assert seal(None) is None
    assert seal([1.0]) is None
    assert seal({1.0: "ast"}) is None
    sealed = seal({"a": "91.827364519", "b": None, "c": 1.5, "d": True, "e": object()})
    assert sealed is not None
    assert {name for name, raw in sealed.items() if raw is None} == {"a", "b", "d", "e"}


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_line_writes_no_sentinel(tmp_path: Path, *, as_json: bool) -> None:
    file = tmp_path / "me.toml"
    file.write_text("".join(f"{root} = {value}\n" for root, value in SENTINELS.items()))
    flags = ["--json"] if as_json else []
    arguments = ["release", "fib4", "--budget", "0.9", "--values", str(file), *flags]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0
    assert "ast" in result.output
    assert not leaks(result.output)


@pytest.mark.parametrize(
    "content",
    [
        "ast = 91.827364519 91.827364519",
        '{"ast": 91.827364519',
        "[91.827364519]",
        "ast = 91.827364519",
        'age = 47.318264951\nast = "91.827364519"\nalt = 1\nplt = 1',
        "\x00 91.827364519",
    ],
)
def test_a_bad_values_file_is_refused_without_quoting_it(
    content: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "me.toml"
    file.write_text(content)
    arguments = ["release", "fib4", "--budget", "0.9", "--values", str(file)]
    result = CliRunner().invoke(cli, arguments)
    assert isinstance(result.exception, RootGuardError)
    assert not leaks(everything(result.exception) + result.output)
    monkeypatch.setattr(sys, "argv", ["rootguard", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 3
    captured = capsys.readouterr()
    assert captured.err.startswith("rootguard: ")
    assert not leaks(captured.err + captured.out)
