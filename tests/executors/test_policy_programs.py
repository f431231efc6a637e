"""Arguments by which programs run something else are found, and those by which they do their own work are not.

Scripts for sed that start programs are told from those that do not.
"""

import shlex
from pathlib import Path
from shutil import which

import pytest

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.commands import CommandRules
from openskills.executors.policy import CommandPolicy
from openskills.executors.policy_programs import can_sed_execute, find_inline_code, has_language
from openskills.executors.requests import RunRequest
from tests.executors.benches import demo, workbench

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
FINE = [
    *("python3 scripts/x.py -c y", "python3 -u -W error scripts/x.py -", "python3 -m json.tool -", "python3 -mvenv x"),
    *("python3 -V", "python3 --version", "python3.11 -I out/made.py --eval z", "perl scripts/x.pl -e", "perl -v"),
    *("perl -Ilib -w -i.bake scripts/x.pl", "ruby -w x.rb -e", "node x.js --eval", "node --inspect x.js", "node -v"),
    *("php -d memory_limit=1G x.php -r", "php -f x.php", "lua -l m x.lua -e", "Rscript x.R -e", "guile -s x.scm"),
    *("awk -f scripts/x.awk f", "awk -F: -v a=b -fscripts/x.awk f -e", "gawk --version", "julia -O2 x.jl"),
    *("find . -name '*.exec' -print", "fd -e py exec", "git log -c", "git -C dir commit -c HEAD", "git switch -c x"),
    *("git grep -e -O", "git -C config log", "git rebase main", "git clone u d", "git -p diff --exit-code"),
    *(
        "tar -xzf a.tar -C IF",
        "tar xf I",
        "tar -cf F --totals b",
        "tar --list --file=a",
        "sort -k2 -t: f",
        "split -l 5 f",
    ),
    *("sed -n 1,5p f e", "sed -i.bake 's/e/x/' f", "sed -e p -e d f", "sed --sandbox e f", "sed -f scripts/x.sed f"),
    *(
        "sed --quiet '$p' f",
        "sed -E 's/(a)/e/' f",
        "sed --version",
        "zip -r a b",
        "wget -O e u",
        "pandoc -o F.pdf a.md",
    ),
    *(
        "make -f E all",
        "npm ls exec",
        "uv pip install x",
        "poetry show run",
        "sqlite3 -safe a.db 'select 1'",
        "cat -e x",
    ),
    *(
        "ls -exec",
        "own-tool -c x",
        "pdflatex x.tex",
        "rsync -av a b",
        "go build ./exec",
        "cmake -S . -B P",
        "gs -o x y",
    ),
]


def told(command: str) -> str | None:
    """What a command starts by its arguments; `scripts/` is the skill's own."""
    program, *arguments = shlex.split(command)
    return find_inline_code([program], arguments, lambda path: path.startswith("scripts/"))


@pytest.mark.parametrize("command", [*INTERPRETERS, *AWKS, *STARTERS])
def test_what_starts_something_else_is_found(command: str) -> None:
    assert told(command)


@pytest.mark.parametrize("command", FINE)
def test_scripts_and_a_programs_own_work_are_let_through(command: str) -> None:
    assert told(command) is None


def test_it_is_told_by_the_word_that_does_it() -> None:
    assert told("python3 -uc x") == "-c"
    assert told("find . -exec cat {} +") == "-exec"
    assert told("git config x y") == "config"
    assert told("python3 -m timeit x") == "-m timeit"
    assert told("python3") == "code from its input"


def test_any_of_the_names_of_a_program_counts() -> None:
    assert find_inline_code(["innocent", "mawk"], ["x"], lambda _: False)


def test_a_file_is_no_script_for_programs_that_only_have_a_language() -> None:
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
            # What a machine does not have cannot be run, and that is no question of policy.
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


HARMLESS = [
    *("s/a/b/", "s/e/e/g", "1,5p", "$d", "/re/d", "s|a|b|2w out", "/a/,/b/{s/x/y/;d}", "y/abe/xye/", "0~3p", "1~2!d"),
    *(":a;N;$!ba;s/\\n/ /g", "1i\\\ne foo", "a text e", "s/[^/]*$//", "s/[[:alpha:]/]e/x/", "\\,e,p", "/e/I,+3p", "5q"),
    *("# e", "s#a#e#;p", "r file\np", "/a/b end;d;:end", "s/\\/e/x/", "n;d", "s/a/b/I3", "=;p;x;G", "be", ""),
]
STARTING = [
    *("e", "e cat", "1e cat", "1!e cat", "/a/e", "$!{e cat\n}", "s/a/cat/e", "s/a/cat/ge", "s/a/b/;e x", "{e", "}e"),
    *("s/a/b/w f\ne x", "a text\ne", "/a/,/b/e", "\\,a,e", "/a/Ie x", "1,2{p;e x}", ":a e cat", "  e", "~3e", "+2e"),
]


@pytest.mark.parametrize("script", HARMLESS)
def test_a_script_that_only_edits_starts_nothing(script: str) -> None:
    assert not can_sed_execute(script)


@pytest.mark.parametrize("script", STARTING)
def test_an_e_is_found_after_whatever_stands_before_it(script: str) -> None:
    assert can_sed_execute(script)


@pytest.mark.parametrize("script", ["s/a/b", "k", "s", "/a", "s\\a\\b\\", "\\"])
def test_what_cannot_be_read_is_not_trusted(script: str) -> None:
    assert can_sed_execute(script)


def test_what_some_versions_take_for_an_e_is_one() -> None:
    assert can_sed_execute("s,[,],e,")
