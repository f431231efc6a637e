"""What a thread remembers."""

from openskills.adapters.langchain.runtime_state import loaded_skills
from openskills.adapters.langchain.session_channel import fold, plain_changes
from openskills.session.changes import Loaded, Recorded


def test_what_is_loaded_can_be_read_from_the_values_of_a_thread() -> None:
    changes = [Recorded(2, "assistant", Loaded("pdf")), Recorded(1, "assistant", Loaded("docx"))]
    values = {"openskills_state": fold(None, plain_changes(changes))}
    assert loaded_skills(values) == ("docx", "pdf")
    assert loaded_skills(values, "somebody else") == ()


def test_a_thread_without_the_middleware_has_nothing_loaded() -> None:
    assert loaded_skills({"messages": []}) == ()
