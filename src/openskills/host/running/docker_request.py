"""The request that makes the container of one call. Pure.

Everything that keeps a skill in is in it: another user than root, no network, a root that cannot be written to, no
capability, limits. The manifest may name another user, and `network: true` where a skill has to have one.
"""

from collections.abc import Mapping
from typing import Any, Final

from openskills.executors.container.spec import HOST_LABEL
from openskills.host.registration import Registration
from openskills.host.running.command_input import arguments
from openskills.host.running.manifest_fault import ManifestFault

DATA: Final = "/data"
"""Where a container sees the `allowed_root` of its skill."""
_TMP, _HOME = "/tmp", "/home/skill"  # noqa: S108 - inside the container
_NOBODY = "65534:65534"
_MIB = 1024 * 1024
_PERIOD = 1_000_000_000
_ROOT_USERS = ("0", "root")


def container_request(registration: Registration, env: Mapping[str, str], mark: str) -> dict[str, Any]:
    """The body of the request; `mark` says which host made it. Raises `ManifestFault` for what cannot be asked."""
    network = bool(registration.options.get("network", False))
    return {
        "Image": registration.entry,
        "Cmd": list(arguments(registration)) or None,
        "User": _user(registration),
        "Hostname": "skill",
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": {HOST_LABEL: mark, "openskills.skill": registration.id},
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGKILL",
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "NetworkDisabled": not network,
        "HostConfig": _host_config(registration, network=network),
    }


def _host_config(registration: Registration, *, network: bool) -> dict[str, Any]:
    limits = registration.limits
    memory = {} if limits.memory_bytes is None else {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes}
    ulimits = {"core": 0, "fsize": limits.file_bytes, "cpu": limits.cpu_seconds}
    return {
        "Init": True,
        "Privileged": False,
        "NetworkMode": "bridge" if network else "none",
        "IpcMode": "private",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        **memory,
        "PidsLimit": limits.processes or -1,
        "NanoCpus": _PERIOD,
        "ShmSize": 16 * _MIB,
        "Ulimits": [{"Name": n, "Soft": v, "Hard": v} for n, v in ulimits.items() if v is not None],
        # What it prints is read while it runs, and would fill the engine's disk.
        "LogConfig": {"Type": "none", "Config": {}},
        "Tmpfs": dict.fromkeys((_TMP, _HOME), f"rw,nosuid,nodev,size={64 * _MIB},mode=1777"),
        "Mounts": _mounts(registration),
    }


def _mounts(registration: Registration) -> list[dict[str, Any]]:
    if registration.allowed_root is None:
        return []
    return [
        {
            "Type": "bind",
            "Source": str(registration.allowed_root),
            "Target": DATA,
            "ReadOnly": not registration.writable,
            "BindOptions": {"Propagation": "rprivate"},
        }
    ]


def container_environment(registration: Registration, per_call: Mapping[str, str]) -> dict[str, str]:
    """The variables of a call; PATH is the image's own."""
    root = {} if registration.allowed_root is None else {"OPENSKILL_ALLOWED_ROOT": DATA}
    return {
        "HOME": _HOME,
        "LANG": "C.UTF-8",
        **registration.environment,
        "OPENSKILL_SKILL_ID": registration.id,
        "OPENSKILL_TIMEOUT_MS": str(registration.timeout_ms),
        **root,
        **per_call,
    }


def _user(registration: Registration) -> str:
    user = str(registration.options.get("user", _NOBODY))
    if user.partition(":")[0] in _ROOT_USERS:
        raise ManifestFault("user", "a skill does not run as root; name another user of the image")
    return user
