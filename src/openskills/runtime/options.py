"""`SessionOptions`: the validated options of a conversation."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from openskills.arguments import check_arguments
from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument
from openskills.executors.environment import check_grants
from openskills.executors.package_index import PackageIndex
from openskills.executors.requests import InstallMode
from openskills.executors.staging.packages import PackageSet
from openskills.prompt.blocks import Placement, TokenBudget
from openskills.prompt.overview import OverviewFormat
from openskills.session.state import EvictionPolicy, LoadMode
from openskills.tokens import TokenCounter, estimate_tokens
from openskills.tools.approvals import ApprovalCallback
from openskills.tools.names import ToolProfile
from openskills.tools.tool import ToolOptions

Messages: TypeAlias = Sequence[Any]
"""OpenAI-style messages: mappings, or objects with `model_dump`."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A request that is about to be sent: its session and agent, the loaded skills, and the messages."""

    session: str
    agent: str
    loaded_skills: tuple[str, ...]
    messages: list[dict[str, Any]]


BeforeModel: TypeAlias = Callable[[ModelCall], list[dict[str, Any]] | None]
"""Called with every request; returns the messages to send instead, or None."""


class WhenLost(StrEnum):
    """What happens to a loaded skill whose text left the history."""

    RESTORE = "restore"
    UNLOAD = "unload"


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions(ToolOptions):
    """The options of a conversation. Enumerations may be given as text. Wrong types raise `InvalidArgument`.

    Prompt: `profile` (None: `full` with an executor, else `knowledge_only`) or an explicit list of `tools`;
    `overview_tokens` for the list of skills (None: no limit); `guidance` (None: the default, "": none); `placement`;
    `budget`; `when_lost`; `pinned` skills, which keep their description; `visible`, a filter of skills; `search`, to
    offer `skill_search` even if every skill is listed.

    Loading: `load_mode`, `max_loaded_skills` (0: no limit), or `evict`, a policy, instead.

    Commands: `require_loaded`, `force_save`, `allowed_commands` and `denied_commands` (None: those of the settings),
    `ask` for approvals, `restrict` to what a skill's `allowed-tools` pre-approves, `limits`, `host_roots`, `grants` by
    skill (`*`: all), the values of `secrets` by name, `ask_secrets` for variables that skills declare; `inline_bytes`,
    `primary_bytes`, `max_inline_bytes` of a result.

    Packages: `with_packages` are installed for all skills, `grants` has those of one skill. `install` decides about
    packages that a skill declares in `requirements.txt`, `[project]`, `package.json` or a script (PEP 723): `never`,
    `ask` (`ask_install`, or else `ask`, is called once for each version of a skill) or `always`. They are downloaded
    from `index`, by default that of the settings of pip, uv and npm, which commands themselves cannot reach.
    `report_progress` is called with lines about an installation.
    """

    profile: ToolProfile | str | None = None
    tools: Sequence[str] | None = None
    load_mode: LoadMode | str = LoadMode.TURN
    placement: Placement | str = Placement.TOOL_RESULT
    when_lost: WhenLost | str = WhenLost.RESTORE
    max_loaded_skills: int = 0
    evict: EvictionPolicy | None = None
    budget: TokenBudget = field(default_factory=TokenBudget)
    count: TokenCounter = estimate_tokens
    overview_format: OverviewFormat | str = OverviewFormat.BULLETS
    overview_tokens: int | None = 8_000
    pinned: tuple[str, ...] = ()
    visible: Callable[[Skill], bool] | None = None
    search: bool = False
    guidance: str | None = None
    before_model: BeforeModel | None = None
    allowed_commands: Sequence[str] | None = None
    denied_commands: Sequence[str] | None = None
    ask: ApprovalCallback | None = None
    restrict: bool = False
    host_roots: Sequence[Path] | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    ask_install: ApprovalCallback | None = None
    index: PackageIndex | None = None
    download: Callable[[str], Awaitable[bytes]] | None = None

    def __post_init__(self) -> None:
        for name, kind in _CHOICES.items():
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, None if value is None else kind(str(value).strip().lower()))
            except ValueError:
                raise InvalidArgument(name, f"unknown value {value!r}; use one of {', '.join(kind)}") from None
        for grants in self.grants.values():
            check_grants(grants)
            PackageSet(grants.packages, grants.npm)
        PackageSet.parse(self.with_packages)
        if self.evict is not None and self.max_loaded_skills:
            raise InvalidArgument("evict", "cannot be combined with max_loaded_skills")


_CHOICES: dict[str, type[StrEnum]] = {
    "install": InstallMode,
    "load_mode": LoadMode,
    "placement": Placement,
    "when_lost": WhenLost,
    "overview_format": OverviewFormat,
    "profile": ToolProfile,
}
