"""`rootguard mcp`: serve a person's guarded values to agents, guard a server, look at its tools.

Each subcommand imports what it needs when it runs: an MCP client starts these processes itself and
waits for them.
"""

import functools
import hashlib
import hmac
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rootguard.cli.addresses import is_loopback, key_from, listen_at
from rootguard.cli.options import file_option, json_option, preset_option, vault_url
from rootguard.cli.output import EXIT_CODES, need

if TYPE_CHECKING:
    from rootguard.channels.mcp.inspection import Inspection
    from rootguard.channels.mcp.proxy.servers import RemoteOptions, TokenFile
    from rootguard.channels.tools import ToolMap
    from rootguard.channels.tools.answers import Answer
    from rootguard.session import Person, Profile
    from rootguard.store import Store

_profile = click.option(
    "--profile",
    "profile_path",
    required=True,
    type=click.Path(dir_okay=False),
    help="The person's profile.",
)
_store = click.option(
    "--store",
    "store_url",
    help="In place of the profile's store: sqlite:///FILE, postgresql://… or memory:",
)
_pins = click.option(
    "--pins",
    "pins_path",
    type=click.Path(dir_okay=False),
    help="TOML file that says which parameter is which value.",
)
_REMOTE = (
    click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="Send this with every request to --url; ${VAR} is read from the environment.",
    ),
    click.option("--sse", is_flag=True, help="--url speaks the older transport (SSE)."),
    click.option("--oauth", is_flag=True, help="Sign in to --url; tokens are kept sealed."),
    click.option("--client-id", default="", help="With --oauth: a client id that you were given."),
    click.option(
        "--client-secret-env",
        metavar="NAME",
        help="Environment variable with that client's secret: client credentials.",
    ),
    click.option("--issuer", default="", help="With --oauth: who issued that client."),
    click.option("--scope", default="", help="With --oauth: what to ask for."),
)


def _remote_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_REMOTE):
        function = option(function)
    return function


_SHOWN = 200
"""Characters of a stranger's text on the screen: two lines."""
_command = click.argument("command", nargs=-1, type=click.UNPROCESSED)


@click.group("mcp", epilog=EXIT_CODES)
def command() -> None:
    """Noised values over the Model Context Protocol.

    \b
    Examples:
      rootguard mcp serve --profile me.toml
      rootguard mcp proxy --profile me.toml --service clinic \\
        -- clinic-mcp-server --stdio
      rootguard mcp inspect --profile me.toml -- clinic-mcp-server --stdio
    """
    need("mcp", "mcp")


@command.command("serve", epilog=EXIT_CODES)
@_profile
@click.option("--service", help="Serve at this service's tier, within the profile's policy.")
@click.option("--http", "address", metavar="HOST:PORT", help="On HTTP, in place of stdio.")
@click.option(
    "--key-env",
    metavar="NAME",
    help="Environment variable with a bearer key that HTTP clients must send.",
)
@_store
def serve(
    *,
    profile_path: str,
    service: str | None,
    address: str | None,
    key_env: str | None,
    store_url: str | None,
) -> None:
    """Serve noised values, and nothing else, to any agent that uses MCP.

    Without --http it speaks on standard input and output, as MCP clients start it. With --http it
    listens at http://HOST:PORT/mcp; a host that others can reach needs --key-env.
    """
    place = None if address is None else _address(address)
    key = None if key_env is None else key_from(key_env)
    if place is None and key is not None:
        raise click.UsageError("--key-env is for --http")
    if place is not None and key is None and not is_loopback(place[0]):
        raise click.UsageError(
            "without a key anybody who reaches that host would read your values; "
            "give --key-env, or stay on 127.0.0.1"
        )
    person = _open(profile_path, service, store_url)
    from rootguard.channels.mcp.server import run_stdio
    from rootguard.channels.mcp.transport import quiet

    quiet()
    try:
        if place is None:
            run_stdio(person)
        else:
            _serve_http(person, *place, key=key)
    except KeyboardInterrupt:
        # A thread may still wait for input, and would keep the process.
        os._exit(0)


