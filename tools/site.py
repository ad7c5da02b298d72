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


ENDPOINTS = {
    "Gateway": {
        "/healthz": 'Whether the process runs: always 200, `{"status": "ok"}`. No key.',
        "/readyz": "Whether requests should be sent here: 200 `ready`, or 503 `draining` after "
        "SIGTERM with `--drain`, or 503 `vault unavailable`. No key.",
        "/metrics": "Counters and times for Prometheus. No key.",
        "/v1/chat/completions": "OpenAI's chat completions, whole or streamed.",
        "/v1/responses": "OpenAI's responses, whole or streamed.",
        "/v1/completions": "OpenAI's older completions, whole or streamed.",
        "/v1/embeddings": "OpenAI's embeddings, of the guarded text.",
        "/v1/moderations": "OpenAI's moderations, of the guarded text.",
        "/v1/models": "The upstream's list of models.",
        "/v1/models/{model:path}": "One of the upstream's models.",
        "/openai/deployments/{deployment}/chat/completions": "Azure's path of chat completions.",
        "/openai/deployments/{deployment}/completions": "Azure's path of completions.",
        "/openai/deployments/{deployment}/embeddings": "Azure's path of embeddings.",
        "/openai/responses": "Azure's path of responses.",
        "/openai/models": "Azure's path of models.",
        "/v1/messages": "Anthropic's messages, whole or streamed.",
        "/v1/messages/count_tokens": "Anthropic's count of tokens, of the guarded message.",
    },
    "Console": {
        "/console/": "The page. Also a part of the gateway, with `--console`.",
        "/console/static/{name:path}": "The page's scripts and styles.",
        "/console/api/login": "Exchange a key for a cookie.",
        "/console/api/logout": "End a session.",
        "/console/api/me": "Who is signed in, and with which templates.",
        "/console/api/log": "The audit log: answers and refusals, newest first.",
        "/console/api/live": "The same as server-sent events, as they happen.",
        "/console/api/graph": "Which value is computed from which.",
        "/console/api/ledger": "What was spent, and what is left.",
        "/console/api/known": "What each service knows about each value.",
        "/console/api/goals": "What a choice of what to hide would cost.",
        "/console/api/outlook": "What a budget buys.",
        "/console/api/changes": "Changes that wait for the owner: list them, or decide one.",
        "/console/api/export": "The audit log and the ledger as a file.",
        "/console/api/attack": "Attack one's own released values.",
        "/console/api/{rest:path}": "Any other path: 404.",
    },
    "MCP server": {
        "/mcp": "The tools of a session over streamable HTTP, with `rootguard mcp serve --http`.",
    },
}
"""What each path is for. The paths themselves are those of the applications: see `http_routes`."""


def http_routes() -> dict[str, dict[str, list[str]]]:
    """Every path that the servers answer on, with its methods; none listed means any."""
    from rootguard.channels.gateway.app import GatewaySettings, build_app
    from rootguard.channels.gateway.channel import PersonChannel
    from rootguard.channels.mcp.server import PATH, build_server
    from rootguard.console import AccessControl, Console, Viewer
    from rootguard.session import Person, parse_profile
    from rootguard.vault import open_store

    def nobody(_profile: str) -> PersonChannel:
        raise NotImplementedError

    def no_viewer(_profile: str) -> Viewer:
        raise NotImplementedError

    gateway = build_app(GatewaySettings(upstream="http://127.0.0.1:1"), open_channel=nobody)
    console = Console(AccessControl(no_viewer, keys=None, profile=""), hosts=None)
    profile = parse_profile('templates = ["fib4"]\nbudget = "0.9"\n', file="me.toml")
    person = Person.open(profile, store=open_store("memory:"))
    mcp = build_server(person).streamable_http_app(streamable_http_path=PATH, stateless_http=True)

    def paths(routes: Any, prefix: str = "") -> dict[str, list[str]]:  # noqa: ANN401
        found: dict[str, list[str]] = {}
        for route in routes:
            methods = found.setdefault(prefix + route.path, [])
            methods += sorted(set(route.methods or ()) - {"HEAD", "OPTIONS", *methods})
        return found

    return {
        "Gateway": paths(gateway.routes),
        "Console": paths(console._routed().routes, "/console"),
        "MCP server": paths(mcp.routes),
    }


def http_page() -> str:
    """Every path of the servers, from their routes."""
    parts = ["# HTTP endpoints\n"]
    for server, paths in http_routes().items():
        parts.append(f"## {server}\n\n| path | methods | what it is for |\n|---|---|---|")
        for path, methods in paths.items():
            shown = ", ".join(methods) or "any"
            parts.append(f"| `{path.replace(':path', '')}` | {shown} | {ENDPOINTS[server][path]} |")
        parts.append("")
    return "\n".join(parts)


PAGES = {
    "reference/cli.md": cli_page,
    "reference/api.md": api_page,
    "reference/integrations.md": integrations_page,
    "reference/formats.md": formats_page,
    "reference/http.md": http_page,
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
