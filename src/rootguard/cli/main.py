"""The `rootguard` command. A subcommand is loaded when it is called, so that start-up is quick."""

import json
import sys
from importlib import import_module
from typing import ClassVar

import click
from click.shell_completion import get_completion_class

from rootguard import errors
from rootguard.cli.output import EXIT_CODES, EXIT_REFUSED, notice


class Commands(click.Group):
    """A group whose commands live in modules of their own, imported on use.

    A command is the module's `command`, unless another name stands behind a colon.
    """

    MODULES: ClassVar[dict[str, str]] = {
        "attack": "rootguard.cli.attack",
        "audit": "rootguard.cli.audit",
        "batch": "rootguard.cli.batch",
        "bench": "rootguard.cli.bench",
        "certify": "rootguard.cli.audit:certify_command",
        "cohort": "rootguard.cli.cohort",
        "completion": "rootguard.cli.main:completion",
        "console": "rootguard.cli.console",
        "demo": "rootguard.cli.demo",
        "explain": "rootguard.cli.explain",
        "explain-text": "rootguard.cli.explain_text",
        "gateway": "rootguard.cli.gateway",
        "init": "rootguard.cli.init",
        "learn": "rootguard.cli.learn",
        "mcp": "rootguard.cli.mcp",
        "plan": "rootguard.cli.plan",
        "release": "rootguard.cli.release",
        "templates": "rootguard.cli.templates",
        "vault": "rootguard.cli.vault",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in self.MODULES:
            return None
        module, _, name = self.MODULES[cmd_name].partition(":")
        command = getattr(import_module(module), name or "command")
        return command if isinstance(command, click.Command) else None


@click.group(
    cls=Commands, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="rootguard")
def cli() -> None:
    """Noise a person's private values once; answer everything else from the noised values.

    \b
    Try:
      rootguard demo
      rootguard templates
      rootguard plan fib4 --budget 0.9
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
        cli(prog_name="rootguard", standalone_mode=True)
    except errors.RootGuardError as refusal:
        if "--json" in sys.argv:
            body = {"error": {"type": type(refusal).__name__, "message": str(refusal)}}
            click.echo(json.dumps(body), err=True)
        else:
            notice(str(refusal))
        sys.exit(EXIT_REFUSED)