@command.command("proxy", epilog=EXIT_CODES)
@_profile
@click.option(
    "--service", help="The service behind the proxy, by its name in the profile's policy."
)
@click.option("--url", help="Address of a server on HTTP, in place of a command.")
@file_option(
    "--config", "config_path", "An mcpServers file: sit in front of all servers that it lists."
)
@_pins
@preset_option(
    "--timeout",
    click.FloatRange(min=0.1),
    300.0,
    "Seconds until a server that does not answer is given up.",
)
@_remote_options
@click.option("--explain", is_flag=True, help="Print each change on standard error as it happens.")
@_store
@_command
def proxy(
    *,
    profile_path: str,
    service: str | None,
    url: str | None,
    config_path: str | None,
    pins_path: str | None,
    timeout: float,
    explain: bool,
    store_url: str | None,
    command: tuple[str, ...],
    **remote: object,
) -> None:
    """Sit in front of another MCP server: replace private values, restore identifiers in replies.

    \b
    Examples:
      rootguard mcp proxy --profile me.toml --service clinic \\
        -- clinic-mcp-server --stdio
      rootguard mcp proxy --profile me.toml --service clinic \\
        --url https://clinic.example/mcp
      rootguard mcp proxy … --url https://clinic.example/mcp \\
        --header 'Authorization: Bearer ${KEY}'
      rootguard mcp proxy … --url https://clinic.example/mcp --oauth
      rootguard mcp proxy --profile me.toml --config servers.json
    """
    _one_of(command=command, url=url, config=config_path)
    from rootguard.channels.mcp.jsonrpc import Limits
    from rootguard.channels.mcp.proxy.proxy import run_proxy
    from rootguard.session import load_profile

    profile = load_profile(profile_path)
    run_proxy(
        profile,
        _opener(profile, store_url),
        file=profile_path,
        service=service,
        command=command,
        url=url,
        config=config_path,
        pins=_pins_of(profile_path, pins_path),
        limits=Limits(start=min(timeout, 60.0), answer=timeout),
        explain=explain,
        remote=_remote(url, remote),
        tokens=_token_file(profile, profile_path, store_url),
    )


@command.command("inspect", epilog=EXIT_CODES)
@_profile
@click.option("--url", help="Address of a server on HTTP, in place of a command.")
@file_option("--config", "config_path", "An mcpServers file: look at all servers that it lists.")
@file_option("--openapi", "openapi_path", "An OpenAPI document: its operations are read as tools.")
@_pins
@click.option(
    "--pin",
    "typed",
    multiple=True,
    metavar="TOOL.PARAMETER=ROOT[:UNIT]",
    help="Write a correction to the file of --pins (pins.toml beside the profile); =ignore: none.",
)
@_remote_options
@_store
@json_option
@_command
def inspect(
    *,
    profile_path: str,
    url: str | None,
    config_path: str | None,
    openapi_path: str | None,
    pins_path: str | None,
    typed: tuple[str, ...],
    store_url: str | None,
    as_json: bool,
    command: tuple[str, ...],
    **remote: object,
) -> None:
    """Which parameter of a server's tools is which value, and what that would release.

    Starts the server, reads its list of tools, and calls none of them. Nothing is noised.

    \b
    Examples:
      rootguard mcp inspect --profile me.toml -- clinic-mcp-server --stdio
      rootguard mcp inspect --profile me.toml \\
        --url https://clinic.example/mcp --oauth
      rootguard mcp inspect --profile me.toml --openapi clinic.json
      rootguard mcp inspect --profile me.toml --pin score.x1=ast:U/L \\
        -- clinic-mcp-server
    """
    _one_of(command=command, url=url, config=config_path, openapi=openapi_path)
    from rootguard.channels.faults import RequestRefusedError
    from rootguard.channels.mcp.inspection import inspect_server
    from rootguard.channels.tools.corrections import read_corrections, with_corrections
    from rootguard.session import load_profile

    profile = load_profile(profile_path)
    file = pins_path or _pins_beside(profile_path)
    corrections = read_corrections(typed) if typed else None
    try:
        found = inspect_server(
            profile_path,
            command=command,
            url=url,
            config=config_path,
            openapi=openapi_path,
            pins_path=file if Path(file).exists() or (pins_path and not typed) else None,
            corrections=corrections,
            remote=_remote(url, remote),
            tokens=_token_file(profile, profile_path, store_url),
        )
    except RequestRefusedError as problem:
        denied = problem.fault.code in ("upstream_unauthorized", "upstream_forbidden")
        words = problem.fault.text if denied else "the server could not be started, reached or read"
        raise click.ClickException(words) from None
    if corrections is not None:  # only now: what names no root or no unit is refused above
        text = Path(file).read_text("utf-8") if Path(file).exists() else ""
        Path(file).write_text(with_corrections(text, corrections, file=file), "utf-8")
    _show(found, as_json=as_json)


