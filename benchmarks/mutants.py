"""How many planted faults the tests notice: `python -m benchmarks.mutants [PACKAGE ...]`.

Cosmic Ray says where a fault can be planted and plants it; this chooses and judges. All places
would take days, so a seeded random sample of them is tried: places first, one fault for each, or
else the places that can be spoiled in many ways would count many times. Each fault is planted in a
copy of the project and meets the tests of its own module first, then those of its package.

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
GROUPS = {"core": CORE, "session": ("session",), "store": ("store",), "channels": ("channels",)}
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

# Where a module's own tests are not the only ones that can notice its faults.
NEIGHBOURS = {
    "accounting": ("tests/session/test_session.py",),
    "allocation": ("tests/calibration/test_planning.py",),
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
    "store": ("tests/session/test_person.py", "tests/test_canary.py"),
    "channels/text": ("tests/channels/gateway/test_openai.py",),
    "channels/detection": ("tests/channels/text",),
    "channels/tools": ("tests/channels/mcp/proxy/test_relay.py",),
    "channels/gateway": (),
    "channels/mcp": (),
    # The modules beside the folders serve gateway and MCP server alike.
    "channels": ("tests/channels/gateway", "tests/channels/mcp/test_server_faults.py"),
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
"""Seconds for the tests of one stage; a fault that lets them go on for ever is noticed thereby."""


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
    """Tests that a module's fault meets: its own, its package's, then its neighbours'."""
    inside = module.relative_to(PACKAGE).with_suffix("")
    folder = Path("tests") / inside.parent
    own = sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / folder).glob(f"test_{inside.name}*")
    )
    package = [] if inside.parent in (Path(), Path("channels")) else [str(folder)]
    keys = [str(inside), *(str(parent) for parent in inside.parents)]
    near = next((NEIGHBOURS[key] for key in keys if key in NEIGHBOURS), ())
    found = [own, package, [path for path in (*near, *EVERYWHERE) if (ROOT / path).exists()]]
    return [stage for stage in found if stage]


class Trials:
    """A process of its own that tries faults in a copy of the project, one after another."""

    def __init__(self, folder: Path) -> None:
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
        environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", str(folder / "src"), str(folder / "tests")],
            check=True,
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.mutants", "--try-in", str(folder)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def noticed(self, mutant: Mutant) -> str:
        """The first test that fails with it, or nothing."""
        return self._ask(str(mutant.module), mutant.code, stages(mutant.module))

    def first_failing(self, tests: Sequence[str]) -> str:
        """The first of these tests that fails without a fault, or nothing."""
        return self._ask(str(PACKAGE / "__init__.py"), "", [list(tests)])

    def _ask(self, module: str, code: str, tests: list[list[str]]) -> str:
        asked = {"module": module, "code": code, "stages": tests}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return str(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def try_in(folder: Path) -> None:
    """Try what is asked for, line by line; the other end of `Trials`."""
    import importlib

    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    sys.dont_write_bytecode = True  # a file that changes twice in a second would look unchanged
    sys.path[:0] = [str(folder / "src"), str(folder)]
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        asked = json.loads(line)
        path = folder / asked["module"]
        original = path.read_text(encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(asked["code"] or original, encoding="utf-8")
        found = ""
        for stage in asked["stages"]:
            found = found or _fails(stage)
        path.write_text(original, encoding="utf-8")
        answers.write(json.dumps(found) + "\n")
        answers.flush()


_NOTICED = (1, 2)
"""pytest's codes for a failed test and for a test file that cannot be imported."""


def _fails(tests: Sequence[str]) -> str:
    """Run tests in a fork of this process; the first that fails."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            _run(tests, said)
        code = _wait(child)
        if code is None:
            return "no end"
        if code == 0:
            return ""
        said.seek(0)
        shown = said.read().decode(errors="replace")
        if code not in _NOTICED:
            raise RuntimeError(f"pytest ended with {code}: {shown}")
        lines = shown.splitlines()
        named = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
        return named[0].split(" - ")[0] if named else f"pytest ended with {code}"


def _run(tests: Sequence[str], said: IO[bytes]) -> None:
    import pytest

    code = 99
    try:
        os.setsid()  # what the tests start ends with them
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
            trials = Trials(folder)
            while True:
                with lock:
                    number = next(turn, None) if time.monotonic() < end else None
                if number is None:
                    break
                found[number] = trials.noticed(mutants[number])
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


def failing_anyway(results: Sequence[tuple[Mutant, str]]) -> set[str]:
    """Of the tests that noticed a fault those that fail without any: they noticed nothing."""
    asked = {test for _, test in results if "::" in test}
    found: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="rg-mutants-") as place:
        trials = Trials(Path(place))
        while asked - found:
            tests = sorted({_function(test) for test in asked - found})
            failed = trials.first_failing(tests)
            if not failed:
                break
            found |= {test for test in asked if _function(test) == _function(failed)}
        trials.close()
    return found


def _function(test: str) -> str:
    """A test's address without its parameters."""
    return test.removeprefix("FAILED ").removeprefix("ERROR ").split("[")[0]


def report(results: Sequence[tuple[Mutant, str]]) -> bool:
    """Print scores and survivors; whether every survivor has its reason."""
    known = reasons()
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    open_ones = []
    for mutant, test in results:
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
        print(f"\n{mutant.module}:{mutant.line}: {mutant.operator}")
        print(f"  - {mutant.original}\n  + {mutant.mutated}")
    return not open_ones


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
        try_in(options.try_in)
        return
    unknown = set(options.packages) - set(parts)
    if unknown:
        parser.error(f"no such package: {', '.join(sorted(unknown))}")
    mutants = sample(options.packages or parts, options.sample, options.seed)
    results = list(tried(mutants, options.jobs, options.minutes))
    wrong = failing_anyway(results)
    for test in sorted(wrong):
        print(f"fails without a fault: {test}")
    results = [(mutant, "" if test in wrong else test) for mutant, test in results]
    if options.out:
        lines = [
            {**vars(mutant), "module": str(mutant.module), "code": "", "noticed": test}
            for mutant, test in results
        ]
        options.out.write_text(json.dumps(lines, indent=1), encoding="utf-8")
    sys.exit(0 if report(results) else 1)


if __name__ == "__main__":
    main()
