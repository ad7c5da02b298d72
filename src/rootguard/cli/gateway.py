"""`rootguard gateway`: stand between an agent and a chat service; nothing private gets through."""

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from rootguard.cli.addresses import is_loopback, listen_at
from rootguard.cli.options import preset_option, tell_owner, vault_url
from rootguard.cli.output import EXIT_CODES, EXIT_REFUSED, need
from rootguard.errors import RootGuardError

if TYPE_CHECKING:
    from rootguard.channels.api_keys import ApiKeys
    from rootguard.channels.detection import Detector
    from rootguard.channels.gateway.app import GatewaySettings
    from rootguard.channels.gateway.channel import PersonChannel
    from rootguard.channels.gateway.workers import Work
    from rootguard.channels.text.arbiter import Arbitration
    from rootguard.channels.text.channel import NumberPolicy, OtherNumberPolicy
    from rootguard.console import Console, Viewer
    from rootguard.session import Profile
    from rootguard.session.profile import DetectionChoice, UnknownFields
    from rootguard.store import Store

# As a profile has them; a test holds the two together.
UNKNOWN_FIELD_CHOICES = ("refuse", "drop", "pass")
_ARBITER_CONTEXT = 1024
"""Tokens: the examples have some 350, a sentence 120 at most."""
_POLICIES = click.Choice(("pass", "redact", "block"))
_OTHER_POLICIES = click.Choice(("pass", "careful", "redact", "block"))