def _remote(url: str | None, given: Mapping[str, object]) -> "RemoteOptions":
    """What a server on HTTP is told of who asks, from the options of a command."""
    from rootguard.channels.mcp.proxy.servers import RemoteOptions, filled, is_sse

    used = [name for name, value in given.items() if value]
    if used and url is None:
        option = f"--{used[0].rstrip('s') if used[0] == 'headers' else used[0].replace('_', '-')}"
        raise click.UsageError(f"{option} is for --url; a file of servers has these by itself")
    headers: dict[str, str] = {}
    listed = given["headers"]
    for text in listed if isinstance(listed, tuple) else ():
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise click.UsageError("--header is 'NAME: VALUE'")
        headers[name.strip()] = filled(value.strip(), file="--header", key=name.strip())
    named = {"client_id": given["client_id"], "issuer": given["issuer"], "scope": given["scope"]}
    variable = given["client_secret_env"]
    if isinstance(variable, str):
        named["client_secret"] = os.environ.get(variable, "")
        if not named["client_secret"]:
            raise click.UsageError(f"the environment variable {variable} holds no secret")
    oauth = {key: str(value) for key, value in named.items() if value}
    if oauth and not given["oauth"]:
        raise click.UsageError(
            "--client-id, --client-secret-env, --issuer and --scope need --oauth"
        )
    return RemoteOptions(
        headers=headers,
        sse=bool(given["sse"]) or (url is not None and is_sse(url)),
        oauth=oauth if given["oauth"] else None,
    )


def _token_file(profile: "Profile", profile_path: str, store_url: str | None) -> "TokenFile":
    """Where sign-ins are kept: beside the profile, sealed under a key of the person in its vault.

    Rotating the vault's key leaves it as it is; erasing the person makes it another one.
    """

    def find() -> tuple[Path, bytes]:
        from rootguard.vault import open_store

        url = vault_url(store_url, profile.store)
        with closing(open_store(url, vault_id=profile.vault, anchor=profile.anchor)) as store:
            person = f"{store.epoch(profile.principal)} {profile.principal}"
            key = hmac.digest(store.identifier_key, person.encode(), hashlib.sha256)
            return Path(profile_path).with_suffix(".oauth"), key

    return find


def _pins_beside(profile_path: str) -> str:
    """Where corrections are kept unless somebody says otherwise."""
    return str(Path(profile_path).with_name("pins.toml"))


def _pins_of(profile_path: str, pins_path: str | None) -> str | None:
    beside = _pins_beside(profile_path)
    return pins_path or (beside if Path(beside).exists() else None)


