"""The way of one invocation, without HTTP.

Secrets are in nothing that a skill says.

Inputs and outputs of skills against the schemas of their manifests.

The span of an invocation: below the caller's, with the child below it.
"""

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from openskills.errors import DeadlineExceeded, ExecutorUnavailable, InvalidSkill, UnknownSkill
from openskills.host.admission import Admission
from openskills.host.auth import ANONYMOUS, Principal
from openskills.host.model import (
    Call,
    Failure,
    InvokeResult,
    Outcome,
    Registration,
    SkillOutputEvent,
    failure_outcome,
    success_outcome,
)
from openskills.host.service import (
    MAX_VIOLATIONS,
    Host,
    Invocation,
    InvocationTrace,
    InvokeRequest,
    SchemaValidator,
    mask_listener,
    mask_outcome,
)
from openskills.telemetry.context import JsonFormatter, trace_id
from tests.host.hosting import ECHO_SCHEMA, Function, FunctionTable, Waiting, echo, eventually, manifest, served


class Shelf:
    """A registry of given registrations."""

    def __init__(self, *registrations: Registration) -> None:
        self.found = {registration.id: registration for registration in registrations}

    def get(self, skill_id: str) -> Registration:
        if skill_id not in self.found:
            raise UnknownSkill(skill_id)
        return self.found[skill_id]

    def find(self, skill_id: str) -> Registration | None:
        return self.found.get(skill_id)


class Notebook:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.over: list[Invocation] = []

    def on_start(self, registration: Registration, asked: InvokeRequest) -> None:  # noqa: ARG002
        self.begun.append(registration.id)

    def on_end(self, invocation: Invocation) -> None:
        self.over.append(invocation)


def registration(skill_id: str, **more: Any) -> Registration:
    return Registration(skill_id, "inproc", f"x:{skill_id}", "1.2.3", **more)


def host_of(functions: Mapping[str, Function], notebook: Notebook | None = None, **more: Any) -> Host:
    registrations = [registration(name, **more) for name in functions]
    admission = Admission(capacity=4, queue=4)
    watchers = () if notebook is None else (notebook,)
    return Host(
        Shelf(*registrations), FunctionTable(functions), admission, secrets={"TOKEN": "s3cret"}, observers=watchers
    )


async def invoke(host: Host, skill_id: str, value: dict[str, Any] | None = None, **more: Any) -> InvokeResult:
    return await host.invoke(skill_id, value or {}, trace_id="t-1", principal=more.pop("principal", ANONYMOUS), **more)


async def test_an_invocation_ends_in_the_one_result() -> None:

    result = await invoke(host_of({"echo": echo}), "echo", {"text": "hello"})
    assert (result.success, result.skill_id, result.trace_id, result.version) == (True, "echo", "t-1", "1.2.3")
    assert result.outcome.data == {"echoed": "hello"}
    assert result.latency_ms >= 0


@pytest.mark.parametrize(("skill_id", "value", "code"), [("nope", {}, 404), ("echo", {"text": 1}, 400)])
async def test_what_is_wrong_with_a_call_is_its_result(skill_id: str, value: dict[str, Any], code: int) -> None:

    assert (await invoke(host_of({"echo": echo}, input_schema=ECHO_SCHEMA), skill_id, value)).status == code


async def test_who_has_no_scope_is_refused() -> None:

    result = await invoke(host_of({"echo": echo}), "echo", {"text": "a"}, principal=Principal("me", scopes=("other",)))
    assert result.status == 403
    assert result.outcome.failure is not None
    assert result.outcome.failure.details["scope"] == "echo"


async def test_a_skill_gets_its_own_secrets_and_no_other() -> None:
    seen: list[Mapping[str, str]] = []

    async def secretive(call: Call) -> Outcome:
        seen.append(call.secrets)
        return success_outcome({})

    host = host_of({"secretive": secretive}, secrets=("TOKEN",))
    poor = host_of({"secretive": secretive}, secrets=("MISSING",))
    plain = host_of({"secretive": secretive})

    assert [(await invoke(each, "secretive")).status for each in (host, plain, poor)] == [200, 200, 503]
    assert seen == [{"TOKEN": "s3cret"}, {}]