@click.command("gateway", epilog=EXIT_CODES)
@click.option("--profile", type=click.Path(dir_okay=False), help="The person's profile.")
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(dir_okay=False),
    help="TOML file of API keys' SHA-256 and the profile of each, in place of --profile.",
)
@click.option("--upstream", required=True, metavar="URL", help="The service's base URL, with /v1.")
@click.option("--anthropic-upstream", metavar="URL", help="Another base URL for /v1/messages.")
@click.option(
    "--upstream-key-env",
    metavar="NAME",
    help="Environment variable with the upstream's key; without it the caller's key is passed on.",
)
@click.option(
    "--anthropic-key-env",
    metavar="NAME",
    help="The same for --anthropic-upstream, which never gets the other key.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen; where others can reach it, --keys is needed.",
)
@preset_option("--port", click.IntRange(0, 65535), 8791, "Port to listen on; 0 for any free one.")
@click.option(
    "--store",
    "store_url",
    help="In place of the profile's store: sqlite:///FILE, postgresql://… or memory:",
)
@click.option(
    "--detect",
    metavar="rules|spacy:PIPELINE|presidio:PIPELINE|none",
    help="How identifiers that nobody declared are found, in place of the profile's "
    "[detection] detectors; a model beside the rules.  [default: rules]",
)
@preset_option(
    "--numbers",
    _POLICIES,
    "redact",
    "What to do with a number in doubt: near a private word, but of no declared root.",
)
@click.option(
    "--arbiter",
    type=click.Path(exists=True, dir_okay=False),
    metavar="MODEL.gguf",
    help="A small language model that is asked about numbers in doubt, with all numbers masked.",
)
@preset_option(
    "--other-numbers",
    _OTHER_POLICIES,
    "pass",
    "What to do with all other numbers of no declared root; careful treats those that could be "
    "yours, by the words around them, as in doubt.",
)
@click.option(
    "--unknown-fields",
    type=click.Choice(UNKNOWN_FIELD_CHOICES),
    help="What to do with unknown fields of a request. By default as the profile says, or refuse.",
)
@click.option("--allow-media", is_flag=True, help="Let images, audio and files pass, unread.")
@click.option(
    "--rate",
    default=600,
    show_default=True,
    type=click.IntRange(1),
    help="Requests per minute and caller.",
)
@click.option(
    "--traces", is_flag=True, help="Record OpenTelemetry spans, if OpenTelemetry is installed."
)
@click.option(
    "--console",
    "with_console",
    is_flag=True,
    help="Also serve a page at /console that shows what left; each key of --keys opens its own.",
)
@preset_option(
    "--workers",
    click.IntRange(1, 64),
    1,
    "Processes that share the port and the vault, for more than one processor.",
)
@click.option(
    "--drain",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 600),
    metavar="SECONDS",
    help="After SIGTERM keep serving for so long, while /readyz answers 503.",
)
@click.option("--quiet", is_flag=True, help="Do not log a line for each request.")
def command(
    *,
    profile: str | None,
    keys_file: str | None,
    upstream: str,
    anthropic_upstream: str | None,
    upstream_key_env: str | None,
    anthropic_key_env: str | None,
    host: str,
    port: int,
    store_url: str | None,
    detect: str | None,
    numbers: "NumberPolicy",
    arbiter: str | None,
    other_numbers: "OtherNumberPolicy",
    unknown_fields: "UnknownFields | None",
    allow_media: bool,
    rate: int,
    traces: bool,
    with_console: bool,
    workers: int,
    drain: float,
    quiet: bool,
) -> None:
    """Protect an agent that uses OpenAI's or Anthropic's API: change its base URL to this gateway.

    Numbers of the profile's roots leave noised, identifiers leave as tokens, and replies come back
    with the identifiers restored. What cannot be inspected is not sent.

    \b
    Examples:
      rootguard gateway --profile me.toml --upstream https://api.example.com/v1
      rootguard gateway --keys keys.toml --host 0.0.0.0 \\
        --upstream-key-env UPSTREAM_KEY --upstream https://api.example.com/v1
    """
    need("gateway", "httpx2", "phonenumbers", "pint", "starlette", "uvicorn")
    from rootguard.channels.api_keys import load_keys
    from rootguard.channels.gateway.app import (
        LOG,
        LOOPBACK,
        GatewaySettings,
        Readiness,
        build_app,
    )
    from rootguard.channels.gateway.workers import DRAIN_MARGIN
    from rootguard.channels.http_server import make_server, settle

    if (profile is None) == (keys_file is None):
        raise click.UsageError("give either --profile or --keys")
    if keys_file is None and not is_loopback(host):
        raise click.UsageError(
            f"without --keys anybody who reaches {host} would speak as you; "
            "give --keys, or stay on 127.0.0.1"
        )
    if not upstream.startswith(("http://", "https://")):
        raise click.UsageError("--upstream is a URL such as https://api.example.com/v1")
    _check_detector(detect)
    if arbiter is not None:
        need("llm", "xllamacpp", what="--arbiter")
    keys = None if keys_file is None else load_keys(keys_file)
    if keys is not None:
        _check_apart(keys, store_url)
    if workers > 1:
        _check_shared(keys.profiles.values() if keys else (profile or "",), store_url)
    settings = GatewaySettings(
        upstream=upstream,
        anthropic_upstream=anthropic_upstream,
        upstream_key=_upstream_key(upstream_key_env),
        anthropic_key=_upstream_key(anthropic_key_env),
        profile=profile or "",
        keys=keys,
        hosts=LOOPBACK | {host},
        allow_media=allow_media,
        traced=traces,
        per_minute=rate,
    )
    if not quiet:
        LOG.addHandler(logging.StreamHandler(sys.stderr))
        LOG.setLevel(logging.INFO)
    listening, address = listen_at(host, port)

    def announce() -> None:
        click.echo(f"export OPENAI_BASE_URL={address}/v1 ANTHROPIC_BASE_URL={address}")
        if with_console:
            click.echo(f"# what left is shown at {address}/console/")
        sys.stdout.flush()

    def serve(ready: Callable[[], None], where: socket.socket) -> None:
        vault = _vaults(store_url)
        opener = _opener(
            vault,
            detect,
            near_private=numbers,
            elsewhere=other_numbers,
            unknown_fields=unknown_fields,
            # Each process loads its own: a model's threads do not live through a fork.
            arbitration=None if arbiter is None else _arbitration(arbiter),
        )
        vaults = _distinct_vaults(keys.profiles.values() if keys else (profile or "",), store_url)

        def readiness() -> Readiness:
            if server.draining:
                return "draining"
            for each in vaults:
                vault(each).epoch(each.principal)
            return "ready"

        app = build_app(settings, open_channel=opener, readiness=readiness)
        longer = DRAIN_MARGIN if drain and workers > 1 else 0.0
        server = make_server(app, host=host, handed=workers > 1, drain=drain + longer)
        if with_console:
            page = _console(settings, vault)
            app.router.routes += page.mounted()
            page.stopping = lambda: server.should_exit
        if profile is not None:
            opener(profile)  # a mistake in the profile is told now, not to the first caller
        settle()
        ready()
        with suppress(KeyboardInterrupt):
            server.run(sockets=[where])

    with closing(listening):
        if workers == 1:
            serve(announce, listening)
        else:
            _serve_together(serve, workers, listening, announce, drain)


def _serve_together(
    serve: "Work",
    workers: int,
    listening: socket.socket,
    announce: Callable[[], None],
    drain: float,
) -> None:
    """Several processes; what goes wrong in one is told as if it were the only one."""
    from rootguard.channels.gateway.telemetry import forget_worker, share_metrics
    from rootguard.channels.gateway.workers import run_workers

    def work(ready: Callable[[], None], where: socket.socket) -> None:
        try:
            serve(ready, where)
        except click.ClickException as problem:
            problem.show()
            sys.exit(problem.exit_code)
        except RootGuardError as refusal:
            click.echo(f"rootguard: {refusal}", err=True)
            sys.exit(EXIT_REFUSED)

    with TemporaryDirectory(prefix="rootguard-metrics-") as folder:
        share_metrics(folder)
        code = run_workers(
            work, workers, listening, ready=announce, died=forget_worker, drain=drain
        )
    if code:
        sys.exit(code)


