"""Arguments by which programs run something else are found, and command lists hold against tricks with them."""

import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from shutil import which

import pytest

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors import policy_programs
from openskills.executors.commands import CommandRules, CommandRunner
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.executors.policy import CommandPolicy
from openskills.executors.policy_programs import (
    LANGUAGES,
    STARTING_WORDS,
    find_inline_code,
    has_language,
    is_wrapper,
    list_names,
)
from openskills.executors.requests import RunRequest
from openskills.executors.spec import TerminalSize
from tests.executors.benches import audit_lines, demo, workbench

INTERPRETERS = [
    *(
        "python3 -c 'x'",
        "python3.11 -Sc x",
        "python3 -W ignore -c x",
        "python3 -i scripts/x.py",
        "python3",
        "python3 -",
    ),
    *("python3 -m timeit x", "python3 -mpdb x.py", "python3 -u", "python3 /dev/stdin", "python3 /proc/self/fd/0"),
    *("perl -e x", "perl -lne x", "perl -I lib -E x", "perl -Mstrict x.pl", "perl -d x.pl", "perl"),
    *("ruby -e x", "ruby -C dir -ne x", "ruby -rjson", "node -e x", "node --eval=x", "node --ev x", "node -pe x"),
    *("node --title a --eval x", "node --import data:x y.js", "node", "bun x cowsay", "php -r x", "php -B x", "php -a"),
    *(
        "lua -e x",
        "lua -l m -e x",
        "lua -",
        "Rscript -e x",
        "julia -E x",
        "octave --eval x",
        "guile -c x",
        "racket -e x",
    ),
    *("clojure -M -e x", "sbcl --eval x", "groovy -e x", "elixir -e x", "swipl -g x", "tclsh", "osascript -e x"),
]
AWKS = [
    *(
        "awk 'BEGIN{system(\"x\")}'",
        "gawk -f scripts/x.awk -e x",
        "mawk -f work/x.awk",
        "nawk 1 f",
        "awk",
        "awk -fwork/x",
    ),
    *("gawk --source x", "gawk -i x -f scripts/x.awk", "awk -f scripts/x.awk -f work/y", "gawk -l x 1", "gawk -E x"),
]
STARTERS = [
    *("find . -exec cat {} +", "find . -name x -execdir cat {} +", "find . -ok cat", "find -okdir x", "fd -x cat"),
    *("git -c alias.x=!cat x", "git -C dir -calias.x=!cat x", "git --config-env=a=B x", "git config alias.x !cat"),
    *(
        "git rebase -x cat",
        "git rebase --exec cat",
        "git grep -Ocat x",
        "git bisect run cat",
        "git submodule foreach x",
    ),
    *("git clone -u cat x y", "git clone -c a=b x", "git ls-remote --upload-pack=cat x", "git difftool -x cat"),
    *("tar --to-command=cat -xf a", "tar --to-com cat -xf a", "tar -xf a -I cat", "tar xfI a cat", "tar -Icat -cf a b"),
    *(
        "tar -cf a --checkpoint-action=exec=x b",
        "sort --compress-program=cat x",
        "split --filter=cat x",
        "rsync -e x a b",
    ),
    *(
        "sed 1e",
        "sed -n 's/a/b/e' f",
        "sed -e p -e 'e cat' f",
        "sed f --expression='e x'",
        "sed -fwork/x f",
        "sed --e=e f",
    ),
    *(
        "zip -T -TT cat a",
        "wget -e use_askpass=x u",
        "nc -e cat h 1",
        "pandoc --lua-filter=x a",
        "pandoc -Fx a",
        "gs -c x",
    ),
    *(
        "pdflatex -shell-escape x",
        "pdflatex --shell-escape x",
        "make --eval=x",
        "cmake -E env cat",
        "cmake -P x",
        "uv run x",
    ),
    *("npm exec x", "poetry run x", "go run -exec cat x.go", "deno eval x", "ip netns exec a b", "tcpdump -z cat"),
    *("sqlite3 a.db '.shell cat'", "vim -c !cat", "vim.basic x", "view +x", "less x", "m4 x", "dc -e x", "R -e x"),
]
FILTERS = [
    *(
        "sed s/a/b/ f",
        "sed -n 1,5p f",
        "sed -e p -f scripts/x.sed f",
        "sed -f scripts/x.sed f -e e",
        "sed p -f scripts/x",
    ),
    *("sed -nf scripts/x.sed f", "sed -f scripts/x -f out/y f", "sed --file=scripts/x f", "sed f --sandbox", "gsed p"),
    *("awk --sandbox 1 f", "awk -f scripts/x.awk --source x", "sed", "awk x -f scripts/x.awk", "gawk -E scripts/x.awk"),
]
CLOSED = [
    *(
        "python3 -W error scripts/x.py",
        "python3 -v",
        "node --inspect x.js",
        "php -f x.php",
        "git switch -c x",
        "npm ls exec",
    ),
    *("git clean -fdx", "git -C config log", "perl -Ilib x.pl", "julia -O2 x.jl", "clisp -v", "uclampset -m 1 cat"),
]
"""Harmless or not, these are not looked at closely, and are refused."""
FINE = [
    *("python3 scripts/x.py -c y", "python3 -uB scripts/x.py -", "python3 -m json.tool -", "python3 -mvenv x"),
    *("python3 -V", "python3 --version", "python3.11 -I out/made.py --eval z", "perl scripts/x.pl -e", "perl -v"),
    *("perl -w scripts/x.pl", "ruby -w x.rb -e", "node x.js --eval", "node -v", "php x.php -r", "lua x.lua -e"),
    *("awk -f scripts/x.awk f", "awk -F: -v a=b -fscripts/x.awk f", "gawk --version", "Rscript x.R -e"),
    *("find . -name '*.exec' -print", "fd -e py exec", "git log --oneline", "git -C dir commit -m c", "git switch x"),
    *("git rebase main", "git clone u d", "git -p diff --exit-code", "latexmk -pdf x.tex", "deno run x.ts"),
    *("tar -xzf a.tar -C IF", "tar xf I", "tar -cf F --totals b", "tar --list --file=a", "sort -k2 -t: f"),
    *("split -l 5 f", "sed --sandbox e f", "sed -n -i.bake -f scripts/x.sed f", "sed --version", "zip -r a b"),
    *("wget -O e u", "pandoc -o F.pdf a.md", "make -f E all", "npm ls", "uv pip install y", "poetry show"),
    *("sqlite3 -safe a.db 'select 1'", "cat -e x", "ls -exec", "own-tool -c x", "pdflatex x.tex", "rsync -av a b"),
    *("go build ./exec", "cmake -S . -B P", "cmake -DCMAKE_BUILD_TYPE=Release .", "gs -o x y"),
]