def _show(found: "Inspection", *, as_json: bool) -> None:
    """For programs or for people."""
    from rich.markup import escape

    from rootguard.cli.output import console, number, table, write_json

    if as_json:
        write_json(
            {
                "tools": [_described(each) for each in found.tools],
                "text": found.text,
                "plan": {
                    "roots": [asdict(share) for share in found.shares],
                    "computed": list(found.computed),
                },
            }
        )
        return
    out = console()
    for each in found.tools:
        rows = [
            (
                _dotted(b.parameter),
                b.name,
                b.unit or "its own",
                f"{b.confidence:.2f}",
                _plain(b.reason),
            )
            for b in each.bindings
        ]
        rows += [
            (_dotted(a.parameter), ", ".join(_about(a)), "", "answered", _plain(a.why))
            for a in each.answers
        ]
        rows += [
            (_dotted(q.parameter), " or ".join(q.candidates) or "?", "", "asked", _plain(q.why))
            for q in each.asked
        ]
        rows += [(_dotted(path), "-", "", "", "not one of your values") for path in each.unbound]
        computes = "" if each.formula is None else f", computes {each.formula}"
        out.print(
            table(
                escape(f"{_plain(each.tool)}{computes}"),
                ("parameter", "value", "unit", ">confidence", "why"),
                rows,
            )
        )
    out.print(
        table(
            "What these tools would be told, noised once",
            ("root", "unit", ">epsilon per step", ">step"),
            [(s.root, s.unit, number(s.epsilon), number(s.step)) for s in found.shares],
        )
    )
    if found.computed:
        out.print(f"Computed from these at no further cost: {', '.join(found.computed)}.")
    out.print(
        f'Texts for this server: write text = "{found.text}" under its [services.NAME] in the '
        "policy (docs/mcp.md says what that means)."
    )
    if any(each.asked for each in found.tools):
        out.print(
            "What is asked is not acted on; say which it is with --pin, or in a file for --pins."
        )


def _described(tool: "ToolMap") -> dict[str, object]:
    """A tool as it was understood, for programs; answers by their kind and values."""
    answers = [
        {
            "parameter": list(a.parameter),
            "kind": type(a).__name__,
            "values": _about(a),
            "why": a.why,
        }
        for a in tool.answers
    ]
    return {
        "tool": tool.tool,
        "formula": tool.formula,
        "bindings": [asdict(binding) for binding in tool.bindings],
        "answers": answers,
        "asked": [asdict(question) for question in tool.asked],
        "unbound": [list(path) for path in tool.unbound],
    }


def _about(asked: "Answer") -> list[str]:
    from rootguard.channels.tools.answers import measures_of

    return list(dict.fromkeys(measure.name for measure in measures_of(asked)))


def _dotted(path: Sequence[str]) -> str:
    return _plain(".".join(path))


def _plain(text: str) -> str:
    """A stranger's text for a terminal: one line, and no control sequence."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:_SHOWN])


def _open(profile_path: str, service: str | None, store_url: str | None) -> "Person":
    from rootguard.session import load_profile

    return _opener(load_profile(profile_path), store_url)(service)


def _opener(profile: "Profile", store_url: str | None) -> "Callable[[str | None], Person]":
    """Speaks for a profile's person to any service. The vault is opened once, when it is needed."""
    from rootguard.cli.options import tell_owner
    from rootguard.session import Person
    from rootguard.vault import open_store

    @functools.cache
    def vault() -> "Store":
        url = vault_url(store_url, profile.store)
        return open_store(url, vault_id=profile.vault, anchor=profile.anchor)

    return lambda service: Person.open(profile, store=vault(), service=service, on_clamp=tell_owner)


def _serve_http(person: "Person", host: str, port: int, *, key: str | None) -> None:
    from rootguard.channels.http_server import make_server
    from rootguard.channels.mcp.server import PATH, http_app

    listening, base = listen_at(host, port)
    click.echo(f"{base}{PATH}")
    sys.stdout.flush()
    app = http_app(person, key=key, loopback=is_loopback(host))
    # Seconds: a client's open stream ends with the client, and would hold the server until then.
    make_server(app, host=host, shutdown_timeout=5).run(sockets=[listening])


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.UsageError("--http is HOST:PORT, such as 127.0.0.1:8792")
    return host.strip("[]"), int(port)


def _one_of(**given: object) -> None:
    if sum(map(bool, given.values())) != 1:
        ways = " or ".join("-- COMMAND" if each == "command" else f"--{each}" for each in given)
        raise click.UsageError(f"give one of {ways}")
