"""The prompt: the list of skills, loaded texts, and where they are placed. Pure."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.prompt.overview import Overview as Overview

_MODULES = {"overview": ("Overview",)}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
