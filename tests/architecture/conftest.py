"""What the tests of the architecture share."""

from collections.abc import Iterator

import pytest

from tests.architecture.project import package_sources


@pytest.fixture(scope="module", autouse=True)
def _sources_are_forgotten() -> Iterator[None]:
    """Each module reads and parses the package once; a million objects are nothing to leave to the tests behind it."""
    yield
    package_sources.cache_clear()
