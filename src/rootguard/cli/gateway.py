"""`rootguard gateway`: stand between an agent and a chat service; nothing private gets through."""

import ipaddress
import logging
import os
import sys
import threading
from collections.abc import Callable

import click

from rootguard.channels.detection import Detector, Rules, SpacyNames
from rootguard.channels.gateway import LOG, LOOPBACK, GatewaySettings, build_app
from rootguard.channels.guarded import Guarded
from rootguard.channels.guarding import Channel
from rootguard.channels.keys import Keys, load_keys
from rootguard.channels.server import SWITCH_SECONDS, listen, make_server
from rootguard.channels.text import NumberPolicy
from rootguard.cli.options import vault_url
from rootguard.cli.output import EXIT_CODES
from rootguard.cli.values import tell_owner
from rootguard.session import Person, load_profile
from rootguard.store import Store, open_store

_POLICIES = click.Choice(("pass", "redact", "block"))


@click.command("gateway", epilog=EXIT_CODES)
@click.option("--profile", type=click.Path(dir_okay=False), help="The person's profile.")
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(dir_okay=False),
    help="TOML file of API keys' SHA-256 and the profile of each, in place of --profile.",
)
@click.option("--upstream", required=True, metavar="URL", help="Where the service is, with /v1.")
@click.option("--anthropic-upstream", metavar="URL", help="Another one for /v1/messages.")
@click.option(
    "--upstream-key-env",
    metavar="NAME",
    help="Environment variable with the upstream's key; without it the caller's key goes on.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Elsewhere only with --keys.")
@click.option("--port", default=8791, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--store",
    "store_url",
    help="In place of the profile's store: sqlite:///FILE, postgresql://… or memory:",
)
@click.option(
    "--detect",
    default="rules",
    show_default=True,
    metavar="rules|spacy:PIPELINE|none",
    help="How identifiers that nobody declared are found.",
)
@click.option(
    "--numbers",
    type=_POLICIES,
    default="block",
    show_default=True,
    help="Numbers of no declared root beside a private word.",
)
@click.option(
    "--other-numbers",
    type=_POLICIES,
    default="pass",
    show_default=True,
    help="All other numbers of no declared root.",
)
@click.option("--allow-media", is_flag=True, help="Let images, audio and files pass, unread.")
@click.option("--rate", default=600, show_default=True, type=click.IntRange(1), help="Per minute.")
@click.option("--traces", is_flag=True, help="OpenTelemetry spans, if it is installed.")
@click.option("--quiet", is_flag=True, help="No line for each request.")
def command(
    *,
    profile: str | None,
    keys_file: str | None,
    upstream: str,
    anthropic_upstream: str | None,
    upstream_key_env: str | None,
    host: str,
    port: int,
    store_url: str | None,
    detect: str,
    numbers: NumberPolicy,
    other_numbers: NumberPolicy,
    allow_media: bool,
    rate: int,
    traces: bool,
    quiet: bool,
) -> None:
    """Guard an agent that speaks to OpenAI's or Anthropic's API: change its base URL to this.

    Numbers of the profile's roots leave noised, identifiers leave as tokens, and replies come back
    with the identifiers restored. What cannot be inspected is not sent.

    \b
    Examples:
      rootguard gateway --profile me.toml --upstream https://api.example.com/v1
      rootguard gateway --keys keys.toml --host 0.0.0.0 --upstream-key-env UPSTREAM_KEY \\
        --upstream https://api.example.com/v1
    """
    if (profile is None) == (keys_file is None):
        raise click.UsageError("give either --profile or --keys")
    if keys_file is None and not _is_loopback(host):
        raise click.UsageError(
            f"without --keys anybody who reaches {host} would speak as you; "
            "give --keys, or stay on 127.0.0.1"
        )
    if not upstream.startswith(("http://", "https://")):
        raise click.UsageError("--upstream is a URL such as https://api.example.com/v1")
    keys = None if keys_file is None else load_keys(keys_file)
    opener = _opener(store_url, _detectors(detect), near_private=numbers, elsewhere=other_numbers)
    if keys is not None:
        _check_apart(keys, store_url)
    settings = GatewaySettings(
        upstream=upstream,
        anthropic_upstream=anthropic_upstream,
        upstream_key=_upstream_key(upstream_key_env),
        profile=profile or "",
        keys=keys,
        hosts=LOOPBACK | {host},
        allow_media=allow_media,
        traced=traces,
        per_minute=rate,
    )
    app = build_app(settings, open_channel=opener)
    if profile is not None:
        opener(profile)  # a mistake in the profile is told now, not to the first caller
    if not quiet:
        LOG.addHandler(logging.StreamHandler(sys.stderr))
        LOG.setLevel(logging.INFO)
    try:
        listening = listen(host, port)
    except OSError:
        raise click.ClickException(f"cannot listen on {host}, port {port}") from None
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}"
    click.echo(f"export OPENAI_BASE_URL={address}/v1 ANTHROPIC_BASE_URL={address}")
    sys.stdout.flush()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        make_server(app, host=host).run(sockets=[listening])
    except KeyboardInterrupt:
        return


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _upstream_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise click.UsageError(f"the environment variable {variable} is empty or not set")
    return key


def _detectors(chosen: str) -> tuple[Detector, ...]:
    kind, _, pipeline = chosen.partition(":")
    if kind == "spacy" and pipeline:
        return (Rules(), SpacyNames(pipeline))
    if chosen == "rules":
        return (Rules(),)
    if chosen == "none":
        return ()
    raise click.UsageError("--detect is rules, none, or spacy: and the name of a pipeline")


def _opener(
    store_url: str | None,
    detectors: tuple[Detector, ...],
    *,
    near_private: NumberPolicy,
    elsewhere: NumberPolicy,
) -> Callable[[str], Channel]:
    """Opens the channel of a profile; profiles with one store share its connections."""
    stores: dict[str, Store] = {}
    lock = threading.Lock()

    def open_channel(path: str) -> Channel:
        profile = load_profile(path)
        url = vault_url(store_url, profile.store)
        with lock:
            if url not in stores:
                stores[url] = open_store(url)
        person = Person.open(profile, store=stores[url], on_clamp=tell_owner)
        return Guarded(person, detectors=detectors, near_private=near_private, elsewhere=elsewhere)

    return open_channel


def _check_apart(keys: Keys, store_url: str | None) -> None:
    """Two profiles that mean one principal in one store would speak for each other."""
    owners: dict[tuple[str, str], str] = {}
    for path in dict.fromkeys(keys.profiles.values()):
        profile = load_profile(path)
        place = (vault_url(store_url, profile.store), str(profile.principal))
        if owners.setdefault(place, path) != path:
            raise click.UsageError(
                "two profiles have the same principal in the same store; "
                "give each profile a principal of its own"
            )