def _upstream_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise click.UsageError(f"the environment variable {variable} is empty or not set")
    return key


def _detectors(option: str | None, chosen: "DetectionChoice") -> "tuple[Detector, ...]":
    """The option's detectors, else the profile's; the profile's kinds and words in any case."""
    from rootguard.channels.detection import make_detectors

    names = chosen.detectors if chosen.detectors is not None else ("rules",)
    if option is not None:
        names = {"none": (), "rules": ("rules",)}.get(option, ("rules", option))
    return make_detectors(names, kinds=chosen.kinds, allow=chosen.allow)


def _vaults(store_url: str | None) -> "Callable[[Profile], Store]":
    """Opens the stores of profiles; profiles with one store share its connections."""
    from rootguard.vault import open_store

    stores: dict[tuple[str, str | None, Path | None], Store] = {}
    lock = threading.Lock()  # two first requests must not open one store twice

    def open_vault(profile: "Profile") -> "Store":
        where = (vault_url(store_url, profile.store), profile.vault, profile.anchor)
        with lock:
            if where not in stores:
                stores[where] = open_store(where[0], vault_id=where[1], anchor=where[2])
            return stores[where]

    return open_vault


def _distinct_vaults(profiles: Iterable[str], store_url: str | None) -> "list[Profile]":
    """One profile of each vault, to ask whether it is there."""
    from rootguard.session import load_profile

    loaded = map(load_profile, dict.fromkeys(profiles))
    found = {(vault_url(store_url, one.store), one.vault, one.anchor): one for one in loaded}
    return list(found.values())


def _console(settings: "GatewaySettings", vault: "Callable[[Profile], Store]") -> "Console":
    """The page for those who have a key; without keys, on this machine, for its one person."""
    from rootguard.console import AccessControl, Console, of_profile
    from rootguard.session import load_profile

    def open_viewer(path: str) -> "Viewer":
        profile = load_profile(path)
        # Without keys anybody on this machine is answered: then nothing can be changed.
        return of_profile(profile, vault(profile), path if settings.keys is not None else None)

    access = AccessControl(open_viewer, keys=settings.keys, profile=settings.profile)
    return Console(access, hosts=settings.hosts if settings.keys is None else None)


def _check_detector(option: str | None) -> None:
    """Whoever starts a gateway is told before it runs that there is no such detector."""
    from rootguard.channels.detection import DETECTORS

    if option is not None and option.partition(":")[0] not in ("none", *DETECTORS):
        raise click.UsageError(
            f"--detect is {', '.join(DETECTORS)} or none; a pipeline follows a colon: spacy:NAME"
        )


def _opener(
    vault: "Callable[[Profile], Store]",
    detect: str | None,
    *,
    near_private: "NumberPolicy",
    elsewhere: "OtherNumberPolicy",
    unknown_fields: "UnknownFields | None",
    arbitration: "Arbitration | None",
) -> "Callable[[str], PersonChannel]":
    """Opens the channel of a profile."""
    from rootguard.channels.gateway.channel import PersonChannel
    from rootguard.session import Person, load_profile

    def open_channel(path: str) -> "PersonChannel":
        profile = load_profile(path)
        person = Person.open(profile, store=vault(profile), on_clamp=tell_owner)
        channel = PersonChannel(
            person,
            detectors=_detectors(detect, profile.detection),
            near_private=near_private,
            elsewhere=elsewhere,
            unknown_fields=unknown_fields or profile.unknown_fields or "refuse",
            arbitration=arbitration,
        )
        return channel if profile.on_doubt is None else channel.on_doubt(profile.on_doubt)

    return open_channel


def _arbitration(model: str) -> "Arbitration":
    from rootguard.channels.text.arbiter import Arbitration, ModelArbiter
    from rootguard.evaluation.language_model import LocalModel, ModelError

    try:
        return Arbitration(ModelArbiter(LocalModel(Path(model), context=_ARBITER_CONTEXT)))
    except ModelError as problem:
        raise click.UsageError(f"--arbiter: {problem}") from None


def _check_shared(profiles: Iterable[str], store_url: str | None) -> None:
    """A store in memory is each process's own: they would noise a value each."""
    from rootguard.session import load_profile

    for path in profiles:
        if vault_url(store_url, load_profile(path).store).startswith("memory:"):
            raise click.UsageError("--workers need a store that they can share, not memory:")


def _check_apart(keys: "ApiKeys", store_url: str | None) -> None:
    """Two profiles that mean one principal in one store would speak for each other."""
    from rootguard.session import load_profile

    owners: dict[tuple[str, str], str] = {}
    for path in dict.fromkeys(keys.profiles.values()):
        profile = load_profile(path)
        place = (vault_url(store_url, profile.store), str(profile.principal))
        if owners.setdefault(place, path) != path:
            raise click.UsageError(
                "two profiles have the same principal in the same store; "
                "give each profile a principal of its own"
            )
