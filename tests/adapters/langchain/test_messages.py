"""Marks on messages.

Words of hooks at the end of results.

Names of tools in skills of other clients.

Sentences for the model, as the design document has them.
"""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from openskills.adapters.langchain import messages
from openskills.adapters.langchain.messages import (
    MARK_KEY,
    LoadChange,
    SkillMark,
    append_notes,
    compute_digest,
    find_intact_loads,
    get_text,
    list_tool_names,
    parse_mark,
    replace_own_text,
    replace_text,
    to_tool_names,
)


def message(text: str, mark: SkillMark | None) -> ToolMessage:
    return ToolMessage(text, tool_call_id="1", additional_kwargs=mark.to_kwargs() if mark else {})


def load(name: str, text: str = "text", change: LoadChange = "load") -> ToolMessage:
    return message(text, SkillMark(name, change, ("x",), "d", len(text)))


def test_a_mark_is_read_as_it_was_written() -> None:
    mark = SkillMark("pdf", "load", ("a", "b"), "digest", 12)
    assert parse_mark(message("t", mark)) == mark


@pytest.mark.parametrize(
    "raw", [None, "text", {}, {"skill": 3, "change": "load"}, {"skill": "a", "change": "other"}, {"change": "load"}]
)
def test_what_is_not_a_mark_is_none(raw: Any) -> None:
    assert parse_mark(ToolMessage("t", tool_call_id="1", additional_kwargs={MARK_KEY: raw})) is None


def test_a_mark_of_another_version_is_never_whole() -> None:
    odd = ToolMessage("", tool_call_id="1", additional_kwargs={MARK_KEY: {"skill": "a", "change": "load", "before": 3}})
    assert parse_mark(odd) == SkillMark("a", "load", (), "", -1)
    assert find_intact_loads([odd]) == {}


def test_the_text_of_blocks_is_their_text() -> None:
    blocks: Any = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert get_text(AIMessage(blocks)) == "one two"
    assert get_text(HumanMessage("plain")) == "plain"


def test_a_loading_is_whole_until_its_text_changes_or_it_is_unloaded() -> None:
    first = load("a")
    assert list(find_intact_loads([HumanMessage("x"), first])) == ["a"]
    assert find_intact_loads([first.model_copy(update={"content": "te..."})]) == {}
    assert find_intact_loads([first, load("a", change="unload")]) == {}
    assert list(find_intact_loads([first, load("a", change="none")])) == ["a"]
    assert list(find_intact_loads([first, load("a", change="unload"), load("a", "new")])) == ["a"]


def test_the_last_loading_of_a_skill_counts() -> None:
    second = load("a", "new text")
    assert find_intact_loads([load("a"), second])["a"][1] is second


def test_a_retold_message_stays_whole_or_broken() -> None:
    told = replace_text(load("a"), "another text")
    assert list(find_intact_loads([told])) == ["a"]
    broken = replace_text(load("a").model_copy(update={"content": "te..."}), "te... and more")
    assert find_intact_loads([broken]) == {}
    plain = replace_text(message("t", None), "new")
    assert (plain.text, parse_mark(plain)) == ("new", None)


def test_different_bytes_have_different_digests() -> None:
    assert compute_digest(b"a") == compute_digest(b"a") != compute_digest(b"b")


def test_a_loading_stays_whole_when_others_put_words_around_it() -> None:
    marked = message("text", SkillMark("a", "load", (), "d").for_text("text"))
    for text in ("Note: edited.\ntext", "text\nand more"):
        assert list(find_intact_loads([marked.model_copy(update={"content": text})])) == ["a"]
    for text in ("Note: edited.\ntex", "before text behind", "other"):
        assert find_intact_loads([marked.model_copy(update={"content": text})]) == {}


def test_a_restated_message_keeps_the_words_before_it() -> None:
    marked = message("text", SkillMark("a", "load", (), "d").for_text("text")).model_copy(
        update={"content": "Note. text"}
    )
    told = replace_own_text(marked, "other words", "none")
    assert told.text == "Note. other words"
    found = parse_mark(told)
    assert found is not None
    assert found.change == "none"
    assert replace_own_text(message("text", None), "new").text == "new"


