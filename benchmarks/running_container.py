"""A container engine to measure with: this machine's own if it has our image, or the one that tests start."""

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from running_part import NotMeasured

from openskills.executors.container.spec import ContainerOptions

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Engine:
    """Where an engine is (None: where `docker` looks) and the image that it has."""

    address: str | None
    image: str

    @property
    def options(self) -> ContainerOptions:
        """What our executor needs to know."""
        return ContainerOptions(image=self.image, engine=self.address)

    def docker(self, *arguments: str) -> list[str]:
        """A command line of `docker` for this engine."""
        return ["docker", *(("--host", self.address) if self.address else ()), *arguments]

    @contextmanager
    def bare_container(self) -> Generator[str]:
        """A container as one would start it by hand, for `docker exec`; its id."""
        start = self.docker("run", "--detach", "--network", "none", self.image, "sleep", "infinity")
        identity = subprocess.run(start, capture_output=True, text=True, check=True).stdout.strip()
        try:
            yield identity
        finally:
            subprocess.run(self.docker("rm", "--force", identity), capture_output=True, check=True)


@contextmanager
def container_engine() -> Generator[Engine]:
    """An engine that works; raises `NotMeasured` with the reason when there is none."""
    for name in ("docker", "requests"):
        if importlib.util.find_spec(name) is None:
            raise NotMeasured("containers: the extra `container` is not installed")
    own = _own()
    if own is not None:
        yield own
        return
    missing = [program for program in ("docker", "dockerd", "debootstrap", "setpriv") if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        why = f"{' and '.join(missing)} is missing" if missing else "only root can start one"
        raise NotMeasured(f"containers: no engine with {ContainerOptions().image} answers, and {why}")
    # The engine of the tests, with an image that is made of this machine's packages.
    sys.path.insert(0, str(ROOT))
    tests: Any = importlib.import_module("tests.container_engine")
    with tests.engine_in(tests.cache_directory()) as engine:
        yield Engine(engine.address, engine.image)


def _own() -> Engine | None:
    image = ContainerOptions().image
    if shutil.which("docker") is None:
        return None
    found = subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False)
    return None if found.returncode else Engine(None, image)
