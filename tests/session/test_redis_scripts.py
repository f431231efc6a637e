"""The keys of one user lie together; nobody else's are among them."""

from openskills.session.redis_scripts import DELETE, LOOK, READ, WRITE, session_id, session_keys, sessions_key
from openskills.session.store import SessionKey


def slot(key: str) -> str:
    """What decides where a cluster keeps a key."""
    return key.partition("{")[2].partition("}")[0]


def test_everything_of_a_user_is_in_one_slot() -> None:
    keys = [*session_keys(SessionKey("a", "u", "1")), *session_keys(SessionKey("a", "u", "2")), sessions_key("a", "u")]
    assert len({slot(key) for key in keys}) == 1
    assert slot(sessions_key("a", "v")) != slot(keys[0])


def test_ids_are_never_part_of_a_key() -> None:
    hostile = SessionKey("app}{x", "*", "a\\b {y}:head")
    for key in session_keys(hostile):
        assert set(key) <= set("openskills:{}headlogplacessessions0123456789abcdef")


def test_conversations_have_keys_of_their_own() -> None:
    spellings = [
        SessionKey("a", "b", "c"),
        SessionKey("a", "b", "c "),
        SessionKey("a", "bc", "c"),
        SessionKey("ab", "b", "c"),
    ]
    assert len({key for one in spellings for key in session_keys(one)[:3]}) == 12
    assert len({session_id(one) for one in spellings}) == 4


def test_scripts_use_no_key_that_they_were_not_given() -> None:
    for script in (LOOK, READ, WRITE, DELETE):
        calls = [line for line in script.splitlines() if "redis.call" in line]
        assert calls
        assert all("KEYS[" in line for line in calls)
