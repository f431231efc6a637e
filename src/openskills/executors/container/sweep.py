"""Containers whose host process is gone: who made one is written on it, and can be looked up."""

import os
from dataclasses import dataclass
from pathlib import Path

from openskills.executors.container.engine import Engine
from openskills.executors.container.spec import HOST_LABEL

_STATE, _STARTED = 0, 19
"""Places among the fields of /proc/PID/stat that follow the name."""


@dataclass(frozen=True, slots=True)
class HostMark:
    """A process that makes containers: its id, when it was started, and in which boot and pid namespace it lives."""

    pid: int
    started: int
    boot: str
    namespace: str

    @classmethod
    def ours(cls) -> "HostMark":
        """The mark of this process."""
        pid = os.getpid()
        return cls(pid, _started(pid) or 0, *_surroundings())

    @classmethod
    def parse(cls, text: str) -> "HostMark | None":
        """The mark in a label; None when that is something else."""
        words = text.split(" ")
        if len(words) != 4 or not (words[0].isdecimal() and words[1].isdecimal()):
            return None
        return cls(int(words[0]), int(words[1]), words[2], words[3])

    def __str__(self) -> str:
        return f"{self.pid} {self.started} {self.boot} {self.namespace}"

    def is_dead(self) -> bool:
        """Whether that process is gone for sure. One that cannot be seen from here, in another namespace, is not."""
        boot, namespace = _surroundings()
        if self.boot != boot:
            return True
        return self.namespace == namespace and _started(self.pid) != self.started


def sweep(engine: Engine) -> list[str]:
    """Remove the containers whose host is dead; their ids. Blocking.

    They end by themselves when their host dies; what is left is what was made and never started.
    """
    removed: list[str] = []
    for container, labels in engine.labelled(HOST_LABEL):
        mark = HostMark.parse(labels.get(HOST_LABEL, ""))
        if mark is not None and mark.is_dead():
            engine.remove(container)
            removed.append(container)
    return removed


def _surroundings() -> tuple[str, str]:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return boot, os.readlink("/proc/self/ns/pid")


def _started(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program stands in parentheses and may contain anything.
    fields = text[text.rindex(")") + 1 :].split()
    return None if fields[_STATE] in "ZX" else int(fields[_STARTED])
