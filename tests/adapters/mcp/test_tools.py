"""Tools of MCP servers for agents."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from openskills.adapters.mcp import mcp_tools
from openskills.adapters.mcp.tools import McpTools
from openskills.agent.agent import ExtraTool, tool
from openskills.agent.models.model import ModelResponse
from openskills.errors import DeadlineExceeded, InvalidArgument, LimitExceeded, SourceUnavailable, Unauthorized
from openskills.settings import Settings
from openskills.sync import run
from openskills.tools.tool import ToolResult
from tests.agent.agents import agent_in, calling, heard, kinds, skills_for_agents
from tests.servers.mcp import (
    FASTMCP_SERVER,
    PROGRAM,
    SDK_SERVER,
    McpScenario,
    environment_of,
    is_running,
    python_server,
    serving_http,
    wait_until_gone,
)

ECHO: dict[str, Any] = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {"type": "object", "properties": {"x": {}}},
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env(environment_of(tmp_path / "home"))


OpenTools = Callable[..., McpTools]


@pytest.fixture
async def opened(settings: Settings) -> AsyncIterator[OpenTools]:
    """`mcp_tools`, closed at the end."""
    made: list[McpTools] = []

    def open_tools(server: str | Sequence[str], **options: Any) -> McpTools:
        made.append(mcp_tools(server, settings=settings, **options))
        return made[-1]

    yield open_tools
    for one in made:
        await one.close()


def scenario_in(directory: Path, *tools: dict[str, Any], **options: Any) -> McpScenario:
    return McpScenario(directory, tools=list(tools) or [ECHO], **options)


def command_of(scenario: McpScenario) -> list[str]:
    scenario.write()
    return [sys.executable, str(PROGRAM), str(scenario.file)]


async def call(tools: McpTools, name: str, **arguments: Any) -> ToolResult:
    """Call a tool as an agent does."""
    found = {one.name: one for one in await tools.open()}
    return await found[name].run(arguments)


async def wait_for_text(file: Path, text: str) -> None:
    for _ in range(3000):
        if file.exists() and file.read_text("utf-8") == text:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{file} does not contain {text!r}")


async def test_an_agent_uses_tools_of_a_server_and_closing_it_ends_the_server(
    tmp_path: Path, settings: Settings
) -> None:
    pids = tmp_path / "pids"
    scenario = scenario_in(tmp_path, child=str(pids))
    agent, model = agent_in(
        skills_for_agents(tmp_path / "skills"),
        [calling(("echo", {"x": [1, "é"]})), ModelResponse("done")],
        tools=[mcp_tools(command_of(scenario), settings=settings)],
    )
    events = await heard(agent)
    assert kinds(events)[-1] == "end"
    assert json.loads(str(model.requests[-1].messages[-1]["content"])) == {"x": [1, "é"]}
    offered = {one["function"]["name"]: one["function"] for one in model.requests[0].tools}
    assert offered["echo"]["description"] == "Say it again."
    assert offered["echo"]["parameters"] == ECHO["inputSchema"]
    server, child = map(int, pids.read_text("utf-8").split())
    assert is_running(server)
    await agent.close()
    wait_until_gone(server, child)
    await agent.close()


@pytest.mark.parametrize("text", [SDK_SERVER, FASTMCP_SERVER], ids=["mcp", "fastmcp"])
async def test_structured_content_reaches_the_model_as_json(text: str, tmp_path: Path, opened: OpenTools) -> None:
    tools = opened(python_server(tmp_path, text, str(tmp_path)))
    result = await call(tools, "add", a=2, b=3)
    assert json.loads(result.text) == {"sum": 5}
    assert result.data["structuredContent"] == {"sum": 5}
    assert result.error is None
    wrong = await call(tools, "add", a="two", b=3)
    assert wrong.error is not None
    assert wrong.text.startswith("error: ")


async def test_images_and_failures_are_described(tmp_path: Path, opened: OpenTools) -> None:
    tools = opened(python_server(tmp_path, SDK_SERVER, str(tmp_path / "mark")))
    picture = await call(tools, "picture")
    assert picture.text == "[image image/png, 6 bytes]"
    assert picture.data["content"][0]["data"] == "aGVsbG8="
    failed = await call(tools, "fail")
    assert failed.error is not None
    assert failed.text == "error: Error executing tool fail"


async def test_cancelling_a_call_cancels_it_on_the_server_which_goes_on(tmp_path: Path, opened: OpenTools) -> None:
    mark = tmp_path / "mark"
    tools = opened(python_server(tmp_path, SDK_SERVER, str(mark)))
    await tools.open()
    waiting = asyncio.ensure_future(call(tools, "wait", seconds=600))
    await wait_for_text(mark, "started")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await wait_for_text(mark, "cancelled")
    assert json.loads((await call(tools, "add", a=1, b=1)).text) == {"sum": 2}


async def test_a_call_that_takes_too_long_is_a_failed_result_for_the_model(tmp_path: Path, settings: Settings) -> None:
    scenario = scenario_in(tmp_path, on={"tools/call": "silent"})
    tools = mcp_tools(command_of(scenario), settings=settings, timeout=0.3)
    answers = [calling(("echo", {})), ModelResponse("too slow")]
    agent, model = agent_in(skills_for_agents(tmp_path / "skills"), answers, tools=[tools])
    events = await heard(agent)
    assert kinds(events)[-1] == "end"
    assert "no answer within 0.3 s" in str(model.requests[-1].messages[-1]["content"])
    await agent.close()
    with pytest.raises(DeadlineExceeded):
        await call(tools, "echo")
    await tools.close()


async def test_a_server_that_dies_is_named_and_started_again_for_the_next_call(
    tmp_path: Path, opened: OpenTools
) -> None:
    scenario = scenario_in(tmp_path, on={"tools/call": "die"})
    tools = opened(command_of(scenario))
    with pytest.raises(SourceUnavailable, match="exit status 3: the disk is on fire") as caught:
        await call(tools, "echo")
    assert caught.value.message.startswith("mcp:")
    del scenario.content["on"]
    scenario.write()
    assert (await call(tools, "echo", x=1)).text == '{"x": 1}'


async def test_a_server_that_cannot_be_started_ends_the_run_with_its_name(tmp_path: Path, settings: Settings) -> None:
    tools = mcp_tools("mcp:no-such-server --stdio", settings=settings)
    agent, _ = agent_in(skills_for_agents(tmp_path / "skills"), [ModelResponse("never")], tools=[tools])
    events = await heard(agent)
    assert events[-1].kind == "error"
    assert "'no-such-server' does not exist" in events[-1].payload["message"]


async def test_a_prefix_avoids_collisions_and_names_are_made_valid(tmp_path: Path, opened: OpenTools) -> None:
    other = {**ECHO, "name": "files/read.all"}
    command = command_of(scenario_in(tmp_path, ECHO, other))
    assert [one.name for one in await opened(command).open()] == ["echo", "files_read_all"]
    prefixed = opened(command, prefix="raw_")
    assert [one.name for one in await prefixed.open()] == ["raw_echo", "raw_files_read_all"]
    assert (await call(prefixed, "raw_files_read_all", x=1)).text == '{"x": 1}'
    assert [one.name for one in await opened(command, only=["echo"]).open()] == ["echo"]
    with pytest.raises(InvalidArgument, match=r"has no tool 'nothing'; it has echo, files/read\.all"):
        await opened(command, only=["nothing"]).open()


@tool
def echo(x: str) -> str:
    """A tool of the application."""
    return x


async def test_a_name_that_is_used_twice_ends_the_run_with_the_name(tmp_path: Path, opened: OpenTools) -> None:
    command = command_of(scenario_in(tmp_path))
    skills = skills_for_agents(tmp_path / "skills")
    agent, _ = agent_in(skills, [ModelResponse("never")], tools=[echo, opened(command)])
    events = await heard(agent)
    assert events[-1].kind == "error"
    assert "the name 'echo' is used twice" in events[-1].payload["message"]
    agent, _ = agent_in(skills, [ModelResponse("fine")], tools=[echo, opened(command, prefix="raw_")])
    assert kinds(await heard(agent))[-1] == "end"
    both = command_of(scenario_in(tmp_path, {**ECHO, "name": "a.b"}, {**ECHO, "name": "a/b"}))
    with pytest.raises(InvalidArgument, match="two tools are named 'a_b'"):
        await opened(both).open()


async def test_huge_definitions_and_results_are_bounded(tmp_path: Path, opened: OpenTools) -> None:
    long = {**ECHO, "description": "x" * 200_000}
    with pytest.raises(LimitExceeded, match="definition of the tool 'echo'"):
        await opened(command_of(scenario_in(tmp_path, long))).open()
    many = [{**ECHO, "name": f"t{number}"} for number in range(1001)]
    with pytest.raises(LimitExceeded, match="more than 1,000 tools"):
        await opened(command_of(scenario_in(tmp_path, *many))).open()
    text = {**ECHO, "result": {"content": [{"type": "text", "text": "y" * 300_000}]}}
    result = await call(opened(command_of(scenario_in(tmp_path, text))), "echo")
    assert result.text.endswith("[100,000 more characters were cut]")


async def test_text_beside_structured_content_is_kept_and_other_content_is_described(
    tmp_path: Path, opened: OpenTools
) -> None:
    content = [
        {"type": "text", "text": "Found two."},
        {"type": "resource_link", "uri": "file:///a.txt", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "text of b"}},
        {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "AAAA"}},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    ]
    found = {**ECHO, "result": {"content": content, "structuredContent": {"n": 2}}}
    result = await call(opened(command_of(scenario_in(tmp_path, found))), "echo")
    assert result.text.splitlines() == [
        "Found two.",
        "[resource a at file:///a.txt]",
        "text of b",
        "[resource file:///c.bin]",
        "[audio audio/wav, 3 bytes]",
        '{"n": 2}',
    ]


async def test_a_server_over_http_gets_the_key(tmp_path: Path, opened: OpenTools) -> None:
    with serving_http(scenario_in(tmp_path, key="k1")) as url:
        with pytest.raises(Unauthorized, match="401"):
            await opened(url).open()
        assert (await call(opened(url, api_key="k1"), "echo", x=1)).text == '{"x": 1}'
        assert (await call(opened(f"mcp+{url}", api_key="k1"), "echo", x=2)).text == '{"x": 2}'


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_both_eras_of_the_protocol_work(era: str, tmp_path: Path, opened: OpenTools) -> None:
    assert (await call(opened(command_of(scenario_in(tmp_path, era=era))), "echo", x=1)).text == '{"x": 1}'


def test_one_set_of_tools_works_in_several_event_loops(tmp_path: Path, settings: Settings) -> None:
    tools = mcp_tools(command_of(scenario_in(tmp_path)), settings=settings)
    assert asyncio.run(call(tools, "echo", x=1)).text == '{"x": 1}'
    assert asyncio.run(call(tools, "echo", x=2)).text == '{"x": 2}'
    assert run(call(tools, "echo", x=3)).text == '{"x": 3}'
    run(tools.close())


FORGETFUL = """
import asyncio, sys
from openskills.adapters.mcp import mcp_tools

