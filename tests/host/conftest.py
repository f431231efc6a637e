"""What the tests of the host share."""

from collections.abc import Iterator

import pytest

from tests.host.scripted_server import Scripted, scripted


@pytest.fixture
def scripted_host() -> Iterator[Scripted]:
    """A real server on the loopback interface that answers as it is told."""
    with scripted() as script:
        yield script
