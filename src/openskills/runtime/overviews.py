"""The first layer of what a model sees: the list of skills and the guidance, the same bytes while nothing changes."""

from dataclasses import dataclass

from openskills.catalog.catalog import Catalog
from openskills.catalog.snapshot import Snapshot
from openskills.prompt.guidance import guidance
from openskills.prompt.overview import Overview, overview
from openskills.runtime.options import SessionOptions
from openskills.tools.profiles import Profile, chosen


@dataclass(frozen=True, slots=True)
class LayerOne:
    """What a session shows before anything is loaded, and what fits to it: the skills, the tools."""

    skills: Snapshot
    overview: Overview
    guidance: str
    tools: tuple[str, ...]

    @property
    def text(self) -> str:
        """The list and the guidance, as they stand in the system message."""
        return "\n\n".join(part for part in (self.overview.text, self.guidance) if part)


class Overviews:
    """Makes the first layer once for every state of the catalog. Threads may use it at the same time."""

    def __init__(self, catalog: Catalog, options: SessionOptions, *, executor: bool, policy_note: str = "") -> None:
        self._catalog = catalog
        self._options = options
        self._executor = executor
        self._policy_note = policy_note
        snapshot = catalog.snapshot
        # One value, so that nobody sees a new catalog with the layer of an old one.
        self._made = (snapshot, self._make(snapshot))

    def now(self) -> LayerOne:
        """The layer for the catalog as it is; nothing is rendered when it is the one from before."""
        snapshot = self._catalog.snapshot
        seen, layer = self._made
        if snapshot is not seen:
            layer = self._make(snapshot)
            self._made = (snapshot, layer)
        return layer

    def _make(self, snapshot: Snapshot) -> LayerOne:
        options = self._options
        skills = snapshot.view(options.visible) if options.visible else snapshot
        listed = overview(
            skills.skills, options.overview_format, options.overview_tokens, pinned=options.pinned, count=options.count
        )
        tools = chosen(
            Profile(options.profile or (Profile.FULL if self._executor else Profile.KNOWLEDGE_ONLY)),
            options.tools,
            search=options.search or bool(listed.left_out or listed.names_only),
            executor=self._executor,
            require_loaded=options.require_loaded,
        )
        said = guidance(tools, policy_note=self._policy_note) if options.guidance is None else options.guidance.strip()
        return LayerOne(skills, listed, said if skills.skills else "", tools)
