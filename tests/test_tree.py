"""What the tree promises to a reader, read from the sources."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent


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


def test_an_import_of_a_test_file_would_be_seen() -> None:
    for source in (
        "from tests.store.test_faults import draw",
        "from tests.store import test_faults",
        "import tests.conftest",
        "code = 'from tests.test_canary import NAME'",
    ):
        assert any(is_test(module) for module in imported(ast.parse(source)))
    assert not any(is_test(module) for module in imported(ast.parse("import tests.support.canary")))
