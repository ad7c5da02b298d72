"""`examples/hostile_run.py`, whose figures docs/mcp.md quotes: what two hostile services learn."""

import importlib.util
import sys
from types import ModuleType

import pytest

from tests.support.mcp_clients import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location(
        "hostile_run", ROOT / "examples" / "hostile_run.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hostile_run"] = module
    spec.loader.exec_module(module)
    return module


def test_the_pool_of_two_hostile_services_tells_what_one_number_tells(example: ModuleType) -> None:
    heard = example.run(1, 200)
    rows = {(row.service, row.root): row for row in example.measure([heard])}
    assert len(rows) == 8
    assert len(heard.pool) > 150
    assert not heard.leaks()
    for (_, root), row in rows.items():
        assert row.received > 10
        assert row.different == 1
        assert row.all == row.one
        assert row.pooled == rows["mallory", root].one
    assert [heard.surprises(service) for service in example.TIER_OF] == [0, 0]


def test_a_value_that_an_agent_disguises_is_found_by_the_search_for_leaks(
    example: ModuleType,
) -> None:
    assert example.run(1, 10, disguised=True).leaks()
