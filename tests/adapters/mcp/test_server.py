"""The MCP server as clients of the SDK and of FastMCP see it, in both eras of the protocol."""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import mcp_types
import pytest
from fastmcp import Client as FastClient
from fastmcp.client.transports import StdioTransport
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ToolsListChanged

from openskills.adapters.mcp.resources import MAX_FILES, SkillResources, build_uri, parse_uri, take_page
from openskills.adapters.mcp.server import EXTENSION, MAX_INSTRUCTIONS, RESOURCES_PAGE, McpServer, run_apart
from openskills.artifacts import MemoryArtifactStore
from openskills.catalog import Catalog
from openskills.errors import ForbiddenPath, InvalidArgument, TooManyRequests
from openskills.runtime import SessionOptions, SkillRuntime
from openskills.runtime.session_pool import LocalCaller, SessionPool
from openskills.settings import Settings
from tests.long_form import cases
from tests.servers.warm_openskills import openskills_line
from tests.skill_writer import WriteSkill, skill_writer

ERAS = ("auto", "legacy")


@pytest.fixture
def write_skill(tmp_path: Path) -> WriteSkill:
    return skill_writer(tmp_path, "skills")


@pytest.fixture
def skills(tmp_path: Path, write_skill: WriteSkill) -> Path:
    """Two skills, one of them with a script, a document and a binary file."""
    folder = write_skill("report", "Writes reports. Use when asked for one.", front="metadata: {version: 1.5}\n")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "write.sh").write_text("echo made > $OUTPUT_DIR/report.txt; echo done\n")
    (folder / "guide.md").write_text("# Guide\n")
    (folder / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff\x00")
    write_skill("sorter", "Sorts lines. Use when lines are in no order.", body="# Sorter\n\nUse `sort`.")
    return tmp_path / "skills"


def settings_in(directory: Path) -> Settings:
    found = {"HOME": str(directory), "PATH": "/usr/bin:/bin", "OPENSKILL_ALLOW_LOCAL": "1"}
    return Settings.from_env(found)


@asynccontextmanager
async def serving(skills: Path, executor: str | None = "local", **options: Any) -> AsyncGenerator[McpServer]:
    settings = settings_in(skills.parent)
    catalog = Catalog.from_paths(skills, settings=settings)
    async with SkillRuntime(catalog, executor, artifacts=MemoryArtifactStore(), settings=settings) as runtime:
        server = McpServer(runtime, **options)
        async with server.run():
            yield server


@asynccontextmanager
async def connected(skills: Path, era: str = "auto", **options: Any) -> AsyncGenerator[Any]:
    async with serving(skills, **options) as server, Client(server.protocol, mode=cast("Any", era)) as client:
        yield client


class AnyResult(mcp_types.Result, extra="allow"):
    """A result with whatever fields it has."""


async def ask(client: Any, method: str, **params: Any) -> dict[str, Any]:
    """The result of a method that the SDK does not know."""
    request = mcp_types.Request[dict[str, Any], str](method=method, params=params)
    answer = await client.session.send_request(cast("Any", request), AnyResult)
    return answer.model_dump(by_alias=True)


def text_of(result: Any) -> str:
    return str(result.content[0].text)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_loads_a_skill_runs_it_and_reads_the_artifact(skills: Path, era: str) -> None:
    async with connected(skills, era) as client:
        loaded = await client.call_tool("skill_load", {"skill": "report"})
        assert "# Body" in text_of(loaded)
        assert "# Body" in loaded.structured_content["instructions"]
        arguments = {"skill": "report", "command": "sh scripts/write.sh", "save_as_artifacts": True}
        done = await client.call_tool("skill_run", {**arguments, "output_files": ["out/*"]})
        assert done.structured_content["stdout"] == "done\n"
        (link,) = done.content[1:]
        assert link.type == "resource_link"
        (contents,) = (await client.read_resource(link.uri)).contents
        assert contents.text == "made\n"


@pytest.mark.parametrize("era", ERAS)
async def test_instructions_list_the_skills_in_at_most_two_kilobytes(skills: Path, era: str) -> None:
    for number in range(200):
        skill_writer(skills, ".")(f"skill-{number:03}", "Does something that takes many words to describe. " * 5)
    async with connected(skills, era) as client:
        assert client.instructions is not None
        assert len(client.instructions.encode()) <= MAX_INSTRUCTIONS
        assert "skill_load" in client.instructions
        assert "report" in client.instructions


async def test_results_match_the_output_schemas_of_their_tools(skills: Path) -> None:
    async with connected(skills) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("skill_search", {"query": "sort lines"}),
            ("skill_load", {"skill": "report"}),
            ("skill_list_docs", {"skill": "report"}),
            ("skill_select_docs", {"skill": "report", "docs": ["guide.md"]}),
            ("write_file", {"file_name": "work/a.txt", "content": "one\ntwo\n"}),
            ("read_file", {"file_name": "work/a.txt", "num_lines": 1}),
            ("read_file", {"file_name": "skill://report/logo.png"}),
            ("list_files", {}),
            ("search_files", {"pattern": "two"}),
            ("skill_run", {"skill": "report", "command": "echo a; exit 3"}),
            ("skill_exec", {"skill": "report", "command": "cat", "yield_ms": 50}),
            ("skill_unload", {"skill": "report"}),
        ]
        seen: set[str] = set()
        command = ""
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, text_of(result)
            jsonschema_rs.validate(tools[name].output_schema, result.structured_content)
            command = result.structured_content.get("session_id", command)
            seen.add(name)
        for name in ("skill_write_stdin", "skill_poll_session", "skill_kill_session"):
            result = await client.call_tool(name, {"session_id": command})
            jsonschema_rs.validate(tools[name].output_schema, result.structured_content)
            seen.add(name)
        assert seen == set(tools)


