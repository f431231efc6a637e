"""Which modules are loaded ahead.

Scripts as skills: warm and cold do the same, and nothing of a call outlives it.
"""

import asyncio
import time
from pathlib import Path

import pytest

from openskills.errors import DeadlineExceeded, ExecutorUnavailable
from openskills.host.model import HostLimits, ManifestFault, Outcome, SkillOutputEvent, SkillStartMethod
from openskills.host.runners.python import PythonRunner, find_preloadable, select_preloadable
from openskills.sync import run
from tests.conftest import RequireProgram
from tests.host.both_ways import BOTH_WAYS
from tests.host.calls_made import called, invoke, open_runner, python_skill, script


def test_modules_of_python_are_loaded_ahead_wherever_they_are_imported() -> None:
    source = b"import os.path, numpy\nfrom decimal import Decimal\ndef f():\n    import csv\nfrom . import beside\n"
    assert find_preloadable(source) == ("json", "re", "os.path", "decimal", "csv")


def test_what_shows_something_when_it_is_imported_is_not_loaded() -> None:
    assert find_preloadable(b"import this, antigravity, turtle, tkinter.ttk") == ("json", "re")


def test_our_own_library_for_skills_is_loaded() -> None:
    assert find_preloadable(b"from openskills.skillkit import main\nimport openskills.catalog")[2:] == (
        "openskills.skillkit",
    )


def test_of_what_is_not_python_nothing_is_loaded() -> None:
    assert find_preloadable(b"def (") == ()
    assert find_preloadable(b"\x00") == ()


def test_a_call_can_ask_only_for_modules_of_python() -> None:
    told = ["csv", "encodings.utf_8_sig", "numpy", "this", "os; import x", "__main__", "openskills.skillkit.files", ""]
    assert select_preloadable(told) == ("csv", "encodings.utf_8_sig", "openskills.skillkit.files")


ECHO = """
    import json, sys
    request = json.load(sys.stdin)
    print(json.dumps({"success": True, "data": {"echoed": request["input"]["text"]}, "error": None}))
"""


@pytest.fixture(scope="module")
def loop_work(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Outcome, Outcome]]:
    """Every script of `BOTH_WAYS`, warm and cold."""
    directory = tmp_path_factory.mktemp("both")
    script(directory, "VALUE = 'beside'", "beside.py")
    for number, text in enumerate(BOTH_WAYS.values()):
        (directory / f"skill{number}.py").write_text(text, encoding="utf-8")

    async def work() -> dict[str, tuple[Outcome, Outcome]]:
        found: dict[str, tuple[Outcome, Outcome]] = {}
        async with open_runner(directory, python_skill(directory / "skill0.py")) as runner:
            for number, name in enumerate(BOTH_WAYS):
                entry = directory / f"skill{number}.py"
                outcomes = [
                    await runner.invoke(
                        python_skill(entry, warm=warm), called({"text": "x"}, secrets={"TOKEN": "geheim"})
                    )
                    for warm in (SkillStartMethod.FORK, SkillStartMethod.SPAWN)
                ]
                found[name] = (outcomes[0], outcomes[1])
        return found

    return run(work())


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_a_script_does_the_same_in_a_warm_interpreter_as_in_a_cold_one(
    name: str, loop_work: dict[str, tuple[Outcome, Outcome]]
) -> None:
    warm, cold = loop_work[name]
    notes = [
        {key: value for key, value in one.notes.items() if key not in {"cold_start", "memory_bytes"}}
        for one in (warm, cold)
    ]
    assert (warm.data, warm.failure, notes[0]) == (cold.data, cold.failure, notes[1])


async def test_each_call_gets_its_own_input_and_process(tmp_path: Path) -> None:
    entry = script(
        tmp_path,
        """
        import json, os, sys
        counter = globals().get("counter", 0) + 1
        text = json.load(sys.stdin)["input"]["text"]
        trace = os.environ["OPENSKILL_TRACE_ID"]
        print(json.dumps({"text": text, "pid": os.getpid(), "counter": counter, "trace": trace}))
        """,
    )
    skill = python_skill(entry)

    async with open_runner(tmp_path, skill) as runner:
        found = [
            outcome.data or {}
            for outcome in await asyncio.gather(*(runner.invoke(skill, called({"text": str(n)})) for n in range(50)))
        ]
    assert [one["text"] for one in found] == [str(n) for n in range(50)]
    assert len({one["pid"] for one in found}) == 50
    assert {(one["counter"], one["trace"]) for one in found} == {(1, "trace-1")}


