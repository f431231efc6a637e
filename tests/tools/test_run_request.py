"""From what a model wrote to a command."""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument, NotLoaded, UnknownSkill
from openskills.executors.spec import Limits
from openskills.executors.staging.outputs import OutputSpec
from openskills.executors.workbench import Rules
from openskills.sync import run
from openskills.testing.fake import FakeExecutor
from openskills.testing.fake_process import FakeRun
from openskills.tools.run_outcome import CONTENT_BYTES
from openskills.tools.run_request import Prepared, collected, prepared
from openskills.tools.tool import ToolOptions
from openskills.tools.uploads import upload_of
from tests.tools.contexts import tool_context, write_skill
from tests.tools.run_calls import written

KIB32 = 32 * 1024


def ready(directory: Path, options: ToolOptions | None = None, **arguments: object) -> Prepared:
    """What is made of a call, on an executor that runs nothing."""
    write_skill(directory, "demo", {"scripts/a.py": "print(1)"})
    write_skill(directory, "other", {"data/x.txt": "x"})

    async def scenario() -> Prepared:
        context = tool_context(
            directory,
            executor=FakeExecutor(),
            options=options,
            loaded=["demo"],
            tools=["skill_run", "skill_exec"],
            rules=Rules(network=["example.org"]),
            uploads=[upload_of("a.csv", b"1")],
        )
        async with context as opened:
            return await prepared(opened, written(**arguments))

    return run(scenario())


def test_a_call_becomes_a_request_with_the_limits_of_the_session(tmp_path: Path) -> None:
    limits = Limits(timeout=120, processes=7)
    made = ready(
        tmp_path, ToolOptions(limits=limits), command="ls", env={"A": 1}, stdin="é", editor_text="t", cwd="work"
    )
    request = made.request
    assert (request.command, request.skill, request.cwd, request.env) == ("ls", "demo", "work", {"A": "1"})
    assert (request.stdin, request.editor_text, request.limits) == ("é".encode(), "t", limits)


def test_a_call_may_ask_for_another_timeout_up_to_the_most(tmp_path: Path) -> None:
    options = ToolOptions(limits=Limits(timeout=10, processes=7), max_timeout=100)
    assert ready(tmp_path, options, timeout=5).request.limits == Limits(timeout=5, processes=7)
    assert ready(tmp_path, options, timeout="100").request.limits.timeout == 100
    assert ready(tmp_path, options, timeout=-1).request.limits.timeout == 10
    with pytest.raises(
        InvalidArgument, match="timeout: 60000 seconds are too many; 100 is the most; skill_exec is for"
    ):
        ready(tmp_path, options, timeout=60_000)
    with pytest.raises(InvalidArgument, match="timeout: inf seconds"):
        ready(tmp_path, options, timeout=float("inf"))


def test_a_skill_gets_its_own_secrets_and_those_of_all_and_the_network_of_the_session(tmp_path: Path) -> None:
    secrets = {"*": ("ALL", "BOTH"), "demo": ("BOTH", "OWN"), "other": ("FOREIGN",)}
    request = ready(tmp_path, ToolOptions(secrets=secrets, network=("example.org",))).request
    assert (request.secrets, request.network) == (("ALL", "BOTH", "OWN"), ("example.org",))


def test_the_skill_and_those_that_inputs_come_from_are_staged_and_the_users_files_too(tmp_path: Path) -> None:
    made = ready(tmp_path, inputs=["skill://other/data/x.txt", "workspace://out/a", "Skill://demo/scripts/a.py"])

    async def staged() -> list[str]:
        return [one.path for one in (await made.bench.workspace.list(["skills/*/*/*", "work/**"])).files]

    assert run(staged()) == ["skills/demo/scripts/a.py", "skills/other/data/x.txt", "work/inputs/a.csv"]
    assert [file.path for file in made.arrivals.files.values()] == ["work/inputs/a.csv"]


def test_the_modules_that_an_author_wants_loaded_ahead_are_those_of_the_command(tmp_path: Path) -> None:
    executor = FakeExecutor({"true": FakeRun()})
    folder = write_skill(tmp_path)
    (folder / "SKILL.md").write_text("---\nname: demo\ndescription: d\nmetadata:\n  openskills-warm: csv, json\n---\n")

    async def scenario() -> None:
        async with tool_context(tmp_path, executor=executor, loaded=["demo"]) as context:
            made = await prepared(context, written())
            await made.bench.run(made.request)

    run(scenario())
    assert [command.warm for command in executor.commands] == [("csv", "json")]


def test_the_first_things_to_be_refused_are_the_skills(tmp_path: Path) -> None:
    with pytest.raises(UnknownSkill, match="did you mean 'other'"):
        ready(tmp_path, skill="othr", timeout=10**9)
    with pytest.raises(NotLoaded):
        ready(tmp_path, skill="other", timeout=10**9)
    with pytest.raises(UnknownSkill, match="did you mean 'other'"):
        ready(tmp_path, inputs=["skill://othr/x"])


