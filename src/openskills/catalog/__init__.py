"""Which skills exist: sources, discovery, precedence, visibility, search. Blocking reads, no async."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.catalog.catalog import Catalog as Catalog
    from openskills.catalog.root import FetchResult as FetchResult
    from openskills.catalog.root import Progress as Progress
    from openskills.catalog.root import Root as Root
    from openskills.catalog.root import Source as Source
    from openskills.catalog.search import Hit as Hit
    from openskills.catalog.skill import Resource as Resource
    from openskills.catalog.skill import Skill as Skill
    from openskills.catalog.snapshot import CatalogSnapshot as CatalogSnapshot
    from openskills.catalog.validate import ValidationResult as ValidationResult

_MODULES = {
    "catalog": ("Catalog",),
    "root": ("FetchResult", "Progress", "Root", "Source"),
    "search": ("Hit",),
    "skill": ("Resource", "Skill"),
    "snapshot": ("CatalogSnapshot",),
    "validate": ("ValidationResult",),
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
