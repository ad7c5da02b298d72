"""How many planted faults the tests notice: `python -m benchmarks.mutants [PACKAGE ...]`.

Cosmic Ray says where a fault can be planted and plants it; this chooses and judges. All places
would take days, so a seeded random sample of them is tried: places first, one fault for each, or
else the places that can be spoiled in many ways would count many times. Each fault is planted in a
copy of the project and meets the tests of its own module first, then those of its package and of
its neighbours.

A fault that no test notices survives. It asks for a test, or, where nothing can notice it (a
different number of rounds to the same result), for a reason in `tests/mutants.toml`. The score is
the part noticed of those without such a reason, with its 95 % interval (Wilson).
"""

import argparse
import ast
import contextlib
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import traceback
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/rootguard")
REASONS = ROOT / "tests" / "mutants.toml"

CORE = (
    *("accounting", "allocation", "sanitizer", "graph", "values", "events", "rng"),
    *("mechanisms", "expressions"),
)
GROUPS = {
    "core": CORE,
    "session": ("session",),
    "store": ("store", "vault"),
    "channels": ("channels", "reading"),
}
SHARES = {"core": 0.4, "session": 0.2, "store": 0.2, "channels": 0.2}
"""Of the sample. The core's floor is the highest, so its interval has to be the narrowest."""