def told(command: str) -> str | None:
    """What a command starts by its arguments; `scripts/` is the skill's own."""
    program, *arguments = shlex.split(command)
    return find_inline_code([program], arguments, lambda path: path.startswith("scripts/"))


@pytest.mark.parametrize("command", [*INTERPRETERS, *AWKS, *STARTERS, *FILTERS])
def test_what_starts_something_else_is_found(command: str) -> None:
    assert told(command)


@pytest.mark.parametrize("command", CLOSED)
def test_what_is_not_known_to_be_harmless_is_refused(command: str) -> None:
    assert told(command) or is_wrapper(command.split()[0])


@pytest.mark.parametrize("command", FINE)
def test_scripts_and_a_programs_own_work_are_let_through(command: str) -> None:
    assert told(command) is None


def test_it_is_told_by_the_word_that_does_it() -> None:
    assert told("python3 -uc x") == "-uc"
    assert told("find . -exec cat {} +") == "-exec"
    assert told("git config x y") == "config"
    assert told("python3 -m timeit x") == "-m timeit"
    assert told("python3") == "code from its input"


def test_any_of_the_names_of_a_program_counts() -> None:
    assert find_inline_code(["innocent", "mawk"], ["x"], lambda _: False)


def test_a_file_is_not_a_script_for_programs_that_only_have_a_language() -> None:
    assert [has_language(name) for name in ("mawk", "sed", "vim.tiny", "python3", "cat")] == [
        True,
        True,
        True,
        False,
        False,
    ]


