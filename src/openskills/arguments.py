"""Check the arguments of public classes and functions against their annotations, and find objects that they name.

A type checker reports these mistakes as well, but not every caller uses one, and some of them are dangerous: text where
a list is expected is a sequence of letters, so that `denied_commands="rm"` would deny nothing.
"""

import enum
import inspect
import os
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, reduce, wraps
from importlib import import_module
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from openskills.errors import InvalidArgument, shorten

F = TypeVar("F", bound=Callable[..., Any])
_TEXT = (str, bytes, bytearray)
_MAX_SHOWN = 80
_NAMES: dict[object, str] = {
    str: "text",
    int: "an integer that is not negative",
    float: "a number that is not negative",
    bool: "True or False",
    bytes: "bytes",
    Path: "a Path",
    NoneType: "None",
}
_FIXES = {
    "Catalog": "create one with Catalog.from_paths(...)",
    "Attachment": "use Attachment(name, data)",
    "Load": "use Load('skill')",
    "CommandPolicy": "create one with CommandPolicy.of(...)",
}


class InvalidType(InvalidArgument, TypeError):
    """An argument has a wrong type."""


def check_arguments(checked: F) -> F:
    """Decorate a function, or the constructor of a class, so that arguments of a wrong type raise `InvalidArgument`.

    The error names the argument and says how to write it. A list becomes a tuple where the annotation is a tuple.
    Numbers must not be negative or NaN. Protocols are checked by the names of their members, callables only for being
    callable. Defaults are not checked.
    """
    module = sys.modules[checked.__module__]
    if not isinstance(checked, type):
        return cast("F", _wrap(checked, module))
    setattr(checked, "__init__", _wrap(cast("Any", checked).__init__, module))  # noqa: B010
    return cast("F", checked)


def _wrap(function: Callable[..., Any], module: object) -> Callable[..., Any]:
    @cache
    def read_parameters() -> tuple[list[str], str, dict[str, _Parameter]]:
        # On first use, when all modules are imported.
        # Without the result, whose type may be imported for type checkers only.
        given = {name: hint for name, hint in inspect.get_annotations(function).items() if name != "return"}
        hints = typing.get_type_hints(SimpleNamespace(__annotations__=given), vars(module))
        parameters = inspect.signature(function).parameters.values()
        positional = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        rest = next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL), "")
        for one in parameters:
            if one.kind is one.VAR_KEYWORD:
                hints.pop(one.name, None)
        return positional, rest, {name: _Parameter(hint) for name, hint in hints.items()}

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        names, rest, known = read_parameters()
        values = list(given)
        for position in range(len(names), len(values) if rest in known else 0):
            values[position] = _check(known[rest].hint, values[position], f"{rest}[{position - len(names)}]")
        for position, (name, value) in enumerate(zip(names, given, strict=False)):
            found = known.get(name)
            if found is not None and not isinstance(value, found.types):
                values[position] = found.check(value, name)
        for name, value in named.items():
            found = known.get(name)
            if found is not None and not isinstance(value, found.types):
                named[name] = found.check(value, name)
        return function(*values, **named)

    return call


class _Parameter:
    """The annotation of a parameter, prepared for the usual case: a value that is as it should be.

    Several values are checked for every command, so instances of `types` are accepted without another call.
    """

    __slots__ = ("_accepts", "hint", "types")

    def __init__(self, hint: Any) -> None:
        self.hint = hint
        self.types = _find_plain_types(hint)
        self._accepts = _compile_hint(hint)

    def check(self, value: Any, field: str) -> Any:
        """See `_check`."""
        return value if self._accepts(value) else _check(self.hint, value, field)


_Accepts = Callable[[Any], bool]
"""Whether `_check` would return the value as it is. False if that takes a closer look."""


