"""One call as a process that is started cold.

What a command is started with.

Programs as skills.
"""

import asyncio
import json
import os
import resource
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.supervisor import SupervisedProcess
from openskills.executors.zygote import WorkerResult
from openskills.host.model import HostLimits, ManifestFault, Registration, SkillOutputEvent
from openskills.host.runners.isolation import LocalIsolation
from openskills.host.runners.program import STDERR_BYTES, encode_call_input, read_arguments, run_cold
from openskills.sync import run
from tests.host.calls_made import called, invoke, open_runner, script


def ended(tmp_path: Path, text: str, stdin: bytes = b"", *, seconds: float = 20.0, most: int = 1000) -> WorkerResult:
    """How a shell with this text ends."""
    skill = Registration("s", "cli:exec", "/bin/sh", "1", limits=HostLimits(output_bytes=most))

    async def work() -> WorkerResult:
        place = LocalIsolation(tmp_path)
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            return await run_cold(place, skill, ("/bin/sh", "-c", text), place.environment(skill), stdin, deadline)
        finally:
            await place.close()

    return run(work())


def test_both_streams_and_the_status_come_back(tmp_path: Path) -> None:
    found = ended(tmp_path, "cat; echo err >&2; exit 3", b"input")
    assert (found.returncode, found.stdout, found.stderr, found.cut) == (3, b"input", b"err\n", False)


def test_a_large_input_arrives_whole(tmp_path: Path) -> None:
    assert ended(tmp_path, "wc -c", b"x" * 3_000_000).stdout.strip() == b"3000000"


def test_a_signal_is_a_negative_status(tmp_path: Path) -> None:
    assert ended(tmp_path, "kill -9 $$").returncode == -9


def test_what_writes_too_much_is_stopped(tmp_path: Path) -> None:
    found = ended(tmp_path, "yes")
    assert found.cut
    assert len(found.stdout) == 1000
    assert found.stdout_bytes > 1000


def test_much_on_stderr_is_cut_and_nobody_is_stopped_for_it(tmp_path: Path) -> None:
    found = ended(tmp_path, f"head -c {STDERR_BYTES * 2} /dev/zero >&2; echo done")
    assert (found.stdout, len(found.stderr), found.returncode) == (b"done\n", STDERR_BYTES, 0)


def test_who_keeps_the_pipe_open_does_not_delay_the_end(tmp_path: Path) -> None:
    assert ended(tmp_path, "sleep 600 & echo done").stdout == b"done\n"


