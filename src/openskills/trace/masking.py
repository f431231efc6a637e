"""Secrets in what is said about a piece of work: their names instead of their values. Pure."""

import json
import re
from collections.abc import Callable, Mapping

from openskills.trace.values import Attributes, Value

LEAST = 4
"""Shorter secrets would also be found in words that have nothing to do with them."""


def masked(text: str, secrets: Mapping[str, str]) -> str:
    """The text with every secret in it replaced by its name, also where it stands in JSON. Longer ones first."""
    mask = masker(secrets)
    return text if mask is None else mask(text)


def masker(secrets: Mapping[str, str]) -> Callable[[str], str] | None:
    """What `masked` does, made once for many texts; None when there is nothing to look for."""
    names = {form: name for name, value in secrets.items() if len(value) >= LEAST for form in _forms(value)}
    if not names:
        return None
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub(lambda match: f"[secret {names[match[0]]}]", text)


def masked_attributes(attributes: Attributes, secrets: Mapping[str, str]) -> dict[str, Value]:
    """The same for everything in them that is text."""
    return {name: _masked_value(value, secrets) for name, value in attributes.items()}


def _masked_value(value: Value, secrets: Mapping[str, str]) -> Value:
    if isinstance(value, str):
        return masked(value, secrets)
    if value is None or isinstance(value, bool | int | float):
        return value
    return [masked(str(one), secrets) for one in value]


def _forms(value: str) -> tuple[str, ...]:
    """How a value may be written: as it is, and with the escapes of JSON."""
    return value, *(json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
