"""Whose session a run is."""

import pytest
from langchain_core.runnables import RunnableConfig

from openskills.adapters.langchain.runtime_threads import new_session, scope_of, thread_of, user_of_config
from openskills.artifacts.store import Scope
from openskills.errors import InvalidArgument

THREAD: RunnableConfig = {"configurable": {"thread_id": 7, "user_id": "ada"}}
NOBODY: RunnableConfig = {}


def test_a_thread_is_a_session_whatever_the_type_of_its_name() -> None:
    assert thread_of(THREAD) == "7"
    assert scope_of(THREAD, {}, "app", "me") == Scope("app", "me", "7")


def test_the_user_is_found_in_the_configuration() -> None:
    assert scope_of(THREAD, {}, "app", user_of_config).user == "ada"
    assert user_of_config(NOBODY) == "local"


def test_a_run_without_a_thread_gets_a_name_once() -> None:
    named = new_session(NOBODY, {})
    assert named is not None
    assert new_session(NOBODY, named) is None
    assert scope_of(NOBODY, named, "app", "me").session == named["openskills_session"]
    assert new_session(NOBODY, {}) != named
    assert new_session(THREAD, {}) is None


def test_without_any_name_there_is_no_session() -> None:
    with pytest.raises(InvalidArgument, match="session"):
        scope_of(NOBODY, {}, "app", "me")
