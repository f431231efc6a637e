"""Skills behind HTTP, on a real server.

Where skills behind HTTP may be.
"""

import gzip
import ipaddress
import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.addresses import classify_address
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.host.model import HostLimits, ManifestFault, Outcome, Registration
from openskills.host.runners.http import ForbiddenTarget, check_host, parse_target, select_address
from tests.host.calls_made import called, open_runner

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


async def asked(
    tmp_path: Path, where: str, *, targets: str | None = None, call: dict[str, Any] | None = None, **more: Any
) -> Outcome:
    """The outcome of one call of a skill there."""
    skill = Registration("skill", "http", f"http://{where}/run", "1", **more)
    allowed = where if targets is None else targets
    async with open_runner(tmp_path, skill, OPENSKILL_HOST_HTTP_TARGETS=allowed) as runner:
        return await runner.invoke(skill, called(**(call or {})))


def as_json(value: object) -> tuple[int, dict[str, str], bytes]:
    return 200, {"content-type": "application/json"}, json.dumps(value).encode()


async def test_the_call_is_posted_with_its_trace_and_the_object_is_data(tmp_path: Path) -> None:
    with serving(lambda headers, body: as_json({"headers": headers, "body": json.loads(body)})) as where:
        call = {"input": {"a": 1}, "traceparent": "00-1-2-01", "secrets": {"TOKEN": "t0ken"}}
        options = {"headers": {"Authorization": "Bearer ${TOKEN}"}}
        data = (await asked(tmp_path, where, call=call, options=options, secrets=("TOKEN",))).data or {}
    assert data["body"] == {"input": {"a": 1}}
    found = {name: data["headers"][name] for name in ("x-trace-id", "traceparent", "authorization", "host")}
    assert found == {
        "x-trace-id": "trace-1",
        "traceparent": "00-1-2-01",
        "authorization": "Bearer t0ken",
        "host": where,
    }


async def test_a_normalised_result_is_taken_whatever_the_status_is(tmp_path: Path) -> None:
    result = {"success": False, "error": {"code": "INVALID_ARGUMENT", "message": "no"}}
    with serving(lambda _, __: (400, {}, json.dumps(result).encode())) as where:
        failure = (await asked(tmp_path, where)).failure
    assert failure is not None
    assert (failure.code, failure.message) == (400, "no")


@pytest.mark.parametrize("status", [404, 500, 503])
async def test_another_status_is_a_bad_answer_with_its_body(tmp_path: Path, status: int) -> None:
    with serving(lambda _, __: (status, {}, b"<html>oops</html>")) as where:
        failure = (await asked(tmp_path, where)).failure
    assert failure is not None
    assert (failure.code, failure.details["status"], failure.details["body"]) == (502, status, "<html>oops</html>")


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    asked_for: list[bytes] = []
    with serving(
        lambda _, body: (asked_for.append(body) or 302, {"location": "http://169.254.169.254/"}, b"")
    ) as where:
        failure = (await asked(tmp_path, where)).failure
    assert failure is not None
    assert "169.254.169.254" in failure.message
    assert len(asked_for) == 1


async def test_a_private_address_is_refused_unless_it_is_listed(tmp_path: Path) -> None:
    with serving(lambda _, __: as_json({})) as where:
        for targets in ("", "example.com"):
            with pytest.raises(ForbiddenTarget):
                await asked(tmp_path, where, targets=targets)
        assert (await asked(tmp_path, where, targets="127.0.0.0/8")).data == {}


async def test_a_name_that_leads_to_a_private_address_is_refused(tmp_path: Path) -> None:
    with serving(lambda _, __: as_json({})) as where:
        port = where.partition(":")[2]
        with pytest.raises(ForbiddenTarget, match="not public"):
            await asked(tmp_path, f"localhost:{port}", targets="")
        assert (await asked(tmp_path, f"localhost:{port}")).data == {}


async def test_an_answer_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    with serving(lambda _, __: (200, {}, b"x" * 200_000)) as where:
        failure = (await asked(tmp_path, where, limits=HostLimits(output_bytes=1000))).failure
    assert failure is not None
    assert failure.details["limit_bytes"] == 1000


async def test_a_packed_answer_is_refused_because_nobody_asked_for_one(tmp_path: Path) -> None:
    bomb = gzip.compress(b"x" * 5_000_000)
    with serving(lambda _, __: (200, {"content-encoding": "gzip"}, bomb)) as where:
        failure = (await asked(tmp_path, where)).failure
    assert failure is not None
    assert "gzip" in failure.message


async def test_a_server_that_does_not_answer_in_time_is_left(tmp_path: Path) -> None:
    def slow(*_: object) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.5)
        return as_json({})

    with serving(slow) as where:
        outcome = await asked(tmp_path, where, call={"seconds": 0.1})
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.notes) == (504, {"isolation": "remote"})


async def test_an_unreachable_server_is_an_error(tmp_path: Path) -> None:
    with serving(lambda _, __: as_json({})) as where:
        pass
    with pytest.raises(ExecutorUnavailable, match="cannot reach the skill"):
        await asked(tmp_path, where)