async def test_an_error_of_the_model_is_a_result_and_an_unknown_tool_an_error(skills: Path) -> None:
    async with connected(skills) as client:
        failed = await client.call_tool("skill_run", {"skill": "report", "command": "true"})
        assert failed.is_error
        assert "skill_load" in text_of(failed)
        assert failed.structured_content["error"]["details"]["reason"] == "NOT_LOADED"
        with pytest.raises(MCPError, match="unknown tool 'nope'"):
            await client.call_tool("nope", {})


async def test_without_an_executor_there_are_no_tools_that_run_commands(skills: Path) -> None:
    async with connected(skills, executor=None) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert names == {"skill_load", "skill_select_docs", "skill_list_docs", "skill_unload", "skill_search"}


@pytest.mark.parametrize("era", ERAS)
async def test_files_of_skills_are_resources_with_their_type_and_size(skills: Path, era: str) -> None:
    async with connected(skills, era) as client:
        listed = {str(one.uri): one for one in (await client.list_resources()).resources}
        assert listed["skill://report/SKILL.md"].name == "report"
        assert listed["skill://report/SKILL.md"].mime_type == "text/markdown"
        assert listed["skill://report/logo.png"].size == 10
        (text,) = (await client.read_resource("skill://report/guide.md")).contents
        assert text.text == "# Guide\n"
        (image,) = (await client.read_resource("skill://report/logo.png")).contents
        assert image.mime_type == "image/png"
        assert image.blob == "iVBORw0KGgr/AA=="


@pytest.mark.parametrize("era", ERAS)
async def test_each_skill_is_a_prompt_that_loads_it(skills: Path, era: str) -> None:
    skill_writer(skills, ".")("by-hand", "For people.", front="disable-model-invocation: true\n", body="By hand.")
    skill_writer(skills, ".")("for-models", "For models.", front="user-invocable: false\n")
    async with connected(skills, era) as client:
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["by-hand", "report", "sorter"]
        (message,) = (await client.get_prompt("sorter", {"task": "Sort a.txt"})).messages
        assert "Use `sort`." in message.content.text
        assert message.content.text.endswith("Sort a.txt")
        assert not (await client.call_tool("skill_run", {"skill": "sorter", "command": "true"})).is_error
        (message,) = (await client.get_prompt("by-hand")).messages
        assert "By hand." in message.content.text
        with pytest.raises(MCPError, match="unknown prompt"):
            await client.get_prompt("for-models")


