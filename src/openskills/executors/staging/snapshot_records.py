"""What is remembered about folders that snapshots were taken of, so that they need not be read again."""

import hashlib
import json
import os
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from openskills.executors.staging.survey import Item, Kind
from openskills.files import replace_file

_VERSION = 2


@dataclass(frozen=True, slots=True)
class Record:
    """A folder as it was surveyed, and the snapshot that was taken then.

    `settled` is false when something in it had been changed so recently that a later change could look the same.
    """

    items: list[Item]
    digest: str
    files: int
    size: int
    settled: bool


class Records:
    """Records in a directory, one file per folder. What is damaged or of another version is not there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, folder: str) -> Record | None:
        """The record of a folder, if there is one."""
        try:
            data = self._path(folder).read_bytes()
        except FileNotFoundError:
            return None
        return _parsed(data, folder)

    def put(self, folder: str, record: Record) -> None:
        """Remember a folder; the last one who does wins."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        items = [[item.path, item.kind, list(item.stamp), item.why, item.target] for item in record.items]
        value = {
            "version": _VERSION,
            "folder": folder,
            "digest": record.digest,
            "files": record.files,
            "size": record.size,
            "settled": record.settled,
            "items": items,
        }
        replace_file(self._path(folder), json.dumps(value).encode("ascii"))

    def forget_all_but(self, digests: Set[str]) -> None:
        """Remove the records of snapshots that are not there any more."""
        with suppress(FileNotFoundError):
            for path in self._directory.glob("*.json"):
                with suppress(FileNotFoundError):
                    record = _parsed(path.read_bytes(), None)
                    if record is None or record.digest not in digests:
                        path.unlink()

    def _path(self, folder: str) -> Path:
        return self._directory / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]}.json"


def _parsed(data: bytes, folder: str | None) -> Record | None:
    try:
        value = json.loads(data)
        if value["version"] != _VERSION or folder not in (None, value["folder"]):
            return None
        items = [
            Item(str(path), Kind(kind), tuple(map(int, stamp)), str(why), str(target))
            for path, kind, stamp, why, target in value["items"]
        ]
        numbers = int(value["files"]), int(value["size"])
        return Record(items, str(value["digest"]), *numbers, bool(value["settled"]))
    except (ValueError, TypeError, KeyError):
        return None
