"""What a skill says, without the secrets that it was given: names instead of values, wherever there is text. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from openskills.errors import BadSkillOutput
from openskills.host.result import Failure, Outcome, failed
from openskills.host.runner import Emitted, Listener
from openskills.trace.masking import masker

_Mask = Callable[[str], str]


def masked_outcome(outcome: Outcome, secrets: Mapping[str, str]) -> Outcome:
    """The outcome as everybody may see it. Without secrets nothing is looked at."""
    mask = masker(secrets) if secrets else None
    if mask is None:
        return outcome
    try:
        return replace(
            outcome,
            data=None if outcome.data is None else _masked(outcome.data, mask),
            failure=None if outcome.failure is None else _failure(outcome.failure, mask),
            version=None if outcome.version is None else mask(outcome.version),
            notes=_masked(outcome.notes, mask),
        )
    except RecursionError:
        # What nobody has looked through is not shown.
        return failed(BadSkillOutput("the skill answered with data that are nested too deeply"))


def masked_listener(listener: Listener, secrets: Mapping[str, str]) -> Listener:
    """A listener that is told the same, but for the secrets."""
    mask = masker(secrets) if secrets else None
    if mask is None:
        return listener
    return lambda emitted: listener(Emitted(emitted.kind, _masked(emitted.data, mask)))


def _failure(failure: Failure, mask: _Mask) -> Failure:
    return Failure(failure.code, mask(failure.message), _masked(failure.details, mask), failure.retry_after)


def _masked(value: Any, mask: _Mask) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {_masked(name, mask) if isinstance(name, str) else name: _masked(one, mask) for name, one in pairs}
    if isinstance(value, list | tuple):
        return [_masked(one, mask) for one in cast("list[Any]", value)]
    return value
