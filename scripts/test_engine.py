"""A container engine of its own for tests: `test_engine.py DIRECTORY` runs it for as long as somebody needs it.

It keeps its images below DIRECTORY (a cache, outside the repository) and everything else in a temporary directory. Its
processes and mounts live in namespaces of their own, so that nothing of it can outlive this program. The image is made
from Debian packages of the mirror that this machine's apt uses; nothing is pulled.

    DIRECTORY/users    held with a shared lock by everybody who needs the engine; when nobody does, the engine ends
    DIRECTORY/ready    JSON with `address`, `image` and the `pid` of this program, while it runs
    DIRECTORY/scratch  names its temporary directory
    DIRECTORY/log      what went wrong
"""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, cast

import docker
from docker import errors

PACKAGES = ("python3",)
UNNEEDED = ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists", "boot", "media")
REPOSITORY = "openskills-tests"
STARTS_WITHIN = 60
ENDS_WITHIN = 30

# When this program dies, so does the first process of the namespace, and with it all others.
APART = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
# The engine writes to /run and /etc whatever it is told, so it gets its own; $1 is its temporary directory. The shell
# is the first process of the namespace: it waits for the engine, and buries what the engine's helpers leave behind.
SET_UP = """
set -e
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir "$1/etc"
mount -t tmpfs tmpfs "$1/etc"
mkdir "$1/etc/upper" "$1/etc/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$1/etc/upper,workdir=$1/etc/work" overlay /etc
shift
"$@" &
engine=$!
trap 'kill -TERM $engine' TERM
while kill -0 $engine 2>/dev/null; do wait $engine || :; done
"""


class Api(Protocol):
    """What is used of `docker.APIClient`."""

    def inspect_image(self, image: str) -> Mapping[str, Any]: ...
    def import_image_from_file(self, filename: str, *, repository: str, tag: str) -> str: ...
    def close(self) -> None: ...


def main(directory: Path) -> int:
    """Run the engine until nobody holds the lock `users`, or until SIGTERM; the exit code."""
    signal.signal(signal.SIGTERM, _stop)
    ready = directory / "ready"
    _tidy(directory)
    with tempfile.TemporaryDirectory(prefix="ose-") as scratch, (directory / "users").open("a") as users:
        (directory / "scratch").write_text(scratch)
        engine = Engine(directory, Path(scratch))
        try:
            image = engine.image()
            _replace(ready, json.dumps({"address": engine.address, "image": image, "pid": os.getpid()}))
            # Whoever comes now waits until the engine has ended, and starts another.
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            ready.unlink(missing_ok=True)
            engine.end()
    return 0


class Engine:
    """A running engine."""

    def __init__(self, directory: Path, scratch: Path) -> None:
        self.address = f"unix://{scratch}/engine.sock"
        self._scratch = scratch
        self._group = f"openskills-tests-{os.getpid()}"
        (scratch / "daemon.json").write_text("{}")
        # For users of the group that may use the engine; what is in it is closed to all others.
        scratch.chmod(0o711)
        with (directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*APART, "sh", "-c", SET_UP, "sh", str(scratch), *self._command(directory, scratch)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._api = self._connect()

    def image(self) -> str:
        """The name of the image, made when there is none."""
        tag = hashlib.sha256(repr((PACKAGES, UNNEEDED, _suite())).encode()).hexdigest()[:12]
        name = f"{REPOSITORY}:{tag}"
        try:
            self._api.inspect_image(name)
        except errors.ImageNotFound:
            archive = make_image(self._scratch)
            self._api.import_image_from_file(str(archive), repository=REPOSITORY, tag=tag)
            archive.unlink()
        return name

    def end(self) -> None:
        """Ask it to end, and see to it that it does."""
        self._api.close()
        for pid in _children(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        try:
            self._process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for place in Path("/sys/fs/cgroup").glob(f"**/{self._group}"):
            with suppress(OSError):
                place.rmdir()

    def _command(self, directory: Path, scratch: Path) -> Sequence[str]:
        return [
            *("dockerd", "--host", self.address, "--config-file", f"{scratch}/daemon.json"),
            *("--data-root", f"{directory}/data", "--exec-root", f"{scratch}/exec", "--pidfile", f"{scratch}/pid"),
            *("--bridge", "none", "--iptables=false", "--ip6tables=false", "--cgroup-parent", f"/{self._group}"),
            *("--log-level", "warn"),
        ]

    def _connect(self) -> Api:
        deadline = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                return cast("Api", docker.APIClient(base_url=self.address, version="auto", timeout=600))
            except errors.DockerException:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._process.kill()
                    raise
                time.sleep(0.05)


def make_image(scratch: Path) -> Path:
    """A small Debian with Python, as a tar archive."""
    root, archive = scratch / "root", scratch / "image.tar"
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", **_proxies()}
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", _suite(), str(root), _mirror()]
    # It mounts things, and must not leave them either.
    subprocess.run([*APART, *command], env=environment, stdin=subprocess.DEVNULL, check=True)
    for name in UNNEEDED:
        shutil.rmtree(root / name, ignore_errors=True)
    subprocess.run(["tar", "--create", "--file", str(archive), "--directory", str(root), "."], check=True)
    shutil.rmtree(root)
    return archive


def _tidy(directory: Path) -> None:
    """Remove what is left of an engine whose program was killed."""
    (directory / "ready").unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        shutil.rmtree((directory / "scratch").read_text(), ignore_errors=True)


def _stop(_number: int, _frame: object) -> None:
    raise SystemExit(0)


def _suite() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    raise LookupError("unknown release of Debian: it has no code name")


def _mirror() -> str:
    """Where apt of this machine gets the packages of this release from."""
    form = "$(REPO_URI) $(RELEASE) $(CODENAME) $(COMPONENT)"
    listing = _said("apt-get", "indextargets", "--format", form, "Created-By: Packages")
    for line in listing.splitlines():
        address, *suites, component = line.split()
        if _suite() in suites and component == "main":
            return address
    raise LookupError(f"apt has no source of packages for {_suite()}")


def _proxies() -> Mapping[str, str]:
    wanted = {"http_proxy": "Acquire::http::Proxy", "https_proxy": "Acquire::https::Proxy"}
    configured = {name: _said("apt-config", "shell", "proxy", key) for name, key in wanted.items()}
    found = {name: line.strip().removeprefix("proxy=").strip("'") for name, line in configured.items() if line.strip()}
    inherited = {name: value for name, value in os.environ.items() if name.lower() in {*wanted, "no_proxy"}}
    return {**inherited, **found}


def _said(*command: str) -> str:
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout


def _children(pid: int) -> Sequence[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _replace(path: Path, text: str) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.write_text(text)
    unfinished.rename(path)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