@pytest.mark.parametrize(
    ("entry", "options", "said"),
    [
        ("ftp://example.com", {}, "expected an http"),
        ("http://0177.0.0.1/", {}, "not a URL"),
        ("https://user:pw@example.com/", {}, "secrets"),
        ("https://example.com/", {"method": "DELETE"}, "DELETE"),
        ("https://example.com/", {"headers": {"Host": "x"}}, "set by the host"),
        ("https://example.com/", {"headers": {"A": "${NOPE}"}}, "NOPE"),
        ("https://example.com/", {"headers": ["A"]}, "expected a map"),
    ],
)
async def test_a_skill_that_cannot_be_called_cannot_be_prepared(
    tmp_path: Path, entry: str, options: dict[str, Any], said: str
) -> None:
    skill = Registration("skill", "http", entry, "1", options=options)
    async with open_runner(tmp_path, skill) as runner:
        with pytest.raises(ManifestFault, match=said):
            await runner.prepare(skill)


PRIVATE = [
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1"),
    *(
        "::1",
        "fe80::1",
        "fc00::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::",
    ),
    *("::", "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_without_targets_an_address_that_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(ForbiddenTarget, match="not public"):
        select_address("example.com", 80, [address], ())


def test_without_targets_a_public_address_is_taken() -> None:
    assert select_address("example.com", 443, ["93.184.216.34"], ()) == "93.184.216.34"
    assert select_address("example.com", 443, ["2606:2800:220:1::1"], ()) == "2606:2800:220:1::1"


def test_of_several_addresses_the_first_that_is_allowed_is_taken() -> None:
    assert select_address("example.com", 443, ["10.0.0.1", "93.184.216.34"], ()) == "93.184.216.34"


@pytest.mark.parametrize("target", ["internal", "internal:8080", "10.0.0.0/8", "10.1.2.3", "10.1.2.3:8080"])
def test_a_private_address_is_taken_when_it_is_listed(target: str) -> None:
    assert select_address("internal", 8080, ["10.1.2.3"], [parse_target(target)]) == "10.1.2.3"


@pytest.mark.parametrize("target", ["other", "internal:81", "*.internal", "11.0.0.0/8", "10.1.2.3:81"])
def test_with_targets_everything_else_is_refused(target: str) -> None:
    with pytest.raises(ForbiddenTarget, match="not in OPENSKILL_HOST_HTTP_TARGETS"):
        select_address("internal", 8080, ["10.1.2.3"], [parse_target(target)])


def test_a_star_stands_for_what_is_below_a_name_only() -> None:
    targets = [parse_target("*.example.com")]
    assert select_address("a.example.com", 443, ["93.184.216.34"], targets)
    for other in ("example.com", "notexample.com", "example.com.evil.org"):
        with pytest.raises(ForbiddenTarget):
            check_host(other, 443, targets)


@pytest.mark.parametrize("text", ["", "a b", "http://", "x/y", "user@host", "host:99999", "host:http", "a*b"])
def test_what_is_not_a_target_is_reported(text: str) -> None:
    with pytest.raises(InvalidArgument, match="OPENSKILL_HOST_HTTP_TARGETS"):
        parse_target(text)


def test_an_address_of_version_6_is_shown_as_it_has_to_be_listed() -> None:
    with pytest.raises(ForbiddenTarget, match=r"add \[::1\]:18602 to OPENSKILL_HOST_HTTP_TARGETS"):
        select_address("::1", 18602, ["::1"], [])
    with pytest.raises(ForbiddenTarget, match=r"\[::1\]:18602 is not in"):
        select_address("::1", 18602, ["::1"], [parse_target("[::1]:18603")])
    assert select_address("::1", 18602, ["::1"], [parse_target("[::1]:18602")]) == "::1"


def test_an_address_of_version_6_with_a_port_and_no_brackets_is_refused_with_the_right_form() -> None:
    with pytest.raises(InvalidArgument, match=r"invalid address '::1:18602'; .* \[::1\]:8080"):
        parse_target("::1:18602")


def test_a_url_and_brackets_are_understood() -> None:
    assert parse_target("https://Api.Example.com:8443/").port == 8443
    assert parse_target("[::1]:9000").port == 9000
    assert parse_target("::1").network is not None


PUBLIC_OR_NOT = ["93.184.216.34", "168.63.129.16", "2002:a00:1::", "64:ff9b::a00:1", "::ffff:10.0.0.1", "2606:4700::1"]


@given(st.ip_addresses() | st.sampled_from(PUBLIC_OR_NOT).map(ipaddress.ip_address))
def test_the_host_and_the_proxy_of_sandboxes_agree_on_what_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    own = (address.is_private, address.is_loopback, address.is_link_local, address.is_unspecified, address.is_multicast)
    if classify_address(address) is None:
        assert not any(own)
        assert select_address("a.example", 443, [str(address)], []) == str(address)
    else:
        with pytest.raises(ForbiddenTarget, match="not public"):
            select_address("a.example", 443, [str(address)], [])
