"""Asking again: how often, after how long, and never once something was said.

One request through an official client: what is read, and which responses are errors.

Characters that arrive in halves.

Addresses and keys, before anything is sent.

What an error of a provider means to a caller.

Silence is bounded; a slow reader is none.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.models.http import (
    AttemptError,
    ClientModel,
    DeadlineByteStream,
    ModelProvider,
    ModelTimeouts,
    Retrier,
    RetryPolicy,
    SurrogateBuffer,
    extract_message,
    find_secrets,
    format_host,
    join_surrogates,
    parse_api_key,
    parse_base_url,
    parse_retry_after,
)
from openskills.agent.models.model import ModelEvent, ModelRequest, ModelResponse, TextDelta
from openskills.errors import InvalidArgument, ModelUnavailable, SkillError, Unauthorized
from openskills.testing.model_server import ErrorReply, ModelServer, RawReply, event
from tests.agent.asking import Waits

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
THEN = 1792567680.0
BUSY = AttemptError(ModelUnavailable("busy", status=429), can_retry=True)


class Attempts:
    """Attempts that go as scripted: each yields its events and then raises, if it ends in a failure."""

    def __init__(self, *scripts: Sequence[ModelEvent | AttemptError]) -> None:
        self.scripts = list(scripts)
        self.closed = 0

    async def __call__(self) -> AsyncGenerator[ModelEvent]:
        try:
            for step in self.scripts.pop(0):
                if isinstance(step, AttemptError):
                    raise step
                yield step
        finally:
            self.closed += 1


async def streamed(attempts: Attempts, retrying: Retrier) -> list[ModelEvent]:
    return [event async for event in retrying.stream(attempts)]


async def test_an_attempt_that_succeeds_is_the_only_one() -> None:
    waits = Waits()
    assert await streamed(Attempts([TextDelta("a"), ModelResponse("a")]), waits.retrying()) == [
        TextDelta("a"),
        ModelResponse("a"),
    ]
    assert waits.seconds == []


async def test_pauses_double_up_to_the_longest() -> None:
    waits = Waits()
    attempts = Attempts([BUSY], [BUSY], [BUSY], [BUSY], [ModelResponse("done")])
    assert await streamed(attempts, waits.retrying(attempts=5, pause=1, longest_pause=4)) == [ModelResponse("done")]
    assert waits.seconds == [1, 2, 4, 4]


def test_chance_shortens_a_pause_by_up_to_a_half() -> None:
    policy = RetryPolicy(pause=8)
    assert [policy.compute_pause(1, chance) for chance in (0, 0.5, 1)] == [8, 6, 4]


@given(st.integers(1, 10**9), st.floats(0, 1))
def test_no_pause_is_longer_than_the_longest(tried: int, chance: float) -> None:
    assert 0 < RetryPolicy().compute_pause(tried, chance) <= RetryPolicy().longest_pause


async def test_the_last_failure_is_reported_with_the_number_of_attempts() -> None:
    with pytest.raises(ModelUnavailable, match="busy; tried 3 times") as caught:
        await streamed(Attempts([BUSY], [BUSY], [BUSY]), Waits().retrying(attempts=3))
    assert caught.value.details == {"status": 429, "attempts": 3}


async def test_one_attempt_is_not_a_retry() -> None:
    with pytest.raises(ModelUnavailable, match="busy; tried once"):
        await streamed(Attempts([BUSY]), Waits().retrying(attempts=1))


async def test_a_failure_that_no_attempt_can_mend_is_raised_at_once() -> None:
    refused = AttemptError(InvalidArgument("model", "no such model"))
    waits = Waits()
    with pytest.raises(InvalidArgument, match="no such model"):
        await streamed(Attempts([refused]), waits.retrying())
    assert waits.seconds == []


async def test_an_answer_that_was_cut_off_after_its_first_word_is_not_begun_again() -> None:
    attempts = Attempts([TextDelta("Once upon"), BUSY], [ModelResponse("never asked for")])
    with pytest.raises(ModelUnavailable, match="busy; the response was cut off"):
        await streamed(attempts, Waits().retrying())
    assert len(attempts.scripts) == 1


async def test_the_server_says_how_long_to_wait() -> None:
    waits = Waits()
    busy = AttemptError(ModelUnavailable("busy"), can_retry=True, retry_after=7.5)
    await streamed(Attempts([busy], [ModelResponse("done")]), waits.retrying())
    assert waits.seconds == [7.5]


async def test_a_server_that_asks_for_more_than_we_wait_is_not_asked_again() -> None:
    waits = Waits()
    busy = AttemptError(ModelUnavailable("quota used up"), can_retry=True, retry_after=3600)
    with pytest.raises(ModelUnavailable, match="quota used up; it asks to wait 3600 seconds") as caught:
        await streamed(Attempts([busy]), waits.retrying())
    assert caught.value.details["retry_after"] == 3600
    assert waits.seconds == []


async def test_closing_the_stream_closes_the_attempt() -> None:
    attempts = Attempts([TextDelta("a"), TextDelta("b")])

    async with aclosing(Waits().retrying().stream(attempts)) as events:
        assert await anext(events) == TextDelta("a")

    assert attempts.closed == 1


async def test_a_retry_is_a_line_of_the_log_without_what_the_provider_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "openskills"):
        await streamed(Attempts([BUSY], [ModelResponse("done")]), Waits().retrying())
    assert caplog.messages == ["the model: attempt 1 failed (429); retrying in 1.0 seconds"]


def test_fewer_than_one_attempt_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"retries\.attempts: must be at least 1"):
        RetryPolicy(attempts=0)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-4"}, 0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3),
        ({"retry-after": DATE}, 30),
        ({"retry-after": DATE, "date": "Wed, 21 Oct 2026 07:27:50 GMT"}, 10),
        ({"retry-after": "Wed, 21 Oct 2020 07:28:00 GMT"}, 0),
        ({}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 21 Oct 99999999999 07:28:00 GMT"}, None),
    ],
)
def test_what_a_server_says_about_coming_back_is_read_in_all_its_forms(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert parse_retry_after(headers, THEN - 30) == seconds


@given(st.text(), st.text())
def test_no_header_breaks_the_reading(said: str, date: str) -> None:
    found = parse_retry_after({"retry-after": said, "date": date}, THEN)
    assert found is None or found >= 0


class AnyClient(ClientModel):
    """Reads what the client of OpenAI gets, and asks nothing itself."""

    _events, _errors = openai.AsyncStream[object], openai.OpenAIError

    def __init__(self) -> None:
        url = parse_base_url("http://models.local")
        super().__init__("openai/gpt-test", url, [], extra=None, limits=None, retrying=None)

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:  # noqa: ARG002
        yield ModelResponse()


async def heard(reply: Any, *, complete_after: int | None = None) -> tuple[list[object], bool]:
    async def ask(url: str) -> tuple[list[object], bool]:
        async with openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0) as client:
            create: Any = client.chat.completions.with_streaming_response.create
            sent = create(model="gpt-test", messages=[], stream=True)
            found: list[object] = []
            async with AnyClient().open_response(sent, lambda: len(found) == complete_after) as (events, source):
                async for sent_event in events:
                    found.append(sent_event)  # noqa: PERF401 - what came before an error counts
                return found, source.has_done_marker
            return found, False

    with ModelServer([reply]) as server:
        return await ask(server.openai_url)


async def test_events_are_the_plain_values_that_were_sent() -> None:
    events = (event({"a": [1]}), event(5), event("[DONE]"))
    assert await heard(RawReply(events)) == ([{"a": [1]}, 5], True)


@pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "Text/Event-Stream", "text/plain", ""])
async def test_events_are_heard_whatever_a_server_calls_them(kind: str) -> None:
    assert await heard(RawReply((event({"a": 1}),), content_type=kind)) == ([{"a": 1}], False)


async def test_a_whole_body_is_one_event() -> None:
    assert await heard(RawReply((b'{"a": ', b"1}"), content_type="application/json")) == ([{"a": 1}], False)


async def test_an_error_that_comes_as_if_all_were_well_is_one() -> None:
    body = event({"error": {"message": "no", "code": 400}}).removeprefix(b"data: ")
    with pytest.raises(AttemptError) as caught:
        await heard(RawReply((body,), content_type="application/json"))
    assert isinstance(caught.value.error, InvalidArgument)


async def test_an_error_among_the_events_is_one() -> None:
    with pytest.raises(AttemptError) as caught:
        await heard(RawReply((event({"a": 1}), event({"error": {"message": "overloaded", "code": 503}}))))
    assert caught.value.error.message == "openai/gpt-test: overloaded (503)"
    assert caught.value.can_retry


@pytest.mark.parametrize("kind", ["text/html", "application/x-ndjson", "image/png"])
async def test_a_response_that_is_not_an_answer_of_a_model_is_reported_with_its_type(kind: str) -> None:
    with pytest.raises(AttemptError, match=f"responded with {kind}, expected events"):
        await heard(RawReply((b"hello",), content_type=kind))


async def test_a_refusal_is_reported_with_its_whole_text() -> None:
    with pytest.raises(AttemptError) as caught:
        await heard(ErrorReply(422, "unknown field stream_options"))
    assert "unknown field stream_options" in caught.value.response_text


async def test_what_breaks_after_the_answer_is_complete_does_no_harm() -> None:
    events = (event({"a": 1}), event({"b": 2}))
    assert await heard(RawReply(events, cut=True), complete_after=2) == ([{"a": 1}, {"b": 2}], False)
    with pytest.raises(AttemptError):
        await heard(RawReply(events, cut=True), complete_after=3)


def test_halves_in_two_pieces_become_one_character() -> None:
    characters = SurrogateBuffer()
    assert [characters.add("a\ud83d"), characters.add("\ude00b"), characters.flush()] == ["a", "😀b", ""]


def test_a_half_that_stays_alone_becomes_a_mark() -> None:
    characters = SurrogateBuffer()
    assert [characters.add("\ude00"), characters.add("x\ud83d"), characters.flush()] == ["\ufffd", "x", "\ufffd"]


def test_a_half_that_is_followed_by_something_else_becomes_a_mark() -> None:
    characters = SurrogateBuffer()
    assert characters.add("\ud83d") + characters.add("x") == "\ufffdx"


def test_whole_text_is_left_alone() -> None:
    assert join_surrogates("naïve 😀") == "naïve 😀"


@given(st.text(alphabet=st.characters(exclude_categories=())), st.integers(1, 3))
def test_whatever_comes_can_be_written_to_a_file(text: str, size: int) -> None:
    characters = SurrogateBuffer()
    pieces = [characters.add(text[start : start + size]) for start in range(0, len(text), size)]
    found = "".join([*pieces, characters.flush()])
    assert found.encode() == join_surrogates(text).encode()


@given(st.text(), st.integers(1, 3))
def test_text_cut_between_its_escapes_is_the_text(text: str, size: int) -> None:
    halves = text.encode("utf-16-le")
    units = [halves[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(halves), 2)]
    characters = SurrogateBuffer()
    found = [characters.add("".join(units[at : at + size])) for at in range(0, len(units), size)]
    assert "".join([*found, characters.flush()]) == text


def test_an_address_is_taken_without_the_blanks_around_it() -> None:
    assert str(parse_base_url(" http://models.local:8000/v1\n")) == "http://models.local:8000/v1"


@pytest.mark.parametrize("url", ["", "models.local", "//models.local", "file:///etc", "http://host:port", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="base_url"):
        parse_base_url(url)


def test_a_refused_address_is_shown_without_the_password_in_it() -> None:
    with pytest.raises(InvalidArgument, match=r"'models\.local'"):
        parse_base_url("ftp://me:secret@models.local")


def test_a_key_is_taken_without_the_line_end_that_was_copied_with_it() -> None:
    assert parse_api_key(" sk-1\n", "OPENAI_API_KEY") == "sk-1"
    assert not parse_api_key(None, "OPENAI_API_KEY")


def test_a_key_that_http_cannot_send_is_refused_by_the_name_of_its_variable() -> None:
    with pytest.raises(Unauthorized, match=r"the key \(OPENAI_API_KEY\) contains spaces") as caught:
        parse_api_key("sk-…1", "OPENAI_API_KEY")
    assert "sk-" not in str(caught.value)


def test_a_place_is_reported_with_its_port_and_without_who_goes_there() -> None:
    assert format_host(parse_base_url("http://me:secret@models.local:8000/v1")) == "models.local:8000"
    assert format_host(parse_base_url("https://models.local/v1")) == "models.local"


def test_headers_with_telling_names_are_secret() -> None:
    headers = {"X-Api-Key": "one", "Authorization": "two", "x-team": "skills", "Proxy-Token": "three"}
    assert find_secrets(headers) == ["one", "two", "three"]


FAILURES_PROVIDER = ModelProvider("openai/gpt-test", "models.local", ["hunter2hunter2", ""])


class Told(Exception):
    """An error of the shape that both official clients give theirs."""

    def __init__(self, body: object, status: int = 0) -> None:
        super().__init__("told")
        self.body = body
        self.response = httpx2.Response(status, text="the whole text") if status else None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no"}}, "no"),
        ({"message": "no", "type": "x"}, "no"),
        ({"error": "no"}, "no"),
        ({"detail": "no"}, "no"),
        ({"detail": [{"loc": ["body", "tools", 0], "msg": "no"}, {"msg": "nor this"}]}, "body.tools.0: no; nor this"),
        ({"error": {"error": {"message": "no"}}}, "no"),
        ("no", "no"),
        ({"error": {"message": ""}}, ""),
        ({}, ""),
        (None, ""),
        (5, ""),
    ],
)
def test_the_sentence_is_found_in_every_shape_of_a_body(body: object, message: str) -> None:
    assert extract_message(body) == message


@pytest.mark.parametrize(
    ("body", "error", "again"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, ModelUnavailable, True),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}, InvalidArgument, False),
        ({"type": "authentication_error", "message": "x"}, Unauthorized, False),
        ({"code": "429", "message": "x"}, ModelUnavailable, True),
        ({"code": 400, "message": "x"}, InvalidArgument, False),
        ({"code": "server_error", "message": "x"}, ModelUnavailable, True),
        ({"code": "insufficient_quota", "message": "x"}, ModelUnavailable, False),
        ({"message": "x"}, ModelUnavailable, True),
    ],
)
def test_an_error_within_an_answer_is_known_by_its_kind(body: object, error: type[SkillError], again: bool) -> None:
    failure = FAILURES_PROVIDER.error_from_exception(Told(body))
    assert (type(failure.error), failure.can_retry, failure.response_text) == (error, again, "")


def test_an_error_with_a_status_keeps_its_whole_text_for_those_who_look_for_a_field() -> None:
    assert FAILURES_PROVIDER.error_from_exception(Told({"message": "x"}, 400)).response_text == "the whole text"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (httpx2.ConnectError("Name or service not known"), "cannot connect to models.local: Name or service not known"),
        (httpx2.ConnectTimeout("slow"), "cannot connect to models.local: connecting timed out"),
        (httpx2.ReadTimeout("slow"), "incomplete response from models.local: reading timed out"),
        (TimeoutError(), "incomplete response from models.local: reading timed out"),
        (httpx2.RemoteProtocolError("incomplete read"), "incomplete response from models.local: incomplete read"),
        (httpx2.ReadError(""), "incomplete response from models.local: ReadError"),
    ],
)
def test_a_connection_that_fails_is_told_in_its_own_words(error: Exception, message: str) -> None:
    failure = FAILURES_PROVIDER.error_from_exception(error)
    assert (failure.error.message, failure.can_retry) == (f"openai/gpt-test: {message}", True)


def test_the_cause_of_a_clients_error_is_what_counts() -> None:
    error = RuntimeError("Connection error.")
    error.__cause__ = httpx2.ConnectError("refused")
    assert (
        FAILURES_PROVIDER.error_from_exception(error).error.message
        == "openai/gpt-test: cannot connect to models.local: refused"
    )


def test_what_providers_say_is_one_line_of_bearable_length_without_keys() -> None:
    shown = FAILURES_PROVIDER.clean(f"key hunter2hunter2\nor sk-abc***xyz is bad. {'x' * 1000}")
    assert shown.startswith("key [secret key] or [secret key] is bad. xxx")
    assert len(shown) < 520


SOON = 0.02


class Source(httpx2.AsyncByteStream):
    """Pieces, with silence for ever before the one with the number `silent`."""

    def __init__(self, *pieces: bytes, silent: int = -1) -> None:
        self.pieces = pieces
        self.silent = silent
        self.closed = False

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        for number, piece in enumerate(self.pieces):
            if number == self.silent:
                await asyncio.Event().wait()
            yield piece

    async def aclose(self) -> None:
        self.closed = True


async def read(source: Source, limits: ModelTimeouts, reader: float = 0) -> tuple[list[bytes], DeadlineByteStream]:
    paced = DeadlineByteStream(source, limits, asyncio.get_running_loop().time() + limits.first)
    found: list[bytes] = []
    async for piece in paced:
        found.append(piece)
        await asyncio.sleep(reader)
    await paced.aclose()
    return found, paced


async def test_what_comes_in_time_is_read_to_its_end() -> None:
    source = Source(b"a", b"b")
    assert (await read(source, ModelTimeouts()))[0] == [b"a", b"b"]
    assert source.closed


@pytest.mark.parametrize("limits", [ModelTimeouts(first=SOON), ModelTimeouts(first=60, between=SOON)])
async def test_silence_for_longer_than_agreed_ends_it(limits: ModelTimeouts) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        await read(Source(b"a", b"b", silent=0 if limits.first == SOON else 1), limits)


async def test_a_reader_who_takes_his_time_is_not_silence() -> None:
    assert (await read(Source(b"a", b"b", b"c"), ModelTimeouts(between=SOON), reader=2 * SOON))[0] == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("pieces", "done"),
    [
        ((b"data: {}\n\n", b"data: [DONE]\n\n"), True),
        ((b"data: [DO", b"NE]\n\n"), True),
        ((b"data: {}\n\n",), False),
        ((b"data: [DONE]\n\n", b"x" * 100), False),
    ],
)
async def test_the_last_word_of_a_server_is_noticed(pieces: tuple[bytes, ...], done: bool) -> None:
    assert (await read(Source(*pieces), ModelTimeouts()))[1].has_done_marker is done


async def test_an_answer_that_does_not_end_is_not_kept_in_memory() -> None:
    async def read_on() -> None:
        async for _ in DeadlineByteStream(
            Source(b"abc", b"de"), ModelTimeouts(), asyncio.get_running_loop().time() + 5, max_bytes=4
        ):
            pass

    with pytest.raises(httpx2.ReadError, match="too large"):
        await read_on()


def test_no_time_at_all_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidArgument, match=r"limits\.between: must be above 0"):
        ModelTimeouts(between=0)
    with pytest.raises(InvalidArgument, match="connect"):
        ModelTimeouts(connect=float("nan"))


def test_the_client_is_told_the_longest_of_the_limits() -> None:
    timeout = ModelTimeouts(connect=3, first=5, between=7).to_httpx_timeout()
    assert (timeout.connect, timeout.read, timeout.write, timeout.pool) == (3, 7, 7, 3)
