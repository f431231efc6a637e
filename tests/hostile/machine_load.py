"""Load on Ray nodes and on a conversation, of which nothing acknowledged may get lost and nothing may be done twice."""

import asyncio
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from openskills.errors import SkillError
from openskills.executors import Command
from openskills.executors.ray.client import RemoteWorkspace
from openskills.executors.ray.executor import RayExecutor
from openskills.executors.spec import EndReason
from openskills.session.open import open_session_store
from openskills.session.store import SessionKey
from openskills.settings import Settings
from openskills.sync import run
from tests.agent.agents import skills_for_agents
from tests.host.hosting import eventually

ROOT = Path(__file__).parents[2]
_PAUSE = 0.1


@dataclass
class NodeLoad:
    """Commands in workspaces of a cluster whose nodes do not isolate them: each appends its id to a file outside."""

    executor: RayExecutor
    executed: Path
    acknowledged: list[str] = field(default_factory=list[str])
    failures: dict[str, int] = field(default_factory=dict[str, int])
    lost: list[str] = field(default_factory=list[str])
    is_stopped: bool = False

    async def run(self, name: str) -> None:
        """Send commands until it is stopped. None is sent twice."""
        workspace: RemoteWorkspace | None = None
        seen: list[str] = []
        for number in count():
            if self.is_stopped:
                break
            id_ = f"{name}-{number}"
            text = f"echo {id_} >> '{self.executed}'; echo {id_} >> work/log; cat work/log"
            try:
                workspace = workspace or await self.executor.open(name)
                ended = await (await workspace.start(Command(("sh", "-c", text)))).wait()
            except SkillError as error:
                self.failures[error.reason] = self.failures.get(error.reason, 0) + 1
                await asyncio.sleep(_PAUSE)
                continue
            if ended.ending is not EndReason.EXITED:
                continue
            self.acknowledged.append(id_)
            self._compare(id_, seen, ended.stdout.text().split(), ended.notes)

    def _compare(self, id_: str, seen: list[str], log: list[str], notes: tuple[str, ...]) -> None:
        """Note what is missing in the workspace, unless the user was told that it is that of a checkpoint."""
        told = any("was opened again" in note for note in notes)
        if len(log) != len(set(log)) or log[-1] != id_:
            self.lost.append(f"{id_}: {log[-3:]}")
        if not told and (missing := set(seen) - set(log)):
            self.lost.append(f"{id_}: {sorted(missing)[:3]} are missing, and the notes are {notes}")
        seen[:] = log

    def check(self) -> None:
        """Nothing was executed twice, everything acknowledged was executed, and losses were told."""
        executed = self.executed.read_text().split()
        assert len(executed) == len(set(executed))
        assert set(self.acknowledged) <= set(executed)
        assert self.lost == []


class ConversationLoad:
    """Processes that write events into one conversation, one after the other. See `lease_program`."""

    def __init__(self, url: str, directory: Path) -> None:
        self._url = url
        self._directory = directory
        self._started = 0
        self._stop = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self.acknowledged: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def kill(self) -> None:
        """Kill the process that has the conversation; another one takes over."""
        process = self._process
        if process is not None:
            process.kill()

    def progress(self) -> None:
        """Wait for more acknowledged events."""
        before = len(self.acknowledged)
        eventually(lambda: len(self.acknowledged) > before + 5, 120)

    def close(self) -> None:
        """End it."""
        self._stop.set()
        while self._thread.is_alive():
            self.kill()
            self._thread.join(_PAUSE)

    def check(self) -> None:
        """Every acknowledged event is there once, in its order."""
        stored = run(self._read())
        assert len(stored) == len(set(stored))
        wanted = set(self.acknowledged)
        assert [note for note in stored if note in wanted] == self.acknowledged

    async def _read(self) -> list[str]:
        store = open_session_store(self._url, Settings.from_env({"HOME": str(self._directory)}))
        found = await store.get(SessionKey("app", "u", "s"))
        return [event.payload["text"] for event in (found.events if found else ()) if event.kind == "note"]

    def _run(self) -> None:
        while not self._stop.is_set():
            self._started += 1
            home = skills_for_agents(self._directory / f"machine-{self._started}")
            command = [sys.executable, "-m", "tests.runtime.lease_program", self._url, str(home), "1m"]
            pipe = subprocess.PIPE
            with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
                self._process = process
                try:
                    self._follow(process)
                except BrokenPipeError:
                    continue
                finally:
                    process.kill()

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        name = f"p{self._started}-"
        if process.stdout.readline() != "ready\n":
            return
        for line in ("open", f"spam {name}"):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if answer != "done\n":
                break
        while answer.startswith("logged"):
            self.acknowledged.append(f"{name}{answer.split()[1]}")
            answer = process.stdout.readline()
