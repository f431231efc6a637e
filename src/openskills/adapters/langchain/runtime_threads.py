"""Whose session a run of a graph is."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from uuid import uuid4

from langchain_core.runnables import RunnableConfig

from openskills.adapters.langchain.runtime_state import SESSION
from openskills.artifacts.store import Scope

UserOf: TypeAlias = str | Callable[[RunnableConfig], str]
"""The user of every thread, or a function that finds him in the configuration of a run."""


def scope_of(config: RunnableConfig, state: Mapping[str, Any], app: str, user: UserOf) -> Scope:
    """The session of a run: its thread, or the name that the run was given because it has none.

    Raises `InvalidArgument` for what cannot be the name of a session or of a user.
    """
    session = thread_of(config) or str(state.get(SESSION) or "")
    return Scope(app, user(config) if callable(user) else user, session)


def thread_of(config: RunnableConfig) -> str:
    """The thread of a run; empty when it belongs to none."""
    found = config.get("configurable", {}).get("thread_id")
    return "" if found is None else str(found)


def new_session(config: RunnableConfig, state: Mapping[str, Any]) -> dict[str, str] | None:
    """A name for a run without a thread, as an update of its state; None where nothing is needed."""
    if thread_of(config) or state.get(SESSION):
        return None
    return {SESSION: f"run-{uuid4().hex}"}


def user_of_config(config: RunnableConfig) -> str:
    """`user_id` of the configuration, or `local`."""
    return str(config.get("configurable", {}).get("user_id") or "local")
