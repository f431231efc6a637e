"""Commands that start quickly: typer checks parameters with pydantic, whose import costs more than all the rest."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

Parameter: TypeAlias = TyperArgument | TyperOption


class QuickCommand(TyperCommand):
    """A command that takes text and defaults as they are; only what must be converted is given to typer's checker."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, as every command does."""
        hasten(self.get_params(ctx))
        return super().parse_args(ctx, args)


class QuickGroup(TyperGroup):
    """The same for the options before a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments up to the command, as every group does."""
        hasten(self.get_params(ctx))
        return super().parse_args(ctx, args)


def hasten(parameters: Sequence[object]) -> None:
    """Put a quick checker before that of each parameter. A version of typer without the hook has nothing to save."""
    for parameter in parameters:
        checker = getattr(parameter, "get_runtime_param", None)
        if isinstance(parameter, Parameter) and checker is not None:
            quick = _Quick(checker, parameter.type_descriptor.annotation)
            vars(parameter)["get_runtime_param"] = quick.itself


class _Quick:
    """Stands where typer expects a checker, and asks for the real one only when it is needed."""

    def __init__(self, checker: Callable[[], Any], annotation: Any) -> None:
        self._checker = checker
        self._annotation = annotation

    def itself(self) -> "_Quick":
        return self

    def coerce(self, value: Any, param: Parameter, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._annotation is str:
            return value
        if self._annotation == list[str]:
            return list[str](value)
        if isinstance(self._annotation, type) and isinstance(value, self._annotation):
            return value
        return self._checker().coerce(value, param=param, ctx=ctx)
