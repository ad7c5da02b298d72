"""What the pages name exists: modules, paths, links, commands, options."""

import ast
import importlib
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from rootguard.cli.main import cli

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rootguard"
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
    if page.name != "CHANGELOG.md"  # it tells of names that were there once
)
TOPS = sorted(
    {entry.name for entry in (*ROOT.iterdir(), *PACKAGE.iterdir()) if entry.is_dir()}
    - {"build", "dist"}  # made by commands, not in the repository
)
MCP_METHODS = {"tools/call", "tools/list"}  # they look like paths

_DOTTED = re.compile(r"(?<![\w/.'-])rootguard((?:\.[A-Za-z_]\w*)+)")
_FROM = re.compile(r"^\s*from (rootguard[\w.]*) import ([\w, ]+)$", flags=re.MULTILINE)
_PATH = re.compile(rf"(?<![\w/.:@~-])((?:{'|'.join(map(re.escape, TOPS))})/[\w./-]*[\w/])")
_RUN = re.compile(r"\bpython -m ((?:tests|benchmarks|tools)[\w.]*)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`(rootguard [^`]+)`(?!`)")


class Page(NamedTuple):
    """One page, by its path in the repository."""

    path: str

    @property
    def text(self) -> str:
        return (ROOT / self.path).read_text(encoding="utf-8")


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> Page:
    return Page(request.param)


def exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or something that a module holds."""
    first, *rest = dotted.split(".")
    held: object = importlib.import_module(first)
    name = first
    for part in rest:
        name = f"{name}.{part}"
        # What the module holds goes first: importing a folder of data would put a module in the
        # place of a function of that name.
        if not hasattr(held, part):
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as problem:
                # An extra is not installed here: what its module defines is read from the source.
                foreign = not (problem.name or "").startswith("rootguard")
                return foreign and defines(name, dotted.removeprefix(f"{name}."))
            except ImportError:
                return False
        held = getattr(held, part)
    return True


def defines(module: str, name: str) -> bool:
    """Whether a module's source defines a class or a function, or is the name itself."""
    path = PACKAGE.parent / f"{module.replace('.', '/')}.py"
    if not path.exists():
        return False
    sorts = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text("utf-8")).body
    return name == module or any(isinstance(each, sorts) and each.name == name for each in body)


def unknown_names(text: str) -> list[str]:
    named = {f"rootguard{found}" for found in _DOTTED.findall(text)}
    for module, names in _FROM.findall(text):
        named |= {f"{module}.{name.strip()}" for name in names.split(",")}
    return sorted(name for name in named if not exists(name))


def unknown_paths(text: str) -> list[str]:
    named = set(_PATH.findall(text)) - MCP_METHODS
    return sorted(
        path for path in named if not (ROOT / path).exists() and not (PACKAGE / path).exists()
    )


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Page) -> list[str]:
    broken = []
    for link in _LINK.findall(page.text):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page.path).parent / path if path else ROOT / page.path
        if not target.exists() or (
            anchor and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            broken.append(link)
    return broken


def blocks(language: str, page: Page) -> list[str]:
    """The page's blocks in a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```", page.text, re.DOTALL | re.MULTILINE)
    return [str(text) for text in found]


def command_lines(text: str) -> list[str]:
    """Everything that is written as a call of `rootguard`, in blocks and within sentences."""
    lines = [line for line in _INLINE.findall(text) if not line.endswith("=")]
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            call = line.strip().removeprefix("$ ")
            if call.startswith("rootguard "):
                lines.append(call.split(" # ")[0])
    lines += [line.strip() for line in re.findall(r"^    (rootguard .+)$", text, re.MULTILINE)]
    return [" ".join(line.split()) for line in lines]


def problem(line: str) -> str | None:
    """What is wrong with a call: a command or an option that there is not."""
    words = shlex.split(line.replace("…", ""), comments=True)[1:]
    command: click.Command = cli
    context = click.Context(cli, info_name="rootguard")
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z0-9-]*", words[0]):
        inner = command.get_command(context, words[0])
        if inner is None:
            return f"no command {words[0]!r}"
        context, command, words = click.Context(inner, parent=context), inner, words[1:]
    if "--help" not in command.get_help(context):
        return "no help"
    before = words[: words.index("--")] if "--" in words else words  # the rest is another program's
    known = {
        name for one in command.get_params(context) for name in (*one.opts, *one.secondary_opts)
    }
    options = {word.split("=")[0] for word in before if word.startswith("--")}
    return f"no option {sorted(options - known)}" if options - known else None


def test_every_dotted_name_can_be_imported(page: Page) -> None:
    assert unknown_names(page.text) == []


def test_every_path_is_there(page: Page) -> None:
    assert unknown_paths(page.text) == []


def test_every_link_leads_somewhere(page: Page) -> None:
    assert broken_links(page) == []


def test_every_module_that_is_run_is_there(page: Page) -> None:
    assert [name for name in _RUN.findall(page.text) if not exists(name)] == []


def test_every_command_and_option_is_there(page: Page) -> None:
    wrong = {line: problem(line) for line in command_lines(page.text)}
    assert {line: fault for line, fault in wrong.items() if fault is not None} == {}


def test_the_readme_names_most_commands() -> None:
    named = {line.split()[1] for line in command_lines(Page("README.md").text) if " " in line}
    assert len(named & set(cli.list_commands(click.Context(cli)))) >= 12


def test_a_wrong_page_would_be_noticed() -> None:
    text = (
        "`rootguard.session.Nobody`, `rootguard.Guard`, `session/nowhere.py`, `session/policy.py`"
    )
    assert unknown_names(text) == ["rootguard.session.Nobody"]
    assert unknown_names("from rootguard import Guard, Gourd") == ["rootguard.Gourd"]
    assert unknown_paths(text) == ["session/nowhere.py"]
    assert command_lines("```\n$ rootguard plan fib4 \\\n  --budgets 1  # dear\n```") == [
        "rootguard plan fib4 --budgets 1"
    ]
    assert problem("rootguard plan fib4 --budgets 1") == "no option ['--budgets']"
    assert problem("rootguard vault shout") == "no command 'shout'"
    assert problem("rootguard mcp proxy --profile me.toml -- server --whatever") is None


def test_every_python_block_can_be_parsed(page: Page) -> None:
    for block in blocks("python", page):
        compile(block, page.path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_readme_says_how_to_run_the_tests() -> None:
    text = Page("README.md").text
    assert "Run the tests:\n\n```\nmake test\n```" in text
    assert re.search(r"^test:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
