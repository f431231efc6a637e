"""Puts traps where the host reads and writes: `python -m tests.hostile.probes.tricking OUTSIDE HOST_PID`.

Each is meant to lead whoever follows it out of the workspace, to make it wait for ever, or to tell it lies.
"""

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def traps(outside: str, host: str) -> dict[str, Callable[[], object]]:
    """What is put where, below `out/`."""
    return {
        "link": lambda: os.symlink(f"{outside}/secret.txt", "out/link"),
        "climbing": lambda: os.symlink("../" * 40 + f"{outside}/secret.txt", "out/climbing"),
        "directory": lambda: os.symlink(outside, "out/directory"),
        "chain": lambda: (os.symlink("link", "out/chain-2"), os.symlink("chain-2", "out/chain")),
        "root": lambda: os.symlink(f"/proc/self/root{outside}/secret.txt", "out/root"),
        "environ": lambda: os.symlink("/proc/self/environ", "out/environ"),
        "environ-of-host": lambda: os.symlink(f"/proc/{host}/environ", "out/environ-of-host"),
        "arguments": lambda: os.symlink("/proc/self/cmdline", "out/arguments"),
        "loop": lambda: os.symlink("loop", "out/loop"),
        "dangling": lambda: os.symlink(f"{outside}/drop/appears", "out/dangling"),
        "hard": lambda: os.link(f"{outside}/secret.txt", "out/hard"),
        "fifo": lambda: os.mkfifo("out/fifo"),
        "socket": _socket,
        "device": lambda: os.mknod("out/device", 0o20666, os.makedev(1, 5)),
        "closed": lambda: os.chmod(_file("out/closed"), 0),
        "closed-directory": lambda: os.chmod(_directory("out/closed-directory"), 0),
        "long": lambda: _file("out/" + "n" * 255),
        "strange": lambda: _file("out/-rf\n\x1b[2J\u202e*"),
        "not-utf-8": lambda: _file(b"out/\xff\xfe".decode("utf-8", "surrogateescape")),
        "deep": lambda: os.makedirs("out/" + "/".join(["d"] * 400)),
        "huge": lambda: os.truncate(_file("out/huge"), 1 << 29),
        "real": lambda: Path("out/real.txt").write_text("really inside", "ascii"),
    }


def _file(path: str) -> str:
    Path(path).write_text("inside", "ascii")
    return path


def _directory(path: str) -> str:
    os.mkdir(path)
    _file(f"{path}/inner")
    return path


def _socket() -> None:
    with socket.socket(socket.AF_UNIX) as link:
        link.bind("out/socket")


def main(outside: str, host: str) -> None:
    """Set all that can be set, then swap the directories that the host writes to."""
    done: list[str] = []
    for name, put in traps(outside, host).items():
        with suppress(OSError):
            put()
            done.append(name)
    for name in ("work", "runs"):
        with suppress(OSError):
            os.rename(name, f"{name}-old")
            os.symlink(f"{outside}/drop", name)
            done.append(f"swapped {name}")
    sys.stdout.write(",".join(done) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
