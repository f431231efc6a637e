"""The table of runners.

Scripts of SKILL.md folders: how they are started, what they get, what comes back, and what they cannot do.
"""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import ExecutorUnavailable, ForbiddenPath, InvalidArgument
from openskills.executors.requests import PackageOptions
from openskills.host.model import HostLimits, ManifestFault, Outcome, Registration, SkillOutputEvent
from openskills.host.registry.scripts import HelpSchema, build_schema, parse_help
from openskills.host.runners.kinds import RUNNER_KINDS, describe_isolation, list_isolations
from openskills.host.runners.script import HelpReader, ScriptArgument, ScriptProgram, build_argv, inspect_script
from openskills.host.runners.table import Runners, load_foreign_runner
from tests.host.calls_made import called, invoke, open_runner, settings

RequireProgram = Callable[[str], str]


def skill(kind: str) -> Registration:
    """A skill of this kind."""
    return Registration("s", kind, "x", "1")


@pytest.mark.parametrize("kind", RUNNER_KINDS)
async def test_every_kind_has_one_runner_for_all_its_skills(tmp_path: Path, kind: str) -> None:
    runners = Runners(settings(tmp_path), directory=tmp_path)
    assert runners.get_runner(skill(kind)) is runners.get_runner(skill(kind))
    assert type(runners.get_runner(skill(kind))).__name__ == RUNNER_KINDS[kind].runner.partition(":")[2]
    await runners.close()


async def test_an_unknown_kind_is_reported_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ManifestFault, match="did you mean 'cli:python'"):
        Runners(settings(tmp_path)).get_runner(skill("cli:pyton"))


def test_a_runner_of_another_package_is_made_with_the_settings(tmp_path: Path) -> None:
    found = EntryPoint("own", "tests.host.own_runner:OwnRunner", "openskills.runners")
    assert type(load_foreign_runner(found, settings(tmp_path))).__name__ == "OwnRunner"


@pytest.mark.parametrize("value", ["no.such.module:X", "tests.host.own_runner:Missing"])
def test_a_runner_that_cannot_be_imported_is_reported(tmp_path: Path, value: str) -> None:
    with pytest.raises(ExecutorUnavailable, match="own"):
        load_foreign_runner(EntryPoint("own", value, "openskills.runners"), settings(tmp_path))


FILES = {
    "SKILL.md": "---\nname: table-tools\ndescription: Works with tables.\n---\nBody.\n",
    "scripts/helper.py": "def double(text):\n    return text * 2\n",
    "assets/head.txt": "head\n",
}


def scripted(tmp_path: Path, name: str, text: str, **more: Any) -> Registration:
    """A script of a skill folder that has a helper module and an asset."""
    folder = tmp_path / "table-tools"
    for path, content in {**FILES, f"scripts/{name}": text}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    fields: dict[str, Any] = {"executor": "sandbox", **more}
    return Registration("table-tools.x", "cli:script", str(folder / "scripts" / name), "1", **fields)


def data_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.failure is None, outcome.failure
    return dict(outcome.data or {})


@pytest.fixture
def bubblewrap(require_program: RequireProgram) -> None:
    require_program("bwrap")


@pytest.mark.usefixtures("bubblewrap")
async def test_a_script_gets_arguments_stdin_and_files_and_its_files_come_back(tmp_path: Path) -> None:
    text = (
        "import os, sys\nfrom helper import double\n"
        "source, target = sys.argv[1:]\n"
        "open(target, 'wb').write(open(source, 'rb').read() + b'\\xff')\n"
        "open('out/note.txt', 'w').write(open('assets/head.txt').read())\n"
        "print(double(sys.stdin.read()), os.path.basename(os.getcwd()))\n"
    )
    input = {  # noqa: A001
        "args": ["a.bin", "b.bin"],
        "stdin": "ab",
        "files": {"a.bin": {"base64": base64.b64encode(b"\x00\x01").decode()}},
    }
    found = await invoke(tmp_path, scripted(tmp_path, "convert.py", text), input=input)
    data = data_of(found)
    assert (data["exit_code"], data["stdout"]) == (0, "abab table-tools\n")
    assert data["files"] == {
        "b.bin": {
            "mime_type": "application/octet-stream",
            "size": 3,
            "base64": base64.b64encode(b"\x00\x01\xff").decode(),
        },
        "out/note.txt": {"mime_type": "text/plain", "size": 5, "text": "head\n"},
    }
    assert found.notes["isolation"] == "bubblewrap"
    assert not (tmp_path / "table-tools" / "b.bin").exists()


