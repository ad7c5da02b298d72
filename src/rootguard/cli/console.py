"""`rootguard console`: the audit log on a page of this machine, for the holder of its key."""

import html
import json
import secrets
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rootguard.cli.addresses import is_loopback, key_from, listen_at
from rootguard.cli.options import json_option, vault_url
from rootguard.cli.output import EXIT_CODES, need

if TYPE_CHECKING:
    from rootguard.console import Viewer


@click.command("console", epilog=EXIT_CODES)
@click.option("--profile", type=click.Path(dir_okay=False), help="The person's profile.")
@click.option("--principal", help="In place of a profile: somebody whose values the vault keeps.")
@click.option(
    "--template",
    "templates",
    multiple=True,
    help="With --principal: which templates; by default all whose roots are stored.",
)
@click.option(
    "--store",
    "store_url",
    help="In place of the profile's store: sqlite:///FILE or postgresql://…",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="An address of this machine.")
@click.option("--port", default=8792, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--key-env",
    metavar="NAME",
    help="Environment variable with the key to ask for, in place of a fresh one.",
)
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@json_option
def command(
    *,
    profile: str | None,
    principal: str | None,
    templates: tuple[str, ...],
    store_url: str | None,
    host: str,
    port: int,
    key_env: str | None,
    opened: bool,
    as_json: bool,
) -> None:
    """Show on a local page what each service knows of you, the audit log, and what hiding costs.

    The page reads the vault, which holds noised values only. It draws and spends nothing, unless
    you enter a value and approve its price there. It listens on this machine only and asks for a
    key, which is in the address that is printed.

    \b
    Examples:
      rootguard console --profile me.toml --open
      rootguard console --principal owner --store sqlite:///vault.sqlite3 --port 0
    """
    need("console", "starlette", "uvicorn")
    if (profile is None) == (principal is None):
        raise click.UsageError("give either --profile or --principal")
    if templates and profile is not None:
        raise click.UsageError("--template is for --principal; a profile has its own templates")
    if not is_loopback(host):
        raise click.UsageError(
            "this page stays on this machine; to reach it from elsewhere, use "
            "rootguard gateway --keys with --console, behind TLS"
        )
    key = secrets.token_urlsafe(24) if key_env is None else key_from(key_env)
    from rootguard.channels.http_server import make_server
    from rootguard.console import PREFIX, AccessControl, Console, own_key

    viewer = _viewer(profile, principal, templates, store_url)
    store = viewer.store
    hosts = frozenset(("127.0.0.1", "localhost", "::1", host.strip("[]").lower()))
    page = Console(
        AccessControl(lambda _profile: _again(viewer, profile), keys=own_key(key)), hosts=hosts
    )
    listening, base = listen_at(host, port)
    address = f"{base}{PREFIX}/"
    link = f"{address}#key={key}"
    click.echo(json.dumps({"url": address, "link": link, "key": key}) if as_json else link)
    sys.stdout.flush()
    server = make_server(page.alone(), host=host, shutdown_timeout=5)
    page.stopping = lambda: server.should_exit
    try:
        with _opened(link) if opened else nullcontext():
            server.run(sockets=[listening])
    except KeyboardInterrupt:
        return
    finally:
        store.close()


@contextmanager
def _opened(link: str) -> Iterator[None]:
    """Open a link in the browser by a file that only its owner can read.

    As an argument of the browser's, the key would be seen by everybody on the machine.
    """
    with tempfile.TemporaryDirectory(prefix="rootguard-") as folder:
        page = Path(folder) / "console.html"
        page.touch(mode=0o600)
        target = html.escape(link, quote=True)
        page.write_text(f'<meta http-equiv="refresh" content="0;url={target}">', encoding="utf-8")
        webbrowser.open(page.as_uri())
        yield


def _again(viewer: "Viewer", profile: str | None) -> "Viewer":
    """The same person, with the profile as it is now: its goals may have been saved."""
    from rootguard.console import of_profile
    from rootguard.session import load_profile

    return viewer if profile is None else of_profile(load_profile(profile), viewer.store, profile)


def _viewer(
    profile: str | None, principal: str | None, templates: tuple[str, ...], store_url: str | None
) -> "Viewer":
    from rootguard.console import of_principal, of_profile
    from rootguard.session import load_profile
    from rootguard.vault import open_store

    if profile is None:
        store = open_store(vault_url(store_url, None), create=False)
        return of_principal(principal or "", store, templates)
    loaded = load_profile(profile)
    url = vault_url(store_url, loaded.store)
    store = open_store(url, create=False, vault_id=loaded.vault, anchor=loaded.anchor)
    return of_profile(loaded, store, profile)
