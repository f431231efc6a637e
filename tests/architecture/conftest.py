"""What the tests of the architecture share."""

from collections.abc import Iterator

import pytest

from tests.architecture.project import package_sources


@pytest.fixture(scope="package", autouse=True)
def _sources_are_forgotten() -> Iterator[None]:
    """The package is read and parsed once; a million objects are nothing to leave to the tests behind these."""
    yield
    package_sources.cache_clear()
