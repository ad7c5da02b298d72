"""Stores that are not there yet, on each database."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that is not there yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/vault.db"
    return str(request.getfixturevalue("new_postgres")())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "vault.db"


@pytest.fixture(autouse=True)
def _own_keys(own_data_directory: None) -> None:
    """Key files of a test's stores are not those of another's."""
