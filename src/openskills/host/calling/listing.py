"""What a host says of its skills. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from openskills.errors import BadSkillOutput, Unauthorized, UnknownSkill
from openskills.host.calling.reading import unwrap
from openskills.host.result import InvokeResult


@dataclass(frozen=True, slots=True)
class HostedSkill:
    """A skill of a host. `plain` is everything that the host says of it.

    `status` is `ready`, `broken` or `unavailable`; `kind` is `type:runtime`. The schema is None when it has none.
    """

    id: str
    description: str = ""
    status: str = "ready"
    kind: str = ""
    version: str = ""
    input_schema: Mapping[str, Any] | None = None
    plain: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def ready(self) -> bool:
        """Whether it can be invoked now."""
        return self.status == "ready"

    @property
    def required(self) -> tuple[str, ...]:
        """The names that an input must have."""
        return _words((self.input_schema or {}).get("required"))


def told(result: InvokeResult) -> Mapping[str, Any]:
    """The data of a document. Raises `Unauthorized`, or `SkillFailed` for whatever else kept it back."""
    failure = result.outcome.failure
    if failure is not None and failure.code == Unauthorized.code:
        raise Unauthorized(f"{failure.message}; set OPENSKILL_API_KEY to a key of this host")
    return unwrap(result)


def read_skills(result: InvokeResult) -> tuple[HostedSkill, ...]:
    """The skills of `GET /skills`. Raises `BadSkillOutput`."""
    listed = told(result).get("skills")
    if not isinstance(listed, list):
        raise BadSkillOutput("the host's list of skills has no field 'skills'")
    return tuple(map(_skill, cast("list[object]", listed)))


def read_skill(result: InvokeResult, skill_id: str) -> HostedSkill:
    """The skill of `GET /skills/ID`. Raises `UnknownSkill` with the nearest names."""
    failure = result.outcome.failure
    if failure is not None and failure.code == UnknownSkill.code:
        raise UnknownSkill(skill_id, _words(failure.details.get("near")))
    return _skill(told(result))


def _words(value: object) -> tuple[str, ...]:
    return tuple(map(str, cast("list[object]", value))) if isinstance(value, list) else ()


def _skill(value: object) -> HostedSkill:
    found = cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})
    skill_id = found.get("id")
    if not isinstance(skill_id, str) or not skill_id:
        raise BadSkillOutput("the host tells of a skill without an id")
    schema = found.get("input_schema")
    return HostedSkill(
        id=skill_id,
        description=_text(found, "description"),
        status=_text(found, "status") or "ready",
        kind=_text(found, "kind"),
        version=_text(found, "version"),
        input_schema=cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else None,
        plain=found,
    )


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""
