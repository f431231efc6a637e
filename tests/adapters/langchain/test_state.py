"""Lists of skills in checkpoints: small, and good for upstream's class too.

The reducers of a thread.

What a SKILL.md says about itself, for upstream's state.

What was made of the last lists.

The files of a skill; discovery itself is tested by the document's names.

The state of a thread, whatever is missing in it.
"""

from pathlib import Path
from typing import Any, cast

import deepagents
import pytest
from deepagents.middleware import skills as upstream
from deepagents.middleware.skills import SkillsMiddleware as Upstream
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from openskills.adapters.langchain.backend_io import run_blocking
from openskills.adapters.langchain.middleware import SkillsMiddleware
from openskills.adapters.langchain.state import (
    MAX_CHECKPOINT_SKILLS,
    CatalogChannel,
    CheckpointSkills,
    ListCache,
    LoadedChange,
    ResourceMetadata,
    ResourceType,
    ThreadState,
    discover_resources,
    get_extension,
    merge_entries,
    merge_loaded,
    merge_names,
    parse_metadata,
    select_loaded_skills,
    summarise_resources,
)
from tests.adapters.langchain.agents import SOURCES, Talk, deep
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.scripted import Scripted, load, says
from tests.servers.postgres import PostgresServer
from tests.skill_writer import WriteSkill

CLASSES: list[Any] = [Upstream, SkillsMiddleware]


def talk_of(kind: Any, backend: Any, saver: Any, script: Any = ()) -> Talk:
    """The thread `one` of an agent with upstream's class or ours."""
    model = Scripted(script=list(script))
    make: Any = deepagents
    middleware = [kind(backend=backend, sources=SOURCES)]
    return Talk(make.create_deep_agent(model, backend=backend, middleware=middleware, checkpointer=saver), model)


def channel_with(value: Any) -> CatalogChannel:
    channel = CatalogChannel(list)
    channel.key = "skills_metadata"
    channel.update([value])
    return channel


def stored(saver: InMemorySaver, talk: Talk) -> int:
    """Bytes of what a checkpoint has of skills."""
    checkpoint = saver.get(talk.config)
    assert checkpoint is not None
    values = {key: value for key, value in checkpoint["channel_values"].items() if "skill" in key}
    return len(JsonPlusSerializer().dumps_typed(values)[1])


def test_a_short_list_is_in_the_checkpoint_in_upstreams_form(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    saver = InMemorySaver()
    deep(backend, [], saver=saver).say()
    checkpoint = saver.get({"configurable": {"thread_id": "one"}})
    assert checkpoint is not None
    kept: Any = checkpoint["channel_values"]["skills_metadata"]
    assert type(cast("object", kept)) is list
    assert [skill["name"] for skill in kept] == ["pdf"]


def test_the_state_of_1000_skills_is_a_tenth_of_upstreams_at_most(write_skill: WriteSkill, backend: Any) -> None:
    for number in range(1000):
        write_skill(f"skill-{number:04}")
    sizes: list[int] = []
    for kind in CLASSES:
        saver = InMemorySaver()
        talk = talk_of(kind, backend, saver, [says(load("skill-0007"))])
        talk.say()
        sizes.append(stored(saver, talk))
    assert sizes[1] * 10 < sizes[0]


def test_writes_of_a_long_list_are_not_stored_either(write_skill: WriteSkill, backend: Any, tmp_path: Path) -> None:
    for number in range(200):
        write_skill(f"skill-{number:04}")
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        deep(backend, [], saver=saver).say()
        written = saver.conn.execute("select count(*) from writes where channel = 'skills_metadata'").fetchone()
        assert written == (0,)


@pytest.mark.parametrize("many", [1, MAX_CHECKPOINT_SKILLS + 1])
def test_a_thread_in_postgresql_goes_on(
    write_skill: WriteSkill, backend: Any, postgres_server: PostgresServer, many: int
) -> None:
    for number in range(many):
        write_skill(f"skill-{number:02}")
    with PostgresSaver.from_conn_string(postgres_server.new_database()) as saver:
        saver.setup()
        deep(backend, [says(load("skill-00"))], saver=saver).say()
        talk = deep(backend, [], saver=saver)
        talk.say()
        assert talk.loaded == ["skill-00"]
        assert "- **skill-00** [Loaded]:" in talk.model.prompt()
        assert ("skills_metadata" in talk.state) is (many <= MAX_CHECKPOINT_SKILLS)


@pytest.mark.parametrize("many", [1, MAX_CHECKPOINT_SKILLS + 1])
@pytest.mark.parametrize(("first", "second"), [CLASSES, CLASSES[::-1]])
def test_a_thread_of_one_class_goes_on_under_the_other(
    write_skill: WriteSkill, backend: Any, first: Any, second: Any, many: int
) -> None:
    for number in range(many):
        write_skill(f"skill-{number:02}")
    saver = InMemorySaver()
    talk_of(first, backend, saver, [says(load("skill-00"))] if first is SkillsMiddleware else []).say()
    talk = talk_of(second, backend, saver)
    talk.say("more")
    assert f"**skill-{many - 1:02}**" in talk.model.prompt()
    third = talk_of(first, backend, saver, [])
    third.say("and more")
    assert "**skill-00**" in third.model.prompt()
    assert len(third.state["messages"]) >= 6


def test_a_run_with_a_long_list_goes_on_after_an_interrupt_in_another_process(
    write_skill: WriteSkill, backend: Any
) -> None:
    for number in range(MAX_CHECKPOINT_SKILLS + 1):
        write_skill(f"skill-{number:02}", body=f"Body {number}.")
    saver = InMemorySaver()
    agent = {"interrupt_on": {"load_skill": True}}
    talk = deep(backend, [says(load("skill-00"))], saver=saver, agent=agent)
    talk.say()
    later = deep(backend, ["after"], saver=saver, agent=agent)
    later.agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), later.config)
    assert "Body 0." in later.results()["load-skill-00"]
    assert "- **skill-00** [Loaded]:" in later.model.prompt()
    assert "- **skill-16**:" in later.model.prompt()


