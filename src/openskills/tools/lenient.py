"""Types of arguments that forgive what models often get wrong where the meaning is clear."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Texts: TypeAlias = Annotated[list[str], BeforeValidator(_listed, json_schema_input_type=list[str])]
"""A list of texts; a single text is a list of one."""
