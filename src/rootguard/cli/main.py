"""The `rootguard` command. A subcommand is loaded when it is called, so that start-up is quick."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from rootguard import __version__, errors
from rootguard.cli.output import (
    EXIT_CODES,
    EXIT_REFUSED,
    EXIT_STOPPED,
    EXIT_UNREAD,
    OutputClosedError,
    notice,
)


@contextmanager
def _writing() -> Iterator[None]:
    """Write all output out while it can still be noticed that its reader has gone."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosedError from None


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is, and what the list of commands says about it.

    A command is the module's `command`, unless another name stands behind a colon. A test compares
    the summary with the first sentence of the command's own help.
    """

    place: str
    summary: str

    def load(self) -> click.Command | None:
        """The command itself, imported now."""
        module, _, name = self.place.partition(":")
        command = getattr(import_module(module), name or "command")
        return command if isinstance(command, click.Command) else None


class Commands(click.Group):
    """A group whose commands live in modules of their own, imported when they are called.

    Neither the list of commands nor the completion of their names imports any.
    """

    MODULES: ClassVar[dict[str, LazyCommand]] = {
        "attack": LazyCommand(
            "rootguard.cli.attack",
            "Attack synthetic people, with independent noise and with RootGuard, and compare the "
            "guesses.",
        ),
        "audit": LazyCommand(
            "rootguard.cli.audit",
            "Estimate a lower bound on epsilon from outputs alone, and look for known faults.",
        ),
        "batch": LazyCommand(
            "rootguard.cli.batch",
            "Noise a table's people once each and compute every other column from the noised "
            "roots.",
        ),
        "bench": LazyCommand(
            "rootguard.cli.bench",
            "Reproduce the paper's study, or run it on your own cohort and templates.",
        ),
        "certify": LazyCommand(
            "rootguard.cli.audit:certify_command",
            "Check a mechanism against its own pmf.",
        ),
        "cohort": LazyCommand(
            "rootguard.cli.cohort",
            "Make the people that experiments are about: a directory with a CSV file per template.",
        ),
        "completion": LazyCommand(
            "rootguard.cli.main:completion",
            "Print the completion script for a shell.",
        ),
        "console": LazyCommand(
            "rootguard.cli.console",
            "Show on a local page what each service knows of you, the audit log, and what hiding "
            "costs.",
        ),
        "demo": LazyCommand(
            "rootguard.cli.demo",
            "Watch a hostile service question a patient, with and without RootGuard.",
        ),
        "explain": LazyCommand(
            "rootguard.cli.explain",
            "Show what hiding costs you, what it leaves an adversary, and what each epsilon means.",
        ),
        "explain-text": LazyCommand(
            "rootguard.cli.explain_text",
            "Say whose each number and answer in a text is, which value, why, and what happens to "
            "it.",
        ),
        "gateway": LazyCommand(
            "rootguard.cli.gateway",
            "Protect an agent that uses OpenAI's or Anthropic's API: change its base URL to this "
            "gateway.",
        ),
        "init": LazyCommand(
            "rootguard.cli.init",
            "Write a first profile and its policy, noise your values into the vault, and say how "
            "to go on.",
        ),
        "learn": LazyCommand(
            "rootguard.cli.learn",
            "Learn an approximate target formula from public rows and write a template with it.",
        ),
        "mcp": LazyCommand("rootguard.cli.mcp", "Noised values over the Model Context Protocol."),
        "plan": LazyCommand(
            "rootguard.cli.plan",
            "Find the noise that hides your values as far as you say, and what that costs.",
        ),
        "release": LazyCommand(
            "rootguard.cli.release",
            "Noise a person's values once and print what a service would receive.",
        ),
        "templates": LazyCommand(
            "rootguard.cli.templates",
            "List the catalog, or show one template (or a TOML file of your own, checking it).",
        ),
        "vault": LazyCommand(
            "rootguard.cli.vault",
            "Manage the store that holds the noised values.",
        ),
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        found = self.MODULES.get(cmd_name)
        return None if found is None else found.load()

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> click.Context:
        """Read the command line; what --help prints may be read by nobody."""
        with _writing():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; what it prints may be read by nobody."""
        with _writing():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each command and its summary, without importing any, whole and wrapped."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.MODULES[name].summary) for name in self.list_commands(ctx)]
            )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin as typed, then the options of the program itself."""
        commands = [
            CompletionItem(name, help=_stub(name, self.MODULES[name]).get_short_help_str())
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


def _stub(name: str, command: LazyCommand) -> click.Command:
    """A command that has a help text and nothing else."""
    return click.Command(name, help=command.summary)


@click.group(
    cls=Commands, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__)
def cli() -> None:
    """Noise a person's private values once; answer everything else from the noised values.

    \b
    Try:
      rootguard demo
      rootguard templates
      rootguard plan fib4 --hide age=5
    """


@click.command("completion", epilog=EXIT_CODES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example, for bash:
      rootguard completion bash > ~/.local/share/bash-completion/completions/rootguard
    """
    kind = get_completion_class(shell)
    if kind is None:  # click knows all three shells
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "rootguard", "_ROOTGUARD_COMPLETE").source())


def main() -> None:
    """Run the command line; a refusal is one sentence on standard error and exit code 3."""
    try:
        sys.exit(cli.main(prog_name="rootguard", standalone_mode=False) or 0)
    except click.ClickException as misuse:
        misuse.show()
        sys.exit(misuse.exit_code)
    except (click.Abort, KeyboardInterrupt):  # Ctrl-C, or the end of what a person types
        notice("stopped")
        sys.exit(EXIT_STOPPED)
    except OutputClosedError:  # as `head` leaves it; Python would complain at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_UNREAD)
    except errors.RootGuardError as refusal:
        if "--json" in sys.argv:
            body = {"error": {"type": type(refusal).__name__, "message": str(refusal)}}
            click.echo(json.dumps(body), err=True)
        else:
            notice(str(refusal))
        sys.exit(EXIT_REFUSED)
