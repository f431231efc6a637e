"""The store of uploads: several processes, quotas, expiry, and contents that nothing needs any more."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from openskills.catalog.sources.archive import pack_folder
from openskills.errors import Forbidden, NameTaken, UnknownUpload
from openskills.host.skills import SHARED, ListPage, SkillStore, StagedSkill, UploadAccess, UploadQuota
from tests.host.vendors.uploading import skill_files

ADA, BOB = UploadAccess("ada", "ada"), UploadAccess("bob", "bob")
EDITOR, READER = UploadAccess("editor", SHARED), UploadAccess("reader", None)


@asynccontextmanager
async def opened(root: Path, *, uploads: int = 100, size: int = 1 << 20) -> AsyncGenerator[SkillStore]:
    store = SkillStore(root, UploadQuota(size, uploads))
    try:
        await store.open()
        yield store
    finally:
        await store.close()


def stage(directory: Path, name: str = "greeter", word: str = "Hello") -> StagedSkill:
    folder = directory / f"staged-{name}-{word}" / name
    for path, data in skill_files(name, word).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    archive = folder.parent / "skill.zip"
    digest, size = pack_folder(folder, name, archive)
    return StagedSkill(name, f"Says {word}.", folder, archive, digest, size)


async def test_of_two_processes_that_create_one_name_one_wins(tmp_path: Path) -> None:
    async with opened(tmp_path / "up") as first, opened(tmp_path / "up") as second:
        made = await asyncio.gather(
            first.create(ADA, stage(tmp_path, word="A"), ""),
            second.create(ADA, stage(tmp_path, word="B"), ""),
            return_exceptions=True,
        )
        assert sorted(type(one).__name__ for one in made) == ["NameTaken", "StoredSkill"]
        (skill,), _ = await second.list_skills(ADA, ListPage())
        versions = await asyncio.gather(
            *(
                store.add_version(ADA, skill.id, stage(tmp_path, word=f"{store is first}{number}"), default=True)
                for number in range(5)
                for store in (first, second)
            )
        )
        assert sorted(one.number for one in versions) == list(range(2, 12))
        latest = await first.get_version(ADA, skill.id, "default")
        link = os.readlink(first.get_live("ada") / "greeter")
        assert latest.digest in link


async def test_private_and_shared_skills(tmp_path: Path) -> None:
    async with opened(tmp_path / "up") as store:
        mine = await store.create(ADA, stage(tmp_path), "")
        ours = await store.create(EDITOR, stage(tmp_path, word="Ahoy"), "")
        for access in (BOB, READER, EDITOR):
            with pytest.raises(UnknownUpload):
                await store.get_skill(access, mine.id)
            assert (await store.get_skill(access, ours.id)).name == "greeter"
        for access in (ADA, BOB):
            with pytest.raises(Forbidden, match="publish"):
                await store.remove_skill(access, ours.id, with_versions=True)
        with pytest.raises(Forbidden, match="write"):
            await store.create(READER, stage(tmp_path), "")
        with pytest.raises(NameTaken, match=mine.id):
            await store.create(ADA, stage(tmp_path), "")


async def test_what_nothing_needs_is_removed_after_a_while(tmp_path: Path) -> None:
    async with opened(tmp_path / "up", uploads=2) as store:
        made = await store.create(ADA, stage(tmp_path), "")
        await store.add_version(ADA, made.id, stage(tmp_path, word="B"), default=True)
        with pytest.raises(Forbidden, match="2 of 2"):
            await store.add_version(ADA, made.id, stage(tmp_path, word="C"), default=True)
        blobs, trees = tmp_path / "up/blobs", tmp_path / "up/trees"

        def count() -> tuple[int, int]:
            return tuple(sum(name[0] != "." for name in os.listdir(place)) for place in (blobs, trees))  # pyright: ignore[reportReturnType]

        # Nothing is stored of what was refused.
        assert count() == (2, 2)
        await store.remove_version(ADA, made.id, "1", may_be_last=False)
        await store.sweep()
        assert count() == (2, 2)
        await store.sweep(after=-1)
        assert count() == (1, 1)
        await store.remove_skill(ADA, made.id, with_versions=True)
        await store.sweep(after=-1)
        assert count() == (0, 0)
        assert os.listdir(store.get_live("ada")) == []


async def test_expired_files_are_gone(tmp_path: Path) -> None:
    async with opened(tmp_path / "up") as store:
        (tmp_path / "a.txt").write_bytes(b"text")
        file = await store.add_file(ADA, tmp_path / "a.txt", "a.txt", "text/plain", "user_data", time.time() - 1)
        with pytest.raises(UnknownUpload):
            await store.get_file(ADA, file.id)
        assert await store.list_files(ADA, ListPage()) == ([], False)
        await store.sweep(after=-1)
        assert not (await store.fetch_blob(file.digest)).exists()


async def test_files_are_never_shared_between_keys(tmp_path: Path) -> None:
    async with opened(tmp_path / "up") as store:
        (tmp_path / "a.txt").write_bytes(b"text")
        file = await store.add_file(EDITOR, tmp_path / "a.txt", "a.txt", "text/plain", "user_data", None)
        for access in (ADA, READER):
            with pytest.raises(UnknownUpload):
                await store.get_file(access, file.id)
        assert (await store.get_file(EDITOR, file.id)).size == 4
