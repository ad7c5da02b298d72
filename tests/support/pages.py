"""The blocks of the pages, and what each page takes as given.

A block runs, or a comment right before it says why not: `<!-- not run: … -->`. A page is read from
its top, so its blocks share a folder and, in Python, their names. `GIVEN` makes the files and the
names that a page's reader has, and `CHANGED` what stands in a command for something of the reader's
own, such as another's server.
"""

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rootguard import load_policy
from rootguard.channels.api_keys import load_keys
from rootguard.channels.tools import load_pins
from rootguard.errors import ProfileError
from rootguard.session import parse_profile
from rootguard.template import parse_template
from rootguard.vault import open_store
from tests.support.page_shell import environment

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n+)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```",
    flags=re.DOTALL | re.MULTILINE,
)
ELSEWHERE = {
    ("README.md", ""): "tests/test_readme.py",
    ("docs/gateway.md", "python"): "tests/channels/gateway/test_docs.py",
    ("docs/gateway.md", "curl"): "tests/channels/gateway/test_docs.py",
    ("docs/integrations.md", "python"): "tests/integrations/test_page.py",
    ("docs/integrations.md", "yaml"): "tests/integrations/test_litellm.py",
    ("docs/text.md", "replaced"): "tests/channels/text/test_docs.py",
    ("docs/text.md", "blocked"): "tests/channels/text/test_docs.py",
    ("docs/text.md", "unchanged"): "tests/channels/text/test_docs.py",
    ("docs/text.md", "py"): "tests/identifiers/test_conversation.py",
}
"""Blocks that have a test of their own, by page and language or first word."""
LANGUAGES = frozenset(("json", "python", "sh", "text", "toml"))
"""What this runs; `text` is what a program says, or a picture of something, and no command."""
PROFILE = 'templates = ["fib4"]\nbudget = "0.9"\n\n[identifiers]\nname = "Jane Roe"\n'
POLICY = '[tiers.care]\nbudget = "0.9"\n\n[services.clinic]\ntier = "care"\nroots = "*"\n'
LAB = {"age": 54.0, "ast": 23.0, "alt": 30.0, "plt": 220.0}


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block of a page."""

    page: str
    line: int
    language: str
    text: str
    reason: str | None

    @property
    def elsewhere(self) -> str | None:
        """The test that runs it, if it is not one of the pages' own."""
        first = self.text.split(maxsplit=1)[0]
        keys = ((self.page, kind) for kind in (self.language, first, ""))
        return next((ELSEWHERE[key] for key in keys if key in ELSEWHERE), None)

    @property
    def missing(self) -> set[str]:
        """Packages that a Python block imports and that are not installed."""
        named = re.findall(r"^(?:import|from) (\w+)", self.text, flags=re.MULTILINE)
        return {each for each in named if importlib.util.find_spec(each) is None}


def blocks_of(page: str) -> list[Block]:
    """The page's blocks, from its top."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(
            page=page,
            line=text[: found.start()].count("\n") + 1,
            language=found["language"],
            text=found["text"],
            reason=found["reason"],
        )
        for found in _BLOCK.finditer(text)
    ]


PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    if _BLOCK.search(page.read_text(encoding="utf-8"))
)


def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a block with the names of those before it."""
    exec(compile("\n" * block.line + block.text, block.page, "exec"), names)


def read_data(block: Block, folder: Path) -> None:
    """Read a block of TOML or JSON with whatever reads such a file; it raises what that raises."""
    if block.language == "json":
        json.loads(block.text)
        return
    made = tomllib.loads(block.text)
    file = folder / "block.toml"
    file.write_text(block.text, encoding="utf-8")
    if "tiers" in made or "services" in made:
        tiers = "" if "tiers" in made else '[tiers.care]\nbudget = "0.9"\n'
        file.write_text(tiers + block.text, encoding="utf-8")
        load_policy(file)
    elif "roots" in made or "target" in made:
        parse_template(_whole(block.text, made), file=file.name)
    elif "keys" in made:
        digits = iter(("2f3a" * 16, "9b10" * 16))
        text = re.sub(r'"\w{4}…64 hexadecimal digits…"', lambda _: f'"{next(digits)}"', block.text)
        file.write_text(text, encoding="utf-8")
        load_keys(file)
    elif "tools" in made:
        load_pins(file)
    elif "mcp_servers" in made:
        assert all(each["command"] == "rootguard" for each in made["mcp_servers"].values())
    else:
        rest = "" if "templates" in made else 'templates = ["fib4"]\nbudget = "0.9"\n'
        try:
            parse_profile(rest + block.text, file=file.name)
        except ProfileError:
            # `[sources]` is a part of a policy as well.
            file.write_text(POLICY + block.text, encoding="utf-8")
            load_policy(file)


def _whole(text: str, made: dict[str, Any]) -> str:
    """A template around a part of one."""
    if "target" in made:
        return text
    head = 'name = "page"\ntitle = "A page"\nsources = ["the page"]\n'
    rest = '[roots.one]\nlower = 1\nupper = 300\n[target]\nname = "score"\nformula = "one / 2"\n'
    return f"{head}{text}\n{rest}"


def people(count: int = 40) -> dict[str, list[Any]]:
    """A clinic's table of synthetic people."""
    generator = np.random.default_rng(3)
    return {
        "mrn": [f"P-{10_000 + place}" for place in range(count)],
        "phone": [f"+1 212-555-{place:04}" for place in range(count)],
        "line": list(range(count)),
        "age": generator.integers(20, 79, count).tolist(),
        "ast": generator.integers(10, 90, count).tolist(),
        "alt": generator.integers(10, 90, count).tolist(),
        "plt": generator.integers(150, 350, count).tolist(),
    }


def _profile(folder: Path) -> dict[str, Any]:
    (folder / "me.toml").write_text(PROFILE, encoding="utf-8")
    return {}


def _batch(folder: Path) -> dict[str, Any]:
    import pandas
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

    table = pa.table(people())
    (folder / "raw").mkdir()
    pq.write_table(table, folder / "raw" / "part.parquet")
    renamed = ["SGOT" if name == "ast" else name for name in table.column_names]
    pq.write_table(table.rename_columns(renamed), folder / "lab.parquet")
    key = bytes(range(32))
    (folder / "batch.key").touch(mode=0o600)
    (folder / "batch.key").write_text(key.hex(), encoding="ascii")
    if importlib.util.find_spec("duckdb"):
        import duckdb

        with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
            connection.register("arrow_people", table)
            connection.execute("CREATE TABLE patients AS SELECT * FROM arrow_people")
    if importlib.util.find_spec("deltalake"):
        from deltalake import write_deltalake

        write_deltalake(str(folder / "lake" / "patients"), table)
    return {"frame": pandas.DataFrame(people()), "key": key}


def _changing(folder: Path) -> dict[str, Any]:
    from rootguard import Guard

    (block,) = [each for each in blocks_of("docs/changing-values.md") if each.language == "toml"]
    head = 'name = "sugar"\ntitle = "Sugar"\nsources = ["the page"]\n'
    target = '[target]\nname = "high"\nformula = "glu / 100"\n'
    (folder / "sugar.toml").write_text(f"{head}{block.text}{target}", encoding="utf-8")
    return {"Guard": Guard, "store": open_store("memory:")}


def _cohorts(folder: Path) -> dict[str, Any]:
    shell("rootguard cohort synthetic fib4 --out nhanes", folder)
    (block,) = [each for each in blocks_of("docs/templates.md") if "[target]" in each.text]
    (folder / "mine.toml").write_text(block.text, encoding="utf-8")
    return {}


def _learning(folder: Path) -> dict[str, Any]:
    generator = np.random.default_rng(5)
    age, income = generator.integers(20, 80, 300), generator.integers(1000, 9000, 300)
    rows = [f"{a},{b},{2 * a + b / 100:.1f}" for a, b in zip(age, income, strict=True)]
    (folder / "survey.csv").write_text("\n".join(["age,income,score", *rows]), encoding="utf-8")
    return {}


def _templates(folder: Path) -> dict[str, Any]:
    (block,) = [each for each in blocks_of("docs/templates.md") if "[target]" in each.text]
    (folder / "mine.toml").write_text(block.text, encoding="utf-8")
    return {}


def _vault(folder: Path) -> dict[str, Any]:
    (block,) = [each for each in blocks_of("docs/vault.md") if "[tiers" in each.text]
    (folder / "policy.toml").write_text(block.text, encoding="utf-8")
    (folder / "elsewhere").mkdir()
    return {}


def _caller(folder: Path) -> dict[str, Any]:
    """A profile with a vault, and a key that opens it."""
    text = f'store = "sqlite:///vault.sqlite3"\n{PROFILE}'
    (folder / "me.toml").write_text(text, encoding="utf-8")
    key = hashlib.sha256(b"sk-page").hexdigest()
    (folder / "keys.toml").write_text(f'[keys]\n"{key}" = "me.toml"\n', encoding="utf-8")
    return {}


def _console(folder: Path) -> dict[str, Any]:
    shell("rootguard vault init --store sqlite:///vault.sqlite3", folder)
    return _caller(folder)


def _chat(folder: Path) -> dict[str, Any]:
    _caller(folder)
    chat = {"messages": [{"role": "user", "content": "I am Jane Roe. My AST is 23 U/L."}]}
    for name in ("chat.json", "request.json"):
        (folder / name).write_text(json.dumps(chat), encoding="utf-8")
    return {}


def _clinic(folder: Path) -> dict[str, Any]:
    _profile(folder)
    text = PROFILE.replace('budget = "0.9"', 'policy = "policy.toml"')
    (folder / "me.toml").write_text(text, encoding="utf-8")
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    (folder / "examples").symlink_to(ROOT / "examples")
    score = {"type": "number", "description": "AST in U/L"}
    body = {"schema": {"type": "object", "properties": {"ast": score}}}
    operation = {
        "operationId": "score",
        "requestBody": {"content": {"application/json": body}},
        "responses": {"200": {"description": "ok"}},
    }
    about = {"openapi": "3.1.0", "info": {"title": "Clinic", "version": "1"}}
    document = {**about, "paths": {"/score": {"post": operation}}}
    (folder / "clinic.json").write_text(json.dumps(document), encoding="utf-8")
    server = {"command": sys.executable, "args": [str(ROOT / "examples/clinic_server.py")]}
    servers = {"mcpServers": {"clinic": {**server, "args": [*server["args"], "--stdio"]}}}
    (folder / "servers.json").write_text(json.dumps(servers), encoding="utf-8")
    return {}


GIVEN: dict[str, Callable[[Path], dict[str, Any]]] = {
    "docs/batch.md": _batch,
    "docs/changing-values.md": _changing,
    "docs/cohorts.md": _cohorts,
    "docs/console.md": _console,
    "docs/gateway.md": _chat,
    "docs/learning.md": _learning,
    "docs/mcp.md": _clinic,
    "docs/templates.md": _templates,
    "docs/text.md": _chat,
    "docs/vault.md": _vault,
}
CHANGED = (
    ("clinic-mcp-server --stdio", f"{sys.executable} examples/clinic_server.py --stdio"),
    ("ID --client-secret-env", "me --client-secret-env"),
    ("rootguard console --profile me.toml --open", "rootguard console --profile me.toml"),
    ("rootguard vault restore", "rm vault.sqlite3 && rootguard vault restore"),
    ("/elsewhere/", "elsewhere/"),
    ("postgresql://rootguard@db.example/vault", "sqlite:///copy.sqlite3"),
    ("--host 0.0.0.0", "--host 127.0.0.1"),
    ('"$KEY"', "sk-page"),
    (" …", ""),
)
"""What stands for things of the reader's own."""


def given(page: str, folder: Path) -> dict[str, Any]:
    """Make what a page takes as given; the names that its Python has."""
    make = GIVEN.get(page)
    return {} if make is None else make(folder)


def commands(text: str) -> list[str]:
    """The commands of a block, one by one, without what a comment says."""
    joined = text.replace("\\\n", " ")
    lines = [re.sub(r"\s+# .*$", "", line).strip() for line in joined.splitlines()]
    for old, new in CHANGED:
        lines = [line.replace(old, new) for line in lines]
    return [line for line in lines if line]


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with `rootguard` this one."""
    program = folder / "bin" / "rootguard"
    if not program.exists():
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\nfrom rootguard.cli.main import main; main()\n")
        program.chmod(0o755)
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=250,
    )