async def test_the_deadline_is_that_of_the_skill_and_passing_it_is_a_result() -> None:
    async def late(call: Call) -> Outcome:
        await asyncio.sleep(max(call.deadline - asyncio.get_running_loop().time(), 0))
        raise DeadlineExceeded("it took too long")

    result = await invoke(host_of({"late": late}, timeout_ms=20), "late")
    assert result.status == 504
    assert result.latency_ms >= 20


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_a_fault_of_a_runner_is_reported_in_the_log_only(
    caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    async def broken(call: Call) -> Outcome:
        raise error("hunter22")

    with caplog.at_level(logging.ERROR, "openskills.host"):
        result = await invoke(host_of({"broken": broken}), "broken")
    assert result.status == 500
    assert "hunter22" not in str(result)
    assert "hunter22" in caplog.text


@pytest.mark.parametrize("failure", [Failure(cast("int", "abc"), "x"), Failure(500, cast("str", 5))])
async def test_an_outcome_that_cannot_be_a_result_ends_its_call(failure: Failure) -> None:
    notebook = Notebook()

    async def odd(call: Call) -> Outcome:
        return failure_outcome(failure)

    host = host_of({"odd": odd}, notebook)
    result = await invoke(host, "odd")
    assert (result.status, len(notebook.over)) == (500, 1)
    assert result.outcome.failure is not None
    assert result.outcome.failure.message.startswith("internal error")
    assert host.in_flight == 0


async def test_every_end_stands_in_the_books_once() -> None:
    notebook = Notebook()
    waiting = Waiting()

    host = host_of({"echo": echo, "waiting": waiting}, notebook, input_schema=None)
    await invoke(host, "echo", {"text": "a"})
    await invoke(host, "nope")
    task = asyncio.create_task(invoke(host, "waiting"))
    while not waiting.began.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert host.in_flight == 0

    assert notebook.begun == ["echo", "waiting"]
    assert [(each.result.skill_id, each.result.status) for each in notebook.over] == [
        ("echo", 200),
        ("nope", 404),
        ("waiting", 499),
    ]


async def test_what_is_shown_begins_when_the_skill_has_got_its_place() -> None:
    shown: list[SkillOutputEvent] = []

    await invoke(host_of({"echo": echo}), "echo", {"text": "a"}, listener=shown.append)

    assert [(each.kind, each.data["trace_id"]) for each in shown] == [("start", "t-1")]


async def test_what_is_interrupted_twice_ends_its_children_and_says_so() -> None:
    began, ending, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def careful(call: Call) -> Outcome:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await may_end.wait()
        raise AssertionError(call)

    host = host_of({"careful": careful})
    calling = asyncio.create_task(invoke(host, "careful"))
    await began.wait()
    host.interrupt()
    await ending.wait()
    host.interrupt()
    may_end.set()
    result = await calling
    assert result.outcome.failure is not None
    assert result.outcome.failure.details["reason"] == "INTERRUPTED"


async def test_a_host_that_ends_takes_nothing_new_and_says_so_to_what_it_interrupts() -> None:
    waiting = Waiting()

    host = host_of({"waiting": waiting})
    task = asyncio.create_task(invoke(host, "waiting"))
    while not waiting.began.is_set():
        await asyncio.sleep(0.001)
    host.interrupt()
    await host.wait_idle()
    result = [await task, await invoke(host, "waiting")]

    reasons = [each.outcome.failure.details["reason"] for each in result if each.outcome.failure is not None]
    assert reasons == ["INTERRUPTED", "DRAINING"]
    assert waiting.cancelled.is_set()


async def test_a_registration_that_has_changed_is_checked_by_its_new_schema() -> None:
    first, second = registration("echo"), registration("echo", input_schema=ECHO_SCHEMA)
    shelf = Shelf(first)
    host = Host(shelf, FunctionTable({"echo": echo}), Admission(capacity=1, queue=1), secrets={})
    before = await invoke(host, "echo", {"text": 1})
    shelf.found["echo"] = second
    after = await invoke(host, "echo", {"text": 1})
    host.forget("echo")

    assert [before.status, after.status, (await invoke(host, "echo", {"text": "a"})).status] == [200, 400, 200]


async def test_a_secret_is_in_nothing_that_is_answered_shown_or_told_to_the_books() -> None:
    notebook, shown = Notebook(), list[SkillOutputEvent]()

    async def leaks(call: Call) -> Outcome:
        assert call.listener is not None
        call.listener(SkillOutputEvent("progress", {"using": [call.secrets["TOKEN"]]}))
        return success_outcome({"deep": [{"key s3cret": "s3cret"}]}, version="s3cret", notes={"note": "s3cret"})

    async def fails(call: Call) -> Outcome:
        return failure_outcome(
            Failure(500, "no s3cret", {"reason": "INTERNAL", "tried": ("s3cret",)}), notes={"note": "s3cret"}
        )

    async def raises(call: Call) -> Outcome:
        raise DeadlineExceeded("s3cret took too long", stdout="s3cret")

    host = host_of({"leaks": leaks, "fails": fails, "raises": raises}, notebook, secrets=("TOKEN",))

    results = [await invoke(host, name, listener=shown.append) for name in ("leaks", "fails", "raises")]
    assert [each.status for each in results] == [200, 500, 504]
    assert results[0].outcome.data == {"deep": [{"key [secret TOKEN]": "[secret TOKEN]"}]}
    assert "s3cret" not in f"{results} {shown} {[each.result for each in notebook.over]}"
    assert not any(b"s3cret" in each.body for each in notebook.over)


async def test_what_is_refused_stands_in_the_books_with_its_skill_and_the_caller_learns_nothing_of_it() -> None:
    notebook = Notebook()

    host = host_of({"echo": echo}, notebook)
    stranger = Principal("me", scopes=("other",))
    found = [await invoke(host, "echo", {"text": "a"}, principal=stranger)]
    for name in ("echo", "nope"):
        asked = InvokeRequest(name, {}, "t-1", ANONYMOUS, time.perf_counter())
        found.append(host.record_refusal(Failure(401, "who are you?"), asked).result)

    results = found
    assert [each.registration and each.registration.id for each in notebook.over] == ["echo", "echo", None]
    assert notebook.begun == ["echo", "echo"]
    assert results[1].version == results[2].version != "1.2.3"


SECRETS = {"TOKEN": "hunter22"}


def test_text_is_masked_wherever_it_is() -> None:
    outcome = success_outcome(
        {"a": ["x hunter22", {"hunter22": 1}], "n": None}, version="hunter22", notes={"b": ("hunter22",)}
    )
    found = mask_outcome(outcome, SECRETS)
    assert found.data == {"a": ["x [secret TOKEN]", {"[secret TOKEN]": 1}], "n": None}
    assert (found.version, found.notes) == ("[secret TOKEN]", {"b": ["[secret TOKEN]"]})


def test_a_failure_keeps_everything_else() -> None:
    outcome = failure_outcome(Failure(503, "hunter22 is wrong", {"reason": "X", "n": 5, "key": "hunter22"}, 2.0))
    wanted = Failure(503, "[secret TOKEN] is wrong", {"reason": "X", "n": 5, "key": "[secret TOKEN]"}, 2.0)
    assert mask_outcome(outcome, SECRETS).failure == wanted


@pytest.mark.parametrize("secrets", [{}, {"SHORT": "abc"}])
def test_where_there_is_nothing_to_hide_nothing_is_looked_at(secrets: dict[str, str]) -> None:
    outcome = success_outcome({"a": "abc"})
    shown: list[SkillOutputEvent] = []
    assert mask_outcome(outcome, secrets) is outcome
    assert mask_listener(shown.append, secrets) == shown.append


def test_what_is_nested_too_deeply_to_be_looked_through_is_not_shown() -> None:
    data: dict[str, Any] = {"key": "hunter22"}
    for _ in range(100_000):
        data = {"in": data}
    failure = mask_outcome(success_outcome(data), SECRETS).failure
    assert failure is not None
    assert (failure.code, failure.details["reason"]) == (502, "BAD_SKILL_OUTPUT")


def test_a_listener_is_told_the_names() -> None:
    shown: list[SkillOutputEvent] = []
    mask_listener(shown.append, SECRETS)(SkillOutputEvent("progress", {"text": "hunter22"}))
    assert shown == [SkillOutputEvent("progress", {"text": "[secret TOKEN]"})]


async def leaky(call: Call) -> Outcome:
    """Says its secret wherever it can."""
    secret = call.secrets["MYSEC"]
    if call.listener is not None:
        call.listener(SkillOutputEvent("progress", {"with": secret}))
    if call.input.get("fails"):
        return failure_outcome(Failure(500, f"no {secret}", {"reason": "INTERNAL", "x": secret}), notes={"m": secret})
    return success_outcome({"d": secret}, notes={"m": secret})


def test_a_secret_gets_neither_over_the_wire_nor_into_a_file(tmp_path: Path) -> None:
    manifest(tmp_path, "leaky", "secrets: [MYSEC]\n")
    database = tmp_path / "kept" / "host.db"
    environment = {"MYSEC": "hunter22-hunter22"}
    with served(tmp_path, {"leaky": leaky}, environment=environment, host_history=database) as host:
        said: list[str] = []
        for value in ({}, {"fails": True}):
            replayed = {"Idempotency-Key": f"k{len(value)}"}
            said += [host.invoke("leaky", value, headers=headers).text for headers in ({}, replayed, replayed)]
            answer = host.invoke("leaky", value, headers={"Prefer": "respond-async"})
            run = answer.headers["location"]
            eventually(lambda run=run: host.client.get(run).json()["data"]["result"] is not None)
            said += [answer.text, host.client.get(run).text, host.client.get(f"{run}/events").text]
            said.append(host.client.post("/skills/leaky:stream", json={"input": value}).text)
    assert sum("[secret MYSEC]" in text for text in said) == len(said) - 2
    assert "hunter22" not in "".join(said)
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert database in kept
    assert not [file.name for file in kept if b"hunter22" in file.read_bytes()]


NUMBERS: dict[str, Any] = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "number"}, "minItems": 1}},
    "required": ["numbers"],
    "additionalProperties": False,
}


