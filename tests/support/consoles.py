"""A gateway with its console before a recording upstream, and a headless Chromium before that.

Between the two stands a proxy that keeps every byte that goes to the browser. Where a browser, or
what drives it, is not installed, tests skip.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rootguard.session import Person, load_profile
from rootguard.store import Store
from rootguard.vault import open_store
from tests.support.patience import PATIENCE
from tests.support.programs import PYTHON
from tests.support.upstream import Recording, recording_upstream

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

KEY = "console-key-of-a-synthetic-person"
NAME = "Marguerite Oyelaran"
RECORD = "KZ-8841730"
RAW = {"age": "53.0625", "ast": "61.375", "alt": "47.6625", "plt": "188.4375"}
"""Off the grid, so that none of them can be what was released."""
SENTINELS = (*RAW.values(), *NAME.split(), RECORD, "8841730")
TELLING = f"I am {NAME}, record {RECORD}. My AST is {RAW['ast']} U/L. What now?"
FORGING = "Call my colleague at +1 212-555-0199 about it."
BLOCKED = "My bilirubin was 3.7 mg/dL last week."
READY = {
    "known": ".known-by",
    "boundary": ".log-row",
    "values": ".entry",
    "choose": ".slider input",
    "ledger": "table >> nth=0",
    "graph": ".node.target",
    "attack": "text=Start the attack",
}
"""What is there once a view is."""
AXE = Path(__file__).parents[2] / "console-ui" / "node_modules" / "axe-core" / "axe.min.js"

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)
_GATEWAY = "from rootguard.cli.gateway import command; command()"
_CONSOLE = "from rootguard.cli.console import command; command()"
_ENCODING = re.compile(rb"(?i)(accept-encoding: )([^\r\n]*)")


@contextmanager
def chromium() -> Iterator["Browser"]:
    """A browser; skips where there is none, or nothing to drive it with."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"there is no browser: none of {', '.join(names)}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Wire:
    """A proxy on loopback: everything that it passes on to the browser is kept, uncompressed."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("http://").split(":")
        self._to = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self.kept: list[bytes] = []
        self.closed = False
        self._serving: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> str:
        """What a browser is told to open."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    @property
    def sent(self) -> bytes:
        """Every byte that went to the browser."""
        return b"".join(self.kept)

    def cut(self) -> None:
        """Drop every connection, and refuse new ones until `mend`."""
        self.closed = True
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let the browser through again."""
        self.closed = False

    def end(self) -> None:
        """Stop."""
        self.cut()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join(PATIENCE)
        self._listening.close()
        for each in self._serving:
            each.join(PATIENCE)

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            if self.closed:
                here.close()
                continue
            self._serving.append(threading.Thread(target=self._serve, args=(here,), daemon=True))
            self._serving[-1].start()

    def _serve(self, here: socket.socket) -> None:
        with here, socket.create_connection(self._to) as there:
            with self._lock:
                self._open += [here, there]
            back = threading.Thread(target=self._carry, args=(there, here, True), daemon=True)
            back.start()
            self._carry(here, there, back=False)
            back.join()
            with self._lock:
                self._open = [each for each in self._open if each not in (here, there)]

    def _carry(self, source: socket.socket, target: socket.socket, back: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if back:
                    self.kept.append(data)
                else:
                    # Same length, no compression: the kept bytes can be searched as they are.
                    data = _ENCODING.sub(lambda m: m[1] + b"identity".ljust(len(m[2])), data)
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@dataclass(kw_only=True)
class World:
    """A person, their gateway and console, and the browser's way there."""

    profile: Path
    gateway: str
    upstream: Recording
    wire: Wire
    vault: Store
    _person: Person | None = None

    @property
    def page(self) -> str:
        """The console's address, through the wire."""
        return f"{self.wire.address}/console/"

    @property
    def direct(self) -> str:
        """The console's address, with nothing between."""
        return f"{self.gateway}/console/"

    def chat(self, text: str) -> int:
        """Tell the gateway something, as an agent would; its status."""
        body = {"model": "small", "messages": [{"role": "user", "content": text}]}
        request = urllib.request.Request(
            f"{self.gateway}/v1/chat/completions",
            json.dumps(body).encode(),
            {"authorization": f"Bearer {KEY}", "content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as problem:
            return problem.code

    def person(self) -> Person:
        """The same person in this process, on the same vault."""
        if self._person is None:
            profile = load_profile(self.profile)
            self._person = Person.open(profile, store=self.vault, on_clamp=lambda _: None)
        return self._person


BUDGET = 'budget = "0.9"'
GOALS = "[hide]\nage = 5\nast = 3\nalt = 3\nplt = 15"


def write_profile(folder: Path, how_much: str = BUDGET) -> Path:
    """The person's profile, with every root declared, under a budget or under goals."""
    values = "\n".join(f"{root} = {value}" for root, value in RAW.items())
    profile = folder / "me.toml"
    profile.write_text(
        f'templates = ["fib4"]\nprincipal = "patient-7"\non_doubt = "refuse"\n{how_much}\n\n'
        f"[values]\n{values}\n\n"
        f'[identifiers]\nname = "{NAME}"\nrecord = "{RECORD}"\n',
        encoding="utf-8",
    )
    return profile


@contextmanager
def program(command: str, arguments: Sequence[str], environment: dict[str, str]) -> Iterator[str]:
    """A command of ours as a process; gives the first line it prints. It must stop in peace."""
    process = subprocess.Popen(
        [*PYTHON, "-c", command, *arguments],
        stdout=subprocess.PIPE,
        env=os.environ | environment,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line, "it did not start"
        yield line
    finally:
        process.terminate()
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise


@contextmanager
def world(folder: Path, how_much: str = BUDGET) -> Iterator[World]:
    """A gateway behind a key, with its console, an SQLite vault and a service of our own."""
    profile = write_profile(folder, how_much)
    keys = folder / "keys.toml"
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    keys.write_text(f'[keys]\n"{digest}" = "me.toml"\n', encoding="utf-8")
    store = f"sqlite:///{folder / 'vault.sqlite3'}"
    with ExitStack() as stack:
        upstream, recording = stack.enter_context(recording_upstream())
        options = (
            *("--keys", str(keys), "--store", store, "--upstream", upstream, "--port", "0"),
            *("--console", "--quiet", "--rate", "1000000"),
        )
        line = stack.enter_context(program(_GATEWAY, options, {"UPSTREAM_KEY": "none"}))
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found is not None
        wire = Wire(found[0])
        stack.callback(wire.end)
        vault = open_store(store)
        stack.callback(vault.close)
        yield World(profile=profile, gateway=found[0], upstream=recording, wire=wire, vault=vault)


@contextmanager
def talked_world(folder: Path, how_much: str = BUDGET) -> Iterator[World]:
    """The same after three messages: one answered, one with a number of nobody's, one refused."""
    with world(folder, how_much) as running:
        assert running.chat(TELLING) == 200
        running.upstream.says = lambda _: FORGING
        assert running.chat("And what about my AST?") == 200
        running.upstream.says = lambda heard: heard
        assert running.chat(BLOCKED) >= 400
        yield running


@contextmanager
def console(profile: Path, store: str) -> Iterator[str]:
    """`rootguard console` as a process: the address with the key in it."""
    options = ("--profile", str(profile), "--store", store, "--port", "0")
    with program(_CONSOLE, options, {}) as line:
        yield line.strip()


def opened(browser: "Browser", address: str, **settings: Any) -> "Page":  # noqa: ANN401
    """A new page, past the key, in a context of these settings."""
    context = browser.new_context(**settings)
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(f"{address}#key={KEY}")
    page.locator("#tabs a").first.wait_for()
    return page


def visit(page: "Page", address: str, view: str) -> None:
    """Go to a view and wait until it is there."""
    page.goto(f"{address}#/{view}")
    page.locator(READY[view]).first.wait_for()


def violations(page: "Page") -> list[str]:
    """Everything that axe-core finds, in words."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: Any = page.evaluate("axe.run(document).then((result) => result.violations)")
    return [
        f"{each['impact']} {each['id']}: {', '.join(str(node['target']) for node in each['nodes'])}"
        for each in found
    ]