@pytest.mark.usefixtures("bubblewrap")
async def test_files_of_a_result_can_be_the_files_of_the_next_call(tmp_path: Path) -> None:
    registration = scripted(tmp_path, "copy.sh", 'cp "$1" "$2"\n')
    first = data_of(await invoke(tmp_path, registration, input={"args": ["a", "b.txt"], "files": {"a": "text"}}))
    again = data_of(await invoke(tmp_path, registration, input={"args": ["b.txt", "c.txt"], "files": first["files"]}))
    assert again["files"]["c.txt"]["text"] == "text"


@pytest.mark.usefixtures("bubblewrap")
async def test_calls_leave_nothing_for_each_other_nor_on_the_machine(tmp_path: Path) -> None:
    registration = scripted(tmp_path, "count.sh", "echo x >> seen.txt; cat seen.txt; ls out work inputs\n")
    for _ in range(2):
        assert data_of(await invoke(tmp_path, registration, input={}))["files"]["seen.txt"]["text"] == "x\n"
    workspaces = settings(tmp_path).state_dir / "workspaces"
    assert [path.name for path in workspaces.iterdir() if not path.name.startswith(".")] == []
    assert sorted(path.name for path in (tmp_path / "table-tools").iterdir()) == ["SKILL.md", "assets", "scripts"]