print(len(asyncio.run(mcp_tools(sys.argv[1:]).open())))
"""


def test_a_program_that_forgets_to_close_its_tools_leaves_no_server(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    argv = [sys.executable, "-c", FORGETFUL, *command_of(scenario_in(tmp_path, child=str(pids)))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    wait_until_gone(*map(int, pids.read_text("utf-8").split()))


@pytest.mark.parametrize(
    ("server", "options", "message"),
    [
        ("", {}, "write mcp"),
        ([], {}, "names no command"),
        ("http://example.org/mcp", {}, "http is for this machine only"),
        ("mcp:server", {"timeout": 0}, "must be more than 0"),
        (3, {}, "expected text"),
        ("https://example.org/mcp", {"api_key": "two\nlines"}, "contains invalid characters"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    server: Any, options: dict[str, Any], message: str, settings: Settings
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        mcp_tools(server, settings=settings, **options)


def test_a_set_of_tools_is_accepted_beside_other_tools(tmp_path: Path, settings: Settings) -> None:
    tools = mcp_tools("mcp:server", settings=settings)
    agent, _ = agent_in(skills_for_agents(tmp_path), [], tools=[echo, tools])
    assert isinstance(agent.tools[0], ExtraTool)
    with pytest.raises(InvalidArgument, match="tools"):
        agent_in(tmp_path, [], tools=["mcp:server"])
