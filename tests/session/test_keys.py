"""The state of a conversation as keys and texts that others know, too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.session.changes import ALL, Consumed, DocsChosen, Loaded, Recorded, Unloaded
from openskills.session.events import applied
from openskills.session.keys import (
    array_of,
    delta,
    docs_key,
    docs_of,
    from_keys,
    loaded_key,
    loaded_prefix,
    order_key,
    runnable_key,
    to_keys,
)
from openskills.session.state import SkillState, apply
from tests.session.strategies import changes, numbered, seen

LOADED = "temp:skill:loaded_by_agent:"
DOCS = "temp:skill:docs_by_agent:"
ORDER = "temp:skill:loaded_order_by_agent:"

GARBAGE = ["", "0", "yes", "null", "{}", '{"a": 1}', '["a"', "[1]", '["a", 1]', '"a"', "[" * 100_000, "9" * 5000, "\0"]


def state(*happened: Recorded) -> SkillState:
    return apply(SkillState(), happened)


def test_the_keys_are_those_of_the_documents() -> None:
    made = state(
        Recorded(1, "assistant", Loaded("pdf", ("z.md", "docs/a.md"))),
        Recorded(2, "assistant", Loaded("csv", (ALL,))),
        Recorded(3, "assistant", DocsChosen("pdf", (), added=True)),
    )
    assert to_keys(made) == {
        "temp:skill:loaded_by_agent:assistant/pdf": "1",
        "temp:skill:loaded_by_agent:assistant/csv": "1",
        "temp:skill:docs_by_agent:assistant/pdf": '["docs/a.md","z.md"]',
        "temp:skill:docs_by_agent:assistant/csv": "*",
        "temp:skill:loaded_order_by_agent:assistant": '["csv","pdf"]',
    }


def test_what_is_not_loaded_has_no_key() -> None:
    made = state(Recorded(1, "main", Loaded("pdf", ("a.md",))), Recorded(2, "main", Unloaded("pdf")))
    assert to_keys(made) == {}


def test_a_skill_that_was_seen_once_has_a_key_of_its_own() -> None:
    made = state(Recorded(1, "main", Loaded("pdf")), Recorded(2, "main", Consumed("pdf")))
    assert to_keys(made) == {"temp:skill:runnable_by_agent:main/pdf": "1"}
    view = from_keys(to_keys(made)).of("main")
    assert (view.is_loaded("pdf"), view.may_run("pdf")) == (False, True)


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
    assert from_keys({loaded_key(agent, "pdf"): "1"}).of(agent).loaded() == ("pdf",)


@pytest.mark.parametrize("agent", ["a%20b", "%ff", "%", "%zz", "a%2fb"])
def test_an_agent_that_we_would_have_escaped_otherwise_is_read_as_it_stands(agent: str) -> None:
    assert from_keys({f"{LOADED}{agent}/pdf": "1"}).of(agent).loaded() == ("pdf",)


@given(st.text(), st.text())
def test_two_agents_never_have_the_same_key(first: str, second: str) -> None:
    assert (loaded_prefix(first) == loaded_prefix(second)) == (first == second)
    assert (order_key(first) == order_key(second)) == (first == second)


@given(st.text(st.characters(), min_size=1), st.text(st.characters(), min_size=1))
def test_whatever_an_agent_and_a_skill_are_called_they_come_back(agent: str, skill: str) -> None:
    made = state(Recorded(1, agent, Loaded(skill, ("a.md",))))
    view = from_keys(to_keys(made)).of(agent)
    assert view.loaded() == (skill,)
    assert view.docs(skill) == ("a.md",)


def test_the_order_is_the_order_of_touch() -> None:
    keys = {f"{LOADED}main/{name}": "1" for name in "abc"} | {f"{ORDER}main": '["c","a","b"]'}
    assert from_keys(keys).of("main").loaded() == ("c", "a", "b")


def test_a_loaded_skill_that_the_order_does_not_name_is_older() -> None:
    keys = {f"{LOADED}main/{name}": "1" for name in ("d", "b", "c", "a")} | {f"{ORDER}main": '["c","x","a"]'}
    assert from_keys(keys).of("main").loaded() == ("b", "d", "c", "a")


def test_a_skill_that_the_order_names_twice_was_touched_at_the_later_place() -> None:
    keys = {f"{LOADED}main/{name}": "1" for name in "ab"} | {f"{ORDER}main": '["a","b","a"]'}
    assert from_keys(keys).of("main").loaded() == ("b", "a")


def test_being_in_the_order_loads_nothing() -> None:
    view = from_keys({f"{ORDER}main": '["a"]'}).of("main")
    assert view.loaded() == ()
    assert not view.may_run("a")


def test_a_selection_without_its_skill_is_kept_and_loads_nothing() -> None:
    view = from_keys({f"{DOCS}main/a": '["x.md"]'}).of("main")
    assert view.loaded() == ()
    assert not view.may_run("a")
    assert view.docs("a") == ("x.md",)


@pytest.mark.parametrize("text", [*GARBAGE, None, 1, b"1", ["a"], True], ids=lambda text: repr(text)[:12])
def test_a_text_that_means_nothing_loads_nothing_and_breaks_nothing(text: object) -> None:
    keys: dict[str, object] = {f"{LOADED}main/a": text, f"{DOCS}main/a": text, f"{ORDER}main": text}
    view = from_keys(keys).of("main")
    assert view.loaded() == ()
    assert not view.may_run("a")
    assert view.docs("a") == ()
    good = from_keys(keys | {f"{LOADED}main/b": "1", f"{LOADED}main/a": "1"}).of("main")
    assert good.loaded() == ("a", "b")


@pytest.mark.parametrize("key", ["", LOADED, f"{LOADED}main", f"{LOADED}main/", "temp:skill:loaded:a", "user:x", ORDER])
def test_a_key_that_is_none_of_ours_is_passed_over(key: str) -> None:
    assert from_keys({key: "1"}).entries == {}


@pytest.mark.parametrize(
    ("text", "docs"),
    [("*", (ALL,)), ('["*","a"]', (ALL,)), ('["b","a","b"]', ("a", "b")), ("[]", ()), ("x", ()), (None, ())],
)
def test_a_selection_is_every_document_or_a_sorted_list(text: str | None, docs: tuple[str, ...]) -> None:
    assert docs_of(text) == docs


def test_an_array_has_only_texts_in_it() -> None:
    assert array_of('["a", "图"]') == ("a", "图")
    assert array_of('["a", null]') == ()


def test_a_change_after_the_clock_is_newer_than_what_was_read() -> None:
    keys = {f"{LOADED}main/{name}": "1" for name in "abc"}
    read = from_keys(keys)
    assert read.clock == 3
    assert apply(read, [Recorded(4, "main", Unloaded("c"))]).of("main").loaded() == ("a", "b")
    assert from_keys(keys, clock=17).clock == 17


@given(numbered(changes))
def test_a_state_that_goes_into_keys_and_back_is_seen_as_before(made: list[Recorded]) -> None:
    before = state(*made)
    after = from_keys(to_keys(before))
    assert seen(after) == seen(before)
    assert to_keys(after) == to_keys(before)


@given(numbered(changes), numbered(changes))
def test_a_delta_makes_the_keys_of_one_state_those_of_another(first: list[Recorded], more: list[Recorded]) -> None:
    before = state(*first)
    after = apply(before, [Recorded(one.at + len(first), one.agent, one.change) for one in more])
    assert applied(to_keys(before), delta(before, after)) == to_keys(after)
    assert not set(delta(before, after).items()) & set(to_keys(before).items())
    assert delta(after, after) == {}


@given(numbered(changes), numbered(changes))
def test_changes_after_a_return_from_keys_mean_what_they_meant_before(
    first: list[Recorded], more: list[Recorded]
) -> None:
    before = state(*first)
    back = from_keys(to_keys(before), before.clock)
    later = [Recorded(back.clock + one.at, one.agent, one.change) for one in more]
    assert seen(apply(back, later)) == seen(apply(before, later))


names = st.sampled_from([LOADED, DOCS, ORDER, "temp:skill:runnable_by_agent:", "temp:skill:"])
foreign_keys = st.tuples(names, st.text("ab/%2F图", max_size=8)).map("".join)
foreign_texts = st.sampled_from(["1", "*", '["a"]', '["b","a"]', "[]"]) | st.text(max_size=4)


@given(st.dictionaries(foreign_keys, foreign_texts))
def test_whatever_lies_in_a_store_can_be_read_and_only_a_flag_loads(keys: dict[str, str]) -> None:
    read = from_keys(keys)
    flags = [key for key, text in keys.items() if key.startswith(LOADED) and text == "1"]
    assert sum(len(read.of(agent).loaded()) for agent in {agent for agent, _ in read.entries}) <= len(flags)
    assert to_keys(from_keys(to_keys(read))) == to_keys(read)
