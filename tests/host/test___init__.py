"""The public names of the host's package."""

import subprocess
import sys

import pytest

from openskills import host


def test_every_public_name_is_there() -> None:
    assert {getattr(host, name).__name__ for name in host.__all__} == set(host.__all__)


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        getattr(host, "Clinet")  # noqa: B009 - a name that a type checker would refuse


def test_importing_the_package_loads_nothing_heavy_and_its_client_needs_no_extra() -> None:
    program = (
        "import sys, openskills.host\n"
        "assert 'asyncio' not in sys.modules\n"
        "openskills.host.Client\n"
        "assert not {'fastapi', 'orjson', 'jsonschema_rs', 'uvicorn', 'prometheus_client'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-I", "-c", program], check=True, timeout=60)
