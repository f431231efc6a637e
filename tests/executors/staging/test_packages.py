"""What skills declare and import; package indexes; environments that are built once, in a sandbox, and shared.

A script's metadata block is found exactly where the specification says, and its faults are named by line.
"""

import asyncio
import base64
import io
import json
import os
import re
import shutil
import sys
import tarfile
import threading
import venv
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import ExecutorUnavailable, ForbiddenPath, InvalidArgument, InvalidSkill
from openskills.executors.approval import ApprovalRequest
from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.commands import CommandRules, CommandRunner
from openskills.executors.environments import EnvironmentStore, PackageBuilder, is_version_in
from openskills.executors.hints import find_programs, suggest_remedies
from openskills.executors.landlock import LandlockBackend
from openskills.executors.local import LocalBackend
from openskills.executors.package_index import PackageIndex, hide_credentials, read_package_index
from openskills.executors.protocol import Backend
from openskills.executors.requests import InstallMode, PackageOptions, RunRequest
from openskills.executors.spec import CapturedOutput, Command, CommandResult, EndReason
from openskills.executors.staging.packages import (
    PackageSet,
    ScriptMetadata,
    distribution_from_module,
    find_blocks,
    find_command_script,
    find_declaration_files,
    find_declared_packages,
    find_imports,
    find_script,
    parse_script_metadata,
)
from tests.executors.benches import audit_lines, demo, settings, workbench
from tests.executors.wheels import wheel

SAY = "python3 -c 'import tiny; print(tiny.VERSION)'"
ALWAYS = PackageOptions(install=InstallMode.ALWAYS)
TINY = PackageOptions(PackageSet(("tiny",)))


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A directory with two versions of the package `tiny`."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    for version in ("1.0", "2.0"):
        name, data = wheel("tiny", version, f"VERSION = '{version}'\n")
        (directory / name).write_bytes(data)
    return directory


def offline(wheels: Path) -> CommandRules:
    return CommandRules(index=PackageIndex(no_index=True, find_links=(str(wheels),)))


def environments(state: Path) -> list[str]:
    found = EnvironmentStore(state / "state" / "environments").list()
    return [", ".join(one.packages) for one in found]


async def said(bench: CommandRunner, options: PackageOptions, command: str = SAY) -> tuple[str, tuple[str, ...]]:
    """The output of a command with its packages, and the warnings about them."""
    provided = await bench.provide_packages("demo", command, options)
    result = await bench.run(RunRequest(command, skill="demo", packages=provided.environment))
    return result.stdout + result.stderr, provided.warnings


def put(state: Path, **files: str) -> Path:
    """The skill `demo` with more files; `_` in a name is a dot."""
    folder = demo(state)
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


BACKENDS = {"sandbox": SandboxBackend, "landlock": LandlockBackend, "local": LocalBackend}


@pytest.mark.parametrize("name", BACKENDS)
async def test_declared_packages_are_installed_once_and_shared_by_workspaces(
    name: str, tmp_path: Path, wheels: Path
) -> None:
    put(tmp_path, requirements_txt="tiny<2\n")
    backend: Backend = BACKENDS[name]()
    async with workbench(tmp_path, offline(wheels), backend=backend) as bench:
        assert await said(bench, ALWAYS) == ("1.0\n", ())
    built = environments(tmp_path)
    async with workbench(tmp_path, offline(wheels), backend=BACKENDS[name]()) as bench:
        assert await said(bench, PackageOptions()) == ("1.0\n", ())
    assert environments(tmp_path) == built == ["tiny==1.0"]
    assert len([line for line in audit_lines(tmp_path) if line.get("detail") == "installed"]) == 1


async def test_nothing_is_installed_unless_it_is_allowed_and_the_command_runs_without(
    tmp_path: Path, wheels: Path
) -> None:
    put(tmp_path, scripts__requirements_txt="tiny\n")
    async with workbench(tmp_path, offline(wheels)) as bench:
        for mode in (InstallMode.NEVER, InstallMode.ASK):
            output, (warning,) = await said(bench, PackageOptions(install=mode))
            assert "ModuleNotFoundError" in output
            assert warning.startswith("scripts/requirements.txt declares tiny; not installed: allow it with --install")
    assert environments(tmp_path) == []


async def test_the_user_is_asked_once_for_each_version_of_a_skill_and_set_of_packages(
    tmp_path: Path, wheels: Path
) -> None:
    asked: list[ApprovalRequest] = []
    answer: list[bool] = [True]

    async def approve(request: ApprovalRequest) -> bool:
        if request.installs:
            asked.append(request)
        return answer[0] if request.installs else True

    folder = put(tmp_path, requirements_txt="tiny<2\n")
    rules = CommandRules(index=offline(wheels).index, approve_install=approve)
    ask = PackageOptions(install=InstallMode.ASK)
    async with workbench(tmp_path, rules) as bench:
        assert await said(bench, ask) == ("1.0\n", ())
        assert [request.argv for request in asked] == [("install", "tiny<2")]
        shutil.rmtree(tmp_path / "state" / "environments")
        assert await said(bench, ask) == ("1.0\n", ())
        assert len(asked) == 1
        answer[0] = False
        (folder / "requirements.txt").write_text("tiny\n")
        await bench.stage("demo", folder)
        output, warnings = await said(bench, ask)
    assert "ModuleNotFoundError" in output
    assert warnings == ("requirements.txt declares tiny; not installed: the user declined",)
    assert len(asked) == 2
    events = [(line["event"], line.get("argv")) for line in audit_lines(tmp_path)]
    assert ("consent", ["install", "tiny<2"]) in events
    assert ("fail", ["install", "tiny"]) in events


