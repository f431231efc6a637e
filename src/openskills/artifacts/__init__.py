"""Artifacts: named, versioned bytes, such as the saved output files of runs."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.artifacts.files import FileArtifactStore as FileArtifactStore
    from openskills.artifacts.files import SweepResult as SweepResult
    from openskills.artifacts.memory import MemoryArtifactStore as MemoryArtifactStore
    from openskills.artifacts.objects import DirectoryObjectStore as DirectoryObjectStore
    from openskills.artifacts.objects import ObjectInfo as ObjectInfo
    from openskills.artifacts.objects import ObjectStore as ObjectStore
    from openskills.artifacts.objects import S3ObjectStore as S3ObjectStore
    from openskills.artifacts.open import open_artifact_store as open_artifact_store
    from openskills.artifacts.open import open_object_store as open_object_store
    from openskills.artifacts.s3 import S3ArtifactStore as S3ArtifactStore
    from openskills.artifacts.store import BINARY as BINARY
    from openskills.artifacts.store import Artifact as Artifact
    from openskills.artifacts.store import ArtifactReader as ArtifactReader
    from openskills.artifacts.store import ArtifactRef as ArtifactRef
    from openskills.artifacts.store import ArtifactStore as ArtifactStore
    from openskills.artifacts.store import Scope as Scope
    from openskills.artifacts.store import check_mime_type as check_mime_type
    from openskills.artifacts.store import check_version as check_version
    from openskills.artifacts.store import normalize_name as normalize_name
    from openskills.artifacts.store import parse_ref as parse_ref
    from openskills.artifacts.store import read_artifact as read_artifact
    from openskills.artifacts.store import select_version as select_version
    from openskills.artifacts.store import split_content as split_content

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
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
