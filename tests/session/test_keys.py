"""The state of a conversation as keys and texts that others know, too.

Keys from before agents were told apart become those of their owner.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.session.events import apply_delta
from openskills.session.keys import (
    build_delta,
    docs_key,
    loaded_key,
    loaded_prefix,
    migrate_keys,
    order_key,
    parse_array,
    parse_docs,
    runnable_key,
    state_from_keys,
    state_to_keys,
)
from openskills.session.state import (
    ALL,
    Consumed,
    DocsChosen,
    Loaded,
    RecordedChange,
    SkillState,
    Unloaded,
    apply_changes,
)
from tests.session.strategies import changes, numbered, seen

LOADED = "temp:skill:loaded_by_agent:"
DOCS = "temp:skill:docs_by_agent:"
ORDER = "temp:skill:loaded_order_by_agent:"

GARBAGE = ["", "0", "yes", "null", "{}", '{"a": 1}', '["a"', "[1]", '["a", 1]', '"a"', "[" * 100_000, "9" * 5000, "\0"]


def state(*happened: RecordedChange) -> SkillState:
    return apply_changes(SkillState(), happened)


def test_the_keys_are_those_of_the_documents() -> None:
    made = state(
        RecordedChange(1, "assistant", Loaded("pdf", ("z.md", "docs/a.md"))),
        RecordedChange(2, "assistant", Loaded("csv", (ALL,))),
        RecordedChange(3, "assistant", DocsChosen("pdf", (), added=True)),
    )
    assert state_to_keys(made) == {
        "temp:skill:loaded_by_agent:assistant/pdf": "1",
        "temp:skill:loaded_by_agent:assistant/csv": "1",
        "temp:skill:docs_by_agent:assistant/pdf": '["docs/a.md","z.md"]',
        "temp:skill:docs_by_agent:assistant/csv": "*",
        "temp:skill:loaded_order_by_agent:assistant": '["csv","pdf"]',
    }


def test_what_is_not_loaded_has_no_key() -> None:
    made = state(RecordedChange(1, "main", Loaded("pdf", ("a.md",))), RecordedChange(2, "main", Unloaded("pdf")))
    assert state_to_keys(made) == {}


def test_a_skill_that_was_seen_once_has_a_key_of_its_own() -> None:
    made = state(RecordedChange(1, "main", Loaded("pdf")), RecordedChange(2, "main", Consumed("pdf")))
    assert state_to_keys(made) == {"temp:skill:runnable_by_agent:main/pdf": "1"}
    view = state_from_keys(state_to_keys(made)).view_for("main")
    assert (view.is_loaded("pdf"), view.can_run("pdf")) == (False, True)


@pytest.mark.parametrize(
    ("agent", "escaped"),
    [
        ("assistant", "assistant"),
        ("my agent 图 ?#", "my agent 图 ?#"),
        ("team/writer", "team%2Fwriter"),
        ("team%2Fwriter", "team%252Fwriter"),
        ("team/the writer", "team%2Fthe%20writer"),
        ("a/b$&+:=@-_.~;,?", "a%2Fb$&+:=@-_.~%3B%2C%3F"),
        ("团队/作者", "%E5%9B%A2%E9%98%9F%2F%E4%BD%9C%E8%80%85"),
        ("100%", "100%25"),
    ],
)
def test_an_agent_is_escaped_only_when_it_has_to_be(agent: str, escaped: str) -> None:
    assert loaded_prefix(agent) == f"{LOADED}{escaped}/"
    assert loaded_key(agent, "pdf") == f"{LOADED}{escaped}/pdf"
    assert docs_key(agent, "pdf") == f"{DOCS}{escaped}/pdf"
    assert order_key(agent) == f"{ORDER}{escaped}"
    assert runnable_key(agent, "pdf") == f"temp:skill:runnable_by_agent:{escaped}/pdf"
    assert state_from_keys({loaded_key(agent, "pdf"): "1"}).view_for(agent).list_loaded() == ("pdf",)


@pytest.mark.parametrize("agent", ["a%20b", "%ff", "%", "%zz", "a%2fb"])
def test_an_agent_that_we_would_have_escaped_otherwise_is_read_as_it_stands(agent: str) -> None:
    assert state_from_keys({f"{LOADED}{agent}/pdf": "1"}).view_for(agent).list_loaded() == ("pdf",)


@given(st.text(), st.text())
def test_two_agents_never_have_the_same_key(first: str, second: str) -> None:
    assert (loaded_prefix(first) == loaded_prefix(second)) == (first == second)
    assert (order_key(first) == order_key(second)) == (first == second)


@given(st.text(st.characters(), min_size=1), st.text(st.characters(), min_size=1))
def test_whatever_an_agent_and_a_skill_are_called_they_come_back(agent: str, skill: str) -> None:
    made = state(RecordedChange(1, agent, Loaded(skill, ("a.md",))))
    view = state_from_keys(state_to_keys(made)).view_for(agent)
    assert view.list_loaded() == (skill,)
    assert view.docs(skill) == ("a.md",)


def test_the_order_is_the_order_of_touch() -> None:
    keys = {f"{LOADED}main/{name}": "1" for name in "abc"} | {f"{ORDER}main": '["c","a","b"]'}
    assert state_from_keys(keys).view_for("main").list_loaded() == ("c", "a", "b")


def test_a_loaded_skill_that_the_order_does_not_name_is_older() -> None:
    keys = {f"{LOADED}main/{name}": "1" for name in ("d", "b", "c", "a")} | {f"{ORDER}main": '["c","x","a"]'}
    assert state_from_keys(keys).view_for("main").list_loaded() == ("b", "d", "c", "a")


def test_a_skill_that_the_order_names_twice_was_touched_at_the_later_place() -> None:
    keys = {f"{LOADED}main/{name}": "1" for name in "ab"} | {f"{ORDER}main": '["a","b","a"]'}
    assert state_from_keys(keys).view_for("main").list_loaded() == ("b", "a")


def test_being_in_the_order_loads_nothing() -> None:
    view = state_from_keys({f"{ORDER}main": '["a"]'}).view_for("main")
    assert view.list_loaded() == ()
    assert not view.can_run("a")


def test_a_selection_without_its_skill_is_kept_and_loads_nothing() -> None:
    view = state_from_keys({f"{DOCS}main/a": '["x.md"]'}).view_for("main")
    assert view.list_loaded() == ()
    assert not view.can_run("a")
    assert view.docs("a") == ("x.md",)


@pytest.mark.parametrize("text", [*GARBAGE, None, 1, b"1", ["a"], True], ids=lambda text: repr(text)[:12])
def test_a_text_that_means_nothing_loads_nothing_and_breaks_nothing(text: object) -> None:
    keys: dict[str, object] = {f"{LOADED}main/a": text, f"{DOCS}main/a": text, f"{ORDER}main": text}
    view = state_from_keys(keys).view_for("main")
    assert view.list_loaded() == ()
    assert not view.can_run("a")
    assert view.docs("a") == ()
    good = state_from_keys(keys | {f"{LOADED}main/b": "1", f"{LOADED}main/a": "1"}).view_for("main")
    assert good.list_loaded() == ("a", "b")


@pytest.mark.parametrize("key", ["", LOADED, f"{LOADED}main", f"{LOADED}main/", "temp:skill:loaded:a", "user:x", ORDER])
def test_a_key_that_is_none_of_ours_is_passed_over(key: str) -> None:
    assert state_from_keys({key: "1"}).entries == {}


@pytest.mark.parametrize(
    ("text", "docs"),
    [("*", (ALL,)), ('["*","a"]', (ALL,)), ('["b","a","b"]', ("a", "b")), ("[]", ()), ("x", ()), (None, ())],
)
def test_a_selection_is_every_document_or_a_sorted_list(text: str | None, docs: tuple[str, ...]) -> None:
    assert parse_docs(text) == docs


def test_an_array_has_only_texts_in_it() -> None:
    assert parse_array('["a", "图"]') == ("a", "图")
    assert parse_array('["a", null]') == ()


def test_a_change_after_the_clock_is_newer_than_what_was_read() -> None:
    keys = {f"{LOADED}main/{name}": "1" for name in "abc"}
    read = state_from_keys(keys)
    assert read.clock == 3
    assert apply_changes(read, [RecordedChange(4, "main", Unloaded("c"))]).view_for("main").list_loaded() == ("a", "b")
    assert state_from_keys(keys, clock=17).clock == 17


@given(numbered(changes))
def test_a_state_that_goes_into_keys_and_back_is_seen_as_before(made: list[RecordedChange]) -> None:
    before = state(*made)
    after = state_from_keys(state_to_keys(before))
    assert seen(after) == seen(before)
    assert state_to_keys(after) == state_to_keys(before)


@given(numbered(changes), numbered(changes))
def test_a_delta_makes_the_keys_of_one_state_those_of_another(
    first: list[RecordedChange], more: list[RecordedChange]
) -> None:
    before = state(*first)
    after = apply_changes(before, [RecordedChange(one.at + len(first), one.agent, one.change) for one in more])
    assert apply_delta(state_to_keys(before), build_delta(before, after)) == state_to_keys(after)
    assert not set(build_delta(before, after).items()) & set(state_to_keys(before).items())
    assert build_delta(after, after) == {}


@given(numbered(changes), numbered(changes))
def test_changes_after_a_return_from_keys_mean_what_they_meant_before(
    first: list[RecordedChange], more: list[RecordedChange]
) -> None:
    before = state(*first)
    back = state_from_keys(state_to_keys(before), before.clock)
    later = [RecordedChange(back.clock + one.at, one.agent, one.change) for one in more]
    assert seen(apply_changes(back, later)) == seen(apply_changes(before, later))


names = st.sampled_from([LOADED, DOCS, ORDER, "temp:skill:runnable_by_agent:", "temp:skill:"])
foreign_keys = st.tuples(names, st.text("ab/%2F图", max_size=8)).map("".join)
foreign_texts = st.sampled_from(["1", "*", '["a"]', '["b","a"]', "[]"]) | st.text(max_size=4)


@given(st.dictionaries(foreign_keys, foreign_texts))
def test_whatever_lies_in_a_store_can_be_read_and_only_a_flag_loads(keys: dict[str, str]) -> None:
    read = state_from_keys(keys)
    flags = [key for key, text in keys.items() if key.startswith(LOADED) and text == "1"]
    assert sum(len(read.view_for(agent).list_loaded()) for agent in {agent for agent, _ in read.entries}) <= len(flags)
    assert state_to_keys(state_from_keys(state_to_keys(read))) == state_to_keys(read)


LEGACY_LOADED = "temp:skill:loaded:"
LEGACY_DOCS = "temp:skill:docs:"
LEGACY_ORDER = "temp:skill:loaded_order:"


def nobody(_: str) -> str | None:
    return None


def test_a_state_without_old_keys_stays_as_it_is() -> None:
    keys = {"temp:skill:loaded_by_agent:main/pdf": "1", "temp:skill:loaded_order_by_agent:main": '["pdf"]', "x": "y"}
    assert migrate_keys(keys, "main", nobody) == {}


def test_an_old_skill_becomes_that_of_the_current_agent() -> None:
    keys = {f"{LEGACY_LOADED}pdf": "1", f"{LEGACY_DOCS}pdf": '["b.md","a.md"]', "other": "stays"}
    assert migrate_keys(keys, "team/main", nobody) == {
        f"{LEGACY_LOADED}pdf": None,
        f"{LEGACY_DOCS}pdf": None,
        "temp:skill:loaded_by_agent:team%2Fmain/pdf": "1",
        "temp:skill:docs_by_agent:team%2Fmain/pdf": '["a.md","b.md"]',
    }


def test_an_old_skill_becomes_that_of_the_agent_who_touched_it_last() -> None:
    keys = {f"{LEGACY_LOADED}pdf": "1", f"{LEGACY_LOADED}csv": "1", f"{LEGACY_DOCS}csv": "*"}
    moved = state_from_keys(apply_delta(keys, migrate_keys(keys, "main", {"csv": "helper"}.get)))
    assert moved.view_for("main").list_loaded() == ("pdf",)
    assert moved.view_for("helper").list_loaded() == ("csv",)
    assert moved.view_for("helper").docs("csv") == ("*",)


def test_where_the_owner_has_a_value_the_old_one_is_only_cleared() -> None:
    keys = {f"{LEGACY_DOCS}pdf": "*", "temp:skill:docs_by_agent:main/pdf": '["a.md"]'}
    assert migrate_keys(keys, "main", nobody) == {f"{LEGACY_DOCS}pdf": None}


def test_an_empty_value_of_the_owner_does_not_stand_in_the_way() -> None:
    keys = {f"{LEGACY_LOADED}pdf": "1", "temp:skill:loaded_by_agent:main/pdf": ""}
    assert migrate_keys(keys, "main", nobody)["temp:skill:loaded_by_agent:main/pdf"] == "1"


def test_without_owner_and_agent_an_old_key_stays() -> None:
    keys = {f"{LEGACY_LOADED}pdf": "1", f"{LEGACY_LOADED}csv": "1", LEGACY_ORDER: '["pdf","csv"]'}
    changed = migrate_keys(keys, "", {"csv": "helper"}.get)
    assert changed == {f"{LEGACY_LOADED}csv": None, "temp:skill:loaded_by_agent:helper/csv": "1"}


@pytest.mark.parametrize("key", [LEGACY_LOADED, LEGACY_DOCS, f"{LEGACY_LOADED}pdf", f"{LEGACY_DOCS}pdf", LEGACY_ORDER])
def test_an_old_key_without_name_or_value_is_passed_over(key: str) -> None:
    assert migrate_keys({key: "" if key.endswith("pdf") or key == LEGACY_ORDER else "1"}, "main", nobody) == {}


@pytest.mark.parametrize("text", ["yes", "0", "[1]", "[" * 100_000, "null"], ids=lambda text: text[:5])
def test_an_old_text_that_means_nothing_is_only_cleared(text: str) -> None:
    keys = {f"{LEGACY_LOADED}pdf": text, f"{LEGACY_DOCS}pdf": text, LEGACY_ORDER: text}
    assert migrate_keys(keys, "main", nobody) == dict.fromkeys(keys)


def test_the_old_order_is_kept_for_each_owner() -> None:
    keys = {f"{LEGACY_LOADED}{name}": "1" for name in "abcd"} | {LEGACY_ORDER: '["d","b","x","c","a"]'}
    moved = state_from_keys(apply_delta(keys, migrate_keys(keys, "main", {"b": "helper", "c": "helper"}.get)))
    assert moved.view_for("main").list_loaded() == ("d", "a")
    assert moved.view_for("helper").list_loaded() == ("b", "c")


def test_what_the_owner_touched_since_is_later_than_the_old_order() -> None:
    own = {"temp:skill:loaded_by_agent:main/new": "1", "temp:skill:loaded_order_by_agent:main": '["new"]'}
    keys = {f"{LEGACY_LOADED}b": "1", f"{LEGACY_LOADED}a": "1", LEGACY_ORDER: '["b","a","new"]'} | own
    after = apply_delta(keys, migrate_keys(keys, "main", nobody))
    assert state_from_keys(after).view_for("main").list_loaded() == ("b", "a", "new")
    assert LEGACY_ORDER not in after


def test_a_skill_that_is_called_like_a_key_is_moved_whole() -> None:
    keys = {f"{LEGACY_LOADED}{LEGACY_DOCS}x": "1"}
    assert state_from_keys(apply_delta(keys, migrate_keys(keys, "main", nobody))).view_for("main").list_loaded() == (
        f"{LEGACY_DOCS}x",
    )


def test_what_has_been_migrated_is_not_migrated_again() -> None:
    keys = {
        f"{LEGACY_LOADED}pdf": "1",
        f"{LEGACY_DOCS}pdf": "*",
        f"{LEGACY_LOADED}csv": "1",
        LEGACY_ORDER: '["pdf","csv"]',
    }
    after = apply_delta(keys, migrate_keys(keys, "main", {"csv": "helper"}.get))
    assert migrate_keys(after, "main", nobody) == {}
    assert not any(key.startswith((LEGACY_LOADED, LEGACY_DOCS, LEGACY_ORDER)) for key in after)