def checks(**schemas: Any) -> SchemaValidator:
    return SchemaValidator(Registration("calculator", "inproc", "x:y", "0.1.0", **schemas))


def test_an_input_that_fits_is_let_through() -> None:
    assert checks(input_schema=NUMBERS).validate_input({"numbers": [1, 2.5]}) is None


def test_without_schemas_everything_is_let_through() -> None:
    assert checks().validate_input({"a": 1}) is None
    assert checks().validate_output({"a": 1}) is None


def test_a_fault_names_the_place_and_the_rule() -> None:
    failure = checks(input_schema=NUMBERS).validate_input({"numbers": [1, "two"]})
    assert failure is not None
    assert (failure.code, failure.details["reason"], failure.details["field"]) == (
        400,
        "INVALID_ARGUMENT",
        "input.numbers[1]",
    )
    assert failure.message == 'input.numbers[1]: "two" is not of type "number"'
    assert failure.details["errors"][0]["rule"] == "type"


def test_every_fault_is_reported_up_to_a_limit() -> None:
    failure = checks(input_schema=NUMBERS).validate_input({"numbers": ["x"] * 100, "more": 1})
    assert failure is not None
    assert len(failure.details["errors"]) == MAX_VIOLATIONS


def test_a_value_of_megabytes_is_not_repeated() -> None:
    failure = checks(input_schema=NUMBERS).validate_input({"numbers": "x" * 1_000_000})
    assert failure is not None
    assert len(failure.message) < 500


