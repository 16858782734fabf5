"""One server for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import server


@pytest.fixture(scope="package")
def local() -> Iterator[server.Server]:
    """A server as it is without options."""
    with server.run_server() as running:
        yield running
