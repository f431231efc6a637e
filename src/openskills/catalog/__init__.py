"""Which skills exist: sources, discovery, precedence, visibility, search. Blocking reads, no async."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.catalog.catalog import Catalog
    from openskills.catalog.root import FetchResult, Progress, Root, Source
    from openskills.catalog.search import Hit
    from openskills.catalog.skill import Resource, Skill
    from openskills.catalog.snapshot import CatalogSnapshot
    from openskills.catalog.validate import ValidationResult

__all__ = [
    "Catalog",
    "CatalogSnapshot",
    "FetchResult",
    "Hit",
    "Progress",
    "Resource",
    "Root",
    "Skill",
    "Source",
    "ValidationResult",
]

_HOME = {
    "Catalog": "catalog",
    "CatalogSnapshot": "snapshot",
    "FetchResult": "root",
    "Hit": "search",
    "Progress": "root",
    "Resource": "skill",
    "Root": "root",
    "Skill": "skill",
    "Source": "root",
    "ValidationResult": "validate",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
