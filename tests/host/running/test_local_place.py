"""Plain processes."""

import os
import shutil
import sys
from pathlib import Path

from openskills.executors.spec import Isolation
from openskills.host.registration import Registration
from openskills.host.running.local_place import LocalPlace
from openskills.sync import run


def test_a_process_begins_in_the_directory_with_a_home_that_ends_with_the_place(tmp_path: Path) -> None:
    skill = Registration("s", "cli:exec", "/bin/sh", "1")

    async def work() -> tuple[bytes, str]:
        place = LocalPlace(tmp_path)
        await place.check()
        env = place.environment(skill)
        reading, writing = os.pipe()
        with open(os.devnull, "r+b", 0) as null:
            stdio = (null.fileno(), writing, null.fileno())
            kept = await place.start(skill, ("/bin/sh", "-c", 'pwd; test -d "$HOME" && echo home'), env, stdio)
        os.close(writing)
        await kept.exited()
        said = os.read(reading, 1000)
        os.close(reading)
        await place.close()
        assert place.isolation is Isolation.NONE
        return said, env["HOME"]

    said, home = run(work())
    assert said.decode().split() == [str(tmp_path), "home"]
    assert not os.path.exists(home)


def test_both_names_of_the_interpreter_are_the_one_we_run_on(tmp_path: Path) -> None:
    async def work() -> None:
        place = LocalPlace(tmp_path)
        try:
            path = place.environment(Registration("s", "cli:exec", "/bin/sh", "1"))["PATH"]
            for name in ("python", "python3"):
                assert os.path.realpath(shutil.which(name, path=path) or name) == os.path.realpath(sys.executable)
        finally:
            await place.close()

    run(work())
