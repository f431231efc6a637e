"""The reducers of a thread."""

from hypothesis import given
from hypothesis import strategies as st

from openskills.adapters.langchain.changes import LoadedChange, merge_entries, merge_loaded, merge_names

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
