"""`list_files`: which files there are, with their sizes."""

from typing import Any

from pydantic import AliasChoices, Field

from openskills.errors import InvalidArgument
from openskills.paths import printable
from openskills.tools.finding import Entry, Found, find
from openskills.tools.result import ToolResult
from openskills.tools.tool import Arguments, Tool, ToolContext

FEW, MOST = 200, 1_000
_SKIPPED = 10


class ListFilesArguments(Arguments):
    """What `list_files` takes."""

    glob: str | None = Field(
        default=None,
        validation_alias=AliasChoices("glob", "pattern", "path"),
        description="Pattern or directory such as out/**/*.csv; skill://name for the files of a skill, artifact:// for "
        "artifacts; left out: the whole workspace without its skills",
    )
    limit: int | None = Field(default=None, description=f"At most so many files, {FEW} unless given, {MOST:,} at most")


async def list_files(context: ToolContext, arguments: ListFilesArguments) -> ToolResult:
    """List files, sorted by path, one on each line with its size in bytes."""
    if arguments.limit is not None and arguments.limit < 0:
        raise InvalidArgument("limit", f"{arguments.limit} is negative")
    found = await find(context, arguments.glob, limit=min(arguments.limit or FEW, MOST))
    data: dict[str, Any] = {
        "files": [_about(entry) for entry in found.entries],
        "truncated": not found.complete,
    }
    if found.skipped:
        data["skipped"] = list(found.skipped)
    return ToolResult(_told(found, arguments.glob), data)


def _about(entry: Entry) -> dict[str, Any]:
    return {"path": entry.file.shown, "ref": entry.file.ref, "size_bytes": entry.size}


def _told(found: Found, glob: str | None) -> str:
    lines = [f"{printable(entry.file.shown)}\t{entry.size}" for entry in found.entries]
    if not lines:
        lines.append(f"[no files match {glob[:200]!r}]" if glob else "[the workspace has no files yet]")
    if not found.complete:
        lines.append(f"[only the first {len(found.entries):,} files; narrow the pattern to see others]")
    lines += [f"[{skipped}; left out]" for skipped in found.skipped[:_SKIPPED]]
    if len(found.skipped) > _SKIPPED:
        lines.append(f"[{len(found.skipped) - _SKIPPED} more are left out]")
    return "\n".join(lines)


LIST_FILES = Tool(
    "list_files",
    "List files with their sizes in bytes: of the workspace, of a skill, or artifacts. What is listed can be given to "
    "read_file.",
    ListFilesArguments,
    list_files,
)