async def test_packages_are_found_by_programs_that_clear_their_variables(tmp_path: Path, wheels: Path) -> None:
    command = 'env -i PATH="$PATH" python3 -c "import tiny; print(tiny.VERSION)"; python -I -c "import tiny"'
    async with workbench(tmp_path, offline(wheels), backend=SandboxBackend()) as bench:
        assert await said(bench, TINY, command) == ("2.0\n", ())


async def test_packages_are_added_to_an_existing_environment(tmp_path: Path, wheels: Path) -> None:
    own = make_venv(tmp_path / "own")
    (next((own / "lib").glob("python3*/site-packages")) / "other.py").write_text("NAME = 'other'\n")
    options = PackageOptions(TINY.packages, own)
    async with workbench(tmp_path, offline(wheels), backend=SandboxBackend()) as bench:
        output, _ = await said(bench, options, "python3 -c 'import other, tiny; print(other.NAME, tiny.VERSION)'")
    assert output == "other 2.0\n"


async def test_packages_that_the_user_names_need_no_further_permission(tmp_path: Path, wheels: Path) -> None:
    async with workbench(tmp_path, offline(wheels)) as bench:
        assert await said(bench, TINY) == ("2.0\n", ())
        assert await said(bench, PackageOptions(PackageSet(("tiny==1.0",)))) == ("1.0\n", ())
    assert sorted(environments(tmp_path)) == ["tiny==1.0", "tiny==2.0"]


async def test_requests_that_resolve_to_the_same_versions_share_an_environment(tmp_path: Path, wheels: Path) -> None:
    async with workbench(tmp_path, offline(wheels)) as bench:
        for line in ("tiny", "tiny>=1", "tiny==2.0"):
            assert (await said(bench, PackageOptions(PackageSet((line,)))))[0] == "2.0\n"
    assert environments(tmp_path) == ["tiny==2.0"]


async def test_a_script_with_inline_metadata_gets_what_it_asks_for(tmp_path: Path, wheels: Path) -> None:
    block = (
        "# /// script\n# dependencies = ['tiny==1.0']\n# ///\nimport sys, tiny\nprint(tiny.VERSION, *sys.argv[1:])\n"
    )
    put(tmp_path, requirements_txt="tiny==2.0\n", run_py=block)
    async with workbench(tmp_path, offline(wheels)) as bench:
        for command in ("python3 run.py 'a b'", "python3 run.py a b | cat"):
            assert await said(bench, ALWAYS, command) == ("1.0 a b\n", ())
        assert await said(bench, ALWAYS) == ("2.0\n", ())


async def test_a_script_for_another_python_is_refused_with_the_reason(tmp_path: Path, wheels: Path) -> None:
    put(tmp_path, run_py="# /// script\n# requires-python = '>=4'\n# dependencies = ['tiny']\n# ///\n")
    async with workbench(tmp_path, offline(wheels)) as bench:
        with pytest.raises(InvalidSkill, match=r"requires Python >=4, but commands use 3\.\d+.*OPENSKILL_PYTHON"):
            await said(bench, ALWAYS, "python3 run.py")


async def test_an_environment_is_read_only_for_the_commands_that_use_it(tmp_path: Path, wheels: Path) -> None:
    async with workbench(tmp_path, offline(wheels), backend=SandboxBackend()) as bench:
        output, _ = await said(
            bench, TINY, "cd $VIRTUAL_ENV/lib/python3*/site-packages; echo 1 >> tiny.py; rm -f tiny.py; " + SAY
        )
    assert output.startswith("2.0\n")
    assert "cannot remove" in output
    assert "Permission denied" in output or output.count("Read-only file system") == 2


HOSTILE_BACKEND = """
import glob, os, socket, sys
def find():
    seen = [path for path in (%r, "/etc/shadow") if os.access(path, os.R_OK)]
    try:
        socket.create_connection(("192.0.2.1", 80), timeout=2)
        seen.append("network")
    except OSError:
        pass
    return seen + sorted(name for name in os.environ if "KEY" in name)
def get_requires_for_build_wheel(settings=None):
    return []
def build_wheel(directory, settings=None, metadata=None):
    name = "nosy-1.0-py3-none-any.whl"
    import zipfile
    with zipfile.ZipFile(os.path.join(directory, name), "w") as made:
        made.writestr("nosy.py", "SEEN = %%r\\n" %% (find(),))
        made.writestr("nosy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: nosy\\nVersion: 1.0\\n")
        made.writestr("nosy-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        made.writestr("nosy-1.0.dist-info/RECORD", "")
    return name
"""


def write_source_distribution(directory: Path, secret: Path, backend: str = "") -> None:
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: nosy\nVersion: 1.0\n",
        "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        "[project]\nname = 'nosy'\nversion = '1.0'\n",
        "backend.py": backend or HOSTILE_BACKEND % str(secret),
    }
    with tarfile.open(directory / "nosy-1.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"nosy-1.0/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))


