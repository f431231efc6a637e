"""The state of a thread, whatever is missing in it."""

from openskills.adapters.langchain.thread import Thread


def test_what_is_missing_and_what_is_none_are_the_same() -> None:
    keys = ("skills_metadata", "skills_loaded", "skill_resources", "messages", "skills_inherited", "skill_hooks_done")
    for thread in (Thread({}), Thread(dict.fromkeys(keys))):
        assert thread.skills is None
        assert (thread.loaded, thread.resources, thread.errors, thread.messages) == ((), {}, [], ())
        assert (thread.inherited, thread.hooks_done) == ((), ())


def test_a_thread_is_new_until_a_run_has_begun() -> None:
    assert Thread({}).is_new
    assert not Thread({"skills_load_errors": []}).is_new
