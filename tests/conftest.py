"""What all tests share: steady draws, a real PostgreSQL server, no keyring of the developer's."""

import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import settings

from tests.support.postgres import Address, Databases, own_server
from tests.support.steady_draws import drawn_by

# The same examples and the same draws in every run, so that a change is judged by what it changed;
# `make test-all` explores new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)  # a busy machine is no failure
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "steady")
settings.load_profile(_PROFILE)

# Before anything imports keyring: tests neither read nor write the keyring of whoever runs them.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
os.environ.pop("ROOTGUARD_KEY", None)
# No plan is kept in, or taken from, the cache of whoever runs the tests.
os.environ["ROOTGUARD_CACHE"] = ""
# Many tests start programs, which need not compile every module anew, and each worker would
# rewrite the assertions of every file of tests anew, which is half of the time it takes to collect.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(optionalhook=True)  # planted faults are tried without xdist
def pytest_xdist_auto_num_workers() -> int | None:
    """Three workers for two processors: a third of the time a test waits for programs it started.

    Each more collects all tests once more, which takes 14 seconds.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    mine = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    processors = len(mine(0)) if mine else os.cpu_count() or 1
    return (3 * processors + 1) // 2


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The tests stay to the end, so nobody looks through them for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # What is frozen no longer counts as long-lived, and everything else would be looked
        # through whenever a quarter of the little that is left was made.
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test draws by its own name."""
    with drawn_by(item.nodeid) if _PROFILE == "steady" else nullcontext():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """What several tests share does not follow from which of them comes first in its process."""
    if _PROFILE != "steady" or fixturedef.scope == "function":
        return (yield)
    place = getattr(request, "param_index", 0)
    with drawn_by(f"{fixturedef.baseid} {fixturedef.argname} {place}"):
        return (yield)


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[Address]:
    """A running PostgreSQL server: the one we are told of, or one of our own."""
    told = os.environ.get("ROOTGUARD_TEST_POSTGRES")
    if told:
        yield lambda database: urlsplit(told)._replace(path=f"/{database}").geturl()
        return
    with own_server() as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres_databases(postgres_address: Address) -> Databases:
    return Databases(postgres_address)


@pytest.fixture
def new_postgres(postgres_databases: Databases) -> Iterator[Callable[[], str]]:
    """Makes an empty database and gives its URL; the test's end takes it back."""
    lent: list[str] = []

    def make() -> str:
        lent.append(postgres_databases.lend())
        return postgres_databases.url(lent[-1])

    yield make
    for name in lent:
        postgres_databases.take_back(name)


@pytest.fixture(scope="session", autouse=True)
def _no_data_directory_of_the_developers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Default stores and key files go to a directory of the test run."""
    os.environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data"))


@pytest.fixture
def own_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default stores and key files go to a directory of the test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