# One or two faults for each operator: the nearest ones, which a weak test would let pass. An `==`
# in place of an `is` and the like are left out, as they are equal wherever there is one None.
OPERATORS = (
    *("AddNot", "ExceptionReplacer", "NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop"),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub"),
    *(
        f"ReplaceComparisonOperator_{pair}"
        for pair in (
            *("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE"),
            *("GtE_Gt", "GtE_Lt", "Is_IsNot", "IsNot_Is"),
        )
    ),
    *(
        f"ReplaceBinaryOperator_{pair}"
        for pair in (
            *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv"),
            *("Pow_Mul", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitAnd"),
            *("LShift_RShift", "RShift_LShift"),
        )
    ),
)

# What a reading of answers hides or tells shows in what leaves.
ANSWERS = ("reading/answers", "reading/days", "reading/facts")
_TOLD = (
    *("tests/channels/text/test_told.py", "tests/channels/text/test_answers.py"),
    *("tests/channels/text/test_typed_spellings.py", "tests/channels/text/test_channel.py"),
)

# Where a module's own tests are not the only ones that can notice its faults.
NEIGHBOURS = {
    "accounting": ("tests/session/test_session.py",),
    "allocation": ("tests/calibration/test_planning.py", "tests/session/test_types.py"),
    "values": ("tests/test_canary.py",),
    "events": ("tests/test_accounting.py", "tests/store/test_store.py"),
    "rng": ("tests/mechanisms",),
    "sanitizer": (
        *("tests/test_canary.py", "tests/session/test_session.py", "tests/batch/test_store.py"),
    ),
    "graph": ("tests/test_allocation.py", "tests/session/test_session.py"),
    "mechanisms": ("tests/batch/test_draws.py",),
    "expressions": ("tests/test_allocation.py",),
    # Policies, tiers and refinement are tested on a store, and so is what the audit log hides.
    "session": (
        *("tests/store/test_vault.py", "tests/store/test_journal.py", "tests/test_canary.py"),
        "tests/calibration/test_sessions.py",
    ),
    # People by the thousand come as the rows of a table.
    "session/crowds": ("tests/batch/test_store.py", "tests/batch/test_conflicts.py"),
    "session/questions": (
        *("tests/session/test_types.py", "tests/session/test_session.py", "tests/test_canary.py"),
    ),
    "store": ("tests/session/test_person.py", "tests/test_canary.py"),
    "vault": (
        *(
            "tests/store/test_opening.py",
            "tests/store/test_creation.py",
            "tests/store/test_keys.py",
        ),
        *("tests/store/test_backup.py", "tests/store/test_anchor.py", "tests/test_canary.py"),
    ),
    "reading": ("tests/channels/text/test_channel.py", "tests/language/test_names.py"),
    **dict.fromkeys(ANSWERS, _TOLD),
    "channels/text": ("tests/channels/gateway/test_openai.py",),
    "channels/detection": ("tests/channels/text",),
    "channels/tools": ("tests/channels/mcp/proxy/test_relay.py",),
    "channels/gateway": (),
    "channels/mcp": (),
    # The modules beside the folders serve gateway and MCP server alike.
    "channels": ("tests/channels/gateway", "tests/channels/mcp/test_server_faults.py"),
}

# What a fault meets before all else: the records, which notice most faults of a reader within a
# second or two, and the right tests of a module whose name no test has.
FIRST = {
    "reading": (
        "tests/reading/test_claims.py::test_every_conversation_is_read_as_it_was_recorded",
        "tests/reading/test_mentions.py::test_every_text_is_read_as_it_was_recorded",
    ),
    **dict.fromkeys(
        ANSWERS,
        (
            "tests/reading/test_answers.py",
            "tests/channels/text/test_told.py::test_a_statement_leaves_alike_whatever_it_says",
            "tests/channels/text/test_told.py::test_what_is_only_spoken_of_stays",
            "tests/channels/text/test_told.py::test_what_only_speaks_of_the_topics_stays",
            "tests/channels/text/test_told.py::test_no_group_of_the_developed_texts_tells_that_is_not_known_to",
        ),
    ),
    "session/draws": ("tests/session/test_tiers.py", "tests/session/test_identity.py"),
    "session/guard": ("tests/session/test_tiers.py",),
    "channels/detection": ("tests/channels/detection/test_names.py",),
    "channels/gateway/upstream": (
        *("tests/channels/gateway/test_replies.py", "tests/channels/gateway/test_limits.py"),
    ),
    "channels/gateway/channel": (
        *("tests/channels/gateway/test_limits.py", "tests/channels/gateway/test_sources.py"),
    ),
    "channels/gateway/telemetry": (
        *("tests/channels/gateway/test_traces.py", "tests/channels/gateway/test_limits.py"),
    ),
    "channels/text/edits": ("tests/channels/text/test_rest.py",),
    "channels/tools/comparisons": ("tests/channels/tools/test_answers.py",),
    "channels/tools/shapes": ("tests/channels/tools/test_phrasings.py",),
    "channels/mcp/proxy/authorization": ("tests/channels/mcp/proxy/test_remote.py",),
    "channels/faults": ("tests/channels/gateway/test_faults.py",),
    "channels/http_server": ("tests/channels/gateway/test_limits.py",),
    "channels/api_keys": ("tests/channels/gateway/test_limits.py",),
}

TYPING = ("abstractmethod", "overload", "override")
"""Decorators without an effect on a program that the type checker accepts."""

EVERYWHERE = ("tests/test_tree.py",)

# Imported by the process that all trials are forked from, so that none of them waits for it.
PRELOADED = (
    *("anyio", "click.testing", "cryptography.hazmat.primitives.ciphers.aead", "httpx2"),
    *("hypothesis", "numpy", "phonenumbers", "pint", "pytest", "rich.console", "scipy.stats"),
    *("starlette.applications", "uvicorn"),
)
SLOWEST = 900
"""Seconds for the tests of one stage."""

NO_END = "no end"
"""Neither noticed nor survived: a test that hangs is ended alone, so the machine was busy."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A fault and where it is."""

    group: str
    module: Path
    operator: str
    occurrence: int
    line: int
    original: str = ""
    mutated: str = ""
    code: str = ""


def modules(names: Sequence[str]) -> list[Path]:
    """The files of packages and modules, from the folder of the package."""
    found = []
    for name in names:
        place = ROOT / PACKAGE / name
        if place.is_dir():
            found += sorted(path for path in place.rglob("*.py") if path.name != "__init__.py")
        else:
            found.append(place.with_suffix(".py"))
    return [path.relative_to(ROOT) for path in found]


def places(group: str, module: Path) -> list[list[Mutant]]:
    """For each place of a module the faults that can be planted there."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    source = (ROOT / module).read_text(encoding="utf-8")
    nodes = list(ast_nodes(get_ast(source)))
    unjudged = _annotations(source)
    found: dict[tuple[int, int], list[Mutant]] = defaultdict(list)
    for operator in OPERATORS:
        planting = get_operator(f"core/{operator}")()
        occurrence = 0
        for node in nodes:
            for start, _ in planting.mutation_positions(node):
                if not any(first <= start < last for first, last in unjudged):
                    made = Mutant(
                        group=group,
                        module=module,
                        operator=operator,
                        occurrence=occurrence,
                        line=start[0],
                    )
                    found[start].append(made)
                occurrence += 1
    return [found[start] for start in sorted(found)]


def _annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where a fault is the type checker's to notice (types, abstract methods), or nobody's."""
    spans = [  # the bare star of a signature: a slash in its place takes all that is given by name
        ((number, star.start()), (number, star.end()))
        for number, line in enumerate(source.splitlines(), start=1)
        for star in re.finditer(r"\*(?=,)", line)
    ]
    for node in ast.walk(ast.parse(source)):
        said: list[ast.expr | None] = []
        if isinstance(node, ast.arg | ast.AnnAssign):
            said = [node.annotation]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            typed = [each for each in node.decorator_list if ast.unparse(each) in TYPING]
            spans += [((each.lineno, 0), (each.lineno + 1, 0)) for each in typed]
            said = [node.returns]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            said = [node.value] if isinstance(node.value.op, ast.BitOr) else []
        elif isinstance(node, ast.keyword) and node.arg in ("slots", "kw_only"):
            said = [node.value]
        for each in said:
            if each is not None:
                end = (each.end_lineno or 0, each.end_col_offset or 0)
                spans.append(((each.lineno, each.col_offset), end))
    return spans


def planted(mutant: Mutant) -> Mutant | None:
    """The fault with the code that has it; none if the code means the same."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (ROOT / mutant.module).read_text(encoding="utf-8")
    operator = get_operator(f"core/{mutant.operator}")()
    try:
        code = mutate_code(source, operator, mutant.occurrence)
    except AttributeError:  # Cosmic Ray replaces no exception of a list that has a dotted name
        return None
    if code is None or _same(source, code):
        return None
    before, after = source.splitlines(), code.splitlines()
    changed = [pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]]
    original, mutated = changed[0] if changed else (before[mutant.line - 1], "")
    return Mutant(
        group=mutant.group,
        module=mutant.module,
        operator=mutant.operator,
        occurrence=mutant.occurrence,
        line=mutant.line,
        original=original.strip(),
        mutated=mutated.strip(),
        code=code,
    )


def _same(one: str, other: str) -> bool:
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except SyntaxError:
        return True  # no program at all, which no test needs to notice


def sample(names: Sequence[str], size: int, seed: int) -> list[Mutant]:
    """Faults in random order, each group by its share; of a place one fault."""
    rng = random.Random(seed)
    chosen: list[tuple[float, Mutant]] = []
    groups = {group: [name for name in parts if name in names] for group, parts in GROUPS.items()}
    total = sum(SHARES[group] for group, parts in groups.items() if parts)
    for group, parts in groups.items():
        found = [place for module in modules(parts) for place in places(group, module)]
        rng.shuffle(found)
        wanted = math.ceil(size * SHARES[group] / total)
        made = (planted(rng.choice(place)) for place in found)
        kept = [mutant for mutant, _ in zip(filter(None, made), range(wanted), strict=False)]
        # The n-th of each group comes at the same part of the run, wherever that is ended.
        chosen += [((place + rng.random()) / wanted, each) for place, each in enumerate(kept)]
    return [mutant for _, mutant in sorted(chosen, key=lambda pair: pair[0])]


def stages(module: Path) -> list[list[str]]:
    """Tests that a module's fault meets: the first, its own, its package's, its neighbours'.

    A module without tests of its own goes on with those that are named for its package.
    """
    inside = module.relative_to(PACKAGE).with_suffix("")
    # A folder of modules may be tested in the folder above it.
    beside = (Path("tests") / inside).parents
    folder = next(each for each in beside if (ROOT / each).is_dir())

    def tests_of(name: str) -> list[str]:
        found = (ROOT / folder).glob(f"test_{name}*")
        return sorted(str(path.relative_to(ROOT)) for path in found)

    own = tests_of(inside.name) or tests_of(folder.name)
    package = [] if folder in (Path("tests"), Path("tests/channels")) else [str(folder)]
    package += [f"--ignore={test}" for test in own if package]
    keys = [str(inside), *(str(parent) for parent in inside.parents)]
    first, near = (
        next((known[key] for key in keys if key in known), ()) for known in (FIRST, NEIGHBOURS)
    )
    return [stage for stage in ([*first], own, package, [*near, *EVERYWHERE]) if stage]


def copy_to(folder: Path) -> None:
    """Copy what the tests need, compiled."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, tracked.split("\0")):
        if not name.startswith("console-ui/") and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", str(folder / "src"), str(folder / "tests")],
        check=True,
    )


