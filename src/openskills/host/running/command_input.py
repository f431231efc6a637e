"""What a skill that is a command is started with: its arguments, and the call on its stdin. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import orjson

from openskills.host.registration import Registration
from openskills.host.running.manifest_fault import ManifestFault


def arguments(registration: Registration) -> tuple[str, ...]:
    """The `args` of the manifest; raises `ManifestFault` when they are no list of texts."""
    found = registration.options.get("args", ())
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise ManifestFault("args", "is a list of arguments")
    return tuple(str(one) for one in cast("Sequence[object]", found))


def call_input(input: Mapping[str, Any]) -> bytes:  # noqa: A002 - the word of the protocol
    """What a skill reads from its stdin."""
    try:
        return orjson.dumps({"input": input})
    except orjson.JSONEncodeError:
        # Numbers of more than 64 bits, half characters: whoever calls from Python may have them.
        return json.dumps({"input": dict(input)}).encode()
