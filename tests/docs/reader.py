"""A reader who follows a page to the letter: types its commands at a terminal, runs its Python, writes its files."""

import contextlib
import functools
import io
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.docs.page import ROOT, SERVED, Block, Step, steps
from tests.servers.warm_openskills import WarmProcess, start_openskills

HOME = "/home/you"
"""The home directory of the pages. The project of the pages is the folder `project` in it."""

TIMEOUT = 120.0
_MARK = "\x1e"
# These make or enter the clone that the reader is in already.
_SET_UP = re.compile(r"make [a-z]|source \.venv/|git clone |cd openskills\b")
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+\d\d:\d\d"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "DIGEST"),
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "VERSION"),
    (re.compile(r"\[Errno \d+\]"), "ERRNO"),
)


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder over HTTP, without a log."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@dataclass
class Reader:
    """Somebody with an empty home, in a folder that holds what a clone holds as far as pages use it."""

    home: Path
    commands: Path = Path(sys.executable).parent
    """Where `openskills` is."""
    names: dict[str, Any] = field(default_factory=dict[str, Any])
    server: ThreadingHTTPServer | None = None
    host: WarmProcess | None = None
    host_address: str = SERVED

    def __post_init__(self) -> None:
        shutil.copytree(ROOT / "skills", self.project / "skills", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("skills_cli", "data"):
            shutil.copytree(ROOT / name, self.project / name, ignore=shutil.ignore_patterns("__pycache__"))
        (self.project / "benchmarks").mkdir()
        shutil.copy(ROOT / "benchmarks" / "corpus.py", self.project / "benchmarks")

    @property
    def project(self) -> Path:
        """Where the reader works."""
        return self.home / "project"

    def environment(self) -> dict[str, str]:
        """Nothing of this machine but its programs; a terminal that shows no colours and moves no cursor."""
        path = os.pathsep.join((str(self.commands), str(Path(sys.executable).parent), os.defpath))
        size = {"TERM": "dumb", "COLUMNS": "100", "LINES": "40"}
        host = {"OPENSKILL_HTTP_BASE_URL": self.host_address} if self.host else {}
        index = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "GIT_PAGER": "cat", **size, **host, **index}

    def prepare(self, block: Block) -> None:
        """Do what the comments before a block say."""
        folder = block.told("server:")
        if folder:
            self.serve(self.project / folder)
        if "server off" in block.comments or "host off" in block.comments:
            self.stop()
        if "host" in block.comments:
            self.start_host()
        elif options := block.told("host:"):
            self.start_host(*options.split())
        path = block.told("file:")
        if path:
            target = self.project / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text + "\n", "utf-8")

    def run_python(self, source: str, where: str) -> str:
        """Run a block with the names of those before it and give what it prints. The caller has set the directory."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(self.real(source), where, "exec"), self.names)
        return self.told(printed.getvalue())

    def run_console(self, block: Block) -> list[tuple[Step, str, int]]:
        """Type the commands of a block into one shell; each with its output and exit status."""
        wanted = [step for step in steps(block.text) if not _SET_UP.match(step.command)]
        if not wanted:
            return []
        mark = f"__status=$?; printf '{_MARK}%s{_MARK}' $__status; (exit $__status)"
        script = "\n".join(f"{self.real(step.command)}\n{mark}" for step in wanted)
        pieces = self.told(self._on_terminal(["bash", "--noprofile", "--norc", "-c", script])).split(_MARK)
        return [(step, pieces[2 * n], int(pieces[2 * n + 1])) for n, step in enumerate(wanted)]

    def serve(self, folder: Path) -> None:
        """Publish a folder."""
        self.stop()
        handler = functools.partial(Quiet, directory=str(folder))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def start_host(self, *options: str) -> None:
        """Have a host serve the skills of the project, started with these options."""
        self.stop()
        log = self.home / "host.log"
        with log.open("wb") as written:
            line, output = ("serve", "--port", "0", *options), written.fileno()
            self.host = start_openskills(*line, cwd=self.project, env=self.environment(), stdout=output, stderr=output)
        deadline = time.monotonic() + TIMEOUT
        while not (found := re.search(rb"on (http://[\d.]+:\d+)", log.read_bytes())):
            assert self.host.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < deadline, log.read_text("utf-8")
            time.sleep(0.02)
        self.host_address = found[1].decode()

    def stop(self) -> None:
        """End the server or the host; its address stays the same one, where now nobody answers."""
        if self.server:
            self.server.shutdown()
            self.server.server_close()
        if self.host:
            self.host.terminate()
            self.host.wait(TIMEOUT)

    def real(self, text: str) -> str:
        """The text of a page with the places of this machine."""
        return text.replace(HOME, str(self.home)).replace(SERVED, self._address)

    def told(self, text: str) -> str:
        """Output of this machine with the places of the page."""
        return text.replace(self._address, SERVED).replace(str(self.home), HOME)

    @property
    def _address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}" if self.server else self.host_address

    def _on_terminal(self, command: Sequence[str]) -> str:
        ours, theirs = pty.openpty()
        try:
            with subprocess.Popen(
                command,
                cwd=self.project,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
            ) as process:
                os.close(theirs)
                text = b"".join(_read(ours, process)).decode("utf-8", "replace")
        finally:
            os.close(ours)
        return text.replace("\r\n", "\n")


def _read(terminal: int, process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    while True:
        ready, _, _ = select.select([terminal], [], [], TIMEOUT)
        if not ready:
            process.kill()
            raise TimeoutError(f"nothing was written for {TIMEOUT:g} seconds")
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            # Linux says EIO when the last process has closed the other side.
            return
        if not chunk:
            return
        yield chunk


def same(shown: Sequence[str], real: Sequence[str]) -> bool:
    """Whether output is what a page shows: blanks, digests, versions and times aside, `...` standing for any lines."""
    wanted = [_settled(line) for line in shown if line.strip()]
    found = [_settled(line) for line in real if line.strip()]
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in wanted)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in found)) is not None


def _settled(line: str) -> str:
    for pattern, word in _VARYING:
        line = pattern.sub(word, line)
    return " ".join(line.split())
