"""`rootguard completion`: the script that teaches a shell to complete the commands."""

import click
from click.shell_completion import get_completion_class

from rootguard.cli.output import EXIT_CODES


@click.command("completion", epilog=EXIT_CODES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example, for bash:
      rootguard completion bash > ~/.local/share/bash-completion/completions/rootguard
    """
    kind = get_completion_class(shell)
    if kind is None:  # click knows all three shells
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "rootguard", "_ROOTGUARD_COMPLETE").source())