EVASIONS = [
    "awk 'BEGIN{system(\"cat SKILL.md\")}'",
    "perl -e 'system(\"cat SKILL.md\")'",
    "python3 -c 'import os;os.system(\"cat SKILL.md\")'",
    "find SKILL.md -exec cat {} +",
    "git -c alias.x='!cat SKILL.md' x",
    "sed -n '1e cat SKILL.md' SKILL.md",
    "tar --to-command=cat -xf x.tar",
    "vim -c '!cat SKILL.md'",
]


async def test_a_denied_command_is_not_had_by_way_of_another_on_a_real_machine(tmp_path: Path) -> None:
    folder = demo(tmp_path)
    (folder / "scripts" / "one.awk").write_text("BEGIN { print 1 }\n")
    (folder / "scripts" / "two.py").write_text("print(2)\n")

    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(None, ["cat"]))) as bench:
        for words in map(shlex.split, EVASIONS):
            # What a machine does not have cannot be run, whatever the policy says.
            refusal = CommandDenied if which(words[0], path="/usr/bin:/bin") else InvalidArgument
            with pytest.raises(refusal):
                await bench.run(RunRequest(tuple(words), skill="demo"))
        assert (await bench.run(RunRequest("awk -f scripts/one.awk", skill="demo"))).stdout == "1\n"
        assert (await bench.run(RunRequest("python3 scripts/two.py -c", skill="demo"))).stdout == "2\n"
        await bench.workspace.write("out/one.awk", b"BEGIN { system(1) }")
        for made in ("awk -f out/one.awk", "awk -f ../../out/one.awk"):
            with pytest.raises(CommandDenied, match="with code in its arguments runs code that the policy"):
                await bench.run(RunRequest(made, skill="demo"))
        with pytest.raises(CommandDenied):
            await bench.run(RunRequest("awk -f one.awk", skill="demo", cwd="$OUTPUT_DIR"))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("python3.11", "python"),
        ("python3.11-dbg", "python"),
        ("perl5.36-x86_64-linux-gnu", "perl"),
        ("lua5.4", "lua"),
        ("vim.basic", "vim"),
        ("nc.openbsd", "nc"),
        ("R", "r"),
        ("sqlite3", "sqlite3"),
    ],
)
def test_a_program_is_known_with_its_version_and_its_variant(name: str, known: str) -> None:
    assert known in list_names(name)


@pytest.mark.parametrize("name", ["dc3dd", "man2html", "less.py", "git-lfs", "7z", "awkward"])
def test_a_name_that_only_begins_like_another_is_another_program(name: str) -> None:
    assert list_names(name) == (name,)


def test_a_program_is_in_one_part_of_the_table_only() -> None:
    known = (policy_programs.INTERPRETERS, LANGUAGES, policy_programs.FILTERS)
    parts = [*known, STARTING_WORDS.keys() - {"bun"}, {"sqlite3"}]
    names = [name for part in parts for name in part]
    assert len(names) == len(set(names))
    assert not [name for name in names if is_wrapper(name)]
    assert all(name == name.casefold() for name in names)


Start = Callable[[CommandRunner, RunRequest], Awaitable[object]]

SAYS = "#!/bin/sh\necho tricked\n"
PLANTED = r"""
mkdir -p .venv/bin && ln -s /bin/sh work/innocent && ln -s /usr/bin/env work/e
for f in .venv/bin/ls .venv/bin/python work/made.sh; do printf '#!/bin/sh\necho tricked\n' > $f && chmod +x $f; done
printf '#!%s/work/made.sh\n' $PWD > work/nested && printf '#!/usr/bin/env -S sh -c\n' > work/split
printf '#!/usr/bin/env bash\necho tricked\n' > work/by-env && chmod +x work/nested work/split work/by-env
true
"""
ANY_LIST = [
    *("bash -c 'echo tricked'", "sh -c 'echo tricked'", "BASH -c x", "dash", "/bin/sh -c x", "/usr/bin/bash -c x"),
    *("env echo tricked", "/usr/bin/env echo tricked", "xargs echo tricked", "timeout 5 echo tricked", "nohup echo x"),
    *(
        "busybox sh -c 'echo tricked'",
        "setsid echo tricked",
        "nice echo tricked",
        "eval echo tricked",
        ". work/made.sh",
    ),
    *("work/innocent -c 'echo tricked'", "./work/innocent -c x", "/proc/self/cwd/work/innocent -c 'echo tricked'"),
    *("work/e echo tricked", "work/made.sh", "./work/made.sh", ".venv/bin/ls", ".venv/bin/python", "python"),
    *("work/nested", "work/split 'echo tricked'", "work/by-env", "scripts/../work/made.sh", "inputs/../made.sh"),
    *("echo x; echo tricked", "echo $(echo tricked)", "echo x && sh", "echo x | sh", "A=b sh", "echo x\nsh", "`sh`"),
    *("rm -rf out", "/bin/rm -rf out", "/usr/bin/rm out", "RM out", "'r'm out", "r\\m out", "linux64 echo tricked"),
]
PROGRAMS = [
    ("sh", "-c", "echo tricked"),
    ("work/innocent", "-c", "echo tricked"),
    ("rm", "x"),
    ("", "x"),
    ("work/e", "id"),
]


