"""Artifacts: named, versioned bytes, such as the saved output files of runs."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.artifacts.files import FileArtifactStore, SweepResult
    from openskills.artifacts.memory import MemoryArtifactStore
    from openskills.artifacts.objects import DirectoryObjectStore, ObjectInfo, ObjectStore, S3ObjectStore
    from openskills.artifacts.open import open_artifact_store, open_object_store
    from openskills.artifacts.s3 import S3ArtifactStore
    from openskills.artifacts.store import (
        BINARY,
        Artifact,
        ArtifactReader,
        ArtifactRef,
        ArtifactStore,
        Scope,
        check_mime_type,
        check_version,
        normalize_name,
        parse_ref,
        read_artifact,
        select_version,
        split_content,
    )

__all__ = [
    "BINARY",
    "Artifact",
    "ArtifactReader",
    "ArtifactRef",
    "ArtifactStore",
    "DirectoryObjectStore",
    "FileArtifactStore",
    "MemoryArtifactStore",
    "ObjectInfo",
    "ObjectStore",
    "S3ArtifactStore",
    "S3ObjectStore",
    "Scope",
    "SweepResult",
    "check_mime_type",
    "check_version",
    "normalize_name",
    "open_artifact_store",
    "open_object_store",
    "parse_ref",
    "read_artifact",
    "select_version",
    "split_content",
]

_MODULES = {
    "files": ("FileArtifactStore", "SweepResult"),
    "memory": ("MemoryArtifactStore",),
    "objects": ("DirectoryObjectStore", "ObjectInfo", "ObjectStore", "S3ObjectStore"),
    "open": ("open_artifact_store", "open_object_store"),
    "s3": ("S3ArtifactStore",),
    "store": (
        "Artifact",
        "ArtifactReader",
        "ArtifactRef",
        "ArtifactStore",
        "BINARY",
        "Scope",
        "check_mime_type",
        "check_version",
        "normalize_name",
        "parse_ref",
        "read_artifact",
        "select_version",
        "split_content",
    ),
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, {name: home for home, names in _MODULES.items() for name in names})
