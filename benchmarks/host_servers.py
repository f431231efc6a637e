"""Hosts as processes of their own, each on a port of its own: ours with everything on, and what it is compared with."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx2
from host_wrk import Address
from peer_process import Installed
from reasons import last_line, one_line
from running_part import NotMeasured

HERE = Path(__file__).resolve().parent
SCRIPT = """\
import json
import sys

request = json.load(sys.stdin)
print(json.dumps({"success": True, "data": {"echoed": request["input"]["text"]}, "error": None}))
"""
FUNCTION = """\
async def echo(input):
    return {"echoed": input["text"]}
"""
BODY = '{"input": {"text": "hello"}}'
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
JSON = {"Content-Type": "application/json"}
WAYS = {
    "local_fork": {"executor": "local", "warm": "fork"},
    "local_spawn": {"executor": "local", "warm": "spawn"},
    "local_reuse": {"executor": "local", "warm": "reuse"},
    "sandbox_fork": {"executor": "sandbox", "warm": "fork"},
    "sandbox_spawn": {"executor": "sandbox", "warm": "spawn"},
    "sandbox_reuse": {"executor": "sandbox", "warm": "reuse"},
}
FUNCTION_SKILL = "function"
FASTMCP, BENTOML = Installed("FastMCP", "fastmcp", "fastmcp"), Installed("BentoML", "bento", "bentoml")
_STARTS_WITHIN = 60.0
_ENDS_WITHIN = 15.0


@asynccontextmanager
async def ours(scratch: Path) -> AsyncGenerator[tuple[dict[str, Address], int]]:
    """Our host with keys, schemas, logs, history and metrics; its skills by name, and its process."""
    environment = _project(scratch)
    tool = [sys.executable, "-m", "openskills"]
    made = subprocess.run(
        [*tool, "keys", "new", "bench", "--json"], cwd=scratch, env=environment, capture_output=True, check=True
    )
    key = json.loads(made.stdout)["key"]
    port = free_port()
    argv = [*tool, "serve", "--port", str(port), "--json-log", str(scratch / "access.jsonl")]
    headers = {**JSON, "Authorization": f"Bearer {key}"}
    async with served(argv, scratch, environment, f"http://127.0.0.1:{port}/readyz") as pid:
        names = (*WAYS, FUNCTION_SKILL)
        yield {name: Address(f"http://127.0.0.1:{port}/skills/{name}:invoke", BODY, headers) for name in names}, pid


@asynccontextmanager
async def other(kind: str, scratch: Path) -> AsyncGenerator[Address]:
    """A host of `host_others.py`."""
    script = scratch / "echo.py"
    script.write_text(SCRIPT, "utf-8")
    port = free_port()
    argv = [sys.executable, str(HERE / "host_others.py"), kind, str(port), str(script)]
    async with served(argv, scratch, clean_environment(scratch), f"http://127.0.0.1:{port}/openapi.json"):
        yield Address(f"http://127.0.0.1:{port}/skills/echo:invoke", BODY, JSON)


@asynccontextmanager
async def fastmcp(scratch: Path) -> AsyncGenerator[Address]:
    """FastMCP with a tool that does nothing."""
    FASTMCP.check()
    port = free_port()
    argv = [str(FASTMCP.python), str(HERE / "host_fastmcp.py"), str(port)]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    body = json.dumps({**call, "params": {"name": "echo", "arguments": {"text": "hello"}}})
    headers = {**JSON, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    async with served(argv, scratch, clean_environment(scratch), f"http://127.0.0.1:{port}/mcp"):
        yield Address(f"http://127.0.0.1:{port}/mcp", body, headers)


@asynccontextmanager
async def bentoml(scratch: Path) -> AsyncGenerator[Address]:
    """BentoML with a function that does nothing."""
    BENTOML.check()
    port = free_port()
    program = BENTOML.python.with_name("bentoml")
    argv = [str(program), "serve", "host_bento:Echo", "--port", str(port), "--working-dir", str(HERE)]
    environment = {
        **clean_environment(scratch),
        "BENTOML_DO_NOT_TRACK": "True",
        "BENTOML_HOME": str(scratch / "bentoml"),
    }
    async with served(argv, scratch, environment, f"http://127.0.0.1:{port}/livez"):
        yield Address(f"http://127.0.0.1:{port}/invoke", '{"text": "hello"}', JSON)


def _project(scratch: Path) -> dict[str, str]:
    skills = scratch / "skills_cli"
    skills.mkdir()
    (scratch / "data").mkdir()
    (scratch / "bench_function.py").write_text(FUNCTION, "utf-8")
    for name, options in WAYS.items():
        (skills / f"{name}.py").write_text(SCRIPT, "utf-8")
        _write(skills, {"id": name, "type": "cli", "runtime": "python", "entry": f"./skills_cli/{name}.py", **options})
    _write(skills, {"id": FUNCTION_SKILL, "type": "inproc", "entry": "bench_function:echo"})
    return {**clean_environment(scratch), "PYTHONPATH": str(scratch), "OPENSKILL_HOST_AUTH": "on"}


def _write(skills: Path, manifest: Mapping[str, object]) -> None:
    text = json.dumps({**manifest, "version": "1", "input_schema": SCHEMA})
    (skills / f"{manifest['id']}.json").write_text(text, "utf-8")


def clean_environment(scratch: Path) -> dict[str, str]:
    return {"HOME": str(scratch), "PATH": os.defpath, "LANG": "C.UTF-8", "OPENSKILL_ALLOW_LOCAL": "1"}


@asynccontextmanager
async def served(
    argv: Sequence[str], directory: Path, environment: Mapping[str, str], ready: str, *, within: float = _STARTS_WITHIN
) -> AsyncGenerator[int]:
    """A host that answers at `ready`, and its process. Raises `NotMeasured` when it has not begun `within` seconds."""
    log = directory / f"{Path(argv[1]).name}-{abs(hash(ready))}.log"
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv, cwd=directory, env=environment, stdout=output, stderr=output, start_new_session=True
            )
    except OSError as error:
        raise NotMeasured(f"it cannot be started: {last_line(str(error))}") from error
    try:
        await _answers(ready, process, log, within)
        yield process.pid
    finally:
        await _ended(process)


async def _answers(address: str, process: "subprocess.Popen[bytes]", log: Path, within: float) -> None:
    deadline = asyncio.get_running_loop().time() + within
    why = f"did not start within {within:g} seconds"
    async with httpx2.AsyncClient(trust_env=False) as client:
        while asyncio.get_running_loop().time() < deadline:
            if process.poll() is not None:
                why = f"it ended with {process.returncode} before it served"
                break
            try:
                await client.get(address, timeout=2)
            except httpx2.HTTPError:
                await asyncio.sleep(0.1)
            else:
                return
    raise NotMeasured(one_line(f"{why}: {last_line(log.read_text('utf-8', 'replace'))}"))


async def _ended(process: "subprocess.Popen[bytes]") -> None:
    """Ask it to end, then end its whole group."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        await asyncio.to_thread(process.wait, _ENDS_WITHIN)
    # The number of a group is not given to anybody else as long as somebody is in it.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