def test_a_list_from_a_checkpoint_is_known_as_one() -> None:
    channel = channel_with([1]).from_checkpoint([1, 2])
    assert isinstance(channel.get(), CheckpointSkills)
    assert channel.get() == [1, 2]
    assert type(channel.checkpoint()) is list


def test_of_several_writes_in_one_step_the_last_counts() -> None:
    channel = channel_with([1])
    channel.update([[1], [1, 2]])
    assert channel.get() == [1, 2]
    assert not channel.update([])


def test_a_request_to_look_again_is_kept() -> None:
    assert channel_with(None).checkpoint() is None
    assert channel_with([1]).from_checkpoint(None).get() is None


def test_a_request_to_look_again_can_be_written_between_runs(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("one")
    talk = deep(backend, [], rescan=False)
    talk.say()
    write_skill("two")
    talk.agent.update_state(talk.config, {"skills_metadata": None})
    talk.say()
    assert "**two**" in talk.model.prompt()


def test_a_list_that_is_passed_in_is_taken_as_it_is(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("one")
    talk = deep(backend, [])
    talk.agent.invoke({"messages": [HumanMessage("go")], "skills_metadata": []}, talk.config)
    assert "No skills available yet" in talk.model.prompt()


NAMES = st.sampled_from("abcdef")


def test_loading_appends_and_unloading_removes() -> None:
    loaded = merge_loaded(None, LoadedChange(load=["a", "b"]))
    assert loaded == ["a", "b"]
    assert merge_loaded(loaded, LoadedChange(unload=["a"])) == ["b"]
    assert merge_loaded(loaded, LoadedChange(unload=["nothing"])) == ["a", "b"]


def test_one_change_can_make_room_for_itself() -> None:
    assert merge_loaded(["a"], LoadedChange(unload=["a"], load=["b"], limit=1)) == ["b"]
    assert merge_loaded(["a"], LoadedChange(unload=["a"], load=["a"], limit=1)) == ["a"]


def test_nothing_is_loaded_beyond_the_limit_or_twice() -> None:
    assert merge_loaded(["a"], LoadedChange(load=["b"], limit=1)) == ["a"]
    assert merge_loaded(["a"], LoadedChange(load=["a", "b", "b"], limit=5)) == ["a", "b"]


def test_a_plain_list_adds_its_names() -> None:
    assert merge_loaded(["a"], ["a", "b"]) == ["a", "b"]
    assert merge_loaded(["a"], []) == ["a"]
    assert merge_loaded(["a"], None) == ["a"]


def test_a_thread_is_never_changed_in_place() -> None:
    before = ["a"]
    merge_loaded(before, LoadedChange(load=["b"], unload=["a"]))
    assert before == ["a"]


@given(st.lists(NAMES, unique=True), st.lists(NAMES, unique=True), st.lists(NAMES, unique=True))
def test_changes_of_different_skills_commute(start: list[str], one: list[str], two: list[str]) -> None:
    first = LoadedChange(load=[name for name in one if name not in two])
    second = LoadedChange(unload=[name for name in two if name not in one])
    forth = merge_loaded(merge_loaded(start, first), second)
    back = merge_loaded(merge_loaded(start, second), first)
    assert sorted(forth) == sorted(back)


@given(st.lists(st.tuples(st.booleans(), NAMES)), st.integers(1, 4))
def test_no_sequence_of_changes_overruns_the_limit(changes: list[tuple[bool, str]], limit: int) -> None:
    loaded: list[str] = []
    for adds, name in changes:
        change = LoadedChange(load=[name], limit=limit) if adds else LoadedChange(unload=[name])
        loaded = merge_loaded(loaded, change)
        assert len(loaded) <= limit
        assert len(set(loaded)) == len(loaded)


def test_entries_are_replaced_added_and_removed() -> None:
    assert merge_entries({"a": 1, "b": 2}, {"a": None, "b": 3, "c": 4}) == {"b": 3, "c": 4}
    assert merge_entries(None, {"a": None}) == {}
    assert merge_entries({"a": 1}, None) == {"a": 1}


def test_names_are_kept_once() -> None:
    assert merge_names(["a"], ["b", "a"]) == ["a", "b"]
    assert merge_names(None, None) == []


PLAIN = "---\nname: pdf\ndescription: Fills forms.\n---\n\nBody\n"


def read(text: str, directory: str = "pdf", **options: Any) -> Any:
    return parse_metadata(text.encode(), f"/skills/{directory}/SKILL.md", directory, **options)


@pytest.mark.parametrize(
    "front",
    [
        "license: MIT\n",
        "compatibility: Python 3.12, poppler\n",
        "metadata:\n  author: me\n  version: '1.0'\n",
        "allowed-tools: search fetch\n",
        "allowed-tools: search, fetch\n",
        "allowed-tools:\n  - search\n  - fetch\n",
        "license: ''\nallowed-tools:\n",
    ],
)
def test_it_is_what_upstream_reads(front: str) -> None:
    text = f"---\nname: pdf\ndescription: Fills forms.\n{front}---\n\nBody\n"
    theirs: Any = upstream
    assert read(text) == theirs._parse_skill_metadata(text, "/skills/pdf/SKILL.md", "pdf")


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("Fills forms.", "Fills forms: all of them."),
        "---\nname: pdf\ndescription: Fills forms.\n---",
    ],
)
def test_what_clients_stumble_over_is_read(text: str) -> None:
    found = read(text)
    assert found["name"] == "pdf"
    assert found["description"].startswith("Fills forms")