def result(text: str = "result", call_id: str = "1") -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id)


def test_without_notes_a_result_is_what_it_was() -> None:
    message = result()
    assert append_notes(message, "1", [], []) is message


def test_notes_stand_below_a_result() -> None:
    noted = append_notes(result(), "1", ["one", "two"], [])
    assert isinstance(noted, ToolMessage)
    assert noted.text == "result\n\none\n\ntwo"


def test_hooks_that_ran_are_remembered() -> None:
    noted = append_notes(result(), "1", [], ["hook"])
    assert isinstance(noted, Command)
    assert noted.update == {"messages": [result()], "skill_hooks_done": ["hook"]}


def test_only_the_result_of_the_call_gets_them_and_other_changes_stay() -> None:
    mark = SkillMark("pdf", "load", (), "d", 6)
    ours = result().model_copy(update={"additional_kwargs": mark.to_kwargs()})
    others: list[Any] = [HumanMessage("x"), result(call_id="2")]
    command: Command[Any] = Command(update={"messages": [*others, ours], "files": 1}, goto="x")
    noted = append_notes(command, "1", ["note"], ["hook"])
    assert isinstance(noted, Command)
    update: Any = noted.update
    assert update["messages"][:2] == others
    assert update["messages"][2].text == "result\n\nnote"
    assert list(find_intact_loads(update["messages"])) == ["pdf"]
    assert (update["files"], update["skill_hooks_done"], noted.goto) == (1, ["hook"], "x")


def test_a_command_without_changes_is_passed_on() -> None:
    command: Command[Any] = Command(goto="x")
    assert append_notes(command, "1", ["note"], []) is command


def test_a_tool_of_another_client_is_known_by_its_name_here() -> None:
    assert [to_tool_names(name)[1] for name in ("Read", "bash", "Write", "search")] == [
        *("read_file", "execute", "write_file", "search")
    ]


def test_a_tool_has_every_name_that_skills_use_for_it() -> None:
    assert list_tool_names("execute") == ("execute", "bash", "shell")
    assert list_tool_names("ls") == ("ls",)
    assert list_tool_names("search") == ("search",)


def test_of_many_skills_the_most_similar_are_named() -> None:
    names = [f"skill-{number}" for number in range(60)]
    assert messages.format_unknown_skill("skil-7", names[:50]).endswith("skill-48, skill-49")
    text = messages.format_unknown_skill("skil-7", names)
    assert "Available skills: skill-7, " in text
    assert text.endswith("and 50 more in the skills list")
    assert "skill-0, skill-1" in messages.format_unknown_skill("????????", names)


def test_sentences_name_what_to_do() -> None:
    assert messages.format_limit_reached("c", ["a", "b"], 2) == (
        "Error: Cannot load skill 'c'. Maximum number of simultaneously loaded skills reached (2). "
        'Currently loaded: a, b. Use `unload_skill("skill-name")` to unload a skill you no longer need, '
        "then retry loading."
    )
    assert messages.format_unloaded("a", ["b"], 3).startswith(
        "Skill 'a' has been unloaded. Currently loaded: 1/3 (2 slot(s) available). Note: "
    )
    assert "[Loaded]" not in messages.format_unloaded("a", [], 3, marked=False)
    assert messages.format_not_loaded("a", ["b"]).endswith("Currently loaded skills: b.")
    assert messages.format_state_line([], 3) == "Loaded skills: (none) (0/3)."
    assert "a, b" in messages.format_forgotten(["a", "b"])
    assert messages.format_manual_only("a").startswith("Error: Skill 'a'")


def test_a_name_that_means_nothing_is_not_repeated_whole() -> None:
    name = "z" * 200_000
    for text in (
        messages.format_unknown_skill(name, ["a"]),
        messages.format_unknown_skill(name, ["a"] * 60),
        messages.format_not_loaded(name, ["a"]),
    ):
        assert len(text) < 400
        assert "z" * 100 in text


def test_sources_that_could_not_be_read_are_named_when_a_skill_is_missing() -> None:
    assert messages.format_unknown_skill("a", [], ["no '/x/'"]).endswith(". Some skills may be missing: no '/x/'")