async def test_a_source_distribution_is_built_where_it_sees_nothing_of_the_user(tmp_path: Path, wheels: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    write_source_distribution(wheels, secret)
    async with workbench(tmp_path, offline(wheels)) as bench:
        output, _ = await said(
            bench, PackageOptions(PackageSet(("nosy",))), "python3 -c 'import nosy; print(nosy.SEEN)'"
        )
    assert output == "[]\n"


HOSTILE_BUILD = """
import os, shutil
def get_requires_for_build_wheel(settings=None):
    return []
def build_wheel(directory, settings=None, metadata=None):
    import zipfile
    %s
    name = "nosy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as made:
        made.writestr("nosy.py", "SEEN = []\\n")
        made.writestr("nosy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: nosy\\nVersion: 1.0\\n")
        made.writestr("nosy-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        made.writestr("nosy-1.0.dist-info/RECORD", "")
    return name
"""
NEST = "os.chdir('/workspace/work/environment'); [(os.mkdir('d'), os.chdir('d')) for _ in range(1500)]; os.chdir('/')"


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            "shutil.rmtree('/workspace/work/environment'); os.symlink('/', '/workspace/work/environment')",
            "cannot install|replaced",
        ),
        (
            "shutil.rmtree('/workspace/work/environment'); os.symlink('/proc/self/cwd', '/workspace/work/environment')",
            "cannot install|replaced",
        ),
        (
            "os.rename('/workspace/work', '/workspace/gone'); os.symlink('gone', '/workspace/work')",
            "cannot install|replaced",
        ),
        (NEST, "too deeply nested"),
    ],
)
async def test_code_of_a_package_cannot_choose_what_becomes_the_environment(
    action: str, message: str, tmp_path: Path, wheels: Path
) -> None:
    write_source_distribution(wheels, tmp_path, HOSTILE_BUILD % action)
    async with workbench(tmp_path, offline(wheels), backend=SandboxBackend()) as bench:
        with pytest.raises((InvalidSkill, ForbiddenPath, InvalidArgument), match=message):
            await said(bench, PackageOptions(PackageSet(("nosy",))))
    assert environments(tmp_path) == []
    assert not list((tmp_path / "state" / "environments").glob(".*"))


async def test_an_environment_is_shared_only_if_its_files_are_equal(tmp_path: Path, wheels: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    name, data = wheel("tiny", "2.0", "VERSION = 'another 2.0'\n")
    (other / name).write_bytes(data)
    async with workbench(tmp_path, offline(other)) as bench:
        assert (await said(bench, TINY))[0] == "another 2.0\n"
    async with workbench(tmp_path, offline(wheels)) as bench:
        assert (await said(bench, TINY))[0] == "2.0\n"
    assert environments(tmp_path) == ["tiny==2.0", "tiny==2.0"]


@contextmanager
def package_server(files: dict[str, bytes], *, login: str = "") -> Generator[tuple[str, list[str]]]:
    """An HTTP server with these files; `login` is required as basic authentication. Yields address and requests."""
    seen: list[str] = []
    expected = f"Basic {base64.b64encode(login.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            seen.append(self.path)
            allowed = not login or self.headers.get("Authorization") == expected
            data = files.get(self.path.partition("?")[0]) if allowed else b""
            self.send_response(200 if data else 404 if allowed else 401)
            if not allowed:
                self.send_header("WWW-Authenticate", 'Basic realm="x"')
            kind = "application/json" if (data or b"").startswith(b"{") else "text/html"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def index_files(wheels: Path) -> dict[str, bytes]:
    files = {f"/files/{path.name}": path.read_bytes() for path in wheels.iterdir()}
    for path in wheels.iterdir():
        page = f"/simple/{path.name.partition('-')[0]}/"
        files[page] = files.get(page, b"") + f'<a href="/files/{path.name}">{path.name}</a>'.encode()
    return files


async def test_only_the_index_can_be_reached_and_its_password_reaches_nobody(tmp_path: Path, wheels: Path) -> None:
    write_source_distribution(wheels, tmp_path)
    with package_server(index_files(wheels), login="me:s3cr3t-word") as (address, seen):
        index = PackageIndex((f"http://me:s3cr3t-word@{address}/simple",))
        async with workbench(tmp_path, CommandRules(index=index)) as bench:
            assert (await said(bench, TINY))[0] == "2.0\n"
            assert "/simple/tiny/" in seen
            output, _ = await said(bench, TINY, "env; cat work/* 2>&1; ls -a")
            with pytest.raises(InvalidSkill, match="nosy") as refused:
                await said(bench, PackageOptions(PackageSet(("nosy",))))
    assert "not built while the index needs a password" in str(refused.value)
    assert "s3cr3t-word" not in output + str(refused.value) + repr(index)
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file() and not path.is_symlink()]
    assert kept
    assert not [path for path in kept if b"s3cr3t-word" in path.read_bytes()]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("missing-package", "the index has no package 'missing-package' for this Python"),
        ("tiny==9", "tiny==9"),
    ],
)
async def test_a_package_that_does_not_exist_is_named_and_nothing_is_left(
    line: str, message: str, tmp_path: Path, wheels: Path
) -> None:
    async with workbench(tmp_path, offline(wheels)) as bench:
        with pytest.raises(InvalidSkill, match=re.escape(message)):
            await said(bench, PackageOptions(PackageSet((line,))))
    assert environments(tmp_path) == []
    assert len(list((tmp_path / "state" / "workspaces").glob("[0-9a-z]*"))) == 1


async def test_two_commands_at_once_build_once(tmp_path: Path, wheels: Path) -> None:
    async with workbench(tmp_path, offline(wheels)) as bench:
        found = await asyncio.gather(*(bench.provide_packages("demo", SAY, TINY) for _ in range(2)))
    assert found[0] == found[1]
    installs = [line for line in audit_lines(tmp_path) if line.get("detail") == "installed"]
    assert len(environments(tmp_path)) == 1
    assert len(installs) == 2


async def test_a_cancelled_build_leaves_nothing_and_can_be_repeated(tmp_path: Path, wheels: Path) -> None:
    async with workbench(tmp_path, offline(wheels)) as bench:
        building = asyncio.create_task(bench.provide_packages("demo", SAY, TINY))
        while len(list((tmp_path / "state" / "workspaces").glob("*/tree"))) < 2:
            await asyncio.sleep(0.01)
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building
        assert environments(tmp_path) == []
        assert len(list((tmp_path / "state" / "workspaces").glob("*/tree"))) == 1
        assert (await said(bench, TINY))[0] == "2.0\n"


