"""One browser for the tests of a file."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.consoles import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with chromium() as found:
        yield found