async def test_the_next_call_after_a_change_of_the_script_runs_the_new_one(tmp_path: Path) -> None:
    entry = script(tmp_path, "print('{\"version\": 1}')")
    skill = python_skill(entry)

    async with open_runner(tmp_path, skill) as runner:
        first = await runner.invoke(skill, called())
        script(tmp_path, "print('{\"version\": 22}')")
        second = await asyncio.gather(*(runner.invoke(skill, called()) for _ in range(8)))
        assert [outcome.data for outcome in (first, *second)] == [{"version": 1}, *[{"version": 22}] * 8]


async def test_the_next_call_after_a_change_of_a_preloaded_module_has_the_new_one(tmp_path: Path) -> None:
    helper = script(tmp_path, "VALUE = 1", "helper.py")
    skill = python_skill(
        script(tmp_path, "import helper, json; print(json.dumps({'v': helper.VALUE}))"), preload=("helper",)
    )

    async with open_runner(tmp_path, skill) as runner:
        first = await runner.invoke(skill, called())
        helper.write_text("VALUE = 2222", "utf-8")
        assert [first.data, (await runner.invoke(skill, called())).data] == [{"v": 1}, {"v": 2222}]


async def test_a_large_answer_arrives_whole(tmp_path: Path) -> None:
    entry = script(tmp_path, "import json; print(json.dumps({'text': 'ä' * 400_000, 'more': list(range(200_000))}))")
    data = (await invoke(tmp_path, python_skill(entry))).data or {}
    assert data["text"] == "ä" * 400_000
    assert data["more"] == list(range(200_000))


async def test_a_large_input_arrives_whole(tmp_path: Path) -> None:
    entry = script(tmp_path, "import json, sys; print(json.dumps({'n': len(json.load(sys.stdin)['input']['text'])}))")
    assert (await invoke(tmp_path, python_skill(entry), input={"text": "x" * 3_000_000})).data == {"n": 3_000_000}


@pytest.mark.parametrize("warm", [SkillStartMethod.FORK, SkillStartMethod.SPAWN])
async def test_an_endless_answer_is_cut_and_the_skill_stopped(tmp_path: Path, warm: SkillStartMethod) -> None:
    entry = script(tmp_path, "while True: print('x' * 1000)")
    skill = python_skill(entry, warm=warm, limits=HostLimits(output_bytes=100_000))
    failure = (await invoke(tmp_path, skill)).failure
    assert failure is not None
    assert (failure.code, failure.details["limit_bytes"]) == (502, 100_000)
    assert "100,000 bytes" in failure.message


async def test_much_on_stderr_is_shortened_and_the_answer_still_counts(tmp_path: Path) -> None:
    entry = script(
        tmp_path, "import sys\nfor n in range(2000): print('x' * 1000, file=sys.stderr)\nprint('{\"a\": 1}')"
    )
    assert (await invoke(tmp_path, python_skill(entry))).data == {"a": 1}


STUBBORN = """
    import os, signal, sys, time
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    def say(what):
        with open(os.path.join(os.environ["OPENSKILL_ALLOWED_ROOT"], what), "w") as file:
            file.write(str(os.getpid()))
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            say("daemon")
            time.sleep(600)
        os._exit(0)
    say("skill")
    while not os.path.exists(os.path.join(os.environ["OPENSKILL_ALLOWED_ROOT"], "daemon")):
        time.sleep(.01)
"""


