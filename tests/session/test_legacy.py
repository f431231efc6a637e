"""Keys from before agents were told apart become those of their owner."""

import pytest

from openskills.session.events import applied
from openskills.session.keys import from_keys
from openskills.session.legacy import migrate

LOADED = "temp:skill:loaded:"
DOCS = "temp:skill:docs:"
ORDER = "temp:skill:loaded_order:"


def nobody(_: str) -> str | None:
    return None


def test_a_state_without_old_keys_stays_as_it_is() -> None:
    keys = {"temp:skill:loaded_by_agent:main/pdf": "1", "temp:skill:loaded_order_by_agent:main": '["pdf"]', "x": "y"}
    assert migrate(keys, "main", nobody) == {}


def test_an_old_skill_becomes_that_of_the_current_agent() -> None:
    keys = {f"{LOADED}pdf": "1", f"{DOCS}pdf": '["b.md","a.md"]', "other": "stays"}
    assert migrate(keys, "team/main", nobody) == {
        f"{LOADED}pdf": None,
        f"{DOCS}pdf": None,
        "temp:skill:loaded_by_agent:team%2Fmain/pdf": "1",
        "temp:skill:docs_by_agent:team%2Fmain/pdf": '["a.md","b.md"]',
    }


def test_an_old_skill_becomes_that_of_the_agent_who_touched_it_last() -> None:
    keys = {f"{LOADED}pdf": "1", f"{LOADED}csv": "1", f"{DOCS}csv": "*"}
    moved = from_keys(applied(keys, migrate(keys, "main", {"csv": "helper"}.get)))
    assert moved.of("main").loaded() == ("pdf",)
    assert moved.of("helper").loaded() == ("csv",)
    assert moved.of("helper").docs("csv") == ("*",)


def test_where_the_owner_has_a_value_the_old_one_is_only_cleared() -> None:
    keys = {f"{DOCS}pdf": "*", "temp:skill:docs_by_agent:main/pdf": '["a.md"]'}
    assert migrate(keys, "main", nobody) == {f"{DOCS}pdf": None}


def test_an_empty_value_of_the_owner_does_not_stand_in_the_way() -> None:
    keys = {f"{LOADED}pdf": "1", "temp:skill:loaded_by_agent:main/pdf": ""}
    assert migrate(keys, "main", nobody)["temp:skill:loaded_by_agent:main/pdf"] == "1"


def test_without_owner_and_agent_an_old_key_stays() -> None:
    keys = {f"{LOADED}pdf": "1", f"{LOADED}csv": "1", ORDER: '["pdf","csv"]'}
    changed = migrate(keys, "", {"csv": "helper"}.get)
    assert changed == {f"{LOADED}csv": None, "temp:skill:loaded_by_agent:helper/csv": "1"}


@pytest.mark.parametrize("key", [LOADED, DOCS, f"{LOADED}pdf", f"{DOCS}pdf", ORDER])
def test_an_old_key_without_name_or_value_is_passed_over(key: str) -> None:
    assert migrate({key: "" if key.endswith("pdf") or key == ORDER else "1"}, "main", nobody) == {}


@pytest.mark.parametrize("text", ["yes", "0", "[1]", "[" * 100_000, "null"], ids=lambda text: text[:5])
def test_an_old_text_that_means_nothing_is_only_cleared(text: str) -> None:
    keys = {f"{LOADED}pdf": text, f"{DOCS}pdf": text, ORDER: text}
    assert migrate(keys, "main", nobody) == dict.fromkeys(keys)


def test_the_old_order_is_kept_for_each_owner() -> None:
    keys = {f"{LOADED}{name}": "1" for name in "abcd"} | {ORDER: '["d","b","x","c","a"]'}
    moved = from_keys(applied(keys, migrate(keys, "main", {"b": "helper", "c": "helper"}.get)))
    assert moved.of("main").loaded() == ("d", "a")
    assert moved.of("helper").loaded() == ("b", "c")


def test_what_the_owner_touched_since_is_later_than_the_old_order() -> None:
    own = {"temp:skill:loaded_by_agent:main/new": "1", "temp:skill:loaded_order_by_agent:main": '["new"]'}
    keys = {f"{LOADED}b": "1", f"{LOADED}a": "1", ORDER: '["b","a","new"]'} | own
    after = applied(keys, migrate(keys, "main", nobody))
    assert from_keys(after).of("main").loaded() == ("b", "a", "new")
    assert ORDER not in after


def test_a_skill_that_is_called_like_a_key_is_moved_whole() -> None:
    keys = {f"{LOADED}{DOCS}x": "1"}
    assert from_keys(applied(keys, migrate(keys, "main", nobody))).of("main").loaded() == (f"{DOCS}x",)


def test_what_has_been_migrated_is_not_migrated_again() -> None:
    keys = {f"{LOADED}pdf": "1", f"{DOCS}pdf": "*", f"{LOADED}csv": "1", ORDER: '["pdf","csv"]'}
    after = applied(keys, migrate(keys, "main", {"csv": "helper"}.get))
    assert migrate(after, "main", nobody) == {}
    assert not any(key.startswith((LOADED, DOCS, ORDER)) for key in after)