class Trials:
    """Tries faults in a copy of the project, one after another, with a process of its own."""

    def __init__(self, folder: Path, preloaded: Sequence[str] = PRELOADED) -> None:
        self._folder = folder
        self._preloaded = preloaded
        self._process = self._started()

    def noticed(self, mutant: Mutant) -> str:
        """The first test that fails with it, or nothing."""
        path = self._folder / mutant.module
        original = path.read_text(encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(mutant.code, encoding="utf-8")
        try:
            failing = (self.first_failing(stage) for stage in stages(mutant.module))
            return next(filter(None, failing), "")
        finally:
            path.write_text(original, encoding="utf-8")

    def first_failing(self, tests: Sequence[str]) -> str:
        """The first of these tests that fails in the copy as it is, or nothing."""
        # Once more, as the machine may have ended the process: only what ends it twice is to blame.
        for _ in range(2):
            answer = self._ask(tests)
            if answer is not None:
                return answer
            self.close()
            self._process = self._started()
        return "the process of the trials ended twice"

    def _started(self) -> "subprocess.Popen[str]":
        # Without compiled files: one of a file that changes twice in a second would look current.
        path = os.pathsep.join((str(self._folder / "src"), str(self._folder)))
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.mutants", *self._preloaded),
                *("--try-in", str(self._folder)),
            ],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ask(self, tests: Sequence[str]) -> str | None:
        """The process's answer, or none if it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(list(tests)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        answer = self._process.stdout.readline()
        return str(json.loads(answer)) if answer else None

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def try_in(folder: Path, preloaded: Sequence[str]) -> None:
    """Run the tests that are asked for, line by line; the other end of `Trials`."""
    import importlib

    for name in preloaded:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    os.chdir(folder)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answers.write(json.dumps(_fails(json.loads(line))) + "\n")
        answers.flush()


def _fails(tests: Sequence[str]) -> str:
    """Run tests in a fork of this process; the first that fails.

    However the fork ends, this process goes on. `collectable` has seen that the tests can be run
    without a fault, so an end that pytest did not choose is the fault's doing.
    """
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            _run(tests, said)
        code = _wait(child)
        if code is None:
            return NO_END
        if code in _UNNOTICED:
            return ""
        said.seek(0)
        lines = said.read().decode(errors="replace").splitlines()
        named = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
        return named[0].split(" - ")[0] if named else f"pytest ended with {code}"


_UNNOTICED = (0, 5)
"""pytest's codes for tests that all pass, and for a file whose tests are all slow ones."""