def _find_plain_types(hint: Any) -> tuple[type, ...]:
    """The classes of which every instance is accepted as it is."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return tuple(plain for kind in get_args(hint) for plain in _find_plain_types(kind))
    if hint is Any:
        return (object,)
    is_plain = origin is None and isinstance(hint, type) and not getattr(hint, "_is_protocol", False)
    return (hint,) if is_plain and hint not in (int, float) else ()


def _compile_hint(hint: Any) -> _Accepts:
    origin, kinds = get_origin(hint), get_args(hint)
    if plain := _find_plain_types(hint) if origin is None else ():
        return lambda value: isinstance(value, plain)
    if origin in (Union, UnionType):
        return _accept_any_of([_compile_hint(kind) for kind in kinds])
    if (origin is tuple and kinds[-1] is ...) or origin in (Sequence, Collection, Iterable):
        return _accept_items(tuple if origin is tuple else (tuple, list), _compile_hint(kinds[0]))
    if _is_kind(origin, Mapping):
        return _accept_dict(_compile_hint(kinds[0]), _compile_hint(kinds[1]))
    if hint in (int, float):
        return lambda value: type(value) in (int, hint) and value >= 0
    return lambda _: False


def _accept_any_of(choices: Sequence[_Accepts]) -> _Accepts:
    return lambda value: any(accepts(value) for accepts in choices)


def _accept_items(kinds: type | tuple[type, ...], accepts: _Accepts) -> _Accepts:
    return lambda value: isinstance(value, kinds) and all(map(accepts, cast("Sequence[Any]", value)))


def _accept_dict(accepts_key: _Accepts, accepts_item: _Accepts) -> _Accepts:
    def accepts(value: Any) -> bool:
        if type(value) is not dict:
            return False
        given = cast("dict[Any, Any]", value)
        return all(map(accepts_key, given)) and all(map(accepts_item, given.values()))

    return accepts


def _check(hint: Any, value: Any, field: str) -> Any:
    """Return the value as the annotation wants it. Raises `InvalidArgument`."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _check_union(get_args(hint), value, field)
    if _is_kind(origin, Mapping):
        return _check_mapping(hint, value, field)
    if _is_kind(origin, Iterable):
        return _check_items(hint, value, field)
    if not _is_valid(hint, origin, value):
        raise _refuse([hint], value, field)
    return value


def _check_union(choices: Sequence[Any], value: Any, field: str) -> Any:
    problems: list[InvalidArgument] = []
    for choice in choices:
        try:
            return _check(choice, value, field)
        except InvalidArgument as problem:
            problems.append(problem)
    # A problem of one element says more than the list of all types.
    raise next((one for one in problems if one.field != field), None) or _refuse(choices, value, field)


def _check_mapping(hint: Any, value: Any, field: str) -> Any:
    if not isinstance(value, Mapping):
        raise _refuse([hint], value, field)
    key_hint, item_hint = get_args(hint)
    given = cast("Mapping[Any, Any]", value)
    checked = {
        _check(key_hint, key, f"{field} (key)"): _check(item_hint, item, f"{field}[{key!r}]")
        for key, item in given.items()
    }
    return checked if any(checked[key] is not item for key, item in given.items()) else given


def _check_items(hint: Any, value: Any, field: str) -> Any:
    origin, kinds = get_origin(hint), get_args(hint)
    # An iterator can only be read once, so that its items are not checked.
    wanted = Collection if _is_kind(origin, Collection) else Iterable
    if isinstance(value, (*_TEXT, Mapping)) or not isinstance(value, wanted):
        raise _refuse([hint], value, field)
    if not isinstance(value, Collection):
        return cast("Any", value)
    given = list(cast("Collection[Any]", value))
    if origin is not tuple or kinds[-1] is ...:
        kinds = [kinds[0]] * len(given)
    if len(kinds) != len(given):
        raise _refuse([hint], value, field)
    checked = [
        _check(kind, item, f"{field}[{number}]") for number, (kind, item) in enumerate(zip(kinds, given, strict=True))
    ]
    if origin is tuple:
        return tuple(checked)
    is_same = all(new is old for new, old in zip(checked, given, strict=True))
    return cast("Any", value) if is_same else checked


def _is_kind(origin: Any, base: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, base)


