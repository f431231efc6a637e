"""What an error of a provider means to a caller."""

import httpx2
import pytest

from openskills.agent.wire.failures import Provider, message_of
from openskills.errors import InvalidArgument, ModelUnavailable, SkillError, Unauthorized

PROVIDER = Provider("openai/gpt-test", "models.local", ["hunter2hunter2", ""])


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
    assert message_of(body) == message


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
    failure = PROVIDER.failure(Told(body))
    assert (type(failure.error), failure.again, failure.said) == (error, again, "")


def test_an_error_with_a_status_keeps_its_whole_text_for_those_who_look_for_a_field() -> None:
    assert PROVIDER.failure(Told({"message": "x"}, 400)).said == "the whole text"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (httpx2.ConnectError("Name or service not known"), "models.local cannot be reached: Name or service not known"),
        (httpx2.ConnectTimeout("slow"), "models.local cannot be reached: it does not take the connection in time"),
        (httpx2.ReadTimeout("slow"), "no whole answer from models.local: it sent nothing for too long"),
        (TimeoutError(), "no whole answer from models.local: it sent nothing for too long"),
        (httpx2.RemoteProtocolError("incomplete read"), "no whole answer from models.local: incomplete read"),
        (httpx2.ReadError(""), "no whole answer from models.local: ReadError"),
    ],
)
def test_a_connection_that_fails_is_told_in_its_own_words(error: Exception, message: str) -> None:
    failure = PROVIDER.failure(error)
    assert (failure.error.message, failure.again) == (f"openai/gpt-test: {message}", True)


def test_the_cause_of_a_clients_error_is_what_counts() -> None:
    error = RuntimeError("Connection error.")
    error.__cause__ = httpx2.ConnectError("refused")
    assert PROVIDER.failure(error).error.message == "openai/gpt-test: models.local cannot be reached: refused"


def test_what_providers_say_is_one_line_of_bearable_length_without_keys() -> None:
    shown = PROVIDER.clean(f"key hunter2hunter2\nor sk-abc***xyz is bad. {'x' * 1000}")
    assert shown.startswith("key [key] or [key] is bad. xxx")
    assert len(shown) < 520
