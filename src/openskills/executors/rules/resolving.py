"""Which file a command would run, asked where it would run."""

from collections.abc import Sequence
from dataclasses import replace

from openskills.executors.protocol import Workspace
from openskills.executors.rules.policy import Program
from openskills.executors.rules.words import words
from openskills.executors.spec import Command, Ending, Limits

# Answers with NUL-terminated fields: the file, the file behind all links, those of the other arguments that are the
# same file, an empty one; then, of a file in the workspace, how it begins. Nothing of the workspace has a part in the
# answer: neither the shell nor the two programs are looked for where commands can write.
_ASK = r"""
set -f; IFS=:; own=; found=
for place in $PATH; do
  case $place in "$WORKSPACE_DIR"/*) ;; *) own=$own:$place ;; esac
done
real() { real=$(PATH=${own#:} readlink -fn "$1" && echo x) && real=${real%x}; }
real "$WORKSPACE_DIR" && root=$real || exit 1
case $1 in
*/*) found=$1 ;;
*) for place in $PATH; do [ -f "$place/$1" ] && [ -x "$place/$1" ] && { found=$place/$1; break; }; done ;;
esac
[ -f "$found" ] && [ -x "$found" ] || exit 1
case $found in /*) ;; *) found=$PWD/$found ;; esac
case $found in "$root"/*) found=$WORKSPACE_DIR${found#"$root"} ;; esac
real "$found" || exit 1
case $real in "$root"/*) real=$WORKSPACE_DIR${real#"$root"} ;; esac
printf '%s\0%s\0' "$found" "$real"
shift
for entry in "$@"; do
  case $entry in
  */*) [ "$found" -ef "$entry" ] && printf '%s\0' "$entry" ;;
  *) for place in $PATH; do [ "$found" -ef "$place/$entry" ] && { printf '%s\0' "$entry"; break; }; done ;;
  esac
done
printf '\0'
case $real in "$WORKSPACE_DIR"/*) PATH=${own#:} head -c 256 "$found" ;; esac
"""
_LIMITS = Limits(timeout=10.0, output_bytes=64 * 1024)
_DEEPEST = 5
"""So many interpreters of interpreters are more than a kernel follows."""


async def resolved(workspace: Workspace, wanted: str | tuple[str, ...], command: Command) -> str | None:
    """The file, as an absolute path that commands see; None when there is none."""
    found = await program(workspace, wanted, command)
    return None if found is None else found.file


async def program(
    workspace: Workspace, wanted: str | tuple[str, ...], command: Command, others: Sequence[str] = ()
) -> Program | None:
    """The file that would be run, what it is, and which of `others` (names and absolute paths) are the same file.

    Asked in the command's own directory, because only there `PATH` means what it will mean.
    """
    found = words(wanted) if isinstance(wanted, str) else wanted
    if not found or not found[0]:
        return None
    bare = replace(command, env={}, secrets={}, stdin=b"", input_open=False, terminal=None, network=(), warm=None)
    return await _looked_up(workspace, replace(bare, limits=_LIMITS), found[0], tuple(others), _DEEPEST)


async def _looked_up(
    workspace: Workspace, command: Command, name: str, others: tuple[str, ...], deeper: int
) -> Program | None:
    process = await workspace.start(replace(command, argv=("/bin/sh", "-c", _ASK, "sh", name, *others)))
    ended = await process.wait()
    if ended.exit_code != 0 or ended.ending is not Ending.EXITED or ended.stdout.cut:
        return None
    said, _, head = ended.stdout.bytes().partition(b"\0\0")
    file, real, *same = (field.decode("utf-8", "surrogateescape") for field in said.split(b"\0"))
    run_by: list[Program] = []
    for interpreter in interpreters(head) if deeper else ():
        found = await _looked_up(workspace, command, interpreter, others, deeper - 1)
        if found is not None:
            run_by += [found, *found.run_by]
    return Program(file, real, tuple(same), tuple(run_by))


def interpreters(head: bytes) -> tuple[str, ...]:
    """What a file's first line has it run by: the one of `#!/bin/sh`, and `python3` of `#!/usr/bin/env python3`."""
    line = head.split(b"\n", 1)[0]
    if not line.startswith(b"#!"):
        return ()
    first, *rest = line[2:].decode("utf-8", "surrogateescape").split(maxsplit=1) or [""]
    if not first:
        return ()
    if first.rsplit("/", 1)[-1] != "env" or not rest:
        return (first,)
    named = rest[0].split()
    # With options, env may run anything; it stands for itself then.
    return (named[0],) if len(named) == 1 and named[0][0] != "-" and "=" not in named[0] else (first,)
