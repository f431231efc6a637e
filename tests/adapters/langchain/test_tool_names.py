"""Names of tools in skills of other clients."""

from openskills.adapters.langchain.tool_names import name_here, names_of


def test_a_tool_of_another_client_is_known_by_its_name_here() -> None:
    assert [name_here(name) for name in ("Read", "bash", "Write", "search")] == [
        *("read_file", "execute", "write_file", "search")
    ]


def test_a_tool_has_every_name_that_skills_use_for_it() -> None:
    assert names_of("execute") == ("execute", "Bash", "Shell")
    assert names_of("ls") == ("ls",)
    assert names_of("search") == ("search",)
