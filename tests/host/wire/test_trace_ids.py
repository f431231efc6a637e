"""Trace ids: read or minted, never dangerous."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.host.wire.trace_ids import minted, trace_of

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WELL_FORMED = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def test_without_headers_a_new_id_is_minted_each_time() -> None:
    first, second = trace_of(None, None), minted()
    assert first.id != second.id
    assert re.fullmatch("[0-9a-f]{32}", first.id)
    assert first.here.split("-")[1] == first.id


def test_the_callers_id_is_kept_as_it_is() -> None:
    trace = trace_of(b"demo-123", None)
    assert (trace.id, trace.parent) == ("demo-123", None)
    assert WELL_FORMED.fullmatch(trace.here)


def test_an_id_that_is_a_w3c_trace_id_is_the_one_in_traceparent() -> None:
    assert trace_of(b"4bf92f3577b34da6a3ce929d0e0e4736", None).here.split("-")[1] == "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_traceparent_goes_on_with_a_span_of_ours_and_its_flags() -> None:
    trace = trace_of(None, PARENT[:-1] + b"0")
    assert trace.id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert trace.here.startswith("00-4bf92f3577b34da6a3ce929d0e0e4736-")
    assert trace.here.endswith("-00")
    assert "00f067aa0ba902b7" not in trace.here


def test_with_both_headers_the_id_counts_and_the_parent_goes_on() -> None:
    trace = trace_of(b"demo-123", PARENT)
    assert (trace.id, trace.parent) == ("demo-123", PARENT.decode())


@pytest.mark.parametrize(
    "parent",
    [
        b"",
        b"garbage",
        b"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        b"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        b"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        PARENT.upper(),
        PARENT + b"-more",
    ],
)
def test_a_malformed_traceparent_is_as_good_as_none(parent: bytes) -> None:
    assert trace_of(b"demo", parent).parent is None


def test_a_traceparent_of_a_later_version_may_have_more_fields() -> None:
    assert trace_of(None, b"01" + PARENT[2:] + b"-more").id == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "hostile", [b"a" * 129, b"a\x00b", b"a\r\nSet-Cookie: x", b"\x1b[2J", "编号".encode(), b"\x7f"]
)
def test_a_hostile_id_is_refused(hostile: bytes) -> None:
    with pytest.raises(InvalidArgument, match="X-Trace-Id: must be printable ASCII"):
        trace_of(hostile, None)


@given(st.binary(max_size=200), st.binary(max_size=80))
def test_whatever_is_sent_what_goes_out_is_well_formed(trace_id: bytes, parent: bytes) -> None:
    try:
        trace = trace_of(trace_id, parent)
    except InvalidArgument:
        return
    assert WELL_FORMED.fullmatch(trace.here)
    assert trace.id.isascii()
    assert trace.id.isprintable()