@pytest.mark.usefixtures("bubblewrap")
async def test_a_script_sees_neither_the_network_nor_the_machine_nor_the_environment(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    text = (
        "import json, os, socket, sys\n"
        "def works(act):\n    try:\n        act()\n    except OSError:\n        return False\n    return True\n"
        f"print(json.dumps([works(lambda: open({str(tmp_path / 'secret')!r})),\n"
        "  works(lambda: socket.create_connection(('127.0.0.1', 22), 1)), 'HOST_ONLY' in os.environ]))\n"
    )
    found = await invoke(tmp_path, scripted(tmp_path, "look.py", text), input={})
    assert json.loads(data_of(found)["stdout"]) == [False, False, False]


@pytest.mark.usefixtures("bubblewrap")
async def test_secrets_of_the_manifest_arrive_and_are_masked_in_what_is_shown(tmp_path: Path) -> None:
    registration = scripted(tmp_path, "fail.sh", 'echo "key $API_KEY" >&2; exit 3\n', secrets=("API_KEY",))
    failure = (await invoke(tmp_path, registration, input={}, secrets={"API_KEY": "s3cr3t-value"})).failure
    assert failure is not None
    assert (failure.code, failure.details["exit_code"]) == (502, 3)
    assert failure.message.startswith("the script exited with status 3: key")
    assert "s3cr3t-value" not in json.dumps([failure.message, dict(failure.details)])


@pytest.mark.usefixtures("bubblewrap")
async def test_a_script_that_takes_too_long_is_stopped_with_its_output_so_far(tmp_path: Path) -> None:
    registration = scripted(tmp_path, "slow.sh", "echo begun; sleep 600\n", timeout_ms=3000)
    failure = (await invoke(tmp_path, registration, input={}, seconds=3.0)).failure
    assert failure is not None
    assert (failure.code, failure.details.get("stdout")) == (504, "begun")


@pytest.mark.usefixtures("bubblewrap")
async def test_a_cancelled_call_removes_its_workspace(tmp_path: Path) -> None:
    registration = scripted(tmp_path, "slow.sh", "echo begun; sleep 600\n")

    async with open_runner(tmp_path, registration) as runner:
        begun = asyncio.Event()
        call = called({}, listener=lambda _: begun.set())
        task = asyncio.ensure_future(runner.invoke(registration, call))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    workspaces = settings(tmp_path).state_dir / "workspaces"
    assert [path.name for path in workspaces.iterdir() if not path.name.startswith(".")] == []


@pytest.mark.usefixtures("bubblewrap")
async def test_a_listener_gets_lines_and_files_while_the_script_runs(tmp_path: Path) -> None:
    seen: list[SkillOutputEvent] = []
    registration = scripted(tmp_path, "talk.sh", "echo one; echo two >&2; echo x > out/x.txt\n")
    await invoke(tmp_path, registration, input={}, listener=seen.append)
    found = sorted((event.kind, str(event.data.get("text") or event.data.get("path"))) for event in seen)
    assert found == [("artifact", "out/x.txt"), ("stderr", "two"), ("stdout", "one")]


@pytest.mark.usefixtures("bubblewrap")
async def test_files_beyond_the_limit_are_named_without_their_content(tmp_path: Path) -> None:
    registration = scripted(
        tmp_path,
        "big.sh",
        "head -c 3000000 /dev/zero > out/big.bin; yes | head -c 3000000\n",
        limits=HostLimits(output_bytes=100_000),
    )
    found = await invoke(tmp_path, registration, input={})
    data = data_of(found)
    assert data["files"] == {
        "out/big.bin": {"mime_type": "application/octet-stream", "size": 3_000_000, "truncated": True}
    }
    assert found.truncated
    assert len(data["stdout"]) < 110_000


@pytest.mark.usefixtures("bubblewrap")
async def test_a_script_that_uses_its_package_by_name_finds_it(tmp_path: Path) -> None:
    text = "from scripts.helper import double\nif __name__ == '__main__':\n    print(double('ab'))\n"
    assert data_of(await invoke(tmp_path, scripted(tmp_path, "main.py", text), input={}))["stdout"] == "abab\n"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"args": "x"}, InvalidArgument, "input.args"),
        ({"args": [1]}, InvalidArgument, "input.args"),
        ({"stdin": 1}, InvalidArgument, "input.stdin"),
        ({"files": []}, None, ""),
        ({"files": ["x"]}, InvalidArgument, "input.files"),
        ({"files": {"a": {"base64": "?"}}}, InvalidArgument, "input.files.a"),
        ({"files": {"a": 1}}, InvalidArgument, "input.files.a"),
        ({"files": {"../a": "x"}}, ForbiddenPath, "input.files"),
        ({"files": {"/etc/passwd": "x"}}, ForbiddenPath, "input.files"),
        ({"args": ["a\0b"]}, InvalidArgument, "NUL"),
    ],
)
@pytest.mark.usefixtures("bubblewrap")
async def test_bad_input_is_refused_by_its_field(
    tmp_path: Path, given: Mapping[str, Any], error: Any, said: str
) -> None:
    registration = scripted(tmp_path, "ok.sh", "true\n")
    if error is None:
        assert data_of(await invoke(tmp_path, registration, input=given))["exit_code"] == 0
        return
    with pytest.raises(error, match=said):
        await invoke(tmp_path, registration, input=given)