def test_without_an_executor_the_call_says_so(tmp_path: Path) -> None:
    write_skill(tmp_path)

    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None, loaded=["demo"]) as context:
            with pytest.raises(ExecutorUnavailable):
                await prepared(context, written())

    run(scenario())


def test_half_a_character_on_stdin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="stdin: contains half a character"):
        ready(tmp_path, stdin="\ud800")


@pytest.mark.parametrize(
    ("cwd", "meant"),
    [
        ("/workspace/out", "/out"),
        ("/workspace", "/"),
        ("/workspaces", "/workspaces"),
        ("", ""),
        ("$RUN_DIR", "$RUN_DIR"),
    ],
)
def test_a_directory_that_a_command_has_printed_is_below_the_workspace(tmp_path: Path, cwd: str, meant: str) -> None:
    assert ready(tmp_path, cwd=cwd).request.cwd == meant


def test_without_patterns_what_is_new_in_out_is_listed_and_only_the_primary_output_shown(tmp_path: Path) -> None:
    made = ready(tmp_path)
    assert made.request.outputs == OutputSpec(("out/**",), max_files=20, max_file_bytes=KIB32)
    assert (made.shape.inline, made.shape.primary_content, made.shape.patterns) == (False, True, ())
    no_primary = collected(written(), ToolOptions(primary_bytes=0))
    assert not no_primary.inline


def test_patterns_bring_content_and_are_named_when_nothing_matches(tmp_path: Path) -> None:
    made = ready(tmp_path, output_files=["out/*.txt"])
    assert made.request.outputs == OutputSpec(("out/*.txt",), max_file_bytes=CONTENT_BYTES + 1)
    assert (made.shape.inline, made.shape.patterns, made.shape.content_bytes) == (True, ("out/*.txt",), CONTENT_BYTES)


def test_outputs_decide_about_content_and_its_limits(tmp_path: Path) -> None:
    shape = ready(tmp_path, outputs={"globs": ["out/*"], "inline": False}).shape
    assert (shape.inline, shape.content_bytes) == (False, CONTENT_BYTES)
    shape = ready(tmp_path, outputs={"globs": ["out/*"], "max_total_bytes": 10**5}).shape
    assert (shape.inline, shape.content_bytes) == (True, 10**5)


def test_no_model_gets_more_content_than_the_operator_allows_and_no_more_is_read(tmp_path: Path) -> None:
    endless = {"globs": ["out/*"], "max_files": 10**9, "max_file_bytes": 10**9, "max_total_bytes": 10**9}
    assert ready(tmp_path, outputs=endless).shape.content_bytes == 256 * 1024
    spec = collected(written(outputs=endless), ToolOptions(max_inline_bytes=10**5))
    assert (spec.max_file_bytes, spec.max_total_bytes) == (10**5 + 1, 64 * 1024 * 1024)
    little = collected(written(outputs={**endless, "max_file_bytes": 5, "max_total_bytes": 7}), ToolOptions())
    assert (little.max_file_bytes, little.max_total_bytes) == (5, 7)
    assert collected(written(output_files="out/*"), ToolOptions(max_inline_bytes=0)).max_file_bytes == KIB32


def test_omitted_content_is_not_even_read_beyond_what_a_primary_output_may_have(tmp_path: Path) -> None:
    made = ready(tmp_path, output_files=["out/*"], omit_inline_content=True)
    assert made.request.outputs == OutputSpec(("out/*",), max_file_bytes=KIB32)
    assert (made.shape.inline, made.shape.primary_content) == (False, False)


@pytest.mark.parametrize(
    ("arguments", "force", "save"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"save_as_artifacts": True}, False, True),
        ({"output_files": "out/*"}, False, False),
        ({"output_files": "out/*"}, True, True),
        ({"output_files": "out/*", "save_as_artifacts": True}, False, True),
        ({"outputs": {"globs": "out/*"}}, True, True),
        ({"outputs": {"globs": "out/*"}, "save_as_artifacts": True}, False, True),
        ({"outputs": {"globs": "out/*", "save": True}}, False, True),
    ],
)
def test_files_are_kept_when_somebody_wants_it(arguments: dict[str, object], force: bool, save: bool) -> None:
    assert collected(written(**arguments), ToolOptions(force_save=force)).save is save


def test_a_prefix_counts_for_either_way_to_collect() -> None:
    assert collected(written(artifact_prefix="p/"), ToolOptions()).name_template == "p/"
    both = written(outputs={"globs": "out/*", "name_template": "own/"}, artifact_prefix="p/")
    assert collected(both, ToolOptions()).name_template == "own/"
    assert collected(both, ToolOptions()) == replace(
        OutputSpec(("out/*",)), name_template="own/", max_file_bytes=CONTENT_BYTES + 1
    )
