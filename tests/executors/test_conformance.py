"""Every executor keeps what `Executor` promises, for root and for a user without any rights."""

import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.container.backend import ContainerBackend
from openskills.executors.container.spec import ContainerOptions
from openskills.executors.landlock import LandlockBackend
from openskills.executors.local import LocalBackend
from openskills.executors.protocol import Backend, Executor
from openskills.executors.workspace import DirectoryExecutor
from openskills.testing.executor import GROUPS, check_executor
from tests.conftest import RequireProgram
from tests.container_engine import TestEngine
from tests.executors.kept_first import KeptFirstBackend
from tests.hostile.harness import User, nobody
from tests.long_form import cases

BACKENDS: dict[str, Callable[[], Backend]] = {
    "local": LocalBackend,
    "sandbox": SandboxBackend,
    "sandbox, used before": KeptFirstBackend,
    "landlock": LandlockBackend,
}
TIMEOUT = 300
_PROGRAM = """
import asyncio, sys
from pathlib import Path
from openskills.executors.open import open_executor
from openskills.settings import Settings
from openskills.testing import check_executor
settings = Settings.from_env({"OPENSKILL_STATE_DIR": sys.argv[2], "PATH": "/usr/bin:/bin"})
asyncio.run(check_executor(lambda: open_executor(sys.argv[1], settings), groups=sys.argv[3:]))
"""


def executors_in(directory: Path, backend: Callable[[], Backend]) -> Callable[[], Executor]:
    # The user of a sandbox has to get there.
    directory.chmod(0o755)
    return lambda: DirectoryExecutor(backend(), directory / "state")


# A sandbox that was used before differs in what commands leave behind; that it does not elsewhere is in the long form.
EVERY = [(name, group) for name in BACKENDS for group in GROUPS]
ELSEWHERE = [("sandbox, used before", group) for group in ("streams", "links", "skills", "interactive", "terminal")]


@pytest.mark.parametrize(("name", "group"), cases((one for one in EVERY if one not in ELSEWHERE), ELSEWHERE))
async def test_an_executor_of_this_machine_keeps_its_promises(
    name: str, group: str, tmp_path: Path, require_program: RequireProgram
) -> None:
    if name.startswith("sandbox"):
        require_program("bwrap")
    await check_executor(executors_in(tmp_path, BACKENDS[name]), groups=[group])


@pytest.mark.parametrize("group", GROUPS)
async def test_containers_keep_their_promises(group: str, tmp_path: Path, container_engine: TestEngine) -> None:
    options = ContainerOptions(container_engine.image, container_engine.address)
    await check_executor(executors_in(tmp_path, lambda: ContainerBackend(options)), groups=[group])


@pytest.fixture(scope="module")
def somebody() -> Generator[User]:
    """A user without any rights."""
    if os.geteuid() != 0:
        pytest.skip("the tests above were run by one")
    with nobody() as user:
        yield user


# CI also runs the tests above as an ordinary user, with all of them. The short form here: promises about rights.
RIGHTS = cases(["isolation", "limits", "links", "processes"], GROUPS)


@pytest.mark.parametrize("name", cases(["sandbox"], ["local", "landlock"]))
def test_who_is_not_root_has_the_same_promises(name: str, somebody: User, require_program: RequireProgram) -> None:
    if name == "sandbox":
        require_program("bwrap")
    checking = subprocess.run(
        [*somebody.prefix, somebody.python, "-c", _PROGRAM, name, somebody.place(), *dict.fromkeys(RIGHTS)],
        cwd=somebody.project,
        env=somebody.environment({}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert checking.returncode == 0, checking.stderr[-3000:]