async def test_progress_names_the_packages(tmp_path: Path, wheels: Path) -> None:
    lines: list[str] = []
    async with workbench(tmp_path, offline(wheels)) as bench:
        await bench.provide_packages("demo", SAY, TINY, progress=lines.append)
    assert "installed tiny==2.0" in lines


async def test_an_environment_that_was_removed_is_built_again(tmp_path: Path, wheels: Path) -> None:
    async with workbench(tmp_path, offline(wheels)) as bench:
        await said(bench, TINY)
        store = EnvironmentStore(tmp_path / "state" / "environments")
        for one in store.list():
            store.remove(one.id)
        assert environments(tmp_path) == []
        assert (await said(bench, TINY))[0] == "2.0\n"


def tarball(name: str, version: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        files = {
            "package/package.json": json.dumps(
                {
                    "name": name,
                    "version": version,
                    "bin": {"say-small": "bin.js"},
                    "scripts": {"postinstall": "touch /tmp/ran; exit 1"},
                }
            ),
            "package/index.js": "module.exports = () => 'small';\n",
            "package/bin.js": "#!/usr/bin/env node\nconsole.log('from bin');\n",
        }
        for path, text in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm; apt-get install npm")
@pytest.mark.parametrize("name", BACKENDS)
async def test_npm_packages_are_found_by_require_import_and_as_programs(name: str, tmp_path: Path) -> None:
    put(
        tmp_path,
        package_json='{"dependencies": {"small": "^1.0.0"}}',
        a_mjs="import s from 'small'; console.log(s());\n",
    )
    about: dict[str, bytes] = {"/small/-/small-1.0.0.tgz": tarball("small", "1.0.0")}
    with package_server(about) as (address, _):
        dist = {"tarball": f"http://{address}/small/-/small-1.0.0.tgz"}
        version = {"name": "small", "version": "1.0.0", "bin": {"say-small": "bin.js"}, "dist": dist}
        table = {"name": "small", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        about["/small"] = json.dumps(table).encode()
        rules = CommandRules(index=PackageIndex(npm_registry=f"http://{address}/"))
        async with workbench(tmp_path, rules, backend=BACKENDS[name]()) as bench:
            for command in ("node -e \"console.log(require('small')())\"", "node a.mjs"):
                assert await said(bench, ALWAYS, command) == ("small\n", ())
            assert (await said(bench, ALWAYS, "say-small"))[0] == "from bin\n"
    assert environments(tmp_path) == ["npm:small@1.0.0"]
    assert not Path("/tmp/ran").exists()


def make_venv(directory: Path) -> Path:
    venv.create(directory, symlinks=True)
    (packages,) = (directory / "lib").glob("python3*/site-packages")
    (packages / "tiny.py").write_text("VERSION = 'of the environment'\n")
    return directory


@pytest.mark.parametrize("name", BACKENDS)
async def test_an_existing_virtual_environment_is_used_read_only(name: str, tmp_path: Path) -> None:
    chosen = PackageOptions(venv=make_venv(tmp_path / "own"))
    async with workbench(tmp_path, backend=BACKENDS[name]()) as bench:
        assert await said(bench, chosen) == ("of the environment\n", ())
        output, _ = await said(bench, chosen, "touch $VIRTUAL_ENV/new; echo $VIRTUAL_ENV")
        assert output.startswith(f"{tmp_path}/own\n")
    assert (tmp_path / "own" / "new").exists() == (name == "local")


async def test_a_directory_that_is_not_an_environment_is_refused(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        with pytest.raises(InvalidArgument, match=r"venv: '.*' is not a virtual environment"):
            await said(bench, PackageOptions(venv=tmp_path))


async def test_a_skills_own_environment_is_used_if_it_works(tmp_path: Path) -> None:
    own = make_venv(put(tmp_path) / ".venv")
    async with workbench(tmp_path, backend=SandboxBackend()) as bench:
        assert await said(bench, PackageOptions()) == ("of the environment\n", ())
    (own / "bin" / "python").unlink()
    async with workbench(tmp_path, backend=SandboxBackend()) as bench:
        output, (warning,) = await said(bench, PackageOptions())
    assert "ModuleNotFoundError" in output
    assert "its .venv is not used" in warning


async def test_an_environment_that_is_a_link_to_another_project_is_not_used(tmp_path: Path) -> None:
    make_venv(tmp_path / "other")
    (put(tmp_path) / ".venv").symlink_to(tmp_path / "other")
    async with workbench(tmp_path, backend=SandboxBackend()) as bench:
        output, _ = await said(bench, PackageOptions())
    assert "ModuleNotFoundError" in output


async def test_a_link_in_a_skills_environment_makes_no_other_directory_visible(tmp_path: Path) -> None:
    own = make_venv(put(tmp_path) / ".venv")
    private = tmp_path / "private"
    (private / "bin").mkdir(parents=True)
    (private / "lib" / "python3.11").mkdir(parents=True)
    shutil.copy("/bin/true", private / "bin" / "python")
    (private / "key").write_text("secret")
    (own / "bin" / "python").unlink()
    (own / "bin" / "python").symlink_to(private / "bin" / "python")
    async with workbench(tmp_path, backend=SandboxBackend()) as bench:
        output, (warning,) = await said(bench, PackageOptions(), f"cat {private}/key")
    assert "No such file" in output
    assert "commands cannot see its interpreter" in warning


async def test_another_interpreter_gets_another_environment(tmp_path: Path, wheels: Path) -> None:
    other = shutil.copy(os.path.realpath(sys.executable), tmp_path / "python")
    async with workbench(tmp_path, offline(wheels)) as bench:
        await said(bench, TINY)
        builder = PackageBuilder(settings(tmp_path), offline(wheels).index)
        assert await builder.find(TINY.packages, bench.workspace) is not None

        class OtherWorkspace:
            interpreter = f"{other}:1:2"

        assert await builder.find(TINY.packages, OtherWorkspace()) is None  # pyright: ignore[reportArgumentType]
        OtherWorkspace.interpreter = None  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(ExecutorUnavailable, match="cannot use packages of this machine"):
            await builder.find(TINY.packages, OtherWorkspace())  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("version", "specifier", "fits"),
    [
        ("3.11.2", ">=3.11", True),
        ("3.11.2", ">=3.11,<3.12", True),
        ("3.12.0", ">=3.11,<3.12", False),
        ("3.11.2", "==3.11.*", True),
        ("3.11.2", "~=3.10", True),
        ("3.11.2", "~=3.10.0", False),
        ("3.11.2", "!=3.11.2", False),
        ("3.11.2", ">3.11", False),
        ("3.11.2", "<=3.11", True),
        ("3.11.2", ">=3.11 ; whatever", True),
    ],
)
def test_the_version_of_python_is_compared_with_what_a_script_requires(
    version: str, specifier: str, fits: bool
) -> None:
    assert is_version_in(version, specifier) == fits


# What a skill declares.


@pytest.mark.parametrize(
    ("files", "packages", "sources"),
    [
        ({}, "", ()),
        ({"requirements.txt": b"\n# nothing yet\n  \n"}, "", ()),
        ({"requirements.txt": b"rich>=13 # nice\nhttpx[http2]; python_version > '3'\n"},
         "rich>=13, httpx[http2]; python_version > '3'", ("requirements.txt",)),
        ({"scripts/requirements.txt": b"mcp\r\nanthropic\r\n"}, "mcp, anthropic", ("scripts/requirements.txt",)),
        ({"requirements.txt": b"a\n", "scripts/requirements.txt": b"b\n"}, "a, b",
         ("requirements.txt", "scripts/requirements.txt")),
        ({"pyproject.toml": b"[tool.ruff]\nline-length = 100\n"}, "", ()),
        ({"pyproject.toml": b"[project]\ndependencies = ['rich']\n"}, "rich", ("pyproject.toml",)),
        ({"requirements.txt": b"", "pyproject.toml": b"[project]\ndependencies = ['rich']\n"}, "", ()),
        ({"package.json": b'{"dependencies": {"docx": "^9.0.0", "@a/b": ">=1 <3"}}'}, "npm:docx@^9.0.0, npm:@a/b@>=1<3",
         ("package.json",)),
        ({"package.json": b'{"devDependencies": {"jest": "1"}}'}, "", ()),
    ],
)  # fmt: skip
def test_packages_are_found_where_skills_declare_them(
    files: dict[str, bytes], packages: str, sources: tuple[str, ...]
) -> None:
    found = find_declared_packages(files)
    assert (str(found.packages), found.sources, found.warnings) == (packages, sources, ())


def test_lines_that_choose_an_index_or_a_path_are_ignored_with_a_warning() -> None:
    lines = (
        b"--index-url https://evil.example/simple\n-e .\n./local.whl\nrich==1 --hash=sha256:00\nx --global-option=y\n"
    )
    found = find_declared_packages({"requirements.txt": lines})
    assert found.packages.python == ("rich==1 --hash=sha256:00",)
    assert len(found.warnings) == 4
    assert "requirements.txt: '--index-url https://evil.example/simple' is ignored" in found.warnings[0]


def test_lines_that_hide_options_and_constraints_with_addresses_are_ignored() -> None:
    found = find_declared_packages(
        {"pyproject.toml": b'[project]\ndependencies = ["evil>=1\\r--no-binary=evil", "ok"]\n'}
    )
    assert (found.packages.python, len(found.warnings)) == (("ok",), 1)
    files = {"requirements.txt": b"six\n-c c.txt\n", "c.txt": b"six @ http://x.example/evil.tar.gz\nsix<2\n"}
    found = find_declared_packages(files)
    assert found.packages.constraints == ("six<2",)
    assert str(found.packages) == "six, six<2 (constraint)"
    with pytest.raises(InvalidArgument, match="is not a constraint"):
        PackageSet(constraints=("six @ http://x.example/evil.tar.gz",))


def test_included_files_and_constraints_are_read_and_those_beyond_the_skill_are_not() -> None:
    files = {
        "requirements.txt": b"-r reqs/a.txt # with a remark\n--constraint=c.txt\n-rshort.txt\nrich\n-r ../out.txt\n",
        "reqs/a.txt": b"--requirement b.txt\n-r /etc/passwd\n-r https://example.org/r.txt\n-c \\\n  'd d.txt'\none\n",
        "reqs/b.txt": b"-r a.txt\n-r ../requirements.txt\ntwo\n",
        "c.txt": b"rich<14\n",
    }
    assert {*find_declaration_files(files)} >= {
        *("requirements.txt", "reqs/a.txt", "reqs/b.txt", "reqs/d d.txt", "c.txt", "short.txt", "pyproject.toml")
    }
    assert not [name for name in find_declaration_files(files) if name.startswith(("/", ".."))]
    found = find_declared_packages(files).packages
    assert (set(found.python), found.constraints) == ({"rich", "one", "two"}, ("rich<14",))


def test_requirements_that_include_ever_more_files_come_to_an_end() -> None:
    files = {"requirements.txt": b"-r 0.txt\n"} | {f"{n}.txt": f"-r {n + 1}.txt\n".encode() for n in range(1000)}
    assert len(list(find_declaration_files(files))) < 60


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"pyproject.toml": b"x = = 1"}, r"pyproject\.toml: is not valid TOML"),
        ({"pyproject.toml": b"[project]\ndependencies = 'rich'"}, r"pyproject\.toml: `project\.dependencies` must be"),
        ({"requirements.txt": b"\xff\xfe"}, r"requirements\.txt: is not UTF-8"),
        ({"package.json": b"{"}, r"package\.json: is not valid JSON"),
        ({"package.json": b'{"dependencies": ["x"]}'}, r"package\.json: `dependencies` must be an object"),
        ({"package.json": b'{"dependencies": {"x; rm": "1"}}'}, "is not an npm package"),
    ],
)
def test_an_invalid_declaration_is_named(files: dict[str, bytes], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        find_declared_packages(files)


@pytest.mark.parametrize("text", [b"print(1)\n", b"# /// script\n# dependencies = []\n# ///\n", b"\xff# latin\n"])
def test_a_script_that_asks_for_nothing_uses_what_the_skill_declares(text: bytes) -> None:
    files = {"requirements.txt": b"httpx\n", "run.py": text}
    assert find_declared_packages(files, script="run.py") == find_declared_packages(files)


def test_a_faulty_block_is_named_with_script_and_line() -> None:
    with pytest.raises(InvalidArgument, match=r"^scripts/run\.py: line 2: "):
        find_declared_packages({"scripts/run.py": b"# /// script\n# x = =\n# ///\n"}, script="./scripts/run.py")


@pytest.mark.parametrize(
    "text",
    [
        "x>=1\r--no-binary=x",
        "x>=1\x85-r y",
        "x>=1\u2028-r y",
        "x -r y",
        "-e .",
        "--index-url x",
        "./x",
        "a\nb",
        "",
        "x --install-option=y",
        "/etc/passwd",
    ],
)
def test_only_names_of_packages_can_be_requested(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a requirement; use one such as"):
        PackageSet.parse([text])


def test_packages_are_parsed_combined_and_identified_regardless_of_their_order() -> None:
    one = PackageSet.parse(["pypdf>=5", "npm:docx@9"])
    assert (one.python, one.npm) == (("pypdf>=5",), ("docx@9",))
    both = one | PackageSet(("rich", "pypdf>=5"))
    assert both.python == ("pypdf>=5", "rich")
    assert both.digest == (PackageSet(("rich", "pypdf>=5")) | one).digest != one.digest
    assert not PackageSet()


def test_imports_that_are_not_in_the_standard_library_are_found() -> None:
    files = {
        "scripts/a.py": b"import os, PIL.Image\nfrom yaml import safe_load\nimport helpers\nfrom . import x\n",
        "scripts/helpers.py": b"try:\n    import numpy\nexcept ImportError:\n    numpy = None\n",
        "scripts/b.py": b"try:\n    import requests\nexcept ImportError:\n    raise SystemExit('requests')\n",
        "scripts/c.py": b"def late():\n    import lxml.etree\nif TYPE_CHECKING:\n    import pandas\n",
        "scripts/broken.py": b"import (",
        "core/gif.py": b"from core.easing import x\nfrom google import genai\n",
    }
    found = find_imports(files)
    assert found == {
        "PIL": "scripts/a.py", "yaml": "scripts/a.py", "requests": "scripts/b.py", "lxml": "scripts/c.py",
        "google": "core/gif.py",
    }  # fmt: skip
    names = {
        "PIL.Image": "pillow",
        "yaml": "pyyaml",
        "lxml": "lxml",
        "my_tool": "my-tool",
        "google.genai": "google-genai",
    }
    assert {module: distribution_from_module(module) for module in names} == names


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (["python3", "a.py", "x"], "a.py"),
        (["/usr/bin/python3.12", "scripts/a.py"], "scripts/a.py"),
        (["./a.py", "b.py"], "./a.py"),
        (["python", "-u", "a.py"], None),
        (["python3", "-m", "a.py"], None),
        (["python3"], None),
        (["pythonic", "a.py"], None),
        (["bash", "-c", "python3 a.py"], None),
        (["node", "a.py"], None),
        ([], None),
        ("python3 'a b.py' x | cat", "a b.py"),
        ("echo 'unclosed", None),
    ],
)
def test_the_script_of_a_command_is_recognised(command: list[str] | str, script: str | None) -> None:
    assert find_command_script(command) == script
    if not isinstance(command, str):
        assert find_script(command) == script


