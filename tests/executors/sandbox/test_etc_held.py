import asyncio
import os
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.records.delete import delete_tree
from openskills.executors.sandbox.etc_held import HeldEtc
from tests.executors.held_pool import cancelled_in_its_thread, held_pool
from tests.executors.running import open_descriptors


def test_it_is_made_once_and_again_when_somebody_removes_it(tmp_path: Path) -> None:
    async def main() -> None:
        held = HeldEtc({"/etc/tool": None})
        first, second = await asyncio.gather(held.descriptor(tmp_path), held.descriptor(tmp_path))
        assert first == second
        assert {"passwd", "group", "hosts", "nsswitch.conf", "tool"} <= set(os.listdir(first))
        for path in tmp_path.iterdir():
            delete_tree(path)
        third = await held.descriptor(tmp_path)
        assert third != first
        assert "passwd" in os.listdir(third)
        # Who had it before can still say that he has it.
        os.fstat(first)
        held.close()
        for descriptor in (first, third):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(descriptor)

    asyncio.run(main())


def test_a_failure_is_not_remembered(tmp_path: Path) -> None:
    async def main() -> None:
        held = HeldEtc({})
        (tmp_path / "store").write_text("")
        with pytest.raises(ExecutorUnavailable):
            await held.descriptor(tmp_path / "store")
        (tmp_path / "store").unlink()
        assert "passwd" in os.listdir(await held.descriptor(tmp_path / "store"))
        held.close()

    asyncio.run(main())


def test_a_directory_that_was_asked_for_in_vain_is_not_left_open(tmp_path: Path) -> None:
    async def main() -> None:
        pool, held = held_pool(), HeldEtc({})
        before = open_descriptors()
        await cancelled_in_its_thread(asyncio.ensure_future(held.descriptor(tmp_path)), pool)
        assert open_descriptors() == before
        assert "passwd" in os.listdir(await held.descriptor(tmp_path))
        held.close()

    asyncio.run(main())
