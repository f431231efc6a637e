"""Trace which modules one agent turn and one HTTP invocation execute, and print both call paths.

    .venv/bin/python scripts/call_paths.py [--functions]

The turn: a message with a file, overview, `skill_load`, `skill_run` in the sandbox, an artifact, the answer. The
invocation: `POST /skills/echo:invoke` to a real server on loopback, a later call, so that nothing starts up in it.
Functions count, imports do not. `tests/journeys/test_call_paths.py` checks the numbers.
"""

import asyncio
import http.client
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "openskills"
_PREFIX = f"{PACKAGE}/"

REQUEST = json.dumps({"input": {"text": "hello"}})
HEADERS = {"Content-Type": "application/json"}


class CallPath:
    """Functions of our package in the order in which they were first called, while `record` runs."""

    def __init__(self) -> None:
        self.functions: dict[str, None] = {}

    @property
    def modules(self) -> list[str]:
        """The modules of these functions, in the order in which they were entered."""
        return list(dict.fromkeys(function.partition(":")[0] for function in self.functions))

    def start(self) -> None:
        """Begin to record, in this thread and in those that start from now on."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def stop(self) -> None:
        """Record no more."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_PREFIX) and code.co_name != "<module>":
            self.functions[f"{code.co_filename.removeprefix(_PREFIX)}:{code.co_qualname}"] = None


async def trace_turn(directory: Path) -> CallPath:
    """The path of one turn of an agent with a scripted model."""
    from openskills.agent import Agent, Attachment, Runner
    from openskills.catalog import Catalog
    from openskills.runtime import SkillRuntime
    from openskills.settings import Settings
    from openskills.testing import ScriptedModel, call_tools

    load = call_tools(("skill_load", {"skill": "csv-report"}))
    command = "python3 scripts/report.py $WORK_DIR/inputs/sales.csv --output $OUTPUT_DIR/report.md"
    outputs = {"globs": ["out/*.md"], "save": True}
    run = call_tools(("skill_run", {"skill": "csv-report", "command": command, "outputs": outputs}))
    settings = replace(Settings.from_env(), state_dir=directory)
    path = CallPath()
    async with SkillRuntime(Catalog.from_paths(ROOT / "skills"), "sandbox", settings=settings) as runtime:
        agent = Agent("assistant", ScriptedModel([load, run, "Done."]), runtime)
        files = [Attachment("sales.csv", b"month,amount\n2026-01,12\n2026-02,19\n")]
        path.start()
        try:
            reply = await Runner("demo", agent).reply(user="ada", session="s", message="A report, please.", files=files)
        finally:
            path.stop()
    assert any(event.kind == "artifact" for event in reply.events), [event.kind for event in reply.events]
    return path


def trace_invocation(directory: Path) -> CallPath:
    """The path of `POST /skills/echo:invoke`, in the thread that serves it."""
    import uvicorn

    from openskills.host import create_app
    from openskills.host.connections import HostProtocol
    from openskills.host.parts import HostOptions
    from openskills.host.server import open_socket
    from openskills.settings import Settings

    settings = replace(Settings.from_env(), state_dir=directory)
    app = create_app(settings, HostOptions(manifests=(ROOT / "skills_cli",), json_log=""))
    config = uvicorn.Config(app, http=HostProtocol, log_level="warning", loop="asyncio", lifespan="on")
    server, path = uvicorn.Server(config), CallPath()
    with open_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=lambda: asyncio.run(_serve(server, listener, path)))
        thread.start()
        try:
            _post(port)
            paths: list[dict[str, None]] = []
            for _ in range(20):
                path.functions.clear()
                _post(port)
                paths.append(dict(path.functions))
            # Spare interpreters and the history are worked on beside a call; the smallest path has least of them.
            found = min(paths, key=len)
        finally:
            server.should_exit = True
            thread.join()
    path.functions = found
    return path


async def _serve(server: object, listener: object, path: CallPath) -> None:
    serve: Callable[..., object] = getattr(server, "serve")  # noqa: B009
    path.start()
    await serve(sockets=[listener])  # type: ignore[misc]
    path.stop()


def _post(port: int) -> None:
    body = b""
    for _ in range(100):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/skills/echo:invoke", REQUEST, HEADERS)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 503:
            assert json.loads(body)["success"], body
            return
        threading.Event().wait(0.1)
    raise SystemExit(f"the host is not ready: {body!r}")


def main(arguments: list[str]) -> None:
    """Print both paths."""
    with tempfile.TemporaryDirectory() as directory:
        turn = asyncio.run(trace_turn(Path(directory) / "turn"))
        invocation = trace_invocation(Path(directory) / "host")
    for title, path in (("one agent turn", turn), ("POST /skills/echo:invoke", invocation)):
        print(f"{title}: {len(path.modules)} modules, {len(path.functions)} functions")
        for entry in path.functions if "--functions" in arguments else path.modules:
            print(f"  {entry}")


if __name__ == "__main__":
    main(sys.argv[1:])