@pytest.mark.parametrize(
    "content",
    [
        b"no front matter",
        b"---\nname: pdf\n---\n",
        b"---\ndescription: x\n---\n",
        b"---\nname: \xff\n---\n",
        b"---\nname: pdf\ndescription: x\n---\n" + b"x" * (10 * 1024 * 1024),
        b"",
    ],
)
def test_what_is_not_a_skill_is_skipped_with_a_warning(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert parse_metadata(content, "/skills/pdf/SKILL.md", "pdf") is None
    assert "/skills/pdf/SKILL.md" in caplog.text


@pytest.mark.parametrize("name", ["PDF", "pdf-", "p--df", "x" * 65, "other"])
def test_a_name_against_the_specification_is_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    directory = name if name != "other" else "pdf"
    assert read(PLAIN.replace("name: pdf", f"name: {name}"), directory)["name"] == name
    assert "does not follow the specification" in caplog.text


def test_a_good_name_is_not_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    read(PLAIN)
    assert caplog.text == ""


def test_long_texts_are_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    found = read(f"---\nname: pdf\ndescription: {'d' * 1025}\ncompatibility: {'c' * 501}\n---\n")
    assert (len(found["description"]), len(found["compatibility"])) == (1024, 500)
    assert caplog.text.count("characters") == 2


def test_fields_beyond_the_specification_are_there_only_when_asked_for() -> None:
    text = PLAIN.replace("---\n\n", "model: big\ndisable-model-invocation: true\n---\n\n")
    assert "extensions" not in read(text)
    found = read(text, extended=True)
    assert found["extensions"] == {"model": "big", "disable_model_invocation": True}
    assert get_extension(found, "model") == "big"
    assert get_extension(found, "context") is None
    assert get_extension(read(text), "model") is None
    assert "extensions" not in read(PLAIN)
    assert read(PLAIN, extended=True).get("extensions") == {}, "there is nothing, and somebody looked"


def test_loaded_skills_come_in_the_order_of_loading() -> None:
    skills = [entry("a"), entry("b"), entry("c")]
    assert [skill["name"] for skill in select_loaded_skills(skills, ["c", "gone", "a"])] == ["c", "a"]


def test_a_name_is_one_line() -> None:
    assert read(PLAIN.replace("name: pdf", 'name: "a\\n- **b**"'))["name"] == "a - **b**"


def test_it_is_made_once_for_the_same_list_under_the_same_circumstances() -> None:
    made: list[int] = []
    recent, items = ListCache[int](), ["a"]

    def make() -> int:
        made.append(1)
        return len(made)

    assert [recent.get(items, "x", make) for _ in range(3)] == [1, 1, 1]
    assert recent.get(items, "y", make) == 2
    assert recent.get(["a"], "x", make) == 3, "an equal list is another one"
    items.append("b")
    assert recent.get(items, "x", make) == 4


def test_only_so_many_are_kept() -> None:
    recent = ListCache[str](max_entries=2)
    lists = [[str(number)] for number in range(5)]
    for one in lists:
        recent.get(one, None, lambda one=one: one[0])
    assert recent.get(lists[0], None, lambda: "made again") == "made again"
    assert recent.get(lists[0], None, lambda: "not this time") == "made again"


def of(*kinds: ResourceType) -> list[ResourceMetadata]:
    return [ResourceMetadata(path="/x", type=kind, skill_name="pdf") for kind in kinds]


def test_a_summary_counts_kinds() -> None:
    assert summarise_resources(of("script", "reference", "script")) == "1 reference, 2 scripts"
    assert summarise_resources([]) == ""


def test_a_standard_directory_that_cannot_be_listed_hides_no_other_file(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    (skill / "notes.md").write_text("x", "utf-8")
    (skill / "scripts").symlink_to("nowhere")
    found = run_blocking(discover_resources("/skills/pdf", "pdf"), backend)
    assert [resource["path"] for resource in found] == ["/skills/pdf/notes.md"]


def test_what_is_missing_and_what_is_none_are_the_same() -> None:
    keys = ("skills_metadata", "skills_loaded", "skill_resources", "messages", "skills_inherited", "skill_hooks_done")
    for thread in (ThreadState({}), ThreadState(dict.fromkeys(keys))):
        assert thread.skills is None
        assert (thread.loaded, thread.resources, thread.errors, thread.messages) == ((), {}, [], ())
        assert (thread.caller_skills, thread.hooks_done) == ((), ())


def test_a_thread_is_new_until_a_run_has_begun() -> None:
    assert ThreadState({}).is_new
    assert not ThreadState({"skills_load_errors": []}).is_new


def test_a_list_of_a_checkpoint_without_fields_that_are_needed_is_none() -> None:
    plain, full = CheckpointSkills([entry("a")]), CheckpointSkills([entry("a", extensions={})])
    assert ThreadState({"skills_metadata": plain}).skills_for(extended=True) is None
    assert ThreadState({"skills_metadata": plain}).skills_for(extended=False) is plain
    assert ThreadState({"skills_metadata": full}).skills_for(extended=True) is full
    given = [entry("a")]
    assert ThreadState({"skills_metadata": given}).skills_for(extended=True) is given, "the caller knows what he wants"
