"""A conversation is opened with everything it needs, or with one sentence about what is missing."""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.cli.chat_opening import ChatWishes, new_name, opened
from openskills.errors import InvalidArgument
from openskills.executors.spec import Isolation
from openskills.settings import Settings
from openskills.sync import run
from openskills.testing import FakeExecutor, FakeRun, ScriptedModel
from openskills.testing.scripted_model import calling
from tests.agent.agents import skills_for_agents

LOAD_AND_RUN = (
    calling(("skill_load", {"skill": "alpha"})),
    calling(("skill_run", {"skill": "alpha", "command": "ls"})),
    "Done.",
)


def scripted(settings: Settings) -> ScriptedModel:
    """A model by its dotted name."""
    del settings
    return ScriptedModel(LOAD_AND_RUN)


def isolated(settings: Settings) -> FakeExecutor:
    """An executor by its dotted name that promises isolation."""
    del settings
    return FakeExecutor({"ls": FakeRun(stdout=b"files\n")}, isolation=Isolation.CONTAINER)


def open_to_all(settings: Settings) -> FakeExecutor:
    """One that promises nothing."""
    del settings
    return FakeExecutor({"ls": FakeRun(stdout=b"files\n")})


def wishes(executor: str, *, ask: bool = False, yes: bool = False) -> ChatWishes:
    return ChatWishes("mine", f"{__name__}:scripted", f"{__name__}:{executor}", ask=ask, yes=yes)


def notes(directory: Path, wanted: ChatWishes, capsys: pytest.CaptureFixture[str], *, says: bool = True) -> list[str]:
    """What is written beside the answer."""
    settings = Settings.from_env({"HOME": str(directory / "home")})
    catalog = Catalog.from_paths(skills_for_agents(directory) / "skills", settings=settings)

    async def work() -> None:
        async with opened(wanted, catalog, settings) as talk:
            if says:
                assert await talk.say("hi")

    run(work())
    return capsys.readouterr().err.splitlines()


def test_isolated_commands_run_without_a_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = notes(tmp_path, wishes("isolated"), capsys)
    assert lines[0] == "session mine; 2 skills"
    assert lines[-1] == "  -> exit code 0; files"
    assert not any("wants to run" in line for line in lines)


@pytest.mark.parametrize("executor", ["isolated", "open_to_all"])
def test_with_ask_every_command_is_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], executor: str
) -> None:
    lines = notes(tmp_path, wishes(executor, ask=True), capsys)
    assert "alpha wants to run, in skills/alpha:" in lines
    assert "was not approved" in lines[-1]


def test_commands_that_are_not_isolated_are_asked_about_unless_somebody_said_yes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = notes(tmp_path, wishes("open_to_all"), capsys)
    assert lines[0] == "warning: commands of skills are not isolated: they can do whatever you can"
    assert "was not approved" in lines[-1]
    lines = notes(tmp_path / "again", wishes("open_to_all", yes=True), capsys)
    assert lines[0].startswith("warning: ")
    assert lines[-1] == "  -> exit code 0; files; not isolated"


def test_without_an_executor_nothing_can_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = replace(wishes("isolated"), executor="none")
    assert "skill_run is not available in this session" in notes(tmp_path, wanted, capsys)[-1]


def test_without_skills_it_says_where_some_could_come_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path)})

    async def work() -> None:
        async with opened(wishes("isolated"), Catalog([], settings), settings):
            pass

    run(work())
    assert capsys.readouterr().err.splitlines()[1] == (
        "note: there are no skills here; --skills PATH says where some are"
    )


def test_what_means_nothing_is_refused_before_anything_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wanted in (ChatWishes(model="nothing"), ChatWishes(executor="nothing"), ChatWishes(store="nothing")):
        with pytest.raises(InvalidArgument, match=r"nothing|forms"):
            notes(tmp_path, wanted, capsys, says=False)
    assert not list(tmp_path.rglob("sessions.db"))


def test_a_new_conversation_has_a_name_of_its_own() -> None:
    assert new_name() != new_name()
    assert new_name().startswith("chat-")
