"""Self-test of an isolating executor: run probes inside and refuse to use it if they find a leak."""

import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.environment import build_environment
from openskills.executors.process import HostProcess
from openskills.executors.protocol import Launcher, WorkspaceDirectory
from openskills.executors.spec import SKILLS, TOP_DIRECTORIES, Command, Limits

_INSIDE = 64
PROGRAM = Path(__file__).parents[1] / "programs" / "probes.py"
_SKILL, _OTHER = "probe", "other"
_NOBODY = 65534
_SECRET = "secret"  # noqa: S105 - the name of a file
_ALLOWED = ("OPENSKILL_RUN", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE")
_LIMITS = Limits(timeout=20.0, processes=64)
_EXCERPT = 300

ExpectedFindings = Mapping[str, tuple[str, ...]]
"""The acceptable findings of each probe."""

PASSED: set[Hashable] = set()
"""The setups that have passed in this process: another executor with the same setup is not tested again."""


def identify_program(path: str) -> tuple[str | int, ...]:
    """A part of a setup: this program, as long as nobody changes its file."""
    try:
        found = os.stat(path)
    except OSError:
        return (path,)
    return path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


@contextmanager
def create_trial_workspace() -> Generator[WorkspaceDirectory]:
    """A workspace for one self-test, with a secret beside it."""
    uid = _NOBODY if os.geteuid() == 0 else None
    # The real path: the temporary directory may be behind a link.
    top = Path(os.path.realpath(tempfile.mkdtemp(prefix="openskills-check-")))
    try:
        top.chmod(0o711)
        place = WorkspaceDirectory("check", top / "check" / "tree", uid)
        for name in TOP_DIRECTORIES:
            (place.tree / name).mkdir(parents=True)
        skill = place.tree / SKILLS / _SKILL
        skill.mkdir(parents=True)
        (place.tree / SKILLS / _OTHER).mkdir()
        shutil.copyfile(PROGRAM, skill / PROGRAM.name)
        (top / _SECRET).write_text("nothing")
        if uid is not None:
            for path in (place.tree, *place.tree.rglob("*")):
                os.chown(path, uid, uid)
        yield place
    finally:
        shutil.rmtree(top, ignore_errors=True)


async def check_isolation(
    launcher: Launcher,
    place: WorkspaceDirectory,
    expected: ExpectedFindings,
    advice: Callable[[str], str],
    name: str,
    *,
    python: str = os.path.realpath(sys.executable),
) -> Mapping[str, Any]:
    """Run the probes and return what they found.

    Raises `ExecutorUnavailable` with unexpected findings, or the reason why the probes did not run. `advice` returns
    the suggested fix for a problem. `python` is the interpreter inside.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        about = _build_probe_input(launcher, place, listener.getsockname()[1])
        output = await _run_probes(launcher, python, about, advice, name)
    try:
        found = cast("dict[str, Any]", json.loads(output))
        wrong = {probe: found.get(probe, "no answer") for probe in expected if found.get(probe) not in expected[probe]}
    except (ValueError, AttributeError, TypeError):
        raise ExecutorUnavailable(f"the self-test of {name} did not complete; nothing is run") from None
    if wrong:
        what = "; ".join(f"{probe}: {finding or 'none'}" for probe, finding in wrong.items())
        raise ExecutorUnavailable(f"{name} does not isolate on this machine ({what}); nothing is run. {advice(what)}")
    return found


def _build_probe_input(launcher: Launcher, place: WorkspaceDirectory, port: int) -> dict[str, object]:
    secret = place.tree.parents[1] / _SECRET
    # A host that is itself the first process of a container has a pid that exists inside, too.
    environ = [f"/proc/{os.getpid()}/environ"] if os.getpid() > _INSIDE else []
    return {
        "host": os.getpid(),
        "port": port,
        "secrets": ["/etc/shadow", "/etc/sudoers", str(secret), *environ],
        "writable": [f"{launcher.root}/work", f"{launcher.root}/out", f"{launcher.root}/{SKILLS}/{_SKILL}"],
        "skills": f"{launcher.root}/{SKILLS}",
        "closed": ["/", "/etc", "/usr", "/dev", f"{launcher.root}/{SKILLS}", f"{launcher.root}/{SKILLS}/{_OTHER}"],
    }


def build_expected_findings(root: str, uid: int) -> dict[str, tuple[str, ...]]:
    """The findings with a correct isolation of processes, files and sockets, in a workspace at `root`."""
    return {
        "uid": (str(uid),),
        "capabilities": ("none",),
        "new privileges": ("1",),
        "system call filter": ("2",),
        "strange variables": ("",),
        "open descriptors": ("",),
        "readable secrets": ("",),
        "kernel settings": ("closed",),
        "loopback of the host": ("ECONNREFUSED",),
        "unix sockets": ("EPERM",),
        "sockets of the hypervisor": ("EPERM",),
        "user namespaces": ("EPERM",),
        "writable places": (f"{root}/work {root}/out {root}/{SKILLS}/{_SKILL}",),
        "places to keep closed": ("",),
        "processes": ("few",),
        "shared memory": ("small",),
    }


async def _run_probes(
    launcher: Launcher, python: str, about: dict[str, object], advice: Callable[[str], str], name: str
) -> str:
    command = Command((python,), skill=_SKILL, cwd=f"{SKILLS}/{_SKILL}", limits=_LIMITS)
    env = build_environment(launcher.root, command, path=launcher.path, home=launcher.home)
    about["variables"] = [*env, *_ALLOWED]
    command = replace(command, argv=(python, "-I", "-S", PROGRAM.name, json.dumps(about)))
    try:
        process = await HostProcess.start(command, lambda stdio: launcher.launch(command, env, stdio))
        ended = await process.wait()
    except (ExecutorUnavailable, InvalidArgument) as error:
        raise ExecutorUnavailable(f"{name} does not work on this machine: {error}. {advice(str(error))}") from None
    if ended.exit_code:
        error = ended.stderr.text().strip()[-_EXCERPT:]
        raise ExecutorUnavailable(
            f"the self-test of {name} failed with exit code {ended.exit_code}; nothing is run: {error}. {advice(error)}"
        )
    return ended.stdout.text()