@pytest.mark.parametrize("era", ERAS)
async def test_skills_are_listed_with_front_matter_digests_and_sizes(skills: Path, era: str) -> None:
    async with connected(skills, era) as client:
        assert client.server_capabilities.extensions == {EXTENSION: {"directoryRead": True}}
        answer = await ask(client, "skills/list")
        report, sorter = answer["skills"]
        assert answer["cacheScope"] == "public"
        assert report["frontmatter"]["metadata"] == {"version": 1.5}
        data = (skills / "sorter" / "SKILL.md").read_bytes()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert sorter["resources"] == [{"uri": "skill://sorter/SKILL.md", "digest": digest, "size": len(data)}]
        assert (await ask(client, "skills/get", uri=report["uri"]))["skill"] == report
        children = (await ask(client, "resources/directory/read", uri="skill://report"))["resources"]
        assert [child["name"] for child in children] == ["SKILL.md", "guide.md", "logo.png", "scripts"]
        assert children[-1] == {"uri": "skill://report/scripts", "name": "scripts", "mimeType": "inode/directory"}
        with pytest.raises(MCPError, match="unknown skill") as caught:
            await ask(client, "skills/get", uri="skill://nope/SKILL.md")
        assert caught.value.error.code == mcp_types.INVALID_PARAMS
        assert caught.value.error.data["uri"] == "skill://nope/SKILL.md"


async def test_a_skill_with_too_many_files_is_listed_without_a_manifest(skills: Path) -> None:
    for number in range(MAX_FILES):
        (skills / "sorter" / f"{number}.txt").write_text("x")
    async with connected(skills) as client:
        entry = (await ask(client, "skills/get", uri="skill://sorter/SKILL.md"))["skill"]
        assert entry["resources"] == "dynamic"
        assert (await client.read_resource("skill://sorter/7.txt")).contents[0].text == "x"


async def test_names_that_the_specification_forbids_are_served_as_resources_only(skills: Path) -> None:
    skill_writer(skills, ".")("Übung eins", "Odd.", folder="odd")
    async with connected(skills) as client:
        names = [entry["frontmatter"]["name"] for entry in (await ask(client, "skills/list"))["skills"]]
        assert names == ["report", "sorter"]
        assert (await client.read_resource("skill://%C3%9Cbung%20eins/SKILL.md")).contents[0].text


@pytest.mark.parametrize(
    "uri",
    [
        "skill://../..",
        "skill://report/../../sorter/SKILL.md",
        "skill://report/%2e%2e/%2e%2e/etc/passwd",
        "skill://%2e%2e/SKILL.md",
        "skill:///etc/passwd",
        "skill://report//etc/passwd",
        "skill://report/.git/config",
        "skill://report/scripts",
        "skill://report",
        "skill://",
        "file:///etc/passwd",
        "artifact://../secret",
        "skill://report/\0",
        "x",
        "",
    ],
)
async def test_addresses_that_are_not_files_of_a_skill_are_refused(skills: Path, uri: str) -> None:
    (skills / "report" / ".git").mkdir()
    (skills / "report" / ".git" / "config").write_text("secret")
    async with connected(skills) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        assert caught.value.error.code == mcp_types.INVALID_PARAMS
        with pytest.raises(MCPError):
            await ask(client, "skills/get", uri=uri)


async def test_a_cursor_that_nobody_has_sent_is_not_an_error(skills: Path) -> None:
    async with connected(skills) as client:
        for cursor in ("report/²", "report/", "report/x"):
            assert (await client.list_resources(cursor=cursor)).resources


