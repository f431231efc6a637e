"""The JSON schemas of a manifest: checked when it is read, so that no invocation meets one that is none. Pure."""

from collections.abc import Mapping
from typing import Any, cast

import jsonschema_rs

from openskills.host.registry.document import Node, plain
from openskills.host.registry.fields import Fields

_LONGEST = 300


def schema(fields: Fields, name: str) -> Mapping[str, Any] | None:
    """The schema in this field, or None where there is none or it cannot be used."""
    found = cast("dict[str, Any]", plain(cast("Node", fields.mapping(name))))
    if not found:
        return found if fields.has(name) else None
    if found.get("type", "object") != "object":
        fields.warn(
            name, "inputs and outputs are always objects; write type: object", rule="schema-type", at=(name, "type")
        )
    try:
        # Offline: a reference to another place is refused, never fetched. `meta.validate` would fetch a `$schema`.
        jsonschema_rs.validator_for(found, offline=True)
    except jsonschema_rs.ValidationError as error:
        path = [*error.instance_path]
        where = f" at {'.'.join(map(str, path))[:_LONGEST]}" if path else ""
        fields.wrong(
            name, f"is no JSON schema{where}: {_short(error.message)}", rule="schema-invalid", at=(name, *path)
        )
        return None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        fields.wrong(name, f"is no JSON schema: {_short(str(error))}", rule="schema-invalid")
        return None
    return found


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