# Package indexes.


def test_without_settings_packages_come_from_the_public_indexes(tmp_path: Path) -> None:
    index = read_package_index({"PIP_CONFIG_FILE": os.devnull}, tmp_path)
    assert index.find_hosts(npm=False) == ("pypi.org", "files.pythonhosted.org")
    assert index.find_hosts(npm=True) == ("registry.npmjs.org",)
    assert not index.has_credentials


def test_the_settings_of_pip_are_respected(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://me:pw@index.example:8443/simple\nextra-index-url =\n  https://b.example/simple\n"
        f"  file://{tmp_path}/mirror/simple\n[install]\nfind-links = {tmp_path}/wheels\ntrusted-host = index.example\n"
    )
    (tmp_path / "mirror" / "simple").mkdir(parents=True)
    index = read_package_index(
        {"PIP_CONFIG_FILE": str(config), "PIP_TRUSTED_HOST": "other.example"}, tmp_path, ["c.example"]
    )
    assert index.find_hosts(npm=False) == ("c.example", "index.example:8443", "b.example")
    assert index.mounts == (str(tmp_path / "mirror"), str(tmp_path / "wheels"))
    assert (index.has_credentials, index.best_match, index.insecure_hosts) == (True, True, ("other.example",))
    variables = index.build_variables(certificates=None)
    assert variables["PIP_INDEX_URL"] == variables["UV_DEFAULT_INDEX"] == "https://me:pw@index.example:8443/simple"
    assert "pw" not in repr(index)


