"""Lazy public names of a package (PEP 562)."""

from collections.abc import Callable, Mapping


def lazy_exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package that imports each public name on first use.

    `homes` maps a name to its module, relative to the package. Raises `AttributeError` for other names.
    """
    from importlib import import_module

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{homes[name]}"), name)
        vars(import_module(package))[name] = value
        return value

    def list_names() -> list[str]:
        return sorted({*vars(import_module(package)), *homes})

    return get, list_names
