"""Make the environments that `make` works in. Standard library only: it runs before anything is installed.

setup.py runtime|dev           make the environment ready; quiet and quick when it is already
setup.py peers                 the same for each library to compare with; one that cannot be had stops no other
setup.py --ready NAME          exit 0 when nothing is to be done
setup.py constraints           resolve anew in a throw-away environment and write constraints.txt
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
ELSEWHERE = ("async-timeout",)
"""What dependencies need on some supported interpreters only: redis takes this one before Python 3.11.3."""
HEADER = """\
# The versions that tests run with. Names and versions only: no addresses, no hashes.
# Regenerate with: make constraints
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment and what belongs into it; `also` names environments that contain all of it."""

    name: str
    directory: Path
    says: str
    install: tuple[str, ...]
    inputs: tuple[str, ...]
    also: tuple[str, ...] = ()

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    @property
    def unfinished(self) -> Path:
        """Exists while work is under way, and after work that was interrupted."""
        return self.directory.with_name(self.directory.name + ".unfinished")

    @property
    def stamp(self) -> Path:
        return self.directory / f"{self.name}.stamp"

    @property
    def reason(self) -> Path:
        """Says in a line why the last installation failed, for the page that then lacks something."""
        return self.directory.with_name(self.directory.name + ".reason")

    @property
    def place(self) -> Path:
        """Holds the directory this environment was made in; its scripts work nowhere else."""
        return self.directory / "place.txt"


_INPUTS = ("pyproject.toml", "constraints.txt", "src/openskills/version.py", "scripts/setup.py")
OURS = (
    Environment(
        "runtime",
        ROOT / ".venv",
        "installing OpenSkill",
        ("-c", "constraints.txt", "-e", "."),
        _INPUTS,
        also=("dev",),
    ),
    Environment(
        "dev",
        ROOT / ".venv",
        "installing OpenSkill and the tools to work on it",
        ("-c", "constraints.txt", "-e", ".[dev]"),
        _INPUTS,
    ),
)


def _peer(name: str, directory: str, requirements: str, says: str) -> Environment:
    """Libraries to compare with, apart from all others: they do not agree about what they need."""
    file = f"benchmarks/{requirements}"
    return Environment(
        name, ROOT / ".bench" / directory, f"installing {says}", ("-r", file), (file, "scripts/setup.py")
    )


PEERS = (
    _peer("skills-peers", "venv", "requirements.txt", "deepagents and skills-ref"),
    _peer("running-peers", "running", "running_requirements.txt", "trpc-agent-py"),
    _peer("adk-peers", "adk", "adk_requirements.txt", "google-adk"),
    _peer("pydantic-peers", "pydantic", "pydantic_requirements.txt", "pydantic-ai-skills"),
    _peer("fastmcp-peers", "fastmcp", "fastmcp_requirements.txt", "FastMCP"),
    _peer("bento-peers", "bento", "bento_requirements.txt", "BentoML"),
    _peer("selection-peers", "selection", "selection_requirements.txt", "wordllama"),
)
ENVIRONMENTS = {environment.name: environment for environment in (*OURS, *PEERS)}


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; the exit code."""
    match arguments:
        case ["--ready", "peers"]:
            return 0 if all(ready(peer) for peer in PEERS) else 1
        case ["peers"]:
            return prepare_peers()
        case ["--ready", name] if name in ENVIRONMENTS:
            return 0 if ready(ENVIRONMENTS[name]) else 1
        case ["constraints"]:
            return write_constraints()
        case [name] if name in ENVIRONMENTS:
            return prepare(ENVIRONMENTS[name])
        case _:
            print(__doc__, file=sys.stderr)
            return 2


def ready(environment: Environment) -> bool:
    """Whether the last set-up ended well and nothing that matters has changed since."""
    if environment.unfinished.exists() or not environment.python.exists() or _other_python_wanted(environment):
        return False
    able = (environment, *(ENVIRONMENTS[name] for name in environment.also))
    return any(one.stamp.is_file() and one.stamp.read_text() == fingerprint(one) for one in able)


def fingerprint(environment: Environment) -> str:
    """A digest of all that decides what is installed, and of the place, because an environment cannot be moved."""
    digest = hashlib.sha256(str(ROOT).encode())
    for path in (environment.directory / "pyvenv.cfg", *(ROOT / name for name in environment.inputs)):
        digest.update(b"\0" + (path.read_bytes() if path.exists() else b""))
    return digest.hexdigest()