def test_the_settings_of_uv_come_before_those_of_pip(tmp_path: Path) -> None:
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv.toml").write_text(
        '[[index]]\nname = "my-index"\nurl = "https://uv.example/simple"\ndefault = true\n'
        '[[index]]\nname = "second"\nurl = "https://second.example/simple"\n'
    )
    environment = {
        "XDG_CONFIG_HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "https://pip.example/simple",
        "UV_INDEX_SECOND_USERNAME": "me", "UV_INDEX_SECOND_PASSWORD": "p@ss",
    }  # fmt: skip
    index = read_package_index(environment, tmp_path)
    assert index.urls == ("https://uv.example/simple", "https://me:p%40ss@second.example/simple")
    assert (
        read_package_index({**environment, "UV_DEFAULT_INDEX": "https://x.example/"}, tmp_path).urls[0]
        == "https://x.example/"
    )


def test_an_index_of_uv_without_a_url_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv.toml").write_text('[[index]]\nname = "x"\ndefault = true\n')
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    assert read_package_index(environment, tmp_path).find_hosts(npm=False)[0] == "pypi.org"


def test_a_page_with_wheels_needs_a_valid_address(tmp_path: Path) -> None:
    environment = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "https://me:s3cret@h.example:99999/wheels"}
    with pytest.raises(InvalidArgument, match="not a URL") as raised:
        read_package_index(environment, tmp_path)
    assert "s3cret" not in str(raised.value)


