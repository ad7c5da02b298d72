"""Where a command listens, and with which key: what the commands that serve ask alike."""

import ipaddress
import os
import socket

import click

_SHORTEST_KEY = 16
"""Characters: with letters and digits alone, too many keys to try over a network."""


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def listen_at(host: str, port: int) -> tuple[socket.socket, str]:
    """A socket that listens, and its address for a browser or a client."""
    from rootguard.channels.http_server import listen

    try:
        listening = listen(host, port)
    except OSError:
        raise click.ClickException(f"cannot listen on {host}, port {port}") from None
    shown = f"[{host}]" if ":" in host else host
    return listening, f"http://{shown}:{listening.getsockname()[1]}"


def key_from(variable: str) -> str:
    """The key in an environment variable, which other users of the machine do not see."""
    key = os.environ.get(variable, "")
    if len(key) < _SHORTEST_KEY:
        wanted = f"no key of {_SHORTEST_KEY} characters or more"
        raise click.UsageError(f"the environment variable {variable} holds {wanted}")
    return key