def _run(tests: Sequence[str], said: IO[bytes]) -> None:
    import pytest

    code = 99
    try:
        os.setsid()  # what the tests start ends with them
        os.environ.pop("PYTEST_ADDOPTS", None)  # of the run that this is a part of
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the next question is not for them
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
        options = ["-x", "-q", "--no-header", "--tb=no", "-rfE", "-m", "not slow", "--timeout=120"]
        plain = ["-o", "addopts=", "-p", "no:xdist", "-p", "no:cacheprovider"]
        plain += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is preloaded
        code = int(pytest.main([*plain, *options, *tests]))
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - it ends here; the parent reads what is printed
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait(child: int) -> int | None:
    """How a child ended, none if it had to be ended."""
    end = time.monotonic() + SLOWEST
    ended, status = os.waitpid(child, os.WNOHANG)
    while not ended and time.monotonic() < end:
        time.sleep(0.02)
        ended, status = os.waitpid(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not ended:
        os.waitpid(child, 0)
        return None
    return os.waitstatus_to_exitcode(status)


def reasons() -> dict[tuple[str, str, str], str]:
    """Faults that nothing can notice, and why: by file, original and mutated line."""
    if not REASONS.exists():
        return {}
    content = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    return {
        _place(each["file"], each["original"], each["mutated"]): each["reason"]
        for each in content.get("survivor", [])
    }


def _place(file: str, original: str, mutated: str) -> tuple[str, str, str]:
    """What a fault is known by: no blanks, as the planter writes one before a number."""
    return file, "".join(original.split()), "".join(mutated.split())


def interval(noticed: int, tried: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if tried == 0:
        return 0.0, 1.0
    z, share = 1.959964, noticed / tried
    middle = (share + z * z / (2 * tried)) / (1 + z * z / tried)
    spread = math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    half = spread * z / (1 + z * z / tried)
    return max(0.0, middle - half), min(1.0, middle + half)


def tried(mutants: Sequence[Mutant], jobs: int, minutes: float) -> Iterator[tuple[Mutant, str]]:
    """Each fault with the test that notices it, in the sample's order, until the time is up."""
    end = time.monotonic() + 60 * minutes
    found: dict[int, str] = {}
    turn = iter(range(len(mutants)))
    lock = threading.Lock()
    problems: list[BaseException] = []

    def work(folder: Path) -> None:
        try:
            copy_to(folder)
            trials = Trials(folder)
            collectable(trials, mutants)
            while True:
                with lock:
                    number = next(turn, None) if time.monotonic() < end else None
                if number is None:
                    break
                mutant = mutants[number]
                test = found[number] = trials.noticed(mutant)
                if not test:
                    print(f"\r{_shown(mutant)}", file=sys.stderr)
                print(f"\r{len(found)} tried", end="", file=sys.stderr, flush=True)
            trials.close()
        except BaseException as problem:  # noqa: BLE001 - raised again below
            problems.append(problem)

    with tempfile.TemporaryDirectory(prefix="rg-mutants-") as place:
        folders = [Path(place) / str(job) for job in range(jobs)]
        threads = [threading.Thread(target=work, args=(folder,)) for folder in folders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(file=sys.stderr)
    if problems:
        raise problems[0]
    # In the sample's order without a gap: which are tried does not depend on how fast they are.
    for number in range(len(found)):
        yield mutants[number], found[number]


def collectable(trials: Trials, mutants: Sequence[Mutant]) -> None:
    """Refuse to begin where the tests cannot be run even without a fault."""
    asked = {test for mutant in mutants for stage in stages(mutant.module) for test in stage}
    tests = sorted(test for test in asked if not test.startswith("--"))
    if failed := trials.first_failing(["--collect-only", *tests]):
        raise RuntimeError(f"the tests cannot be collected without a fault: {failed}")


def failing_anyway(results: Sequence[tuple[Mutant, str]]) -> set[str]:
    """Of the tests that noticed a fault those that fail without any: they noticed nothing."""
    asked = {test for _, test in results if "::" in test}
    found: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="rg-mutants-") as place:
        copy_to(Path(place))
        trials = Trials(Path(place))
        while asked - found:
            tests = sorted({_function(test) for test in asked - found})
            failed = trials.first_failing(tests)
            if not failed:
                break
            same = {test for test in asked if _function(test) == _function(failed)}
            if not same:
                raise RuntimeError(f"without a fault: {failed}")
            found |= same
        trials.close()
    return found


def _function(test: str) -> str:
    """A test's address without its parameters."""
    return test.removeprefix("FAILED ").removeprefix("ERROR ").split("[")[0]


def report(results: Sequence[tuple[Mutant, str]]) -> bool:
    """Print scores and survivors; whether every survivor has its reason."""
    known = reasons()
    decided = [(mutant, test) for mutant, test in results if test != NO_END]
    if len(decided) < len(results):
        print(f"undecided, as their tests came to no end: {len(results) - len(decided)}")
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    open_ones = []
    for mutant, test in decided:
        key = _place(str(mutant.module), mutant.original, mutant.mutated)
        outcome = 0 if test else 1 if key in known else 2
        part = mutant.module.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for name in {mutant.group, part}:
            counts[name][outcome] += 1
        if outcome == 2:
            open_ones.append(mutant)
    print(f"{'':14}{'faults':>8}{'noticed':>9}{'explained':>11}{'survived':>10}   score (95 %)")
    for name in (*GROUPS, *sorted(set(counts) - set(GROUPS))):
        if name in counts:
            noticed, explained, survived = counts[name]
            low, high = interval(noticed, noticed + survived)
            share = noticed / max(1, noticed + survived)
            print(
                f"{name:14}{noticed + explained + survived:8}{noticed:9}{explained:11}{survived:10}"
                f"   {100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
            )
    for mutant in open_ones:
        print(f"\n{_shown(mutant)}")
    return not open_ones


def _shown(mutant: Mutant) -> str:
    place = f"{mutant.module}:{mutant.line}: {mutant.operator}"
    return f"{place}\n  - {mutant.original}\n  + {mutant.mutated}"


def write(path: Path, results: Sequence[tuple[Mutant, str]]) -> None:
    """Write every fault and what noticed it."""
    lines = [
        {**vars(mutant), "module": str(mutant.module), "code": "", "noticed": test}
        for mutant, test in results
    ]
    path.write_text(json.dumps(lines, indent=1), encoding="utf-8")


def main() -> None:
    parts = [name for group in GROUPS.values() for name in group]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants")
    parser.add_argument("packages", nargs="*", help=f"of {', '.join(parts)}; all")
    parser.add_argument("--sample", type=int, default=400, help="how many faults at most")
    parser.add_argument("--minutes", type=float, default=25, help="begin none after this time")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="write every fault and what noticed it, as JSON")
    parser.add_argument("--try-in", type=Path, help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.try_in:
        try_in(options.try_in, options.packages)
        return
    unknown = set(options.packages) - set(parts)
    if unknown:
        parser.error(f"no such package: {', '.join(sorted(unknown))}")
    mutants = sample(options.packages or parts, options.sample, options.seed)
    results = list(tried(mutants, options.jobs, options.minutes))
    if options.out:
        write(options.out, results)  # what took so long is there, whatever the tests do now
    wrong = failing_anyway(results)
    for test in sorted(wrong):
        print(f"fails without a fault: {test}")
    results = [(mutant, "" if test in wrong else test) for mutant, test in results]
    if options.out:
        write(options.out, results)
    sys.exit(0 if report(results) else 1)


if __name__ == "__main__":
    main()
