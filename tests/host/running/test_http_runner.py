"""Skills behind HTTP, on a real server."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.host.registration import HostLimits, Registration
from openskills.host.result import Outcome
from openskills.host.running.http_targets import ForbiddenTarget
from openskills.host.running.manifest_fault import ManifestFault
from tests.host.calls_made import called, with_runner

Answer = Callable[[dict[str, str], bytes], tuple[int, dict[str, str], bytes]]


@contextmanager
def serving(answer: Answer) -> Generator[str]:
    """A server on this machine that answers as it is told; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers, data = answer({name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(
    tmp_path: Path, where: str, *, targets: str | None = None, call: dict[str, Any] | None = None, **more: Any
) -> Outcome:
    """The outcome of one call of a skill there."""
    skill = Registration("skill", "http", f"http://{where}/run", "1", **more)
    return with_runner(
        tmp_path,
        skill,
        lambda runner: runner.invoke(skill, called(**(call or {}))),
        OPENSKILL_HOST_HTTP_TARGETS=where if targets is None else targets,
    )


def as_json(value: object) -> tuple[int, dict[str, str], bytes]:
    return 200, {"content-type": "application/json"}, json.dumps(value).encode()


def test_the_call_is_posted_with_its_trace_and_the_object_is_data(tmp_path: Path) -> None:
    with serving(lambda headers, body: as_json({"headers": headers, "body": json.loads(body)})) as where:
        call = {"input": {"a": 1}, "traceparent": "00-1-2-01", "secrets": {"TOKEN": "t0ken"}}
        options = {"headers": {"Authorization": "Bearer ${TOKEN}"}}
        data = asked(tmp_path, where, call=call, options=options, secrets=("TOKEN",)).data or {}
    assert data["body"] == {"input": {"a": 1}}
    found = {name: data["headers"][name] for name in ("x-trace-id", "traceparent", "authorization", "host")}
    assert found == {
        "x-trace-id": "trace-1",
        "traceparent": "00-1-2-01",
        "authorization": "Bearer t0ken",
        "host": where,
    }


def test_a_normalised_result_is_taken_whatever_the_status_is(tmp_path: Path) -> None:
    result = {"success": False, "error": {"code": "INVALID_ARGUMENT", "message": "no"}}
    with serving(lambda _, __: (400, {}, json.dumps(result).encode())) as where:
        failure = asked(tmp_path, where).failure
    assert failure is not None
    assert (failure.code, failure.message) == (400, "no")


@pytest.mark.parametrize("status", [404, 500, 503])
def test_another_status_is_a_bad_answer_with_its_body(tmp_path: Path, status: int) -> None:
    with serving(lambda _, __: (status, {}, b"<html>oops</html>")) as where:
        failure = asked(tmp_path, where).failure
    assert failure is not None
    assert (failure.code, failure.details["status"], failure.details["body"]) == (502, status, "<html>oops</html>")


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    asked_for: list[bytes] = []
    with serving(
        lambda _, body: (asked_for.append(body) or 302, {"location": "http://169.254.169.254/"}, b"")
    ) as where:
        failure = asked(tmp_path, where).failure
    assert failure is not None
    assert "169.254.169.254" in failure.message
    assert len(asked_for) == 1


def test_a_private_address_is_refused_unless_it_is_listed(tmp_path: Path) -> None:
    with serving(lambda _, __: as_json({})) as where:
        for targets in ("", "example.com"):
            with pytest.raises(ForbiddenTarget):
                asked(tmp_path, where, targets=targets)
        assert asked(tmp_path, where, targets="127.0.0.0/8").data == {}


def test_a_name_that_leads_to_a_private_address_is_refused(tmp_path: Path) -> None:
    with serving(lambda _, __: as_json({})) as where:
        port = where.partition(":")[2]
        with pytest.raises(ForbiddenTarget, match="not public"):
            asked(tmp_path, f"localhost:{port}", targets="")
        assert asked(tmp_path, f"localhost:{port}").data == {}


def test_an_answer_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    with serving(lambda _, __: (200, {}, b"x" * 200_000)) as where:
        failure = asked(tmp_path, where, limits=HostLimits(output_bytes=1000)).failure
    assert failure is not None
    assert failure.details["limit_bytes"] == 1000


def test_a_packed_answer_is_refused_because_nobody_asked_for_one(tmp_path: Path) -> None:
    bomb = gzip.compress(b"x" * 5_000_000)
    with serving(lambda _, __: (200, {"content-encoding": "gzip"}, bomb)) as where:
        failure = asked(tmp_path, where).failure
    assert failure is not None
    assert "gzip" in failure.message


def test_a_server_that_does_not_answer_in_time_is_left(tmp_path: Path) -> None:
    def slow(*_: object) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.5)
        return as_json({})

    with serving(slow) as where:
        outcome = asked(tmp_path, where, call={"seconds": 0.1})
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.notes) == (504, {"isolation": "remote"})


def test_nobody_there_is_told(tmp_path: Path) -> None:
    with serving(lambda _, __: as_json({})) as where:
        pass
    with pytest.raises(ExecutorUnavailable, match="cannot be reached"):
        asked(tmp_path, where)


@pytest.mark.parametrize(
    ("entry", "options", "said"),
    [
        ("ftp://example.com", {}, "no http"),
        ("http://0177.0.0.1/", {}, "is no URL"),
        ("https://user:pw@example.com/", {}, "secrets"),
        ("https://example.com/", {"method": "DELETE"}, "DELETE"),
        ("https://example.com/", {"headers": {"Host": "x"}}, "set by the host"),
        ("https://example.com/", {"headers": {"A": "${NOPE}"}}, "NOPE"),
        ("https://example.com/", {"headers": ["A"]}, "mapping"),
    ],
)
def test_a_skill_that_cannot_be_called_cannot_be_prepared(
    tmp_path: Path, entry: str, options: dict[str, Any], said: str
) -> None:
    skill = Registration("skill", "http", entry, "1", options=options)
    with pytest.raises(ManifestFault, match=said):
        with_runner(tmp_path, skill, lambda runner: runner.prepare(skill))
