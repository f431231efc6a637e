"""Programs whose whole purpose is to run another one: who may run them may run everything. Plain names."""

SHELLS = frozenset({"sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "pwsh", "nu"})

WRAPPERS = SHELLS | {
    *("busybox", "toybox", "env", "xargs", "parallel", "nohup", "timeout", "time", "watch", "script", "expect"),
    *("sudo", "su", "doas", "runuser", "pkexec", "setpriv", "capsh", "gosu", "chroot", "unshare", "nsenter", "bwrap"),
    *("nice", "ionice", "chrt", "taskset", "prlimit", "setsid", "setarch", "stdbuf", "unbuffer", "flock", "daemonize"),
    *("strace", "ltrace", "gdb", "valgrind", "perf", "systemd-run", "start-stop-daemon", "ssh", "at", "batch"),
    *("tmux", "screen", "command", "exec", "eval", "builtin", "source", "."),
}


def runs_others(name: str) -> bool:
    """Whether a program of this name (without a directory) runs what its arguments say."""
    folded = name.casefold()
    # The loader runs the program that it is given, wherever that lies.
    return folded in WRAPPERS or folded.startswith(("ld-linux", "ld-musl", "ld.so", "ld64.so"))
