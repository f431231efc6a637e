"""`openskills artifacts`: list and download the artifacts of sessions."""

from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import Column, escape_line, say_json, show_table, warn
from openskills.cli.parameters import Json, Text, argument, option
from openskills.cli.sessions import Name, OwnerOptions
from openskills.errors import InvalidArgument
from openskills.settings import Settings
from openskills.sync import run

if TYPE_CHECKING:
    from openskills.artifacts.store import Artifact


Store = Annotated[
    Text,
    option(
        "URL",
        "The artifact store: file:///DIRECTORY, s3://BUCKET/PREFIX?endpoint=URL&region=NAME",
        show_default="files in the state directory",
    ),
]

app = typer.Typer(no_args_is_help=True, help="List and download the artifacts of conversations.")


@app.command("list")
def list_artifacts(
    settings: Settings,
    session: Name,
    owner: OwnerOptions,
    store: Store = None,
    versions: Annotated[bool, typer.Option("--versions", help="List every version, not only the latest.")] = False,
    as_json: Json = False,
) -> None:
    """List the artifacts of a conversation, or of `openskills run --session`.

    Examples:
      openskills artifacts list chat-20260131-120000-3f2a
      openskills artifacts list mine --versions --json
      openskills artifacts list mine --store "s3://bucket/prefix" --user u1

    In a pipe each artifact is one line of tab-separated fields: reference, bytes, MIME type, time (UTC), SHA-256.
    """
    from openskills.artifacts.open import open_artifact_store
    from openskills.cli.chat.commands import find_artifacts

    artifacts = open_artifact_store(store, settings)
    found = run(find_artifacts(artifacts, owner.scope(session), versions=versions))
    show_table(
        (Column("artifact", "bold cyan", wide=True), "bytes", "type", "saved"),
        [(one.ref, one.size, one.mime_type, one.created_at, (None, one.sha256)) for one in found],
        empty=f"no artifacts in session {escape_line(session)}",
        json=as_json and {"artifacts": [artifact_json(one) for one in found]},
    )


@app.command("get")
def get(
    settings: Settings,
    session: Name,
    artifact: Annotated[str, argument("REF", "artifact://NAME@VERSION; artifact:// and @VERSION are optional.")],
    owner: OwnerOptions,
    store: Store = None,
    to: Annotated[Text, option("FILE", "The target: a file, a directory, or - for stdout.")] = None,
    as_json: Json = False,
) -> None:
    """Download an artifact. Without --to it goes to stdout.

    Examples:
      openskills artifacts get mine artifact://out/report.md@0
      openskills artifacts get mine out/chart.png --to .
      openskills artifacts get mine out/table.csv | head

    Exit codes: 0 done, 1 the file could not be written, 2 wrong usage or no such artifact.
    """
    from openskills.artifacts.open import open_artifact_store
    from openskills.cli.chat.commands import fetch_artifact

    if as_json and to in (None, "-"):
        raise InvalidArgument("--json", "cannot be combined with output to stdout; choose a file with --to")
    artifacts = open_artifact_store(store, settings)
    target = None if to == "-" else to
    found, path = run(fetch_artifact(artifacts, owner.scope(session), artifact, target, bare=to is None))
    if as_json:
        say_json({**artifact_json(found), "path": path})
    elif path:
        warn(f"{escape_line(found.ref)}: {found.size:,} bytes in {escape_line(path)}")


def artifact_json(artifact: "Artifact") -> dict[str, object]:
    """An artifact as JSON."""
    return {
        "ref": artifact.ref,
        "name": artifact.name,
        "version": artifact.version,
        "size_bytes": artifact.size,
        "mime_type": artifact.mime_type,
        "sha256": artifact.sha256,
        "created_at": artifact.created_at.isoformat(),
    }