def test_the_deadline_is_kept(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        ended(tmp_path, "trap '' TERM; while :; do sleep 1; done", seconds=0.3)


async def test_a_program_that_cannot_be_started_leaves_no_descriptor_open(tmp_path: Path) -> None:
    skill = Registration("s", "cli:exec", "/no/such", "1")

    place = LocalIsolation(tmp_path)
    found: list[int] = []
    for _ in range(3):
        with pytest.raises(InvalidArgument):
            await run_cold(place, skill, ("/no/such",), {}, b"", asyncio.get_running_loop().time() + 5)
        found.append(len(os.listdir("/proc/self/fd")))
    await place.close()

    before, after = found[1], found[2]
    assert before == after


@contextmanager
def descriptors_left(count: int) -> Generator[None]:
    """In this block so many files can be opened, and no more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    fill: list[int] = []
    with open(os.devnull, "rb") as null:
        highest = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + count + 1, before[1]))
        try:
            while True:
                try:
                    fill.append(os.dup(null.fileno()))
                except OSError:
                    break
            for _ in range(count):
                os.close(fill.pop())
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for descriptor in fill:
                os.close(descriptor)


@pytest.mark.parametrize("left", range(5))
async def test_a_host_that_has_no_descriptors_left_does_not_lose_those_that_it_has(tmp_path: Path, left: int) -> None:
    skill = Registration("s", "cli:exec", "/bin/true", "1")

    place = LocalIsolation(tmp_path)
    deadline = asyncio.get_running_loop().time() + 20
    before = len(os.listdir("/proc/self/fd"))
    with descriptors_left(left), pytest.raises(OSError, match="Too many open files"):
        await run_cold(place, skill, ("/bin/true",), {}, b"input", deadline)
    after = len(os.listdir("/proc/self/fd"))
    await place.close()
    assert before == after


class Unreadable(LocalIsolation):
    """A place in which our ends of the pipes become something that cannot be read."""

    async def start(
        self,
        registration: Registration,
        argv: Sequence[str],
        env: Mapping[str, str],
        stdio: tuple[int, int, int],
        *,
        first: bool = False,
    ) -> SupervisedProcess:
        pipes = [os.readlink(f"/proc/self/fd/{descriptor}") for descriptor in stdio[1:]]
        directory = os.open("/", os.O_RDONLY | os.O_CLOEXEC)
        for descriptor in set(map(int, os.listdir("/proc/self/fd"))) - {*stdio}:
            with suppress(FileNotFoundError):
                if os.readlink(f"/proc/self/fd/{descriptor}") in pipes:
                    os.dup2(directory, descriptor, inheritable=False)
        os.close(directory)
        return await super().start(registration, argv, env, stdio, first=first)


async def test_pipes_that_cannot_be_read_have_ended(tmp_path: Path) -> None:
    skill = Registration("s", "cli:exec", "/bin/sh", "1")

    async def work() -> WorkerResult:
        place = Unreadable(tmp_path)
        deadline = asyncio.get_running_loop().time() + 20
        try:
            return await run_cold(place, skill, ("/bin/sh", "-c", "exit 3"), {}, b"", deadline)
        finally:
            await place.close()

    found = await work()
    assert (found.returncode, found.stdout, found.stderr) == (3, b"", b"")


def test_arguments_are_texts() -> None:
    assert read_arguments(Registration("s", "cli:exec", "/s", "1", options={"args": ["-n", 5]})) == ("-n", "5")
    assert read_arguments(Registration("s", "cli:exec", "/s", "1")) == ()


@pytest.mark.parametrize("args", ["-n 5", 5])
def test_arguments_that_are_not_a_list_are_refused(args: object) -> None:
    with pytest.raises(ManifestFault, match="list"):
        read_arguments(Registration("s", "cli:exec", "/s", "1", options={"args": args}))


@pytest.mark.parametrize("value", [{"a": "ä"}, {"n": 2**80}, {"s": "\ud800"}, {}])
def test_every_input_can_be_written(value: dict[str, object]) -> None:
    assert json.loads(encode_call_input(value)) == {"input": value}


def program(directory: Path, text: str, **more: Any) -> Registration:
    """A skill that is a shell script without a name that says so."""
    path = script(directory, f"#!/bin/sh\n{text}", "skill")
    path.chmod(0o755)
    fields: dict[str, Any] = {"executor": "local", **more}
    return Registration("skill", "cli:exec", str(path), "1", **fields)


async def test_a_program_reads_the_call_and_its_arguments_and_answers(tmp_path: Path) -> None:
    skill = program(
        tmp_path, 'read -r line; echo "{\\"got\\": $line, \\"args\\": \\"$*\\"}"', options={"args": ["-v", "x y"]}
    )
    outcome = await invoke(tmp_path, skill, input={"text": "hi"})
    assert outcome.data == {"got": {"input": {"text": "hi"}}, "args": "-v x y"}
    assert outcome.notes["isolation"] == "none"


async def test_a_program_sees_only_documented_variables(tmp_path: Path) -> None:
    skill = program(tmp_path, "env | cut -d= -f1 | sort | tr '\\n' ' '; exit 3", environment={"MINE": "1"})
    failure = (await invoke(tmp_path, skill, traceparent="00-a-b-01", secrets={"TOKEN": "geheim"})).failure
    assert failure is not None
    assert set(failure.details["stdout"].split()) - {"PWD", "_", "SHLVL", "OLDPWD"} == {
        *("HOME", "LANG", "MINE", "OPENSKILL_SKILL_ID", "OPENSKILL_TIMEOUT_MS", "OPENSKILL_TRACE_ID"),
        *("PATH", "TOKEN", "TRACEPARENT"),
    }


async def test_a_failing_program_is_reported_with_its_status_and_stderr(tmp_path: Path) -> None:
    failure = (await invoke(tmp_path, program(tmp_path, "echo broken >&2; exit 7"))).failure
    assert failure is not None
    assert (failure.details["exit_code"], failure.details["stderr"]) == (7, "broken")


async def test_a_program_is_stopped_at_the_deadline(tmp_path: Path) -> None:
    failure = (await invoke(tmp_path, program(tmp_path, "sleep 600 & sleep 600"), seconds=0.5)).failure
    assert failure is not None
    assert failure.code == 504


async def test_what_a_program_wrote_before_the_deadline_is_reported_without_secrets(tmp_path: Path) -> None:
    skill = program(tmp_path, "echo half; echo key $TOKEN >&2; exec sleep 600")
    outcome = await invoke(tmp_path, skill, seconds=1.5, secrets={"TOKEN": "geheim"})
    assert outcome.failure is not None
    details = outcome.failure.details
    assert (details["stdout"], details["stderr"]) == ("half", "key [secret TOKEN]")
    assert outcome.notes == {"isolation": "none"}


async def test_lines_are_told(tmp_path: Path) -> None:
    told: list[SkillOutputEvent] = []
    assert (await invoke(tmp_path, program(tmp_path, "echo a >&2; echo {}"), listener=told.append)).data == {}
    assert SkillOutputEvent("stderr", {"text": "a"}) in told
    assert SkillOutputEvent("stdout", {"text": "{}"}) in told


async def test_only_so_many_run_at_a_time(tmp_path: Path) -> None:
    text = "touch $0.$$; sleep .05; ls $0.* | wc -l | sed 's/.*/{\"n\": &}/'; rm $0.$$"
    skill = program(tmp_path, text, limits=HostLimits(concurrency=2))

    async with open_runner(tmp_path, skill) as runner:
        outcomes = await asyncio.gather(*(runner.invoke(skill, called()) for _ in range(6)))
        assert max((outcome.data or {})["n"] for outcome in outcomes) <= 2


@pytest.mark.parametrize(("mode", "said"), [(0o644, "chmod"), (None, "file not found")])
async def test_what_cannot_be_executed_cannot_be_prepared(tmp_path: Path, mode: int | None, said: str) -> None:
    skill = program(tmp_path, "echo {}")
    if mode is None:
        Path(skill.entry).unlink()
    else:
        Path(skill.entry).chmod(mode)
    async with open_runner(tmp_path, skill) as runner:
        with pytest.raises(ManifestFault, match=said):
            await runner.prepare(skill)


async def test_a_file_that_is_not_a_program_is_an_error(tmp_path: Path) -> None:
    skill = program(tmp_path, "")
    Path(skill.entry).write_bytes(b"\x00\x01\x02")
    with pytest.raises(ManifestFault, match="cannot be started"):
        await invoke(tmp_path, skill)


async def test_a_program_runs_in_the_sandbox_too(tmp_path: Path, require_program: Any) -> None:
    require_program("bwrap")
    (tmp_path / "skills").mkdir(mode=0o755)
    skill = program(tmp_path / "skills", 'echo "{\\"user\\": $(id -u), \\"n\\": $(ls .. | wc -l)}"', executor="sandbox")
    outcome = await invoke(tmp_path, skill)
    assert outcome.data is not None
    assert outcome.data["user"] == 1000
    assert outcome.notes["isolation"] == "bubblewrap"
