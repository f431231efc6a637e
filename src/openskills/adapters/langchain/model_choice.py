"""Which model answers while skills are loaded that name one."""

import logging
from collections.abc import Mapping, Sequence
from typing import cast

from langchain_core.language_models import BaseChatModel

from openskills.adapters.langchain.metadata import SkillMetadata, extension
from openskills.adapters.langchain.options import Models

logger = logging.getLogger(__name__)

_SAME = frozenset({"", "inherit", "default"})


def chosen_model(models: Models, loaded: Sequence[SkillMetadata]) -> BaseChatModel | None:
    """The model of the skill that was loaded last among those that name one; None for the agent's own.

    A name that means nothing here is passed over with a warning.
    """
    for skill in reversed(loaded):
        name = extension(skill, "model")
        if not isinstance(name, str) or name in _SAME:
            continue
        model = cast("Mapping[str, BaseChatModel]", models).get(name) if isinstance(models, Mapping) else models(name)
        if model is not None:
            return model
        logger.warning("Skill '%s' asks for the model %r, which is not among the models given", skill["name"], name)
    return None