def pids(directory: Path, *names: str) -> list[int]:
    return [int((directory / name).read_text()) for name in names]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def until_there(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"{path.name} never came"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("warm", [SkillStartMethod.FORK, SkillStartMethod.SPAWN])
async def test_at_the_deadline_everything_that_the_skill_started_is_ended(
    tmp_path: Path, warm: SkillStartMethod
) -> None:
    skill = python_skill(script(tmp_path, STUBBORN + "    time.sleep(600)"), warm=warm, allowed_root=tmp_path)

    async with open_runner(tmp_path, skill) as runner:
        await runner.prepare(skill)
        failure = (await runner.invoke(skill, called(seconds=1.5))).failure
        assert failure is not None
        assert "15000 ms" in failure.message
        assert [pid for pid in pids(tmp_path, "skill", "daemon") if is_running(pid)] == []


@pytest.mark.parametrize("warm", SkillStartMethod)
async def test_what_a_script_wrote_before_the_deadline_is_reported_without_secrets(
    tmp_path: Path, warm: SkillStartMethod
) -> None:
    text = """
        import os, sys, time
        print("half", flush=True)
        print("key", os.environ["TOKEN"], file=sys.stderr)
        time.sleep(600)
    """
    skill = python_skill(script(tmp_path, text), warm=warm)

    async with open_runner(tmp_path, skill) as runner:
        await runner.prepare(skill)
        outcome = await runner.invoke(skill, called(seconds=1.5, secrets={"TOKEN": "geheim"}))
    assert outcome.failure is not None
    details = outcome.failure.details
    assert (outcome.failure.code, details["stdout"], details["stderr"]) == (504, "half", "key [secret TOKEN]")
    assert outcome.notes["isolation"] == "none"


@pytest.mark.parametrize("warm", [SkillStartMethod.FORK, SkillStartMethod.SPAWN])
async def test_when_a_call_is_cancelled_everything_has_ended_before_the_cancellation_is_passed_on(
    tmp_path: Path, warm: SkillStartMethod
) -> None:
    skill = python_skill(script(tmp_path, STUBBORN + "    time.sleep(600)"), warm=warm, allowed_root=tmp_path)

    async with open_runner(tmp_path, skill) as runner:
        task = asyncio.ensure_future(runner.invoke(skill, called()))
        await until_there(tmp_path / "daemon")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [pid for pid in pids(tmp_path, "skill", "daemon") if is_running(pid)] == []


@pytest.mark.parametrize("warm", [SkillStartMethod.FORK, SkillStartMethod.SPAWN])
async def test_what_a_skill_leaves_in_the_background_ends_with_its_call(tmp_path: Path, warm: SkillStartMethod) -> None:
    skill = python_skill(script(tmp_path, STUBBORN + "    print('{}')"), warm=warm, allowed_root=tmp_path)

    async with open_runner(tmp_path, skill) as runner:
        outcome = await runner.invoke(skill, called())
        left = [pid for pid in pids(tmp_path, "skill", "daemon") if is_running(pid)]
    assert (outcome.data, left) == ({}, [])


@pytest.mark.parametrize("above", [1, 2, 3])
async def test_a_skill_that_kills_what_serves_it_harms_only_its_own_call(tmp_path: Path, above: int) -> None:
    entry = script(
        tmp_path,
        """
        import json, os, signal, sys
        def parent(pid):
            return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
        pid = os.getpid()
        for _ in range(json.load(sys.stdin)["input"]["above"]):
            pid = parent(pid)
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
            signal.pause()
        print("{}")
        """,
    )
    skill = python_skill(entry)

    async with open_runner(tmp_path, skill) as runner:
        found: list[object] = []
        for levels in (0, above, 0, 0):
            try:
                found.append((await runner.invoke(skill, called({"above": levels}))).data)
            except Exception as error:  # noqa: BLE001 - told apart below
                found.append(type(error).__name__)
        assert found == [{}, "ExecutorUnavailable", {}, {}]


async def test_calls_cannot_find_the_input_or_the_secret_of_an_earlier_one_in_their_memory(tmp_path: Path) -> None:
    entry = script(
        tmp_path,
        """
        import json, re, sys
        wanted = json.load(sys.stdin)["input"]["wanted"]
        found = set()
        if wanted:
            needle = ("".join(wanted)).encode()
            for line in open("/proc/self/maps"):
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                if " rw" in line and "[v" not in line:
                    with open("/proc/self/mem", "rb", 0) as memory:
                        memory.seek(start)
                        found.update(m.group() for m in re.finditer(needle + b"[0-9]+", memory.read(end - start)))
        print(json.dumps({"found": sorted(one.decode() for one in found)}))
        """,
    )
    skill = python_skill(entry, limits=HostLimits(concurrency=1))

    async with open_runner(tmp_path, skill) as runner:
        for number in range(3):
            secrets = {"TOKEN": f"sesame-{number}777"}
            await runner.invoke(skill, called({"wanted": "", "private": f"sesame-{number}888"}, secrets=secrets))
        outcome = await runner.invoke(skill, called({"wanted": list("sesame-"), "private": "sesame-9999"}))
        # It finds its own input.
        assert outcome.data == {"found": ["sesame-9999"]}


async def test_lines_and_events_are_told_while_the_skill_works(tmp_path: Path) -> None:
    entry = script(
        tmp_path,
        """
        import json, os, sys, time
        print("first", flush=True)
        print('{"event": "progress", "percent": 50}', file=sys.stderr, flush=True)
        while not os.path.exists(os.path.join(os.environ["OPENSKILL_ALLOWED_ROOT"], "go")):
            time.sleep(.01)
        print('{"event": "artifact", "name": "a.txt"}\\nplain', file=sys.stderr)
        print(json.dumps({"success": True, "data": {"n": 1}}), end="")
        """,
    )
    skill = python_skill(entry, allowed_root=tmp_path)
    told: list[SkillOutputEvent] = []

    def listener(emitted: SkillOutputEvent) -> None:
        told.append(emitted)
        if len(told) == 2:
            (tmp_path / "go").touch()

    outcome = await invoke(tmp_path, skill, listener=listener)
    assert outcome.data == {"n": 1}
    assert told[:2] == [SkillOutputEvent("stdout", {"text": "first"}), SkillOutputEvent("progress", {"percent": 50})]
    assert SkillOutputEvent("artifact", {"name": "a.txt"}) in told
    assert SkillOutputEvent("stderr", {"text": "plain"}) in told


async def test_no_more_calls_than_allowed_run_at_a_time_and_the_others_wait(tmp_path: Path) -> None:
    entry = script(
        tmp_path,
        """
        import json, os, time
        root = os.environ["OPENSKILL_ALLOWED_ROOT"]
        mine = os.path.join(root, f"running-{os.getpid()}")
        open(mine, "w").close()
        time.sleep(.02)
        print(json.dumps({"running": sum(name.startswith("running-") for name in os.listdir(root))}))
        os.unlink(mine)
        """,
    )
    skill = python_skill(entry, allowed_root=tmp_path, limits=HostLimits(concurrency=2))

    async with open_runner(tmp_path, skill) as runner:
        outcomes = await asyncio.gather(*(runner.invoke(skill, called()) for _ in range(12)))
        assert max((outcome.data or {})["running"] for outcome in outcomes) <= 2


async def test_a_call_that_waits_until_its_deadline_is_never_begun(tmp_path: Path) -> None:
    entry = script(
        tmp_path,
        """
        import os, time
        open(os.path.join(os.environ["OPENSKILL_ALLOWED_ROOT"], str(os.getpid())), "w")
        time.sleep(600)
        """,
    )
    skill = python_skill(entry, allowed_root=tmp_path / "seen", limits=HostLimits(concurrency=1))
    (tmp_path / "seen").mkdir()

    async with open_runner(tmp_path, skill) as runner:
        first = asyncio.ensure_future(runner.invoke(skill, called()))
        deadline = time.monotonic() + 20
        while not list((tmp_path / "seen").iterdir()):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        with pytest.raises(DeadlineExceeded, match="not started"):
            await runner.invoke(skill, called(seconds=0.2))
        first.cancel()
        await asyncio.wait((first,))
    assert len(list((tmp_path / "seen").iterdir())) == 1


async def test_a_script_that_is_not_there_cannot_be_prepared(tmp_path: Path) -> None:
    skill = python_skill(tmp_path / "gone.py")
    async with open_runner(tmp_path, skill) as runner:
        with pytest.raises(ManifestFault, match=r"gone\.py"):
            await runner.prepare(skill)


async def test_a_module_beside_the_script_with_the_name_of_a_loaded_one_is_imported_as_in_a_cold_start(
    tmp_path: Path,
) -> None:
    script(tmp_path, "def loads(text): return {}\ndef dumps(value): return '{\"mine\": true}'", "json.py")
    outcome = await invoke(tmp_path, python_skill(script(tmp_path, "import json; print(json.dumps(1))")))
    assert outcome.data == {"mine": True}
    assert "json.py" in outcome.notes["cold_start"]


async def test_an_interpreter_that_does_not_work_is_named_with_what_it_said(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no libraries >&2\nexit 7\n")
    broken.chmod(0o755)
    entry = script(tmp_path, "print('{}')")
    with pytest.raises(ExecutorUnavailable, match="exit status 7, 'no libraries'; install it or correct"):
        await invoke(tmp_path, python_skill(entry, options={"python": str(broken)}))
    with pytest.raises(ExecutorUnavailable, match="does not work"):
        await invoke(tmp_path, python_skill(entry, options={"python": str(tmp_path / "nobody")}))


async def test_an_interpreter_of_a_manifest_is_queried_inside_the_sandbox(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    tmp_path.chmod(0o755)
    entry, seen = script(tmp_path, "print('{}')"), tmp_path.parent / f"{tmp_path.name}-seen"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\nid -u > {seen}\necho '[]'\n")
    evil.chmod(0o755)
    with pytest.raises(ExecutorUnavailable, match="exited before it was ready"):
        await invoke(tmp_path, python_skill(entry, executor="sandbox", options={"python": str(evil)}))
    assert not seen.exists()


async def test_a_skill_whose_registration_has_changed_is_served_again(tmp_path: Path) -> None:
    entry = script(tmp_path, "import os, json; print(json.dumps({'a': os.getenv('A')}))")
    first, second = (python_skill(entry, environment={"A": value}) for value in "12")

    async with open_runner(tmp_path, first) as runner:
        assert isinstance(runner, PythonRunner)
        found = [(await runner.invoke(skill, called())).data for skill in (first, second, first)]
        assert found == [{"a": "1"}, {"a": "2"}, {"a": "1"}]


REUSED = """
    import json, os, sys
    text = json.load(sys.stdin)["input"]["text"]
    counter = globals().get("counter", 0) + 1
    sys.counter = getattr(sys, "counter", 0) + 1
    os.chdir("/")
    os.environ["LEFT"] = "x"
    if text == "fail":
        raise ValueError(text)
    if text == "fork" and os.fork() == 0:
        os.execvp("sleep", ["sleep", "600"])
    found = {"text": text, "pid": os.getpid(), "globals": counter, "module": sys.counter, "cwd": os.getcwd()}
    print(json.dumps({**found, "left": "LEFT" in os.environ, "token": os.getenv("TOKEN")}))
    if text == "exit":
        sys.exit(0)
"""


async def test_a_reused_process_serves_many_calls_with_fresh_globals_streams_and_variables(tmp_path: Path) -> None:
    skill = python_skill(script(tmp_path, REUSED), warm=SkillStartMethod.REUSE, limits=HostLimits(concurrency=1))

    async with open_runner(tmp_path, skill) as runner:
        secrets: list[dict[str, str]] = [{"TOKEN": "one"}, {}, {}]
        outcomes = [
            await runner.invoke(skill, called({"text": text}, secrets=more))
            for text, more in zip(("a", "exit", "c"), secrets, strict=True)
        ]
    found = [dict(outcome.data or {}) for outcome in outcomes]
    assert len({one.pop("pid") for one in found}) == 1
    assert [(one["text"], one["globals"], one["module"], one["token"]) for one in found] == [
        ("a", 1, 1, "one"),
        ("exit", 1, 2, None),
        ("c", 1, 3, None),
    ]


async def test_a_reused_process_that_fails_or_leaves_others_behind_has_served_its_last_call(tmp_path: Path) -> None:
    skill = python_skill(script(tmp_path, REUSED), warm=SkillStartMethod.REUSE, limits=HostLimits(concurrency=1))

    async with open_runner(tmp_path, skill) as runner:
        texts = ("a", "fail", "b", "fork", "c")
        a, fail, b, fork, c = [await runner.invoke(skill, called({"text": text})) for text in texts]
    assert fail.failure is not None
    assert fail.failure.message.endswith("ValueError: fail")
    assert "openskills" not in fail.failure.details["stderr"]
    assert [(one.data or {})["module"] for one in (a, b, fork, c)] == [1, 1, 2, 1]
