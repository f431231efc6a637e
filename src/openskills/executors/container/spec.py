"""Options of containers, and the engine request that creates one with its full isolation. Pure."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument
from openskills.executors.spec import GIB, MIB, SKILLS

ROOT: Final = "/workspace"
HOME: Final = "/home/user"
PRIVATE: Final = "/run/openskills"
DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAM: Final = "container_supervisor.py"
ETC: Final = ("passwd", "group", "resolv.conf")
"""Files of the private directory that are mounted over those of the image."""

WORKSPACE_LABEL: Final = "openskills.workspace"
HOST_LABEL: Final = "openskills.host"

_TMP = "/tmp"  # noqa: S108 - inside the container
SHUT_IN: Final[Mapping[str, Any]] = {
    "Privileged": False,
    "IpcMode": "private",
    "ReadonlyRootfs": True,
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges"],
    "ShmSize": 16 * MIB,
    # Output is read while it runs; logging it would fill the engine's disk.
    "LogConfig": {"Type": "none", "Config": {}},
}
"""What every container has in its `HostConfig`."""
_ULIMITS = {"core": 0, "nofile": 4096}
_MIN_MEMORY = 32 * MIB
_MIN_PIDS = 16
_PERIOD = 1_000_000_000


@check_arguments
@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """The configuration of containers; all limits apply to one container, and so to one session.

    `engine` is the URL of a Docker-compatible engine on this machine (`unix:///run/docker.sock`); None is the default
    socket. `image` must have python3 (3.9 or newer) and bash, and is never pulled. `tmp_bytes` and `home_bytes` are
    memory. `runtime` is a runtime of the engine that runs containers on this kernel.
    """

    image: str = "python:3.13-slim"
    engine: str | None = None
    memory_bytes: int = 2 * GIB
    cpus: float = 1.0
    pids: int = 512
    tmp_bytes: int = 64 * MIB
    home_bytes: int = 32 * MIB
    runtime: str | None = None

    def __post_init__(self) -> None:
        if not self.image.strip():
            raise InvalidArgument("image", "must not be empty; use an image with python3 and bash")
        minimums = {"memory_bytes": _MIN_MEMORY, "pids": _MIN_PIDS, "tmp_bytes": 1, "home_bytes": 1}
        for name, minimum in minimums.items():
            value = getattr(self, name)
            if value < minimum:
                raise InvalidArgument(name, f"{value} is too small; the minimum is {minimum:,}")
        if not self.cpus > 0:
            raise InvalidArgument("cpus", f"{self.cpus:g} is not positive; use a number such as 0.5 or 2")


@dataclass(frozen=True, slots=True)
class ContainerImage:
    """An image of the engine: its id, `PATH` and volumes."""

    id: str
    path: str = DEFAULT_PATH
    volumes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerSession:
    """One workspace of a container: paths on this machine, the user of its commands, their skill and packages."""

    tree: str
    private: str
    uid: int
    gid: int
    skill: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    packages: tuple[str, ...] = ()


def build_create_request(options: ContainerOptions, image: ContainerImage, session: ContainerSession) -> dict[str, Any]:
    """The body of the engine's request that creates the container."""
    return {
        "Image": image.id,
        "Entrypoint": ["python3", "-I", "-S", f"{PRIVATE}/{PROGRAM}", PRIVATE],
        "Cmd": [],
        "User": f"{session.uid}:{session.gid}",
        "Hostname": "sandbox",
        "WorkingDir": "/",
        "Env": [f"PATH={image.path}"],
        "Labels": dict(session.labels),
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGKILL",
        "NetworkDisabled": True,
        "HostConfig": _build_host_config(options, image, session),
    }


def _build_host_config(options: ContainerOptions, image: ContainerImage, session: ContainerSession) -> dict[str, Any]:
    return {
        "AutoRemove": True,
        "Init": False,
        **SHUT_IN,
        "NetworkMode": "none",
        "CgroupnsMode": "private",
        "Memory": options.memory_bytes,
        "MemorySwap": options.memory_bytes,
        "PidsLimit": options.pids,
        "NanoCpus": round(options.cpus * _PERIOD),
        # More are set for each command; an engine cannot exceed its own limits.
        "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in _ULIMITS.items()],
        # World-writable: there is one user inside, and not every engine can set an owner.
        "Tmpfs": {
            path: f"rw,exec,nosuid,nodev,size={size},mode=1777"
            for path, size in ((_TMP, options.tmp_bytes), (HOME, options.home_bytes))
        },
        "Mounts": [*_build_binds(session), *_hide_volumes(image.volumes)],
        **({"Runtime": options.runtime} if options.runtime else {}),
    }


def _build_binds(session: ContainerSession) -> Sequence[Mapping[str, Any]]:
    skills, own = f"{session.tree}/{SKILLS}", session.skill
    return [
        build_bind(session.tree, ROOT, read_only=False),
        # Mounted over the same directory of the writable mount above.
        build_bind(skills, f"{ROOT}/{SKILLS}", read_only=True),
        *([build_bind(f"{skills}/{own}", f"{ROOT}/{SKILLS}/{own}", read_only=False)] if own is not None else []),
        build_bind(session.private, PRIVATE, read_only=True),
        *(build_bind(path, path, read_only=True) for path in session.packages),
        *(build_bind(f"{session.private}/{name}", f"/etc/{name}", read_only=True) for name in ETC),
    ]


def build_bind(source: str, target: str, *, read_only: bool) -> Mapping[str, Any]:
    # Such a mount fails if the source is missing; the older "Binds" would create it.
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "ReadOnly": read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }


def _hide_volumes(volumes: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    # Otherwise an image's volume would be a writable directory on the engine's disk, without a limit.
    ours = (ROOT, HOME, PRIVATE, _TMP)
    return [
        {"Type": "tmpfs", "Target": path, "ReadOnly": True, "TmpfsOptions": {"SizeBytes": MIB}}
        for path in sorted({posixpath.normpath(path) for path in volumes}.difference(ours))
    ]


def build_etc_files(uid: int, gid: int) -> Mapping[str, str]:
    """The files mounted over those of the image: the user gets a name, and the host's name servers are hidden."""
    return {
        "passwd": f"root:x:0:0:root:/root:/bin/sh\nuser:x:{uid}:{gid}:user:{HOME}:/bin/bash\n",
        "group": f"root:x:0:\nuser:x:{gid}:\n",
        "resolv.conf": "",
    }
