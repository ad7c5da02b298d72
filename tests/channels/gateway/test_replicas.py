"""One root in 50 turns of 5 chats, through 3 gateways in 4 units: one value, one ledger entry.

Each gateway is a process of its own, on one vault that all share.
"""

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.gateway_processes import replicas
from tests.support.glucose_chats import PROFILE, REPLICAS, UNITS, check_one_value, seen, talk
from tests.support.upstream import recording_upstream


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    file = tmp_path / "me.toml"
    file.write_text(PROFILE)
    return file


def test_three_gateways_on_one_postgresql_vault_behave_as_one(
    profile: Path, new_postgres: Callable[[], str]
) -> None:
    store, key = new_postgres(), secrets.token_hex(32)
    with recording_upstream() as (upstream, recording):
        with replicas(REPLICAS, profile, upstream=upstream, store=store, key=key) as gateways:
            talk(gateways)
        check_one_value(recording, store, key)


@pytest.mark.slow  # by default `test_workers` has several processes on one such file
def test_three_gateways_on_one_sqlite_vault_behave_as_one(profile: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    with recording_upstream() as (upstream, recording):
        with replicas(REPLICAS, profile, upstream=upstream, store=store) as gateways:
            talk(gateways)
        check_one_value(recording, store, "")


def test_gateways_with_a_vault_each_do_not_agree(profile: Path) -> None:
    """The control. At this budget three draws are the same one time in several thousand."""
    with recording_upstream() as (upstream, recording):
        with replicas(REPLICAS, profile, upstream=upstream, store="memory:") as gateways:
            talk(gateways)
        assert {unit: len(numbers) > 1 for unit, numbers in seen(recording).items()} == (
            dict.fromkeys(UNITS, True)
        )