async def test_links_that_leave_a_skill_or_lead_back_into_it_are_not_served(skills: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (skills / "report" / "out").symlink_to(tmp_path / "secret")
    (skills / "report" / "loop").symlink_to(skills / "report")
    async with connected(skills) as client:
        uris = {str(one.uri) for one in (await client.list_resources()).resources}
        assert not {uri for uri in uris if "loop" in uri or uri.endswith("/out")}
        for uri in ("skill://report/out", "skill://report/loop/SKILL.md", "skill://report/loop"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
            with pytest.raises(MCPError):
                await ask(client, "resources/directory/read", uri=uri)


@pytest.mark.slow
async def test_very_many_resources_come_in_pages(skills: Path) -> None:
    letters = cases("ab", "cdefghij")  # a hundred thousand files in the long form
    for letter in letters:
        folder = skill_writer(skills, ".")(f"many-{letter}", "Has many files.")
        for number in range(9_999):
            os.mknod(folder / f"{number:04}")
    async with connected(skills, executor=None) as client:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await client.list_resources(cursor=cursor)
            assert len(page.resources) <= RESOURCES_PAGE
            found += [str(one.uri) for one in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(found) == len(set(found)) == 10_000 * len(letters) + 5
        with pytest.raises(MCPError, match="has no file 'nope'"):
            await client.read_resource("skill://many-a/nope")
        assert (await client.list_resources(cursor="zzz/99999999999999999999")).resources == []


async def test_a_changed_file_gets_a_new_digest_and_clients_are_told(skills: Path) -> None:
    async with connected(skills) as client:
        before = (await ask(client, "skills/get", uri="skill://report/SKILL.md"))["skill"]
        async with client.listen(resources_list_changed=True, tools_list_changed=True) as events:
            (skills / "report" / "guide.md").write_text("# Another guide\n")
            seen = {type(await anext(events)) for _ in range(2)}
        assert seen == {ResourcesListChanged, ToolsListChanged}
        after = (await ask(client, "skills/get", uri="skill://report/SKILL.md"))["skill"]
        changed = [new for new, old in zip(after["resources"], before["resources"], strict=True) if new != old]
        assert [one["uri"] for one in changed] == ["skill://report/guide.md"]


async def test_clients_of_the_handshake_era_are_told_of_a_new_skill(skills: Path) -> None:
    told: set[str] = set()
    complete = asyncio.Event()

    async def on_message(message: Any) -> None:
        told.add(str(getattr(message, "method", "")))
        if len(told) >= 3:
            complete.set()

    async with serving(skills) as server, Client(server.protocol, mode="legacy", message_handler=on_message) as client:
        await client.list_tools()
        skill_writer(skills, ".")("fresh", "New.")
        async with asyncio.timeout(30):
            await complete.wait()
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
    assert told == {f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}
    assert "fresh" in names


async def test_progress_is_reported_while_a_command_runs(skills: Path) -> None:
    lines: list[str] = []
    second = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        lines.append(message or "")
        if len(lines) == 2:
            second.set()

    async with connected(skills, "legacy") as client:
        await client.call_tool("skill_load", {"skill": "report"})
        arguments = {"skill": "report", "command": "while [ ! -e work/go ]; do sleep 0.05; done"}
        running = asyncio.create_task(client.call_tool("skill_run", arguments, progress_callback=on_progress))
        await second.wait()
        await client.call_tool("write_file", {"file_name": "work/go", "content": ""})
        assert not (await running).is_error
    assert lines[0] == "running for 1 s"


async def test_cancelling_a_call_ends_its_command_and_the_session_goes_on(skills: Path) -> None:
    async with connected(skills, "legacy") as client:
        await client.call_tool("skill_load", {"skill": "report"})
        command = "echo $$ > work/pid; touch work/began; sleep 600"
        running = asyncio.create_task(client.call_tool("skill_run", {"skill": "report", "command": command}))
        pid = await read_when_written(client, "work/pid")
        running.cancel()
        await asyncio.wait([running])
        async with asyncio.timeout(30):
            while Path(f"/proc/{pid}").exists():
                await asyncio.sleep(0.02)
        assert not (await client.call_tool("skill_run", {"skill": "report", "command": "true"})).is_error


async def read_when_written(client: Any, name: str) -> str:
    """The number in a file that a command of the session writes."""
    async with asyncio.timeout(30):
        while True:
            found = await client.call_tool("read_file", {"file_name": name})
            if not found.is_error and found.structured_content["contents"].strip():
                return str(found.structured_content["contents"].strip())
            await asyncio.sleep(0.02)


async def test_a_client_that_leaves_ends_its_commands_and_its_session(skills: Path) -> None:
    async with serving(skills) as server:
        async with Client(server.protocol, mode="legacy") as client:
            await client.call_tool("skill_load", {"skill": "report"})
            command = {"skill": "report", "command": "echo $$ > work/pid; sleep 600"}
            await client.call_tool("skill_exec", command)
            pid = await read_when_written(client, "work/pid")
            assert len(server.sessions) == 1
        async with asyncio.timeout(30):
            while len(server.sessions) or Path(f"/proc/{pid}").exists():
                await asyncio.sleep(0.02)


async def test_idle_sessions_are_closed_and_too_many_busy_ones_refused(skills: Path) -> None:
    settings = settings_in(skills.parent)
    async with SkillRuntime(Catalog.from_paths(skills, settings=settings), "local", settings=settings) as runtime:
        sessions = SessionPool(runtime, SessionOptions(), app="test", agent="mcp", idle_timeout=0.05, max_sessions=1)
        caller = LocalCaller()
        async with sessions.use(caller, "one") as session:
            await session.call("skill_load", {"skill": "report"})
            assert await runtime.store.list("test", "local")
            with pytest.raises(TooManyRequests, match="1 sessions of 'local' are in use"):
                async with sessions.use(caller, "two"):
                    pass
        async with sessions.use(caller, "two"):
            assert len(sessions) == 1
        async with asyncio.timeout(30):
            while len(sessions):
                await asyncio.sleep(0.01)
        await sessions.close()
        assert not await runtime.store.list("test", "local")


async def test_work_that_is_cancelled_finishes_its_cleanup() -> None:
    began, cleaned = asyncio.Event(), False

    async def work() -> None:
        nonlocal cleaned
        began.set()
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)
            cleaned = True

    task = asyncio.create_task(run_apart(work()))
    await began.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert cleaned


def test_addresses_are_encoded_and_decoded() -> None:
    assert parse_uri(build_uri("a b", "x/y z.md")) == ("a b", "x/y z.md")
    assert parse_uri("skill://report/") == ("report", "")
    with pytest.raises(ForbiddenPath):
        parse_uri("skill://report/a/../../b")
    with pytest.raises(InvalidArgument, match="expected skill://name/path"):
        parse_uri("http://x")


def test_pages_fit_together_when_items_disappear_between_them() -> None:
    first, cursor = take_page(["a", "b", "c", "d"], str, None, 2)
    second, end = take_page(["a", "c", "d"], str, cursor, 2)
    assert [*first, *second] == ["a", "b", "c", "d"]
    assert end is None


def test_front_matter_has_the_types_of_yaml_1_2(skills: Path) -> None:
    front = "metadata: {a: no, b: true, c: 2024-01-01, d: 1.5, e: 0x10, f: ~, g: '1', h: .inf, i: [1, x]}\n"
    skill_writer(skills, ".")("typed", "Typed.", front=front)
    served = SkillResources(Catalog.from_paths(skills)).get_all()["typed"]
    metadata = {"a": "no", "b": True, "c": "2024-01-01", "d": 1.5, "e": 16, "f": None, "g": "1", "h": ".inf"}
    assert served.front["metadata"] == {**metadata, "i": [1, "x"]}


def stdio_line(skills: Path, *more: str) -> list[str]:
    return openskills_line("mcp", str(skills), "--executor", "local", *more)


async def test_the_sdk_client_works_over_stdio_in_both_eras(skills: Path, tmp_path: Path) -> None:
    command, *arguments = stdio_line(skills)
    env = {"HOME": str(tmp_path), "LANG": "C.UTF-8", "OPENSKILL_ALLOW_LOCAL": "1"}
    for era in ERAS:
        parameters = StdioServerParameters(command=command, args=arguments, env=env)
        opened: Any = Client(stdio_client(parameters), mode=cast("Any", era))
        async with opened as client:
            assert "# Body" in text_of(await client.call_tool("skill_load", {"skill": "report"}))
            done = await client.call_tool("skill_run", {"skill": "report", "command": "echo hello"})
            assert done.structured_content["stdout"] == "hello\n"


async def test_the_client_of_fastmcp_works_over_stdio(skills: Path, tmp_path: Path) -> None:
    command, *arguments = stdio_line(skills)
    env = {"HOME": str(tmp_path), "LANG": "C.UTF-8", "OPENSKILL_ALLOW_LOCAL": "1"}
    opened: Any = FastClient(StdioTransport(command, arguments, env=env))
    async with opened as client:
        assert "skill_run" in {tool.name for tool in await client.list_tools()}
        loaded = await client.call_tool("skill_load", {"skill": "report"})
        assert "# Body" in loaded.content[0].text
        (contents,) = await client.read_resource("skill://report/guide.md")
        assert contents.text == "# Guide\n"


async def test_a_second_process_cannot_use_a_workspace_at_the_same_time(skills: Path, tmp_path: Path) -> None:
    command, *arguments = stdio_line(skills, "--session", "shared")
    env = {"HOME": str(tmp_path), "LANG": "C.UTF-8", "OPENSKILL_ALLOW_LOCAL": "1"}
    parameters = StdioServerParameters(command=command, args=arguments, env=env)
    first: Any = Client(stdio_client(parameters))
    second: Any = Client(stdio_client(parameters))
    async with first as one, second as two:
        for client in (one, two):
            await client.call_tool("skill_load", {"skill": "report"})
        run = {"skill": "report", "command": "true"}
        assert not (await one.call_tool("skill_run", run)).is_error
        refused = await two.call_tool("skill_run", run)
        assert refused.is_error
        assert "is in use by process" in text_of(refused)