def prepare(environment: Environment) -> int:
    """Make the environment ready, alone: a second call waits for the first. Heals what was interrupted."""
    with _lock() as lock:
        if ready(environment):
            return 0
        healthy = not environment.unfinished.exists() and _works(environment)
        environment.unfinished.parent.mkdir(parents=True, exist_ok=True)
        environment.unfinished.touch()
        if not healthy:
            _say(environment, f"making a virtual environment with Python {sys.version.split()[0]}")
            made = _quietly([sys.executable, "-I", "-m", "venv", "--clear", str(environment.directory)], lock)
            if made.returncode:
                _remember(environment, made.stdout)
                return 1
            environment.place.write_text(str(environment.directory))
        _say(environment, environment.says)
        installed = _install_with_uv(environment, lock) or _quietly(
            [*_pip(environment.python), "install", "--no-compile", *environment.install], lock
        )
        if installed.returncode < 0:
            return 1
        # pip would compile on one processor. Files that cannot be compiled are templates.
        compile_all = [str(environment.python), "-I", "-m", "compileall", "-qq", "-j", "0"]
        subprocess.run([*compile_all, str(environment.directory / "lib")], check=False, pass_fds=(lock,))
        # pip that gives up by itself leaves the environment as it was; only who was killed leaves a mess.
        if installed.returncode == 0:
            environment.stamp.write_text(fingerprint(environment))
            environment.reason.unlink(missing_ok=True)
        else:
            _remember(environment, installed.stdout)
        environment.unfinished.unlink()
        return installed.returncode


def _install_with_uv(environment: Environment, lock: int) -> "subprocess.CompletedProcess[bytes] | None":
    """Install with the pinned uv, which takes a quarter of the time; None if it cannot be used, so that pip does it.

    uv does not read the settings of pip: where those name an index or a proxy, it is not used.
    """
    if environment.name != "dev":
        return None
    pin = re.search(r"^uv==\S+$", CONSTRAINTS.read_text(), re.MULTILINE)
    if pin is None:
        return None
    listing = [*_pip(environment.python), "config", "list"]
    settings = subprocess.run(listing, check=False, capture_output=True, text=True)
    if settings.returncode or re.search(r"\.(?:index-url|no-index|proxy)=", settings.stdout):
        return None
    uv = [str(environment.directory / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(environment.python)]
    for command in ([*_pip(environment.python), "install", "--no-deps", pin[0]], [*uv, *environment.install]):
        done = subprocess.run(
            command, check=False, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, pass_fds=(lock,)
        )
        if done.returncode:
            return None
    return done


def prepare_peers() -> int:
    """Every library that can be had; those that cannot are named, and what needs them is not measured."""
    failed = [peer for peer in PEERS if prepare(peer)]
    for peer in failed:
        print(f"→ going on without it: {peer.says} failed; what needs it is not measured", file=sys.stderr)
    return 0


def write_constraints() -> int:
    """Resolve all dependencies without constraints and write down what came out."""
    with tempfile.TemporaryDirectory() as scratch, _lock() as lock:
        python = Path(scratch, "bin", "python")
        print("→ resolving all dependencies anew", flush=True)
        install = [*_pip(python), "install", ".[dev]", *ELSEWHERE]
        for command in ([sys.executable, "-I", "-m", "venv", scratch], install):
            if _quietly(command, lock).returncode:
                return 1
        frozen = subprocess.run([*_pip(python), "freeze"], capture_output=True, text=True, check=True).stdout
    pins = [line for line in frozen.splitlines() if re.fullmatch(r"[\w.-]+==[\w.!+-]+", line)]
    pins = sorted((pin for pin in pins if not pin.startswith("openskill-runtime==")), key=str.lower)
    CONSTRAINTS.write_text(HEADER + "\n".join(pins) + "\n")
    print(f"→ constraints.txt: {len(pins)} versions")
    return 0


def _other_python_wanted(environment: Environment) -> bool:
    # setup.sh has turned PYTHON into the interpreter that runs this file.
    if not os.environ.get("PYTHON") or not environment.python.exists():
        return False
    return environment.python.resolve() != Path(sys.executable).resolve()


def _works(environment: Environment) -> bool:
    if not environment.python.exists() or _other_python_wanted(environment):
        return False
    if environment.place.exists() and environment.place.read_text() != str(environment.directory):
        return False
    probe = "import pip, sys; sys.exit(sys.version_info < (3, 11))"
    command = [environment.python, "-I", "-c", probe]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _pip(python: Path) -> list[str]:
    return [str(python), "-I", "-m", "pip", "--no-input", "--disable-pip-version-check"]


def _say(environment: Environment, what: str) -> None:
    print(f"→ {environment.directory.relative_to(ROOT)}: {what}", flush=True)


def _remember(environment: Environment, said: bytes) -> None:
    """Keep the last line that names an error, without addresses and paths, which are this machine's own business."""
    if environment not in PEERS:
        return
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    last = (errors or lines or ["no output"])[-1]
    last = re.sub(r"\w+://\S+", "(an address)", last)
    last = re.sub(r"(?<![\w.])/[\w.-]+/\S*", "(a path)", last)
    environment.reason.write_text(" ".join(last.split())[:200] + "\n")


def _quietly(command: Sequence[str], lock: int) -> "subprocess.CompletedProcess[bytes]":
    """Run a command from the root; show its output only when it fails."""
    # The child shares the lock, so that nobody starts while an orphaned child is still at work.
    done = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(lock,),
    )
    if done.returncode:
        sys.stderr.write(done.stdout.decode(errors="replace"))
        print(f"failed: {' '.join(command)}", file=sys.stderr)
    return done


@contextmanager
def _lock() -> Generator[int]:
    # Directories can be locked too, so no file is left behind.
    handle = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("interrupted; the next run starts afresh", file=sys.stderr)
        sys.exit(130)
