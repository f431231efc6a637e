"""Programs whose whole purpose is to run another one: who may run them may run everything. Plain names."""

import re

SHELLS = frozenset(
    {
        *("sh", "bash", "rbash", "dash", "ash", "hush", "zsh", "rzsh", "ksh", "mksh", "lksh", "pdksh", "oksh", "yash"),
        *("posh", "fish", "csh", "tcsh", "pwsh", "nu", "elvish", "xonsh", "osh", "ysh", "static-sh"),
    }
)

MANY = frozenset({"busybox", "toybox", "coreutils", "uutils", "sbase-box", "ubase-box"})
"""Programs that are many in one: which one is decided by the name that they are called by, or by an argument."""

WRAPPERS = SHELLS | {
    *(*MANY, "env", "xargs", "parallel", "sem", "nohup", "timeout", "time", "watch", "script", "expect", "entr"),
    *("sudo", "su", "doas", "runuser", "pkexec", "setpriv", "capsh", "gosu", "su-exec", "run0", "sg", "newgrp"),
    *("chroot", "unshare", "nsenter", "bwrap", "firejail", "proot", "fakeroot", "fakechroot", "systemd-nspawn"),
    *("nice", "ionice", "chrt", "taskset", "numactl", "prlimit", "choom", "setsid", "setarch", "linux32", "linux64"),
    *("i386", "x86_64", "uname26", "stdbuf", "unbuffer", "flock", "daemonize", "cpulimit", "faketime"),
    *("strace", "ltrace", "gdb", "lldb", "valgrind", "perf", "catchsegv", "hyperfine", "chronic", "tini"),
    *("dumb-init", "chpst", "softlimit", "setuidgid", "envdir", "direnv", "rlwrap", "run-parts", "xvfb-run"),
    *("dbus-run-session", "dbus-launch", "ssh-agent", "systemd-run", "start-stop-daemon", "ssh", "sshpass", "at"),
    *("batch", "crontab", "tmux", "screen", "torsocks", "proxychains", "proxychains4", "pipx", "uvx", "npx", "bunx"),
    *("command", "exec", "eval", "builtin", "source", "."),
}

_VERSION = re.compile(r"[-.]?\d[\d.]*$")


def runs_others(name: str) -> bool:
    """Whether a program of this name (without a directory, perhaps with a version) runs what its arguments say."""
    folded = name.casefold()
    # The loader runs the program that it is given, wherever that lies.
    is_loader = folded.startswith(("ld-linux", "ld-musl", "ld.so", "ld64.so"))
    return is_loader or folded in WRAPPERS or _VERSION.sub("", folded) in WRAPPERS


def is_many(name: str) -> bool:
    """Whether a program of this name is many in one."""
    return name.casefold() in MANY
