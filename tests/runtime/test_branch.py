"""A conversation whose state somebody else keeps."""

import asyncio
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.executors.workspace import DirectoryWorkspace
from openskills.runtime.branch import Branch
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.session.state import Loaded, RecordedChange, SkillState, Unloaded, apply_changes
from openskills.session.store import SessionKey
from openskills.testing.fake_executor import FakeExecutor, FakeRun
from tests.skill_writer import WriteSkill, skill_writer


@pytest.fixture
def write_skill(tmp_path: Path) -> WriteSkill:
    """Writes a skill."""
    return skill_writer(tmp_path, "skills")


@pytest.fixture
def runtime(tmp_path: Path, write_skill: WriteSkill) -> SkillRuntime:
    """A runtime with two skills, and a command that says hello."""
    for name in ("pdf", "docx"):
        write_skill(name, body=f"# How to work with {name}")
    return SkillRuntime(Catalog.from_paths(tmp_path / "skills"), FakeExecutor({"hello": FakeRun(b"hello")}))


def loaded(*skills: str) -> SkillState:
    """A state in which these are loaded."""
    return apply_changes(
        SkillState(), [RecordedChange(at, "assistant", Loaded(skill)) for at, skill in enumerate(skills, 1)]
    )


async def test_what_is_loaded_is_what_the_branch_says_and_changes_come_back(runtime: SkillRuntime) -> None:
    before = loaded("pdf")
    branch = Branch(before)

    async with runtime.session("s", branch=branch) as session:
        await session.call("skill_load", {"skill": "docx"})
        result = session.loaded_skills()

    assert result == ("pdf", "docx")
    assert branch.changes == [RecordedChange(2, "assistant", Loaded("docx"))]
    assert branch.state == apply_changes(before, branch.changes)


async def test_what_is_foreseen_counts_for_the_call_and_is_told_by_nobody(runtime: SkillRuntime) -> None:
    branch = Branch(SkillState(clock=2))

    async with runtime.session("s", branch=branch) as session:
        await session.simulate_call("skill_load", {"skill": "pdf"}, at=1)
        await session.simulate_call("skill_load", {"skill": "nothing"}, at=2)
        branch.changes.clear()
        result = (await session.call("skill_unload", {"skill": "pdf"})).text

    assert result == "unloaded: pdf"
    assert branch.changes == [RecordedChange(3, "assistant", Unloaded("pdf"))]


async def test_branches_of_a_conversation_do_not_see_each_other(runtime: SkillRuntime) -> None:
    async with (
        runtime.session("s", branch=Branch()) as one,
        runtime.session("s", branch=Branch()) as other,
        runtime.session("s") as trunk,
    ):
        await one.call("skill_load", {"skill": "pdf"})
        await other.call("skill_load", {"skill": "docx"})
        result = [one.loaded_skills(), other.loaded_skills(), trunk.loaded_skills()]

    assert result == [("pdf",), ("docx",), ()]


async def test_nothing_of_a_branch_is_in_the_store(runtime: SkillRuntime) -> None:
    async with runtime.session("s", branch=Branch()) as session:
        await session.call("skill_load", {"skill": "pdf"})

    assert (await runtime.store.get(SessionKey("openskills", "local", "s"))) is None


class _ReportingExecutor(FakeExecutor):
    """Says when a workspace is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()

    async def open(self, key: str) -> DirectoryWorkspace:
        self.opened.set()
        return await super().open(key)


async def test_loading_a_skill_with_a_script_opens_the_workspace_for_its_first_command(write_skill: WriteSkill) -> None:
    folder = write_skill("pdf")
    (folder / "run.py").write_text("print()")
    executor = _ReportingExecutor()
    runtime = SkillRuntime(Catalog.from_paths(folder), executor)

    async with runtime.session("s", branch=Branch()) as session, asyncio.timeout(10):
        await session.call("skill_load", {"skill": "pdf"})
        await executor.opened.wait()


async def test_what_is_logged_is_in_the_log_of_the_conversation(runtime: SkillRuntime) -> None:
    heard: list[str] = []

    async with runtime.session("s", branch=Branch()) as session, runtime.session("s") as trunk:
        with session.listen(lambda event: heard.append(event.kind)):
            await session.log("note", {"text": "hi"})
        assert await session.events() == await trunk.events()
        result = [event.kind for event in await session.events()]

    assert result == heard == ["note"]


async def test_branches_share_the_workspace_and_the_files_of_the_user(runtime: SkillRuntime) -> None:
    async with runtime.session("s") as trunk:
        trunk.add_file("a.txt", b"A")
    async with runtime.session("s", branch=Branch(loaded("pdf"))) as one:
        await one.call("skill_run", {"skill": "pdf", "command": "hello"})
        await one.call("write_file", {"path": "work/b.txt", "content": "B"})
    async with runtime.session("s", branch=Branch()) as other:
        found = [await other.call("read_file", {"file_name": f"work/{name}"}) for name in ("inputs/a.txt", "b.txt")]
        first, second = [result.text for result in found]

    assert "A" in first
    assert "B" in second


async def test_a_text_is_the_same_in_every_use_of_a_branch_whatever_happens_on_disk(
    runtime: SkillRuntime, write_skill: WriteSkill
) -> None:
    options = SessionOptions(load_mode="session")

    async def request(branch: Branch) -> str:
        async with runtime.session("s", options=options, branch=branch) as session:
            return str(session.context([{"role": "user", "content": "hi"}]))

    branch = Branch()
    async with runtime.session("s", options=options, branch=branch) as session:
        await session.call("skill_load", {"skill": "pdf"})
    first = await request(Branch(branch.state))
    write_skill("pdf", body="# Something else")
    second = await request(Branch(branch.state))
    assert "# How to work with pdf" in first
    assert first == second


async def test_no_text_is_counted_again_in_the_next_use_of_a_branch(runtime: SkillRuntime) -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    options = SessionOptions(count=count)

    async def request() -> int:
        async with runtime.session("s", options=options, branch=Branch()) as session:
            counted.clear()
            session.context([{"role": "user", "content": "hi"}])
            return session.ledger.requests

    assert await request() == 1
    assert counted
    assert await request() == 2
    assert counted == []


def test_the_names_of_the_tools_are_known_without_a_session(runtime: SkillRuntime) -> None:
    assert "skill_run" in runtime.tool_names()
    assert runtime.tool_names(SessionOptions(profile="knowledge_only"))[0] == "skill_load"
    assert "skill_run" not in runtime.tool_names(SessionOptions(profile="knowledge_only"))
