"""Executors and users for the hostile suite."""

import os
from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from tests.conftest import find_program
from tests.container_engine import TestEngine, container_engine
from tests.executors.ray.test_cluster import nodes
from tests.hostile.harness import User, nobody, ourselves

__all__ = ["container_engine", "nodes"]

_PROGRAMS = {"sandbox": ("bwrap", "setpriv"), "landlock": (), "container": (), "local": ()}


@dataclass(frozen=True)
class Chosen:
    """An executor, and the variables with which a host finds it."""

    name: str
    environment: dict[str, str] = field(default_factory=dict[str, str])


@pytest.fixture(params=["sandbox", "landlock", "container", "local"])
def executor(request: pytest.FixtureRequest) -> Chosen:
    """Every executor."""
    return chosen(request, request.param)


def chosen(request: pytest.FixtureRequest, name: str) -> Chosen:
    """An executor by its name; the test is skipped where it cannot be had."""
    for program in _PROGRAMS[name]:
        find_program(program, search_path=os.environ.get("PATH", os.defpath), ci=os.environ.get("CI") == "true")
    if name != "container":
        return Chosen(name)
    engine: TestEngine = request.getfixturevalue("container_engine")
    return Chosen(name, {"DOCKER_HOST": engine.address, "OPENSKILL_CONTAINER_IMAGE": engine.image})


@pytest.fixture(scope="session")
def us() -> Generator[User]:
    """The user who runs the tests: root, in CI."""
    with ourselves() as user:
        yield user


@pytest.fixture(scope="session")
def stranger() -> Generator[User]:
    """A user without any rights."""
    with nobody() as user:
        yield user


@pytest.fixture(params=["us", "stranger"])
def user(request: pytest.FixtureRequest) -> User:
    """Who runs the host."""
    find_program("setpriv", search_path=os.environ.get("PATH", os.defpath), ci=os.environ.get("CI") == "true")
    return request.getfixturevalue(request.param)


# Who may use a container engine is as good as root.
PAIRS = [
    ("container", "us"),
    *((name, user) for name in ("sandbox", "landlock", "local") for user in ("us", "stranger")),
]
"""Every executor with every user who can have it, for `pair`."""


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest) -> tuple[Chosen, User]:
    """Every executor for every user who can have it."""
    name, user = request.param
    find_program("setpriv", search_path=os.environ.get("PATH", os.defpath), ci=os.environ.get("CI") == "true")
    return chosen(request, name), request.getfixturevalue(user)


def pairs(*names: str) -> list[tuple[str, str]]:
    """Those of these names, such as `sandbox-us`, for the parameters of a test."""
    return [one for one in PAIRS if "-".join(one) in names]


def name_of(parameter: str | tuple[str, ...]) -> str:
    """The name of a parameter of a test."""
    return parameter if isinstance(parameter, str) else "-".join(parameter)
