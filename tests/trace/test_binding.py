"""The trace id, and on whose behalf things happen."""

import asyncio
import contextvars
import re
import threading

from opentelemetry import trace

from openskills.sync import run
from openskills.trace import bind, trace_id
from openskills.trace.binding import bound
from tests.trace.telemetry import watched


def test_a_trace_id_is_minted_once_and_is_the_same_in_the_whole_block() -> None:
    assert trace_id() == ""
    with bind(session="s") as outer:
        assert re.fullmatch(r"[0-9a-f]{32}", trace_id())
        with bind(tool="skill_run") as inner:
            assert outer.trace_id == inner.trace_id == trace_id()
    with bind() as other:
        assert other.trace_id != outer.trace_id
    assert trace_id() == ""


def test_a_trace_id_of_the_caller_is_taken_as_it_is() -> None:
    with bind("their-id-1"):
        assert trace_id() == "their-id-1"
        with bind("another"):
            assert trace_id() == "another"
        assert trace_id() == "their-id-1"


def test_inside_a_trace_of_the_application_its_id_is_ours() -> None:
    with watched(), trace.get_tracer("app").start_as_current_span("request") as request, bind():
        assert trace_id() == format(request.get_span_context().trace_id, "032x")


def test_fields_add_up_and_the_inner_one_wins() -> None:
    with bind(session="s", agent="a", tool=None):
        with bind(agent="b", skill="pdf"):
            assert bound().fields == {"session": "s", "agent": "b", "skill": "pdf"}
        assert bound().fields == {"session": "s", "agent": "a"}
    assert bound().fields == {}


def test_secrets_add_up_and_are_not_told_by_the_value_itself() -> None:
    with bind(masked={"A": "1111", "B": "2222"}), bind(masked={"B": "3333"}, session="s"), bind() as here:
        assert here.secrets == {"A": "1111", "B": "3333"}
        assert "1111" not in repr(here)
    with bind() as outside:
        assert not outside.secrets


def test_content_is_not_allowed_until_somebody_does() -> None:
    with bind():
        assert not bound().content
        with bind(content=True), bind(tool="x"):
            assert bound().content
            with bind(content=False):
                assert not bound().content


def test_what_is_bound_is_there_in_threads_and_through_the_bridge() -> None:
    async def here() -> tuple[str, str]:
        return trace_id(), await asyncio.to_thread(trace_id)

    with bind("abc"):
        assert run(here()) == ("abc", "abc")


def test_two_tasks_do_not_see_what_the_other_has_bound() -> None:
    async def one(name: str, both: asyncio.Barrier) -> tuple[str, str]:
        with bind(name):
            await both.wait()
            return name, trace_id()

    async def scenario() -> list[tuple[str, str]]:
        both = asyncio.Barrier(2)
        return list(await asyncio.gather(one("a", both), one("b", both)))

    assert run(scenario()) == [("a", "a"), ("b", "b")]


def test_threads_that_ask_at_once_get_one_trace_id() -> None:
    for _ in range(50):
        with bind() as here:
            both = threading.Barrier(4)
            found: list[str] = []

            def ask(both: threading.Barrier = both, found: list[str] = found, here: object = here) -> None:
                both.wait()
                found.append(bound().trace_id)

            context = [contextvars.copy_context() for _ in range(4)]
            threads = [threading.Thread(target=each.run, args=(ask,)) for each in context]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert set(found) == {here.trace_id}


def test_a_block_that_is_left_in_another_context_does_no_harm() -> None:
    block = bind("x")
    contextvars.copy_context().run(block.__enter__)
    block.__exit__(None, None, None)
    assert trace_id() == ""
