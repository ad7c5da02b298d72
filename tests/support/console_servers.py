"""A console running on a person's vault, and how a browser's requests to it look."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from rootguard.channels.api_keys import ApiKeys
from rootguard.channels.http_server import make_server
from rootguard.console import AccessControl, Console, Viewer, of_profile, own_key
from rootguard.session import Person, load_profile, parse_profile
from rootguard.store import Store
from tests.support.patience import PATIENCE
from tests.support.upstream import serving

KEY = "0123456789abcdef-a-key-of-nobody"
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
SENTINELS = {"age": 47.318264951, "ast": 91.827364519, "alt": 63.719283746, "plt": 318.264951737}
"""Raw values that no grid point, bound or formula of the template shows."""
NAME = "Zebulon Quackenbush"
PROFILE = """
templates = ["fib4", "homa"]
budget = "0.9"
principal = "%s"

[values]
age = 47.318264951
ast = 91.827364519
alt = 63.719283746
plt = 318.264951737

[identifiers]
name = "Zebulon Quackenbush"
"""


def open_person(store: Store, principal: str = "owner") -> Person:
    """The synthetic person, with values for one of two templates."""
    profile = parse_profile(PROFILE % principal, file="me.toml")
    return Person.open(profile, store=store, on_clamp=lambda _: None)


def viewer_of(store: Store, principal: str = "owner") -> Viewer:
    """The same person's console."""
    return of_profile(parse_profile(PROFILE % principal, file="me.toml"), store)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A console that listens."""

    address: str
    client: httpx2.Client

    def get(self, path: str, key: str = KEY, **headers: str) -> httpx2.Response:
        """An answer for who shows a key."""
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        shown["authorization"] = f"Bearer {key}"
        return self.client.get(f"{self.address}/console/{path}", headers=shown)

    def json(self, path: str, key: str = KEY) -> Any:  # noqa: ANN401
        """What an answer says."""
        answer = self.get(path, key)
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def console(
    *viewers: Viewer, keys: ApiKeys | None = None, hosts: frozenset[str] | None = LOOPBACK
) -> Iterator[Served]:
    """A console on loopback; with several viewers each has the key and profile of their name."""
    people = {str(each.principal): each for each in viewers}
    first = viewers[0].principal

    def opened(name: str) -> Viewer:
        viewer = people[name]
        if viewer.profile is None:
            return viewer
        return of_profile(load_profile(viewer.profile), viewer.store, viewer.profile)

    page = Console(
        AccessControl(opened, keys=keys or own_key(KEY, first), profile=first),
        hosts=hosts,
    )
    server = make_server(page.alone(), shutdown_timeout=10)
    page.stopping = lambda: server.should_exit
    with serving(server) as address, httpx2.Client(trust_env=False, timeout=PATIENCE) as client:
        yield Served(address=address, client=client)


def events(lines: Iterator[str]) -> Iterator[tuple[str, str, Any]]:
    """The id, kind and content of each server-sent event; comments and retries are passed over."""
    number, kind = "", ""
    for line in lines:
        if line.startswith("id: "):
            number = line[4:]
        elif line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            yield number, kind, json.loads(line[6:])
            number, kind = "", ""