async def test_a_script_that_is_gone_or_cannot_be_run_is_unavailable(tmp_path: Path) -> None:
    for name, text, said in (("data.xyz", "x", "no shebang"), ("bad.py", "def", "not valid Python")):
        registration = scripted(tmp_path, name, text)
        async with open_runner(tmp_path, registration) as runner:
            with pytest.raises(ManifestFault, match=said):
                await runner.prepare(registration)
    Path(registration.entry).unlink()
    async with open_runner(tmp_path, registration) as runner:
        with pytest.raises(ManifestFault, match="cannot be read"):
            await runner.prepare(registration)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.py", "import sys\nprint(sys.argv)\n", ("python3", "scripts/a.py")),
        ("a.py", "#!/usr/bin/env python3\ndef f(): pass\n", ("python3", "scripts/a.py")),
        ("a.py", "x = 1\nif __name__ == '__main__':\n    x\n", ("python3", "scripts/a.py")),
        ("a.py", "import sys\nx = open(sys.argv[1])\n", ("python3", "scripts/a.py")),
        ("a.py", "import os\nX = 1\nclass C: pass\n", "it only defines names for other scripts"),
        (
            "a.py",
            "def f(): pass\nif __name__ == '__main__':\n    raise SystemExit('no')\n",
            "it says that it is not to be run",
        ),
        ("__init__.py", "print(1)\n", "it only marks a package"),
        ("_a.py", "print(1)\n", "its name starts with an underscore"),
        ("a.sh", "echo\n", ("bash", "scripts/a.sh")),
        ("a", "#!/bin/bash -e\necho\n", ("bash", "-e", "scripts/a")),
        ("a", "#!/usr/bin/env -S python3 -u\n", ("python3", "-u", "scripts/a")),
        ("a", "#!/opt/no-such-program-here\n", "it needs no-such-program-here, which is not installed"),
        ("a", "#!/usr/bin/env X=1 sh\n", "it is not a program: it has no shebang line and no known extension"),
        ("a", "hello\n", "it is not a program: it has no shebang line and no known extension"),
    ],
)
def test_how_a_script_is_started_is_found_without_running_it(tmp_path: Path, name: str, text: str, found: Any) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / name).write_text(text)
    program = inspect_script(tmp_path, f"scripts/{name}", "/usr/bin:/bin")
    assert (program.command if isinstance(program, ScriptProgram) else program) == found


def test_node_is_used_if_it_is_there_and_modules_are_not_scripts(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "node").chmod(0o755)
    (tmp_path / "run.mjs").write_text("// Runs it.\nimport { x } from './lib.js'\nx(process.argv)\n")
    (tmp_path / "lib.js").write_text("export const x = 1\n")
    search_path = str(tmp_path / "bin")
    assert inspect_script(tmp_path, "run.mjs", search_path) == ScriptProgram(("node", "run.mjs"), "Runs it.")
    assert inspect_script(tmp_path, "run.mjs", "") == "it needs node, which is not installed"
    assert inspect_script(tmp_path, "lib.js", search_path) == "it only exports names for other scripts"


def test_a_compiled_program_is_started_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(Path("/bin/true").read_bytes()[:5000])
    assert isinstance(inspect_script(tmp_path, "tool", "/bin"), str)
    (tmp_path / "tool").chmod(0o755)
    assert inspect_script(tmp_path, "tool", "/bin") == ScriptProgram(("./tool",))


@pytest.mark.parametrize(
    ("executor", "found"),
    [
        ("auto", "bubblewrap"),
        ("container", "container"),
        ("local", "none"),
        ("x:y", "x:y"),
        ("ray://head:10001", "bubblewrap"),
    ],
)
def test_the_isolation_of_a_script_is_that_of_its_executor(tmp_path: Path, executor: str, found: str) -> None:
    assert describe_isolation("cli:script", executor, settings(tmp_path)) == found


def test_other_skills_of_a_host_with_a_cluster_run_in_its_sandbox(tmp_path: Path) -> None:
    host = settings(tmp_path, OPENSKILL_EXECUTOR="ray://head:10001", OPENSKILL_RAY_EXECUTOR="local")
    assert [list_isolations(name, host) for name in ("auto", "ray://head:10001")] == [("sandbox",)] * 2
    assert describe_isolation("cli:python", "auto", host) == "bubblewrap"
    with pytest.raises(ManifestFault, match="unsupported executor 'ray'"):
        list_isolations("ray", host)


KNOWN = (
    ScriptArgument("port", "--port", "values"),
    ScriptArgument("dpi", "--dpi"),
    ScriptArgument("o", "-o"),
    ScriptArgument("fast", "--fast", "nothing"),
    ScriptArgument("sources", "", "values"),
    ScriptArgument("target"),
)