def test_data_that_breaks_the_skills_own_contract_is_a_bad_output() -> None:
    failure = checks(output_schema=NUMBERS).validate_output({"numbers": []})
    assert failure is not None
    assert (failure.code, failure.details["reason"]) == (502, "BAD_SKILL_OUTPUT")
    assert failure.message.startswith("the skill's data do not match its output_schema: data.numbers: ")


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:1/schema.json"}, {"pattern": "("}])
def test_a_schema_that_is_none_or_is_elsewhere_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidSkill, match="calculator: input_schema is not a valid JSON schema"):
        checks(input_schema=schema)


ECHO = Registration("echo", "inproc", "x:y", "0.1.0")
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def asked(parent: str | None = None) -> InvokeRequest:
    return InvokeRequest("echo", {}, "t-1", ANONYMOUS, 0.0, parent=parent)


def test_what_is_logged_in_an_invocation_has_its_trace_id_and_no_secret() -> None:
    with InvocationTrace(ECHO, asked(), {"TOKEN": "hunter22"}):
        record = logging.LogRecord("x", logging.INFO, "", 0, "with %s", ("hunter22",), None)
        line = json.loads(JsonFormatter().format(record))
        assert trace_id() == "t-1"
    assert (line["trace_id"], line["skill"], line["message"]) == ("t-1", "echo", "with [secret TOKEN]")
    assert trace_id() == ""


