"""How the conversations of a runtime behave: plain values, checked once."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument
from openskills.executors.spec import Limits
from openskills.prompt.blocks import Placement, TokenBudget
from openskills.prompt.overview import OverviewFormat
from openskills.session.state import EvictionPolicy, LoadMode
from openskills.tokens import TokenCounter, estimate_tokens
from openskills.tools.approvals import ApprovalCallback
from openskills.tools.names import ToolProfile

Messages: TypeAlias = Sequence[Any]
"""OpenAI-style messages: mappings, or objects of a client that have `model_dump`."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A request that is about to be sent: whose it is, which skills the model sees in it, and the messages."""

    session: str
    agent: str
    loaded_skills: tuple[str, ...]
    messages: list[dict[str, Any]]


BeforeModel: TypeAlias = Callable[[ModelCall], list[dict[str, Any]] | None]
"""Sees every request; what it returns is sent instead, unless it is None."""


class WhenLost(StrEnum):
    """What becomes of a loaded skill whose text has left the history: it is shown again, or counts as unloaded."""

    RESTORE = "restore"
    UNLOAD = "unload"


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Everything that can be chosen for a conversation. Text is taken for every enumeration.

    What the model sees: `profile` (None: `full` with an executor, else `knowledge_only`) or an explicit list of
    `tools`; `overview_tokens` for the list of skills (None: no limit); `guidance` (None: ours, "": none); `placement`;
    `budget`; `when_lost`; `pinned` skills that keep their description; `visible`, which hides skills; `search`, to have
    `skill_search` although every skill is listed.

    What is loaded: `load_mode`, `max_loaded_skills` (0: any number), or `evict` as a policy instead.

    What is run: `require_loaded`, `force_save`, `allowed_commands` and `denied_commands` (None: those of the settings),
    `ask` for approvals, `restrict` to what a skill's `allowed-tools` pre-approves, `limits`, `host_roots`, `secrets` by
    value and `secrets_of` by skill (`*`: all), `network`, `environment`; `inline_bytes`, `primary_bytes`,
    `max_inline_bytes` of a result.

    What is installed: nothing, unless `install` names the hosts of a package index. Then what a skill declares, in
    `requirements.txt`, in `[project]`, or in a script of its own (PEP 723), is installed before its first command, and
    nothing but that reaches these hosts. `index_arguments` say which index, as pip and uv understand them; with
    `--no-index` among them no host is needed.
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
    require_loaded: bool = True
    force_save: bool = False
    allowed_commands: Sequence[str] | None = None
    denied_commands: Sequence[str] | None = None
    ask: ApprovalCallback | None = None
    restrict: bool = False
    limits: Limits = field(default_factory=Limits)
    max_timeout: float = 3600.0
    host_roots: Sequence[Path] | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    secrets_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    network: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    install: tuple[str, ...] | None = None
    index_arguments: tuple[str, ...] = ()
    inline_bytes: int = 16 * 1024
    primary_bytes: int = 32 * 1024
    max_inline_bytes: int = 256 * 1024
    download: Callable[[str], Awaitable[bytes]] | None = None

    def __post_init__(self) -> None:
        for name, kind in (("load_mode", LoadMode), ("placement", Placement), ("when_lost", WhenLost)):
            object.__setattr__(self, name, _parse_choice(name, kind, getattr(self, name)))
        object.__setattr__(
            self, "overview_format", _parse_choice("overview_format", OverviewFormat, self.overview_format)
        )
        if self.profile is not None:
            object.__setattr__(self, "profile", _parse_choice("profile", ToolProfile, self.profile))
        for name in ("max_loaded_skills", "inline_bytes", "primary_bytes", "max_inline_bytes"):
            if getattr(self, name) < 0:
                raise InvalidArgument(name, "is negative")
        if isinstance(self.install, str):
            raise InvalidArgument("install", "is a text; give a tuple with the hosts of a package index")
        if self.evict is not None and self.max_loaded_skills:
            raise InvalidArgument("evict", "is a policy in the place of max_loaded_skills; give one of them")


def _parse_choice(name: str, kind: type[StrEnum], value: str) -> StrEnum:
    try:
        return kind(str(value).strip().lower())
    except ValueError:
        raise InvalidArgument(name, f"{value!r} is unknown; use one of {', '.join(kind)}") from None
