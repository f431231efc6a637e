"""One call of the model: what upstream's hook is shown of it, and what comes back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langgraph.types import Command

from openskills.adapters.langchain.changes import LoadedChange
from openskills.adapters.langchain.disclosure import ReadsForLoads, with_tools
from openskills.adapters.langchain.discovery import Discovery
from openskills.adapters.langchain.metadata import SkillMetadata, loaded_skills
from openskills.adapters.langchain.model_choice import chosen_model
from openskills.adapters.langchain.options import Models
from openskills.adapters.langchain.recent import Recent
from openskills.adapters.langchain.sight import NOTHING_HIDDEN, Sight, completed, look
from openskills.adapters.langchain.steps import Steps
from openskills.adapters.langchain.thread import Thread

RENDERED = "openskills_rendered"
"""In the state of a request whose system message has the section about skills already."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """`shown` is for upstream's hook, which discloses tools; `real` makes what it passes on right again.

    `update` is what the call changes in the thread.
    """

    shown: ModelRequest[Any]
    reads: ReadsForLoads
    state: Any
    update: Mapping[str, Any]

    def real(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """What the model, or the next middleware, is to get."""
        return request.override(messages=self.reads.real(request.messages), state=self.state)

    def response(self, response: ModelResponse[Any] | ExtendedModelResponse[Any]) -> Any:
        """The response with our changes beside upstream's."""
        if not self.update:
            return response
        if not isinstance(response, ExtendedModelResponse):
            return ExtendedModelResponse(model_response=response, command=Command(update=dict(self.update)))
        theirs = cast("Mapping[str, Any]", (response.command and response.command.update) or {})
        return ExtendedModelResponse(
            model_response=response.model_response, command=Command(update={**theirs, **self.update})
        )


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """Prepares calls of the model. `render` puts the section about skills into a request.

    Up to `restored_characters` of loaded skills are given back when history lost them.
    """

    models: Models | None
    discovery: Discovery
    restored_characters: int
    render: Callable[[ModelRequest[Any]], ModelRequest[Any]]
    _with_tools: Recent[list[SkillMetadata]] = field(default_factory=Recent[list[SkillMetadata]])

    def begin(self, request: ModelRequest[Any]) -> Steps[ModelCall]:
        """Make a request ready for upstream's hook."""
        thread = Thread(cast("Mapping[str, Any]", request.state))
        skills, errors = thread.skills, thread.errors
        update: dict[str, Any] = {}
        if skills is None:
            # A long list is not in checkpoints, so after an interrupt it has to be found again.
            skills, errors = yield from self.discovery.skills(tolerant=True)
            # What could not be read now, and could before, is looked for again by the next call.
            update |= {"skills_metadata": skills} if errors == thread.errors else {}
        sight = look(thread.loaded, request.messages, thread.messages, self.restored_characters)
        update |= _forgetting(sight)
        loaded = [name for name in thread.loaded if name not in sight.forgotten]
        messages = request.messages
        if sight is not NOTHING_HIDDEN:
            messages = completed(messages, sight, {skill["name"]: skill["path"] for skill in skills})
        seen = {**thread.state, "skills_metadata": skills, "skills_loaded": loaded, "skills_load_errors": errors}
        ready = request.override(messages=messages, state=cast("Any", seen))
        return self._shown(self.render(self._by_model(ready, skills, loaded)), skills, request.state, update)

    def _by_model(
        self, request: ModelRequest[Any], skills: Sequence[SkillMetadata], loaded: Sequence[str]
    ) -> ModelRequest[Any]:
        model = chosen_model(self.models, loaded_skills(skills, loaded)) if self.models and loaded else None
        return request.override(model=model) if model is not None else request

    def _shown(
        self, request: ModelRequest[Any], skills: Sequence[SkillMetadata], state: Any, update: Mapping[str, Any]
    ) -> ModelCall:
        # Upstream goes through the whole list on each call; only skills with tools concern it.
        tooled = self._with_tools.get(skills, None, lambda: with_tools(skills))
        reads = ReadsForLoads(request.messages, tooled)
        view = {**cast("Mapping[str, Any]", request.state), "skills_metadata": tooled, RENDERED: True}
        shown = request.override(messages=reads.messages, state=cast("Any", view))
        return ModelCall(shown, reads, state, update)


def _forgetting(sight: Sight) -> dict[str, Any]:
    if not sight.forgotten:
        return {}
    change = LoadedChange(unload=list(sight.forgotten))
    return {"skills_loaded": change, "skill_resources": dict.fromkeys(sight.forgotten)}
