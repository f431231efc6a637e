"""Which file would be run is asked where it would be run, and nothing that lies there answers."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.executors.requests import RunRequest
from openskills.executors.rules.policy import Program
from openskills.executors.rules.resolving import interpreters, program, resolved
from openskills.executors.spec import Command
from openskills.executors.workbench import Workbench
from openskills.sync import run
from tests.executors.benches import workbench

HOME = Command(("true",), skill="demo", cwd="skills/demo", run_dir="runs/asking")


def with_bench(state: Path, scenario: Callable[[Workbench], Awaitable[None]]) -> None:
    async def opened() -> None:
        async with workbench(state) as bench:
            await scenario(bench)

    run(opened())


async def made(bench: Workbench, command: str) -> None:
    assert (await bench.run(RunRequest(command, skill="demo"))).exit_code == 0


def test_a_program_of_the_machine_is_found_with_what_it_really_is(tmp_path: Path) -> None:
    async def scenario(bench: Workbench) -> None:
        found = await program(bench.workspace, "sh -c x", HOME, ("cat", "sh", "/bin/sh", "/no/such"))
        assert found is not None
        assert os.path.samefile(found.file, "/bin/sh")
        assert found.real == os.path.realpath("/bin/sh")
        assert (found.same, found.run_by) == (("sh", "/bin/sh"), ())
        assert await resolved(bench.workspace, ("sh",), HOME) == found.file

    with_bench(tmp_path, scenario)


@pytest.mark.parametrize("name", ["no-such-program", "./no", "scripts", "SKILL.md", "", "-x", "/", "a\nb"])
def test_what_is_no_program_is_not_found(tmp_path: Path, name: str) -> None:
    async def scenario(bench: Workbench) -> None:
        assert await program(bench.workspace, (name,), HOME) is None

    with_bench(tmp_path, scenario)


def test_a_script_of_the_workspace_says_what_runs_it(tmp_path: Path) -> None:
    async def scenario(bench: Workbench) -> None:
        root = bench.workspace.root
        await made(bench, r"printf '#! /usr/bin/env sh\n' > work/x && printf '#!%s x\n' $PWD/work/x > work/y")
        await made(bench, "chmod +x work/x work/y && ln -s ../../work/y work/link && ln -s loop work/loop")
        hello = await program(bench.workspace, "scripts/hello.sh", HOME)
        assert hello is not None
        assert (hello.file, [one.file for one in hello.run_by]) == (f"{root}/skills/demo/scripts/hello.sh", ["/bin/sh"])
        nested = await program(bench.workspace, "work/y", HOME)
        assert nested is not None
        assert nested.real == f"{root}/work/y"
        assert [os.path.basename(one.file) for one in nested.run_by] == ["x", "sh"]
        assert await program(bench.workspace, "work/loop", HOME) is None

    with_bench(tmp_path, scenario)


def test_scripts_that_run_each_other_come_to_an_end(tmp_path: Path) -> None:
    async def scenario(bench: Workbench) -> None:
        await made(bench, r"printf '#!%s\n' $PWD/work/self > work/self && chmod +x work/self")
        found = await program(bench.workspace, "work/self", HOME)
        assert found is not None
        assert {one.file for one in found.run_by} == {f"{bench.workspace.root}/skills/demo/work/self"}

    with_bench(tmp_path, scenario)


def test_the_answer_is_the_same_when_the_workspace_is_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    async def scenario(bench: Workbench) -> None:
        root = bench.workspace.root
        found = await program(bench.workspace, "scripts/hello.sh", HOME)
        assert found is not None
        assert found.file == f"{root}/skills/demo/scripts/hello.sh"
        assert found.real == found.file

    with_bench(tmp_path / "link", scenario)


def test_programs_that_a_command_planted_are_not_asked(tmp_path: Path) -> None:
    async def scenario(bench: Workbench) -> None:
        fake = r"""printf '#!/bin/sh\necho asked >> work/asked; printf /bin/sh\n'"""
        plant = "for name in bash sh readlink head printf; do cp /bin/cat $name; cat ../../work/fake > $name; done"
        await made(bench, f"{fake} > work/fake && mkdir -p .venv/bin && cd .venv/bin && {plant}")
        found = await program(bench.workspace, "ls", HOME)
        assert found is not None
        assert os.path.samefile(found.file, "/bin/ls")
        assert (await bench.workspace.list(["work/asked"])).files == ()

    with_bench(tmp_path, scenario)


def test_variables_of_the_command_do_not_change_the_answer(tmp_path: Path) -> None:
    async def scenario(bench: Workbench) -> None:
        asking = Command(("true",), run_dir="runs/asking", env={"found": "/bin/sh", "own": "x", "real": "y"})
        assert await program(bench.workspace, "no-such-program", asking) is None

    with_bench(tmp_path, scenario)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"#!/bin/sh\necho", ("/bin/sh",)),
        (b"#! /bin/sh -e", ("/bin/sh",)),
        (b"#!/usr/bin/env python3\n", ("python3",)),
        (b"#!/usr/bin/env  python3 \n", ("python3",)),
        (b"#!/usr/bin/env -S uv run\n", ("/usr/bin/env",)),
        (b"#!/usr/bin/env A=b sh\n", ("/usr/bin/env",)),
        (b"#!/usr/bin/env python3 -u\n", ("/usr/bin/env",)),
        (b"#!/usr/bin/env\n", ("/usr/bin/env",)),
        (b"#!\n/bin/sh", ()),
        (b"#!  ", ()),
        (b"\x7fELF#!/bin/sh", ()),
        (b"", ()),
    ],
)
def test_the_first_line_is_read_as_a_kernel_reads_it(head: bytes, expected: tuple[str, ...]) -> None:
    assert interpreters(head) == expected


def test_a_program_has_the_names_of_all_its_links() -> None:
    assert Program("/usr/bin/sh", "/usr/bin/dash").names == {"sh", "dash"}
    assert Program("/usr/bin/ls", "/usr/bin/busybox").names == {"ls"}
