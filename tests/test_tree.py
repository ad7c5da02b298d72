"""What the tree promises to a reader, read from the sources."""

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "rootguard"
MOST_MODULES = 12
"""A reader can hold a dozen names; `cli` has a file for each command."""


def imported(tree: ast.AST) -> set[str]:
    """The dotted names that a module imports, `from a import b` as a and a.b."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # Programs that tests write for another process.
            found |= set(re.findall(r"(?:from|import) (tests[\w.]+)", node.value))
    return found


def is_test(module: str) -> bool:
    parts = module.split(".")
    return parts[0] == "tests" and any(part.startswith(("test_", "conftest")) for part in parts)


def test_no_test_file_imports_another() -> None:
    """What two test files need stands in `tests/support`."""
    paths = sorted(TESTS.rglob("*.py"))
    wrong = {
        f"{path.relative_to(TESTS)}: {module}"
        for path in paths
        for module in imported(ast.parse(path.read_text("utf-8")))
        if is_test(module) and path != Path(__file__)
    }
    assert wrong == set()


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of the package, by its path."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def nodes(tree: ast.Module) -> list[ast.AST]:
    """All of a module; to walk through every one takes most of a second."""
    return list(ast.walk(tree))


def test_no_folder_has_more_modules_than_a_reader_can_hold() -> None:
    folders = Counter(
        path.rpartition("/")[0] for path in sources() if not path.endswith("__init__.py")
    )
    crowded = {folder: count for folder, count in folders.items() if count > MOST_MODULES}
    assert crowded.keys() <= {"cli"}


def repeated(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Public class names that are defined in more than one module."""
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in nodes(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    return {name: paths for name, paths in places.items() if len(set(paths)) > 1}


def test_no_public_class_name_stands_in_two_modules() -> None:
    assert repeated(sources()) == {}
    twice = ast.parse("class Session: ...")
    assert repeated({"a.py": twice, "b.py": twice}) == {"Session": ["a.py", "b.py"]}


def called(function: ast.expr) -> str | None:
    """The name that a function is called by, without where it is from."""
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return None


def imports_by_text(tree: ast.Module) -> list[str]:
    """What a module imports by calling a function with its name written out."""
    return [
        node.args[0].value
        for node in nodes(tree)
        if isinstance(node, ast.Call)
        and called(node.func) in {"import_module", "__import__"}
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]


def test_imports_are_written_as_imports() -> None:
    """The import contracts do not see a module that is named in a text."""
    found = {path: imports_by_text(tree) for path, tree in sources().items()}
    assert {path: names for path, names in found.items() if names and path != "cli/main.py"} == {}
    assert imports_by_text(ast.parse("importlib.import_module('psycopg')")) == ["psycopg"]


def changeable(tree: ast.Module) -> list[str]:
    """Data classes whose fields can be set."""
    return [
        node.name
        for node in nodes(tree)
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
        if ast.unparse(decorator).startswith("dataclass")
        and "frozen=True" not in ast.unparse(decorator)
    ]


def test_values_of_the_core_cannot_be_changed() -> None:
    """A promise that was made, an event that was recorded, a row that was read stay as they are."""
    free = ("channels/", "console/", "evaluation/")  # whose data classes may be running totals
    found = {path: changeable(tree) for path, tree in sources().items()}
    assert [path for path, names in found.items() if names and not path.startswith(free)] == []
    assert changeable(ast.parse("@dataclass(kw_only=True)\nclass A: ...")) == ["A"]


RUNNING = {
    "channels/gateway/telemetry.py": ["RequestOutcome"],
    "channels/mcp/proxy/relay.py": ["ClientRequest", "_Pending"],
    "channels/text/documents.py": ["TextLook"],
}
"""Data classes of the channels that gather something while a request is under way."""


def test_values_of_the_channels_cannot_be_changed_but_for_those_under_way() -> None:
    found = {path: changeable(tree) for path, tree in sources().items()}
    inside = {path: names for path, names in found.items() if path.startswith("channels/")}
    assert {path: names for path, names in inside.items() if names} == RUNNING


SILENT = {
    "batch/columns.py": ("Numbers",),
    "batch/engines/tasks.py": ("ReleaseTask",),
    "channels/api_keys.py": ("ApiKeys",),
    "channels/gateway/refusals.py": ("Refusal",),
    "channels/mcp/proxy/authorization.py": ("SignIn",),
    "channels/mcp/proxy/http.py": ("ServerAddress",),
    "channels/mcp/proxy/links.py": ("ServerCommand",),
    "channels/mcp/proxy/servers.py": ("RemoteOptions",),
    "channels/text/channel.py": ("MemoryEntry",),
    "channels/text/documents.py": ("TextLook",),
    "channels/text/edits.py": ("Edit", "Sanitization", "JsonSanitization"),
    "channels/text/explanation.py": ("ExplainedNumber",),
    "channels/text/pieces.py": ("Window",),
    "cli/explain_text.py": ("_Turn", "_Part"),
    "identifiers/conversation.py": ("Issuer",),
    "identifiers/formats.py": ("Written", "Digits", "Day", "Piece"),
    "identifiers/registry.py": ("TokenMention",),
    "identifiers/replies.py": ("TokenForm", "NameWord", "TokenFind", "_Said"),
    "identifiers/streaming.py": ("Lookup",),
    "integrations/agent.py": ("ToolOutcome",),
    "integrations/llama_index.py": ("GuardedReply",),
    "integrations/openai_agents.py": ("GuardedRun",),
    "language/fold.py": ("Folded",),
    "language/numbers.py": ("WrittenNumber",),
    "reading/answers.py": ("Answer",),
    "reading/claims.py": ("Claim", "TextReading"),
    "reading/mentions.py": ("RootMention", "Bindings"),
    "reading/page.py": ("Page", "Quantity"),
    "session/crowds.py": ("Declared",),
    "session/declared.py": ("Replacement", "Pattern"),
    "session/draws.py": ("PrivateValues",),
}
"""Data classes that hold what a text says, a secret or a person's value: no repr shows it."""


def silent(tree: ast.Module) -> tuple[str, ...]:
    """Data classes without a repr of their fields."""
    return tuple(
        node.name
        for node in nodes(tree)
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
        if ast.unparse(decorator).startswith("dataclass") and "repr=False" in ast.unparse(decorator)
    )


def test_what_holds_something_private_has_no_repr() -> None:
    """A class that comes to hold it is added here; one that leaves lost its repr=False."""
    found = {path: names for path, tree in sources().items() if (names := silent(tree))}
    assert found == SILENT
    assert silent(ast.parse("@dataclass(repr=False)\nclass A: ...")) == ("A",)
    assert silent(ast.parse("@dataclass(repr=True)\nclass A: ...")) == ()


def made_each_time(tree: ast.Module) -> list[str]:
    """Functions that make the same list or pattern anew whenever they are called."""
    costly = ("importlib.resources", "re.compile(", "tomllib.loads(", "Openings(", "Finder(")
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not (node.args.args or node.args.kwonlyargs)
        and not any("cache" in ast.unparse(each) for each in node.decorator_list)
        and any(each in written for written in [ast.unparse(node)] for each in costly)
    ]


def test_public_lists_and_patterns_are_made_once() -> None:
    """The reader asks for them at every word."""
    served = {path: tree for path, tree in sources().items() if not path.startswith("evaluation/")}
    found = {path: made_each_time(tree) for path, tree in served.items()}
    at_import = {"identifiers/formats.py": ["_load"]}  # called once, while it is imported
    assert {path: names for path, names in found.items() if names} == at_import
    assert made_each_time(ast.parse("def f(): return re.compile('a')")) == ["f"]
    assert made_each_time(ast.parse("@functools.cache\ndef f(): return re.compile('a')")) == []


def test_an_import_of_a_test_file_would_be_seen() -> None:
    for source in (
        "from tests.store.test_faults import draw",
        "from tests.store import test_faults",
        "import tests.conftest",
        "code = 'from tests.test_canary import NAME'",
    ):
        assert any(is_test(module) for module in imported(ast.parse(source)))
    assert not any(is_test(module) for module in imported(ast.parse("import tests.support.canary")))
