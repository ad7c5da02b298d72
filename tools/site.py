"""The documentation site: pages that are made from the code, and a check of every link.

MkDocs loads this file as a hook, so that commands, public names and file formats are written down
once, where they are defined. `python -m tools.site build/site` checks the links of a built site.
"""

import inspect
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import click

INTEGRATIONS = (
    *("agent", "claude_agent_sdk", "fastapi", "langchain", "langgraph", "litellm", "llama_index"),
    *("openai_agents", "presidio", "pydantic_ai"),
)


def cli_page() -> str:
    """Every command, as its own --help says."""
    from rootguard.cli.main import cli

    pages = ["# Command line\n"]

    def add(command: click.Command, names: tuple[str, ...], parent: click.Context | None) -> None:
        context = click.Context(command, info_name=names[-1], parent=parent, max_content_width=96)
        usage = command.get_help(context)
        pages.append(f"{'#' * min(len(names) + 1, 4)} {' '.join(names)}\n\n```text\n{usage}\n```\n")
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                if inner is not None and not inner.hidden:
                    add(inner, (*names, name), context)

    add(cli, ("rootguard",), None)
    return "\n".join(pages)


def api_page() -> str:
    """The public names, from their docstrings."""
    import rootguard

    return "# Python API\n\n" + "\n\n".join(f"::: rootguard.{name}" for name in rootguard.__all__)


def integrations_page() -> str:
    """The modules for agent frameworks, from their docstrings and without importing them."""
    made = [f"::: rootguard.integrations.{name}" for name in INTEGRATIONS]
    return "# Integrations API\n\n" + "\n\n".join(made)


def formats_page() -> str:
    """File formats, in the words of the modules that read them."""
    from rootguard.session import policy, profile
    from rootguard.template import reading

    parts = ["# File formats\n"]
    for title, module in (("Template", reading), ("Profile", profile), ("Policy", policy)):
        parts.append(f"## {title}\n\n{inspect.getdoc(module)}\n")
    return "\n".join(parts)


PAGES = {
    "reference/cli.md": cli_page,
    "reference/api.md": api_page,
    "reference/integrations.md": integrations_page,
    "reference/formats.md": formats_page,
}


def on_config(config: Any) -> Any:  # noqa: ANN401
    """The release stands in the title: a site is of one version."""
    import rootguard

    config.site_name = f"RootGuard {rootguard.__version__}"
    return config


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401
    """Add the pages that are made."""
    from mkdocs.structure.files import File

    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    return files


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids |= {found[name] or "" for name in ("id", "name") if found.get(name)}
        for name in ("href", "src"):
            if found.get(name) and tag != "base":
                self.targets.append(found[name] or "")


def broken_links(site: Path) -> list[str]:
    """Links of a built site that lead nowhere, and whatever would be loaded from elsewhere."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path.resolve()] = _Links()
        pages[path.resolve()].feed(path.read_text(encoding="utf-8"))
    wrong = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are from the root of wherever the site will be
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https", "mailto", "data") or target.startswith("//"):
                continue
            inside = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            inside = inside / "index.html" if inside.is_dir() else inside
            there = inside.exists()
            if there and parts.fragment and inside in pages:
                there = unquote(parts.fragment) in pages[inside].ids or parts.fragment == "__skip"
            if not there:
                wrong.append(f"{path.relative_to(site.resolve())}: {target}")
    return wrong


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Scripts, styles and pictures that a page would fetch over the network."""
    found = []
    for path in sorted(site.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        tags = ('<script src="http', '<link rel="stylesheet" href="http', '<img src="http')
        found += [f"{path.relative_to(site)}: {tag}" for tag in tags if tag in text]
    return found


def main() -> int:
    """Check a built site."""
    site = Path(sys.argv[1])
    wrong = broken_links(site) + loaded_from_elsewhere(site)
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    pages = len(list(site.rglob("*.html")))
    sys.stdout.write(f"{pages} pages, {len(wrong)} links that lead nowhere\n")
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
