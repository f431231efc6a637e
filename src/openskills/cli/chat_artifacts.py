"""Artifacts from a store into files, or to stdout."""

import os
import secrets
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from openskills.artifacts.ref import SCHEME, parse_ref
from openskills.artifacts.store import Artifact, ArtifactStore, Reading, Scope
from openskills.cli.chat_lines import whole
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.files.mime import is_text
from openskills.files import ARRIVING

_MOST_SHOWN = 1024 * 1024


async def listed(store: ArtifactStore, scope: Scope, *, versions: bool) -> Sequence[Artifact]:
    """The artifacts that a session can reach, by name; with `versions` every version of each."""
    latest = await store.list(scope)
    if not versions:
        return latest
    return [one for name in latest for one in await store.versions(scope, name.name)]


async def fetched(
    store: ArtifactStore, scope: Scope, ref: str, to: str | None, *, bare: bool = False
) -> tuple[Artifact, str | None]:
    """Put an artifact into a file, or into a directory under its own name, or on stdout; gives it and the path.

    `bare`: nobody has said that it is to go to stdout, so a terminal gets it only when it is text, made safe.
    """
    wanted = parse_ref(ref if ref.startswith(SCHEME) else f"{SCHEME}{ref}")
    async with store.open(scope, wanted.name, wanted.version) as reading:
        if to is None:
            await _printed(reading, shows=bare and sys.stdout.isatty())
            return reading.artifact, None
        if not to:
            raise InvalidArgument("--to", "is empty; name a file, a directory, or - for stdout")
        path = _target(Path(to).expanduser(), reading.artifact)
        try:
            await _written(path, reading.chunks)
        except OSError as error:
            raise SkillError(f"{path} cannot be written: {error.strerror or error}") from error
        return reading.artifact, str(path)


async def _printed(reading: Reading, *, shows: bool) -> None:
    sys.stdout.flush()
    if shows:
        sys.stdout.write(whole(await _readable(reading)))
    async for chunk in reading.chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.flush()


async def _readable(reading: Reading) -> str:
    """The text of an artifact; raises `InvalidArgument` for what nobody wants on a terminal."""
    artifact, where = reading.artifact, "say with --to in which file to put it, or --to - for stdout"
    if artifact.size > _MOST_SHOWN:
        raise InvalidArgument("--to", f"{artifact.ref} has {artifact.size:,} bytes; {where}")
    data = b"".join([chunk async for chunk in reading.chunks])
    if not is_text(data):
        raise InvalidArgument("--to", f"{artifact.ref} is no text; {where}")
    return data.decode("utf-8")


def _target(path: Path, artifact: Artifact) -> Path:
    return path / os.path.basename(artifact.name) if path.is_dir() else path


async def _written(path: Path, chunks: AsyncIterator[bytes]) -> None:
    """Write a file whole or not at all; what is no regular file, such as a device, is written into."""
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with open(path, "wb") as file:
            async for chunk in chunks:
                file.write(chunk)
        return
    # Where a link leads, so that it stays a link.
    place = Path(os.path.realpath(path))
    arriving = place.with_name(f"{ARRIVING}{secrets.token_hex(8)}")
    try:
        with open(arriving, "xb") as file:
            async for chunk in chunks:
                file.write(chunk)
        os.replace(arriving, place)
    finally:
        arriving.unlink(missing_ok=True)