UNWATCHED = """
from tests.host.test_service import ECHO, PARENT, asked
from openskills.host.service import InvocationTrace, current_traceparent
with InvocationTrace(ECHO, asked(parent=PARENT), {}) as span:
    print(current_traceparent(span, "here"))
"""


def test_when_nobody_watches_the_childs_parent_is_the_one_of_the_request() -> None:
    # In a process of its own: another test may have set up a tracer in this one.
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", UNWATCHED], cwd=root, capture_output=True, timeout=60, check=True)
    assert done.stdout == b"here\n"


async def test_two_invocations_at_a_time_have_their_own_trace_ids() -> None:
    async def one(name: str) -> str:
        with InvocationTrace(ECHO, InvokeRequest("echo", {}, name, ANONYMOUS, 0.0), {}):
            await asyncio.sleep(0.01)
            return trace_id()

    assert list(await asyncio.gather(one("a"), one("b"))) == ["a", "b"]


PROGRAM = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
from tests.host.test_service import ECHO, PARENT, asked
from openskills.host.service import InvocationTrace, current_traceparent
with InvocationTrace(ECHO, asked(parent=PARENT), {}) as span:
    child = current_traceparent(span, None)
(found,) = exporter.get_finished_spans()
assert found.name == "execute_tool echo", found.name
assert format(found.context.trace_id, "032x") == PARENT[3:35]
assert format(found.parent.span_id, "016x") == PARENT[36:52]
assert child == f"{PARENT[:36]}{found.context.span_id:016x}-01", child
"""


def test_with_a_tracer_the_span_is_between_the_caller_and_the_child() -> None:
    # In a process of its own: a tracer is set up for the whole of one.
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


async def test_a_failure_of_the_host_names_no_directory(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(_: Call) -> Outcome:
        raise ExecutorUnavailable("the interpreter /opt/secret/bin/python3 does not work; see https://a.example/b/c")

    with caplog.at_level(logging.WARNING, "openskills.host"):
        done = await host_of({"fails": fails}).invoke("fails", {}, trace_id="t", principal=ANONYMOUS)
    failure = done.outcome.failure
    assert failure is not None
    assert failure.message == "the interpreter python3 does not work; see https://a.example/b/c"
    assert "/opt/secret/bin/python3" in caplog.text
