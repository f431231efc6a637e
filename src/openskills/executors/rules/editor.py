"""`editor_text`: a command that opens an editor finds its text already written. Pure.

Two files lie in the run's own directory, so that calls at the same time do not share them: `.editor/text`, and
`.editor/write`, which stands where a person's editor would and puts the text into the file it is asked to open. Names
that begin with a dot are not collected by `*`, and both go with the run's directory.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from openskills.errors import InvalidArgument, LimitExceeded

MAX_TEXT = 1024 * 1024
VARIABLES = ("EDITOR", "VISUAL")
DIRECTORY = ".editor"
TEXT, SCRIPT = f"{DIRECTORY}/text", f"{DIRECTORY}/write"
"""Below the directory of the run."""

_SCRIPT = """#!/bin/sh
# Stands where an editor would: puts the given text into the file that is to be edited, which comes last.
if [ "$#" -eq 0 ]; then
    echo 'editor: there is no file to write to' >&2
    exit 2
fi
for target do :; done
exec cat <{text} >"$target"
"""


@dataclass(frozen=True, slots=True)
class Editor:
    """What has to be written into the workspace before the command starts, and what the command is told.

    Paths are relative to the workspace; `script` must be executable.
    """

    text_path: str
    text: bytes
    script_path: str
    script: bytes
    env: Mapping[str, str]


def editor(text: str, *, root: str, run_dir: str, env: Mapping[str, str]) -> Editor:
    """The files and variables that make every editor write `text`, for a workspace that commands see at `root`.

    Raises `InvalidArgument` when `env` says already which editor to use, for NUL bytes and for half characters, and
    `LimitExceeded` above 1 MiB.
    """
    for name in VARIABLES:
        if name in env:
            raise InvalidArgument("editor_text", f"cannot be combined with {name} in env; give one of the two")
    written = f"{root}/{run_dir}/{TEXT}"
    # Programs give the variable to a shell, so a place with blanks or quotes in it has to be quoted once more.
    told = shlex.quote(f"{root}/{run_dir}/{SCRIPT}")
    return Editor(
        text_path=f"{run_dir}/{TEXT}",
        text=_encoded(text),
        script_path=f"{run_dir}/{SCRIPT}",
        script=_SCRIPT.format(text=shlex.quote(written)).encode("utf-8", "surrogateescape"),
        env=dict.fromkeys(VARIABLES, told),
    )


def _encoded(text: str) -> bytes:
    if "\0" in text:
        raise InvalidArgument("editor_text", "contains a NUL byte; an editor's text has none")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("editor_text", "contains half a character (a lone surrogate)") from None
    if len(data) > MAX_TEXT:
        raise LimitExceeded(f"editor_text: {len(data):,} bytes are too many; {MAX_TEXT:,} is the most, use an input")
    return data