@pytest.mark.parametrize(
    ("given", "argv"),
    [
        ({}, []),
        ({"dpi": 200, "fast": True, "sources": ["a", "b"], "target": "c"}, ["--dpi=200", "--fast", "a", "b", "c"]),
        ({"fast": False, "dpi": None, "target": ""}, [""]),
        ({"dpi": "-5", "o": "-x"}, ["--dpi=-5", "-o", "-x"]),
        ({"target": "-c"}, ["--", "-c"]),
        ({"port": [1, 2], "target": "c"}, ["--port", "1", "2", "--", "c"]),
        ({"port": [1], "fast": True, "target": "c", "args": ["z"]}, ["--port", "1", "--fast", "c", "z"]),
        ({"dpi": ["1", "2"]}, ["--dpi=1", "--dpi=2"]),
        ({"target": "a; rm -rf $HOME"}, ["a; rm -rf $HOME"]),
    ],
)
def test_fields_become_arguments(given: Mapping[str, Any], argv: list[str]) -> None:
    assert build_argv(KNOWN, given) == argv


PARSERS = {
    "argparse": """
import argparse
p = argparse.ArgumentParser(description="Converts pictures.")
p.add_argument("sources", nargs="+", help="what to convert")
p.add_argument("target")
p.add_argument("-d", "--dpi", type=int, help="dots per inch (default: 200)")
p.add_argument("--size", nargs=2)
p.add_argument("--merge", metavar="true|false", help="merge them")
p.add_argument("--mode", choices=["fast", "fine"], required=True)
p.add_argument("--files", help="a list of files")
g = p.add_mutually_exclusive_group()
g.add_argument("--quiet", action="store_true")
g.add_argument("--log-file")
p.parse_args()
""",
    "click": """
import click
@click.command()
@click.option("-d", "--dpi", type=int, help="Dots per inch.")
@click.option("--mode", type=click.Choice(["fast", "fine"]), required=True)
@click.option("--quiet/--loud", default=False)
@click.argument("sources", nargs=-1, required=True)
@click.argument("target", required=False)
def main(**_):
    "Converts pictures."
main()
""",
    "typer": """
import typer
def main(target: str, dpi: int = typer.Option(200, "--dpi", "-d", help="Dots per inch."), quiet: bool = False):
    "Converts pictures."
typer.run(main)
""",
    "docopt": '''
print("""Usage: script.py [options] <source> [<target>]

Converts pictures.

Options:
  -q --quiet    Say nothing.
  --dpi=<int>   Dots per inch.
""")
''',
}


def help_of(tmp_path: Path, text: str) -> HelpSchema | None:
    (tmp_path / "script.py").write_text(text)
    variables = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", "PATH": "/usr/bin:/bin"}
    argv = [sys.executable, "script.py", "--help"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, env=variables, timeout=60, check=False)
    return parse_help(done.stdout or done.stderr, "script.py")


@pytest.mark.parametrize(
    ("parser", "arguments", "required"),
    [
        (
            "argparse",
            [
                "dpi:--dpi",
                "size:--size...",
                "merge:--merge",
                "mode:--mode",
                "files_:--files",
                "quiet:--quiet!",
                "log_file:--log-file",
                "sources:...",
                "target:",
            ],
            ("mode", "sources", "target"),
        ),
        ("click", ["dpi:--dpi", "mode:--mode", "quiet:--quiet!", "sources:...", "target:"], ("mode", "sources")),
        ("typer", ["dpi:--dpi", "quiet:--quiet!", "target:"], ("target",)),
        ("docopt", ["quiet:--quiet!", "dpi:--dpi", "source:", "target:"], ("source",)),
    ],
)
def test_the_help_of_common_parsers_is_understood(
    tmp_path: Path, parser: str, arguments: list[str], required: tuple[str, ...]
) -> None:
    found = help_of(tmp_path, PARSERS[parser])
    assert found is not None
    marks = {"value": "", "values": "...", "nothing": "!"}
    assert [f"{one.name}:{one.flag}{marks[one.takes]}" for one in found.arguments] == arguments
    assert (found.required, found.about.strip()) == (required, "Converts pictures.")