def test_logins_of_netrc_and_npmrc_are_used_for_their_hosts_only(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine pip.example login me password pw\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / ".npmrc").write_text(
        "registry=https://npm.example/x/\n//npm.example/x/:_authToken=abc\n//other.example/:_authToken=no\nfund=false\n"
    )
    environment = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "https://pip.example/simple"}
    index = read_package_index(environment, tmp_path)
    assert index.urls == ("https://me:pw@pip.example/simple",)
    assert (index.npm_registry, index.npm_settings) == (
        "https://npm.example/x/", ("//npm.example/x/:_authToken=abc",)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [("pip.conf", "index-url = https://me:hunter2@x.example/\n"), ("uv.toml", "index = [\n"), ("pip.conf", "\udcff")],
)
def test_a_configuration_file_that_cannot_be_parsed_is_named(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    variable = "PIP_CONFIG_FILE" if name == "pip.conf" else "UV_CONFIG_FILE"
    with pytest.raises(InvalidArgument, match=rf"{name}: not a valid configuration of") as error:
        read_package_index({"PIP_CONFIG_FILE": os.devnull, variable: str(tmp_path / name)}, tmp_path)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    ["ftp://x.example/", "pypi.org", "javascript:1", "me:hunter2@x.example/simple", "https://me:hun/ter2@x.example/"],
)
def test_an_index_must_be_a_url_and_its_password_is_not_shown(url: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a URL; use http, https or file") as error:
        PackageIndex((url,))
    assert "hunter2" not in str(error.value)
    assert "ter2" not in str(error.value)


def test_credentials_are_removed_from_addresses() -> None:
    assert hide_credentials("https://me:pw@h.example:1/x?token=t") == "https://h.example:1/x"
    assert hide_credentials("https://me:p/w@h.example/x") == "https://h.example/x"
    assert hide_credentials("me:pw@h.example/x") == "h.example/x"
    assert hide_credentials("https://h.example/x") == "https://h.example/x"
    assert hide_credentials("https://h.example/x?next=http://token") == "https://h.example/x"


# Hints.


COMMAND = Command(("true",))


def failed(stderr: str, notes: tuple[str, ...] = ()) -> CommandResult:
    return CommandResult(1, EndReason.EXITED, 1, CapturedOutput(), CapturedOutput(stderr.encode()), notes=notes)


@pytest.mark.parametrize(
    ("stderr", "hint"),
    [
        ("ModuleNotFoundError: No module named 'PIL'", "--with pillow"),
        ("Error: Cannot find module 'docx'", "--with npm:docx"),
        ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@a/b' imported from", "--with npm:@a/b"),
        (
            "ERROR: No matching distribution found for pypdf",
            "commands cannot install packages: run again with --with pypdf",
        ),
        ("bash: line 1: soffice: command not found", "apt-get install libreoffice"),
        ("sh: 1: my-tool: not found", "the program 'my-tool' is not installed where commands run;"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'pdftotext'", "apt-get install poppler-utils"),
        (
            "OSError: [Errno 30] Read-only file system: '/usr/x'",
            "(/usr/x): write to out/, work/ or the skill's own folder",
        ),
        ("curl: (6) Could not resolve host: api.example.org", "allow a host with --network api.example.org"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "allow a host with --network HOST"),
        ("KeyError: 'OPENAI_API_KEY'", "add --secret OPENAI_API_KEY"),
        ("Error: ANTHROPIC_API_KEY environment variable not set", "add --secret ANTHROPIC_API_KEY"),
    ],
)
def test_a_failed_command_comes_with_the_remedy(stderr: str, hint: str) -> None:
    (found,) = suggest_remedies(failed(stderr), COMMAND)
    assert hint in found


def test_a_refused_host_is_named_and_what_a_command_has_is_not_suggested() -> None:
    note = "x.example:443 is not on the network allow-list of this command; to allow it, add 'x.example' to the list"
    assert suggest_remedies(failed("", (note,)), replace(COMMAND, network=("y.example",))) == [
        "the host x.example was refused: allow it with --network x.example"
    ]
    assert suggest_remedies(failed("KeyError: 'A_TOKEN'"), replace(COMMAND, secrets={"A_TOKEN": "x"})) == []
    assert suggest_remedies(failed("No such file or directory: 'in.pdf'"), COMMAND) == []


def test_hints_about_hostile_output_take_no_time() -> None:
    for text in ("A_" * 30_000, "missing " * 8_000, ": " * 30_000, "host='" * 9_000, "a" * 60_000 + ": command"):
        suggest_remedies(failed(text), COMMAND)


def test_programs_that_a_skill_calls_are_found_in_commands_and_not_in_prose() -> None:
    files = {
        "SKILL.md": b"Make a node, then go.\n\n```bash\n$ pdftotext a.pdf | jq .\n```\nOr `qpdf --help`, `git`.\n",
        "scripts/a.py": b"subprocess.run(['soffice', '--headless'])\nx = ['make']\nos.system('ffmpeg -i x')\n",
        "scripts/b.sh": b"cd x && pandoc a.md\n",
        "data.csv": b"curl wget",
    }
    assert find_programs(files) == {
        "pdftotext": "SKILL.md", "jq": "SKILL.md", "qpdf": "SKILL.md", "soffice": "scripts/a.py",
        "make": "scripts/a.py", "ffmpeg": "scripts/a.py", "pandoc": "scripts/b.sh",
    }  # fmt: skip


# Inline metadata.


# The expression of the specification.
REFERENCE = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")

PEP723_SCRIPT = """\
#!/usr/bin/env python3
'''Says something.'''
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "requests<3",
#   "rich",
# ]
#
# [tool.uv]
# exclude-newer = "2025-01-01T00:00:00Z"
# ///
import requests
"""


def test_the_block_of_a_script_is_read() -> None:
    found = parse_script_metadata(PEP723_SCRIPT)
    assert found is not None
    assert (found.dependencies, found.requires_python, found.line) == (("requests<3", "rich"), ">=3.11", 3)
    assert found.tool == {"uv": {"exclude-newer": "2025-01-01T00:00:00Z"}}


def test_a_script_with_other_line_ends_is_read_alike() -> None:
    assert parse_script_metadata(PEP723_SCRIPT.replace("\n", "\r\n")) == parse_script_metadata(PEP723_SCRIPT)


def test_an_empty_block_asks_for_nothing() -> None:
    assert parse_script_metadata("# /// script\n#\n# ///") == ScriptMetadata((), None, {}, 1, "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "print()",
        "# /// script\n# dependencies = []\n",
        "# /// script\n# dependencies = []\nprint()\n# ///\n",
        "# /// script\n#dependencies = []\n# ///\n",
        "# /// script\n# ///\n",
        " # /// script\n# a = 1\n# ///\n",
        "# /// script \n# a = 1\n# ///\n",
        "#/// script\n# a = 1\n# ///\n",
        "# //// script\n# a = 1\n# ///\n",
        "# /// other\n# a = 1\n# ///\n",
        "# /// script\n# a = 1\n# /// \n",
    ],
)
def test_what_is_not_a_closed_script_block_is_none(text: str) -> None:
    assert parse_script_metadata(text) is None


def test_blocks_of_other_types_are_left_to_others() -> None:
    found = parse_script_metadata("# /// some-other\n# not toml at all\n# ///\n\n" + PEP723_SCRIPT)
    assert found is not None
    assert found.line == 7


def test_a_closing_line_inside_the_run_of_comments_belongs_to_the_content() -> None:
    with pytest.raises(InvalidArgument, match="script: line 3: the `script` block is not valid TOML"):
        parse_script_metadata("# /// script\n# dependencies = []\n# ///\n# a = 1\n# ///\n")


def test_a_second_block_is_refused_with_both_lines() -> None:
    with pytest.raises(InvalidArgument, match=r"run\.py: line 14: second `script` block, the first is at line 3"):
        parse_script_metadata(PEP723_SCRIPT + PEP723_SCRIPT.partition("'''\n")[2], name="run.py")


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("# a = 1\n# b = = 2", 3, "is not valid TOML: Invalid value"),
        ("# a = 1\n# a = 2", 3, "is not valid TOML: Cannot overwrite"),
        ("# x = '''never closed", 2, "is not valid TOML: "),
        ("# a = 1\n# dependencies = 'requests'", 3, "`dependencies` must be a list of strings"),
        ("#\n# dependencies = ['a', 1]", 3, "`dependencies` must be a list of strings"),
        ("# requires-python = 3.11", 2, "`requires-python` must be a string"),
        ("# tool = 'uv'", 2, "`tool` must be a table"),
        ("# [[tool]]", 2, "`tool` must be a table"),
        ("# x = " + "[" * 5000, 1, "nested too deeply"),
        ("# x = '" + "y" * 70_000 + "'", 1, "more than 65,536 characters"),
    ],
)
def test_a_fault_in_the_block_is_named_with_its_line(content: str, line: int, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^script: line {line}: .*{re.escape(message)}") as error:
        parse_script_metadata(f"# /// script\n{content}\n# ///\n")
    assert "at line" not in str(error.value)


LINES = st.sampled_from(
    ["# /// script", "# /// x-1", "# ///", "#", "# a = 1", "# b = 2", "#c", "", "print()", "# /// ", " # ///", "#  ///"]
)


@given(st.lists(LINES, max_size=12), st.booleans())
def test_the_same_blocks_are_found_as_by_the_expression_of_the_specification(lines: list[str], ends: bool) -> None:
    text = "\n".join(lines) + ("\n" if ends else "")
    expected = [
        (text.count("\n", 0, match.start()) + 1, match["type"], match["content"].splitlines())
        for match in REFERENCE.finditer(text)
    ]
    assert find_blocks(text) == expected


def test_a_long_file_of_opening_lines_is_read_to_its_end() -> None:
    # The expression of the specification would need hours for it.
    assert parse_script_metadata("# /// script\n" * 200_000) is None
