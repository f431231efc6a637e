"""What a model wants done, for those who watch: its arguments as text, without what may be a password. Pure."""

import json
from collections.abc import Mapping
from typing import Any, cast

_WITHHELD = ("env", "stdin", "chars")


def shown_arguments(arguments: Mapping[str, Any] | str | None) -> str:
    """The arguments of a call as JSON. Of variables only the names are in it, and of input only how long it is.

    Never raises: whatever cannot be read is described.
    """
    try:
        given: object = json.loads(arguments) if isinstance(arguments, str) and arguments else arguments or {}
        if not isinstance(given, Mapping):
            return f"[{type(given).__name__}, which is no JSON object]"
        fields = cast("Mapping[object, object]", given)
        told = {str(name): _withheld(one) if name in _WITHHELD else one for name, one in fields.items()}
        return json.dumps(told, ensure_ascii=False, default=_kind)
    except (ValueError, TypeError, RecursionError):
        return f"{_kind(arguments)} that are no JSON"


def _withheld(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _kind(one) for name, one in cast("Mapping[object, object]", value).items()}
    return _kind(value)


def _kind(value: object) -> str:
    return f"[{len(value):,} characters]" if isinstance(value, str) else f"[{type(value).__name__}]"