def test_types_choices_and_descriptions_are_in_the_schema(tmp_path: Path) -> None:
    found = help_of(tmp_path, PARSERS["click"])
    assert found is not None
    properties = build_schema(found)["properties"]
    assert properties["dpi"] == {"type": "integer", "description": "Dots per inch."}
    assert properties["mode"]["enum"] == ["fast", "fine"]
    assert properties["sources"]["minItems"] == 1
    assert set(properties) == {"dpi", "mode", "quiet", "sources", "target", "args", "stdin", "files"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "usage: other.py x",
        "usage: script.py [-h] {add,remove} ...",
        "usage: script.py [-h] ...",
        "Usage: script.py [OPTIONS] COMMAND [ARGS]...",
        "Usage: script.py [input pdf] [fields.json] [output pdf]",
        "Usage: script.py add FILE\n       script.py remove FILE",
        "Usage: script.py add <file>",
        "usage: script.py [--a",
        "Usage: script.py FILE FILE",
        "usage: script.py " + "[" * 10_000,
        "usage: script.py [-a" + " B" * 20_000,
        "Usage: script.py <" + "a" * 70_000,
    ],
)
def test_a_usage_that_is_not_clear_is_not_guessed(text: str) -> None:
    assert parse_help(text, "script.py") is None


@pytest.mark.usefixtures("bubblewrap")
def test_help_is_run_in_the_sandbox_once_and_failures_say_why(tmp_path: Path) -> None:
    scripted(tmp_path, "a.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('x')\np.parse_args()\n")
    scripted(tmp_path, "b.py", "import no_such_module\n")
    scripted(tmp_path, "c.sh", "echo done > marker; sleep 600\n")
    folder = tmp_path / "table-tools"
    programs = {
        f"scripts/{name}": inspect_script(folder, f"scripts/{name}", "/bin") for name in ("a.py", "b.py", "c.sh")
    }
    known = {path: one for path, one in programs.items() if isinstance(one, ScriptProgram)}
    reader = HelpReader(settings(tmp_path))
    found = reader.read(folder, {path: known[path] for path in ("scripts/a.py", "scripts/c.sh")})
    assert found["scripts/a.py"].text.startswith("usage: a.py [-h] x")
    assert found["scripts/c.sh"].failure == "--help did not end within 5 s"
    assert not (folder / "marker").exists()
    assert reader.read(folder, {"scripts/a.py": ScriptProgram(("false",))})["scripts/a.py"] == found["scripts/a.py"]
    missing = reader.read(folder, {"scripts/b.py": ScriptProgram(("python3", "scripts/a.py", "x", "y"))})
    assert missing["scripts/b.py"].text.startswith("usage:")


@pytest.mark.usefixtures("bubblewrap")
def test_help_is_run_with_the_packages_of_the_skill(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], timeout=60, check=True)
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (packages / "special.py").write_text("NAME = 'x'\n")
    text = "import argparse, special\np = argparse.ArgumentParser()\np.add_argument(special.NAME)\np.parse_args()\n"
    scripted(tmp_path, "a.py", text)
    program = {"scripts/a.py": ScriptProgram(("python3", "scripts/a.py"))}
    reader = HelpReader(settings(tmp_path))
    assert "No module named 'special'" in reader.read(tmp_path / "table-tools", program)["scripts/a.py"].failure
    found = reader.read(tmp_path / "table-tools", program, PackageOptions(venv=tmp_path / "env"))
    assert found["scripts/a.py"].text.startswith("usage: a.py [-h] x")


def test_without_a_sandbox_no_help_is_run(tmp_path: Path) -> None:
    scripted(tmp_path, "a.sh", f"touch {tmp_path}/marker\n")
    reader = HelpReader(settings(tmp_path, OPENSKILL_EXECUTOR="local"))
    found = reader.read(tmp_path / "table-tools", {"scripts/a.sh": ScriptProgram(("bash", "scripts/a.sh"))})
    assert found["scripts/a.sh"].failure == "there is no sandbox, so it was not run"
    assert not (tmp_path / "marker").exists()
