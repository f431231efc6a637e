import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.open import FallbackExecutor, open_executor
from openskills.executors.protocol import Executor
from openskills.executors.spec import Isolation
from openskills.settings import Settings
from tests.conftest import RequireProgram
from tests.container_engine import TestEngine


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"HOME": str(tmp_path), "OPENSKILL_STATE_DIR": str(tmp_path / "state")})


async def checked(one: Executor) -> tuple[Isolation, str]:
    try:
        return await one.check(), one.name
    finally:
        await one.close()


async def test_a_name_is_the_executor_of_that_name(settings: Settings) -> None:
    assert await checked(open_executor("local", settings)) == (Isolation.NONE, "local")


async def test_auto_is_the_sandbox_where_it_works(settings: Settings, require_program: RequireProgram) -> None:
    require_program("bwrap")
    assert await checked(open_executor("auto", settings)) == (Isolation.BUBBLEWRAP, "sandbox")


async def test_auto_refuses_with_the_fix_where_the_sandbox_does_not_work(settings: Settings, tmp_path: Path) -> None:
    one = open_executor("auto", settings, bwrap=tmp_path / "missing")
    with pytest.raises(ExecutorUnavailable, match="OPENSKILL_ALLOW_LOCAL=1"):
        await checked(one)


async def test_auto_names_every_executor_that_it_tried(settings: Settings, tmp_path: Path) -> None:
    settings = replace(settings, docker_host=f"unix://{tmp_path}/nobody.sock")
    one = open_executor("auto", settings, bwrap=tmp_path / "missing")
    with pytest.raises(ExecutorUnavailable, match=r"(?s)bubblewrap.*nobody\.sock.*OPENSKILL_ALLOW_LOCAL=1"):
        await checked(one)


async def test_auto_is_a_container_where_only_an_engine_answers(
    settings: Settings, tmp_path: Path, container_engine: TestEngine
) -> None:
    settings = replace(settings, docker_host=container_engine.address, container_image=container_engine.image)
    one = open_executor("auto", settings, bwrap=tmp_path / "missing")
    assert await checked(one) == (Isolation.CONTAINER, "container")


def test_auto_needs_no_package_for_containers(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["docker"] = None
from pathlib import Path
from openskills.executors import open_executor
from openskills.settings import Settings
from openskills.sync import run
settings = Settings.from_env({{"HOME": {str(tmp_path)!r}, "OPENSKILL_ALLOW_LOCAL": "1"}})
print(run(open_executor("auto", settings, bwrap=Path({str(tmp_path / "missing")!r})).check()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("none\n", "")


async def test_auto_runs_without_isolation_only_when_that_is_allowed(settings: Settings, tmp_path: Path) -> None:
    one = open_executor("auto", replace(settings, allow_local=True), bwrap=tmp_path / "missing")
    assert await checked(one) == (Isolation.NONE, "local")


async def test_the_sandbox_is_never_replaced_by_something_weaker(settings: Settings, tmp_path: Path) -> None:
    one = open_executor("sandbox", replace(settings, allow_local=True), bwrap=tmp_path / "missing")
    with pytest.raises(ExecutorUnavailable, match="bubblewrap"):
        await checked(one)


async def test_landlock_takes_the_place_of_the_sandbox_only_when_that_is_allowed(
    settings: Settings, tmp_path: Path
) -> None:
    one = open_executor("sandbox", settings, allow_landlock=True, bwrap=tmp_path / "missing")
    assert await checked(one) == (Isolation.LANDLOCK, "landlock")


@pytest.mark.parametrize(("name", "hint"), [("sandbx", "did you mean sandbox"), ("zzz", "use one of auto, sandbox")])
def test_an_unknown_name_is_refused_with_near_ones(settings: Settings, name: str, hint: str) -> None:
    with pytest.raises(InvalidArgument, match=hint):
        open_executor(name, settings)


def own(settings: Settings, *, colour: str) -> Executor:
    """Somebody's own executor."""
    assert colour == "blue"
    return open_executor("local", settings)


async def test_a_dotted_path_names_somebodys_own_factory(settings: Settings) -> None:
    assert (await checked(open_executor(f"{__name__}:own", settings, colour="blue")))[1] == "local"


@pytest.mark.parametrize(
    "path", ["no_such_package.x:make", "openskills.errors:no_such_name", "openskills.errors:__doc__"]
)
def test_a_dotted_path_that_leads_nowhere_is_refused(settings: Settings, path: str) -> None:
    with pytest.raises(InvalidArgument, match="executor"):
        open_executor(path, settings)


async def test_a_choice_that_failed_is_made_again(settings: Settings, tmp_path: Path) -> None:
    tries = [open_executor("sandbox", settings, bwrap=tmp_path / "missing"), open_executor("local", settings)]
    one = FallbackExecutor([lambda: tries.pop(0)], "auto")
    with pytest.raises(ExecutorUnavailable):
        await checked(one)
    assert await checked(one) == (Isolation.NONE, "local")


def test_only_what_is_chosen_is_imported() -> None:
    code = (
        "import sys; from openskills.executors.open import open_executor; from openskills.settings import Settings\n"
        "open_executor('local', Settings.from_env({'HOME': '/nonexistent'}))\n"
        "names = ('bubblewrap.backend', 'landlock', 'container.backend')\n"
        "print([x for x in names if 'openskills.executors.' + x in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
