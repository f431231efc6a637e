"""What a SKILL.md declares about itself, as one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from openskills.skillmd.requirements import NO_REQUIREMENTS, Requirements
from openskills.skillmd.value import Value

SPEC_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The fields of the specification, in its order."""

TEXT_EXTENSIONS = (
    "argument-hint",
    "model",
    "context",
    "agent",
    "version",
    "homepage",
    "when_to_use",
    "effort",
    "shell",
)
FLAG_EXTENSIONS = ("disable-model-invocation", "user-invocable")
OTHER_EXTENSIONS = ("hooks", "paths")
CLIENT_EXTENSIONS = TEXT_EXTENSIONS + FLAG_EXTENSIONS + OTHER_EXTENSIONS
"""Fields outside the specification that some client gives a meaning to."""

TEXT_FIELDS = frozenset({"name", "description", "license", "compatibility", *TEXT_EXTENSIONS})
"""Fields whose value is one text."""


@dataclass(frozen=True, slots=True)
class SkillManifest:
    """The front matter of a SKILL.md. Fields that are absent have the default shown.

    `metadata` and `extra` hold values exactly as written: scalars are text, nested lists and maps stay nested.
    `extra` has every key that is neither of the specification nor a known extension of some client.
    """

    name: str
    description: str
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, Value] = field(default_factory=dict[str, Value])
    allowed_tools: tuple[str, ...] = ()
    disable_model_invocation: bool = False
    user_invocable: bool = True
    argument_hint: str | None = None
    model: str | None = None
    context: str | None = None
    agent: str | None = None
    version: str | None = None
    homepage: str | None = None
    when_to_use: str | None = None
    effort: str | None = None
    shell: str | None = None
    paths: tuple[str, ...] = ()
    hooks: Value = None
    keywords: tuple[str, ...] = ()
    requirements: Requirements = NO_REQUIREMENTS
    extra: Mapping[str, Value] = field(default_factory=dict[str, Value])
