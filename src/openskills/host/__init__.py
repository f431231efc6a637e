"""The skill host: any skill behind one HTTP protocol. Serving needs the extra `host`; its client needs nothing more.

Importing this package loads nothing else.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openskills.host.client.client import Client
    from openskills.host.client.transport import SkillFailed, unwrap


__all__ = ["Client", "SkillFailed", "unwrap"]

_HOME = {"Client": "client.client", "SkillFailed": "client.transport", "unwrap": "client.transport"}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Fetch a public name from its module and remember it."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