def _is_valid(hint: Any, origin: Any, value: Any) -> bool:
    if hint is None or hint is NoneType:
        return value is None
    if hint in (int, float):
        is_number = isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
        return is_number and value >= 0
    if origin is Literal:
        return value in get_args(hint)
    if origin is Callable or hint is Callable:
        return callable(value)
    kind = origin or hint
    if not isinstance(kind, type) or kind in (object, Any):
        return True
    if getattr(kind, "_is_protocol", False) and kind.__module__ != "collections.abc":
        return all(hasattr(value, name) for name in _list_members(kind))
    return isinstance(value, bytes | bytearray | memoryview if kind is bytes else kind)


@cache
def _list_members(protocol: type) -> frozenset[str]:
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    names = {name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", ()))}
    return frozenset(name for name in names if not name.startswith("_") or name == "__call__")


def _refuse(hints: Sequence[Any], value: Any, field: str) -> InvalidType:
    wanted = " or ".join(dict.fromkeys(_describe(hint) for hint in hints))
    got = f"{type(value).__name__} {value!r}"
    fix = next((fix for hint in hints if (fix := _suggest(hint, value))), "")
    return InvalidType(field, f"expected {wanted}, got {shorten(got, _MAX_SHOWN)}{f'; {fix}' if fix else ''}")


def _suggest(hint: Any, value: Any) -> str:
    kinds = get_args(hint)
    if hint is Path and isinstance(value, str):
        return f"write Path({value!r})"
    if _is_kind(get_origin(hint), Collection) and not _is_kind(get_origin(hint), Mapping):
        return f"write [{value!r}]" if isinstance(value, str) and kinds[0] is str else _suggest(kinds[0], value)
    return _FIXES.get(getattr(hint, "__name__", ""), "")


def _describe(hint: Any) -> str:
    origin, kinds = get_origin(hint), get_args(hint)
    if hint in _NAMES:
        return _NAMES[hint]
    if origin in (Union, UnionType, Literal):
        return " or ".join(repr(kind) if origin is Literal else _describe(kind) for kind in kinds)
    if _is_kind(origin, Mapping):
        return "a dict" if kinds[1] is Any else f"a dict with {_describe(kinds[1])} as values"
    if _is_kind(origin, Iterable):
        return f"a list (each item {_describe(kinds[0])})"
    if _is_kind(hint, enum.Enum):
        return f"one of {', '.join(str(one.value) for one in hint)}"
    name: str = "function" if origin is Callable else getattr(hint, "__name__", str(hint))
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


def import_factory(dotted: str, field: str) -> Callable[..., Any]:
    """Import `package.module:factory`; a module that is not installed is also searched in the current directory.

    Raises `InvalidArgument` if there is no such callable.
    """
    module, _, path = dotted.partition(":")
    try:
        try:
            found: object = import_module(module)
        except ModuleNotFoundError as error:
            here = os.getcwd()
            if error.name != module.partition(".")[0] or here in sys.path:
                raise
            # At the end, so that nothing in it hides an installed module.
            sys.path.append(here)
            found = import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidArgument(field, f"cannot import {dotted!r}: {error}") from error
    except Exception as error:
        # A fault of the user's module, whatever it is.
        raise InvalidArgument(field, f"cannot import {dotted!r}: {type(error).__name__}: {error}") from error
    found = reduce(lambda owner, name: getattr(owner, name, None), path.split("."), found)
    if not callable(found):
        raise InvalidArgument(field, f"{module!r} has no callable {path!r}")
    return found


def find_plugin(group: str, name: str, field: str) -> Callable[..., Any] | None:
    """The object that an installed package provides under this name in an entry point group, or None.

    Raises `InvalidArgument` if it cannot be imported.
    """
    from importlib.metadata import entry_points

    for point in entry_points(group=group, name=name):
        try:
            return cast("Callable[..., Any]", point.load())
        except Exception as error:
            # A fault of the package, whatever it is.
            package = point.dist.name if point.dist else "an installed package"
            raise InvalidArgument(field, f"cannot load {name!r} of {package} ({point.value}): {error}") from error
    return None
