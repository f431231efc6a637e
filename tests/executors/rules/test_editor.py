"""A command that opens an editor finds its text written, by a real shell and a real script."""

import os
import subprocess
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.rules.editor import MAX_TEXT, Editor, editor

TEXT = "first line\n$(id) `id` ' \" \\ %s\nno end of line: ü"


def placed(root: Path, text: str = TEXT, run_dir: str = "runs/run 1") -> Editor:
    """The files as an executor would put them."""
    made = editor(text, root=str(root), run_dir=run_dir, env={})
    for path, data, mode in ((made.text_path, made.text, 0o600), (made.script_path, made.script, 0o700)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
        (root / path).chmod(mode)
    return made


def edit(made: Editor, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Call the editor as git does."""
    command = ["sh", "-c", f'{made.env["EDITOR"]} "$@"', "editor", *arguments]
    return subprocess.run(command, cwd=cwd, env={"PATH": os.defpath}, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["plain", "with blank", 'it\'s "quoted" $HOME', "ünï;code"])
def test_the_last_argument_gets_the_text_wherever_the_workspace_lies(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    made = placed(root)
    assert made.env["EDITOR"] == made.env["VISUAL"]
    target = root / "the file to edit"
    target.write_text("old content that is much longer than the new one " * 20)
    done = edit(made, "+10", "--wait", str(target), cwd=root)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert target.read_text() == TEXT


def test_a_target_that_looks_like_an_option_or_is_new_is_written(tmp_path: Path) -> None:
    made = placed(tmp_path)
    assert edit(made, "-n", cwd=tmp_path).returncode == 0
    assert (tmp_path / "-n").read_text() == TEXT


def test_without_a_target_the_editor_fails(tmp_path: Path) -> None:
    done = edit(placed(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "editor: there is no file to write to\n")


def test_calls_at_the_same_time_do_not_share_anything(tmp_path: Path) -> None:
    first, second = placed(tmp_path, "one", "runs/1"), placed(tmp_path, "two", "runs/2")
    for made, name in ((first, "a"), (second, "b")):
        assert edit(made, name, cwd=tmp_path).returncode == 0
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("one", "two")
    assert (first.text_path, first.script_path) == ("runs/1/.editor/text", "runs/1/.editor/write")


@pytest.mark.parametrize("name", ["EDITOR", "VISUAL"])
def test_an_editor_of_the_callers_own_is_a_contradiction(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"editor_text: cannot be combined with {name} in env; give one"):
        editor("x", root="/w", run_dir="runs/1", env={name: "vi"})


@pytest.mark.parametrize(("text", "why"), [("a\0b", "NUL byte"), ("\ud800", "half a character")])
def test_what_is_no_text_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        editor(text, root="/w", run_dir="runs/1", env={})


def test_more_than_a_mebibyte_is_refused() -> None:
    assert len(editor("x" * MAX_TEXT, root="/w", run_dir="runs/1", env={}).text) == MAX_TEXT
    with pytest.raises(LimitExceeded, match="editor_text: 1,048,578 bytes are too many; 1,048,576 is the most"):
        editor("ü" * (MAX_TEXT // 2 + 1), root="/w", run_dir="runs/1", env={})
