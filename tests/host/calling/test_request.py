"""Addresses, headers and bodies that nothing in them can bend."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.host.calling.request import base_of, bearer, body_of, header_value, is_local, run_path, skill_path


def test_an_address_loses_the_slash_at_its_end() -> None:
    assert base_of("http://127.0.0.1:8000/", name="x") == "http://127.0.0.1:8000"
    assert base_of(" https://Skills.example/openskill/ ", name="x") == "https://Skills.example/openskill"


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "ftp://x",
        "http://",
        "http://x:99999",
        "http://x:0",
        "http://u:p@x",
        "http://x/?a=b",
        "http://x/#y",
        "http://[::1",
        "http://x\ny",
        "",
    ],
)
def test_what_is_no_address_of_a_host_is_refused_by_its_name(url: str) -> None:
    with pytest.raises(InvalidArgument, match="OPENSKILL_HTTP_BASE_URL"):
        base_of(url, name="OPENSKILL_HTTP_BASE_URL")


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(InvalidArgument) as caught:
        base_of("http://me:secret@host", name="url")
    assert "secret" not in str(caught.value)


def test_what_stays_on_this_machine_is_known() -> None:
    assert is_local("http://127.0.0.1:8000")
    assert is_local("http://[::1]:8000")
    assert is_local("http://localhost")
    assert not is_local("http://skills.example")
    assert not is_local("http://10.0.0.1")


def test_paths_begin_with_a_slash_so_that_the_colon_is_no_scheme() -> None:
    assert skill_path("echo", "invoke") == "/skills/echo:invoke"
    assert skill_path("file_search") == "/skills/file_search"
    assert run_path("r1", "/events") == "/runs/r1/events"


@given(st.text(max_size=50))
def test_no_id_leaves_its_place_in_the_path(text: str) -> None:
    try:
        path = skill_path(text, "invoke")
    except InvalidArgument:
        return
    parts = urlsplit("http://host" + path)
    assert (parts.netloc, parts.query, parts.fragment) == ("host", "", "")
    assert parts.path.count("/") == 2
    assert parts.path.startswith("/skills/")
    assert parts.path.endswith(":invoke")


@pytest.mark.parametrize("text", ["", "..", ".", "a/b", "a\nb", "x" * 201])
def test_what_can_be_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="skill_id"):
        skill_path(text)
    with pytest.raises(InvalidArgument, match="run_id"):
        run_path(text)


@pytest.mark.parametrize("text", ["", "a b", "a\r\nX-Evil: 1", "é", "x" * 256])
def test_a_header_cannot_be_broken_out_of(text: str) -> None:
    with pytest.raises(InvalidArgument, match="trace_id"):
        header_value(text, name="trace_id")


def test_a_header_is_visible_ascii() -> None:
    assert header_value("demo-123", name="trace_id") == "demo-123"
    with pytest.raises(InvalidArgument, match="up to 5"):
        header_value("demo-123", name="trace_id", most=5)


def test_a_key_that_is_none_is_not_repeated() -> None:
    assert bearer("sk-1") == "Bearer sk-1"
    with pytest.raises(InvalidArgument) as caught:
        bearer("my secret")
    assert "secret" not in str(caught.value)


def test_the_body_is_the_input_and_nothing_else() -> None:
    assert json.loads(body_of({"text": "二"})) == {"input": {"text": "二"}}


def circle() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["self"] = found
    return found


@pytest.mark.parametrize("input_", [{"a": float("nan")}, {"a": object()}, {"a": "\ud800"}, circle(), [1], "text"])
def test_an_input_that_is_no_json_object_is_refused(input_: Any) -> None:
    with pytest.raises(InvalidArgument, match="input"):
        body_of(input_)