async def to_the_end(bench: CommandRunner, request: RunRequest) -> object:
    return await bench.run(request)


async def talked_to(bench: CommandRunner, request: RunRequest) -> object:
    processes = ProcessTable()
    try:
        return await InteractiveCommands(bench, processes, ProcessOwner("a", "u", "s", "agent")).start(request)
    finally:
        await processes.close()


async def refused(state: Path, policy: CommandPolicy, commands: list[str | tuple[str, ...]], start: Start) -> None:
    async with workbench(state) as bench:
        assert (await bench.run(RunRequest(PLANTED, skill="demo"))).exit_code == 0
    async with workbench(state, CommandRules(policy=policy)) as bench:
        for command in commands:
            terminal = None if start is to_the_end else TerminalSize()
            with pytest.raises((CommandDenied, InvalidArgument)):
                await start(bench, RunRequest(command, skill="demo", terminal=terminal))
    assert [line["event"] for line in audit_lines(state)] == ["begin", "end", *["fail"] * len(commands)]


@pytest.mark.parametrize("start", [to_the_end, talked_to])
@pytest.mark.parametrize("policy", [CommandPolicy.of(["ls", "echo", "python3"]), CommandPolicy.of(None, ["rm"])])
async def test_no_trick_gets_past_a_list(tmp_path: Path, policy: CommandPolicy, start: Start) -> None:
    await refused(tmp_path, policy, [*ANY_LIST, *PROGRAMS], start)


async def test_a_skill_cannot_bring_what_is_taken_for_an_allowed_program(tmp_path: Path) -> None:
    for name in ("python3", "bin/only-here", "bin/ls"):
        (demo(tmp_path) / name).parent.mkdir(exist_ok=True)
        (demo(tmp_path) / name).write_text(SAYS)
        (demo(tmp_path) / name).chmod(0o755)
    commands: list[str | tuple[str, ...]] = ["./python3 x", "only-here", "bin/ls", "./bin/ls", ("./python3",)]
    await refused(tmp_path, CommandPolicy.of(["python3", "only-here"]), commands, to_the_end)


async def test_a_planted_program_is_named_and_the_machines_is_not_run_in_its_place(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        await bench.run(RunRequest(PLANTED, skill="demo"))
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(["ls"]))) as bench:
        with pytest.raises(CommandDenied, match=r"would run \.venv/bin/ls, not the machine's program"):
            await bench.run(RunRequest("ls", skill="demo"))


async def test_another_name_of_a_denied_interpreter_is_denied(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        await bench.run(RunRequest("ln -s $(command -v perl) work/p && cp scripts/hello.sh work/", skill="demo"))
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(None, ["perl", "sh"]))) as bench:
        for command in ("work/p -e 1", "perl -e 1", "scripts/hello.sh"):
            with pytest.raises(CommandDenied, match="is a denied command"):
                await bench.run(RunRequest(command, skill="demo"))


async def test_what_is_not_denied_still_runs(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        venv = "python3 -m venv --without-pip .venv && printf '#!%s\\nprint(1)\\n' $PWD/.venv/bin/python"
        await bench.run(RunRequest(f"{venv} > .venv/bin/tool; chmod +x .venv/bin/tool", skill="demo"))
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(None, ["rm"]))) as bench:
        for command, said in (("scripts/hello.sh", "hello from demo\n"), ("tool", "1\n"), ("echo 'a b'", "a b\n")):
            assert (await bench.run(RunRequest(command, skill="demo"))).stdout == said
