"""Lazy public names of a package (PEP 562)."""

from collections.abc import Callable, Mapping, Sequence


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` for a package that imports each public name on first use.

    `modules` maps a module, relative to the package, to its public names. Raises `AttributeError` for other names.
    """
    from importlib import import_module

    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{homes[name]}"), name)
        vars(import_module(package))[name] = value
        return value

    def list_names() -> list[str]:
        return sorted({*vars(import_module(package)), *homes})

    return list(homes), get, list_names
