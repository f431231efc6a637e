"""The state of a thread, whatever is missing in it."""

from openskills.adapters.langchain.catalog_channel import Remembered
from openskills.adapters.langchain.thread import Thread
from tests.adapters.langchain.entries import entry


def test_what_is_missing_and_what_is_none_are_the_same() -> None:
    keys = ("skills_metadata", "skills_loaded", "skill_resources", "messages", "skills_inherited", "skill_hooks_done")
    for thread in (Thread({}), Thread(dict.fromkeys(keys))):
        assert thread.skills is None
        assert (thread.loaded, thread.resources, thread.errors, thread.messages) == ((), {}, [], ())
        assert (thread.inherited, thread.hooks_done) == ((), ())


def test_a_thread_is_new_until_a_run_has_begun() -> None:
    assert Thread({}).is_new
    assert not Thread({"skills_load_errors": []}).is_new


def test_a_list_of_a_checkpoint_without_fields_that_are_needed_is_none() -> None:
    plain, full = Remembered([entry("a")]), Remembered([entry("a", extensions={})])
    assert Thread({"skills_metadata": plain}).skills_for(extended=True) is None
    assert Thread({"skills_metadata": plain}).skills_for(extended=False) is plain
    assert Thread({"skills_metadata": full}).skills_for(extended=True) is full
    given = [entry("a")]
    assert Thread({"skills_metadata": given}).skills_for(extended=True) is given, "the caller knows what he wants"
