"""Which file a command would run, asked where it would run."""

from dataclasses import replace

from openskills.executors.protocol import Workspace
from openskills.executors.rules.words import words
from openskills.executors.spec import Command, Ending, Limits

_ASK = """f=$(type -P -- "$1") || exit 1; case $f in /*) ;; *) f=$PWD/$f ;; esac; printf %s "$f" """
_LIMITS = Limits(timeout=10.0, output_bytes=8192)


async def resolved(workspace: Workspace, wanted: str | tuple[str, ...], command: Command) -> str | None:
    """The file, as an absolute path that commands see; None when there is none.

    Asked in the command's own directory and environment, because only there `PATH` means what it will mean.
    """
    found = words(wanted) if isinstance(wanted, str) else wanted
    if not found:
        return None
    asking = replace(command, argv=("bash", "-c", _ASK, "bash", found[0]), stdin=b"", terminal=None, secrets={})
    process = await workspace.start(replace(asking, limits=_LIMITS, network=()))
    ended = await process.wait()
    if ended.exit_code != 0 or ended.ending is not Ending.EXITED or ended.stdout.cut:
        return None
    return ended.stdout.bytes().decode("utf-8", "surrogateescape") or None
