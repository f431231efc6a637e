"""A host that takes uploads, with real runners, and skills to upload."""

import io
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openskills.host.parts import HostOptions
from openskills.host.runners.table import Runners
from tests.host.hosting import Served, key_in, served, settings_in

GREET = """\
import json, sys
name = json.load(sys.stdin)["input"]["name"]
print(json.dumps({"success": True, "data": {"greeting": f"WORD {name}"}}))
"""
WRITER = ("*", "skills:write")
PUBLISHER = ("*", "skills:publish")


def skill_files(name: str = "greeter", word: str = "Hello", description: str = "") -> dict[str, bytes]:
    """A skill that a host can invoke, by path."""
    about = description or f"Says {word} to people. Use when somebody wants to be greeted."
    return {
        "SKILL.md": f"---\nname: {name}\ndescription: {about}\n---\n\n# Greeter\n\nSay {word}.\n".encode(),
        "scripts/invoke.py": GREET.replace("WORD", word).encode(),
    }


def parts_of(files: Mapping[str, bytes], folder: str = "greeter") -> list[tuple[str, bytes]]:
    """The files as the SDKs take them."""
    return [(f"{folder}/{path}" if folder else path, data) for path, data in files.items()]


def zip_of(files: Mapping[str, bytes], folder: str = "greeter") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(f"{folder}/{path}" if folder else path, data)
    return made.getvalue()


@contextmanager
def uploading_host(directory: Path, *, options: HostOptions | None = None, **changes: Any) -> Generator[Served]:
    """A host with real runners. Skills run as plain processes, so that tests are quick."""
    table: Any = Runners(settings_in(directory, executor="local", allow_local=True))
    with served(directory, {}, options=options, table=table, executor="local", allow_local=True, **changes) as host:
        yield host


def form_of(files: Mapping[str, bytes], folder: str = "greeter") -> list[tuple[str, tuple[str, bytes]]]:
    """The files as `httpx2` takes them."""
    return [("files[]", (name, data)) for name, data in parts_of(files, folder)]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


__all__ = ["PUBLISHER", "WRITER", "bearer", "form_of", "key_in", "parts_of", "skill_files", "uploading_host", "zip_of"]
